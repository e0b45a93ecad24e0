// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

static const u8 alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

u32 base64_encode(struct bytes in, struct span out) {
  ASSERT(in.len < U32_MAX / 2);
  ASSERT(out.len >= BASE64_LEN(in.len));
  u32 at = 0;
  for (usize i = 0; i < in.len; i += 3) {
    usize n = MIN(in.len - i, (usize)3);
    u32 v = (u32)in.ptr[i] << 16;
    v |= n > 1 ? (u32)in.ptr[i + 1] << 8 : 0;
    v |= n > 2 ? in.ptr[i + 2] : 0;
    out.ptr[at++] = alphabet[v >> 18];
    out.ptr[at++] = alphabet[v >> 12 & 63];
    out.ptr[at++] = n > 1 ? alphabet[v >> 6 & 63] : '=';
    out.ptr[at++] = n > 2 ? alphabet[v & 63] : '=';
  }
  return at;
}
