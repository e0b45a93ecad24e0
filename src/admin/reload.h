// SPDX-License-Identifier: Apache-2.0
// The configuration read again while serving: whole or not at all.
#pragma once
#include "loop/core.h"

// Reads, checks and applies. Certificates, keys, CAs, CRLs, who may come in, limits and $SYS
// change; connections that are still allowed stay. False: nothing was changed; why is said on the
// console.
bool reload(struct core *core);
