// SPDX-License-Identifier: Apache-2.0
// Fuzzes a configuration medium: no bytes of it make the reader look outside or go on for ever, and
// what it accepts is an archive.
#include <stdlib.h>
#include <string.h>

#include "admin/ustar.h"
#include "admin/volume.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static bool read_copy(void *ctx, u64 at, struct span to) {
  memcpy(to.ptr, (u8 *)ctx + at, to.len);
  return true;
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static u8 out[1u << 18];
  // Two starts: the input at the very front (FAT), or where ISO 9660 has its descriptor.
  usize before = len > 0 && data[0] == 1 ? 16 * 2048 : 0;
  usize all = before + ALIGN_UP(len, (usize)2048);
  u8 *copy = calloc(1, all + 1);
  u8 *exact = realloc(copy, all == 0 ? 1 : all);
  memcpy(exact + before, data, len);
  struct volume_medium m = {read_copy, exact, all};
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
  free(exact);
  return 0;
}
