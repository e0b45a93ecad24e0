// SPDX-License-Identifier: Apache-2.0
// Epochs: when has every core seen a change of memory that all of them read? A core that reads such
// memory keeps nothing of it beyond its turn; the end of a turn is its quiescent state. A change
// made before epoch_next returned e is seen by every core once epoch_reached(e), and nobody then
// still looks at what it unlinked.
//
// I1  A core that sleeps is offline: it reads nothing and holds nobody up. Waking, it comes online
//     before it reads anything. Proven: tests/models/epoch.pml.
// I2  With one core everything is reached at once.
#pragma once
#include "loop/carve.h"
#include "loop/core.h"

struct epoch;  // shared by all cores

u64 epoch_bytes(void);
// NULL: no memory. OWNED by all cores for the program's life. `cores` of them are online.
struct epoch *epoch_open(struct carve *carve, u32 cores);
// Begins a new epoch and returns it.
u64 epoch_next(struct epoch *e);
// Every core has ended a turn, or slept, since epoch_next returned `at`.
bool epoch_reached(const struct epoch *e, u64 at);

// Of the core itself (loop.c); core->epoch NULL: nothing.
void epoch_quiet(struct core *core);    // the end of a turn
void epoch_offline(struct core *core);  // before it sleeps
void epoch_online(struct core *core);   // after it slept
