// SPDX-License-Identifier: Apache-2.0
// The journal: an ordered log of self-contained records with log sequence numbers (LSN) in a ring
// of segments. A batch is one sequential write and one flush; one batch is under way, what is
// appended meanwhile is the next. "LSN n is durable" is journal_durable. DESIGN 8; bytes:
// journal_format.h.
//
// J4  A batch lies in one segment; a segment's header is written with its first batch.
// J5  After a start a new segment is begun: what a cut left behind the last record is not appended
// to. J6  A segment is written again only when the caller has released it: applied, covered by a
// backup,
//     and the superblock names a later oldest one, durably.
// J7  After a write or flush has failed nothing is acknowledged any more.
#pragma once
#include "base/block.h"
#include "store/extents.h"
#include "store/journal_format.h"

#define JOURNAL_BATCH_MAX (256u << 10)  // bytes of one write, header block included

struct journal_place {  // set by: the superblock
  struct block *block;
  const struct extent_table *extents;
  u64 partition_at;
  u32 segment_len;  // bytes, a multiple of JOURNAL_BLOCK, at most BLOCK_TRANSFER_MAX
  u8 uuid[16];
  u64 boot;    // counted up durably since the journal was last written
  u64 oldest;  // sequence of the oldest segment in use, from 1
};

struct journal_batch {
  struct span buf;
  u32 len;  // 0 = none
  u32 cap;
  u32 at;  // in its segment
  u32 seed;
  u64 sequence;
  u64 last_lsn;
};

struct journal {
  struct journal_place place;
  u64 segments;
  u64 sequence;  // of the segment appended to
  u32 pos;       // in it, where the next batch begins; segment_len: it is full
  u64 next_lsn;
  u64 durable_lsn;
  struct journal_batch fill, flight;
  u8 state;
  struct span scan;  // one segment
  u32 scan_pos;
  u32 scan_seed;
  u64 batches, records, bytes_written;  // since the start
};

// buffers: two of JOURNAL_BATCH_MAX (or less); scan: segment_len bytes; all as block.h B2.
// next_lsn: of the first record when the journal is empty.
void journal_start(struct journal *j, const struct journal_place *place, struct span fill,
                   struct span flight, struct span scan, u64 next_lsn);
// Replays: to be called until it is neither ERR_OK nor ERR_AGAIN. ERR_OK: a record, its payload in
// the scan memory until the next call. ERR_AGAIN: waiting for the disk. ERR_NOT_FOUND: that was the
// last, the journal may be appended to. ERR_CORRUPT: records are missing before later ones; ERR_IO.
NODISCARD enum err journal_replay(struct journal *j, u64 now_ns, struct journal_record *out);
// ERR_AGAIN: the batch is full, wait for journal_turn; ERR_LIMIT: the ring is full until something
// is released; ERR_IO: failed for good; ERR_RANGE: too long. The payload is copied.
NODISCARD enum err journal_append(struct journal *j, u16 type, struct bytes payload, u64 *lsn);
// Moves batches. Takes all completions of the device.
void journal_turn(struct journal *j, u64 now_ns);
// Segments before `oldest` may be written again (J6).
void journal_release(struct journal *j, u64 oldest);
static inline u64 journal_durable(const struct journal *j) {
  return j->durable_lsn;
}
bool journal_failed(const struct journal *j);
