// SPDX-License-Identifier: Apache-2.0
#include "store/journal_format.h"

#include "base/hash.h"

u32 journal_seed(const u8 *uuid, u64 sequence, u64 boot) {
  u8 b[32];
  memcpy(b, uuid, 16);
  store_le64(b + 16, sequence);
  store_le64(b + 24, boot);
  return crc32c(0, bytes_of(b, sizeof b));
}

void journal_segment_write(const struct journal_segment *s, u32 segment_len, const u8 *uuid,
                           struct span out) {
  ASSERT(out.len == JOURNAL_BLOCK);
  ASSERT(s->sequence != 0);
  u8 *b = out.ptr;
  memset(b, 0, JOURNAL_BLOCK);
  memcpy(b + JS_MAGIC, JS_MAGIC_TEXT, JS_VERSION - JS_MAGIC);
  store_le32(b + JS_VERSION, JOURNAL_VERSION);
  store_le32(b + JS_SEGMENT_LEN, segment_len);
  store_le64(b + JS_SEQUENCE, s->sequence);
  store_le64(b + JS_FIRST_LSN, s->first_lsn);
  memcpy(b + JS_UUID, uuid, 16);
  store_le64(b + JS_BOOT, s->boot);
  store_le32(b + JS_CRC, crc32c(0, bytes_of(b, JS_CRC)));
}

enum err journal_segment_read(struct bytes block, u32 segment_len, const u8 *uuid,
                              struct journal_segment *out) {
  if (block.len < JOURNAL_BLOCK) {
    return ERR_SHORT;
  }
  const u8 *b = block.ptr;
  if (memcmp(b, JS_MAGIC_TEXT, JS_VERSION) != 0 || memcmp(b + JS_UUID, uuid, 16) != 0) {
    return ERR_NOT_FOUND;
  }
  if (crc32c(0, bytes_of(b, JS_CRC)) != load_le32(b + JS_CRC)) {
    return ERR_CORRUPT;
  }
  if (load_le32(b + JS_VERSION) != JOURNAL_VERSION ||
      load_le32(b + JS_SEGMENT_LEN) != segment_len) {
    return ERR_UNSUPPORTED;
  }
  *out = (struct journal_segment){load_le64(b + JS_SEQUENCE), load_le64(b + JS_FIRST_LSN),
                                  load_le64(b + JS_BOOT)};
  return out->sequence != 0 && out->first_lsn != 0 ? ERR_OK : ERR_MALFORMED;
}

// Over the head before the checksum, the payload, and the place in the segment.
static u32 record_crc(u32 seed, u32 pos, const u8 *head, struct bytes payload) {
  u8 place[4];
  store_le32(place, pos);
  u32 crc = crc32c(seed, bytes_of(place, sizeof place));
  crc = crc32c(crc, bytes_of(head, JR_CRC));
  return crc32c(crc, payload);
}

u32 journal_record_write(struct span batch, u32 at, u32 pos, u32 seed, u64 lsn, u16 type,
                         struct bytes payload) {
  ASSERT(payload.len <= JOURNAL_RECORD_MAX);
  ASSERT(type != 0 && lsn != 0);
  ASSERT(pos <= batch.len && batch.len - pos >= JOURNAL_RECORD_HEAD + payload.len);
  u8 *h = batch.ptr + pos;
  store_le32(h + JR_LENGTH, (u32)payload.len);
  store_le16(h + JR_TYPE, type);
  store_le16(h + JR_ZERO, 0);
  store_le64(h + JR_LSN, lsn);
  store_le32(h + JR_CRC, record_crc(seed, at + pos, h, payload));
  if (payload.len != 0) {
    memcpy(h + JOURNAL_RECORD_HEAD, payload.ptr, payload.len);
  }
  return JOURNAL_RECORD_HEAD + (u32)payload.len;
}

enum err journal_record_read(struct bytes segment, u32 *pos, u32 seed, u64 lsn,
                             struct journal_record *out) {
  ASSERT(segment.len <= U32_MAX);
  ASSERT(*pos <= segment.len);
  u32 left = (u32)segment.len - *pos;
  if (left < JOURNAL_RECORD_HEAD) {
    return ERR_NOT_FOUND;
  }
  const u8 *h = segment.ptr + *pos;
  u32 len = load_le32(h + JR_LENGTH);
  u16 type = load_le16(h + JR_TYPE);
  if (type == 0) {
    return ERR_NOT_FOUND;
  }
  if (len > JOURNAL_RECORD_MAX || len > left - JOURNAL_RECORD_HEAD ||
      load_le64(h + JR_LSN) != lsn) {
    return ERR_CORRUPT;
  }
  struct bytes payload = bytes_of(h + JOURNAL_RECORD_HEAD, len);
  if (record_crc(seed, *pos, h, payload) != load_le32(h + JR_CRC)) {
    return ERR_CORRUPT;
  }
  *out = (struct journal_record){lsn, type, {*pos + JOURNAL_RECORD_HEAD, len}};
  *pos += JOURNAL_RECORD_HEAD + len;
  return ERR_OK;
}
