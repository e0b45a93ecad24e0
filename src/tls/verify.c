// SPDX-License-Identifier: Apache-2.0
// Judging a client's certificate chain (RFC 5280 6.1; RFC 8446 4.4.2.4, 6.2).
//
// The library builds the chain and checks signatures, names, constraints and purposes. Dates and
// revocation are ours, because time has a lower bound and an estimate here (DESIGN 3: notAfter by
// the former, notBefore by the latter when it is good) and because a resumed session brings the
// chain in its ticket without any check by the library.
//
// I1  The leaf and every intermediate are judged; a configured CA itself was judged when it was
// loaded. I2  With CRLs configured, a leaf whose issuer has none is refused, and so is one whose
// issuer's CRL
//     is past its nextUpdate: as mosquitto does.
#include "tls/verify.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include "tls/handshake.h"

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

static enum tls_reason judge_dates(const X509 *cert, const struct tls_time *now) {
  if (cert_time(X509_get0_notAfter(cert)) < now->lower_unix_s) {
    return TLS_REASON_EXPIRED;
  }
  if (now->trusted && cert_time(X509_get0_notBefore(cert)) > now->unix_s) {
    return TLS_REASON_NOT_YET_VALID;
  }
  return TLS_REASON_NONE;
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

static bool is_anchor(const struct tls_context *c, X509 *cert) {
  for (u32 i = 0; i < c->anchor_count; i++) {
    if (X509_cmp(c->anchors[i].cert, cert) == 0) {
      return true;
    }
  }
  return false;
}

enum tls_reason verify_again(const struct tls_context *c, STACK_OF(X509) * chain,
                             const struct tls_time *now, struct tls_certificate_id *id) {
  *id = (struct tls_certificate_id){.present = 1};
  usize count = sk_X509_num(chain);
  ASSERT(count > 0);
  bool anchored = false;
  for (usize i = 0; i < count; i++) {
    X509 *cert = sk_X509_value(chain, i);
    if (i > 0 && is_anchor(c, cert)) {
      break;
    }
    u8 issuer[CERT_NAME_HASH];
    u8 serial[CERT_SERIAL];
    const struct anchor *anchor = issuer_of(c, chain, i, issuer);
    if (!cert_serial(serial, X509_get0_serialNumber(cert))) {
      return TLS_REASON_BAD_CERTIFICATE;
    }
    enum tls_reason reason = judge_dates(cert, now);
    if (reason == TLS_REASON_NONE && context_is_revoked(c, issuer, serial)) {
      reason = TLS_REASON_REVOKED;
    }
    if (reason == TLS_REASON_NONE && i == 0) {
      reason = judge_crl(c, issuer, now);
    }
    if (reason != TLS_REASON_NONE) {
      return reason;
    }
    if (i == 0) {
      memcpy(id->issuer, issuer, sizeof id->issuer);
      memcpy(id->serial, serial, sizeof id->serial);
      id->not_after_s = cert_time(X509_get0_notAfter(cert));
    }
    if (anchor != NULL && !anchored) {
      memcpy(id->anchor, anchor->fingerprint, sizeof id->anchor);
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

int verify_chain(X509_STORE_CTX *store, void *arg) {
  (void)arg;
  SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct tls_handshake *hs = SSL_get_app_data(ssl);
  const struct tls_context *c = handshake_context(hs);
  if (X509_verify_cert(store) != 1) {
    int error = X509_STORE_CTX_get_error(store);
    ASSERT(error != X509_V_OK || ERR_peek_error() != 0);
    handshake_note_reason(hs, reason_of(error));
    if (error == X509_V_OK) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
    }
    return 0;
  }
  STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);
  enum tls_reason reason = judge_algorithms(c, chain);
  if (reason == TLS_REASON_NONE) {
    reason = verify_again(c, chain, handshake_time(hs), handshake_client_id(hs));
  }
  if (reason != TLS_REASON_NONE) {
    handshake_note_reason(hs, reason);
    X509_STORE_CTX_set_error(store, error_of(reason));
    return 0;
  }
  return 1;
}

u8 verify_alert(enum tls_reason reason) {
  return (u8)SSL_alert_from_verify_result(error_of(reason));
}
