// SPDX-License-Identifier: Apache-2.0
// Which cores want a topic: filter -> set of cores, one index for all cores. Read by every core for
// each PUBLISH, changed by one (the writer: core 0), for which others ask by mail.
//
// I1  A reader keeps nothing of it beyond the call; a node that was unlinked is reused only when
//     every core has ended a turn since (epoch.h). Proven: tests/models/epoch.pml.
// I2  A node exists while a core wants its filter or it has children. The root always exists.
// I3  When there is no node left for a filter its core is sent everything until that filter goes:
//     more than it wants, never less.
// I4  All cores hash with the same key.
#pragma once
#include "loop/carve.h"
#include "mqtt/topic.h"

struct wants;
struct blocks;
struct levels;

u64 wants_bytes(u32 nodes);
// NULL: no memory. OWNED by all cores for the program's life.
struct wants *wants_open(struct carve *carve, u32 nodes);

// Any core: the cores with a filter that matches this name.
u64 wants_match(const struct wants *w, const struct levels *name);

// The writer. Long levels are kept in `text`, which is the writer's own.
// The core wants this filter, or does not any more.
void wants_set(struct wants *w, struct blocks *text, const struct levels *filter, u32 core,
               bool want);
// What has been unlinked until now is free once the epoch that begins now has been reached.
void wants_unlinked(struct wants *w, u64 epoch);
// The epoch has been reached.
void wants_reclaim(struct wants *w, struct blocks *text, u64 epoch);
// For tests: nodes in use, the root included and those that wait for an epoch.
u32 wants_count(const struct wants *w);
