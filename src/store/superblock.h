// SPDX-License-Identifier: Apache-2.0
// The superblock: what the partition holds and where, in four slots of which two hold one
// generation and two its predecessor. Pure functions over bytes; store/disk.h moves them.
// Byte by byte: docs/formats/disk.md.
//
// S1  Generation g stands in the pair of slots g & 1 (slots 0 and 1, or 2 and 3), twice.
// S2  Written is always the pair that does not hold the last good generation; then a flush; then
//     both are read back. Until then the old generation counts.
// S3  A copy knows its slot and its place on the disk: one that was misdirected is none.
// S4  A copy knows its predecessor's content: a lone copy whose predecessor is another history is
//     not believed.
#pragma once
#include "store/extents.h"

#define SUPERBLOCK_LEN 4096u
#define SUPERBLOCK_SLOTS 4u
#define SUPERBLOCK_SLOT_AT(i) ((u64)((i) + 1) << 20)  // bytes from the start of the partition
#define SUPERBLOCK_VERSION 1u
#define SUPERBLOCK_DIGEST 32u

// SHA-256 of data. A function of ours around the library's (it is called through a pointer).
typedef void digest_fn(struct bytes data, u8 out[SUPERBLOCK_DIGEST]);

enum slot_kind {
  SLOT_EMPTY,      // no magic
  SLOT_DAMAGED,    // magic, but a digest, place, or field is wrong
  SLOT_OLDER,      // whole, of a layout before ours
  SLOT_NEWER,      // whole, of a layout or with features that we do not know
  SLOT_READ_ONLY,  // whole; has features without which it may be read but not written
  SLOT_GOOD
};

// What is remembered about the parts: LSNs are journal numbers, 0 = none.
struct disk_roots {
  u64 journal_sequence;  // of the oldest segment in use
  u64 database_lsn;
  u64 backup_lsn[2];
  u8 backup_digest[2][SUPERBLOCK_DIGEST];
  u32 database_state;  // 0 empty, 1 in use, 2 quarantined
  u32 config_live;     // 0 none, 1 A, 2 B
  u64 wall_s;          // seconds since 1970 when this generation was written; a lower bound
};

struct superblock {
  u64 incompatible;  // feature masks
  u64 read_only;
  u64 compatible;
  u8 uuid[16];
  u64 generation;  // from 1
  u8 previous[SUPERBLOCK_DIGEST];
  u64 boots;
  u64 partition_at;   // bytes from the start of the disk
  u64 partition_len;  // bytes that the extents were laid out for
  u32 unit;           // bytes
  struct extent_table extents;
  struct disk_roots roots;
};

struct slot_view {
  u8 kind;  // enum slot_kind
  u64 generation;
  u8 uuid[16];
  u8 content[SUPERBLOCK_DIGEST];   // the same in both copies of a generation
  u8 previous[SUPERBLOCK_DIGEST];  // content of generation - 1
};

struct slot_choice {
  u32 idx;         // of the slot that counts; SUPERBLOCK_SLOTS: none
  u32 twin;        // its pair's other slot
  bool twin_good;  // holds the same
  bool rejected;   // a higher generation was there and not believed (S4)
  u8 kind;         // of the one that counts; of none: the most telling kind among the slots
};

static inline u32 superblock_slot(u64 generation, u32 copy) {
  return (u32)(generation & 1) * 2 + copy;
}
// One copy as bytes; out: SUPERBLOCK_LEN. The superblock must be valid (asserted).
void superblock_write(const struct superblock *s, u32 slot, digest_fn *digest, struct span out);
// The other copy of a whole one, byte by byte, for slot `slot`.
void superblock_copy(struct bytes from, u32 slot, u64 partition_at, digest_fn *digest,
                     struct span out);
// Digest of what both copies of a generation have in common, of a block that was written or read.
void superblock_content(struct bytes block, digest_fn *digest, u8 out[SUPERBLOCK_DIGEST]);
// Judges what slot `slot` of a partition that starts at partition_at and now has partition_len
// bytes holds. `s` is filled when the kind is SLOT_GOOD or SLOT_READ_ONLY.
void superblock_read(struct bytes block, u32 slot, u64 partition_at, u64 partition_len,
                     digest_fn *digest, struct slot_view *view, struct superblock *s);
// Which slot counts.
struct slot_choice superblock_choose(const struct slot_view slots[SUPERBLOCK_SLOTS]);
