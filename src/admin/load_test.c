// SPDX-License-Identifier: Apache-2.0
// Proves: the averages follow e^(-t/window) to a hundredth whatever the steps' lengths, rise to a
// steady rate, fall to nothing, and survive counters at their ends.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <math.h>

#include "admin/load.h"

static const double window_ms[LOAD_WINDOWS] = {60000, 300000, 900000};

static void follows_the_formula(void **state) {
  (void)state;
  static const u64 steps[] = {10000, 1, 999, 60000, 12345, 86400000, 500};
  struct load l = {0};
  double want[LOAD_WINDOWS] = {0};
  u64 counter = 0;
  for (u32 n = 0; n < 300; n++) {
    u64 ms = steps[n % ARRAY_COUNT(steps)];
    u64 more = n % 3 == 0 ? 0 : n * 17;
    counter += more;
    load_step(&l, counter, ms);
    for (u32 i = 0; i < LOAD_WINDOWS; i++) {
      double rate = (double)more * 60000 / (double)ms;
      double f = exp(-(double)ms / window_ms[i]);
      want[i] = rate * (1 - f) + want[i] * f;
      double got = (double)load_hundredths(&l, i) / 100;
      assert_true(fabs(got - want[i]) <= 0.011 + want[i] * 1e-4);
    }
  }
}

static void steady_and_gone(void **state) {
  (void)state;
  struct load l = {0};
  u64 counter = 0;
  for (u32 i = 0; i < 1000; i++) {  // 10 000 s at 6 a minute
    load_step(&l, ++counter, 10000);
  }
  for (u32 i = 0; i < LOAD_WINDOWS; i++) {
    assert_in_range(load_hundredths(&l, i), 598, 600);
  }
  for (u32 i = 0; i < 2000; i++) {
    load_step(&l, counter, 10000);
  }
  for (u32 i = 0; i < LOAD_WINDOWS; i++) {
    assert_int_equal(load_hundredths(&l, i), 0);
  }
}

static void ends(void **state) {
  (void)state;
  struct load l = {0};
  load_step(&l, U64_MAX, 1);
  load_step(&l, U64_MAX, U64_MAX);
  load_step(&l, 0, 1);  // went back
  load_step(&l, U64_MAX, 1);
  for (u32 i = 0; i < LOAD_WINDOWS; i++) {
    assert_true(load_hundredths(&l, i) < 1ull << 60);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(follows_the_formula),
                                     cmocka_unit_test(steady_and_gone), cmocka_unit_test(ends)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
