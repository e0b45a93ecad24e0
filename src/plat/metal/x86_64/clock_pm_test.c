// SPDX-License-Identifier: Apache-2.0
// Proves: the cycle counter's frequency is measured right with a PM timer that is read as a tick
// earlier now and then (QEMU's is, and a clock of 2 MHz came of it) and with a processor that does
// not run for a while at any point; a timer that stands still is no timer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arch/cpu.h"
#include "base/bytes.h"

static u64 fake_ns;
static u32 seed;
static u32 back_in;   // one reading in so many goes back
static u32 pause_in;  // one step in so many takes a pause
static bool stopped;

static u32 rnd(u32 below) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % below;
}
static void step(void) {
  fake_ns += 300 + rnd(300);
  if (pause_in != 0 && rnd(pause_in) == 0) {
    fake_ns += rnd(3) == 0 ? 5000000000ull : 40000000ull;
  }
}
static u32 fake_in32(u16 port) {
  step();
  u64 ticks = stopped ? 0 : fake_ns * 3579545 / 1000000000 + 0xfff000;
  (void)port;
  return (u32)(ticks - (back_in != 0 && rnd(back_in) == 0 ? 1 : 0));
}
static u64 fake_cycles(void) {
  step();
  return fake_ns * 26 / 10;
}
#define cpu_in32 fake_in32
#define cpu_cycles_ordered fake_cycles
#include "plat/metal/x86_64/clock.c"

struct pc metal_pc;
const struct boot_info *metal_boot;
u64 metal_phys_of(const void *at) {
  return (u64)(uptr)at;
}
u64 rtc_read_unix(u8 century_reg) {
  return century_reg;
}

static void measures(void **state) {
  (void)state;
  for (seed = 1; seed < 400; seed++) {
    u32 start = seed;
    metal_pc = (struct pc){.pm_timer_port = 0x608, .pm_timer_32 = start % 2 == 0};
    back_in = start % 3 == 0 ? 1 + rnd(50) : 0;
    pause_in = start % 5 == 0 ? 60000 + rnd(100000) : 0;
    u64 hz = hz_by_pm_timer();
    assert_in_range(hz, 2540000000ull, 2660000000ull);
    seed = start;
  }
}

static void stands_still(void **state) {
  (void)state;
  stopped = true;
  back_in = 0;
  pause_in = 0;
  metal_pc = (struct pc){.pm_timer_port = 0x608};
  assert_int_equal(hz_by_pm_timer(), 0);
  metal_pc.pm_timer_port = 0;
  assert_int_equal(hz_by_pm_timer(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(measures), cmocka_unit_test(stands_still)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
