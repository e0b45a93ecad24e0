// SPDX-License-Identifier: Apache-2.0
// Puts urMQTT on a disk, or a newer kernel on a disk that has it. Started, then turned until it is
// finished; nothing blocks. Nobody else may use the disk meanwhile.
//
// N1  Block 0 tells what a disk is, and is written alone, first and last. Installing: until the
//     first write the old content is whole; from then on block 0 says that an installation is not
//     finished (its code tells it on screen and serial port; no firmware finds a table); when it
//     says urMQTT, everything else has been written, flushed and read back.
// N2  Upgrading writes the kernels' place that is not in use, flushes, reads back, and then one
//     block that names it. A cut before that leaves the old version, after it the new one.
// N3  After an error nothing more is written.
#pragma once
#include "admin/install_image.h"
#include "store/disk.h"

#define INSTALL_CHUNK (64u << 10)
#define INSTALL_MEMORY (DISK_MEMORY + 2 * INSTALL_CHUNK)  // bytes a struct install works in

enum install_end {
  INSTALL_RUNNING,
  INSTALL_DONE,
  INSTALL_TOO_SMALL,
  INSTALL_BLOCKS,  // blocks of another length than 512 bytes: GRUB could not be found there
  INSTALL_READ_ONLY,
  INSTALL_NOT_OURS,      // upgrade: no urMQTT that may be written
  INSTALL_OTHER_LAYOUT,  // upgrade: its EFI partition is divided in another way
  INSTALL_IO,            // a read, write or flush failed
  INSTALL_BAD,           // something else was read back than was written
  INSTALL_ENDS
};

struct install {
  struct block *block;
  const struct install_image *image;
  digest_fn *digest;
  struct block_info info;
  struct span memory, chunk, other;
  const u8 *seed;
  struct bytes config;
  struct superblock plan;
  struct script script;
  struct disk disk;
  u8 stage;
  u8 end;  // enum install_end
  bool upgrade;
  bool reading;  // of VERIFY and COMPARE: the chunk is on its way
  u8 slot;       // 'a' or 'b': the one being written
  u32 piece;     // in work
  u64 pos;       // in it
  u64 done;      // bytes written and read back so far, of `total`, for a bar
  u64 total;
};

// One sentence. Never NULL.
const char *install_end_text(enum install_end e);
// Destroys what is on the disk. memory: INSTALL_MEMORY bytes, page-aligned, as block.h B2. seed:
// DISK_SEED random bytes. config: a configuration slot (slot.h) of whole blocks, or empty. All stay
// until the end.
void install_start(struct install *i, struct block *block, const struct install_image *image,
                   digest_fn *digest, struct span memory, const u8 *seed, struct bytes config);
// Replaces the kernels of an installed disk; everything else stays.
void install_upgrade_start(struct install *i, struct block *block,
                           const struct install_image *image, digest_fn *digest,
                           struct span memory);
// True: finished, see `end`.
bool install_turn(struct install *i, u64 now_ns);
// Does block 0 say that an installation was not finished?
bool install_unfinished(struct bytes block);
// The block that says which slot counts: fills `out` (INSTALL_BLOCK bytes); reads the slot ('a',
// 'b'; 0: not such a block) and the version.
void install_slot_write(struct span out, u8 slot, struct bytes version);
u8 install_slot_read(struct bytes block, struct bytes *version);
