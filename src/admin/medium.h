// SPDX-License-Identifier: Apache-2.0
// A disk as the medium of a configuration volume (volume.h): read while starting, before the loop
// runs, one piece at a time; the core halts meanwhile.
#pragma once
#include "admin/volume.h"
#include "base/block.h"

#define MEDIUM_WINDOW (64u << 10)

struct medium {
  struct block *disk;
  struct block_info info;
  struct span window;  // MEDIUM_WINDOW bytes that a device may write to, page-aligned
  u64 window_at;       // what it holds; U64_MAX: nothing
  usize window_len;
  bool failed;  // the device holds the window still: it is never used again
};

// False: a device that cannot be read in pieces of the window.
bool medium_open(struct medium *m, struct block *disk, struct span window,
                 struct volume_medium *out);
