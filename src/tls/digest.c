// SPDX-License-Identifier: Apache-2.0
#include "tls/digest.h"

#include <openssl/sha.h>

static_assert(TLS_SHA1_BYTES == SHA_DIGEST_LENGTH, "SHA-1");

void tls_sha1(struct bytes in, u8 out[TLS_SHA1_BYTES]) {
  SHA1(in.ptr, in.len, out);
}
