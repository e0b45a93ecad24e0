// SPDX-License-Identifier: Apache-2.0
// Proves, against a fake processor that refuses what a real one refuses: x2APIC mode is entered
// from the enabled state only, every register is then an MSR, an IPI is one 64-bit write; the
// TSC-deadline mode is set before a deadline is; without x2APIC the same goes through the register
// page. QEMU's emulation has neither feature in Debian 12, so this is where these paths run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch/cpu.h"
#include "base/mem.h"

static u32 features;  // CPUID 1 ECX
static u64 base_msr, deadline, command;
static u32 msr[0x40];        // 0x800 + n
static u32 page[0x400 / 4];  // by memory

static struct cpuid fake_id(u32 leaf, u32 sub) {
  (void)sub;
  return (struct cpuid){.ecx = leaf == 1 ? features : 0};
}

static u64 fake_rdmsr(u32 at) {
  if (at == 0x1b) {
    return base_msr;
  }
  assert_true((base_msr & 0xc00) == 0xc00);  // else: general protection
  assert_in_range(at, 0x800, 0x83f);
  return msr[at - 0x800];
}

static void fake_wrmsr(u32 at, u64 v) {
  if (at == 0x1b) {
    assert_false((v & 0x400) != 0 && (base_msr & 0x800) == 0);  // x2 only from enabled
    assert_false((v & 0x400) != 0 && (features & 1u << 21) == 0);
    base_msr = v;
  } else if (at == 0x6e0) {
    assert_true((features & 1u << 24) != 0);
    u32 timer = (base_msr & 0x400) != 0 ? msr[0x32] : page[0x320 / 4];
    assert_int_equal(timer & 3u << 17, 2u << 17);  // in another mode the write is lost
    deadline = v;
  } else if (at == 0x830) {
    assert_true((base_msr & 0x400) != 0);
    command = v;
  } else {
    assert_true((base_msr & 0xc00) == 0xc00);
    assert_in_range(at, 0x800, 0x83f);
    assert_true(v <= U32_MAX);  // reserved upper half
    msr[at - 0x800] = (u32)v;
  }
}

#define cpu_id(leaf, sub) fake_id(leaf, sub)
#define cpu_rdmsr(at) fake_rdmsr(at)
#define cpu_wrmsr(at, v) fake_wrmsr(at, v)
#include "arch/x86_64/apic.c"

static int fresh(void **state) {
  (void)state;
  features = 0;
  base_msr = 0xfee00100;  // the boot processor; firmware left it off
  deadline = command = 0;
  memset(msr, 0, sizeof msr);
  memset(page, 0, sizeof page);
  return 0;
}

static void test_x2_with_deadline(void **state) {
  (void)state;
  features = 1u << 21 | 1u << 24;
  msr[0x02] = 300;  // an APIC id that only x2APIC can have
  apic_init(NULL);
  assert_int_equal(base_msr, 0xfee00d00);
  assert_int_equal(apic_base_phys(), 0xfee00000);
  assert_int_equal(msr[0x0f], 0x1ff);
  assert_int_equal(msr[0x32], 2u << 17 | TRAP_VECTOR_TIMER);
  assert_int_equal(apic_id(), 300);
  assert_true(apic_timer_is_tsc());
  apic_timer_arm(123456789012345ull);
  assert_int_equal(deadline, 123456789012345ull);
  assert_int_equal(msr[0x38], 0);
  apic_timer_stop();
  assert_int_equal(deadline, 0);
  apic_wake(300);
  assert_int_equal(command, 300ull << 32 | TRAP_VECTOR_DEVICE);
}

static void test_x2_already_on(void **state) {  // as some hypervisors and firmwares leave it
  (void)state;
  features = 1u << 21;
  base_msr = 0xfee00d00;
  apic_init(NULL);
  assert_int_equal(base_msr, 0xfee00d00);
  assert_false(apic_timer_is_tsc());
  apic_timer_arm(1000);
  assert_int_equal(msr[0x38], 1000);
  assert_int_equal(msr[0x3e], 0xb);
  assert_int_equal(msr[0x32], TRAP_VECTOR_TIMER);
}

static void test_page(void **state) {
  (void)state;
  features = 1u << 24;
  page[0x20 / 4] = 5u << 24;
  apic_init(page);
  assert_int_equal(base_msr, 0xfee00900);
  assert_int_equal(apic_id(), 5);
  assert_int_equal(page[0xf0 / 4], 0x1ff);
  apic_timer_arm(77);
  assert_int_equal(deadline, 77);
  apic_wake(5);
  assert_int_equal(page[0x310 / 4], 5u << 24);
  assert_int_equal(page[0x300 / 4], TRAP_VECTOR_DEVICE);
}

static void test_page_one_shot(void **state) {
  (void)state;
  apic_init(page);
  apic_timer_arm(U64_MAX);
  assert_int_equal(page[0x380 / 4], U32_MAX);
  page[0x390 / 4] = 9;
  assert_int_equal(apic_timer_left(), 9);
  apic_timer_stop();
  assert_int_equal(page[0x380 / 4], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_x2_with_deadline, fresh),
                                     cmocka_unit_test_setup(test_x2_already_on, fresh),
                                     cmocka_unit_test_setup(test_page, fresh),
                                     cmocka_unit_test_setup(test_page_one_shot, fresh)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
