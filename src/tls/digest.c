// SPDX-License-Identifier: Apache-2.0
#include "tls/digest.h"

#include <openssl/sha.h>

static_assert(TLS_SHA1_BYTES == SHA_DIGEST_LENGTH, "SHA-1");
static_assert(TLS_SHA256_BYTES == SHA256_DIGEST_LENGTH, "SHA-256");

void tls_sha1(struct bytes in, u8 out[TLS_SHA1_BYTES]) {
  SHA1(in.ptr, in.len, out);
}

void tls_sha256(struct bytes in, u8 out[TLS_SHA256_BYTES]) {
  SHA256(in.ptr, in.len, out);
}
