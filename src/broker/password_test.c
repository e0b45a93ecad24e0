// SPDX-License-Identifier: Apache-2.0
// Proves: every kind of hash that mosquitto_passwd of 1.6, 2.0 and 2.1 writes is read; what is none
// is fatal with its line, and no message shows a hash; unknown users get a steady stand-in from the
// file; a file cut anywhere is read without a step outside.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "broker/password.h"

#include <cmocka.h>

// As mosquitto_passwd of Debian's 2.0.11 wrote them (password "secret"); the third is 2.1's shape.
#define S12 "MTIzNDU2Nzg5MDEy"
#define H64 \
  "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
#define SHA "$6$" S12 "$" H64
#define PBK "$7$101$" S12 "$" H64
#define ARG "$argon2id$v=19$m=47104,t=1,p=1$" H64 "$" H64

static u32 fatal, warned, first_line;
static char text0[120];

static void say(void *user, const struct password_complaint *c) {
  (void)user;
  if (fatal + warned == 0) {
    first_line = c->line;
    snprintf(text0, sizeof text0, "%s", c->text);
  }
  *(c->fatal ? &fatal : &warned) += 1;
  assert_null(strstr(c->text, "MTIz"));
}
static struct siphash_key load_key = {5, 6};
static struct passwords *load_n(const char *text, usize len) {
  u8 *copy = malloc(len + (len == 0));
  memcpy(copy, text, len);
  usize size = password_bytes(bytes_of(copy, len));
  void *memory = aligned_alloc(16, size);
  fatal = warned = 0;
  struct passwords *p =
      password_parse(bytes_of(copy, len), span_of(memory, size), &load_key, say, NULL);
  free(copy);
  if (p == NULL) {
    free(memory);
  }
  return p;
}
static struct passwords *load(const char *text) {
  return load_n(text, strlen(text));
}

static void kinds(void **state) {
  struct password_hash h;
  (void)state;
  struct passwords *p =
      load("# comment\n\nold:" SHA "\n new :  " PBK "  \r\nlast:" ARG ":what else\nu r:" PBK);
  assert_non_null(p);
  assert_int_equal(password_stats(p).users, 4);
  assert_int_equal(password_stats(p).argon2, 1);
  assert_int_equal(password_stats(p).iterations_max, 101);
  assert_true(password_find(p, BYTES_LIT("old"), &h));
  assert_int_equal(h.kind, PASSWORD_SHA512);
  assert_int_equal(h.salt_len, 12);
  assert_memory_equal(h.salt, "123456789012", 12);
  for (u32 i = 0; i < 64; i++) {
    assert_int_equal(h.hash[i], i);
  }
  assert_true(password_find(p, BYTES_LIT("new"), &h));
  assert_int_equal(h.kind, PASSWORD_PBKDF2);
  assert_int_equal(h.iterations, 101);
  assert_true(password_find(p, BYTES_LIT("last"), &h));
  assert_int_equal(h.kind, PASSWORD_ARGON2ID);
  assert_int_equal(h.memory_kib, 47104);
  assert_int_equal(h.salt_len, 64);
  assert_true(password_find(p, BYTES_LIT("u r"), &h));
  char out[200];
  struct writer w = writer_init(span_of(out, sizeof out));
  password_encode(&h, &w);
  out[w.pos] = 0;
  assert_string_equal(out, PBK);
  free(p);
}

static void stand_in(void **state) {
  struct password_hash h, again;
  u32 kind[3] = {0};
  char name[16];
  (void)state;
  struct passwords *p = load("a:" SHA "\nb:" PBK "\nc:" ARG "\n");
  for (u32 i = 0; i < 600; i++) {
    snprintf(name, sizeof name, "nobody%u", i);
    assert_false(password_find(p, bytes_str(name), &h));
    assert_false(password_find(p, bytes_str(name), &again));
    assert_memory_equal(&h, &again, sizeof h);
    kind[h.kind]++;
  }
  assert_true(kind[0] > 100 && kind[1] > 100 && kind[2] > 100);  // as costly as the real ones
  free(p);
  p = load("");
  assert_false(password_find(p, BYTES_LIT("x"), &h));
  assert_int_equal(h.iterations, 101);
  free(p);
}

#define K32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define L32 "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
#define SCR "$scram-sha-256$4096$" S12 "$" K32 "$" L32

// Keys for SCRAM are no passwords and the other way round; who has none gets a salt of his own that
// another start gives him too, and keys that another start does not.
static void scram(void **state) {
  struct password_hash h, again, other;
  char name[16];
  (void)state;
  struct passwords *p = load("a:" PBK "\ns:" SCR "\nb:" SHA "\n");
  assert_int_equal(password_stats(p).scram, 1);
  assert_true(password_find_scram(p, BYTES_LIT("s"), &h));
  assert_int_equal(h.kind, PASSWORD_SCRAM_SHA256);
  assert_int_equal(h.iterations, 4096);
  assert_memory_equal(h.salt, "123456789012", 12);
  for (u32 i = 0; i < 64; i++) {
    assert_int_equal(h.hash[i], i);
  }
  char out[200];
  struct writer w = writer_init(span_of(out, sizeof out));
  password_encode(&h, &w);
  out[w.pos] = 0;
  assert_string_equal(out, SCR);
  assert_false(password_find(p, BYTES_LIT("s"), &h));
  for (u32 i = 0; i < 200; i++) {
    snprintf(name, sizeof name, "nobody%u", i);
    assert_false(password_find(p, bytes_str(name), &h));
    assert_int_not_equal(h.kind, PASSWORD_SCRAM_SHA256);
    assert_false(password_find_scram(p, bytes_str(name), &h));
    assert_int_equal(h.kind, PASSWORD_SCRAM_SHA256);
    assert_int_equal(h.salt_len, 12);
    assert_int_equal(h.iterations, 4096);
    assert_false(password_find_scram(p, bytes_str(name), &again));
    assert_memory_equal(&h, &again, sizeof h);
    assert_true(i == 0 || memcmp(h.salt, other.salt, 12) != 0);
    other = h;
  }
  load_key.k0++;  // another start
  struct passwords *q = load("a:" PBK "\ns:" SCR "\nb:" SHA "\n");
  assert_false(password_find_scram(q, bytes_str(name), &again));
  assert_memory_equal(again.salt, h.salt, 12);
  assert_memory_not_equal(again.hash, h.hash, 64);
  assert_false(password_find_scram(p, BYTES_LIT("a"), &h));
  free(p);
  free(q);
  q = load("a:" PBK "\ns:" SCR "\n");  // another file
  assert_false(password_find_scram(q, bytes_str(name), &h));
  assert_memory_not_equal(again.salt, h.salt, 12);
  free(q);
  q = load("s:" SCR "\n");  // no passwords at all
  assert_false(password_find(q, BYTES_LIT("s"), &h));
  assert_int_equal(h.iterations, 101);
  free(q);
}

static void bad_lines(void **state) {
  static const struct {
    const char *text;
    u32 line;
  } bad[] = {
      {"a:" PBK "\na:" PBK "\n", 2},
      {":" PBK, 1},
      {"  :" PBK, 1},
      {"a:", 1},
      {"a:secret", 1},
      {"a:$5$x$y", 1},
      {"\n\na:$7$0$" S12 "$" H64, 3},
      {"a:$7$1000001$" S12 "$" H64, 1},
      {"a:$7$101$$" H64, 1},
      {"a:$7$101$" S12 "$" S12, 1},
      {"a:$7$101$" S12 "$" H64 "AAAA", 1},
      {"a:$7$101$" S12 "$%", 1},
      {"a:$7$101$" H64 "AAAA$" H64, 1},
      {"a:$6$" S12 "$", 1},
      {"a:$scram-sha-256$4095$" S12 "$" K32 "$" L32, 1},
      {"a:$scram-sha-256$1000001$" S12 "$" K32 "$" L32, 1},
      {"a:$scram-sha-256$x$" S12 "$" K32 "$" L32, 1},
      {"a:$scram-sha-256$4096$$" K32 "$" L32, 1},
      {"a:$scram-sha-256$4096$" H64 "AAAA$" K32 "$" L32, 1},
      {"a:$scram-sha-256$4096$" S12 "$" S12 "$" L32, 1},
      {"a:$scram-sha-256$4096$" S12 "$" K32, 1},
      {"a:$scram-sha-256$4096$" S12 "$" K32 "$" H64, 1},
      {"a:$scram-sha-256$4096$" S12 "$" K32 "$" L32 "$", 1},
      {"a:$scram-sha-1$4096$" S12 "$" K32 "$" L32, 1},
      {"a:$argon2id$v=16$m=47104,t=1,p=1$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=47105,t=1,p=1$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=7,t=1,p=1$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$t=1,p=1$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=8,t=1,p=1,x=1$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=8,t=1,p=1$" H64, 1},
      {"a:$argon2id$v=19$m=47104,t=12,p=1$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=160,t=1,p=17$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=64,t=1,p=9$" H64 "$" H64, 1},
      {"a:$argon2id$v=19$m=4294967304,t=1,p=1$" H64 "$" H64, 1},
  };
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    struct passwords *p = load(bad[i].text);
    if (p != NULL) {
      fail_msg("%s was taken", bad[i].text);
    }
    assert_int_equal(first_line, bad[i].line);
  }
  assert_null(load_n("a\0b:" PBK, sizeof("a_b:" PBK) - 1));
  struct passwords *p = load("a:" PBK "\nno colon\n");
  assert_non_null(p);
  assert_int_equal(warned, 1);
  assert_int_equal(first_line, 2);
  free(p);
}

static void cut_anywhere(void **state) {
  static const char text[] = "a:" SHA "\nb:" ARG "\nd:" SCR "\nc:" PBK;
  struct password_hash h;
  (void)state;
  for (usize n = 0; n < sizeof text; n++) {
    struct passwords *p = load_n(text, n);
    if (p != NULL) {
      (void)password_find(p, BYTES_LIT("b"), &h);
      free(p);
    }
  }
}

// The most that a text wants, and where; comments and what is no argon2id hash want nothing.
static void arena(void **state) {
#define A(m) "$argon2id$v=19$m=" m ",t=1,p=1$c2FsdHNhbHQ$" H64
  static const struct {
    const char *text;
    u32 kib, line;
  } wants[] = {
      {"", 0, 0},
      {"a:" PBK "\n# b:" A("64"), 0, 0},
      {"a:" A("64") "\nb:" A("128") "\nc:" A("128") "\n", 128, 2},
      {"a:" A("47104"), 47104, 1},
      {"a:" A("47105"), 0, 0},  // refused when it is read
      {"a:$argon2id$v=18$m=64,t=1,p=1$x$y", 0, 0},
      {"{\"encoded_password\":\"" A("8") "\"},\n{\"x\":\"" PBK "\",\"y\":\"" A("9") "\"}", 9, 2}};
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(wants); i++) {
    u32 line = 7;
    assert_int_equal(password_argon_kib(bytes_str(wants[i].text), &line), wants[i].kib);
    assert_int_equal(line, wants[i].line);
    for (usize n = 0; n < strlen(wants[i].text); n++) {  // cut anywhere, in a block of its size
      u8 *copy = malloc(n + (n == 0));
      memcpy(copy, wants[i].text, n);
      assert_true(password_argon_kib(bytes_of(copy, n), &line) <= MAX(wants[i].kib, 4710u));
      free(copy);
    }
  }
}

// A hash cut anywhere is refused, or is of the same costs and salt with fewer bytes of the tag -
// which is another tag (RFC 9106 3.3: its length goes into it).
static void argon_cut_anywhere(void **state) {
  static const char text[] = ARG;
  struct password_hash whole, h;
  (void)state;
  assert_null(password_decode(bytes_str(text), &whole));
  u32 taken = 0;
  for (usize n = 0; n < sizeof text - 1; n++) {
    u8 *copy = malloc(n + (n == 0));
    memcpy(copy, text, n);
    if (password_decode(bytes_of(copy, n), &h) == NULL) {
      taken++;
      assert_true(n > sizeof text - 1 - strlen(H64));
      assert_true(h.hash_len >= 16 && h.memory_kib == 47104 && h.salt_len == 64);
      assert_true(h.hash_len < 64 || n >= sizeof text - 3);  // its padding alone is missing
    }
    free(copy);
  }
  assert_true(taken > 0 && taken < 60);
}

static void base64(void **state) {
  u8 in[70], text[100], out[70];
  u32 len = 0;
  (void)state;
  for (u32 n = 0; n < sizeof in; n++) {
    in[n] = (u8)(n * 37 + 200);
    u32 t = base64_encode(bytes_of(in, n), span_of(text, sizeof text));
    assert_true(base64_decode(bytes_of(text, t), span_of(out, n), &len));
    assert_int_equal(len, n);
    assert_memory_equal(out, in, n);
    while (t > 0 && text[t - 1] == '=') {
      t--;
    }
    assert_true(base64_decode(bytes_of(text, t), span_of(out, n), &len) && len == n);
    assert_true(n == 0 || !base64_decode(bytes_of(text, t), span_of(out, n - 1), &len));
  }
  static const char *const bad[] = {"A",    "AB=", "A===",     "AB==C", "A-B_",
                                    "AB C", "=",   "AAA=AAA=", "AB",    "AAAA="};
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    if (base64_decode(bytes_str(bad[i]), span_of(out, sizeof out), &len)) {
      fail_msg("%s was taken", bad[i]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds),     cmocka_unit_test(stand_in),
      cmocka_unit_test(bad_lines), cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(arena),     cmocka_unit_test(argon_cut_anywhere),
      cmocka_unit_test(base64),    cmocka_unit_test(scram)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
