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

static u32 value_of(u8 c) {
  for (u32 i = 0; i < 64; i++) {
    if (alphabet[i] == c) {
      return i;
    }
  }
  return 64;
}

bool base64_decode(struct bytes in, struct span out, u32 *len) {
  usize n = in.len;
  while (n > 0 && in.len - n < 2 && in.ptr[n - 1] == '=') {
    n--;
  }
  bool padded = n < in.len;
  *len = 0;
  if (n % 4 == 1 || (padded && in.len % 4 != 0)) {
    return false;
  }
  u32 bits = 0;
  u32 held = 0;
  for (usize i = 0; i < n; i++) {
    u32 v = value_of(in.ptr[i]);
    if (v == 64) {
      return false;
    }
    bits = bits << 6 | v;
    held += 6;
    if (held >= 8) {
      held -= 8;
      if (*len == out.len) {
        return false;
      }
      out.ptr[(*len)++] = (u8)(bits >> held);
    }
  }
  return (bits & ((1u << held) - 1)) == 0;  // what is left over must be nothing
}
