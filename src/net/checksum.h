// SPDX-License-Identifier: Apache-2.0
// Internet checksum (RFC 1071): a running 32-bit sum of big-endian words, folded at the end.
#pragma once
#include "base/bytes.h"

struct csum {
  u64 sum;
  bool odd;  // the next byte is the low half of a word
};
void csum_add(struct csum *c, struct bytes data);
static inline void csum_add16(struct csum *c, u16 v) {
  c->sum += v;
}
static inline void csum_add32(struct csum *c, u32 v) {
  c->sum += (v >> 16) + (v & 0xffff);
}
u16 csum_fold(const struct csum *c);    // the folded sum, not complemented
u16 csum_finish(const struct csum *c);  // complemented: what goes on the wire
