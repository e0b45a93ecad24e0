// SPDX-License-Identifier: Apache-2.0
// The ChaCha20 block function, for the random generator only (TLS uses the library's).
#pragma once
#include "base/cc.h"

// RFC 8439 2.3: 64 bytes of key stream for (key, counter, nonce).
void chacha_block(u8 out[64], const u8 key[32], u32 counter, const u8 nonce[12]);
