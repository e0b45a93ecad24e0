// SPDX-License-Identifier: Apache-2.0
// Fuzzes the installation image and the slot block: what is accepted has every piece inside the
// image and inside the places that the installer may write to. Digests are made to fit.
#include <stdlib.h>
#include <string.h>

#include "admin/install.c"
#include "admin/install_image.c"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void zeros(struct bytes in, u8 out[32]) {
  (void)in;
  memset(out, 0, 32);
}

static void walk(const struct install_image *m) {
  u32 sum = 0;
  for (u32 i = 0; i < m->count; i++) {
    struct install_piece p = install_image_piece(m, i);
    bool block0 = p.kind == INSTALL_CODE || p.kind == INSTALL_MARK;
    if (p.kind < INSTALL_CODE || p.kind > INSTALL_SLOT_B || p.at % 512 != 0 || p.len % 512 != 0 ||
        (p.data.len != 0 && p.data.len != p.len) ||
        (block0 ? p.at != 0 || p.data.len != 512 : p.at < 1u << 20 || p.at + p.len > 66ull << 20)) {
      abort();
    }
    for (usize n = 0; n < p.data.len; n += 511) {
      sum += p.data.ptr[n];
    }
  }
  if (sum == 1) {  // every byte was reached
    return;
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  u8 *exact = malloc(len + 1);
  memcpy(exact, data, len);
  if (len >= 4096) {
    memset(exact + AT_DATA_DIGEST, 0, 64);
  }
  struct install_image m;
  struct bytes version;
  struct bytes all = bytes_of(exact, len);
  if (install_image_read(all, zeros, &m) == ERR_OK) {
    walk(&m);
  }
  if (install_image_behind(all).len > len) {
    abort();
  }
  u8 slot = install_slot_read(all, &version);
  if (slot != 0 && (slot < 'a' || slot > 'b' || version.len > INSTALL_VERSION_MAX)) {
    abort();
  }
  free(exact);
  return 0;
}
