// SPDX-License-Identifier: Apache-2.0
// Fuzzes a journal segment as it comes from a disk: records lie inside it, in order, and the walk
// ends. In every other input the checksums are put right first.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/journal_format.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void require(bool good) {
  if (!good) {
    abort();
  }
}

static void mend(u8 *b, u32 len, u32 seed, u64 lsn) {
  for (u32 pos = JOURNAL_BLOCK; pos + JOURNAL_RECORD_HEAD <= len; lsn++) {
    u8 place[4];
    u32 body = load_le32(b + pos) % 5000;
    if (load_le16(b + pos + JR_TYPE) == 0 || body > len - pos - JOURNAL_RECORD_HEAD) {
      return;
    }
    store_le32(b + pos + JR_LENGTH, body);
    store_le64(b + pos + JR_LSN, lsn);
    store_le32(place, pos);
    u32 crc = crc32c(crc32c(seed, bytes_of(place, 4)), bytes_of(b + pos, JR_CRC));
    crc = crc32c(crc, bytes_of(b + pos + JOURNAL_RECORD_HEAD, body));
    store_le32(b + pos + JR_CRC, crc);
    pos += JOURNAL_RECORD_HEAD + body;
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const u8 uuid[16] = {1};
  struct journal_segment s = {0};
  struct journal_record r;
  if (len < JOURNAL_BLOCK + 1 || len > 1u << 20) {
    return 0;
  }
  len--;
  u8 *b = malloc(len);
  memcpy(b, data + 1, len);
  if ((data[0] & 1) != 0) {
    memcpy(b, JS_MAGIC_TEXT, 16);
    memcpy(b + JS_UUID, uuid, 16);
    store_le32(b + JS_CRC, crc32c(0, bytes_of(b, JS_CRC)));
  }
  enum err e = journal_segment_read(bytes_of(b, len), load_le32(b + JS_SEGMENT_LEN), uuid, &s);
  require(e != ERR_OK || (s.sequence != 0 && s.first_lsn != 0));
  u64 lsn = s.first_lsn;
  u32 seed = journal_seed(uuid, s.sequence, s.boot);
  if ((data[0] & 1) != 0) {
    mend(b, (u32)len, seed, lsn);
  }
  u32 pos = JOURNAL_BLOCK;
  for (u32 before = pos; journal_record_read(bytes_of(b, len), &pos, seed, lsn, &r) == ERR_OK;) {
    require(pos >= before + JOURNAL_RECORD_HEAD && pos <= len && r.lsn == lsn && r.type != 0);
    require(r.payload.off + r.payload.len == pos);
    before = pos;
    lsn++;
  }
  free(b);
  return 0;
}
