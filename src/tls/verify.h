// SPDX-License-Identifier: Apache-2.0
// Judging a peer's certificate chain (a client's, or of a server that we called): by the library
// (signatures, names, purposes) and by us (dates, revocation, algorithms), or by what is remembered
// of it (chain.h).
#pragma once
#include "tls/chain.h"
#include "tls/context.h"

// For SSL_CTX_set_custom_verify. The reason it found goes to the handshake by
// handshake_note_reason, who the client is by handshake_client.
enum ssl_verify_result_t verify_peer(SSL *ssl, u8 *alert);
// A resumed client's chain, which came out of a ticket of ours without any check by the library:
// dates and revocation. TLS_REASON_NONE, or the reason and its alert.
enum tls_reason verify_resumed(SSL *ssl, u8 *alert);
