// SPDX-License-Identifier: Apache-2.0
// The journal's bytes (docs/formats/disk.md): a ring of segments, each a header block and records
// in blocks of 4096 bytes. Little-endian. Pure functions.
//
// J1  A record's checksum is seeded with the disk's uuid, the segment's sequence, and its place:
// what
//     an earlier lap, another disk or a misplaced write left never counts.
// J2  A batch begins at a block and is padded with zeros to a block: what was acknowledged is never
//     written again, so a torn later write cannot damage it.
// J3  LSNs ascend by one from record to record, over segments too.
#pragma once
#include "base/bytes.h"

#define JOURNAL_BLOCK 4096u
#define JOURNAL_SEGMENT_DEFAULT (1u << 20)
#define JOURNAL_RECORD_HEAD 20u          // length 4, type 2, zero 2, LSN 8, CRC-32C 4
#define JOURNAL_RECORD_MAX (128u << 10)  // bytes of a payload
#define JOURNAL_VERSION 1u

enum {
  JS_MAGIC = 0,  // segment header
  JS_VERSION = 16,
  JS_SEGMENT_LEN = 20,
  JS_SEQUENCE = 24,
  JS_FIRST_LSN = 32,
  JS_UUID = 40,
  JS_BOOT = 56,
  JS_CRC = 64,
  JS_END = 68,
  JR_LENGTH = 0,  // record
  JR_TYPE = 4,
  JR_ZERO = 6,
  JR_LSN = 8,
  JR_CRC = 16,
  JR_END = 20
};
#define JS_MAGIC_TEXT "urMQTT-journal1\n"
static_assert(sizeof JS_MAGIC_TEXT - 1 == JS_VERSION - JS_MAGIC, "magic");
static_assert(JS_BOOT - JS_UUID == 16, "uuid");
static_assert(JR_END == JOURNAL_RECORD_HEAD, "head of a record");

struct journal_segment {
  u64 sequence;   // from 1; segment number on the disk is sequence % segments
  u64 first_lsn;  // of its first record
  u64 boot;       // the superblock's boot counter; a sequence is written once a boot
};

struct journal_record {
  u64 lsn;
  u16 type;  // the caller's, not 0
  struct part payload;
};

// out: JOURNAL_BLOCK bytes.
void journal_segment_write(const struct journal_segment *s, u32 segment_len, const u8 *uuid,
                           struct span out);
NODISCARD enum err journal_segment_read(struct bytes block, u32 segment_len, const u8 *uuid,
                                        struct journal_segment *out);
// The seed of the checksums in a segment.
u32 journal_seed(const u8 *uuid, u64 sequence, u64 boot);
// Writes a record at `pos` of a batch that begins at `at` in its segment; returns its length. Must
// fit (asserted).
u32 journal_record_write(struct span batch, u32 at, u32 pos, u32 seed, u64 lsn, u16 type,
                         struct bytes payload);
// The record at *pos; moves *pos behind it. ERR_NOT_FOUND: padding, the rest of the block or
// nothing here; ERR_CORRUPT: no record with this LSN is here.
NODISCARD enum err journal_record_read(struct bytes segment, u32 *pos, u32 seed, u64 lsn,
                                       struct journal_record *out);
