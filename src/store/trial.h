// SPDX-License-Identifier: Apache-2.0
// Tries once what a disk says of itself before it is relied on: that ZERO leaves zeros and touches
// nothing beside, that DISCARD touches nothing beside. Devices are known that acknowledge a
// write-zeroes and ignore it. On an area that belongs to nobody; before anything else uses the
// disk, as it takes all of its completions.
#pragma once
#include "base/block.h"

#define TRIAL_MAX (256u << 10)  // bytes of the area and of the memory, at most

struct trial {
  struct block *disk;
  struct block_info info;
  u64 at;
  u64 unit;  // a third of the area
  struct span memory;
  u32 step;
  bool waiting;
  bool zero_good;     // ZERO may be relied on
  bool discard_good;  // DISCARD may be used
  bool io_good;       // writes, reads and flushes went well: else nothing above says anything
};

// Bytes of the area for this disk: three times its unit. 0: its unit is too large to be tried.
u64 trial_len(const struct block_info *info);
// at: aligned to the unit; memory: trial_len bytes, as block.h B2.
void trial_start(struct trial *t, struct block *disk, u64 at, struct span memory);
// One step, to be called again until it returns true: finished.
bool trial_turn(struct trial *t, u64 now_ns);
