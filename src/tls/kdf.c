// SPDX-License-Identifier: Apache-2.0
#include "tls/kdf.h"

#include <openssl/mem.h>
#include <openssl/sha.h>

#define BLOCK 128u  // SHA-512's

static void load_state(SHA512_CTX *c, const u64 state[8]) {
  memcpy(c->h, state, sizeof c->h);
}

// HMAC of one 64-byte block under the states: two compressions. in and out may be the same.
static void hmac_block(const struct kdf *k, const u8 *in, u8 *out) {
  SHA512_CTX c;
  u8 block[BLOCK] = {0};
  memcpy(block, in, KDF_LEN);
  block[KDF_LEN] = 0x80;
  store_be64(block + BLOCK - 8, (BLOCK + KDF_LEN) * 8ull);
  load_state(&c, k->inner);
  SHA512_Transform(&c, block);
  for (u32 i = 0; i < 8; i++) {
    store_be64(block + 8 * i, c.h[i]);
  }
  load_state(&c, k->outer);
  SHA512_Transform(&c, block);
  for (u32 i = 0; i < 8; i++) {
    store_be64(out + 8 * i, c.h[i]);
  }
}

static void key_state(u64 state[8], const u8 key[BLOCK], u8 pad) {
  SHA512_CTX c;
  u8 block[BLOCK];
  for (u32 i = 0; i < BLOCK; i++) {
    block[i] = key[i] ^ pad;
  }
  SHA512_Init(&c);
  SHA512_Transform(&c, block);
  memcpy(state, c.h, sizeof c.h);
  mem_wipe(block, sizeof block);
}

void kdf_pbkdf2_begin(struct kdf *k, struct bytes password, struct bytes salt, u32 iterations) {
  static const u8 first[4] = {0, 0, 0, 1};
  ASSERT(iterations >= 1);
  u8 key[BLOCK] = {0};
  SHA512_CTX c;
  if (password.len > BLOCK) {
    SHA512(password.ptr, password.len, key);
  } else if (password.len > 0) {
    memcpy(key, password.ptr, password.len);
  }
  key_state(k->inner, key, 0x36);
  key_state(k->outer, key, 0x5c);
  // U_1 = HMAC(salt || 1): the inner hash goes on from its state behind one block.
  u8 pad[BLOCK];
  for (u32 i = 0; i < BLOCK; i++) {
    pad[i] = key[i] ^ 0x36;
  }
  SHA512_Init(&c);
  SHA512_Update(&c, pad, BLOCK);
  SHA512_Update(&c, salt.ptr, salt.len);
  SHA512_Update(&c, first, sizeof first);
  SHA512_Final(k->block, &c);
  for (u32 i = 0; i < BLOCK; i++) {
    pad[i] = key[i] ^ 0x5c;
  }
  SHA512_Init(&c);
  SHA512_Update(&c, pad, BLOCK);
  SHA512_Update(&c, k->block, KDF_LEN);
  SHA512_Final(k->block, &c);
  memcpy(k->sum, k->block, KDF_LEN);
  k->left = iterations - 1;
  mem_wipe(key, sizeof key);
  mem_wipe(pad, sizeof pad);
}

void kdf_sha512(struct kdf *k, struct bytes password, struct bytes salt) {
  SHA512_CTX c;
  *k = (struct kdf){.left = 0};
  SHA512_Init(&c);
  SHA512_Update(&c, password.ptr, password.len);
  SHA512_Update(&c, salt.ptr, salt.len);
  SHA512_Final(k->sum, &c);
}

bool kdf_step(struct kdf *k, u32 iterations) {
  for (u32 n = MIN(iterations, k->left); n > 0; n--) {
    hmac_block(k, k->block, k->block);
    for (u32 i = 0; i < KDF_LEN; i++) {
      k->sum[i] ^= k->block[i];
    }
    k->left--;
  }
  return k->left == 0;
}

void kdf_fini(struct kdf *k) {
  mem_wipe(k, sizeof *k);
}

bool kdf_equal(const u8 *a, const u8 *b, u32 len) {
  return CRYPTO_memcmp(a, b, len) == 0;
}
