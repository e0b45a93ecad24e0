// SPDX-License-Identifier: Apache-2.0
// utf8_valid accepts exactly the encodings of sequences of scalar values other than U+0000: the
// other side is RFC 3629's own definition by decoding, not a table of ranges.
#include "contracts.h"

#ifndef LENGTH
#define LENGTH 5
#endif

// Code point of the sequence at b, its length in *n; U32_MAX when it is none.
static u32 decode(const u8 *b, u32 left, u32 *n) {
  u32 lead = b[0];
  *n = lead < 0x80 ? 1 : (lead & 0xe0) == 0xc0 ? 2 : (lead & 0xf0) == 0xe0 ? 3 : 4;
  if ((*n == 4 && (lead & 0xf8) != 0xf0) || *n > left) {
    return U32_MAX;
  }
  u32 value = *n == 1 ? lead : lead & (0x7fu >> *n);
  for (u32 i = 1; i < *n; i++) {
    if ((b[i] & 0xc0) != 0x80) {
      return U32_MAX;
    }
    value = value << 6 | (b[i] & 0x3fu);
  }
  u32 least = *n == 1 ? 1 : *n == 2 ? 0x80 : *n == 3 ? 0x800 : 0x10000;  // 1: no U+0000
  bool surrogate = value >= 0xd800 && value <= 0xdfff;
  return value < least || value > 0x10ffff || surrogate ? U32_MAX : value;
}

// The same without control characters.
static bool is_control(u32 value) {
  return value < 0x20 || (value >= 0x7f && value <= 0x9f);
}

void proof_utf8_text_exact(void) {
  u8 b[LENGTH];
  for (u32 i = 0; i < LENGTH; i++) {
    b[i] = nondet_u8();
  }
  u32 len = nondet_u32();
  __CPROVER_assume(len <= LENGTH);
  bool want = true;
  u32 pos = 0;
  for (u32 turn = 0; turn < LENGTH; turn++) {
    if (pos < len && want) {
      u32 n;
      u32 value = decode(b + pos, len - pos, &n);
      want = value != U32_MAX && !is_control(value);
      pos += n;
    }
  }
#ifdef NEGATIVE
  want = want && len < LENGTH;
#endif
  __CPROVER_assert(utf8_text(b, len) == want, "accepts exactly UTF-8 without controls");
}

void proof_utf8_exact(void) {
  u8 b[LENGTH];
  for (u32 i = 0; i < LENGTH; i++) {
    b[i] = nondet_u8();
  }
  u32 len = nondet_u32();
  __CPROVER_assume(len <= LENGTH);
  bool want = true;
  u32 pos = 0;
  for (u32 turn = 0; turn < LENGTH; turn++) {
    if (pos < len && want) {
      u32 n;
      want = decode(b + pos, len - pos, &n) != U32_MAX;
      pos += n;
    }
  }
#ifdef NEGATIVE
  want = want && len < LENGTH;
#endif
  __CPROVER_assert(utf8_valid(b, len) == want, "accepts exactly UTF-8 without U+0000");
}
