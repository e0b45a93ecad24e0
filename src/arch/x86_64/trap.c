// SPDX-License-Identifier: Apache-2.0
// Descriptor tables (Intel SDM 3A 6.14, 8.2). See trap.h for the invariants.
#include "arch/trap.h"

#include "arch/cpu.h"
#include "arch/x86_64/apic.h"
#include "base/assert.h"
#include "base/mem.h"

#define STACK_LEN CPU_TRAP_STACK_LEN
#define IST_FAULT 1u
#define IST_DOUBLE 2u
#define IST_NMI 3u
#define IST_INTERRUPT 4u
#define IST_COUNT 4u
#define GATE_INTERRUPT 0x8e00u
#define VECTOR_NMI 2u
#define VECTOR_DOUBLE 8u
#define VECTOR_MACHINE_CHECK 18u
#define PAGE_FAULT_PRESENT 1u  // the page was there: a right was missing

struct gate {
  u16 offset_low;
  u16 selector;
  u16 flags;
  u16 offset_mid;
  u32 offset_high;
  u32 reserved;
};
static_assert(sizeof(struct gate) == 16, "a gate is 16 bytes");

struct task_state {
  u32 reserved0;
  u64 rsp[3];
  u64 reserved1;
  u64 ist[7];
  u64 reserved2;
  u16 reserved3;
  u16 io_map;
} PACKED;
static_assert(sizeof(struct task_state) == 104, "the 64-bit task state is 104 bytes");

struct table_register {
  u16 limit;
  u64 base;
} PACKED;

struct core_tables {
  u64 gdt[5];
  struct task_state task;
};
static_assert(sizeof(struct core_tables) <= CPU_TRAP_LEN, "what a core's caller sets aside");
static_assert(IST_COUNT == CPU_TRAP_STACKS, "a stack each");

static struct gate idt[256];
static struct core_tables first;
static u8 stacks[IST_COUNT][STACK_LEN] ALIGNED(16);

#pragma GCC visibility push(hidden)
extern const i32 trap_table[32];
extern const u8 trap_interrupt[];
extern const u8 trap_spurious[];
void trap_load(const void *gdt_register, const void *idt_register);
extern u8 trap_stopped;  // read by the NMI's handler
// Called by trap.S. error and address (CR2): of a page fault.
bool trap_page_fault(u64 error, u64 address);
NORETURN void trap_vector(u32 vector, u64 error, u64 address);
#pragma GCC visibility pop

static void gate_set(u32 vector, u64 at, u32 ist) {
  ASSERT(vector < 256);
  ASSERT(ist <= IST_COUNT);
  idt[vector] = (struct gate){.offset_low = (u16)at,
                              .selector = 8,
                              .flags = (u16)(GATE_INTERRUPT | ist),
                              .offset_mid = (u16)(at >> 16),
                              .offset_high = (u32)(at >> 32)};
}

void trap_init(void) {
  for (u32 v = 0; v < 256; v++) {
    u64 at = (u64)(uptr)(v == TRAP_VECTOR_SPURIOUS ? trap_spurious : trap_interrupt);
    u32 ist = IST_INTERRUPT;
    if (v < 32) {
      at = (u64)(uptr)trap_table + (u64)(i64)trap_table[v];
      ist = v == VECTOR_NMI                                   ? IST_NMI
            : v == VECTOR_DOUBLE || v == VECTOR_MACHINE_CHECK ? IST_DOUBLE
                                                              : IST_FAULT;
    }
    gate_set(v, at, ist);
  }
  u64 tops[IST_COUNT];
  for (u32 i = 0; i < IST_COUNT; i++) {
    tops[i] = (u64)(uptr)stacks[i] + STACK_LEN;
  }
  trap_init_core(&first, tops);
}

void trap_init_core(void *memory, const u64 *stack_tops) {
  struct core_tables *t = memory;
  ASSERT(t->gdt[1] == 0);
  for (u32 i = 0; i < IST_COUNT; i++) {
    t->task.ist[i] = stack_tops[i];
  }
  t->task.io_map = sizeof t->task;
  u64 base = (u64)(uptr)&t->task;
  t->gdt[1] = 0x00af9a000000ffffull;
  t->gdt[2] = 0x00cf92000000ffffull;
  t->gdt[3] =
      (sizeof t->task - 1) | (base & 0xffffffull) << 16 | 0x89ull << 40 | (base >> 24 & 0xff) << 56;
  t->gdt[4] = base >> 32;
  struct table_register g = {sizeof t->gdt - 1, (u64)(uptr)t->gdt};
  struct table_register i = {sizeof idt - 1, (u64)(uptr)idt};
  trap_load(&g, &i);
}

u8 trap_stopped;

void trap_stop_others(void) {
  trap_stopped = 1;
  apic_stop_others();
}

bool trap_page_fault(u64 error, u64 address) {
  return (error & PAGE_FAULT_PRESENT) == 0 && trap_absent(address);
}

void trap_vector(u32 vector, u64 error, u64 address) {
  (void)error;
  switch (vector) {
  case 0: trap_fatal(TRAP_DIVISION, 0);
  case 6: trap_fatal(TRAP_INSTRUCTION, 0);
  case VECTOR_DOUBLE: trap_fatal(TRAP_NESTED, 0);
  case 13: trap_fatal(TRAP_PROTECTION, 0);
  case 14: trap_fatal(TRAP_MEMORY, address);
  case VECTOR_MACHINE_CHECK: trap_fatal(TRAP_BROKEN, 0);
  default: trap_fatal(TRAP_OTHER, 0);
  }
}
