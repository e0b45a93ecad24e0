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
// The folded sum of `words` of 32 bits at `p`: an IPv4 header's.
static inline u16 csum_words(const u8 *p, u32 words) {
  u64 sum = 0;
  for (u32 i = 0; i < words; i++) {
    sum += load_be32(p + 4 * i);
  }
  sum = (sum >> 32) + (sum & 0xffffffff);
  sum = (sum >> 16) + (sum & 0xffff);
  sum = (sum >> 16) + (sum & 0xffff);
  return (u16)((sum >> 16) + sum);
}
u16 csum_fold(const struct csum *c);    // the folded sum, not complemented
u16 csum_finish(const struct csum *c);  // complemented: what goes on the wire
