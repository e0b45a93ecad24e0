// SPDX-License-Identifier: Apache-2.0
// What a tls_context holds, for the files of this module.
#pragma once
#include <openssl/ssl.h>

#include "tls/cert.h"
#include "tls/pem.h"
#include "tls/tls.h"

struct revoked {
  u8 issuer[CERT_NAME_HASH];
  u8 serial[CERT_SERIAL];
};
struct crl_source {
  u8 issuer[CERT_NAME_HASH];
  u64 next_update_s;  // U64_MAX: never
};
struct anchor {
  X509 *cert;
  u8 subject[CERT_NAME_HASH];
  u8 fingerprint[8];  // of the certificate, SHA-256 cut
};
#define CONTEXT_ANCHOR_MAX 256u
#define CONTEXT_CRL_MAX 256u
#define CONTEXT_CHAIN_MAX 8u

struct tls_context {
  u32 refs;
  bool client;
  bool require_certificate;
  bool alpn_mqtt;
  SSL_CTX *ssl;
  X509_STORE *store;  // the anchors, as the library wants them
  EVP_PKEY *key;
  struct chain_cache *chains;  // NULL: none
  struct anchor *anchors;
  u32 anchor_count;
  struct crl_source *crls;
  u32 crl_count;
  struct revoked *revoked;  // sorted
  u32 revoked_count;
  struct tls_context_info info;
};

// One of the four PEM texts of a configuration while it is read (load.c, revoke.c).
struct loader {
  struct tls_context *context;
  const struct tls_time *now;  // NULL: dates are not judged
  struct tls_problem *problem;
  enum tls_input input;
  struct bytes text;
  X509 *leaf;                              // server certificate, once read
  CRYPTO_BUFFER *sent[CONTEXT_CHAIN_MAX];  // what we present: leaf and intermediates
  u32 sent_count;
  u32 count;  // blocks used so far
};
// Sets the problem (the first one counts) and returns false.
bool loader_fail(struct loader *l, u32 line, const char *format, ...) PRINTF_LIKE(3, 4);
// Calls `use` with the DER of every block of the text; false as soon as one fails.
bool loader_each(struct loader *l, enum tls_input input, struct bytes text,
                 bool (*use)(struct loader *l, const struct pem_block *block, struct bytes der));
// The four readers.
bool load_certificate(struct loader *l, struct bytes text);
bool load_key(struct loader *l, struct bytes text);
bool load_ca(struct loader *l, struct bytes text, const struct bytes *more, u32 more_count);
bool load_crl(struct loader *l, struct bytes text);

// tls_reason_text, about the server when we are the client.
const char *context_reason_text(const struct tls_context *c, enum tls_reason reason);
bool context_is_revoked(const struct tls_context *c, const u8 issuer[CERT_NAME_HASH],
                        const u8 serial[CERT_SERIAL]);
const struct crl_source *context_crl(const struct tls_context *c, const u8 issuer[CERT_NAME_HASH]);
