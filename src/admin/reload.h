// SPDX-License-Identifier: Apache-2.0
// The configuration read again while serving: whole or not at all.
#pragma once
#include "admin/config.h"
#include "loop/core.h"

// Reads, checks and applies. Certificates, keys, CAs, CRLs, who may come in, limits and $SYS
// change; connections that are still allowed stay. False: nothing was changed; why is said on the
// console.
// During a trial (trial.h) it does nothing.
bool reload(struct core *core);
// The candidate (serve.h) `c` comes into force and the one in use becomes the candidate. False:
// nothing was changed; why is said on the console.
bool reload_exchange(struct core *core, const struct config *c);
