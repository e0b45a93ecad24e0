// SPDX-License-Identifier: Apache-2.0
// The disk of this machine, from looking for it to service: which disk is ours, what is on it back
// in the broker, and what the console says about both.
#pragma once
#include "admin/config.h"
#include "loop/carve.h"
#include "loop/core.h"

// Looks at every disk; the first that carries our layout is opened. Takes memory before it is
// divided. None when the machine was started from the medium. May set up a disk that the platform
// has just made ("new-disk" in its command line). False: a disk was asked for by name and is not to
// be used: said on the console.
bool serve_store_find(struct carve *carve);
// Reads what is on it into the broker; rules must be in force. From then on what is promised is
// written to it. False: `storage required` and there is none, or it cannot be read: said.
bool serve_store_start(struct core *core, const struct config *config);
// Live mode or the disk, in one line.
void serve_store_say(const struct config *config);
// The disk that the store uses; NULL: none. Nobody else may.
const struct block *serve_store_disk(void);
// Nothing that was recorded waits to be written any more (or there is no disk).
bool serve_store_quiet(void);
// For $SYS. state: 0 live mode, 1 a disk, 2 it is full for what is new, 3 it has failed.
struct serve_store_stats {
  u64 state, records, bytes, flushes;
  u64 left_out;  // small records without room
  u64 free;      // bytes of the journal
};
void serve_store_stats(struct serve_store_stats *out);
// What was written, in one line (nothing without a disk).
void serve_store_end(void);
struct store;
struct store *serve_store(void);  // NULL: none
