// SPDX-License-Identifier: Apache-2.0
// A fiber is a function on its own guarded stack that can wait in the middle. Handshakes, the store
// and password hashing run on one; everything else runs to completion on the core's stack.
//
// I1  A fiber is resumed only from the core's own stack, by the core that started it; fibers do not
//     nest.
// I2  The switch keeps callee-saved registers, MXCSR and x87 control word (aarch64: d8-d15, FPCR)
//     and tells the sanitizers.
#pragma once
#include "base/bytes.h"

enum fiber_state { FIBER_IDLE, FIBER_RUNNING, FIBER_WAITING, FIBER_DONE };

struct fiber {
  void *sp;         // saved stack pointer of the side that does not run
  void *caller_sp;  // the core's stack while the fiber runs
  struct span stack;
  void (*entry)(struct fiber *self, void *arg);
  void *arg;
  enum fiber_state state;
  void *asan_fake;         // sanitizer bookkeeping
  const void *asan_stack;  // the core's stack bottom and size
  usize asan_len;
  void *tsan;  // ThreadSanitizer's own idea of this fiber and of the core's stack
  void *tsan_caller;
};

void fiber_start(struct fiber *f, struct span stack, void (*entry)(struct fiber *self, void *arg),
                 void *arg);
// Runs the fiber until it yields or ends; returns its state (WAITING or DONE).
enum fiber_state fiber_resume(struct fiber *f);
// From inside the fiber only.
void fiber_yield(struct fiber *f);
