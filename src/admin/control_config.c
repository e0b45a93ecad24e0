// SPDX-License-Identifier: Apache-2.0
// The configuration over MQTT: its files out, a bundle in, the trial (trial.h).
//
// F1  Private keys and password files never go out; a bundle that comes in without a file which the
//     one in use has takes that one over, so that reading, changing and giving back works.
// F2  One upload at a time, of one client, piece by piece in order. Whatever else needs its room
//     (a reload, a trial) ends it.
// F3  A trial is confirmed only by a message that came while it was on, over a connection younger
//     than it.
#include "admin/control_inner.h"
#include "admin/log.h"
#include "admin/serve.h"
#include "admin/source.h"
#include "admin/trial.h"
#include "base/base64.h"
#include "base/fmt.h"
#include "tls/digest.h"

#define PIECE_OUT 24576u
#define PIECE_IN 12288u  // of a message of 16 KiB, as base64
#define FILE_NAME_MAX 100u
#define SAID_MAX 64u     // lines of an answer
#define DIFF_MAX 200u    // lines of an answer
#define LINES_MAX 1000u  // of a urmqtt.conf that is compared
#define SECRETS_MAX 32u

// --- out

static bool is_of(struct bytes data, const struct config_file *f) {
  return f->data.ptr == data.ptr && f->name.len > 0;
}

static bool contains(struct bytes data, struct bytes what) {
  for (usize i = 0; i + what.len <= data.len; i++) {
    if (data.ptr[i] == what.ptr[0] && memcmp(data.ptr + i, what.ptr, what.len) == 0) {
      return true;
    }
  }
  return false;
}

// What was secret once stays so, also in a bundle that does not name it as what it is any more.
static struct {
  u8 sha256[SECRETS_MAX][TLS_SHA256_BYTES];
  u32 count;
} secrets;

static bool was_secret(const u8 sha256[TLS_SHA256_BYTES]) {
  for (u32 i = 0; i < secrets.count; i++) {
    if (memcmp(secrets.sha256[i], sha256, TLS_SHA256_BYTES) == 0) {
      return true;
    }
  }
  return false;
}

static bool is_named_secret(const struct config *c, struct bytes data) {
  bool secret = is_of(data, &c->security.password_file) || is_of(data, &c->security.psk_file) ||
                is_of(data, &c->dynsec_file);
  for (u32 i = 0; i < c->listener_count && !secret; i++) {
    const struct config_listener *l = &c->listener[i];
    secret = is_of(data, &l->keyfile) || is_of(data, &l->security.password_file) ||
             is_of(data, &l->security.psk_file);
  }
  for (u32 i = 0; i < c->bridge_count && !secret; i++) {
    secret = is_of(data, &c->bridge[i].keyfile);
  }
  return secret || contains(data, BYTES_LIT("PRIVATE KEY-----"));
}

static bool is_secret(const struct config *c, struct bytes data) {
  u8 digest[TLS_SHA256_BYTES];
  tls_sha256(data, digest);
  return was_secret(digest) || is_named_secret(c, data);
}

static struct bytes name_of(struct bytes tar, const struct ustar_entry *e) {
  return bytes_sub(tar, e->name.off, e->name.len);
}
static struct bytes data_of(struct bytes tar, const struct ustar_entry *e) {
  return bytes_sub(tar, e->data.off, e->data.len);
}

// Keeps in mind which files of the one in use are secret. False: too many.
static bool remember_secrets(void) {
  struct bytes tar = serve_tar();
  struct ustar_entry e;
  u32 pos = 0;
  while (ustar_next(tar, &pos, &e) == ERR_OK) {
    u8 digest[TLS_SHA256_BYTES];
    struct bytes data = data_of(tar, &e);
    tls_sha256(data, digest);
    if (was_secret(digest) || !is_named_secret(serve_current(), data)) {
      continue;
    }
    if (secrets.count == SECRETS_MAX) {
      return false;
    }
    memcpy(secrets.sha256[secrets.count++], digest, sizeof digest);
  }
  return true;
}

static void put_sha256(struct json_out *o, struct bytes data) {
  u8 digest[TLS_SHA256_BYTES];
  char text[2 * TLS_SHA256_BYTES];
  tls_sha256(data, digest);
  for (u32 i = 0; i < sizeof digest; i++) {
    text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
    text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
  }
  json_field_string(o, "sha256", bytes_of(text, sizeof text));
}

// Archives may call a file anything; JSON is UTF-8.
static void put_name(struct json_out *o, struct bytes name) {
  u8 text[4 * USTAR_NAME_MAX];
  struct writer w = writer_init(span_of(text, sizeof text));
  fmt_escaped(&w, name);
  json_field_string(o, "file", writer_bytes(&w));
}

static void put_files(struct control_call *c) {
  struct bytes tar = serve_tar();
  struct ustar_entry e;
  u32 pos = 0;
  json_key(c->out, "files");
  json_open(c->out, '[');
  while (ustar_next(tar, &pos, &e) == ERR_OK) {
    struct bytes data = data_of(tar, &e);
    bool secret = is_secret(serve_current(), data);
    json_open(c->out, '{');
    put_name(c->out, name_of(tar, &e));
    json_field_int(c->out, "length", data.len);
    json_field_bool(c->out, "secret", secret);
    if (!secret) {
      put_sha256(c->out, data);
    }
    json_close(c->out, '}');
  }
  json_close(c->out, ']');
}

const char *control_config_get(struct control_call *c) {
  static u8 piece[BASE64_LEN(PIECE_OUT)];
  u8 room[FILE_NAME_MAX];
  struct bytes name;
  struct bytes data;
  bool one =
      json_string(c->j, json_member(c->j, c->node, "file"), span_of(room, FILE_NAME_MAX), &name);
  u64 off = (u64)control_number(c, "offset", 0);
  if (!one && json_type(c->j, json_member(c->j, c->node, "file")) == JSON_STRING) {
    return "there is no such file";
  }
  if (one && ustar_find(serve_tar(), name, &data) != ERR_OK) {
    return "there is no such file";
  }
  if (one && is_secret(serve_current(), data)) {
    return "the file holds keys or passwords and is not shown";
  }
  if (one && off > data.len) {
    return "the offset is behind the file's end";
  }
  json_key(c->out, "data");
  json_open(c->out, '{');
  if (one) {
    struct bytes part = bytes_sub(data, off, MIN(data.len - off, (usize)PIECE_OUT));
    u32 n = base64_encode(part, span_of(piece, sizeof piece));
    json_field_int(c->out, "length", data.len);
    json_field_string(c->out, "chunk", bytes_of(piece, n));
  } else {
    json_field_int(c->out, "trialSeconds", trial_left_s(c->core));
    put_files(c);
  }
  json_close(c->out, '}');
  return NULL;
}

// --- in

static struct {
  bool on;
  u32 client_len, len, got;
  u8 client[CONTROL_NAME_MAX];
  u8 sha256[TLS_SHA256_BYTES];
  u8 *at;  // the room that it began in
} upload;

static bool hex(struct bytes text, u8 out[TLS_SHA256_BYTES]) {
  if (text.len != 2 * TLS_SHA256_BYTES) {
    return false;
  }
  for (u32 i = 0; i < text.len; i++) {
    u8 x = text.ptr[i];
    u32 v = x >= '0' && x <= '9' ? x - (u32)'0' : x >= 'a' && x <= 'f' ? x - (u32)'a' + 10 : 16u;
    if (v == 16) {
      return false;
    }
    out[i / 2] = (u8)(i % 2 == 0 ? v << 4 : out[i / 2] | v);
  }
  return true;
}

static const char *begin(struct control_call *c) {
  u8 text[2 * TLS_SHA256_BYTES];
  struct bytes digest;
  struct span room = serve_room();
  i64 len = control_number(c, "length", 0);
  upload.on = false;
  if (room.ptr == NULL) {
    return "this machine has no memory for a configuration";
  }
  if (len < USTAR_BLOCK || len > (i64)room.len) {
    return "Invalid/missing length: 512 to 1048576 bytes";
  }
  if (!json_string(c->j, json_member(c->j, c->node, "sha256"), span_of(text, sizeof text),
                   &digest) ||
      !hex(digest, upload.sha256)) {
    return "Invalid/missing sha256: 64 digits 0-9, a-f";
  }
  upload.on = true;
  upload.len = (u32)len;
  upload.got = 0;
  upload.at = room.ptr;
  upload.client_len = (u32)c->client.len;
  memcpy(upload.client, c->client.ptr, c->client.len);
  return NULL;
}

// Adds the files that the bundle lacks and the one in use has (F1). The archive's new length; a
// damaged one's own (trial_begin says what is wrong with it). 0: no room.
static u32 complete(struct span room, u32 len) {
  struct bytes in_use = serve_tar();
  struct bytes given = bytes_of(room.ptr, len);
  struct ustar_entry e;
  u32 end = 0;
  enum err got = ERR_OK;
  for (u32 pos = 0; got == ERR_OK;) {
    got = ustar_next(given, &pos, &e);
    end = got == ERR_OK ? pos : end;
  }
  if (got != ERR_NOT_FOUND) {
    return len;
  }
  end = ALIGN_UP(end, USTAR_BLOCK);  // the last file's padding may be missing
  if (room.len - MIN((usize)end, room.len) < 2 * (usize)USTAR_BLOCK) {
    return 0;
  }
  if (end > len) {
    memset(room.ptr + len, 0, end - len);
  }
  u32 at = 0;
  u32 first = end;
  while (ustar_next(in_use, &at, &e) == ERR_OK) {
    struct bytes there;
    struct span data;
    if (ustar_find(bytes_of(room.ptr, first), name_of(in_use, &e), &there) == ERR_OK) {
      continue;
    }
    if (ustar_add(room, &end, name_of(in_use, &e), e.data.len, &data) != ERR_OK) {
      return 0;
    }
    memcpy(data.ptr, data_of(in_use, &e).ptr, e.data.len);
  }
  return (u32)ustar_finish(room, end).len;
}

// What the console said from line `from` on.
static void put_said(struct control_call *c, u64 from) {
  struct log_entry e;
  json_key(c->out, "lines");
  json_open(c->out, '[');
  for (u32 i = 0; i < SAID_MAX && log_entry(&from, &e); i++, from++) {
    json_put_string(c->out, e.text);
  }
  json_close(c->out, ']');
}

static const char *finish(struct control_call *c) {
  u8 digest[TLS_SHA256_BYTES];
  struct span room = serve_room();
  i64 seconds = control_number(c, "seconds", TRIAL_STANDARD_S);
  upload.on = false;
  tls_sha256(bytes_of(room.ptr, upload.len), digest);
  if (memcmp(digest, upload.sha256, sizeof digest) != 0) {
    return "the bytes do not have this sha256";
  }
  if (seconds < 1 || seconds > TRIAL_MOST_S) {
    return "Invalid seconds: 1 to 600";
  }
  if (!remember_secrets()) {
    return "too many files with keys or passwords were here since the start";
  }
  u64 from = log_next();
  u32 len = complete(room, upload.len);
  const char *bad = "it takes files over from the one in use, and has no room for them";
  bad = len == 0 ? bad : trial_begin(c->core, c->user, len, (u32)seconds);
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_int(c->out, "received", upload.len);
  json_field_int(c->out, "trialSeconds", trial_left_s(c->core));
  put_said(c, from);
  json_close(c->out, '}');
  c->keep_data = true;
  return bad;
}

const char *control_config_put(struct control_call *c) {
  static u8 text[BASE64_LEN(PIECE_IN)];
  struct bytes chunk;
  u32 n;
  i64 off = control_number(c, "offset", -1);
  if (trial_is_on()) {
    return "a configuration is on trial: configConfirm or configRollback first";
  }
  const char *bad = off == 0 ? begin(c) : NULL;
  if (bad != NULL) {
    return bad;
  }
  if (!upload.on || upload.at != serve_room().ptr || off != upload.got ||
      !bytes_equal(c->client, bytes_of(upload.client, upload.client_len))) {
    return "this piece is not the next one: begin again at offset 0";
  }
  if (!json_string(c->j, json_member(c->j, c->node, "chunk"), span_of(text, sizeof text), &chunk) ||
      !base64_decode(chunk, span_of(upload.at + upload.got, upload.len - upload.got), &n) ||
      n == 0) {
    return "Invalid/missing chunk: base64 of at most 12288 bytes, not beyond the length";
  }
  upload.got += n;
  if (upload.got == upload.len) {
    return finish(c);
  }
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_int(c->out, "received", upload.got);
  json_close(c->out, '}');
  return NULL;
}

// --- the trial

const char *control_config_confirm(struct control_call *c) {
  if (!trial_is_on()) {
    return "no configuration is on trial";
  }
  if (c->trial != trial_number() || c->rechecked) {
    return "confirm over a connection made since the configuration came into force: connect again";
  }
  trial_confirm(c->core);
  return NULL;
}

const char *control_config_rollback(struct control_call *c) {
  if (!trial_is_on()) {
    return "no configuration is on trial";
  }
  u64 from = log_next();
  bool good = trial_end(c->core, "configRollback");
  json_key(c->out, "data");
  json_open(c->out, '{');
  put_said(c, from);
  json_close(c->out, '}');
  c->keep_data = true;
  return good ? NULL : "it did not work now and will be tried again";
}

static bool next_line(struct bytes text, usize *pos, struct bytes *line) {
  if (*pos >= text.len) {
    return false;
  }
  usize end = *pos;
  while (end < text.len && text.ptr[end] != '\n') {
    end++;
  }
  *line = bytes_sub(text, *pos, end - *pos);
  *pos = end + 1;
  return true;
}

// Lines of `a` that `b` has not, each behind `sign`; their order does not count.
static void put_lines(struct control_call *c, struct bytes a, struct bytes b, const char *sign,
                      u32 *left) {
  struct bytes line;
  struct bytes other;
  u32 count = 0;
  for (usize pos = 0; *left > 0 && count < LINES_MAX && next_line(a, &pos, &line); count++) {
    bool there = false;
    u32 seen = 0;
    for (usize at = 0; !there && seen < LINES_MAX && next_line(b, &at, &other); seen++) {
      there = bytes_equal(line, other);
    }
    if (!there) {
      u8 text[256];
      struct writer w = writer_init(span_of(text, sizeof text));
      write_str(&w, sign);
      fmt_escaped(&w, bytes_sub(line, 0, MIN(line.len, (usize)60)));
      json_put_string(c->out, writer_bytes(&w));
      (*left)--;
    }
  }
}

// Files of `a` that differ in `b` or are not there.
static void put_changes(struct control_call *c, struct bytes a, struct bytes b, const char *gone,
                        const char *differs) {
  struct ustar_entry e;
  struct bytes other;
  u32 pos = 0;
  while (ustar_next(a, &pos, &e) == ERR_OK) {
    bool there = ustar_find(b, name_of(a, &e), &other) == ERR_OK;
    const char *what = !there ? gone : bytes_equal(data_of(a, &e), other) ? NULL : differs;
    if (what != NULL) {
      json_open(c->out, '{');
      put_name(c->out, name_of(a, &e));
      json_field_string(c->out, "change", bytes_str(what));
      json_close(c->out, '}');
    }
  }
}

const char *control_config_diff(struct control_call *c) {
  struct bytes before = {NULL, 0};
  struct bytes now = {NULL, 0};
  u32 left = DIFF_MAX;
  if (!trial_is_on()) {
    return "no configuration is on trial";
  }
  (void)ustar_find(serve_candidate_tar(), BYTES_LIT("urmqtt.conf"), &before);
  (void)ustar_find(serve_tar(), BYTES_LIT("urmqtt.conf"), &now);
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_int(c->out, "trialSeconds", trial_left_s(c->core));
  json_key(c->out, "files");
  json_open(c->out, '[');
  put_changes(c, serve_candidate_tar(), serve_tar(), "gone", "changed");
  put_changes(c, serve_tar(), serve_candidate_tar(), "new", NULL);
  json_close(c->out, ']');
  json_key(c->out, "lines");
  json_open(c->out, '[');
  put_lines(c, before, now, "-", &left);
  put_lines(c, now, before, "+", &left);
  json_close(c->out, ']');
  json_close(c->out, '}');
  return NULL;
}
