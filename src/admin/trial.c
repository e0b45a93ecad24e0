// SPDX-License-Identifier: Apache-2.0
// I1  While a trial is on, the configuration before it is the candidate of serve.h, parsed and with
//     its archive; nobody else uses the candidate (reload refuses).
// I2  The way back is the way forth: contexts and rules are made of what was already good once.
//     Should there be no memory for them at that moment, it is tried again every few seconds.
#include "admin/trial.h"

#include "admin/reload.h"
#include "admin/serve.h"
#include "admin/task.h"

#define SEC_NS 1000000000ull
#define AGAIN_NS (5 * SEC_NS)

static struct {
  struct admin_task task;
  const struct config *before;
  u64 until_ns;
  u32 number;
  bool has_timer, on;
} trial;

bool trial_is_on(void) {
  return trial.on;
}
u32 trial_number(void) {
  return trial.number;
}
u32 trial_left_s(const struct core *core) {
  return trial.on && trial.until_ns > core->now_ns
             ? (u32)((trial.until_ns - core->now_ns + SEC_NS - 1) / SEC_NS)
             : 0;
}

static void on_time(struct core *core) {
  if (trial.on && core->now_ns < trial.until_ns) {
    wheel_arm(&core->wheel, trial.task.timer, trial.until_ns);
  } else if (trial.on) {
    (void)trial_end(core, "nobody confirmed it");
  }
}

const char *trial_begin(struct core *core, struct bytes giver, u32 len, u32 seconds) {
  const struct config *c;
  const struct config *before = serve_current();
  ASSERT(!trial.on && before != NULL && seconds >= 1 && seconds <= TRIAL_MOST_S);
  trial.has_timer = trial.has_timer || admin_task_start(core, &trial.task, on_time);
  if (!trial.has_timer) {
    return "no timer is left to end a trial";
  }
  if (serve_given(giver, len, &c) != SERVE_GOOD) {
    return "the configuration has errors; nothing was changed";
  }
  if (!reload_exchange(core, c)) {
    serve_candidate_drop();
    return "the configuration could not be put in force; nothing was changed";
  }
  trial.before = before;
  trial.on = true;
  trial.number++;
  trial.until_ns = core->now_ns + seconds * SEC_NS;
  wheel_arm(&core->wheel, trial.task.timer, trial.until_ns);
  say("configuration: on trial for %u seconds; without configConfirm the one before comes back",
      seconds);
  return NULL;
}

void trial_confirm(struct core *core) {
  ASSERT(trial.on);
  trial.on = false;
  wheel_cancel(&core->wheel, trial.task.timer);
  serve_candidate_drop();
  say("configuration: confirmed; it counts until the next reload or start");
}

bool trial_end(struct core *core, const char *why) {
  ASSERT(trial.on);
  say("configuration: the one before comes back: %s", why);
  if (!reload_exchange(core, trial.before)) {
    say("warning: it does not now; in %u seconds again", (u32)(AGAIN_NS / SEC_NS));
    trial.until_ns = core->now_ns + AGAIN_NS;
    wheel_arm(&core->wheel, trial.task.timer, trial.until_ns);
    return false;
  }
  trial.on = false;
  wheel_cancel(&core->wheel, trial.task.timer);
  serve_candidate_drop();
  return true;
}
