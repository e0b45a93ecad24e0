// SPDX-License-Identifier: Apache-2.0
// The extents of the data partition: who owns which bytes of it. A role may have several extents
// (growth adds them); together they never overlap. Pure functions; docs/formats/disk.md.
#pragma once
#include "base/bytes.h"
#include "base/err.h"

#define EXTENTS_MAX 96u
#define EXTENTS_FROM (8ull << 20)  // bytes of the partition before the first extent: superblocks
#define EXTENTS_UNIT_MIN (1u << 20)
#define EXTENTS_UNIT_MAX (64u << 20)
#define EXTENTS_GROWTH_MIN (128ull << 20)  // less new space than this is left alone

enum disk_role {
  ROLE_NONE,
  ROLE_CONFIG_A,
  ROLE_CONFIG_B,
  ROLE_JOURNAL,
  ROLE_WAL,
  ROLE_DATABASE,
  ROLE_BACKUP_A,
  ROLE_BACKUP_B,
  ROLE_RESERVE,
  ROLE_TELEMETRY,
  ROLE_COUNT
};

struct disk_extent {
  u32 role;  // enum disk_role
  u64 at;    // bytes from the start of the partition; a multiple of the unit
  u64 len;   // bytes; a multiple of the unit, > 0
};

struct extent_table {
  u32 count;
  struct disk_extent e[EXTENTS_MAX];
};

// Default shares of a partition of `len` bytes, in multiples of `unit` (a power of two, 1..64 MiB).
// ERR_RANGE: too small to hold every role.
NODISCARD enum err extents_plan(struct extent_table *t, u64 len, u32 unit);
// Shares out what lies between old_len and new_len. ERR_RANGE: too little to be worth a division,
// the table is as it was; ERR_LIMIT: no room for more extents, the same.
NODISCARD enum err extents_grow(struct extent_table *t, u64 old_len, u64 new_len, u32 unit);
// Known roles, each at least once; aligned, in ascending order, no overlap, inside the partition.
bool extents_valid(const struct extent_table *t, u64 len, u32 unit);
// Bytes of all extents of a role.
u64 extents_len(const struct extent_table *t, enum disk_role role);
// Where byte `pos` of a role lies, from the start of the partition, and how many bytes follow there
// without a gap (`run`). pos < extents_len.
u64 extents_at(const struct extent_table *t, enum disk_role role, u64 pos, u64 *run);
