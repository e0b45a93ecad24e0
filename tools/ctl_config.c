// SPDX-License-Identifier: Apache-2.0
// A folder becomes a bundle by the code of --config and goes up in pieces; files come down in
// pieces into a folder that was not there before, so that nothing is ever overwritten.
#include "ctl_config.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "ctl_ask.h"
#include "ctl_table.h"
#include "plat/hosted/hosted.h"

#define PIECE 11000u
#define BUNDLE_MAX (1u << 20)

const struct ctl_options *ctl_config_options;
u32 ctl_config_seconds = 120;
bool ctl_config_confirm_at_once;

static i64 number(u32 object, const char *name) {
  i64 v = 0;
  (void)json_int(&ctl_answer, json_member(&ctl_answer, object, name), 0, INT32_MAX, &v);
  return v;
}

static void print_list(u32 array) {
  for (u32 i = json_first(&ctl_answer, array); i != JSON_NONE;
       i = json_after(&ctl_answer, array, i)) {
    char *text = ctl_text(&ctl_answer, i);
    puts(text);
    free(text);
  }
}

static void show(char **arg) {
  static const struct ctl_column columns[] = {{"file", "FILE", false},
                                              {"length", "BYTES", true},
                                              {"secret", "SECRET", false},
                                              {"sha256", "SHA-256", false},
                                              {NULL, NULL, false}};
  (void)arg;
  ctl_begin("configGet");
  u32 data = ctl_send();
  ctl_check("configGet");
  if (ctl_config_options->json) {
    ctl_raw(data);
    return;
  }
  u32 files = json_member(&ctl_answer, data, "files");
  for (u32 i = json_first(&ctl_answer, files); i != JSON_NONE;
       i = json_after(&ctl_answer, files, i)) {
    ctl_row(columns, &ctl_answer, i);
  }
  ctl_print_rows(columns);
  if (number(data, "trialSeconds") > 0) {
    printf("on trial for %lld more seconds\n", (long long)number(data, "trialSeconds"));
  }
}

// --- get

// The broker is not trusted with our file system: names stay below the folder.
static bool is_harmless(const char *name) {
  return name[0] != '/' && name[0] != 0 && strstr(name, "..") == NULL && strchr(name, '\\') == NULL;
}

static void write_piece(int fd, const char *path, u32 data) {
  static u8 text[65536];
  static u8 piece[49152];
  struct bytes chunk;
  u32 n = 0;
  if (!json_string(&ctl_answer, json_member(&ctl_answer, data, "chunk"), span_of(text, sizeof text),
                   &chunk) ||
      !base64_decode(chunk, span_of(piece, sizeof piece), &n)) {
    die(ctl_where(), "a piece is no base64");
  }
  if (write(fd, piece, n) != (ssize_t)n) {
    die(path, strerror(errno));
  }
}

static void fetch(int folder, const char *name, i64 length) {
  char parent[300];
  for (const char *s = strchr(name, '/'); s != NULL; s = strchr(s + 1, '/')) {
    snprintf(parent, sizeof parent, "%.*s", (int)(s - name), name);
    (void)mkdirat(folder, parent, 0700);
  }
  int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) {
    die(name, strerror(errno));
  }
  for (off_t got = 0; got < length; got = lseek(fd, 0, SEEK_CUR)) {
    ctl_begin("configGet");
    json_field_string(&ctl_request, "file", bytes_str(name));
    json_field_int(&ctl_request, "offset", got);
    u32 data = ctl_send();
    ctl_check(name);
    if (number(data, "length") != length) {
      die(name, "the configuration has changed meanwhile");
    }
    write_piece(fd, name, data);
    if (lseek(fd, 0, SEEK_CUR) == got) {
      die(name, "the broker sends nothing of it");
    }
  }
  if (close(fd) < 0) {
    die(name, strerror(errno));
  }
}

static void get(char **arg) {
  static struct {
    char *name;
    i64 length;
  } wanted[256];
  u32 count = 0;
  ctl_begin("configGet");
  u32 data = ctl_send();
  ctl_check("configGet");
  u32 files = json_member(&ctl_answer, data, "files");
  if (mkdir(arg[0], 0700) < 0) {
    die(arg[0], strerror(errno));
  }
  int folder = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    die(arg[0], strerror(errno));
  }
  for (u32 i = json_first(&ctl_answer, files); i != JSON_NONE && count < ARRAY_COUNT(wanted);
       i = json_after(&ctl_answer, files, i)) {
    bool secret = true;
    char *name = ctl_text(&ctl_answer, json_member(&ctl_answer, i, "file"));
    (void)json_bool(&ctl_answer, json_member(&ctl_answer, i, "secret"), &secret);
    if (secret || !is_harmless(name)) {
      printf("%s: %s\n", name, secret ? "stays there: keys or passwords" : "is no name for a file");
      free(name);
      continue;
    }
    wanted[count].name = name;
    wanted[count++].length = number(i, "length");
  }
  for (u32 i = 0; i < count; i++) {
    fetch(folder, wanted[i].name, wanted[i].length);
    printf("%s: %lld bytes\n", wanted[i].name, (long long)wanted[i].length);
    free(wanted[i].name);
  }
  close(folder);
}

// --- put

static u32 put_piece(struct bytes tar, u32 off, const char *sha256) {
  static u8 text[BASE64_LEN(PIECE)];
  u32 n = (u32)MIN(tar.len - off, (usize)PIECE);
  u32 len = base64_encode(bytes_sub(tar, off, n), span_of(text, sizeof text));
  ctl_begin("configPut");
  json_field_int(&ctl_request, "length", (i64)tar.len);
  json_field_string(&ctl_request, "sha256", bytes_str(sha256));
  json_field_int(&ctl_request, "offset", off);
  json_field_int(&ctl_request, "seconds", ctl_config_seconds);
  json_field_string(&ctl_request, "chunk", bytes_of(text, len));
  return ctl_send();
}

static void confirm(char **arg) {
  (void)arg;
  ctl_begin("configConfirm");
  (void)ctl_send();
  ctl_check("configConfirm");
  puts("confirmed: it counts until the next start or reload");
}

static void put(char **arg) {
  u8 digest[SHA256_DIGEST_LENGTH];
  char sha256[2 * SHA256_DIGEST_LENGTH + 1];
  u32 data = JSON_NONE;
  struct bytes tar = bundle_from_dir(arg[0]);
  if (tar.len > BUNDLE_MAX) {
    die(arg[0], "is more than 1 MiB");
  }
  SHA256(tar.ptr, tar.len, digest);
  for (u32 i = 0; i < sizeof digest; i++) {
    snprintf(sha256 + 2 * i, 3, "%02x", digest[i]);
  }
  for (u32 off = 0; off < tar.len && ctl_fault == NULL; off += PIECE) {
    data = put_piece(tar, off, sha256);
  }
  if (ctl_config_options->json && data != JSON_NONE) {
    ctl_raw(data);
  } else {
    print_list(json_member(&ctl_answer, data, "lines"));
  }
  ctl_check(arg[0]);
  if (ctl_config_confirm_at_once) {
    ctl_close();
    ctl_connect(ctl_config_options);
    confirm(NULL);
  } else if (!ctl_config_options->json) {
    printf("on trial for %u seconds; to keep it: urmqttctl ... config confirm\n",
           ctl_config_seconds);
  }
}

// --- the trial

static void diff(char **arg) {
  static const struct ctl_column columns[] = {
      {"file", "FILE", false}, {"change", "CHANGE", false}, {NULL, NULL, false}};
  (void)arg;
  ctl_begin("configDiff");
  u32 data = ctl_send();
  ctl_check("configDiff");
  if (ctl_config_options->json) {
    ctl_raw(data);
    return;
  }
  u32 files = json_member(&ctl_answer, data, "files");
  for (u32 i = json_first(&ctl_answer, files); i != JSON_NONE;
       i = json_after(&ctl_answer, files, i)) {
    ctl_row(columns, &ctl_answer, i);
  }
  ctl_print_rows(columns);
  print_list(json_member(&ctl_answer, data, "lines"));
}

static void rollback(char **arg) {
  (void)arg;
  ctl_begin("configRollback");
  u32 data = ctl_send();
  print_list(json_member(&ctl_answer, data, "lines"));
  ctl_check("configRollback");
}

static const struct ctl_config_command commands[] = {
    {"show", show, 0}, {"get", get, 1},         {"put", put, 1},
    {"diff", diff, 0}, {"confirm", confirm, 0}, {"rollback", rollback, 0}};

const struct ctl_config_command *ctl_config_find(const char *name) {
  for (u32 i = 0; i < ARRAY_COUNT(commands); i++) {
    if (strcmp(commands[i].name, name) == 0) {
      return &commands[i];
    }
  }
  return NULL;
}
