// SPDX-License-Identifier: Apache-2.0
// Fuzzes the device tree: every node, every property that anybody asks for. A walk ends after at
// most as many nodes as there are words, and no range lies outside the blob (ASan).
#include <stdlib.h>

#include "boot/fdt.c"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const char *const names[] = {"reg", "ranges", "interrupts", "compatible", "bootargs"};
  u8 *blob = malloc(len == 0 ? 1 : len);
  memcpy(blob, data, len);
  struct fdt f;
  struct fdt_node n;
  usize count = 0;
  if (fdt_open(&f, bytes_of(blob, len))) {
    for (bool there = fdt_root(&f, &n); there; there = fdt_next(&f, &n)) {
      struct bytes v;
      u64 start = 0;
      u64 size = 0;
      u32 sum = n.name.len > 0 ? n.name.ptr[n.name.len - 1] : 0;
      for (u32 i = 0; fdt_reg(&f, &n, i, &start, &size); i++) {
        sum += (u32)start;
      }
      for (u32 i = 0; i < ARRAY_COUNT(names); i++) {
        if (fdt_property(&f, &n, names[i], &v)) {
          sum += fdt_has_string(v, "arm,pl011") + (u32)fdt_cells(v, 4, 2);
        }
      }
      (void)sum;
      if (++count > len / 4) {
        abort();
      }
    }
  }
  free(blob);
  return 0;
}
