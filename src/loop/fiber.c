// SPDX-License-Identifier: Apache-2.0
#include "loop/fiber.h"

#include "plat/plat.h"

// First code on a fresh stack.
static void fiber_main(void *arg) {
  struct fiber *f = arg;
  FIBER_SWITCH_FINISH(NULL, &f->asan_stack, &f->asan_len);
  ASSERT(f->state == FIBER_RUNNING);
  f->entry(f, f->arg);
  f->state = FIBER_DONE;
  FIBER_SWITCH_START(NULL, f->asan_stack, f->asan_len);  // NULL: this stack's bookkeeping ends
  FIBER_TSAN_TO(f->tsan_caller);
  plat_stack_switch(&f->sp, f->caller_sp);
  assert_fail("fiber.c", "a finished fiber was resumed");
}

void fiber_start(struct fiber *f, struct span stack, void (*entry)(struct fiber *self, void *arg),
                 void *arg) {
  ASSERT(stack.len >= 4096);
  ASSERT(entry != NULL);
  *f = (struct fiber){.stack = stack, .entry = entry, .arg = arg, .state = FIBER_WAITING};
  MEM_UNPOISON(stack.ptr, stack.len);
  f->tsan = FIBER_TSAN_MAKE();
  f->sp = plat_stack_prepare(stack, fiber_main, f);
}

enum fiber_state fiber_resume(struct fiber *f) {
  ASSERT(f->state == FIBER_WAITING);
  f->state = FIBER_RUNNING;
  void *fake = NULL;
  FIBER_SWITCH_START(&fake, f->stack.ptr, f->stack.len);
  f->tsan_caller = FIBER_TSAN_HERE();
  FIBER_TSAN_TO(f->tsan);
  plat_stack_switch(&f->caller_sp, f->sp);
  FIBER_SWITCH_FINISH(fake, NULL, NULL);
  ASSERT(f->state == FIBER_WAITING || f->state == FIBER_DONE);
  if (f->state == FIBER_DONE) {
    FIBER_TSAN_DROP(f->tsan);
  }
  return f->state;
}

void fiber_yield(struct fiber *f) {
  ASSERT(f->state == FIBER_RUNNING);
  f->state = FIBER_WAITING;
  FIBER_SWITCH_START(&f->asan_fake, f->asan_stack, f->asan_len);
  FIBER_TSAN_TO(f->tsan_caller);
  plat_stack_switch(&f->sp, f->caller_sp);
  FIBER_SWITCH_FINISH(f->asan_fake, &f->asan_stack, &f->asan_len);
}
