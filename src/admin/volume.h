// SPDX-License-Identifier: Apache-2.0
// A configuration volume: the files in the root folder of an ISO 9660 or FAT12/16/32 volume
// labelled CIDATA or URMQTT, turned into a bundle (ustar). Pure: what the medium says comes through
// `read`, nothing of it is trusted, every loop is bounded. The whole medium is the volume (no
// partitions), as virtual machines are given it.
#pragma once
#include "base/bytes.h"

#define VOLUME_ENTRIES_MAX 2048u  // of the root folder
#define VOLUME_NAME_MAX 64u

struct volume_medium {
  bool (*read)(void *ctx, u64 at, struct span out);  // false: an error of the medium
  void *ctx;
  u64 len;  // bytes; read is never asked for more
};
// Packs the volume's files into `out` (a MiB is plenty); *tar is the bundle in it. ERR_NOT_FOUND:
// no volume of ours. ERR_SPACE: larger than `out`. ERR_CORRUPT, ERR_UNSUPPORTED, ERR_IO: ours, and
// damaged, of a kind not read (a file in several extents), or not readable.
enum err volume_bundle(const struct volume_medium *m, struct span out, struct bytes *tar);

// --- between volume.c and the two formats

// Each: ERR_NOT_FOUND when the medium is not of that format or not labelled as ours.
enum err volume_iso(const struct volume_medium *m, struct span out, u32 *pos);
enum err volume_fat(const struct volume_medium *m, struct span out, u32 *pos);
// ERR_IO also for what lies outside the medium.
enum err volume_read(const struct volume_medium *m, u64 at, struct span out);
// A label as stored, padded with spaces: is it ours?
bool volume_label_ours(struct bytes label);
