// SPDX-License-Identifier: Apache-2.0
// Fuzzes partition tables and superblocks as they come from a disk: what is accepted lies inside
// the disk, and a superblock that is accepted can be written again and means the same. Checksums
// are put right first, so that inputs get behind them. First byte: which, and the block length.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/gpt.h"
#include "store/superblock_layout.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

#define BLOCKS (1u << 20)

// Cheap: the fuzzer shall not have to find a SHA-256.
static void digest(struct bytes b, u8 out[SUPERBLOCK_DIGEST]) {
  memset(out, 0, SUPERBLOCK_DIGEST);
  store_le32(out, crc32c(0, b));
}
static void require(bool good) {
  if (!good) {
    abort();
  }
}

static void mend_header(u8 *h, struct bytes entries) {
  memcpy(h, "EFI PART", 8);
  store_le32(h + 8, 0x10000);
  store_le32(h + 12, 92);
  store_le32(h + 16, 0);
  store_le32(h + 80, GPT_ENTRIES);
  store_le32(h + 84, GPT_ENTRY_LEN);
  store_le32(h + 88, crc32(0, entries));
  store_le32(h + 16, crc32(0, bytes_of(h, 92)));
}

static void table(u8 *area, u32 n, bool first, bool mend) {
  struct bytes entries = bytes_of(area + (first ? 2 * n : 0), GPT_ENTRIES_LEN);
  struct gpt g;
  struct gpt_part part;
  if (mend) {
    mend_header(area + (first ? n : GPT_ENTRIES_LEN), entries);
  }
  enum err e = first ? gpt_read_first(bytes_of(area, GPT_FIRST_LEN(n)), n, BLOCKS, &g)
                     : gpt_read_last(bytes_of(area, GPT_LAST_LEN(n)), n, BLOCKS, &g);
  if (e != ERR_OK) {
    return;
  }
  require(g.blocks <= BLOCKS && g.block_len == n);
  if (gpt_find(&g, entries, gpt_type_urmqtt, &part) == ERR_OK) {
    require(part.first <= part.last && part.last < g.blocks && part.first >= 2);
    (void)gpt_used_behind(entries, &part);
  }
}

static void superblock(u8 *b, bool mend) {
  static struct superblock s, again;
  static u8 out[SUPERBLOCK_LEN];
  struct slot_view v, w;
  u64 at = load_le64(b + SB_PARTITION_AT);
  u64 len = load_le64(b + SB_SLOT) << 20;
  u32 slot = b[SB_GENERATION] % 2 * 2;
  if (mend) {
    memcpy(b, SB_MAGIC_TEXT, 16);
    store_le32(b + SB_SLOT, slot);
    store_le64(b + SB_SELF, at + SUPERBLOCK_SLOT_AT(slot));
    digest(bytes_of(b, SB_DIGEST), b + SB_DIGEST);
  }
  superblock_read(bytes_of(b, SUPERBLOCK_LEN), slot, at, len, digest, &v, &s);
  if (v.kind < SLOT_READ_ONLY) {
    return;
  }
  require(s.partition_len <= len && extents_valid(&s.extents, len, s.unit));
  superblock_write(&s, slot + 1, digest, span_of(out, SUPERBLOCK_LEN));
  superblock_read(bytes_of(out, SUPERBLOCK_LEN), slot + 1, at, len, digest, &w, &again);
  require(w.kind == v.kind && w.generation == v.generation);
  require(memcmp(&s, &again, sizeof s) == 0);
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  usize max = GPT_FIRST_LEN(GPT_BLOCK_MAX);
  if (len == 0) {
    return 0;
  }
  u8 what = data[0];
  u32 n = 512u << (what >> 4 & 3);
  bool first = (what & 1) != 0;
  usize want = (what & 2) != 0 ? SUPERBLOCK_LEN : first ? GPT_FIRST_LEN(n) : GPT_LAST_LEN(n);
  u8 *copy = calloc(1, want);
  memcpy(copy, data + 1, MIN(len - 1, want));
  require(want <= max);
  if ((what & 2) != 0) {
    superblock(copy, (what & 4) != 0);
  } else {
    table(copy, n, first, (what & 4) != 0);
  }
  free(copy);
  return 0;
}
