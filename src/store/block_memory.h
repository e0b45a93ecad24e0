// SPDX-License-Identifier: Apache-2.0
// A disk in memory with a volatile write cache, for tests and the simulator. It completes what it
// holds in an order that its seed decides, and a power cut leaves of unflushed blocks what the seed
// decides: new, old, or torn at 512 bytes.
//
// I1  `now` is what reads see, `stable` what a power cut leaves. They are equal but for blocks
//     marked dirty.
// I2  A completed FLUSH makes stable what was completed before it was submitted (block.h B1), and
//     nothing is promised of what completed while it was under way.
#pragma once
#include "base/block.h"

struct block_memory_held {
  struct block_op op;
  u32 epoch;  // of submission
};

struct block_memory {
  struct block block;  // first
  struct block_info facts;
  u8 *now;
  u8 *stable;
  u32 *dirty;                // of each block: 1 + the epoch in which it was first written; 0: clean
  u64 dirty_from, dirty_to;  // blocks outside [from, to) are clean
  u32 epoch;                 // counts submissions of flushes
  u64 seed;
  struct block_memory_held held[BLOCK_INFLIGHT_MAX];
  u32 held_count;
  u32 delay;  // how many calls of complete find nothing ready, on average of 8
  u64 reads, writes, flushes;
};

// `now` and `stable` of the same length, a multiple of block_len, and equal; dirty: one word a
// block, zeroed. Owned by the caller.
void block_memory_init(struct block_memory *m, struct span now, struct span stable, u32 *dirty,
                       u32 block_len, u64 seed);
// The power is cut and comes back: what was held is carried out or not, each dirty block is new,
// old or torn. Nothing is held afterwards.
void block_memory_cut(struct block_memory *m);
