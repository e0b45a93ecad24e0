// SPDX-License-Identifier: Apache-2.0
// Blocks of any size for what differs in size and lives shortly: message objects, client ids, long
// topic levels, SUBACKs. A buddy allocator of 128-byte granules over one fixed region, so that no
// size can starve another by a fixed division. Small free blocks stay unmerged on short quick
// lists: a steady stream of equal messages takes and puts without a split or a merge.
//
// I1  A block of order k begins at a multiple of 2^k granules.
// I2  state[g] of a block's first granule is its order | FREE, QUICK or TAKEN; of every other
//     granule it is BLOCK_INNER. Two FREE buddies of one order never stand side by side.
// I3  taken + quick + free granules == count.
#pragma once
#include "base/bytes.h"

#define BLOCK_GRANULE 128u
#define BLOCK_ORDERS 22u       // largest: 2^21 granules = 256 MiB, a whole MQTT packet
#define BLOCK_QUICK_ORDERS 6u  // up to 4 KiB
#define BLOCK_QUICK_MAX 256u   // a list

struct blocks {
  u8 *base;
  u8 *state;
  u32 count;  // granules
  u32 taken;  // granules
  u32 taken_high;
  u32 head[BLOCK_ORDERS];
  u32 quick[BLOCK_QUICK_ORDERS];
  u32 quick_count[BLOCK_QUICK_ORDERS];
};

// Bytes of memory that `len` bytes of blocks need, everything included.
u64 blocks_bytes(u64 len);
// Divides `memory` (>= blocks_bytes(len)), which stays the caller's property.
void blocks_init(struct blocks *a, struct span memory, u64 len);
// At least `len` bytes (1 <= len), aligned to 16, not zeroed; NULL when there is no such block.
// OWNED.
void *blocks_take(struct blocks *a, u64 len);
void blocks_put(struct blocks *a, void *block CONSUMES);
// Usable bytes of a taken block.
u64 blocks_len(const struct blocks *a, const void *block);
// Asserts I1-I3 over the whole region.
void blocks_check(const struct blocks *a);
