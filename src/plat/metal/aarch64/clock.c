// SPDX-License-Identifier: Apache-2.0
// The generic timer's virtual counter, whose frequency the firmware has written into CNTFRQ_EL0;
// the battery clock by PL031 (Arm DDI 0224) or by what the EFI firmware said at the start.
#include "arch/cpu.h"
#include "dev/rtc.h"
#include "plat/metal/aarch64/board.h"
#include "plat/metal/machine.h"

#define NS_PER_S 1000000000ull
#define HZ_MIN 100000ull

static u64 hz;
static u64 ns_per_cycle;  // 32.32

void machine_clock_start(void) {
  hz = CPU_READ("cntfrq_el0");
  if (hz < HZ_MIN) {
    plat_crash("E021", "No clock was found that could be used to measure time.");
  }
  ns_per_cycle = cpu_mul_div(NS_PER_S, 1ull << 32, hz);
}

u64 machine_clock_ns(void) {
  u64 cycles = cpu_cycles() - metal_boot->cycles_at_entry;
  return (u64)(((unsigned __int128)cycles * ns_per_cycle) >> 32);
}

u64 machine_clock_hz(void) {
  return hz;
}

const char *machine_clock_source(void) {
  return "generic timer";
}

// The firmware's date, and how long ago it was asked.
static u64 firmware_s(void) {
  const struct boot_date *d = &metal_boot->date;
  if (d->year < 1970 || d->year > 9999 || d->month < 1 || d->month > 12 || d->day < 1 ||
      d->day > 31 || d->hour > 23 || d->minute > 59 || d->second > 60) {
    return 0;
  }
  i64 s = (i64)rtc_unix_of(d->year, d->month, d->day, d->hour, d->minute, d->second);
  s += d->zone_min == BOOT_ZONE_NONE ? 0 : (i64)d->zone_min * 60;
  return (u64)s + machine_clock_ns() / NS_PER_S;
}

u64 machine_wall_battery_s(void) {
  u64 s = firmware_s();
  if (s != 0 || metal_board.rtc_phys == 0) {
    return s;
  }
  volatile u8 *rtc = metal_map_mmio(metal_board.rtc_phys, 4096);
  return rtc == NULL ? 0 : cpu_mmio_read32(rtc);
}

u64 machine_wall_host_ns(void) {
  return 0;
}
