// SPDX-License-Identifier: Apache-2.0
#include "loop/loop.h"

#include "loop/epoch.h"
#include "loop/mailbox.h"

// Expired timers handled in one turn; the rest follows in the next, before any new work.
#define TIMERS_A_TURN 256u

void core_init(struct core *core, u32 id, struct timer *timers, u32 timer_count) {
  *core = (struct core){.id = id, .now_ns = plat_now_ns()};
  wheel_init(&core->wheel, timers, timer_count, core->now_ns);
  (void)plat_random(span_of(&core->hash_key, sizeof core->hash_key));
}

void loop_stage(struct core *core, const char *name, bool (*run)(struct core *core, void *ctx),
                void *ctx) {
  ASSERT(core->stage_count < STAGE_MAX);
  ASSERT(run != NULL);
  core->stages[core->stage_count++] = (struct stage){name, run, ctx};
}

static bool run_timers(struct core *core) {
  for (u32 i = 0; i < TIMERS_A_TURN; i++) {
    u32 id = wheel_expire(&core->wheel, core->now_ns);
    if (id == WHEEL_NONE) {
      return i > 0;
    }
    struct timer *t = &core->wheel.timers[id];
    ASSERT(t->kind < TIMER_KIND_COUNT);
    ASSERT(core->on_timer[t->kind] != NULL);
    core->on_timer[t->kind](core, id, t->owner);
  }
  return true;
}

bool loop_turn(struct core *core) {
  core->now_ns = plat_now_ns();
  bool busy = mailbox_receive(core);
  busy |= run_timers(core);
  for (u32 i = 0; i < core->stage_count; i++) {
    busy |= core->stages[i].run(core, core->stages[i].ctx);
  }
  mailbox_send(core);
  epoch_quiet(core);
  core->turns++;
  core->idle_turns += busy ? 0 : 1;
  return busy;
}

static void loop_sleep(struct core *core) {
  epoch_offline(core);
  if (mailbox_sleep(core)) {
    plat_idle(core->id, wheel_next_ns(&core->wheel));
  }
  mailbox_awake(core);
  epoch_online(core);
}

void loop_run(struct core *core) {
  while (!core->stop) {
    if (!loop_turn(core)) {
      loop_sleep(core);
    }
  }
}
