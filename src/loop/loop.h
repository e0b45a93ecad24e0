// SPDX-License-Identifier: Apache-2.0
// One core, one loop, run to completion (DESIGN 3): poll, drain, timers, ready work, flush, sleep.
#pragma once
#include "loop/core.h"

// Zeroes `core`, seeds its hash key, gives it a wheel of `timers`.
void core_init(struct core *core, u32 id, struct timer *timers, u32 timer_count);
void loop_stage(struct core *core, const char *name, bool (*run)(struct core *core, void *ctx),
                void *ctx);
// One turn: time, mail from other cores and expired timers (both bounded), stages in order, mail to
// other cores. Returns true when anything was done.
bool loop_turn(struct core *core);
// Turns until core->stop; sleeps in plat_idle until the wheel's next deadline when a turn did
// nothing.
void loop_run(struct core *core);
