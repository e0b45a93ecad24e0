// SPDX-License-Identifier: Apache-2.0
#include "admin/ustar.h"

enum { NAME_LEN = 100, AT_MODE = 100, AT_SIZE = 124, AT_SUM = 148, AT_TYPE = 156, AT_MAGIC = 257 };

static void put_octal(u8 *p, u32 digits, u32 v) {
  for (u32 i = digits; i > 0; i--) {
    p[i - 1] = (u8)('0' + (v & 7));
    v >>= 3;
  }
}

enum err ustar_add(struct span out, u32 *pos, struct bytes name, u32 len, struct span *data) {
  ASSERT(out.len <= U32_MAX && *pos <= out.len);
  u64 room = ALIGN_UP((u64)len, (u64)USTAR_BLOCK);
  if (name.len == 0 || name.len >= NAME_LEN) {
    return ERR_INVALID;
  }
  if (out.len - *pos < 3 * (u64)USTAR_BLOCK + room) {
    return ERR_SPACE;
  }
  u8 *h = out.ptr + *pos;
  u32 sum = 0;
  memset(h, 0, USTAR_BLOCK + room);
  memcpy(h, name.ptr, name.len);
  put_octal(h + AT_MODE, 7, 0600);
  put_octal(h + AT_SIZE, 11, len);
  h[AT_TYPE] = '0';
  memcpy(h + AT_MAGIC, "ustar\00000", 8);
  memset(h + AT_SUM, ' ', 8);
  for (u32 i = 0; i < USTAR_BLOCK; i++) {
    sum += h[i];
  }
  put_octal(h + AT_SUM, 6, sum);
  h[AT_SUM + 6] = 0;
  *data = span_of(h + USTAR_BLOCK, len);
  *pos += USTAR_BLOCK + (u32)room;
  return ERR_OK;
}

struct bytes ustar_finish(struct span out, u32 pos) {
  ASSERT(pos <= out.len && out.len - pos >= 2 * (usize)USTAR_BLOCK);
  memset(out.ptr + pos, 0, 2 * (usize)USTAR_BLOCK);
  return bytes_of(out.ptr, pos + 2 * (usize)USTAR_BLOCK);
}
