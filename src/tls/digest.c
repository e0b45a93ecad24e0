// SPDX-License-Identifier: Apache-2.0
#include "tls/digest.h"

#include <openssl/sha.h>

static_assert(TLS_SHA1_BYTES == SHA_DIGEST_LENGTH, "SHA-1");
static_assert(TLS_SHA256_BYTES == SHA256_DIGEST_LENGTH, "SHA-256");

void tls_sha1(struct bytes in, u8 out[TLS_SHA1_BYTES]) {
  SHA1(in.ptr, in.len, out);
}

static_assert(sizeof(SHA256_CTX) <= sizeof((struct tls_hmac){0}.inner), "room for the state");

void tls_sha256(struct bytes in, u8 out[TLS_SHA256_BYTES]) {
  SHA256(in.ptr, in.len, out);
}

void tls_hmac_begin(struct tls_hmac *h, struct bytes key) {
  u8 pad[sizeof h->outer] = {0};
  SHA256_CTX c;
  if (key.len > sizeof pad) {
    SHA256(key.ptr, key.len, pad);
  } else if (key.len > 0) {
    memcpy(pad, key.ptr, key.len);
  }
  for (u32 i = 0; i < sizeof pad; i++) {
    h->outer[i] = pad[i] ^ 0x5c;
    pad[i] ^= 0x36;
  }
  SHA256_Init(&c);
  SHA256_Update(&c, pad, sizeof pad);
  memcpy(h->inner, &c, sizeof c);
  mem_wipe(pad, sizeof pad);
  mem_wipe(&c, sizeof c);
}

void tls_hmac_add(struct tls_hmac *h, struct bytes piece) {
  SHA256_CTX c;
  memcpy(&c, h->inner, sizeof c);
  SHA256_Update(&c, piece.ptr, piece.len);
  memcpy(h->inner, &c, sizeof c);
}

void tls_hmac_end(struct tls_hmac *h, u8 out[TLS_SHA256_BYTES]) {
  SHA256_CTX c;
  memcpy(&c, h->inner, sizeof c);
  SHA256_Final(out, &c);
  SHA256_Init(&c);
  SHA256_Update(&c, h->outer, sizeof h->outer);
  SHA256_Update(&c, out, TLS_SHA256_BYTES);
  SHA256_Final(out, &c);
  mem_wipe(&c, sizeof c);
  mem_wipe(h, sizeof *h);
}
