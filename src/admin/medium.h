// SPDX-License-Identifier: Apache-2.0
// A disk as the medium of a configuration volume (volume.h): read one piece at a time; the core
// halts meanwhile. While starting, or while serving when a new configuration was asked for.
#pragma once
#include "admin/volume.h"
#include "base/block.h"

#define MEDIUM_WINDOW (128u << 10)
#define MEDIUM_PIECE (MEDIUM_WINDOW / 2)

struct medium {
  struct block *disk;
  struct block_info info;
  struct span window;  // MEDIUM_WINDOW bytes that a device may write to, page-aligned
  u64 wait_ns;         // for one piece
  struct {             // its halves: a FAT is read in turns with the data it describes
    u64 at;            // what it holds; U64_MAX: nothing
    usize len;
  } piece[2];
  u32 last;     // the one used last
  bool failed;  // the device holds the window still: it is never used again
};

// False: a device that cannot be read in pieces of half the window.
bool medium_open(struct medium *m, struct block *disk, struct span window, u64 wait_ns,
                 struct volume_medium *out);
