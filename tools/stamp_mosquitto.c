// SPDX-License-Identifier: Apache-2.0
// Which lines name files is known from the table of keywords: words that end in "file", "capath"
// and include_dir, unless the keyword is one that is ignored. A file is packed under its path
// without the leading slash, which is where the configuration looks for it first.
#include "stamp_mosquitto.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/keyword.h"
#include "admin/ustar.h"

#define BUNDLE_MAX (16u << 20)
#define PATH_LEN 512u
#define KEYWORDS_MAX 512u

static u8 tar[BUNDLE_MAX];
static u32 tar_len;

static void die(const char *what, const char *why) {
  fprintf(stderr, "urmqtt-stamp: %s: %s\n", what, why);
  exit(1);
}

// --- packing

static struct bytes name_in_bundle(const char *path) {
  struct bytes name = bytes_str(path);
  while (name.len > 0 && name.ptr[0] == '/') {
    name = bytes_skip(name, 1);
  }
  if (strstr(path, "..") != NULL) {
    const char *slash = strrchr(path, '/');
    name = bytes_str(slash != NULL ? slash + 1 : path);
  }
  return name;
}

// Adds the file at `path` as `name`, unless it is there already; returns its contents.
static struct bytes pack_as(const char *path, struct bytes name) {
  struct bytes there;
  struct stat st;
  if (ustar_find(ustar_finish(span_of(tar, sizeof tar), tar_len), name, &there) == ERR_OK) {
    return there;
  }
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) < 0) {
    die(path, strerror(errno));
  }
  struct span data;
  if (!S_ISREG(st.st_mode)) {
    die(path, "is no regular file");
  }
  if (st.st_size > BUNDLE_MAX ||
      ustar_add(span_of(tar, sizeof tar), &tar_len, name, (u32)st.st_size, &data) != ERR_OK) {
    die(path, "is too large, or its path is longer than 99 bytes");
  }
  usize got = 0;
  while (got < data.len) {
    ssize_t n = read(fd, data.ptr + got, data.len - got);
    if (n <= 0) {
      die(path, n < 0 ? strerror(errno) : "became shorter while it was read");
    }
    got += (usize)n;
  }
  close(fd);
  return span_bytes(data);
}

// The files of a folder whose names end in `suffix`.
static void pack_folder(const char *path, const char *suffix) {
  struct dirent **entry;
  int n = scandir(path, &entry, NULL, alphasort);
  if (n < 0) {
    die(path, strerror(errno));
  }
  for (int i = 0; i < n; i++) {
    char file[PATH_LEN];
    struct stat st;
    size_t len = strlen(entry[i]->d_name);
    bool ends =
        len >= strlen(suffix) && strcmp(entry[i]->d_name + len - strlen(suffix), suffix) == 0;
    (void)snprintf(file, sizeof file, "%s/%s", path, entry[i]->d_name);
    if (ends && stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
      (void)pack_as(file, name_in_bundle(file));
    }
    free(entry[i]);
  }
  free(entry);
}

static bool ends_with(struct bytes word, const char *suffix) {
  usize n = strlen(suffix);
  return word.len >= n && memcmp(word.ptr + word.len - n, suffix, n) == 0;
}

static void pack_named(struct bytes text) {
  struct conf_line line;
  u32 pos = 0;
  u32 number = 0;
  while (conf_next(text, &pos, &number, &line)) {
    struct bytes word = bytes_part(text, line.keyword);
    struct bytes value = bytes_part(text, line.value);
    const struct keyword *k = keyword_find(word);
    char path[PATH_LEN];
    if (k == NULL || k->fate == FATE_IGNORED || value.len == 0 || value.len >= sizeof path - 8) {
      continue;
    }
    memcpy(path, value.ptr, value.len);
    path[value.len] = 0;
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) {
      path[n - 1] = 0;
    }
    if (bytes_equal_str(word, "include_dir")) {
      pack_folder(path, ".conf");
    } else if (ends_with(word, "capath")) {
      pack_folder(path, "");
    } else if (ends_with(word, "file")) {
      (void)pack_as(path, name_in_bundle(path));
    }
  }
}

struct bytes mosquitto_bundle(const char *conf_path) {
  pack_named(pack_as(conf_path, BYTES_LIT("urmqtt.conf")));
  // What the included files name; include_dir does not nest.
  struct ustar_entry e;
  u32 pos = 0;
  while (ustar_next(ustar_finish(span_of(tar, sizeof tar), tar_len), &pos, &e) == ERR_OK) {
    if (ends_with(bytes_of(tar + e.name.off, e.name.len), ".conf")) {
      pack_named(bytes_of(tar + e.data.off, e.data.len));
    }
  }
  return ustar_finish(span_of(tar, sizeof tar), tar_len);
}

// --- the report

static bool seen_before(struct bytes word) {
  static struct bytes seen[KEYWORDS_MAX];
  static u32 count;
  for (u32 i = 0; i < count; i++) {
    if (bytes_equal(seen[i], word)) {
      return true;
    }
  }
  if (count < KEYWORDS_MAX) {
    seen[count++] = word;
  }
  return false;
}

static void report_file(struct bytes text) {
  struct conf_line line;
  u32 pos = 0;
  u32 number = 0;
  while (conf_next(text, &pos, &number, &line)) {
    struct bytes word = bytes_part(text, line.keyword);
    const struct keyword *k = keyword_find(word);
    if (seen_before(word)) {
      continue;
    }
    printf("  %-28.*s %s%s%s\n", (int)word.len, (const char *)word.ptr,
           k == NULL ? "unknown" : keyword_fate((enum keyword_fate)k->fate),
           k != NULL && k->why != NULL ? ": " : "", k != NULL && k->why != NULL ? k->why : "");
  }
}

void mosquitto_report(struct bytes bundle) {
  struct ustar_entry e;
  u32 pos = 0;
  printf("keywords:\n");
  while (ustar_next(bundle, &pos, &e) == ERR_OK) {
    if (ends_with(bytes_part(bundle, e.name), ".conf")) {
      report_file(bytes_part(bundle, e.data));
    }
  }
}

void mosquitto_missing(const struct config *config) {
  bool any = false;
  if (config->network_count == 0) {
    printf(
        "missing: network: every NIC will ask DHCP for its address; for a fixed one add\n"
        "  network 192.0.2.10/24 gateway 192.0.2.1\n");
    any = true;
  }
  if (config->listener_count == 0) {
    printf(
        "missing: listener: without one nothing listens; add\n"
        "  listener 1883\n  and who may come in (allow_anonymous true, or certificates)\n");
    any = true;
  }
  if (!any) {
    printf("missing: nothing\n");
  }
}
