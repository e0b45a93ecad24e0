// SPDX-License-Identifier: Apache-2.0
// Fuzzes a slot and the archive in it as they come from a medium: parts stay inside, the walk ends,
// and what is accepted survives being written again.
#include <stdlib.h>
#include <string.h>

#include "admin/slot.h"
#include "admin/ustar.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void walk(struct bytes tar) {
  struct ustar_entry e;
  u32 pos = 0;
  u32 before = 0;
  while (ustar_next(tar, &pos, &e) == ERR_OK) {
    struct bytes name = bytes_part(tar, e.name);
    if (pos <= before || name.len == 0 || name.ptr[0] == '/' ||
        (u64)e.data.off + e.data.len > tar.len) {
      abort();
    }
    before = pos;
  }
}

// Corrects the checksum of every header, so that inputs get behind it.
static void mend(u8 *tar, usize len) {
  for (usize at = 0; at + USTAR_BLOCK <= len; at += USTAR_BLOCK) {
    u32 sum = 8 * ' ';
    for (u32 i = 0; i < USTAR_BLOCK; i++) {
      sum += i >= 148 && i < 156 ? 0 : tar[at + i];
    }
    for (u32 i = 0; i < 6; i++) {
      tar[at + 148 + i] = (u8)('0' + (sum >> (15 - 3 * i) & 7));
    }
    tar[at + 154] = 0;
    memcpy(tar + at + 257, "ustar", 5);
  }
}

// Puts magic and checksums right; the length stays the input's, taken into the slot.
static void mend_slot(u8 *slot, usize len) {
  u32 payload_len = load_le32(slot + 16) % (u32)(len - SLOT_HEADER + 1);
  memcpy(slot, SLOT_MAGIC, 16);
  store_le32(slot + 16, payload_len);
  store_le32(slot + 20, crc32c(0, bytes_of(slot + SLOT_HEADER, payload_len)));
  store_le32(slot + 24, crc32c(0, bytes_of(slot, 24)));
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static u8 again[SLOT_SIZE];
  struct bytes tar;
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, data, len);
  enum err got = slot_payload(bytes_of(copy, len), &tar);
  if (got != ERR_OK && len >= SLOT_HEADER) {
    mend_slot(copy, len);
    enum err e = slot_payload(bytes_of(copy, len), &tar);
    if (e != (load_le32(copy + 16) == 0 ? ERR_NOT_FOUND : ERR_OK)) {
      abort();
    }
    got = e;
  }
  if (got == ERR_OK) {
    walk(tar);
    if (tar.len <= SLOT_PAYLOAD_MAX) {
      struct bytes back;
      if (slot_write(span_of(again, sizeof again), tar) != ERR_OK ||
          slot_payload(bytes_of(again, sizeof again), &back) != ERR_OK || !bytes_equal(back, tar)) {
        abort();
      }
    }
  }
  memcpy(copy, data, len);
  walk(bytes_of(copy, len));
  mend(copy, len);
  walk(bytes_of(copy, len));
  free(copy);
  return 0;
}
