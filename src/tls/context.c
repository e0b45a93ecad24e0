// SPDX-License-Identifier: Apache-2.0
// Contexts: what listeners share between handshakes. Made whole or not at all, then never changed.
//
// I1  A context is one core's: its handshakes and listeners count references, the last one frees.
// I2  Tickets resume only under the same set of CAs and the same demand for a certificate: both are
// in
//     the session context that the library compares (RFC 8446 4.6.1; the reference lists why).
#include "tls/context.h"

#include <openssl/err.h>
#include <openssl/mem.h>
#include <openssl/pool.h>
#include <openssl/sha.h>

#include "base/fmt.h"
#include "tls/chain.h"
#include "tls/handshake.h"
#include "tls/memory.h"
#include "tls/verify.h"

#define TICKET_LIFETIME_S (24u * 3600)

// Signatures that a client may prove its key with, and we ours (RFC 8446 4.2.3).
static const u16 verify_algorithms[] = {
    SSL_SIGN_ECDSA_SECP256R1_SHA256, SSL_SIGN_ED25519,
    SSL_SIGN_RSA_PSS_RSAE_SHA256,    SSL_SIGN_RSA_PSS_RSAE_SHA384,
    SSL_SIGN_RSA_PSS_RSAE_SHA512,
};
static const u16 rsa_algorithms[] = {SSL_SIGN_RSA_PSS_RSAE_SHA256, SSL_SIGN_RSA_PSS_RSAE_SHA384,
                                     SSL_SIGN_RSA_PSS_RSAE_SHA512};
static const u16 ec_algorithms[] = {SSL_SIGN_ECDSA_SECP256R1_SHA256};
static const u16 ed25519_algorithms[] = {SSL_SIGN_ED25519};

static bool set_signing(SSL_CTX *ssl, const EVP_PKEY *key) {
  switch (EVP_PKEY_id(key)) {
  case EVP_PKEY_RSA:
    return SSL_CTX_set_signing_algorithm_prefs(ssl, rsa_algorithms, ARRAY_COUNT(rsa_algorithms));
  case EVP_PKEY_ED25519: return SSL_CTX_set_signing_algorithm_prefs(ssl, ed25519_algorithms, 1);
  default: return SSL_CTX_set_signing_algorithm_prefs(ssl, ec_algorithms, 1);
  }
}

static bool set_session_context(const struct tls_context *c) {
  u8 hash[SHA256_DIGEST_LENGTH];
  SHA256_CTX sha;
  SHA256_Init(&sha);
  SHA256_Update(&sha, &c->require_certificate, 1);
  for (u32 i = 0; i < c->anchor_count; i++) {
    SHA256_Update(&sha, c->anchors[i].fingerprint, sizeof c->anchors[i].fingerprint);
  }
  SHA256_Final(hash, &sha);
  return SSL_CTX_set_session_id_context(c->ssl, hash, sizeof hash);
}

// What does not depend on the PEM texts.
static bool set_options(struct tls_context *c, const struct tls_config *config) {
  static const int groups[] = {NID_X25519, NID_X9_62_prime256v1};
  SSL_CTX *ssl = c->ssl;
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_early_data_enabled(ssl, 0);
  SSL_CTX_set_session_psk_dhe_timeout(ssl, TICKET_LIFETIME_S);
  SSL_CTX_set_quiet_shutdown(ssl, 1);
  if (!config->tickets) {
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
  }
  if (config->require_certificate || config->client) {
    SSL_CTX_set_custom_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify_peer);
  }
  u8 wire[256];
  if (config->client && config->alpn.len > 0 && config->alpn.len < sizeof wire) {
    wire[0] = (u8)config->alpn.len;
    memcpy(wire + 1, config->alpn.ptr, config->alpn.len);
    if (SSL_CTX_set_alpn_protos(ssl, wire, (u32)config->alpn.len + 1) != 0) {
      return false;
    }
  }
  handshake_callbacks(ssl);
  return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
         SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) &&
         SSL_CTX_set1_groups(ssl, groups, ARRAY_COUNT(groups)) &&
         SSL_CTX_set_num_tickets(ssl, config->tickets ? 1 : 0) &&
         SSL_CTX_set_tlsext_ticket_keys(ssl, config->ticket_key, TLS_TICKET_KEY_BYTES) &&
         SSL_CTX_set_verify_algorithm_prefs(ssl, verify_algorithms,
                                            ARRAY_COUNT(verify_algorithms)) &&
         X509_STORE_set_flags(c->store, X509_V_FLAG_NO_CHECK_TIME);
}

// Up to a quarter of what is left of the heap: contexts that come later need room too. Without
// memory every chain is judged anew.
static void make_chain_cache(struct tls_context *c, u32 wanted) {
  const struct alloc *heap = memory_heap();
  u32 entries = 4;
  while (entries < MIN(wanted, 65536u) &&
         chain_cache_bytes(2 * entries) <= (heap->len - heap->used) / 4) {
    entries *= 2;
  }
  if (wanted == 0 || chain_cache_bytes(entries) > (heap->len - heap->used) / 4) {
    return;
  }
  void *memory = OPENSSL_malloc(chain_cache_bytes(entries));
  if (memory != NULL) {
    c->chains = chain_cache_init(span_of(memory, chain_cache_bytes(entries)), entries);
  }
}

static bool fill(struct tls_context *c, const struct tls_config *config, struct loader *l) {
  // The library's method without X.509 objects: a chain that is remembered is never parsed.
  c->ssl = SSL_CTX_new(TLS_with_buffers_method());
  c->store = X509_STORE_new();
  if (c->ssl == NULL || c->store == NULL || !set_options(c, config)) {
    return loader_fail(l, 0, "no memory left for TLS settings");
  }
  bool nameless = config->client && config->certificate.len == 0 && config->key.len == 0;
  bool ok = (nameless || (load_certificate(l, config->certificate) && load_key(l, config->key))) &&
            load_ca(l, config->ca, config->more_ca, config->more_ca_count) &&
            (config->crl.len == 0 || load_crl(l, config->crl));
  if (!ok) {
    return false;
  }
  ok = nameless || (SSL_CTX_set_chain_and_key(c->ssl, l->sent, l->sent_count, NULL,
                                              &handshake_key_method) == 1 &&
                    set_signing(c->ssl, c->key));
  ok = ok && set_session_context(c);
  if (!ok) {
    return loader_fail(l, 0, "no memory left for TLS settings");
  }
  make_chain_cache(c, config->require_certificate ? config->cached_chains : 0);
  return true;
}

struct tls_context *tls_context_new(const struct tls_config *config, const struct tls_time *now,
                                    struct tls_problem *problem) {
  *problem = (struct tls_problem){.input = TLS_INPUT_NONE};
  struct tls_context *c = memory_heap_take(sizeof *c);
  struct loader l = {.context = c, .now = now, .problem = problem, .input = TLS_INPUT_CERTIFICATE};
  if (c == NULL) {
    loader_fail(&l, 0, "no memory left for TLS settings");
    return NULL;
  }
  *c = (struct tls_context){.refs = 1,
                            .client = config->client,
                            .require_certificate = config->require_certificate,
                            .alpn_mqtt = config->alpn_mqtt};
  ASSERT(!config->client || (!config->tickets && config->cached_chains == 0));
  c->info.ca_not_after_s = U64_MAX;
  c->info.crl_next_update_s = U64_MAX;
  bool ok = fill(c, config, &l);
  X509_free(l.leaf);
  for (u32 i = 0; i < l.sent_count; i++) {
    CRYPTO_BUFFER_free(l.sent[i]);
  }
  ERR_clear_error();
  ASSERT(ok == (problem->input == TLS_INPUT_NONE));
  if (!ok) {
    tls_context_unref(c);
    return NULL;
  }
  return c;
}

struct tls_context *tls_context_ref(struct tls_context *context) {
  ASSERT(context->refs > 0);
  ASSERT(context->refs < U32_MAX);
  context->refs++;
  return context;
}

void tls_context_unref(struct tls_context *context) {
  if (context == NULL) {
    return;
  }
  ASSERT(context->refs > 0);
  if (--context->refs > 0) {
    return;
  }
  SSL_CTX_free(context->ssl);
  X509_STORE_free(context->store);
  OPENSSL_free(context->chains);  // wiped by the allocator, as everything freed
  EVP_PKEY_free(context->key);
  for (u32 i = 0; i < context->anchor_count; i++) {
    X509_free(context->anchors[i].cert);
  }
  OPENSSL_free(context->anchors);
  OPENSSL_free(context->crls);
  OPENSSL_free(context->revoked);
  memory_heap_put(context);
}

void tls_context_info(const struct tls_context *context, struct tls_context_info *out) {
  struct chain_stats s = chain_cache_stats(context->chains);
  *out = context->info;
  out->chains_kept = s.entries;
  out->chain_hits = s.hits;
  out->chain_misses = s.misses;
}

enum tls_reason tls_recheck(const struct tls_context *context, const struct tls_record *record,
                            const struct tls_time *now) {
  const struct tls_certificate_id *id = &record->client;
  if (!id->present) {
    return context->require_certificate ? TLS_REASON_NO_CERTIFICATE : TLS_REASON_NONE;
  }
  if (id->not_after_s < now->lower_unix_s) {
    return TLS_REASON_EXPIRED;
  }
  if (context_is_revoked(context, id->issuer, id->serial)) {
    return TLS_REASON_REVOKED;
  }
  for (u32 i = 0; i < context->anchor_count; i++) {
    if (memcmp(context->anchors[i].fingerprint, id->anchor, sizeof id->anchor) == 0) {
      return TLS_REASON_NONE;
    }
  }
  return TLS_REASON_UNKNOWN_CA;
}

const char *tls_reason_text(enum tls_reason reason) {
  static const char *const texts[TLS_REASON_COUNT] = {
      [TLS_REASON_NONE] = "fine",
      [TLS_REASON_OLD_TLS] = "the client speaks TLS 1.2 or older: only TLS 1.3 is served",
      [TLS_REASON_NO_CERTIFICATE] = "the client sent no certificate, and one is required",
      [TLS_REASON_UNKNOWN_CA] = "the client's certificate is by a CA that is not configured",
      [TLS_REASON_NO_CRL] = "no CRL is configured for the CA of the client's certificate",
      [TLS_REASON_EXPIRED] = "the client's certificate has expired",
      [TLS_REASON_NOT_YET_VALID] = "the client's certificate is not valid yet",
      [TLS_REASON_REVOKED] = "the client's certificate is revoked",
      [TLS_REASON_CRL_EXPIRED] = "the CRL of the client's CA is out of date",
      [TLS_REASON_BAD_CERTIFICATE] = "the client's certificate chain is not acceptable",
      [TLS_REASON_ALPN] = "the client does not offer the protocol mqtt by ALPN",
      [TLS_REASON_NO_SHARED_CIPHER] = "no cipher suite, group or signature algorithm in common",
      [TLS_REASON_PEER_ALERT] = "the client ended the handshake with an alert",
      [TLS_REASON_PROTOCOL] = "the client broke the protocol",
      [TLS_REASON_NO_MEMORY] = "the handshake needs more memory than it is given",
      [TLS_REASON_WRONG_NAME] = "the certificate is somebody else's",
  };
  ASSERT(reason < TLS_REASON_COUNT);
  return texts[reason];
}

const char *context_reason_text(const struct tls_context *c, enum tls_reason reason) {
  static const char *const of_server[TLS_REASON_COUNT] = {
      [TLS_REASON_OLD_TLS] = "the server does not speak TLS 1.3",
      [TLS_REASON_NO_CERTIFICATE] = "the server wants a certificate",
      [TLS_REASON_UNKNOWN_CA] = "the server's certificate is by a CA that is not configured",
      [TLS_REASON_NO_CRL] = "no CRL is configured for the CA of the server's certificate",
      [TLS_REASON_EXPIRED] = "the server's certificate has expired",
      [TLS_REASON_NOT_YET_VALID] = "the server's certificate is not valid yet",
      [TLS_REASON_REVOKED] = "the server's certificate is revoked",
      [TLS_REASON_CRL_EXPIRED] = "the CRL of the server's CA is out of date",
      [TLS_REASON_BAD_CERTIFICATE] = "the server's certificate chain is not acceptable",
      [TLS_REASON_ALPN] = "the server does not speak the protocol that bridge_alpn names",
      [TLS_REASON_PEER_ALERT] = "the server ended the handshake with an alert",
      [TLS_REASON_PROTOCOL] = "the server broke the protocol",
      [TLS_REASON_WRONG_NAME] = "the server's certificate does not name the host we asked for",
  };
  ASSERT(reason < TLS_REASON_COUNT);
  return c->client && of_server[reason] != NULL ? of_server[reason] : tls_reason_text(reason);
}
