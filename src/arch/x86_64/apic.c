// SPDX-License-Identifier: Apache-2.0
// The local APIC, by memory or (x2APIC) by MSR; its one-shot timer; the I/O APIC's one line that
// wakes us for the console (Intel SDM 3A 10; 82093AA).
#include "arch/x86_64/apic.h"

#include "arch/cpu.h"
#include "base/assert.h"

#define MSR_BASE 0x1bu
#define BASE_X2 (1ull << 10)
#define BASE_ENABLE (1ull << 11)
#define BASE_PHYS 0x000ffffffffff000ull
#define MSR_X2 0x800u
#define MSR_TSC_DEADLINE 0x6e0u
#define CPUID1_ECX_X2 (1u << 21)
#define CPUID1_ECX_TSC_DEADLINE (1u << 24)

#define REG_ID 0x20u
#define REG_TASK_PRIORITY 0x80u
#define REG_SPURIOUS 0xf0u
#define REG_COMMAND 0x300u
#define REG_COMMAND_HIGH 0x310u
#define REG_TIMER 0x320u
#define REG_LINT0 0x350u
#define REG_LINT1 0x360u
#define REG_ERROR 0x370u
#define REG_COUNT 0x380u
#define REG_COUNT_NOW 0x390u
#define REG_DIVIDE 0x3e0u
#define LVT_MASKED (1u << 16)
#define LVT_TSC_DEADLINE (2u << 17)
#define SPURIOUS_ENABLE (1u << 8)
#define DIVIDE_BY_1 0xbu
#define COMMAND_NMI 0x400u
#define COMMAND_INIT 0x500u
#define COMMAND_BEGIN 0x600u
#define COMMAND_SENDING (1u << 12)
#define COMMAND_ASSERT (1u << 14)
#define COMMAND_OTHERS (3u << 18)
#define SENDING_LOOKS 100000u

// Read by trap.S: NULL means x2APIC.
extern volatile u8 *apic_regs __attribute__((visibility("hidden")));
volatile u8 *apic_regs;
static bool tsc_deadline;

static u32 apic_read(u32 reg) {
  if (apic_regs == NULL) {
    return (u32)cpu_rdmsr(MSR_X2 + (reg >> 4));
  }
  return *(volatile u32 *)(apic_regs + reg);
}

static void apic_write(u32 reg, u32 v) {
  if (apic_regs == NULL) {
    cpu_wrmsr(MSR_X2 + (reg >> 4), v);
  } else {
    *(volatile u32 *)(apic_regs + reg) = v;
  }
}

bool apic_has_x2(void) {
  return (cpu_id(1, 0).ecx & CPUID1_ECX_X2) != 0;
}

u64 apic_base_phys(void) {
  return cpu_rdmsr(MSR_BASE) & BASE_PHYS;
}

void apic_init(void *regs) {
  bool x2 = apic_has_x2();
  ASSERT(x2 || regs != NULL);
  apic_regs = x2 ? NULL : regs;
  apic_init_core();
}

void apic_init_core(void) {
  bool x2 = apic_regs == NULL;
  u64 base = cpu_rdmsr(MSR_BASE) | BASE_ENABLE;
  cpu_wrmsr(MSR_BASE, base);  // x2APIC may only be entered from the enabled state
  if (x2) {
    cpu_wrmsr(MSR_BASE, base | BASE_X2);
  }
  apic_write(REG_TASK_PRIORITY, 0);
  apic_write(REG_LINT0, LVT_MASKED);
  apic_write(REG_LINT1, LVT_MASKED);
  apic_write(REG_ERROR, LVT_MASKED);
  apic_write(REG_SPURIOUS, SPURIOUS_ENABLE | TRAP_VECTOR_SPURIOUS);
  tsc_deadline = (cpu_id(1, 0).ecx & CPUID1_ECX_TSC_DEADLINE) != 0;
  apic_write(REG_DIVIDE, DIVIDE_BY_1);
  apic_write(REG_TIMER, TRAP_VECTOR_TIMER | (tsc_deadline ? LVT_TSC_DEADLINE : 0));
  cpu_mb();  // the timer's mode must be set before its deadline (SDM 10.5.4.1)
}

u32 apic_id(void) {
  u32 id = apic_read(REG_ID);
  return apic_regs == NULL ? id : id >> 24;
}

// What was written before is seen by whoever this ends a halt of: an MSR write orders nothing.
static void send_command(u32 id, u32 what) {
  cpu_mb();
  if (apic_regs == NULL) {
    cpu_wrmsr(MSR_X2 + (REG_COMMAND >> 4), (u64)id << 32 | what);
    return;
  }
  for (u32 i = 0; i < SENDING_LOOKS && (apic_read(REG_COMMAND) & COMMAND_SENDING) != 0; i++) {
    cpu_relax();
  }
  apic_write(REG_COMMAND_HIGH, id << 24);
  apic_write(REG_COMMAND, what);
}

void apic_wake(u32 id) {
  send_command(id, TRAP_VECTOR_DEVICE);
}

void apic_reset(u32 id) {
  send_command(id, COMMAND_INIT | COMMAND_ASSERT);
}

void apic_begin(u32 id, u32 page_phys) {
  ASSERT(page_phys < 1u << 20);
  send_command(id, COMMAND_BEGIN | COMMAND_ASSERT | page_phys >> 12);
}

void apic_stop_others(void) {
  send_command(0, COMMAND_NMI | COMMAND_ASSERT | COMMAND_OTHERS);
}

bool apic_timer_is_tsc(void) {
  return tsc_deadline;
}

void apic_timer_arm(u64 value) {
  ASSERT(value != 0);
  if (tsc_deadline) {
    cpu_wrmsr(MSR_TSC_DEADLINE, value);
  } else {
    apic_write(REG_COUNT, (u32)MIN(value, (u64)U32_MAX));
  }
}

void apic_timer_stop(void) {
  if (tsc_deadline) {
    cpu_wrmsr(MSR_TSC_DEADLINE, 0);
  } else {
    apic_write(REG_COUNT, 0);
  }
}

u32 apic_timer_left(void) {
  ASSERT(!tsc_deadline);
  return apic_read(REG_COUNT_NOW);
}

static void ioapic_write(volatile u32 *regs, u32 reg, u32 v) {
  regs[0] = reg;
  regs[4] = v;
}

void ioapic_route(volatile u32 *regs, u32 pin, bool low_active, bool level, u32 apic) {
  ASSERT(regs != NULL);
  ASSERT(pin < 240);
  ioapic_write(regs, 0x11 + 2 * pin, apic << 24);
  ioapic_write(regs, 0x10 + 2 * pin,
               TRAP_VECTOR_CONSOLE | (low_active ? 1u << 13 : 0) | (level ? 1u << 15 : 0));
}

// Both 8259s are moved off the exceptions' vectors and masked; lines arrive by the I/O APIC.
void pic_disable(void) {
  static const u8 words[4][2] = {{0x11, 0x11}, {0xe0, 0xe8}, {4, 2}, {1, 1}};
  cpu_out8(0x20, words[0][0]);
  cpu_out8(0xa0, words[0][1]);
  for (u32 i = 1; i < 4; i++) {
    cpu_out8(0x21, words[i][0]);
    cpu_out8(0xa1, words[i][1]);
  }
  cpu_out8(0x21, 0xff);
  cpu_out8(0xa1, 0xff);
}
