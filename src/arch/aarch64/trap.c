// SPDX-License-Identifier: Apache-2.0
// What an exception's syndrome means (Arm DDI 0487 D24.2.40). See trap.h for the invariants.
#include "arch/trap.h"

#include "arch/cpu.h"

#define STACK_LEN 16384u
#define KIND_SYNCHRONOUS 0u
#define KIND_SYSTEM_ERROR 3u
#define CLASS_UNKNOWN 0x00u
#define CLASS_BRANCH_TARGET 0x0du
#define CLASS_ILLEGAL_STATE 0x0eu
#define CLASS_POINTER_AUTH 0x1cu
#define CLASS_INSTRUCTION_ABORT 0x21u
#define CLASS_PC_ALIGNMENT 0x22u
#define CLASS_DATA_ABORT 0x25u
#define CLASS_SP_ALIGNMENT 0x26u
#define CLASS_BREAKPOINT 0x3cu
#define FAULT_TRANSLATION 1u  // status bits 5:2; the page is absent
#define FAULT_ALIGNMENT 0x21u
#define FAULT_EXTERNAL 4u  // bits 5:2: nobody answers there, or broken memory

static u8 stack[STACK_LEN] ALIGNED(16);

#pragma GCC visibility push(hidden)
extern const u8 trap_vectors[];
void trap_load(const void *vectors, void *stack_top);
// Called by trap.S. Returns when the access may be tried again.
void trap_exception(u32 kind, bool nested, u64 syndrome, u64 address);
#pragma GCC visibility pop

void trap_init(void) {
  trap_load(trap_vectors, stack + STACK_LEN);
}

void trap_init_core(void *memory, const u64 *stack_tops) {
  (void)memory;
  trap_load(trap_vectors, (void *)(uptr)stack_tops[0]);
}

// Interrupts stay masked here, so nothing but the other cores' own look (plat/metal/cores.c) stops
// them.
void trap_stop_others(void) {}

static enum trap_cause cause_of(u64 syndrome) {
  u32 status = syndrome & 63;
  switch (syndrome >> 26 & 63) {
  case CLASS_UNKNOWN:
  case CLASS_BREAKPOINT: return TRAP_INSTRUCTION;
  case CLASS_BRANCH_TARGET:
  case CLASS_ILLEGAL_STATE:
  case CLASS_POINTER_AUTH:
  case CLASS_PC_ALIGNMENT:
  case CLASS_SP_ALIGNMENT: return TRAP_PROTECTION;
  case CLASS_INSTRUCTION_ABORT: return TRAP_MEMORY;
  case CLASS_DATA_ABORT:
    return status == FAULT_ALIGNMENT       ? TRAP_PROTECTION
           : status >> 2 == FAULT_EXTERNAL ? TRAP_BROKEN
                                           : TRAP_MEMORY;
  default: return TRAP_OTHER;
  }
}

void trap_exception(u32 kind, bool nested, u64 syndrome, u64 address) {
  bool absent = kind == KIND_SYNCHRONOUS && (syndrome >> 26 & 63) == CLASS_DATA_ABORT &&
                (syndrome >> 2 & 15) == FAULT_TRANSLATION;
  if (absent && trap_absent(address)) {
    return;
  }
  if (nested) {
    trap_fatal(TRAP_NESTED, 0);
  }
  if (kind == KIND_SYNCHRONOUS) {
    trap_fatal(cause_of(syndrome), address);
  }
  trap_fatal(kind == KIND_SYSTEM_ERROR ? TRAP_BROKEN : TRAP_OTHER, 0);
}
