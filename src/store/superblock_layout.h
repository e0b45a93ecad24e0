// SPDX-License-Identifier: Apache-2.0
// The bytes of a superblock, layout 1, little-endian: the sheet that docs/formats/disk.md repeats.
#pragma once
#include "store/superblock.h"

enum {
  SB_MAGIC = 0,
  SB_VERSION = 16,
  SB_UNIT = 20,
  SB_INCOMPATIBLE = 24,
  SB_READ_ONLY = 32,
  SB_COMPATIBLE = 40,
  SB_UUID = 48,
  SB_GENERATION = 64,
  SB_PREVIOUS = 72,
  SB_BOOTS = 104,
  SB_PARTITION_AT = 112,
  SB_PARTITION_LEN = 120,
  SB_JOURNAL_SEQUENCE = 128,
  SB_DATABASE_LSN = 136,
  SB_BACKUP_LSN = 144,
  SB_BACKUP_DIGEST = 160,
  SB_DATABASE_STATE = 224,
  SB_CONFIG_LIVE = 228,
  SB_WALL = 232,
  SB_EXTENT_COUNT = 240,
  SB_ZERO_1 = 244,
  SB_EXTENTS = 512,
  SB_ZERO_2 = 3584,
  SB_CONTENT_END = 4048,  // before: the same in both copies
  SB_SLOT = 4048,
  SB_ZERO_3 = 4052,
  SB_SELF = 4056,
  SB_DIGEST = 4064,
  SB_END = 4096,
  SBE_ROLE = 0,  // an entry of the extent table
  SBE_ZERO = 4,
  SBE_AT = 8,
  SBE_LEN = 16,
  SBE_ZERO_2 = 24,
  SBE_END = 32
};

#define SB_MAGIC_TEXT "urMQTT-superblk\n"
static_assert(sizeof SB_MAGIC_TEXT - 1 == SB_VERSION - SB_MAGIC, "magic");
static_assert(SB_GENERATION - SB_UUID == 16, "uuid");
static_assert(SB_BOOTS - SB_PREVIOUS == SUPERBLOCK_DIGEST, "digest of the predecessor");
static_assert(SB_BACKUP_DIGEST - SB_BACKUP_LSN == 2 * 8, "two backups");
static_assert(SB_DATABASE_STATE - SB_BACKUP_DIGEST == 2 * SUPERBLOCK_DIGEST, "two digests");
static_assert(SB_ZERO_1 <= SB_EXTENTS, "head before the extents");
static_assert(SB_ZERO_2 - SB_EXTENTS == EXTENTS_MAX * SBE_END, "extent table");
static_assert(EXTENTS_MAX >= 64, "DESIGN 8: at least 64 entries");
static_assert(SB_ZERO_2 <= SB_CONTENT_END, "extents before the own place");
static_assert(SB_DIGEST - SB_SELF == 8, "own place");
static_assert(SB_END - SB_DIGEST == SUPERBLOCK_DIGEST, "digest ends the block");
static_assert(SB_END == SUPERBLOCK_LEN, "one block of 4 KiB");
static_assert(SUPERBLOCK_SLOT_AT(SUPERBLOCK_SLOTS - 1) + SUPERBLOCK_LEN <= EXTENTS_FROM,
              "slots before the extents");
