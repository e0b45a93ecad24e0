// SPDX-License-Identifier: Apache-2.0
// The other cores of the machine: started one after the other by core 0 before the program, then
// halted until it lets them go. A core that does not come is said, stopped again and left out: the
// others' numbers stay dense.
//
// Words that several cores touch:
//   arrived   the new core stores its number (release), core 0 waits for it (acquire).
//   go        core 0 releases it when all is prepared; a halted core looks after each wake-up.
//   crashing  the first core that crashes stores it; the others look at each reading of the clock
//             and stop. On x86_64 they need not look: an NMI stops them.
#include "arch/cpu.h"
#include "arch/paging.h"
#include "arch/trap.h"
#include "base/shared.h"
#include "plat/metal/machine.h"
#include "plat/steer.h"

#define STACK_LEN (64u << 10)
#define ARRIVE_NS 200000000ull
#define SYNC_ROUNDS 64u

static u32 count = 1;
static u32 arrived;
static u32 go;
static u32 crashing;
static CORE_LOCAL bool crash_is_mine;
static CORE_LOCAL u32 self;
static struct {  // of the core that is being started
  u8 *local;
  u64 trap_stack_top[CPU_TRAP_STACKS];
  void *trap_memory;
  u8 seed[32];
} making;
static struct {  // clocks are compared: core 0 asks with a number, the new core answers with it
  u32 question ALIGNED(64);
  u32 answer ALIGNED(64);
  u64 cycles;
} sync;

u32 plat_core_count(void) {
  return count;
}

static bool prepare(u64 *stack_top) {
  struct span local = metal_dma(CPU_LOCAL_LEN);
  struct span tables = metal_dma(CPU_TRAP_LEN);
  struct span stack = plat_stack(STACK_LEN);
  if (local.ptr == NULL || tables.ptr == NULL || stack.ptr == NULL) {
    return false;
  }
  for (u32 i = 0; i < CPU_TRAP_STACKS; i++) {
    struct span s = plat_stack(CPU_TRAP_STACK_LEN);
    if (s.ptr == NULL) {
      return false;
    }
    making.trap_stack_top[i] = (u64)(uptr)s.ptr + s.len;
  }
  making.local = local.ptr;
  making.trap_memory = tables.ptr;
  (void)plat_random(span_of(making.seed, sizeof making.seed));
  *stack_top = (u64)(uptr)stack.ptr + stack.len;
  return true;
}

// How far the new core's counter is ahead of ours, as far as the time of a question allows to say;
// 0: they agree.
static i64 compare_clocks(void) {
  u64 best = U64_MAX;
  i64 ahead = 0;
  for (u32 i = 1; i <= SYNC_ROUNDS; i++) {
    u64 before = cpu_cycles_ordered();
    shared_ordered_store_u32(&sync.question, i);
    while (shared_ordered_load_u32(&sync.answer) != i) {
      cpu_relax();
    }
    u64 after = cpu_cycles_ordered();
    u64 theirs = sync.cycles;
    if (after - before < best) {
      best = after - before;
      ahead = (i64)(theirs - before) < 0  ? (i64)(theirs - before)
              : (i64)(theirs - after) > 0 ? (i64)(theirs - after)
                                          : 0;
    }
  }
  return ahead;
}

static void answer_clock(void) {
  for (u32 i = 1; i <= SYNC_ROUNDS; i++) {
    while (shared_ordered_load_u32(&sync.question) != i) {
      cpu_relax();
    }
    sync.cycles = cpu_cycles_ordered();
    shared_ordered_store_u32(&sync.answer, i);
  }
}

static bool arrives(u32 core) {
  u64 until = plat_now_ns() + ARRIVE_NS;
  while (shared_acquire_u32(&arrived) != core) {
    if (plat_now_ns() > until) {
      return false;
    }
    cpu_relax();
  }
  return true;
}

void metal_cores_start(void) {
  u32 want = MIN(metal_command_number("cores=", 1), PLAT_CORE_MAX);
  u32 listed = machine_core_list();
  if (want > listed) {
    console_fmt("cores: %u wanted, the machine has %u\n", want, listed);
  }
  for (u32 nth = 1; nth < listed && count < want; nth++) {
    u64 stack_top = 0;
    if (!prepare(&stack_top)) {
      console_fmt("cores: no memory for more than %u\n", count);
      break;
    }
    sync.question = sync.answer = 0;
    if (!machine_core_begin(nth, count, stack_top) || !arrives(count)) {
      machine_core_forget(nth);
      console_fmt("cores: processor %u of %u does not start and is left out\n", nth, listed);
      continue;
    }
    i64 ahead = compare_clocks();
    if (ahead != 0) {
      console_fmt("cores: core %u's clock is corrected by %ld ticks\n", count, (long)-ahead);
      machine_clock_correct(count, ahead);
    }
    count++;
  }
  machine_core_all_begun();
  if (want > 1) {
    console_fmt("cores: %u of %u processors\n", count, listed);
  }
}

// Apart from metal_core_main, since the compiler takes the thread pointer for a constant of a
// function.
static NOINLINE void run(u32 core) {
  self = core;
  trap_init_core(making.trap_memory, making.trap_stack_top);
  paging_set_kinds();
  machine_core_arrive(core);
  random_core_init(bytes_of(making.seed, sizeof making.seed));
  shared_release_u32(&arrived, core);
  answer_clock();
  while (shared_acquire_u32(&go) == 0) {
    machine_timer_arm(U64_MAX);
    machine_wait();
  }
  machine_clock_settle();
  selftest_core(core);
  urmqtt_core(core);
  cpu_halt_forever();
}

// The first C code of a new core, on its own stack.
void metal_core_main(u32 core) {
  cpu_set_local(making.local);
  run(core);
}

void plat_cores_start(void) {
  shared_release_u32(&go, 1);
  for (u32 i = 1; i < count; i++) {
    plat_wake(i);
  }
}


bool metal_crash_begins(void) {
  if (shared_exchange_u32(&crashing, 1) != 0) {
    return false;
  }
  crash_is_mine = true;
  trap_stop_others();
  for (u32 i = 0; i < count; i++) {
    if (i != self) {
      machine_wake(i);  // who is halted looks
    }
  }
  return true;
}

void metal_crash_look(void) {
  if (UNLIKELY(shared_relaxed_u32(&crashing) != 0) && !crash_is_mine) {
    for (;;) {  // an interrupt that nobody sees to would end each halt at once
      machine_timer_arm(U64_MAX);
      machine_wait();
    }
  }
}
