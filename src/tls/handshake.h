// SPDX-License-Identifier: Apache-2.0
// What the library's callbacks see of the handshake they run in.
#pragma once
#include "tls/context.h"

const struct tls_context *handshake_context(const struct tls_handshake *hs);
const struct tls_time *handshake_time(const struct tls_handshake *hs);
struct tls_certificate_id *handshake_client_id(struct tls_handshake *hs);
struct tls_identity *handshake_identity(struct tls_handshake *hs);
// The name that the server's certificate must have; empty: any, or we are the server.
struct bytes handshake_host(const struct tls_handshake *hs);
// The first reason noted is the one reported.
void handshake_note_reason(struct tls_handshake *hs, enum tls_reason reason);
// Sets the library's callbacks on a new context.
void handshake_callbacks(SSL_CTX *ssl);
// Signs with the context's key.
extern const SSL_PRIVATE_KEY_METHOD handshake_key_method;

// For tests and the benchmark: bytes of the arena used at the peak, and a fault by counter (this
// many more allocations succeed).
u32 handshake_arena_peak(const struct tls_handshake *hs);
void handshake_fail_after(struct tls_handshake *hs, u32 allocations);
