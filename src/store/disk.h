// SPDX-License-Identifier: Apache-2.0
// A disk of ours: format, open, repair, change the superblock, grow. Each is started, then turned
// until it is finished; nothing blocks. docs/formats/disk.md.
//
// D1  Opening writes nothing.
// D2  After any cut, and after any single write that failed, was torn, lost or late, opening finds
//     the old or the new generation, never neither.
// D3  A disk with something unknown on it is left alone, and the verdict says what to do.
// D4  After a write or a flush has failed nothing more is written until the disk is opened again.
#pragma once
#include "store/gpt.h"
#include "store/script.h"
#include "store/superblock.h"

#define DISK_MEMORY (88u << 10)  // bytes a struct disk works in
#define DISK_SEED 80u            // random bytes for a format: five GUIDs
#define DISK_BOOT_CODE 440u      // bytes of block 0 that a BIOS runs

enum disk_verdict {
  DISK_OURS,
  DISK_OURS_READ_ONLY,  // a newer urMQTT has marked it: it may be read
  DISK_EMPTY,           // no partition table
  DISK_FOREIGN,         // a partition table without a partition of ours
  DISK_OLDER,
  DISK_NEWER,
  DISK_BLANK,    // our partition, no superblock: a format that was not finished
  DISK_DAMAGED,  // our partition, no superblock that can be believed
  DISK_SHRUNK,
  DISK_TOO_SMALL,
  DISK_BLOCKS,     // block length
  DISK_WRITE_BAD,  // a write or flush failed, or what was read back was something else
  DISK_IO,         // cannot be read
  DISK_VERDICTS
};

// Parts to be put right, `repairs` below.
#define DISK_REPAIR_TABLE_FIRST 1u
#define DISK_REPAIR_TABLE_LAST 2u
#define DISK_REPAIR_SUPERBLOCK 4u

struct disk {
  struct block *block;
  struct block_info info;
  digest_fn *digest;
  struct span first, last, slot[SUPERBLOCK_SLOTS];  // set by: start
  struct script script;
  u8 stage;
  u8 verdict;     // enum disk_verdict; of use when a turn has said "finished"
  u8 repairs;     // what one copy of is damaged
  bool grown;     // the device is longer than its table or its superblock knows
  bool rejected;  // a newer superblock was there and not believed (superblock.h S4)
  struct gpt gpt;
  struct gpt_part part;
  struct superblock super;        // the generation that counts
  struct superblock next;         // being written
  u8 content[SUPERBLOCK_DIGEST];  // of `super`
  u32 slot_idx;                   // where it was found by opening
};

// One sentence for consoles and logs: what is wrong and what to do. Never NULL.
const char *disk_verdict_text(enum disk_verdict v);

// memory: DISK_MEMORY bytes, as block.h B2, the disk's until it is not used any more.
void disk_open_start(struct disk *d, struct block *block, digest_fn *digest, struct span memory);
// Destroys what is on the disk. seed: DISK_SEED random bytes.
void disk_format_start(struct disk *d, struct block *block, digest_fn *digest, struct span memory,
                       const u8 *seed);
// The same with code for a BIOS in block 0 (may be empty) and a configuration that the caller has
// written already into area config_live (0 none, 1 A, 2 B) of what disk_plan says.
void disk_install_start(struct disk *d, struct block *block, digest_fn *digest, struct span memory,
                        const u8 *seed, struct bytes boot_code, u32 config_live);
// What a format would make of a disk: place, unit and extents. False: it is too small. The block
// length is one that disk_format_start takes.
bool disk_plan(const struct block_info *info, struct superblock *out);
// The following want an open disk with the verdict DISK_OURS and nothing under way.
// Writes again what `repairs` names. Must come before the two below when it names something.
void disk_repair_start(struct disk *d);
// Writes *next as the next generation: its generation and predecessor are filled in here; uuid,
// place and extents are taken from the present one.
void disk_update_start(struct disk *d, const struct superblock *next);
// Takes up what the device has grown by. ERR_RANGE: too little, nothing started; ERR_LIMIT: the
// extent table is full; ERR_UNSUPPORTED: another partition lies behind ours.
NODISCARD enum err disk_grow_start(struct disk *d);
// True: finished, see `verdict`.
bool disk_turn(struct disk *d, u64 now_ns);
