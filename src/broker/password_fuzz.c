// SPDX-License-Identifier: Apache-2.0
// Fuzzes the password file in memory of exact size: what is read is found again under its name; a
// hash that was read and is written again is the same; no hash that was read wants more memory than
// password_argon_kib says, which is what the arena is made for.
#include <stdlib.h>
#include <string.h>

#include "broker/password.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}
static void say(void *user, const struct password_complaint *c) {
  u32 *fatal = user;
  check(c->line > 0 && c->text[0] != 0);
  *fatal += c->fatal ? 1 : 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const struct siphash_key key = {1, 9};
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, data, len);
  usize size = password_bytes(bytes_of(copy, len));
  void *memory = aligned_alloc(16, size);
  u32 fatal = 0;
  struct passwords *p =
      password_parse(bytes_of(copy, len), span_of(memory, size), &key, say, &fatal);
  check((p == NULL) == (fatal > 0));
  struct password_hash h, again;
  usize name = 0;
  while (name < len && copy[name] != ':') {
    name++;
  }
  u32 line = 0;
  u32 kib = password_argon_kib(bytes_of(copy, len), &line);
  check(kib <= PASSWORD_ARGON_KIB_MAX && (kib > 0) == (line > 0));
  if (p != NULL) {
    check(password_stats(p).argon_kib_max <= kib);
    bool found = password_find(p, bytes_of(copy, name), &h);
    check(found || password_stats(p).users == 0 || h.hash_len > 0);
    check(h.salt_len <= PASSWORD_SALT_MAX && h.hash_len <= PASSWORD_HASH_LEN);
    check(h.kind != PASSWORD_SCRAM_SHA256);
    if (password_stats(p).scram > 0) {
      bool keys = password_find_scram(p, bytes_of(copy, name), &h);
      check(h.kind == PASSWORD_SCRAM_SHA256 && h.salt_len > 0 && !(keys && found));
    }
  }
  if (password_decode(bytes_of(copy, len), &h) == NULL && h.kind != PASSWORD_ARGON2ID) {
    u8 text[256];
    struct writer w = writer_init(span_of(text, sizeof text));
    password_encode(&h, &w);
    check(w.err == ERR_OK);
    check(password_decode(writer_bytes(&w), &again) == NULL);
    check(memcmp(&h, &again, sizeof h) == 0);
  }
  free(memory);
  free(copy);
  return 0;
}
