// SPDX-License-Identifier: Apache-2.0
// Digests for other modules than TLS; the library's code.
#pragma once
#include "base/bytes.h"

#define TLS_SHA1_BYTES 20u
// For WebSocket's accept key only (RFC 6455 4.2.2), where collisions do no harm.
void tls_sha1(struct bytes in, u8 out[TLS_SHA1_BYTES]);

#define TLS_SHA256_BYTES 32u
void tls_sha256(struct bytes in, u8 out[TLS_SHA256_BYTES]);

// HMAC-SHA-256 (RFC 2104) over pieces. Holds what the key gave: wipe it when it is given up before
// its end.
struct tls_hmac {
  u64 inner[14];  // the library's state behind the key and the pieces so far
  u8 outer[64];   // key ^ opad
};
void tls_hmac_begin(struct tls_hmac *h, struct bytes key);
void tls_hmac_add(struct tls_hmac *h, struct bytes piece);
// Wipes *h.
void tls_hmac_end(struct tls_hmac *h, u8 out[TLS_SHA256_BYTES]);
