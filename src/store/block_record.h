// SPDX-License-Identifier: Apache-2.0
// A block device that writes down what goes through it, so that every state that a power cut could
// have left can be made again: the oracle of the store's crash tests.
//
// I1  Entries stand in the order of completion. Each knows how many entries there were when it was
//     submitted.
// I2  A flush covers the entries that were complete when it was submitted, no others.
// I3  After a cut at n (the first n entries were complete), an entry is certain if a flush among
//     the first n covers it, loose if it was submitted by then and is not certain, and has not
//     happened otherwise.
#pragma once
#include "base/block.h"

struct record_entry {
  u8 kind;        // enum block_kind, never READ
  u8 status;      // enum block_status
  u32 submitted;  // how many entries there were
  u64 at;
  u64 len;
  usize data;  // WRITE: offset in the data
};

struct block_record {
  struct block block;  // first
  struct block *under;
  struct record_entry *entry;
  u32 count;
  u32 max;
  struct span data;
  usize data_len;
  bool full;  // something was not written down: the record is of no use
  struct record_pending {
    struct block_op op;
    u32 submitted;
    bool used;
  } pending[BLOCK_INFLIGHT_MAX];
};

// Memory for `max` entries and the data of all writes; owned by the caller.
void block_record_init(struct block_record *r, struct block *under, struct record_entry *entry,
                       u32 max, struct span data);
// The loose entries after a cut at n: their numbers, in order. Returns how many there are, which
// may be more than fit `out`.
u32 block_record_loose(const struct block_record *r, u32 n, u32 *out, u32 max);
// What a cut at n leaves on `image` (the disk's content before the first entry): every certain
// entry, and of the first 64 loose ones those whose bit in `keep` is set (later ones: none). The
// last kept loose write is cut to torn_len bytes when torn_len is not 0.
void block_record_replay(const struct block_record *r, u32 n, u64 keep, u64 torn_len,
                         struct span image);
