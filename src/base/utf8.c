// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

// Length of the sequence that starts with `lead`, and the legal range of its second byte; 0 = no
// lead byte.
// Unicode 15, table 3-7: only the second byte's range depends on the lead.
static u32 sequence(u8 lead, u8 *low, u8 *high) {
  *low = 0x80;
  *high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    return 2;
  }
  if (lead >= 0xe0 && lead <= 0xef) {
    *low = lead == 0xe0 ? 0xa0 : 0x80;
    *high = lead == 0xed ? 0x9f : 0xbf;
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    *low = lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xf4 ? 0x8f : 0xbf;
    return 4;
  }
  return 0;
}

bool utf8_valid(const u8 *b, u32 len) {
  u32 pos = 0;
  while (pos < len)
    LOOP_ASSIGNS(pos)
    LOOP_INVARIANT(pos <= len)
    LOOP_DECREASES(len - pos) {
    u8 lead = b[pos];
    if (lead < 0x80) {
      if (lead == 0) {
        return false;
      }
      pos += 1;
      continue;
    }
    u8 low;
    u8 high;
    u32 n = sequence(lead, &low, &high);
    if (n == 0 || len - pos < n || b[pos + 1] < low || b[pos + 1] > high) {
      return false;
    }
    if (n > 2 && (b[pos + 2] & 0xc0) != 0x80) {
      return false;
    }
    if (n > 3 && (b[pos + 3] & 0xc0) != 0x80) {
      return false;
    }
    pos += n;
  }
  return true;
}
