// SPDX-License-Identifier: Apache-2.0
// The part of cmocka that our tests use, for targets whose cmocka Debian does not have here: tests for
// aarch64 run under qemu-aarch64 against the cross C library. A failed assertion leaves its test by
// longjmp, as with cmocka; the output is cmocka's, for tests/run_units.
#pragma once
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
  const char *name;
  void (*test)(void **state);
  int (*setup)(void **state);
  int (*teardown)(void **state);
};

static jmp_buf cross_failed;
static int cross_skipped;

#define cross_check(ok, text)                                                        \
  do {                                                                               \
    if (!(ok)) {                                                                     \
      printf("%s:%d: %s\n", __FILE__, __LINE__, text);                               \
      longjmp(cross_failed, 1);                                                      \
    }                                                                                \
  } while (0)
#define cross_pair(a, op, b)                                                         \
  do {                                                                               \
    unsigned long long cross_a = (unsigned long long)(a);                            \
    unsigned long long cross_b = (unsigned long long)(b);                            \
    if (!(cross_a op cross_b)) {                                                     \
      printf("%s:%d: %#llx, %#llx: %s\n", __FILE__, __LINE__, cross_a, cross_b,       \
             #a " " #op " " #b);                                                     \
      longjmp(cross_failed, 1);                                                      \
    }                                                                                \
  } while (0)
#define assert_true(c) cross_check(c, #c)
#define assert_false(c) cross_check(!(c), "not " #c)
#define assert_null(p) cross_check((p) == NULL, #p " is not NULL")
#define assert_non_null(p) cross_check((p) != NULL, #p " is NULL")
#define assert_int_equal(a, b) cross_pair(a, ==, b)
#define assert_int_not_equal(a, b) cross_pair(a, !=, b)
#define assert_ptr_equal(a, b) cross_check((const void *)(a) == (const void *)(b), #a " is not " #b)
#define assert_memory_equal(a, b, n) cross_check(memcmp(a, b, n) == 0, #a " differs from " #b)
#define assert_memory_not_equal(a, b, n) cross_check(memcmp(a, b, n) != 0, #a " equals " #b)
#define assert_string_equal(a, b) cross_check(strcmp(a, b) == 0, #a " is not " #b)
#define assert_in_range(v, low, high) \
  cross_check((uintmax_t)(v) >= (uintmax_t)(low) && (uintmax_t)(v) <= (uintmax_t)(high), #v " is out of range")
#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...) (printf(__VA_ARGS__), printf("\n"), longjmp(cross_failed, 1))
#define fail() fail_msg("%s:%d: fail", __FILE__, __LINE__)
#define skip() (cross_skipped = 1, longjmp(cross_failed, 1))
#define cmocka_unit_test(f) {#f, f, NULL, NULL}
#define cmocka_unit_test_setup(f, s) {#f, f, s, NULL}
#define cmocka_unit_test_teardown(f, t) {#f, f, NULL, t}
#define cmocka_unit_test_setup_teardown(f, s, t) {#f, f, s, t}
#define cmocka_run_group_tests(tests, setup, teardown) \
  cross_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
  cross_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

static inline int cross_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **),
                            int (*teardown)(void **)) {
  static void *shared;
  static volatile int failed;
  if (setup != NULL && setup(&shared) != 0) {
    printf("[  FAILED  ] group setup\n");
    return 1;
  }
  for (volatile size_t i = 0; i < count; i++) {
    static void *state;
    state = shared;
    cross_skipped = 0;
    int bad = setjmp(cross_failed);
    if (bad == 0) {
      bad = tests[i].setup != NULL && tests[i].setup(&state) != 0;
      if (!bad) {
        tests[i].test(&state);
      }
    }
    if (tests[i].teardown != NULL) {
      tests[i].teardown(&state);
    }
    failed += bad != 0 && !cross_skipped;
    printf("[%s] %s\n", cross_skipped ? "  SKIPPED " : bad ? "  FAILED  " : "       OK ", tests[i].name);
  }
  if (teardown != NULL) {
    teardown(&shared);
  }
  return failed;
}
