// SPDX-License-Identifier: Apache-2.0
// Cipher suites, their key schedule for one direction, and the per-core cache of expanded contexts.
//
// I1  A slot belongs to one (direction object, epoch): a KeyUpdate makes a new one.
// I2  The cache holds nothing that cannot be rebuilt from a tls_direction; a slot that is given up
//     is wiped.
#pragma once
#include <openssl/aead.h>

#include "tls/record.h"

#define TLS_AES_128_GCM_SHA256 0x1301u
#define TLS_AES_256_GCM_SHA384 0x1302u
#define TLS_CHACHA20_POLY1305_SHA256 0x1303u

struct cipher_suite {
  u16 id;
  u8 hash_len;
  u8 key_len;
  bool limited;  // AES-GCM: RFC 8446 5.5 bounds the records under one key
};

// NULL for a suite that TLS 1.3 here does not have.
const struct cipher_suite *cipher_suite_find(u16 id);
// Fills key and iv from the secret (RFC 8446 7.3) and starts the sequence anew.
void cipher_direction_expand(struct tls_direction *d, const struct cipher_suite *suite);
// secret = HKDF-Expand-Label(secret, "traffic upd", "", hash length) and expand (RFC 8446 7.2).
void cipher_direction_update(struct tls_direction *d, const struct cipher_suite *suite);
// The expanded context of this direction, from the cache or built into its least recently used
// slot. Valid until the next call.
const EVP_AEAD_CTX *cipher_context(struct tls_cipher_cache *cache, const struct tls_direction *d,
                                   const struct cipher_suite *suite);
// Drops the slots of this direction.
void cipher_forget(struct tls_cipher_cache *cache, const struct tls_direction *d);
