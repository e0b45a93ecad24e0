// SPDX-License-Identifier: Apache-2.0
// A configuration on trial: in force at once, and gone again unless it is confirmed in time over a
// connection that was made after it came into force - whoever locks himself out gets back in.
#pragma once
#include "loop/core.h"

#define TRIAL_STANDARD_S 120u
#define TRIAL_MOST_S 600u

// Checks and puts in force what stands in serve_room(), for so many seconds. NULL, or why nothing
// was changed; the console's lines say what is wrong with it.
const char *trial_begin(struct core *core, struct bytes giver, u32 len, u32 seconds);
bool trial_is_on(void);
u32 trial_number(void);  // counts trials: which one a command can have known of
u32 trial_left_s(const struct core *core);
// What is on trial stays, until the next start or reload.
void trial_confirm(struct core *core);
// The configuration before it comes back. False: it could not, and will be tried again.
bool trial_end(struct core *core, const char *why);
