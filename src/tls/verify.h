// SPDX-License-Identifier: Apache-2.0
// Judging a client's certificate chain: by the library (signatures, names, purposes) and by us
// (dates, revocation, algorithms).
#pragma once
#include "tls/context.h"

// For SSL_CTX_set_cert_verify_callback. The reason it found goes to the handshake by
// handshake_note_reason.
int verify_chain(X509_STORE_CTX *store, void *arg);
// The part of the judgement that does not need the library's: dates and revocation of the
// certificates chain[0..], whose end is either a configured CA or issued by one. Fills `id` for the
// leaf. The alert of a reason that verify_again gave.
u8 verify_alert(enum tls_reason reason);
enum tls_reason verify_again(const struct tls_context *c, STACK_OF(X509) * chain,
                             const struct tls_time *now, struct tls_certificate_id *id);
