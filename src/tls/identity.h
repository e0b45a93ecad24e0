// SPDX-License-Identifier: Apache-2.0
// Who a client is, copied out of the library's objects.
#pragma once
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "tls/tls.h"

// The names of a client's certificate. What memory was short for is empty (the caller looks at
// memory_refused).
void identity_names(struct tls_identity *out, X509 *leaf);
// What the connection itself says: cipher suite, group, protocol, resumption. Names stay.
void identity_session(struct tls_identity *out, const SSL *ssl);
