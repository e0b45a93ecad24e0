// SPDX-License-Identifier: Apache-2.0
// Proves: each line of mosquitto's table of ACL quirks; what is no line is fatal with its number; a
// file cut anywhere is read without a step outside; 400 000 random questions get the answer of an
// independent slow evaluator; what a question costs is printed.
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include "broker/acl.h"
#include "broker/acl_model_test_support.h"

#include <setjmp.h>

#include <cmocka.h>

static const struct siphash_key key = {1, 2};
static u32 fatal_count, warning_count, first_line;
static char first_text[120];

static void say(void *user, const struct acl_complaint *c) {
  (void)user;
  if (fatal_count + warning_count == 0) {
    first_line = c->line;
    snprintf(first_text, sizeof first_text, "%s", c->text);
  }
  fatal_count += c->fatal ? 1 : 0;
  warning_count += c->fatal ? 0 : 1;
}

// Compiled in a block of exactly acl_bytes.
static struct acl *load_n(const char *text, usize len) {
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, text, len);
  usize size = acl_bytes(bytes_of(copy, len));
  void *memory = aligned_alloc(16, size);
  fatal_count = warning_count = 0;
  struct acl *a = acl_parse(bytes_of(copy, len), span_of(memory, size), &key, say, NULL);
  free(copy);
  if (a == NULL) {
    free(memory);
  } else {
    assert_ptr_equal(a, memory);
  }
  return a;
}
static struct acl *load(const char *text) {
  return load_n(text, strlen(text));
}

static bool ask(const struct acl *a, const char *user, const char *id, enum access_kind kind,
                const char *topic) {
  struct access_who who = {.username = bytes_str(user == NULL ? "" : user),
                           .client_id = bytes_str(id),
                           .has_username = user != NULL};
  return acl_allows(a, &who, kind, bytes_str(topic));
}
#define R ACCESS_READ
#define W ACCESS_WRITE

static void blocks_of_users(void **state) {
  struct acl *a = load(
      "topic read open\n"
      "user alice\n"
      "topic a/b\n"
      "user bob the second \n"
      "topic write a/b\n"
      "user alice\n"
      "topic read more/#\n");
  (void)state;
  assert_non_null(a);
  assert_true(ask(a, NULL, "c", R, "open"));
  assert_false(ask(a, NULL, "c", W, "open"));
  assert_false(ask(a, "alice", "c", R, "open"));  // never the anonymous block
  assert_true(ask(a, "alice", "c", R, "a/b") && ask(a, "alice", "c", W, "a/b"));
  assert_true(ask(a, "alice", "c", R, "more"));  // a second block of hers
  assert_true(ask(a, "alice", "c", R, "more/x/y"));
  assert_false(ask(a, "alice", "c", R, "morex"));
  assert_true(ask(a, "bob the second", "c", W, "a/b"));
  assert_false(ask(a, "bob the second", "c", R, "a/b"));
  assert_false(ask(a, "carol", "c", R, "a/b"));
  free(a);
}

static void deny_first(void **state) {
  struct acl *a = load(
      "user u\n"
      "topic readwrite a/#\n"
      "topic deny a/secret/#\n"
      "pattern read a/#\n"
      "pattern deny p/%c/no\n"
      "pattern p/%c/#\n");
  (void)state;
  assert_true(ask(a, "u", "c", W, "a/x"));
  assert_false(ask(a, "u", "c", W, "a/secret"));
  assert_false(ask(a, "u", "c", R, "a/secret/x"));  // the pattern is not asked any more
  assert_true(ask(a, "v", "c", R, "a/secret/x"));
  assert_true(ask(a, "v", "c", W, "p/c/x"));
  assert_false(ask(a, "v", "c", W, "p/c/no"));
  assert_false(ask(a, "v", "d", W, "p/c/x"));
  assert_int_equal(warning_count, 1);
  assert_int_equal(first_line, 4);
  free(a);
}

static void placeholders(void **state) {
  struct acl *a = load(
      "pattern u/%u/%c\n"
      "pattern x%u/y\n"
      "pattern all/%c/+/#\n"
      "topic t/%c\n");
  (void)state;
  assert_true(ask(a, "me", "id", R, "u/me/id"));
  assert_false(ask(a, "me", "id", R, "u/me/other"));
  assert_false(ask(a, NULL, "id", R, "u//id"));  // %u is not for anonymous clients
  assert_true(ask(a, "", "id", R, "u//id"));     // an empty name is a name
  assert_false(ask(a, "me", "id", R, "xme/y"));  // no whole level: itself
  assert_true(ask(a, "me", "id", R, "x%u/y"));
  assert_true(ask(a, "a/b", "i/d", R, "u/a/b/i/d"));  // names over several levels
  assert_false(ask(a, "a/b", "id", R, "u/a/id"));
  assert_true(ask(a, NULL, "id", R, "all/id/x"));
  assert_true(ask(a, NULL, "id", R, "all/id/x/y/z"));
  assert_false(ask(a, NULL, "id", R, "all/id"));
  assert_true(ask(a, NULL, "id", R, "t/%c"));  // `topic` has no placeholders
  assert_false(ask(a, NULL, "id", R, "t/id"));
  free(a);
}

static void wildcard_names(void **state) {
  struct acl *a = load("user a+\ntopic own\npattern p/%u/#\npattern q/%c\n");
  (void)state;
  assert_true(ask(a, "a+", "id", R, "own"));
  assert_false(ask(a, "a+", "id", R, "p/a+/x"));
  assert_false(ask(a, "a+", "id", R, "q/id"));  // all patterns, not only those with %u
  assert_false(ask(a, "b", "i#d", R, "p/b/x"));
  assert_true(ask(a, "b", "i/d", R, "p/b/x"));
  free(a);
}

static void dollar(void **state) {
  struct acl *a = load("topic #\ntopic +/x\nuser s\ntopic read $SYS/#\npattern %u/x\n");
  (void)state;
  assert_true(ask(a, NULL, "c", R, "a/x"));
  assert_false(ask(a, NULL, "c", R, "$SYS/x"));
  assert_false(ask(a, NULL, "c", R, "$a/x"));
  assert_true(ask(a, "s", "c", R, "$SYS/x"));
  assert_false(ask(a, "s", "c", R, "a"));
  assert_false(ask(a, "$u", "c", R, "$u/x"));
  free(a);
}

static void bad_lines(void **state) {
  static const struct {
    const char *text;
    u32 line;
  } bad[] = {
      {"topic", 1},           {"\n\ntopic   \n", 3},     {"user\n", 1},          {"user  \n", 1},
      {"topic rw a\n", 1},    {"topic read a/#/b\n", 1}, {"topic read a+\n", 1}, {"foo\n", 1},
      {" # indented\n", 1},   {"topic\tread a\n", 1},    {"pattern\n", 1},       {"topics a\n", 1},
      {"user a\nacl x\n", 2}, {"topic read a b#\n", 1},  {"topic #a\n", 1},
  };
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    if (load(bad[i].text) != NULL) {
      fail_msg("%s was taken", bad[i].text);
    }
    assert_int_equal(first_line, bad[i].line);
  }
  assert_null(load_n("topic a\0b", 9));
  assert_null(load("topic rw a\nfoo\nbar\n"));
  assert_int_equal(fatal_count, 3);
  assert_null(load("topic reed a"));
  assert_string_equal(first_text, "read, write, readwrite or deny is wanted, not \"reed\"");
}

static void odd_lines(void **state) {
  struct acl *a =
      load("#comment\r\n\r\n   \n  topic   read    a b/c \t\r\ntopic read\nuser   x  y ");
  (void)state;
  assert_non_null(a);
  assert_true(ask(a, NULL, "c", R, "a b/c"));
  assert_false(ask(a, NULL, "c", W, "a b/c"));
  assert_true(ask(a, NULL, "c", W, "read"));  // one word is the topic
  assert_int_equal(acl_stats(a).users, 1);
  free(a);
  a = load("");
  assert_non_null(a);  // an empty file: nobody may do anything
  assert_false(ask(a, NULL, "c", R, "a") || ask(a, "u", "c", W, "a"));
  free(a);
}

static void cut(void **state) {
  static const char text[] = "#c\nuser a b\ntopic read x/+/#\npattern deny %u/%c\ntopic deny q";
  (void)state;
  for (usize n = 0; n < sizeof text; n++) {
    struct acl *a = load_n(text, n);
    if (a != NULL) {
      (void)ask(a, "a b", "c", R, "x/y/z");
      free(a);
    }
  }
}

static void subscribing(void **state) {
  struct acl *a = load(
      "user u\n"
      "topic read a/+/c\n"
      "topic write w/#\n"
      "topic deny a/no/#\n"
      "topic $SYS/broker/#\n"
      "pattern read p/%u/#\n");
  static const struct {
    const char *filter;
    bool granted;
  } ask_for[] = {
      {"a/b/c", true},         {"a/#", true},      {"#", true},
      {"+/+/c", true},         {"a/b/d", false},   {"w/x", false},
      {"a/no/c", false},       {"a/no/#", false},  {"+/no/c", true},
      {"p/u/x", true},         {"p/v/x", false},   {"p/+/#", true},
      {"p/u", true},           {"$SYS/#", true},   {"$SYS/x", false},
      {"b/#", false},          {"a/b/c/d", false}, {"$share/g/a/b/c", true},
      {"$share/g/w/x", false}, {"+", false},
  };
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(ask_for); i++) {
    if (ask(a, "u", "c", ACCESS_SUBSCRIBE, ask_for[i].filter) != ask_for[i].granted) {
      fail_msg("%s", ask_for[i].filter);
    }
  }
  assert_true(ask(a, "u", "c", ACCESS_UNSUBSCRIBE, "w/x"));
  free(a);
}

// --- against the slow evaluator

static u32 seed = 7;
static u32 rnd(u32 n) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % n;
}
static const char *pick(const char *const *list, u32 n) {
  return list[rnd(n)];
}
#define PICK(list) pick(list, ARRAY_COUNT(list))

static void random_topic(char *out, bool filter) {
  static const char *const words[] = {"a", "b", "", "$SYS", "u1", "id/1", "c1", "%c"};
  static const char *const wild[] = {"+", "a", "b", "%c", "%u", "u1", "", "$SYS", "c1"};
  u32 levels = 1 + rnd(4);
  *out = 0;
  for (u32 i = 0; i < levels; i++) {
    strcat(out, i > 0 ? "/" : "");
    bool rest = filter && i + 1 == levels && rnd(3) == 0;
    strcat(out, rest ? "#" : filter ? PICK(wild) : PICK(words));
  }
  if (*out == 0) {
    strcpy(out, filter ? "#" : "a");
  }
}

static void random_file(char *out) {
  static const char *const users[] = {"u1", "u+", "id/1", "a b"};
  static const char *const modes[] = {"read ", "write ", "readwrite ", "deny ", ""};
  u32 lines = rnd(9);
  *out = 0;
  for (u32 i = 0; i < lines; i++) {
    char filter[64], line[128];
    random_topic(filter, true);
    if (rnd(4) == 0) {
      snprintf(line, sizeof line, "user %s\n", PICK(users));
    } else {
      snprintf(line, sizeof line, "%s %s%s\n", rnd(2) == 0 ? "topic" : "pattern", PICK(modes),
               filter);
    }
    strcat(out, line);
  }
}

static void against_slow(void **state) {
  static const char *const users[] = {"u1", "u+", "id/1", "a b", "", "other", NULL};
  static const char *const ids[] = {"c1", "id/1", "x#", "b", "u1"};
  u32 yes = 0;
  (void)state;
  for (u32 round = 0; round < 8000; round++) {
    char file[2048], topic[64];
    random_file(file);
    struct acl *a = load(file);
    assert_non_null(a);
    for (u32 q = 0; q < 50; q++) {
      random_topic(topic, false);
      const char *user = PICK(users);
      const char *id = PICK(ids);
      bool write = rnd(2) == 0;
      bool want = slow_allows(file, user, id, write, topic);
      yes += want ? 1 : 0;
      if (ask(a, user, id, write ? W : R, topic) != want) {
        fail_msg("user %s id %s %s %s: slow says %d\n%s", user == NULL ? "(none)" : user, id,
                 write ? "write" : "read", topic, want, file);
      }
    }
    free(a);
  }
  assert_true(yes > 15000 && yes < 385000);  // both answers are common
}

// A filter that a deliverable topic proves: SUBSCRIBE is granted whenever some topic that the
// filter matches may be read.
static void subscribe_sound(void **state) {
  (void)state;
  u32 proven = 0;
  for (u32 round = 0; round < 20000; round++) {
    char file[2048], topic[64], filter[64];
    random_file(file);
    random_topic(topic, false);
    random_topic(filter, true);
    bool seen = (topic[0] == '$') == (filter[0] == '$') && slow_match(filter, topic);
    if (!seen || !slow_allows(file, "u1", "c1", false, topic)) {
      continue;
    }
    struct acl *a = load(file);
    proven++;
    if (!ask(a, "u1", "c1", ACCESS_SUBSCRIBE, filter)) {
      fail_msg("%s although %s may be read\n%s", filter, topic, file);
    }
    free(a);
  }
  assert_true(proven > 100);
}

static void cost(void **state) {
  static char file[1u << 20];
  u32 at = 0;
  (void)state;
  for (u32 u = 0; u < 5000; u++) {
    at += (u32)snprintf(file + at, sizeof file - at,
                        "user user%u\ntopic read site/%u/#\ntopic write site/%u/+/state\n"
                        "topic deny site/%u/secret/#\n",
                        u, u, u, u);
  }
  snprintf(file + at, sizeof file - at, "pattern read cmd/%%u/#\npattern write up/%%c/+/data\n");
  struct acl *a = load(file);
  assert_non_null(a);
  struct timespec t0, t1;
  u32 yes = 0;
  clock_gettime(CLOCK_MONOTONIC, &t0);
  for (u32 i = 0; i < 200000; i++) {
    yes += ask(a, "user4711", "c", W, (i & 1) != 0 ? "up/c/7/data" : "site/4711/7/state") ? 1 : 0;
  }
  clock_gettime(CLOCK_MONOTONIC, &t1);
  assert_int_equal(yes, 200000);
  print_message("acl: %.0f ns a question (5000 users, 15002 rules, %u KiB; sanitized)\n",
                ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / 2e5,
                (u32)(acl_bytes(bytes_str(file)) >> 10));
  free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_of_users), cmocka_unit_test(deny_first),
      cmocka_unit_test(placeholders),    cmocka_unit_test(wildcard_names),
      cmocka_unit_test(dollar),          cmocka_unit_test(bad_lines),
      cmocka_unit_test(odd_lines),       cmocka_unit_test(cut),
      cmocka_unit_test(subscribing),     cmocka_unit_test(against_slow),
      cmocka_unit_test(subscribe_sound), cmocka_unit_test(cost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
