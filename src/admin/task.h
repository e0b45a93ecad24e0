// SPDX-License-Identifier: Apache-2.0
// Periodic work of administration: a timer each, of kind TIMER_ADMIN.
#pragma once
#include "loop/core.h"

struct admin_task {
  void (*run)(struct core *core);  // arms the timer again
  u32 timer;
};
// Takes a timer for the task (static, never moved). False: none is left.
bool admin_task_start(struct core *core, struct admin_task *task, void (*run)(struct core *core));
