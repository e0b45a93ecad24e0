// SPDX-License-Identifier: Apache-2.0
// Proves: pools never hand out an object twice and notice double frees; the wheel fires every timer
// once, never early, at the first advance that reaches it, against a naive list over random
// histories; fibers keep their stack across yields; the loop runs stages in order and sleeps until
// the next deadline.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/carve.h"
#include "loop/fiber.h"
#include "loop/loop.h"

extern u64 unit_now_ns;

static u64 seed = 42;
static u32 draw(u32 below) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % below;
}

static void pool_is_listed_once(void **state) {
  (void)state;
  static struct pool p;
  static u64 memory[64];
  u32 times = 0;
  for (u32 k = 0; k < 2; k++) {
    pool_init(&p, "listed", span_of(memory, sizeof memory), 16, 4);
  }
  for (u32 i = 0; pool_listed(i) != NULL; i++) {
    times += pool_listed(i) == &p ? 1 : 0;
  }
  assert_int_equal(times, 1);
}

static void pool_hands_out_each_once(void **state) {
  (void)state;
  struct pool p;
  usize len = pool_bytes(40, 100);
  struct span memory = span_of(malloc(len), len);
  pool_init(&p, "test", memory, 40, 100);
  u8 *taken[100];
  for (u32 round = 0; round < 50; round++) {
    for (u32 i = 0; i < 100; i++) {
      taken[i] = pool_take(&p);
      assert_non_null(taken[i]);
      for (u32 k = 0; k < 40; k++) {
        assert_int_equal(taken[i][k], 0);
      }
      memset(taken[i], 0xa5, 40);
      assert_ptr_equal(pool_at(&p, pool_index(&p, taken[i])), taken[i]);
    }
    assert_null(pool_take(&p));
    assert_int_equal(pool_taken(&p), 100);
    for (u32 i = 100; i > 1; i--) {  // shuffle
      u32 k = draw(i);
      u8 *t = taken[i - 1];
      taken[i - 1] = taken[k];
      taken[k] = t;
    }
    for (u32 i = 0; i < 100; i++) {
      pool_put(&p, taken[i]);
    }
  }
  assert_int_equal(p.free_low, 0);
  free(memory.ptr);
}

// True when f dies by abort.
static bool aborts(void (*f)(void)) {
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) {
      _exit(0);
    }
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

static void put_twice(void) {
  struct pool p;
  usize len = pool_bytes(16, 2);
  pool_init(&p, "test", span_of(malloc(len), len), 16, 2);
  void *a = pool_take(&p);
  pool_put(&p, a);
  pool_put(&p, a);
}
static void put_foreign(void) {
  struct pool p;
  usize len = pool_bytes(16, 2);
  pool_init(&p, "test", span_of(malloc(len), len), 16, 2);
  pool_put(&p, (u8 *)pool_take(&p) + 1);
}
static void pool_notices_abuse(void **state) {
  (void)state;
  assert_true(aborts(put_twice));
  assert_true(aborts(put_foreign));
}

#define NT 64u
static void wheel_fires_like_a_list(void **state) {
  (void)state;
  static struct timer timers[NT];
  static u64 deadline[NT];  // ns; U64_MAX = not armed
  struct wheel w;
  for (u32 history = 0; history < 300; history++) {
    u64 now = (u64)draw(1u << 30) << draw(20);
    wheel_init(&w, timers, NT, now);
    for (u32 i = 0; i < NT; i++) {
      assert_int_equal(wheel_take(&w, TIMER_TCP, &deadline[i]), i);
      deadline[i] = U64_MAX;
    }
    assert_int_equal(wheel_take(&w, TIMER_TCP, NULL), WHEEL_NONE);
    for (u32 step = 0; step < 400; step++) {
      u32 i = draw(NT);
      switch (draw(4)) {
      case 0:
      case 1:
        deadline[i] = now + ((u64)draw(1u << 30) << draw(24));  // 0 .. 200 days
        wheel_arm(&w, i, deadline[i]);
        break;
      case 2:
        deadline[i] = U64_MAX;
        wheel_cancel(&w, i);
        break;
      default: now += (u64)draw(1u << 30) << draw(22); break;
      }
      u64 least = U64_MAX;
      for (u32 id; (id = wheel_expire(&w, now)) != WHEEL_NONE;) {
        assert_true(deadline[id] != U64_MAX);
        assert_true(deadline[id] <= now);  // never early
        deadline[id] = U64_MAX;
      }
      for (u32 k = 0; k < NT; k++) {  // never late by more than the tick's rounding
        assert_true(deadline[k] == U64_MAX || deadline[k] + (2ull << WHEEL_TICK_SHIFT) > now);
        least = MIN(least, deadline[k]);
        assert_int_equal(wheel_armed(&w, k), deadline[k] != U64_MAX);
      }
      u64 next = wheel_next_ns(&w);
      assert_true(least == U64_MAX ? next == U64_MAX
                                   : next <= MAX(least, now) + (2ull << WHEEL_TICK_SHIFT));
    }
  }
}

static u32 steps[8];
static u32 step_count;
static void fiber_body(struct fiber *self, void *arg) {
  volatile u8 frame[2048];  // a real use of the stack
  memset((void *)frame, *(u8 *)arg, sizeof frame);
  for (u32 i = 0; i < 3; i++) {
    steps[step_count++] = frame[i * 100];
    fiber_yield(self);
  }
}
static void fibers_interleave(void **state) {
  (void)state;
  struct fiber a, b;
  u8 one = 1, two = 2;
  fiber_start(&a, plat_stack(16384), fiber_body, &one);
  fiber_start(&b, plat_stack(16384), fiber_body, &two);
  for (u32 i = 0; i < 3; i++) {
    assert_int_equal(fiber_resume(&a), FIBER_WAITING);
    assert_int_equal(fiber_resume(&b), FIBER_WAITING);
  }
  assert_int_equal(fiber_resume(&a), FIBER_DONE);
  assert_int_equal(fiber_resume(&b), FIBER_DONE);
  for (u32 i = 0; i < 6; i++) {
    assert_int_equal(steps[i], i % 2 ? 2 : 1);
  }
}

static u32 order[16];
static u32 order_count;
static bool stage_a(struct core *core, void *ctx) {
  (void)core;
  order[order_count++] = (u32)(uptr)ctx;
  return false;
}
static void on_timer(struct core *core, u32 timer, void *owner) {
  (void)timer;
  *(u64 *)owner = core->now_ns;
  core->stop = true;
}
static void loop_sleeps_to_the_deadline(void **state) {
  (void)state;
  static struct timer timers[4];
  static struct core core;
  u64 fired = 0;
  unit_now_ns = 5000000;
  core_init(&core, 0, timers, 4);
  core.on_timer[TIMER_ADMIN] = on_timer;
  loop_stage(&core, "a", stage_a, (void *)1);
  loop_stage(&core, "b", stage_a, (void *)2);
  wheel_arm(&core.wheel, wheel_take(&core.wheel, TIMER_ADMIN, &fired), 905000000);
  loop_run(&core);
  assert_true(fired >= 905000000 && fired <= 905000000 + (2u << WHEEL_TICK_SHIFT));
  assert_true(core.turns <= 7);  // one jump a wheel level at most, not one turn a tick
  assert_int_equal(order[0], 1);
  assert_int_equal(order[1], 2);
}

static void carve_divides(void **state) {
  (void)state;
  struct carve c;
  carve_init(&c);
  u64 left = carve_left(&c);
  struct span a = carve_take(&c, 100, 4096), b = carve_take(&c, 100, 64);
  assert_int_equal((uptr)a.ptr % 4096, 0);
  assert_true(b.ptr >= a.ptr + 100);
  assert_true(carve_left(&c) <= left - 200);
  assert_null(carve_take(&c, left, 16).ptr);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pool_hands_out_each_once),
      cmocka_unit_test(pool_is_listed_once),
      cmocka_unit_test(pool_notices_abuse),
      cmocka_unit_test(wheel_fires_like_a_list),
      cmocka_unit_test(fibers_interleave),
      cmocka_unit_test(loop_sleeps_to_the_deadline),
      cmocka_unit_test(carve_divides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
