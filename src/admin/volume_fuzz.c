// SPDX-License-Identifier: Apache-2.0
// Fuzzes a configuration medium: no bytes of it make the reader ask for what lies outside or go on
// for ever, and what it accepts is an archive. The input is a sparse medium, as FAT32 begins beyond
// 32 MiB: a byte for its size, then sectors {number u32, 512 bytes}; all others are zero.
#include <stdlib.h>
#include <string.h>

#include "admin/ustar.h"
#include "admin/volume.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

#define SECTOR 512u
#define RECORD (4u + SECTOR)

struct medium {
  const u8 *records;
  u32 count;
  u64 len;
};

static bool read_sparse(void *ctx, u64 at, struct span to) {
  const struct medium *m = ctx;
  if (to.len > m->len || at > m->len - to.len) {
    abort();
  }
  memset(to.ptr, 0, to.len);
  for (u32 i = 0; i < m->count; i++) {
    u64 start = (u64)load_be32(m->records + i * RECORD) * SECTOR;
    u64 from = MAX(start, at);
    u64 end = MIN(start + SECTOR, at + to.len);
    if (from < end) {
      memcpy(to.ptr + (from - at), m->records + i * RECORD + 4 + (from - start), end - from);
    }
  }
  return true;
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const u64 sizes[] = {40u << 20, 16u << 20, 1440u << 10, 8u << 20, 400u << 10, 40000, 0};
  static u8 out[1u << 18];
  if (len < 1 + RECORD) {
    return 0;
  }
  struct medium medium = {data + 1, MIN((u32)((len - 1) / RECORD), 128u),
                          sizes[data[0] % ARRAY_COUNT(sizes)]};
  struct volume_medium m = {read_sparse, &medium, medium.len};
  struct bytes tar;
  if (volume_bundle(&m, span_of(out, sizeof out), &tar) == ERR_OK) {
    struct ustar_entry e;
    u32 pos = 0;
    enum err r = ERR_OK;
    while ((r = ustar_next(tar, &pos, &e)) == ERR_OK) {
    }
    if (r == ERR_MALFORMED) {
      abort();
    }
  }
  return 0;
}
