// SPDX-License-Identifier: Apache-2.0
// Proves: KVM's pvclock page is read as its protocol says (arithmetic in both shifts, a page that
// changes underneath, one that is being written, a TSC behind the host's), it is found behind
// Hyper-V's CPUID leaves and its MSRs get the page's address; monotonic time never goes back; the
// value of a TSC deadline is never 0, never in the past by much, never more than an hour ahead.
// No KVM boots our guest here, so this is where these paths run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch/cpu.h"
#include "base/fmt.h"

static u64 fake_tsc;
static u32 reads;
static void (*on_read)(void);  // what the host does just when we read the TSC
static u64 fake_cycles(void) {
  reads++;
  if (on_read != NULL) {
    on_read();
  }
  return fake_tsc;
}

static struct cpuid fake_id(u32 leaf, u32 sub);
static void fake_wrmsr(u32 msr, u64 v);
#define cpu_cycles() fake_cycles()
#define cpu_cycles_ordered() fake_cycles()
#define cpu_id(leaf, sub) fake_id(leaf, sub)
#define cpu_wrmsr(msr, v) fake_wrmsr(msr, v)
#define URMQTT_BUILD_TIME 1700000000ull
#define scale pc_scale
#include "plat/metal/x86_64/clock.c"

void metal_crash_look(void) {
}
#undef scale
#include "plat/metal/clock.c"

struct pc metal_pc;
const struct boot_info *metal_boot;
static struct boot_info boot;
static bool hyperv, kvm, hypervisor, no_page;
static u64 msr_time, msr_wall, battery_s;
static u32 host_wall_s;

u64 metal_phys_of(const void *p) {
  return (u64)(uptr)p ^ 0x5500000000ull;
}
u64 rtc_read_unix(u8 century_reg) {
  (void)century_reg;
  return battery_s;
}
u64 rtc_unix_of(u32 year, u32 month, u32 day, u32 hour, u32 minute, u32 second) {
  (void)year, (void)month, (void)day, (void)hour, (void)minute, (void)second;
  return 0;
}

#define MUL_25 0xccccccccu  // 2.5 GHz: 0.8 * 2^32 with shift -1: 0.4 ns a cycle
static struct cpuid fake_id(u32 leaf, u32 sub) {
  (void)sub;
  static const struct cpuid kvm_name = {0x40000101u, 0x4b4d564bu, 0x564b4d56u, 0x4du};
  static const struct cpuid hyperv_name = {0x4000000au, 0x7263694du, 0x666f736fu, 0x76482074u};
  u32 first = hyperv ? 0x40000100u : 0x40000000u;
  if (leaf == 1) {
    return (struct cpuid){.ecx = hypervisor ? 1u << 31 : 0};
  }
  if (kvm && (leaf == first || leaf == first + 1)) {
    return leaf == first ? kvm_name : (struct cpuid){.eax = KVM_FEATURE_CLOCKSOURCE2};
  }
  return hyperv && leaf == 0x40000000u ? hyperv_name
         : leaf == 0                   ? (struct cpuid){.eax = 0x16}
         : leaf == 0x15                ? (struct cpuid){2, 208, 24000000, 0}  // 2.496 GHz
                                       : (struct cpuid){0};
}

static void fake_wrmsr(u32 msr, u64 v) {
  if (msr == MSR_KVM_SYSTEM_TIME) {
    msr_time = v;
    if (!no_page) {
      pv_times[0].version = 2;
      pv_times[0].tsc_timestamp = fake_tsc;
      pv_times[0].system_time = 7000000000ull;
      pv_times[0].tsc_to_ns_mul = MUL_25;
      pv_times[0].tsc_shift = -1;
    }
  } else if (msr == MSR_KVM_WALL) {
    msr_wall = v;
    pv_wall.version = 2;
    pv_wall.seconds = host_wall_s;
    pv_wall.nanoseconds = 500;
  }
}

static int fresh(void **state) {
  (void)state;
  memset((void *)&pv_times[0], 0, sizeof pv_times[0]);
  memset((void *)&pv_wall, 0, sizeof pv_wall);
  use_pvclock = started = hyperv = no_page = false;
  kvm = hypervisor = true;
  tsc_hz = ns_per_cycle = start_raw = last_ns = wall_offset_ns = 0;
  msr_time = msr_wall = reads = 0;
  fake_tsc = 1000000;
  on_read = NULL;
  battery_s = URMQTT_BUILD_TIME + 1000;
  host_wall_s = URMQTT_BUILD_TIME + 2000;
  boot = (struct boot_info){.cycles_at_entry = 400000};
  metal_boot = &boot;
  return 0;
}

static void near(u64 got, u64 want, u64 by) {
  assert_in_range(got, want - by, want + by);
}

static void test_arithmetic(void **state) {
  (void)state;
  pv_times[0].version = 4;
  pv_times[0].tsc_timestamp = 1000000;
  pv_times[0].system_time = 5000;
  pv_times[0].tsc_to_ns_mul = MUL_25;
  pv_times[0].tsc_shift = -1;
  assert_int_equal(pvclock_read(), 5000);
  fake_tsc += 2500000000ull;
  near(pvclock_read(), 1000005000ull, 1);
  fake_tsc = 1000000 + 2500000000ull * 86400 * 365;  // a year without an update
  near(pvclock_read(), 86400ull * 365 * 1000000000 + 5000, 86400 * 365);
  pv_times[0].tsc_to_ns_mul = 0x80000000u;  // 0.5 with shift 2: 2 ns a cycle
  pv_times[0].tsc_shift = 2;
  fake_tsc = 1000000 + 300;
  assert_int_equal(pvclock_read(), 5600);
}

static void test_behind_the_host(void **state) {
  (void)state;
  pv_times[0].version = 2;
  pv_times[0].tsc_timestamp = fake_tsc + 5;
  pv_times[0].system_time = 5000;
  pv_times[0].tsc_to_ns_mul = MUL_25;
  assert_int_equal(pvclock_read(), 5000);
}

// The host rewrites the page between our reading its version and its fields.
static void host_updates(void) {
  if (reads == 1) {
    pv_times[0].version += 2;
    pv_times[0].tsc_timestamp = 900000;
    pv_times[0].system_time = 123456;
  }
}

static void test_changed_underneath(void **state) {
  (void)state;
  fake_wrmsr(MSR_KVM_SYSTEM_TIME, 1);
  on_read = host_updates;
  near(pvclock_read(), 123456 + 40000, 1);  // all of the new page, nothing of the old
  assert_int_equal(reads, 2);
}

// The page is half written (odd version) for three looks.
static void host_finishes(void) {
  if (reads == 3) {
    pv_times[0].system_time = 99;
    pv_times[0].tsc_timestamp = fake_tsc;
    pv_times[0].version++;
  }
}

static void test_being_written(void **state) {
  (void)state;
  fake_wrmsr(MSR_KVM_SYSTEM_TIME, 1);
  pv_times[0].version = 5;
  on_read = host_finishes;
  assert_int_equal(pvclock_read(), 99);
  assert_int_equal(reads, 4);
}

static void start_and_tick(const char *want_source) {
  clock_init();
  assert_string_equal(machine_clock_source(), want_source);
  u64 first = plat_now_ns();
  fake_tsc += 25000000;
  near(plat_now_ns() - first, 10000000, 20000);
}

static void test_found(void **state) {
  for (u32 k = 0; k < 2; k++) {
    fresh(state);
    hyperv = k == 1;
    start_and_tick("KVM pvclock");
    assert_int_equal(msr_time, metal_phys_of((const void *)&pv_times[0]) | 1);
    assert_int_equal(msr_wall, metal_phys_of((const void *)&pv_wall));
    near(machine_clock_hz(), 2500000000ull, 10);
    struct plat_wall w = plat_wall();
    assert_int_equal(w.quality, CLOCK_HOST);
    near(w.unix_ns, (host_wall_s + 7) * 1000000000ull, 20000000);
  }
}

static void test_not_found(void **state) {
  fresh(state);
  kvm = false;
  start_and_tick("TSC, frequency by CPUID");
  assert_int_equal(machine_clock_hz(), 2496000000ull);
  assert_int_equal(plat_wall().quality, CLOCK_RTC);
  assert_int_equal(msr_time, 0);
  fresh(state);
  hypervisor = false;
  start_and_tick("TSC, frequency by CPUID");
  fresh(state);
  no_page = true;  // the feature is promised and the page stays empty
  start_and_tick("TSC, frequency by CPUID");
  assert_int_equal(plat_wall().quality, CLOCK_RTC);
}

static void test_never_back(void **state) {
  (void)state;
  clock_init();
  fake_tsc += 1000000;
  u64 now = plat_now_ns();
  fake_tsc -= 500000;
  assert_int_equal(plat_now_ns(), now);
  pv_times[0].version += 2;  // the host moved the machine and starts lower
  pv_times[0].system_time -= 1000000000ull;
  assert_int_equal(plat_now_ns(), now);
  fake_tsc += 2500000000ull * 2;
  assert_true(plat_now_ns() > now);
}

static void test_tsc_deadline(void **state) {
  (void)state;
  clock_init();
  fake_tsc += 25000000;
  u64 now = plat_now_ns();
  near(pc_tsc_of(now + 1000000), fake_tsc + 2500000, 2);
  assert_int_equal(pc_tsc_of(now), fake_tsc + 1);  // 0 would switch the timer off
  assert_int_equal(pc_tsc_of(0), fake_tsc + 1);
  near(pc_tsc_of(U64_MAX - 1), fake_tsc + 3600 * 2500000000ull, 3600 * 4);
  for (u64 left = 1; left < 1000000000ull; left = left * 3 + 1) {  // not woken before it is due
    u64 at = pc_tsc_of(now + left);
    assert_true(at > fake_tsc);
    assert_true((at - fake_tsc) * 4 / 10 + 1 >= left);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_arithmetic, fresh),
                                     cmocka_unit_test_setup(test_behind_the_host, fresh),
                                     cmocka_unit_test_setup(test_changed_underneath, fresh),
                                     cmocka_unit_test_setup(test_being_written, fresh),
                                     cmocka_unit_test_setup(test_found, fresh),
                                     cmocka_unit_test_setup(test_not_found, fresh),
                                     cmocka_unit_test_setup(test_never_back, fresh),
                                     cmocka_unit_test_setup(test_tsc_deadline, fresh)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
