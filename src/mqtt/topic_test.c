// SPDX-License-Identifier: Apache-2.0
// Proves: which topic names and filters are valid, what a filter matches (against a second,
// differently built matcher over all short topics of a small alphabet), how $share is split.
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "mqtt/topic.h"

static struct bytes str(const char *s) {
  return bytes_of(s, strlen(s));
}

// [MQTT-4.7.0-1] [MQTT-4.7.3-1]
static void names(void **state) {
  (void)state;
  static const char *const good[] = {"a", "/",   "//",  "a/b",       "$SYS/x",
                                     " ", "a b", "/a/", "$share/g/x"};
  static const char *const bad[] = {"", "+", "#", "a/+", "a/#", "a+b", "a#"};
  for (usize i = 0; i < ARRAY_COUNT(good); i++) {
    assert_true(topic_name_valid(str(good[i])));
  }
  for (usize i = 0; i < ARRAY_COUNT(bad); i++) {
    assert_false(topic_name_valid(str(bad[i])));
  }
  assert_false(topic_name_valid(bytes_of("a\0b", 3)));
}

// [MQTT-4.7.1-1] [MQTT-4.7.1-2] 3.1.1 [MQTT-3.8.3-2]
static void filters(void **state) {
  (void)state;
  static const char *const good[] = {
      "a",  "/",          "+",          "#",  "+/+",    "a/+/b",  "a/#",       "+/#",       "/#",
      "/+", "$share/g/a", "$share/g/#", "//", "$SYS/#", "$share", "$shared/x", "$share/g//"};
  static const char *const bad[] = {
      "",          "a+",         "+a",         "a/+b",        "#/",         "a#",
      "a/#/b",     "##",         "++",         "$share/",     "$share/g",   "$share/g/",
      "$share//a", "$share/+/a", "$share/#/a", "$share/g+/a", "$share/g/a+"};
  for (usize i = 0; i < ARRAY_COUNT(good); i++) {
    assert_true(topic_filter_valid(str(good[i])));
  }
  for (usize i = 0; i < ARRAY_COUNT(bad); i++) {
    assert_false(topic_filter_valid(str(bad[i])));
  }
  assert_false(topic_filter_valid(bytes_of("a\0", 2)));
}

// [MQTT-4.7.3-3]
static void lengths(void **state) {
  (void)state;
  char *big = malloc(65536);
  memset(big, 'a', 65536);
  assert_true(topic_name_valid(bytes_of(big, 65535)));
  assert_false(topic_name_valid(bytes_of(big, 65536)));
  assert_true(topic_filter_valid(bytes_of(big, 65535)));
  assert_false(topic_filter_valid(bytes_of(big, 65536)));
  free(big);
}

// [MQTT-4.8.2-2]
static void shared(void **state) {
  (void)state;
  struct bytes group;
  struct bytes inner;
  assert_true(topic_shared(str("$share/grp/a/+/b"), &group, &inner));
  assert_true(bytes_equal_str(group, "grp"));
  assert_true(bytes_equal_str(inner, "a/+/b"));
  assert_false(topic_shared(str("$share"), &group, &inner));
  assert_false(topic_shared(str("$Share/g/a"), &group, &inner));
  assert_false(topic_shared(str("share/g/a"), &group, &inner));
}

// The examples of 4.7 in the standard.
// [MQTT-4.7.2-1] [MQTT-4.7.3-4] [MQTT-3.3.2-3]
static void standard_examples(void **state) {
  (void)state;
  static const struct {
    const char *filter, *name;
    bool match;
  } rows[] = {
      {"sport/tennis/player1/#", "sport/tennis/player1", true},
      {"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
      {"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
      {"sport/#", "sport", true},
      {"sport/tennis/+", "sport/tennis/player1", true},
      {"sport/tennis/+", "sport/tennis/player1/ranking", false},
      {"sport/+", "sport", false},
      {"sport/+", "sport/", true},
      {"+/+", "/finance", true},
      {"/+", "/finance", true},
      {"+", "/finance", false},
      {"#", "$SYS/x", false},
      {"+/monitor/Clients", "$SYS/monitor/Clients", false},
      {"$SYS/#", "$SYS/", true},
      {"$SYS/#", "$SYS", true},
      {"$SYS/monitor/+", "$SYS/monitor/Clients", true},
      {"ACCOUNTS", "Accounts", false},
      {"#", "/", true},
      {"/#", "a", false},
      {"a/+/#", "a/b", true},
      {"a/+/#", "a", false},
      {"a/b", "a/b/c", false},
      {"a/b/c", "a/b", false},
  };
  for (usize i = 0; i < ARRAY_COUNT(rows); i++) {
    assert_int_equal(topic_matches(str(rows[i].filter), str(rows[i].name)), rows[i].match);
  }
}

// Second matcher: levels as arrays, compared one by one. Level k of s, or NULL behind the last.
static bool level(struct bytes s, u32 k, struct bytes *out) {
  usize from = 0;
  for (; k > 0; k--) {
    while (from < s.len && s.ptr[from] != '/') {
      from++;
    }
    if (from == s.len) {
      return false;
    }
    from++;
  }
  usize end = from;
  while (end < s.len && s.ptr[end] != '/') {
    end++;
  }
  *out = bytes_of(s.ptr + from, end - from);
  return true;
}

static bool naive(struct bytes filter, struct bytes name) {
  for (u32 k = 0;; k++) {
    struct bytes f;
    struct bytes n;
    bool has_f = level(filter, k, &f);
    bool has_n = level(name, k, &n);
    if (has_f && f.len == 1 && f.ptr[0] == '#') {
      return k > 0 || name.ptr[0] != '$';
    }
    if (!has_f || !has_n) {
      return has_f == has_n;
    }
    if (f.len == 1 && f.ptr[0] == '+') {
      if (k == 0 && n.len > 0 && n.ptr[0] == '$') {
        return false;
      }
    } else if (f.len != n.len || memcmp(f.ptr, n.ptr, f.len) != 0) {
      return false;
    }
  }
}

// Text number `n` of at most five letters of `alphabet`; false when there are no more.
static bool text(u32 n, const char *alphabet, u8 *out, usize *len) {
  u32 base = (u32)strlen(alphabet);
  u32 power = base;
  for (*len = 1; *len <= 5; ++*len, power *= base) {
    if (n < power) {
      for (usize i = 0; i < *len; i++, n /= base) {
        out[i] = (u8)alphabet[n % base];
      }
      return true;
    }
    n -= power;
  }
  return false;
}

static void matches_like_the_naive_one(void **state) {
  (void)state;
  u8 f[5];
  u8 n[5];
  usize flen;
  usize nlen;
  u32 hits = 0;
  for (u32 i = 0; text(i, "a/+#$", f, &flen); i++) {
    struct bytes filter = bytes_of(f, flen);
    if (!topic_filter_valid(filter)) {
      continue;
    }
    for (u32 k = 0; text(k, "a/$", n, &nlen); k++) {
      struct bytes name = bytes_of(n, nlen);
      bool want = naive(filter, name);
      assert_int_equal(topic_matches(filter, name), want);
      hits += want;
    }
  }
  assert_true(hits > 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),
      cmocka_unit_test(filters),
      cmocka_unit_test(lengths),
      cmocka_unit_test(shared),
      cmocka_unit_test(standard_examples),
      cmocka_unit_test(matches_like_the_naive_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
