// SPDX-License-Identifier: Apache-2.0
#include "tls/make.h"

#include <openssl/bio.h>
#include <openssl/ec_key.h>
#include <openssl/evp.h>
#include <openssl/mem.h>
#include <openssl/nid.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

static bool text_of(BIO *bio, u8 out[TLS_MADE_PEM_MAX], u32 *len) {
  const u8 *text = NULL;
  usize n = 0;
  if (BIO_mem_contents(bio, &text, &n) != 1 || n > TLS_MADE_PEM_MAX) {
    return false;
  }
  memcpy(out, text, n);
  *len = (u32)n;
  return true;
}

static EVP_PKEY *new_key(void) {
  EC_KEY *ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
  EVP_PKEY *key = EVP_PKEY_new();
  if (ec == NULL || key == NULL || EC_KEY_generate_key(ec) != 1 ||
      EVP_PKEY_assign_EC_KEY(key, ec) != 1) {
    EC_KEY_free(ec);
    EVP_PKEY_free(key);
    return NULL;
  }
  return key;
}

static bool add_extension(X509 *cert, int nid, bool critical, void *value) {
  return value != NULL && X509_add1_ext_i2d(cert, nid, value, critical, 0) == 1;
}

static bool add_constraints(X509 *cert, bool ca) {
  BASIC_CONSTRAINTS *c = BASIC_CONSTRAINTS_new();
  if (c != NULL) {
    c->ca = ca ? 1 : 0;
  }
  bool done = add_extension(cert, NID_basic_constraints, true, c);
  BASIC_CONSTRAINTS_free(c);
  return done;
}

static bool push_name(GENERAL_NAMES *names, int type, ASN1_STRING *s) {
  GENERAL_NAME *n = GENERAL_NAME_new();
  if (n == NULL || s == NULL) {
    GENERAL_NAME_free(n);
    ASN1_STRING_free(s);
    return false;
  }
  GENERAL_NAME_set0_value(n, type, s);
  if (!sk_GENERAL_NAME_push(names, n)) {
    GENERAL_NAME_free(n);
    return false;
  }
  return true;
}

static ASN1_STRING *string_of(int type, struct bytes text) {
  ASN1_STRING *s = ASN1_STRING_type_new(type);
  if (s != NULL && ASN1_STRING_set(s, text.ptr, (ossl_ssize_t)text.len) != 1) {
    ASN1_STRING_free(s);
    return NULL;
  }
  return s;
}

static bool add_names(X509 *cert, const struct tls_make *m) {
  GENERAL_NAMES *names = GENERAL_NAMES_new();
  bool done =
      names != NULL && push_name(names, GEN_DNS, string_of(V_ASN1_IA5STRING, m->common_name)) &&
      (m->address == NULL ||
       push_name(names, GEN_IPADD, string_of(V_ASN1_OCTET_STRING, bytes_of(m->address, 4)))) &&
      add_extension(cert, NID_subject_alt_name, false, names);
  GENERAL_NAMES_free(names);
  return done;
}

static bool fill(X509 *cert, const struct tls_make *m, EVP_PKEY *key, X509 *issuer) {
  u8 serial[16];
  X509_NAME *name = X509_NAME_new();
  RAND_bytes(serial, sizeof serial);
  serial[0] = (serial[0] & 0x7f) | 0x40;  // positive, and of one length
  BIGNUM *number = BN_bin2bn(serial, sizeof serial, NULL);
  bool done =
      name != NULL && number != NULL &&
      X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, m->common_name.ptr,
                                 (ossl_ssize_t)m->common_name.len, -1, 0) == 1 &&
      X509_set_version(cert, X509_VERSION_3) == 1 && X509_set_subject_name(cert, name) == 1 &&
      X509_set_issuer_name(cert, issuer != NULL ? X509_get_subject_name(issuer) : name) == 1 &&
      BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL &&
      ASN1_TIME_set_posix(X509_getm_notBefore(cert), (i64)m->not_before_s) != NULL &&
      ASN1_TIME_set_posix(X509_getm_notAfter(cert), (i64)m->not_after_s) != NULL &&
      X509_set_pubkey(cert, key) == 1 && add_constraints(cert, m->ca) &&
      (m->ca || add_names(cert, m));
  BN_free(number);
  X509_NAME_free(name);
  return done;
}

static bool write_out(X509 *cert, EVP_PKEY *key, struct tls_made *out) {
  BIO *c = BIO_new(BIO_s_mem());
  BIO *k = BIO_new(BIO_s_mem());
  bool done = c != NULL && k != NULL && PEM_write_bio_X509(c, cert) == 1 &&
              PEM_write_bio_PKCS8PrivateKey(k, key, NULL, NULL, 0, NULL, NULL) == 1 &&
              text_of(c, out->certificate, &out->certificate_len) &&
              text_of(k, out->key, &out->key_len);
  BIO_free(c);
  BIO_free(k);
  return done;
}

static X509 *read_certificate(const struct tls_made *m) {
  BIO *bio = BIO_new_mem_buf(m->certificate, (ossl_ssize_t)m->certificate_len);
  X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
  BIO_free(bio);
  return cert;
}
static EVP_PKEY *read_key(const struct tls_made *m) {
  BIO *bio = BIO_new_mem_buf(m->key, (ossl_ssize_t)m->key_len);
  EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
  BIO_free(bio);
  return key;
}

bool tls_make(const struct tls_make *m, struct tls_made *out) {
  *out = (struct tls_made){.certificate_len = 0};
  X509 *issuer = m->issuer != NULL ? read_certificate(m->issuer) : NULL;
  EVP_PKEY *issuer_key = m->issuer != NULL ? read_key(m->issuer) : NULL;
  bool has_issuer = issuer != NULL && issuer_key != NULL;
  EVP_PKEY *key = new_key();
  X509 *cert = X509_new();
  bool done = (m->issuer == NULL || has_issuer) && key != NULL && cert != NULL &&
              fill(cert, m, key, issuer) &&
              X509_sign(cert, issuer_key != NULL ? issuer_key : key, EVP_sha256()) > 0 &&
              write_out(cert, key, out);
  X509_free(cert);
  X509_free(issuer);
  EVP_PKEY_free(key);
  EVP_PKEY_free(issuer_key);
  return done;
}
