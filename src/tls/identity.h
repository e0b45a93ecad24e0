// SPDX-License-Identifier: Apache-2.0
// Who a client is, copied out of the library's objects.
#pragma once
#include <openssl/ssl.h>

#include "tls/tls.h"

void identity_fill(struct tls_identity *out, const SSL *ssl);
