// SPDX-License-Identifier: Apache-2.0
#include "admin/task.h"

static void on_timer(struct core *core, u32 timer, void *owner) {
  struct admin_task *task = owner;
  ASSERT(task->timer == timer);
  task->run(core);
}

bool admin_task_start(struct core *core, struct admin_task *task, void (*run)(struct core *core)) {
  task->run = run;
  task->timer = wheel_take(&core->wheel, TIMER_ADMIN, task);
  core->on_timer[TIMER_ADMIN] = on_timer;
  return task->timer != WHEEL_NONE;
}
