// SPDX-License-Identifier: Apache-2.0
// What is on the disks of this machine, for people: looked at one after the other while starting;
// the core halts meanwhile. Writes nothing.
#pragma once
#include "admin/install.h"
#include "base/fmt.h"

struct disk_look {
  u8 verdict;                             // enum disk_verdict
  bool unfinished;                        // an installation of ours that was not finished
  bool content;                           // no partition table, and not all zeros either
  char version[INSTALL_VERSION_MAX + 1];  // of an urMQTT that could start from it; "" = none
};

// memory: INSTALL_MEMORY bytes as block.h B2. image: says where to look for the version; NULL: not
// looked for.
void disk_look(struct block *b, const struct install_image *image, struct span memory,
               struct disk_look *out);
// Opens it; the verdict. memory: DISK_MEMORY bytes as block.h B2.
u8 disk_look_open(struct disk *d, struct block *b, struct span memory);
// Turns what was started on `d` until it is done; the verdict, DISK_IO after too long.
u8 disk_look_turn(struct disk *d);
// One phrase of it.
void disk_look_describe(struct writer *w, const struct disk_look *l);
// A disk may be installed on: it answers, and is no CD.
bool disk_look_wanted(const struct block_info *i);
