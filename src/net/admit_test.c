// SPDX-License-Identifier: Apache-2.0
// Proves: slots follow our own queueing delay and nothing else; silent flows cost no slots once a
// second has shown them; SYNs that wait are served once each, in turn by prefix, while they were
// heard within 3 s; a full ring takes from the prefix that has most; whatever is asked in any
// order, nothing leaks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/admit.h"

#define MS 1000000ull
#define ENTRIES 64u

static struct admit a;
static u64 now;

static void start(u32 floor, u32 ceiling) {
  struct carve carve;
  carve_init(&carve);
  now = 1000 * MS;
  assert_int_equal(admit_init(&a, &carve, ENTRIES, floor, ceiling), ERR_OK);
  admit_tick(&a, now);
}
static void pass(u32 ms) {
  for (u32 i = 0; i < ms; i++) {
    now += MS;
    admit_tick(&a, now);
  }
}
static u32 now_ms(void) {
  return (u32)(now / MS);
}

static struct admit_syn syn_of(u32 prefix, u32 number) {
  return (struct admit_syn){.local = ip_of4(IP4(10, 0, 0, 2)),
                            .remote = ip_of4(IP4(10, prefix & 0xff, 0, 9)),
                            .local_port = 8883,
                            .remote_port = (u16)number,
                            .seq = prefix << 16 | number};
}
static void park(u32 prefix, u32 number) {
  struct admit_syn s = syn_of(prefix, number);
  admit_park(&a, &s, (u64)number * 0x9e3779b97f4a7c15ull >> 20, prefix, now_ms());
}
static u32 next(void) {
  struct admit_syn s;
  return admit_next(&a, now_ms(), &s) ? s.seq : 0;
}

static void test_slots(void **state) {
  (void)state;
  start(4, 100);
  for (u32 i = 0; i < 4; i++) {
    assert_true(admit_free(&a));
    admit_begin(&a, admit_enter(&a));
  }
  assert_false(admit_free(&a));
  admit_give(&a);
  assert_true(admit_free(&a));
  assert_int_equal(a.stats.entered, 4);
  assert_int_equal(a.stats.begun, 4);
}

// Used up without delay: more. Late: fewer, down to the floor. Neither, or nothing known: as it
// was.
static void test_steering(void **state) {
  (void)state;
  start(4, 100);
  for (u32 i = 0; i < 200; i++) {
    admit_begin(&a, admit_enter(&a));
  }
  pass(5000);
  assert_int_equal(a.slots, 4);
  for (u32 i = 0; i < 100; i++) {
    admit_delay(&a, 1 * MS);
    pass(100);
  }
  assert_int_equal(a.slots, 100);
  for (u32 i = 0; i < 100; i++) {
    admit_delay(&a, 30 * MS);
    pass(50);
  }
  assert_int_equal(a.slots, 100);
  for (u32 i = 0; i < 100; i++) {
    admit_delay(&a, 20 * MS);
    admit_delay(&a, 100 * MS);
    pass(50);
  }
  assert_int_equal(a.slots, 4);
}

// Flows of which nothing comes: at first each counts, soon none does.
static void test_silent(void **state) {
  (void)state;
  start(50, 50);
  u32 answered = 0;
  for (u32 ms = 0; ms < 10000; ms++) {
    if (admit_free(&a)) {
      (void)admit_enter(&a);
      answered++;
    }
    if (ms == 50) {
      assert_in_range(answered, 50, 60);
    }
    pass(1);
  }
  assert_in_range(answered, 9000, 10000);
}

// A few that come to something at once, among a thousand silent ones a second: they are not held
// up, also when their work takes a while, and slots are what bounds them.
static void test_few_among_silent(void **state) {
  (void)state;
  start(16, 16);
  u16 busy[8];
  u32 busy_count = 0;
  u32 served = 0;
  for (u32 ms = 0; ms < 10000; ms++) {
    if (admit_free(&a)) {
      (void)admit_enter(&a);
    }
    if (ms >= 2000 && busy_count < ARRAY_COUNT(busy)) {
      assert_true(admit_free(&a));
      busy[busy_count++] = admit_enter(&a);
    }
    pass(1);
    if (ms % 4 == 0 && busy_count == ARRAY_COUNT(busy)) {
      for (u32 i = 0; i < busy_count; i++) {
        admit_begin(&a, busy[i]);
      }
      for (; busy_count > 0; busy_count--, served++) {
        admit_give(&a);
      }
    }
  }
  assert_in_range(served, 5000, 8000);
}

// Far ones (300 ms) all come to something: the slots bound them.
static void test_far(void **state) {
  (void)state;
  start(50, 50);
  u16 flow[300][64];
  u32 count[300] = {0};
  for (u32 ms = 0; ms < 10000; ms++) {
    u32 k = ms % 300;
    for (; count[k] > 0; count[k]--) {
      admit_begin(&a, flow[k][count[k] - 1]);
      admit_give(&a);
    }
    while (admit_free(&a) && count[k] < 64) {
      flow[k][count[k]++] = admit_enter(&a);
    }
    pass(1);
    assert_true(ms < 3000 || a.expected <= 60);
  }
}

static void test_end_in_any_epoch(void **state) {
  (void)state;
  start(50, 50);
  for (u32 wait = 0; wait < 2500; wait += 50) {
    u16 one = admit_enter(&a);
    u16 two = admit_enter(&a);
    pass(wait);
    admit_end(&a, one);
    admit_begin(&a, two);
    admit_give(&a);
    assert_int_equal(a.expected, 0);
    assert_int_equal(a.used, 0);
  }
  (void)admit_enter(&a);
  now += 3600000 * MS;  // nothing ran for an hour
  admit_tick(&a, now);
  assert_int_equal(a.expected, 0);
}

static void test_parked_in_turn(void **state) {
  (void)state;
  start(4, 4);
  assert_int_equal(next(), 0);
  for (u32 i = 1; i <= 5; i++) {
    park(1, i);
  }
  park(2, 1);
  park(3, 1);
  park(1, 5);  // again: one entry
  assert_int_equal(a.waiting, 7);
  static const u32 want[] = {1 << 16 | 1, 2 << 16 | 1, 3 << 16 | 1, 1 << 16 | 2,
                             1 << 16 | 3, 1 << 16 | 4, 1 << 16 | 5, 0};
  for (u32 i = 0; i < ARRAY_COUNT(want); i++) {
    assert_int_equal(next(), want[i]);
  }
  assert_int_equal(a.stats.parked, 7);
  assert_int_equal(a.stats.resumed, 7);
}

// Half a second behind, who began last is served first.
static void test_behind(void **state) {
  (void)state;
  start(4, 4);
  for (u32 i = 1; i <= 4; i++) {
    park(1, i);
    pass(100);
  }
  park(1, 1);
  assert_int_equal(next(), 1 << 16 | 1);
  pass(400);
  assert_int_equal(next(), 1 << 16 | 4);
  park(1, 5);
  assert_int_equal(next(), 1 << 16 | 5);
  assert_int_equal(next(), 1 << 16 | 3);
  assert_int_equal(next(), 1 << 16 | 2);
}

static void test_patience(void **state) {
  (void)state;
  start(4, 4);
  park(1, 1);
  park(1, 2);
  pass(2000);
  park(1, 2);  // heard again
  pass(ADMIT_PATIENCE_MS - 2000);
  park(1, 3);
  pass(1);
  assert_int_equal(next(), 1 << 16 | 3);
  assert_int_equal(next(), 1 << 16 | 2);
  assert_int_equal(next(), 0);
  assert_int_equal(a.stats.expired, 1);
}

static void test_full(void **state) {
  (void)state;
  start(4, 4);
  for (u32 i = 1; i <= ENTRIES; i++) {
    park(1, i);
  }
  park(1, 1000);  // the crowd's oldest goes
  park(2, 7);     // also for another
  assert_int_equal(a.stats.given_up, 2);
  assert_int_equal(a.waiting, ENTRIES);
  assert_int_equal(next(), 1 << 16 | 3);
  assert_int_equal(next(), 2 << 16 | 7);
  start(4, 4);
  for (u32 i = 1; i <= 40; i++) {
    park(1, i);
    park(2, i);
  }
  park(3, 1);
  assert_int_equal(a.queue[3].count, 1);
  assert_int_equal(a.queue[1].count + a.queue[2].count, ENTRIES - 1);
  assert_in_range(a.queue[1].count, ENTRIES / 2 - 1, ENTRIES / 2);
}

static void test_any_order(void **state) {
  (void)state;
  srand(7);
  start(4, 40);
  for (u32 i = 0; i < 200000; i++) {
    u32 what = (u32)rand() % 10;
    if (what < 6) {
      park((u32)rand() % 7, (u32)rand() % 300);
    } else if (what < 9) {
      (void)next();
    } else {
      pass((u32)rand() % 40);
    }
    u32 sum = 0;
    for (u32 p = 0; p < ADMIT_PREFIXES; p++) {
      sum += a.queue[p].count;
    }
    assert_int_equal(sum, a.waiting);
    assert_true(a.waiting <= ENTRIES);
  }
  pass(10000);
  for (u32 i = 0; i < 10; i++) {
    assert_int_equal(next(), 0);
  }
  assert_int_equal(a.waiting, 0);
  assert_int_equal(a.stats.parked, a.stats.resumed + a.stats.expired + a.stats.given_up);
  for (u32 i = 0; i <= a.bucket_mask; i++) {
    assert_int_equal(a.bucket[i], ADMIT_NONE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_steering),
      cmocka_unit_test(test_silent),
      cmocka_unit_test(test_few_among_silent),
      cmocka_unit_test(test_far),
      cmocka_unit_test(test_end_in_any_epoch),
      cmocka_unit_test(test_parked_in_turn),
      cmocka_unit_test(test_behind),
      cmocka_unit_test(test_patience),
      cmocka_unit_test(test_full),
      cmocka_unit_test(test_any_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
