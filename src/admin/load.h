// SPDX-License-Identifier: Apache-2.0
// A rate per minute as an exponentially weighted average over 1, 5 and 15 minutes, as mosquitto's
// load/...: fixed point, no floating-point unit. Pure.
#pragma once
#include "base/bytes.h"

#define LOAD_WINDOWS 3u

struct load {
  u64 before;              // the counter at the last step
  u64 rate[LOAD_WINDOWS];  // per minute, in 1/65536
};
// The counter stands at `now`, `elapsed_ms` (1 .. a day, more counts as a day) after the last step.
// A counter that went back counts as unchanged.
void load_step(struct load *l, u64 now, u64 elapsed_ms);
// Hundredths per minute.
u64 load_hundredths(const struct load *l, u32 window);
