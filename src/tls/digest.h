// SPDX-License-Identifier: Apache-2.0
// Digests for other modules than TLS; the library's code.
#pragma once
#include "base/bytes.h"

#define TLS_SHA1_BYTES 20u
// For WebSocket's accept key only (RFC 6455 4.2.2), where collisions do no harm.
void tls_sha1(struct bytes in, u8 out[TLS_SHA1_BYTES]);

#define TLS_SHA256_BYTES 32u
void tls_sha256(struct bytes in, u8 out[TLS_SHA256_BYTES]);
