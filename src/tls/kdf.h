// SPDX-License-Identifier: Apache-2.0
// Password hashing in steps: PBKDF2-HMAC-SHA512 (RFC 8018 5.2) and mosquitto's older SHA-512 of
// password and salt. The hash functions are the library's; the loop is here so that whoever calls
// decides how long a turn may take.
//
// I1  Nothing allocates. The state is a secret: kdf_fini wipes it.
#pragma once
#include "base/bytes.h"

#define KDF_LEN 64u

struct kdf {
  u64 inner[8], outer[8];  // SHA-512 states behind the two halves of the HMAC key
  u8 block[KDF_LEN];       // U_i
  u8 sum[KDF_LEN];
  u32 left;  // iterations to go
};

// PBKDF2 with one block of output. iterations >= 1.
void kdf_pbkdf2_begin(struct kdf *k, struct bytes password, struct bytes salt, u32 iterations);
// SHA-512(password || salt): done at once (512 MB/s: a password of 64 KiB takes 130 us).
void kdf_sha512(struct kdf *k, struct bytes password, struct bytes salt);
// Up to `iterations` more, about 0.8 us each. True: k->sum is the result.
bool kdf_step(struct kdf *k, u32 iterations);
void kdf_fini(struct kdf *k);
// Compares in a time that does not depend on the bytes.
bool kdf_equal(const u8 *a, const u8 *b, u32 len);
