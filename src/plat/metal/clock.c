// SPDX-License-Identifier: Apache-2.0
// Time. Monotonic: the machine's own counter (x86_64/clock.c, aarch64/clock.c). Wall: the latest of
// build time, battery clock and what the host says.
//
// I1  plat_now_ns never goes back on any core: its last answer is kept and returned again when the
//     source does. Between cores it agrees as far as their counters do (cores.c compares them).
// I2  The wall clock is an offset to the monotonic one, taken once: no second clock ticks.
// I3  A battery clock far from the build time serves, but its quality is "unset".
#include "dev/rtc.h"
#include "plat/metal/machine.h"

#define NS_PER_S 1000000000ull
#define RTC_PLAUSIBLE_S (20ull * 366 * 86400)

static CORE_LOCAL u64 last_ns;
static u64 wall_offset_ns;  // unix time = monotonic + this
static enum plat_clock_quality wall_quality;
static u64 rtc_unix;
static bool started;

u64 plat_now_ns(void) {
  metal_crash_look();
  u64 now = machine_clock_ns();
  if ((i64)(now - last_ns) < 0) {
    return last_ns;
  }
  last_ns = now;
  return now;
}

static void wall_start(void) {
  u64 build = URMQTT_BUILD_TIME;
  rtc_unix = machine_wall_battery_s();
  u64 best = build * NS_PER_S;
  wall_quality = CLOCK_UNSET;
  if (rtc_unix > build) {
    best = rtc_unix * NS_PER_S;
    wall_quality = rtc_unix - build < RTC_PLAUSIBLE_S ? CLOCK_RTC : CLOCK_UNSET;
  }
  u64 host = machine_wall_host_ns();
  if (host > build * NS_PER_S && (wall_quality != CLOCK_UNSET || host > best)) {
    best = MAX(host, best);
    wall_quality = CLOCK_HOST;
  }
  wall_offset_ns = best - plat_now_ns();
}

void clock_init(void) {
  ASSERT(!started);
  started = true;
  machine_clock_start();
  wall_start();
}

struct plat_wall plat_wall(void) {
  return (struct plat_wall){.unix_ns = plat_now_ns() + wall_offset_ns,
                            .lower_unix_ns = URMQTT_BUILD_TIME * NS_PER_S,
                            .quality = wall_quality};
}

static void write_date(struct writer *w, u64 unix_s) {
  u64 days = unix_s / 86400;
  u32 year = 1970;
  for (;; year++) {
    u64 len = (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)) ? 366 : 365;
    if (days < len) {
      break;
    }
    days -= len;
  }
  u32 month = 1;
  u64 base = rtc_unix_of(year, 1, 1, 0, 0, 0) / 86400;
  while (month < 12 && rtc_unix_of(year, month + 1, 1, 0, 0, 0) / 86400 <= base + days) {
    month++;
  }
  u64 day = base + days - rtc_unix_of(year, month, 1, 0, 0, 0) / 86400 + 1;
  u32 s = (u32)(unix_s % 86400);
  fmt(w, "%u-%02u-%02u %02u:%02u:%02u UTC", year, month, (u32)day, s / 3600, s / 60 % 60, s % 60);
}

void clock_describe(struct writer *w) {
  static const char *const names[] = {"not to be trusted", "battery clock", "host", "SNTP"};
  fmt(w, "clock: %s, %lu MHz; now ", machine_clock_source(), machine_clock_hz() / 1000000);
  write_date(w, plat_wall().unix_ns / NS_PER_S);
  fmt(w, " (%s)\n", names[wall_quality]);
  if (wall_quality == CLOCK_UNSET) {
    write_str(w, "clock: the battery clock says ");
    write_date(w, rtc_unix);
    write_str(w, ", which cannot be right for this build: certificates are judged leniently\n");
  }
}
