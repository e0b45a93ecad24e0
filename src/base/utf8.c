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

// Length of the well-formed sequence at `b`, `left` > 0 bytes before the end; 0 = there is none.
static u32 well_formed(const u8 *b, u32 left) {
  u8 lead = b[0];
  if (lead < 0x80) {
    return 1;
  }
  u8 low;
  u8 high;
  u32 n = sequence(lead, &low, &high);
  if (n == 0 || left < n || b[1] < low || b[1] > high) {
    return 0;
  }
  if ((n > 2 && (b[2] & 0xc0) != 0x80) || (n > 3 && (b[3] & 0xc0) != 0x80)) {
    return 0;
  }
  return n;
}

bool utf8_valid(const u8 *b, u32 len) {
  u32 pos = 0;
  while (pos < len)
    LOOP_ASSIGNS(pos)
  LOOP_INVARIANT(pos <= len)
  LOOP_DECREASES(len - pos)
  {
    if (b[pos] >= 1 && b[pos] < 0x80) {
      pos++;
      continue;
    }
    u32 n = b[pos] == 0 ? 0 : well_formed(b + pos, len - pos);
    if (n == 0) {
      return false;
    }
    pos += n;
  }
  return true;
}

bool utf8_text(const u8 *b, u32 len) {
  u32 pos = 0;
  while (pos < len)
    LOOP_ASSIGNS(pos)
  LOOP_INVARIANT(pos <= len)
  LOOP_DECREASES(len - pos)
  {
    if (b[pos] >= 0x20 && b[pos] < 0x7f) {
      pos++;
      continue;
    }
    u32 n = b[pos] < 0x80 ? 0 : well_formed(b + pos, len - pos);
    if (n == 0 || (b[pos] == 0xc2 && b[pos + 1] < 0xa0)) {
      return false;
    }
    pos += n;
  }
  return true;
}

bool utf8_data(struct bytes data) {
  u32 pos = 0;
  u32 len = (u32)data.len;
  while (pos < len)
    LOOP_ASSIGNS(pos)
  LOOP_INVARIANT(pos <= len)
  LOOP_DECREASES(len - pos)
  {
    u32 n = well_formed(data.ptr + pos, len - pos);
    if (n == 0) {
      return false;
    }
    pos += n;
  }
  return true;
}
