// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

static inline u64 rotl(u64 v, u32 n) {
  return v << n | v >> (64 - n);
}

static inline void sip_round(u64 v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotl(v[1], 13) ^ v[0];
  v[3] = rotl(v[3], 16) ^ v[2];
  v[0] = rotl(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotl(v[1], 17) ^ v[2];
  v[3] = rotl(v[3], 21) ^ v[0];
  v[2] = rotl(v[2], 32);
}

static inline void sip_word(u64 v[4], u64 word) {
  v[3] ^= word;
  sip_round(v);
  sip_round(v);
  v[0] ^= word;
}

u64 siphash(const struct siphash_key *key, struct bytes data) {
  u64 v[4] = {key->k0 ^ 0x736f6d6570736575ull, key->k1 ^ 0x646f72616e646f6dull,
              key->k0 ^ 0x6c7967656e657261ull, key->k1 ^ 0x7465646279746573ull};
  usize i = 0;
  for (; i + 8 <= data.len; i += 8) {
    sip_word(v, load_le64(data.ptr + i));
  }
  u64 last = (u64)data.len << 56;
  for (u32 shift = 0; i < data.len; i++, shift += 8) {
    last |= (u64)data.ptr[i] << shift;
  }
  sip_word(v, last);
  v[2] ^= 0xff;
  for (u32 n = 0; n < 4; n++) {
    sip_round(v);
  }
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// Four bits a step: 16-word tables, small enough to stay in the cache.
static u32 crc_step(u32 crc, struct bytes data, const u32 table[16]) {
  crc = ~crc;
  for (usize i = 0; i < data.len; i++) {
    crc ^= data.ptr[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

u32 crc32(u32 seed, struct bytes data) {
  static const u32 table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  return crc_step(seed, data, table);
}
