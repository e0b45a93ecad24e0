// SPDX-License-Identifier: Apache-2.0
// Internet checksum (RFC 1071), eight bytes a step. One's complement sums may be added in any byte
// order and swapped at the end (RFC 1071 2 B); a carry that leaves 16 bits comes back at the
// bottom.
#include "net/checksum.h"

void csum_add(struct csum *c, struct bytes data) {
  const u8 *p = data.ptr;
  usize len = data.len;
  u64 sum = 0;
  if (len > 0 && c->odd) {  // finishes the word that the last piece began
    c->sum += *p++;
    len--;
    c->odd = false;
  }
  for (; len >= 8; len -= 8, p += 8) {  // four words a step; the order inside is undone below
    u64 v = load_le64(p);
    sum += (v & 0xffffffff) + (v >> 32);
  }
  sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  c->sum += (u64)__builtin_bswap16((u16)sum);
  for (; len >= 2; len -= 2, p += 2) {
    c->sum += load_be16(p);
  }
  if (len > 0) {
    c->sum += (u64)*p << 8;
    c->odd = true;
  }
}

u16 csum_fold(const struct csum *c) {
  u64 sum = c->sum;
  while (sum >> 16 != 0) {
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return (u16)sum;
}

u16 csum_finish(const struct csum *c) {
  return (u16)~csum_fold(c);
}
