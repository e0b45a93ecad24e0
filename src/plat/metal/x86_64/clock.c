// SPDX-License-Identifier: Apache-2.0
// The PC's clocks: the TSC, scaled by KVM's pvclock page where there is one (and re-read each time:
// the host may change the scale), else by CPUID's frequency, else by a calibration against the ACPI
// PM timer or the PIT; the battery clock, and the host's idea of the date.
#include "arch/cpu.h"
#include "dev/rtc.h"
#include "plat/metal/machine.h"
#include "plat/metal/x86_64/pc.h"

#define NS_PER_S 1000000000ull
#define PM_TIMER_HZ 3579545ull
#define PIT_HZ 1193182ull
#define CALIBRATE_TICKS_PM 35795u   // 10 ms, measured twice
#define CALIBRATE_TICKS_PIT 23864u  // 20 ms
#define CALIBRATE_LOOKS 100000000u
#define CALIBRATE_TRIES 60u

#define KVM_LEAF_FIRST 0x40000000u
#define KVM_LEAF_LAST 0x40010000u
#define KVM_FEATURE_CLOCKSOURCE2 (1u << 3)
#define MSR_KVM_WALL 0x4b564d00u
#define MSR_KVM_SYSTEM_TIME 0x4b564d01u

struct pvclock {  // one processor's page, written by the host; odd version = being written
  u32 version;
  u32 reserved;
  u64 tsc_timestamp;
  u64 system_time;
  u32 tsc_to_ns_mul;  // 0.32
  i8 tsc_shift;
  u8 flags;
  u8 reserved2[2];
};
static_assert(sizeof(struct pvclock) == 32, "pvclock_vcpu_time_info");

struct pvwall {
  u32 version;
  u32 seconds;
  u32 nanoseconds;
};

static volatile struct pvclock pv_times[PLAT_CORE_MAX] ALIGNED(64);  // one a core
static CORE_LOCAL u32 own;                                           // this core's
static CORE_LOCAL i64 ahead;                                         // of core 0's TSC
static i64 ahead_of[PLAT_CORE_MAX];  // as core 0 found it, before the core went on
static volatile struct pvwall pv_wall ALIGNED(64);
static bool use_pvclock;
static u64 start_raw;     // TSC, or pvclock's ns, at boot
static u64 ns_per_cycle;  // 32.32
static u64 tsc_hz;
static const char *source = "none";

static u64 scale(u64 value, u64 factor) {
  return (u64)(((unsigned __int128)value * factor) >> 32);
}

static u64 pvclock_read(void) {
  volatile struct pvclock *t = &pv_times[own];
  for (;;) {
    u32 before = t->version;
    cpu_rmb();
    u64 delta = cpu_cycles_ordered() - t->tsc_timestamp;
    delta = (i64)delta < 0 ? 0 : delta;  // a moment behind the host's: not 500 years ahead
    i8 shift = t->tsc_shift;
    delta = shift >= 0 ? delta << (shift & 63) : delta >> (-shift & 63);
    u64 ns = t->system_time + scale(delta, t->tsc_to_ns_mul);
    cpu_rmb();
    if ((before & 1) == 0 && before == t->version) {
      return ns;
    }
  }
}

u64 machine_clock_ns(void) {
  return use_pvclock ? pvclock_read() - start_raw
                     : scale(cpu_cycles() - (u64)ahead - start_raw, ns_per_cycle);
}

// Hyper-V's enlightenments may come first: KVM's leaf is looked for at every 0x100.
static u32 kvm_leaf(void) {
  if ((cpu_id(1, 0).ecx >> 31 & 1) == 0) {
    return 0;  // no hypervisor
  }
  for (u32 leaf = KVM_LEAF_FIRST; leaf < KVM_LEAF_LAST; leaf += 0x100) {
    struct cpuid r = cpu_id(leaf, 0);
    if (r.ebx == 0x4b4d564bu && r.ecx == 0x564b4d56u && r.edx == 0x4du) {
      return leaf;
    }
  }
  return 0;
}

static bool pvclock_start(void) {
  u32 leaf = kvm_leaf();
  if (leaf == 0 || (cpu_id(leaf + 1, 0).eax & KVM_FEATURE_CLOCKSOURCE2) == 0) {
    return false;
  }
  cpu_wrmsr(MSR_KVM_SYSTEM_TIME, metal_phys_of((const void *)&pv_times[0]) | 1);
  if (pv_times[0].version == 0 || pv_times[0].tsc_to_ns_mul == 0) {
    return false;
  }
  u64 hz = (NS_PER_S << 32) / pv_times[0].tsc_to_ns_mul;
  tsc_hz = pv_times[0].tsc_shift >= 0 ? hz >> pv_times[0].tsc_shift : hz << -pv_times[0].tsc_shift;
  return true;
}

static u64 hz_by_cpuid(void) {
  u32 top = cpu_id(0, 0).eax;
  if (top >= 0x15) {
    struct cpuid r = cpu_id(0x15, 0);
    if (r.eax != 0 && r.ebx != 0 && r.ecx != 0) {
      return (u64)r.ecx * r.ebx / r.eax;
    }
  }
  if (top >= 0x16) {
    return (u64)(cpu_id(0x16, 0).eax & 0xffff) * 1000000;
  }
  return 0;
}

static u32 pm_read(void) {
  return cpu_in32(metal_pc.pm_timer_port) & (metal_pc.pm_timer_32 ? U32_MAX : 0xffffffu);
}

// One measurement of 10 ms. 0: the timer does not run; U64_MAX: spoilt. An emulated timer may be
// read as a tick earlier than before, and a virtual processor may not run for a while: either
// leaves more ticks than there can be, and the latter may hide whole turns of the timer.
static u64 hz_once(u32 mask) {
  u32 first = pm_read();
  u64 cycles = cpu_cycles_ordered();
  u32 ticks = 0;
  for (u32 i = 0; i < CALIBRATE_LOOKS && ticks < CALIBRATE_TICKS_PM; i++) {
    ticks = (pm_read() - first) & mask;
    if (i > 100000 && ticks == 0) {
      return 0;
    }
  }
  cycles = cpu_cycles_ordered() - cycles;
  if (ticks < CALIBRATE_TICKS_PM) {
    return 0;
  }
  return ticks > 2 * CALIBRATE_TICKS_PM ? U64_MAX : cpu_mul_div(cycles, PM_TIMER_HZ, ticks);
}

// Two measurements in a row that agree: a pause between the two readings of one spoils it, too.
static u64 hz_by_pm_timer(void) {
  if (metal_pc.pm_timer_port == 0) {
    return 0;
  }
  u32 mask = metal_pc.pm_timer_32 ? U32_MAX : 0xffffffu;
  u64 before = hz_once(mask);
  u64 good = 0;
  for (u32 tries = 0; tries < CALIBRATE_TRIES && before != 0; tries++) {
    u64 hz = hz_once(mask);
    u64 apart = hz > before ? hz - before : before - hz;
    if (hz != U64_MAX && apart < hz / 64) {
      return hz;
    }
    good = hz != U64_MAX ? hz : good;
    before = hz;
  }
  return good;
}

// Channel 2 in mode 0, gated by port 0x61: bit 5 rises when the count has run out.
static u64 hz_by_pit(void) {
  u8 gate = (u8)((cpu_in8(0x61) & ~2) | 1);
  cpu_out8(0x61, gate);
  cpu_out8(0x43, 0xb0);
  cpu_out8(0x42, (u8)CALIBRATE_TICKS_PIT);
  cpu_out8(0x42, (u8)(CALIBRATE_TICKS_PIT >> 8));
  u64 cycles = cpu_cycles_ordered();
  if ((cpu_in8(0x61) & 0x20) != 0) {
    return 0;  // up before it can be: there is no such timer
  }
  for (u32 i = 0; i < CALIBRATE_LOOKS; i++) {
    if ((cpu_in8(0x61) & 0x20) != 0) {
      cycles = cpu_cycles_ordered() - cycles;
      return cpu_mul_div(cycles, PIT_HZ, CALIBRATE_TICKS_PIT);
    }
  }
  return 0;
}

void machine_clock_start(void) {
  if (pvclock_start()) {
    use_pvclock = true;
    source = "KVM pvclock";
    start_raw = pvclock_read();
    return;
  }
  source = "TSC, frequency by CPUID";
  tsc_hz = hz_by_cpuid();
  if (tsc_hz == 0) {
    source = "TSC, measured with the ACPI PM timer";
    tsc_hz = hz_by_pm_timer();
  }
  if (tsc_hz == 0) {
    source = "TSC, measured with the PIT";
    tsc_hz = hz_by_pit();
  }
  if (tsc_hz < 1000000) {
    plat_crash("E021", "No clock was found that could be used to measure time.");
  }
  ns_per_cycle = cpu_mul_div(NS_PER_S, 1ull << 32, tsc_hz);
  start_raw = metal_boot->cycles_at_entry;
}

void pc_clock_arrive(u32 core) {
  ASSERT(core > 0 && core < PLAT_CORE_MAX);
  own = core;
  if (use_pvclock) {
    cpu_wrmsr(MSR_KVM_SYSTEM_TIME, metal_phys_of((const void *)&pv_times[core]) | 1);
  }
}

// The host scales each core's counter itself where there is a pvclock.
void machine_clock_correct(u32 core, i64 by) {
  ahead_of[core] = use_pvclock ? 0 : by;
}

void machine_clock_settle(void) {
  ahead = ahead_of[own];
}

u64 machine_wall_host_ns(void) {
  if (!use_pvclock) {
    return 0;
  }
  cpu_wrmsr(MSR_KVM_WALL, metal_phys_of((const void *)&pv_wall));
  // The wall time at which the host's system time was 0.
  u64 at_zero = pv_wall.seconds * NS_PER_S + pv_wall.nanoseconds;
  return (pv_wall.version & 1) != 0 || pv_wall.seconds == 0 ? 0 : at_zero + pvclock_read();
}

u64 machine_wall_battery_s(void) {
  return rtc_read_unix(metal_pc.century_reg);
}

u64 machine_clock_hz(void) {
  return tsc_hz;
}

const char *machine_clock_source(void) {
  return source;
}

// The TSC value at which the monotonic clock reaches ns.
u64 pc_tsc_of(u64 ns) {
  u64 now = plat_now_ns();
  u64 left = ns > now ? ns - now : 0;
  left = MIN(left, 3600 * NS_PER_S);
  return cpu_cycles() + cpu_mul_div(left, tsc_hz, NS_PER_S) + 1;
}
