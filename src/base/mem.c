// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

bool mem_equal_ct(const void *a, const void *b, usize len) {
  const u8 *x = a;
  const u8 *y = b;
  u8 diff = 0;
  for (usize i = 0; i < len; i++) {
    diff |= (u8)(x[i] ^ y[i]);
  }
  return diff == 0;
}
