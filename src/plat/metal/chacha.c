// SPDX-License-Identifier: Apache-2.0
#include "plat/metal/chacha.h"

#include "base/mem.h"

static u32 rotate(u32 v, u32 n) {
  return v << n | v >> (32 - n);
}

static void quarter(u32 s[16], u32 a, u32 b, u32 c, u32 d) {
  s[a] += s[b];
  s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d];
  s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b];
  s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d];
  s[b] = rotate(s[b] ^ s[c], 7);
}

void chacha_block(u8 out[64], const u8 key[32], u32 counter, const u8 nonce[12]) {
  u32 start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  for (u32 i = 0; i < 8; i++) {
    start[4 + i] = load_le32(key + 4 * i);
  }
  start[12] = counter;
  for (u32 i = 0; i < 3; i++) {
    start[13 + i] = load_le32(nonce + 4 * i);
  }
  u32 s[16];
  memcpy(s, start, sizeof s);
  for (u32 round = 0; round < 10; round++) {
    for (u32 i = 0; i < 4; i++) {
      quarter(s, i, 4 + i, 8 + i, 12 + i);
    }
    for (u32 i = 0; i < 4; i++) {
      quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
  }
  for (u32 i = 0; i < 16; i++) {
    store_le32(out + 4 * i, s[i] + start[i]);
  }
  mem_wipe(s, sizeof s);
  mem_wipe(start, sizeof start);
}
