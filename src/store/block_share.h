// SPDX-License-Identifier: Apache-2.0
// One device for several users: each gets a port that is a block device of its own, with its own
// completions. The journal, a script and the database can so use one disk at the same time.
//
// I1  A token below carries the port in its highest byte; users' tokens are below 2^56.
// I2  A completion that is taken from the device waits at its port until its user takes it. A port
//     holds at most its share of what the device can hold, so there is always room.
#pragma once
#include "base/block.h"

#define BLOCK_SHARE_PORTS 4u

struct block_port {
  struct block block;  // first
  struct block_share *share;
  u8 idx;
  u32 held;  // operations that this port's user has under way
  u32 done_count;
  struct block_done done[BLOCK_INFLIGHT_MAX / BLOCK_SHARE_PORTS];
};

struct block_share {
  struct block *under;
  struct block_port port[BLOCK_SHARE_PORTS];
};

// All ports are there at once; who needs none leaves his.
void block_share_init(struct block_share *s, struct block *under);
static inline struct block *block_share_port(struct block_share *s, u32 idx) {
  ASSERT(idx < BLOCK_SHARE_PORTS);
  return &s->port[idx].block;
}
