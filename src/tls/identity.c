// SPDX-License-Identifier: Apache-2.0
// Names out of a client's certificate: common name, whole subject (RFC 2253 text, as mosquitto
// prints it), first dNSName and rfc822Name of the subject's alternative names (RFC 5280 4.2.1.6).
//
// I1  A name with a NUL inside, or one that does not fit, is no name: never a part of one.
#include "tls/identity.h"

#include <openssl/bio.h>
#include <openssl/mem.h>
#include <openssl/nid.h>
#include <openssl/x509v3.h>

static struct part keep(struct tls_identity *out, struct writer *w, struct bytes text) {
  struct part p = {w->pos, (u32)text.len};
  if (text.len == 0 || text.len > writer_left(w) || bytes_find(text, 0) != text.len) {
    return (struct part){0, 0};
  }
  write_bytes(w, text);
  ASSERT(w->pos <= sizeof out->text);
  return p;
}

static void fill_common_name(struct tls_identity *out, struct writer *w, X509_NAME *subject) {
  int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) {
    return;
  }
  u8 *utf8 = NULL;
  int len =
      ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
  if (len >= 0) {
    out->cn = keep(out, w, bytes_of(utf8, (usize)len));
    OPENSSL_free(utf8);
  }
}

static void fill_subject(struct tls_identity *out, struct writer *w, X509_NAME *subject) {
  BIO *bio = BIO_new(BIO_s_mem());
  const u8 *text = NULL;
  usize len = 0;
  if (bio != NULL && X509_NAME_print_ex(bio, subject, 0, XN_FLAG_RFC2253) >= 0 &&
      BIO_mem_contents(bio, &text, &len) == 1) {
    out->subject = keep(out, w, bytes_of(text, len));
  }
  BIO_free(bio);
}

static void fill_alternative(struct tls_identity *out, struct writer *w, const X509 *cert) {
  GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  if (names == NULL) {
    return;
  }
  for (usize i = 0; i < sk_GENERAL_NAME_num(names); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    struct part *to = name->type == GEN_DNS     ? &out->san_dns
                      : name->type == GEN_EMAIL ? &out->san_email
                                                : NULL;
    if (to != NULL && to->len == 0) {
      const ASN1_STRING *s = name->d.ia5;
      *to = keep(out, w, bytes_of(ASN1_STRING_get0_data(s), (usize)ASN1_STRING_length(s)));
    }
  }
  GENERAL_NAMES_free(names);
}

void identity_names(struct tls_identity *out, X509 *leaf) {
  *out = (struct tls_identity){.has_certificate = true};
  struct writer w = writer_init(span_of(out->text, sizeof out->text));
  fill_common_name(out, &w, X509_get_subject_name(leaf));
  fill_subject(out, &w, X509_get_subject_name(leaf));
  fill_alternative(out, &w, leaf);
}

void identity_session(struct tls_identity *out, const SSL *ssl) {
  out->resumed = SSL_session_reused(ssl) == 1;
  out->cipher_suite = (u16)SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl));
  out->group = SSL_get_curve_id(ssl);
  const u8 *alpn = NULL;
  unsigned alpn_len = 0;
  SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
  out->alpn_mqtt = bytes_equal_str(bytes_of(alpn, alpn_len), "mqtt");
}
