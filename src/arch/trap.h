// SPDX-License-Identifier: Apache-2.0
// Exceptions and interrupts, the same contract on both families.
//
// I1  An interrupt only ends a halt: nothing runs in the middle of anything, nothing but the
//     acknowledgement happens, and no vector register is touched.
// I2  Every exception is our bug or broken hardware and ends in trap_fatal on a stack of its own,
//     but one: the first touch of a page that is zeroed on demand, which then goes on.
#pragma once
#include "base/cc.h"

// Loads our tables of handlers. From here on exceptions are reported.
void trap_init(void);
// The same on another core, with memory of its own: CPU_TRAP_LEN zeroed bytes, and CPU_TRAP_STACKS
// guarded stacks of CPU_TRAP_STACK_LEN bytes, by their upper ends.
void trap_init_core(void *memory, const u64 *stack_tops);
// From now on another core that is told to look (by whatever ends its halt, or cannot be held off)
// stops for ever.
void trap_stop_others(void);

enum trap_cause {
  TRAP_DIVISION,     // only where the processor traps it
  TRAP_INSTRUCTION,  // undefined, or one that the compiler put where nothing may come
  TRAP_NESTED,       // an exception in the middle of the report of one
  TRAP_PROTECTION,   // a rule other than a page's
  TRAP_MEMORY,       // an access that the page tables forbid; address says where
  TRAP_BROKEN,       // the processor or the memory reports a fault of its own
  TRAP_OTHER,
};

// Supplied by the platform: an access to memory that is not there. True when it may be tried again.
// It runs in the middle of anything: no vector registers, no pools.
bool trap_absent(u64 address);
// Supplied by the platform: the exception that ends the program.
NORETURN void trap_fatal(enum trap_cause cause, u64 address);
