// SPDX-License-Identifier: Apache-2.0
// Cores and time. A core of the broker's machine runs the program's own loop on a fiber, which it
// leaves where a turn takes its frames and where it sleeps; a host's core is a function.
//
// C1  A turn costs virtual time, and sometimes a long time: the core stands still between reading
//     the clock and taking its frames, as a virtual machine does whose processor was taken away.
// C2  A core that sleeps has fired its timers: whose deadline is over again and again when it goes
//     to sleep has lost one, or fires it late.
// C3  A sleeping core wakes by a frame (after an interrupt's latency), a wake-up or its deadline.
#include <stdlib.h>
#include <unistd.h>

#include "plat/sim/world.h"

#define TURN_NS (4 * SIM_US)  // most of a usual turn
#define LATENCY_NS (30 * SIM_US)
#define LATE_IDLES 4u

static struct span main_stack;

void cores_frame_for(u32 machine, u32 core) {
  u32 c = machine == 0 ? core : SIM_CORES_MAX + machine - 1;
  struct sim_core *k = &world->core[c];
  if (k->exists && k->slept && k->run_ns == U64_MAX) {
    k->run_ns = world->now_ns + sim_below(&world->cores, LATENCY_NS);
  }
}

// How long this turn takes.
static u64 turn_ns(void) {
  u64 ns = SIM_US / 2 + sim_below(&world->cores, TURN_NS);
  if (sim_chance(&world->cores, world->options.stall)) {
    u64 stall = sim_draw(&world->cores) % (world->options.stall_ns + 1);
    world->result.fault[SIM_STALL]++;
    world->result.events++;
    world->longest_stall_ns = MAX(world->longest_stall_ns, stall);
    ns += stall;
  }
  return ns;
}

// The broker's core leaves its fiber here; time goes on before it comes back.
static void leave(void) {
  struct sim_core *k = &world->core[world->running];
  ASSERT(world->running < SIM_CORES_MAX);
  fiber_yield(&k->fiber);
}

void cores_turn_begins(void) {
  struct sim_core *k = &world->core[world->running];
  if (world->running >= SIM_CORES_MAX || k->slept) {
    k->slept = false;  // it has just come from its sleep, in the same turn
    return;
  }
  k->run_ns = world->now_ns + turn_ns();
  leave();
}

void plat_idle(u32 core, u64 deadline_ns) {
  struct sim_core *k = &world->core[world->running];
  ASSERT(core == world->running);
  k->late_idles = deadline_ns < world->now_ns - world->boot_ns ? k->late_idles + 1 : 0;
  if (k->late_idles > LATE_IDLES) {
    sim_fail("a timer that was due at %llu us does not fire (it is %llu us)",
             (unsigned long long)deadline_ns / 1000,
             (unsigned long long)(world->now_ns - world->boot_ns) / 1000);
  }
  k->slept = true;
  k->deadline_ns = deadline_ns > U64_MAX - world->boot_ns ? U64_MAX : deadline_ns + world->boot_ns;
  k->run_ns = frames_wait(0, core) ? world->now_ns : U64_MAX;
  if (world->disk.held_count > 0) {  // the completion of one of them
    k->run_ns = MIN(k->run_ns, world->now_ns + sim_below(&world->devices, 2 * DISK_NS));
  }
  leave();
}

void plat_wake(u32 core) {
  struct sim_core *k = &world->core[core];
  ASSERT(core < SIM_CORES_MAX);
  k->run_ns = MIN(k->run_ns, world->now_ns + sim_below(&world->cores, LATENCY_NS));
}

u32 plat_core_count(void) {
  return 1;
}

void plat_cores_start(void) {}

void sim_wake_host(u32 host) {
  struct sim_core *k = &world->core[SIM_CORES_MAX + host];
  k->run_ns = MIN(k->run_ns, world->now_ns);
}

u64 sim_longest_stall_ns(void) {
  u64 ns = world->longest_stall_ns;
  world->longest_stall_ns = 0;
  return ns;
}

static void run_main(struct fiber *self, void *unused) {
  (void)self, (void)unused;
  urmqtt_main();
  world->broker_ended = true;
}

void cores_boot(void) {
  struct sim_core *k = &world->core[0];
  for (u32 c = 0; c < SIM_CORES_MAX; c++) {
    world->core[c] = (struct sim_core){.exists = c == 0, .run_ns = U64_MAX};
  }
  main_stack = plat_stack(1u << 20);
  ASSERT(main_stack.ptr != NULL);
  world->machine[0].up = true;
  world->boot_ns = world->now_ns;
  k->run_ns = world->now_ns;
  k->deadline_ns = U64_MAX;
  fiber_start(&k->fiber, main_stack, run_main, NULL);
}

static u64 next_of(const struct sim_core *k) {
  return !k->exists ? U64_MAX : k->slept ? MIN(k->run_ns, k->deadline_ns) : k->run_ns;
}

static void host_turn(u32 c) {
  struct sim_core *k = &world->core[c];
  u32 h = host_of_core(c);
  bool busy = harness->host_turn(h);
  u64 cost = turn_ns();
  k->slept = !busy && !frames_wait(1 + h, 0);
  k->run_ns = k->slept ? U64_MAX : world->now_ns + cost;
  k->deadline_ns = harness->host_deadline(h);
  k->deadline_ns =
      k->slept && cost > TURN_NS * 2 ? MAX(k->deadline_ns, world->now_ns + cost) : k->deadline_ns;
}

static void step(u32 c) {
  struct sim_core *k = &world->core[c];
  world->running = c;
  world->result.turns++;
  world->result.events++;
  if (c >= SIM_CORES_MAX) {
    host_turn(c);
    return;
  }
  if (fiber_resume(&k->fiber) == FIBER_DONE) {
    k->exists = false;
    world->machine[0].up = false;
    harness->ended();
  }
}

// One core of those that are ready, or none.
static bool run_one(void) {
  u32 ready[SIM_CORES_MAX + SIM_HOSTS_MAX];
  u32 count = 0;
  for (u32 c = 0; c < ARRAY_COUNT(ready); c++) {
    if (next_of(&world->core[c]) <= world->now_ns) {
      ready[count++] = c;
    }
  }
  if (count > 0) {
    step(ready[count == 1 ? 0 : sim_below(&world->cores, count)]);
  }
  return count > 0;
}

void cores_run(void) {
  while (!world->over) {
    u64 next = MIN(frames_next_ns(), world->act_ns);
    for (u32 c = 0; c < ARRAY_COUNT(world->core); c++) {
      next = MIN(next, next_of(&world->core[c]));
    }
    ASSERT(next != U64_MAX);
    world->now_ns = MAX(world->now_ns, next);
    frames_transmit();
    frames_deliver();
    if (world->act_ns <= world->now_ns) {
      world->running = SIM_CORES_MAX;
      world->act_ns = harness->act();
      ASSERT(world->act_ns > world->now_ns);
    }
    (void)run_one();
  }
}
