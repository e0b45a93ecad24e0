// SPDX-License-Identifier: Apache-2.0
// Judging a client's certificate chain (RFC 5280 6.1; RFC 8446 4.4.2.4, 6.2).
//
// The library builds the chain and checks signatures, names, constraints and purposes. Dates and
// revocation are ours, because time has a lower bound and an estimate here (DESIGN 3: notAfter by
// the former, notBefore by the latter when it is good) and because a resumed session brings the
// chain in its ticket without any check by the library.
//
// I1  The leaf and every intermediate are judged; a configured CA itself was judged when it was
//     loaded.
// I2  With CRLs configured, a leaf whose issuer has none is refused, and so is one whose issuer's
//     CRL is past its nextUpdate: as mosquitto does.
// I3  A chain found in the cache skips what cannot have changed (judge_path); dates and revocation
//     go through the same function as for a chain that is new (judge_fact). CertificateVerify is
//     the library's, with the key in the presented leaf, and happens either way.
#include "tls/verify.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pool.h>
#include <openssl/x509v3.h>

#include "base/ip.h"
#include "tls/handshake.h"
#include "tls/identity.h"
#include "tls/memory.h"

struct verdict {
  enum tls_reason reason;
  u8 alert;
};

// --- What may differ from one handshake to the next

static enum tls_reason judge_dates(const struct cert_fact *f, const struct tls_time *now) {
  if (f->not_after_s < now->lower_unix_s) {
    return TLS_REASON_EXPIRED;
  }
  return now->trusted && f->not_before_s > now->unix_s ? TLS_REASON_NOT_YET_VALID : TLS_REASON_NONE;
}

static enum tls_reason judge_crl(const struct tls_context *c, const u8 issuer[CERT_NAME_HASH],
                                 const struct tls_time *now) {
  if (c->crl_count == 0) {
    return TLS_REASON_NONE;
  }
  const struct crl_source *crl = context_crl(c, issuer);
  if (crl == NULL) {
    return TLS_REASON_NO_CRL;
  }
  return crl->next_update_s < now->lower_unix_s ? TLS_REASON_CRL_EXPIRED : TLS_REASON_NONE;
}

static enum tls_reason judge_fact(const struct tls_context *c, const struct cert_fact *f, bool leaf,
                                  const struct tls_time *now) {
  enum tls_reason reason = judge_dates(f, now);
  if (reason == TLS_REASON_NONE && context_is_revoked(c, f->issuer, f->serial)) {
    reason = TLS_REASON_REVOKED;
  }
  return reason == TLS_REASON_NONE && leaf ? judge_crl(c, f->issuer, now) : reason;
}

static enum tls_reason judge_facts(const struct tls_context *c, const struct chain_facts *facts,
                                   const struct tls_time *now) {
  ASSERT(facts->count > 0);
  ASSERT(facts->count <= CHAIN_CERTS);
  for (u32 i = 0; i < facts->count; i++) {
    enum tls_reason reason = judge_fact(c, &facts->cert[i], i == 0, now);
    if (reason != TLS_REASON_NONE) {
      return reason;
    }
  }
  return TLS_REASON_NONE;
}

// --- What a chain says

// The configured CA that issued this certificate, by name and key identifier; of several with one
// name (a CA that changed its key) the one that fits.
static const struct anchor *anchor_of(const struct tls_context *c, X509 *cert) {
  for (u32 i = 0; i < c->anchor_count; i++) {
    if (X509_check_issued(c->anchors[i].cert, cert) == X509_V_OK) {
      return &c->anchors[i];
    }
  }
  return NULL;
}

// The name of the certificate's issuer as that CA itself spells it: configured CAs first, then the
// chain.
static const struct anchor *issuer_of(const struct tls_context *c, STACK_OF(X509) * chain, usize i,
                                      u8 issuer[CERT_NAME_HASH]) {
  X509_NAME *name = X509_get_issuer_name(sk_X509_value(chain, i));
  const struct anchor *anchor = anchor_of(c, sk_X509_value(chain, i));
  if (anchor != NULL) {
    memcpy(issuer, anchor->subject, CERT_NAME_HASH);
    return anchor;
  }
  for (usize k = 0; k < sk_X509_num(chain); k++) {
    X509_NAME *subject = X509_get_subject_name(sk_X509_value(chain, k));
    if (X509_NAME_cmp(subject, name) == 0) {
      cert_name_hash(issuer, subject);
      return NULL;
    }
  }
  cert_name_hash(issuer, name);
  return NULL;
}

static bool is_anchor(const struct tls_context *c, X509 *cert) {
  for (u32 i = 0; i < c->anchor_count; i++) {
    if (X509_cmp(c->anchors[i].cert, cert) == 0) {
      return true;
    }
  }
  return false;
}

// Reads and judges every certificate below the configured CA; the facts are kept as far as there is
// room for them.
static enum tls_reason judge_chain(const struct tls_context *c, STACK_OF(X509) * chain,
                                   const struct tls_time *now, struct chain_facts *facts) {
  *facts = (struct chain_facts){0};
  bool anchored = false;
  for (usize i = 0; i < sk_X509_num(chain); i++) {
    X509 *cert = sk_X509_value(chain, i);
    if (i > 0 && is_anchor(c, cert)) {
      break;
    }
    struct cert_fact f = {.not_before_s = cert_time(X509_get0_notBefore(cert)),
                          .not_after_s = cert_time(X509_get0_notAfter(cert))};
    const struct anchor *anchor = issuer_of(c, chain, i, f.issuer);
    if (!cert_serial(f.serial, X509_get0_serialNumber(cert))) {
      return TLS_REASON_BAD_CERTIFICATE;
    }
    enum tls_reason reason = judge_fact(c, &f, i == 0, now);
    if (reason != TLS_REASON_NONE) {
      return reason;
    }
    if (i < CHAIN_CERTS) {
      facts->cert[i] = f;
    }
    facts->count++;
    if (anchor != NULL && !anchored) {
      memcpy(facts->anchor, anchor->fingerprint, sizeof facts->anchor);
      anchored = true;
    }
  }
  return anchored ? TLS_REASON_NONE : TLS_REASON_UNKNOWN_CA;
}

// Keys and signatures of what the client presented, the configured CA at the end excluded.
static enum tls_reason judge_algorithms(const struct tls_context *c, STACK_OF(X509) * chain) {
  for (usize i = 0; i < sk_X509_num(chain); i++) {
    X509 *cert = sk_X509_value(chain, i);
    if (is_anchor(c, cert)) {
      break;
    }
    char type[16];
    EVP_PKEY *key = X509_get_pubkey(cert);
    bool ok = key != NULL && cert_key_type(type, key) && cert_signature_ok(cert);
    EVP_PKEY_free(key);
    if (!ok) {
      return TLS_REASON_BAD_CERTIFICATE;
    }
  }
  return TLS_REASON_NONE;
}

// The library's error that leads to the right alert (SSL_alert_from_verify_result), or 0.
static int error_of(enum tls_reason reason) {
  switch (reason) {
  case TLS_REASON_NONE: return X509_V_OK;
  case TLS_REASON_EXPIRED:
  case TLS_REASON_CRL_EXPIRED: return X509_V_ERR_CERT_HAS_EXPIRED;
  case TLS_REASON_NOT_YET_VALID: return X509_V_ERR_CERT_NOT_YET_VALID;
  case TLS_REASON_REVOKED: return X509_V_ERR_CERT_REVOKED;
  case TLS_REASON_NO_CRL:
  case TLS_REASON_UNKNOWN_CA: return X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;
  case TLS_REASON_NO_MEMORY: return X509_V_ERR_OUT_OF_MEM;
  default: return X509_V_ERR_CERT_REJECTED;
  }
}

static enum tls_reason reason_of(int error) {
  switch (error) {
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: return TLS_REASON_UNKNOWN_CA;
  case X509_V_ERR_OUT_OF_MEM: return TLS_REASON_NO_MEMORY;
  default: return TLS_REASON_BAD_CERTIFICATE;
  }
}

static struct verdict verdict_of(enum tls_reason reason) {
  return (struct verdict){reason, (u8)SSL_alert_from_verify_result(error_of(reason))};
}

// The library's part for a chain that is new: path, signatures, names, constraints, purposes; then
// ours along the path that it found.
static struct verdict judge_path(const struct tls_context *c, STACK_OF(X509) * presented,
                                 const struct tls_time *now, struct chain_facts *facts) {
  X509_STORE_CTX *store = X509_STORE_CTX_new();
  struct verdict v = verdict_of(TLS_REASON_NO_MEMORY);
  if (store != NULL &&
      X509_STORE_CTX_init(store, c->store, sk_X509_value(presented, 0), presented) == 1 &&
      X509_STORE_CTX_set_default(store, c->client ? "ssl_server" : "ssl_client") == 1) {
    if (X509_verify_cert(store) == 1) {
      STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);
      enum tls_reason reason = judge_algorithms(c, chain);
      v = verdict_of(reason == TLS_REASON_NONE ? judge_chain(c, chain, now, facts) : reason);
    } else {
      int error = X509_STORE_CTX_get_error(store);
      error = error == X509_V_OK ? X509_V_ERR_OUT_OF_MEM : error;
      v = (struct verdict){reason_of(error), (u8)SSL_alert_from_verify_result(error)};
    }
  }
  X509_STORE_CTX_free(store);
  return v;
}

// One by one, because the library's own way calls X509_free through a pointer from a function that
// is compiled with this file, and its control-flow check knows no function of the library (kernel).
static void free_all(STACK_OF(X509) * certs) {
  for (usize i = 0; i < sk_X509_num(certs); i++) {
    X509_free(sk_X509_value(certs, i));
  }
  sk_X509_free(certs);
}

// The certificates in the library's own form; NULL when one cannot be read or memory is short.
static STACK_OF(X509) * parse(const STACK_OF(CRYPTO_BUFFER) * certs) {
  STACK_OF(X509) *out = sk_X509_new_null();
  for (usize i = 0; out != NULL && i < sk_CRYPTO_BUFFER_num(certs); i++) {
    X509 *cert = X509_parse_from_buffer(sk_CRYPTO_BUFFER_value(certs, i));
    if (cert == NULL || !sk_X509_push(out, cert)) {
      X509_free(cert);
      free_all(out);
      return NULL;
    }
  }
  return out;
}

// Whether a server's certificate names the host that we asked for (RFC 9525): by its alternative
// names; the library looks at the common name only when there are none.
static bool judge_name(const struct tls_handshake *hs, X509 *leaf) {
  struct bytes host = handshake_host(hs);
  if (host.len == 0) {
    return true;
  }
  struct ip_addr address;
  if (ip_parse(host, &address)) {
    u8 wire[16];
    bool v4 = ip_is4(address);
    ip_store6(wire, address);
    return X509_check_ip(leaf, v4 ? wire + 12 : wire, v4 ? 4 : 16, 0) == 1;
  }
  return X509_check_host(leaf, (const char *)host.ptr, host.len, 0, NULL) == 1;
}

// A chain nobody remembers. `resumed`: its path was found good when its ticket was made.
static struct verdict judge_new(struct tls_handshake *hs, const STACK_OF(CRYPTO_BUFFER) * certs,
                                bool resumed, struct chain_facts *facts) {
  const struct tls_context *c = handshake_context(hs);
  STACK_OF(X509) *presented = parse(certs);
  if (presented == NULL) {
    return verdict_of(TLS_REASON_BAD_CERTIFICATE);
  }
  struct verdict v = resumed ? verdict_of(judge_chain(c, presented, handshake_time(hs), facts))
                             : judge_path(c, presented, handshake_time(hs), facts);
  if (v.reason == TLS_REASON_NONE && !judge_name(hs, sk_X509_value(presented, 0))) {
    v = (struct verdict){TLS_REASON_WRONG_NAME, TLS_ALERT_BAD_CERTIFICATE};
  }
  if (v.reason == TLS_REASON_NONE) {
    identity_names(handshake_identity(hs), sk_X509_value(presented, 0));
  }
  free_all(presented);
  return v;
}

static struct verdict judge(struct tls_handshake *hs, const STACK_OF(CRYPTO_BUFFER) * certs,
                            bool resumed) {
  struct chain_cache *cache = handshake_context(hs)->chains;
  struct chain_facts facts;
  struct verdict v;
  u8 key[CHAIN_KEY];
  u32 refused = memory_refused();
  chain_key(key, certs);
  if (chain_cache_find(cache, key, &facts, handshake_identity(hs))) {
    v = verdict_of(judge_facts(handshake_context(hs), &facts, handshake_time(hs)));
  } else {
    v = judge_new(hs, certs, resumed, &facts);
    if (memory_refused() != refused) {  // whatever was concluded or left out is its consequence
      v = verdict_of(TLS_REASON_NO_MEMORY);
    }
    if (v.reason == TLS_REASON_NONE && !resumed) {
      chain_cache_add(cache, key, &facts, handshake_identity(hs));
    }
  }
  ERR_clear_error();
  if (v.reason != TLS_REASON_NONE) {
    handshake_note_reason(hs, v.reason);
    return v;
  }
  struct tls_certificate_id *id = handshake_client_id(hs);
  *id = (struct tls_certificate_id){.present = 1, .not_after_s = facts.cert[0].not_after_s};
  memcpy(id->issuer, facts.cert[0].issuer, sizeof id->issuer);
  memcpy(id->serial, facts.cert[0].serial, sizeof id->serial);
  memcpy(id->anchor, facts.anchor, sizeof id->anchor);
  return v;
}

enum ssl_verify_result_t verify_peer(SSL *ssl, u8 *alert) {
  const STACK_OF(CRYPTO_BUFFER) *certs = SSL_get0_peer_certificates(ssl);
  ASSERT(certs != NULL);
  ASSERT(sk_CRYPTO_BUFFER_num(certs) > 0);
  struct verdict v = judge(SSL_get_app_data(ssl), certs, false);
  *alert = v.alert;
  return v.reason == TLS_REASON_NONE ? ssl_verify_ok : ssl_verify_invalid;
}

enum tls_reason verify_resumed(SSL *ssl, u8 *alert) {
  struct tls_handshake *hs = SSL_get_app_data(ssl);
  const STACK_OF(CRYPTO_BUFFER) *certs = SSL_get0_peer_certificates(ssl);
  if (certs == NULL || sk_CRYPTO_BUFFER_num(certs) == 0) {
    if (!handshake_context(hs)->require_certificate) {
      return TLS_REASON_NONE;
    }
    handshake_note_reason(hs, TLS_REASON_NO_CERTIFICATE);
    *alert = TLS_ALERT_CERTIFICATE_REQUIRED;
    return TLS_REASON_NO_CERTIFICATE;
  }
  struct verdict v = judge(hs, certs, true);
  *alert = v.alert;
  return v.reason;
}
