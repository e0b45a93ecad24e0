// SPDX-License-Identifier: Apache-2.0
// Facts about one certificate, name or date, in our own terms.
#pragma once
#include <openssl/x509.h>

#include "tls/record.h"

#define CERT_NAME_HASH 16u
#define CERT_SERIAL 20u

// First half of SHA-256 over the DER of a name.
void cert_name_hash(u8 out[CERT_NAME_HASH], const X509_NAME *name);
// Right-aligned serial number; false when it is longer than RFC 5280 4.1.2.2 allows.
bool cert_serial(u8 out[CERT_SERIAL], const ASN1_INTEGER *serial);
// Seconds since 1970; 0 for a date before it or an unreadable one (the library has parsed it, so
// that does not happen).
u64 cert_time(const ASN1_TIME *t);
// "P-256", "Ed25519", "RSA-2048" ... into `out`; false when this kind of key is not supported (then
// `out` names it as well as it can).
bool cert_key_type(char out[16], const EVP_PKEY *key);
// True for the signature algorithms that a chain may use: SHA-2 with ECDSA or RSA, Ed25519.
bool cert_signature_ok(const X509 *cert);
// "2026-12-01" into `out`.
void cert_date_text(char out[16], u64 unix_s);
