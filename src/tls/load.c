// SPDX-License-Identifier: Apache-2.0
// Reads a configuration's PEM texts: server certificate and intermediates, key, CAs. (CRLs:
// revoke.c.)
//
// I1  Whatever is wrong is named by text, line and reason; nothing is silently skipped but PEM
// blocks
//     of another kind (as `EC PARAMETERS` before a key).
// I2  Keys and CAs are used once here, so that what the library computes at first use is made on
// the
//     heap and not in some handshake's arena (memory.h I1).
#include "tls/context.h"

#include <openssl/bytestring.h>
#include <openssl/ec_key.h>
#include <openssl/err.h>
#include <openssl/mem.h>
#include <openssl/pool.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "base/fmt.h"

bool loader_fail(struct loader *l, u32 line, const char *format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  struct writer w = writer_init(span_of(l->problem->reason, sizeof l->problem->reason - 1));
  if (l->problem->input == TLS_INPUT_NONE) {
    l->problem->input = l->input;
    l->problem->line = line;
    fmt_v(&w, format, args);
    l->problem->reason[w.pos] = 0;
  }
  __builtin_va_end(args);
  return false;
}

static bool use_block(struct loader *l, const struct pem_block *block,
                      bool (*use)(struct loader *, const struct pem_block *, struct bytes)) {
  if (block->kind == PEM_OTHER || block->kind == PEM_KEY_ENCRYPTED) {
    return use(l, block, bytes_of(NULL, 0));  // judged by its label
  }
  u32 cap = block->body.len / 4 * 3 + 4;
  u8 *der = OPENSSL_malloc(cap);
  if (der == NULL) {
    return loader_fail(l, block->line, "no memory left for TLS settings");
  }
  u32 len = 0;
  u32 line = 0;
  bool ok = pem_decode(l->text, block, span_of(der, cap), &len, &line) == ERR_OK;
  ok = ok ? use(l, block, bytes_of(der, len)) : loader_fail(l, line, "broken base64");
  OPENSSL_cleanse(der, cap);
  OPENSSL_free(der);
  return ok;
}

bool loader_each(struct loader *l, enum tls_input input, struct bytes text,
                 bool (*use)(struct loader *l, const struct pem_block *block, struct bytes der)) {
  struct pem_cursor cursor = {0, 0};
  struct pem_block block;
  const char *reason = "";
  l->input = input;
  l->text = text;
  l->count = 0;
  for (;;) {
    enum err e = pem_next(text, &cursor, &block, &reason);
    if (e == ERR_NOT_FOUND) {
      return true;
    }
    if (e != ERR_OK) {
      return loader_fail(l, block.line, "%s", reason);
    }
    if (!use_block(l, &block, use)) {
      ERR_clear_error();
      return false;
    }
  }
}

static X509 *parse_certificate(struct loader *l, const struct pem_block *block, struct bytes der) {
  const u8 *p = der.ptr;
  X509 *cert = d2i_X509(NULL, &p, (long)der.len);
  if (cert == NULL || p != der.ptr + der.len) {
    X509_free(cert);
    loader_fail(l, block->line, "this is not a certificate that can be read");
    return NULL;
  }
  char type[16] = "unreadable";
  EVP_PKEY *key = X509_get_pubkey(cert);
  bool ok = key != NULL && cert_key_type(type, key);
  EVP_PKEY_free(key);
  if (!ok) {
    loader_fail(l, block->line,
                "key of type %s is not supported (P-256, Ed25519, RSA 2048 to 4096 are)", type);
  } else if (X509_check_purpose(cert, -1, 0) != 1) {  // reads and caches the extensions
    ok = loader_fail(l, block->line, "its extensions cannot be read");
  }
  if (!ok) {
    X509_free(cert);
    return NULL;
  }
  return cert;
}

static bool check_dates(struct loader *l, u32 line, const char *what, const X509 *cert) {
  u64 not_after_s = cert_time(X509_get0_notAfter(cert));
  char date[16];
  cert_date_text(date, not_after_s);
  if (l->now != NULL && not_after_s < l->now->lower_unix_s) {
    return loader_fail(l, line, "%s expired on %s", what, date);
  }
  return true;
}

// --- Server certificate

static bool use_certificate(struct loader *l, const struct pem_block *block, struct bytes der) {
  if (block->kind != PEM_CERTIFICATE) {
    return true;
  }
  X509 *cert = parse_certificate(l, block, der);
  if (cert == NULL) {
    return false;
  }
  struct tls_context *c = l->context;
  bool ok = check_dates(l, block->line, "server certificate", cert);
  if (ok && l->count == 0) {
    c->info.certificate_not_after_s = cert_time(X509_get0_notAfter(cert));
    l->leaf = cert;
    X509_up_ref(cert);
  }
  X509_free(cert);
  if (ok && l->count == CONTEXT_CHAIN_MAX) {
    return loader_fail(l, block->line, "more than %u certificates", CONTEXT_CHAIN_MAX);
  }
  l->count++;
  CRYPTO_BUFFER *sent = ok ? CRYPTO_BUFFER_new(der.ptr, der.len, NULL) : NULL;
  if (sent == NULL) {
    return loader_fail(l, block->line, "no memory left for TLS settings");
  }
  l->sent[l->sent_count++] = sent;
  return true;
}

bool load_certificate(struct loader *l, struct bytes text) {
  if (!loader_each(l, TLS_INPUT_CERTIFICATE, text, use_certificate)) {
    return false;
  }
  return l->count != 0 || loader_fail(l, 0, "no certificate in this file");
}

// --- Key

static EVP_PKEY *wrap_ec(EC_KEY *ec) {
  EVP_PKEY *key = ec != NULL ? EVP_PKEY_new() : NULL;
  if (key == NULL || !EVP_PKEY_assign_EC_KEY(key, ec)) {
    EC_KEY_free(ec);
    EVP_PKEY_free(key);
    return NULL;
  }
  return key;
}

static EVP_PKEY *wrap_rsa(RSA *rsa) {
  EVP_PKEY *key = rsa != NULL ? EVP_PKEY_new() : NULL;
  if (key == NULL || !EVP_PKEY_assign_RSA(key, rsa)) {
    RSA_free(rsa);
    EVP_PKEY_free(key);
    return NULL;
  }
  return key;
}

static EVP_PKEY *parse_key(enum pem_kind kind, struct bytes der) {
  CBS cbs;
  CBS_init(&cbs, der.ptr, der.len);
  EVP_PKEY *key = NULL;
  switch (kind) {
  case PEM_KEY_PKCS8: key = EVP_parse_private_key(&cbs); break;
  case PEM_KEY_SEC1: key = wrap_ec(EC_KEY_parse_private_key(&cbs, NULL)); break;
  case PEM_KEY_PKCS1: key = wrap_rsa(RSA_parse_private_key(&cbs)); break;
  default: break;
  }
  if (key != NULL && CBS_len(&cbs) != 0) {
    EVP_PKEY_free(key);
    return NULL;
  }
  return key;
}

static bool use_key(struct loader *l, const struct pem_block *block, struct bytes der) {
  struct tls_context *c = l->context;
  if (block->kind == PEM_KEY_ENCRYPTED) {
    struct bytes label = bytes_part(l->text, block->label);
    return loader_fail(
        l, block->line,
        "encrypted private key (%.*s) is not supported: decrypt it with `openssl pkey`",
        (int)MIN(label.len, 40u), (const char *)label.ptr);
  }
  if (block->kind != PEM_KEY_PKCS8 && block->kind != PEM_KEY_PKCS1 && block->kind != PEM_KEY_SEC1) {
    return true;
  }
  if (l->count++ != 0) {
    return loader_fail(l, block->line, "a second private key in this file");
  }
  c->key = parse_key(block->kind, der);
  if (c->key == NULL) {
    return loader_fail(l, block->line, "this is not a private key that can be read");
  }
  if (!cert_key_type(c->info.key_type, c->key)) {
    return loader_fail(l, block->line,
                       "key of type %s is not supported (P-256, Ed25519, RSA 2048 to 4096 are)",
                       c->info.key_type);
  }
  ASSERT(l->leaf != NULL);
  if (X509_check_private_key(l->leaf, c->key) != 1) {
    return loader_fail(l, block->line, "key does not match the certificate");
  }
  return true;
}

bool load_key(struct loader *l, struct bytes text) {
  if (!loader_each(l, TLS_INPUT_KEY, text, use_key)) {
    return false;
  }
  return l->count != 0 || loader_fail(l, 0, "no private key in this file");
}

// --- CAs

// False when memory is short.
static bool fingerprint(u8 out[8], X509 *cert) {
  u8 hash[SHA256_DIGEST_LENGTH] = {0};
  unsigned len = 0;
  bool ok = X509_digest(cert, EVP_sha256(), hash, &len) == 1;
  memcpy(out, hash, 8);
  return ok;
}

static bool use_ca(struct loader *l, const struct pem_block *block, struct bytes der) {
  struct tls_context *c = l->context;
  if (block->kind != PEM_CERTIFICATE) {
    return !bytes_equal_str(bytes_part(l->text, block->label), "TRUSTED CERTIFICATE") ||
           loader_fail(l, block->line,
                       "TRUSTED CERTIFICATE is OpenSSL's own format: use `openssl x509`");
  }
  if (c->anchor_count == CONTEXT_ANCHOR_MAX) {
    return loader_fail(l, block->line, "more than %u CAs", CONTEXT_ANCHOR_MAX);
  }
  X509 *cert = parse_certificate(l, block, der);
  if (cert == NULL) {
    return false;
  }
  l->count++;
  // Owned by the anchor from here on; freed with the context, also on failure.
  struct anchor *a = &c->anchors[c->anchor_count++];
  a->cert = cert;
  cert_name_hash(a->subject, X509_get_subject_name(cert));
  if (!fingerprint(a->fingerprint, cert)) {
    return loader_fail(l, block->line, "no memory left for TLS settings");
  }
  c->info.ca_not_after_s = MIN(c->info.ca_not_after_s, cert_time(X509_get0_notAfter(cert)));
  if (X509_check_ca(cert) == 0) {
    return loader_fail(l, block->line, "this certificate is not a CA (basicConstraints)");
  }
  // Computes what the library keeps with the key at first use (I2); also a check of a self-signed
  // CA.
  bool self_signed = X509_NAME_cmp(X509_get_subject_name(cert), X509_get_issuer_name(cert)) == 0;
  EVP_PKEY *key = X509_get_pubkey(cert);
  bool verified = X509_verify(cert, key) == 1;
  EVP_PKEY_free(key);
  if (!verified && ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE) {
    return loader_fail(l, block->line, "no memory left for TLS settings");
  }
  if (!verified && self_signed) {
    return loader_fail(l, block->line, "self-signed CA whose signature is wrong");
  }
  ERR_clear_error();
  if (!check_dates(l, block->line, "CA", cert)) {
    return false;
  }
  return X509_STORE_add_cert(c->store, cert) == 1 ||
         loader_fail(l, block->line, "no memory left for TLS settings");
}

bool load_ca(struct loader *l, struct bytes text, const struct bytes *more, u32 more_count) {
  struct tls_context *c = l->context;
  l->input = TLS_INPUT_CA;
  usize len = sizeof(struct anchor) * CONTEXT_ANCHOR_MAX;
  c->anchors = OPENSSL_malloc(len);
  if (c->anchors == NULL) {
    return loader_fail(l, 0, "no memory left for TLS settings");
  }
  if (!loader_each(l, TLS_INPUT_CA, text, use_ca)) {
    return false;
  }
  for (u32 i = 0; i < more_count; i++) {
    if (!loader_each(l, TLS_INPUT_CA, more[i], use_ca)) {
      return false;
    }
  }
  c->info.ca_count = c->anchor_count;
  if (c->client) {
    return c->anchor_count != 0 || loader_fail(l, 0, "no CA to judge the server by");
  }
  return c->anchor_count != 0 || !c->require_certificate ||
         loader_fail(l, 0, "no CA in this file, and client certificates are required");
}
