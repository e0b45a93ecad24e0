// SPDX-License-Identifier: Apache-2.0
// Where the configuration comes from: the area for it on our own disk, unless the machine was
// started from the medium, before a volume labelled CIDATA or URMQTT before the slot in the image
// before nothing (DESIGN 4). Every source that was looked at and not taken is named.
#pragma once
#include "admin/ustar.h"
#include "loop/carve.h"

#define SOURCE_BUNDLE_MAX (1u << 20)  // of a volume, packed: as much as a slot holds

// Names by which the loader (image/grub.cfg) hands over a volume that it found: one marker, each
// file of its root folder as "(DEVICE)/NAME", and a marker for a file that it could not read.
#define SOURCE_VOLUME "volume:"
#define SOURCE_UNREADABLE "unreadable:"

struct source {
  char name[96];
  struct bytes tar;
  bool again;  // reading it again shows what has become of it; false: it was read once, at start
  bool area;   // it stands in the configuration area of our own disk
  u8 memory;   // which of the two that source_find took holds `tar`, when it was packed
  struct plat_bundle bundle;  // to be released, when it has a function for that
};
// The first source that has a configuration. Memory for what is packed, now and by source_read,
// comes from `carve`. False: there is none.
bool source_find(struct carve *carve, struct source *out);
// The same again while serving, beside `current` (NULL: none), which stays as it is.
bool source_read(const struct source *current, struct source *out);
// Room for a configuration that somebody hands over, beside `current`; empty: there is none. Good
// until the next source_read or source_given.
struct span source_room(const struct source *current);
// Takes the first `len` bytes of the room, called "given by GIVER", as source_read does. False:
// said why on the console.
bool source_given(const struct source *current, struct bytes giver, u32 len, struct source *out);
// Nobody uses `tar` any more.
void source_release(struct source *s);
