// SPDX-License-Identifier: Apache-2.0
// Certificate revocation lists (RFC 5280 5): read once into a sorted table of (issuer, serial).
//
// The library's own check verifies the CRL's signature again in every handshake (measured: 50 us of
// 250); here it is verified once, and a handshake costs a binary search.
//
// I1  Only a CRL signed by one of the configured CAs is used, and only whole ones: a critical
//     extension (indirect or partial CRLs, delta CRLs) is refused.
// I2  The table is sorted and never changes after load_crl.
#include <openssl/err.h>
#include <openssl/mem.h>

#include "tls/context.h"

// Room is made by doubling; amounts are known only while the blocks are read.
static bool reserve(struct loader *l, u32 more) {
  struct tls_context *c = l->context;
  usize len = (usize)(c->revoked_count + more) * sizeof(struct revoked);
  if (len == 0) {
    return true;
  }
  struct revoked *grown = OPENSSL_realloc(c->revoked, len);
  if (grown == NULL) {
    return loader_fail(l, 0, "no memory left for this CRL");
  }
  c->revoked = grown;
  return true;
}

static bool take_entries(struct loader *l, const struct pem_block *block, X509_CRL *crl,
                         const u8 issuer[CERT_NAME_HASH]) {
  struct tls_context *c = l->context;
  STACK_OF(X509_REVOKED) *list = X509_CRL_get_REVOKED(crl);
  usize count = list != NULL ? sk_X509_REVOKED_num(list) : 0;
  if (count > 1u << 20 || !reserve(l, (u32)count)) {
    return loader_fail(l, block->line, "more than %u revoked certificates", 1u << 20);
  }
  for (usize i = 0; i < count; i++) {
    struct revoked *r = &c->revoked[c->revoked_count];
    const X509_REVOKED *entry = sk_X509_REVOKED_value(list, i);
    memcpy(r->issuer, issuer, CERT_NAME_HASH);
    if (!cert_serial(r->serial, X509_REVOKED_get0_serialNumber(entry))) {
      return loader_fail(l, block->line, "a serial number is longer than 20 octets");
    }
    c->revoked_count++;
  }
  return true;
}

// The CA that signed this CRL. Several may have its name (a CA that changed its key).
static const struct anchor *signer(const struct tls_context *c, X509_CRL *crl, bool *named) {
  *named = false;
  for (u32 i = 0; i < c->anchor_count; i++) {
    X509 *ca = c->anchors[i].cert;
    if (X509_NAME_cmp(X509_get_subject_name(ca), X509_CRL_get_issuer(crl)) != 0) {
      continue;
    }
    *named = true;
    EVP_PKEY *key = X509_get_pubkey(ca);
    bool verified = key != NULL && X509_CRL_verify(crl, key) == 1;
    EVP_PKEY_free(key);
    if (verified) {
      return &c->anchors[i];
    }
  }
  return NULL;
}

static bool add_crl(struct loader *l, const struct pem_block *block, X509_CRL *crl) {
  struct tls_context *c = l->context;
  bool named = false;
  const struct anchor *ca = signer(c, crl, &named);
  if (ca == NULL) {
    return loader_fail(l, block->line,
                       named ? "its signature is not by the CA it names"
                             : "its issuer is none of the configured CAs");
  }
  if (X509_CRL_get_ext_by_critical(crl, 1, -1) >= 0) {
    return loader_fail(l, block->line, "partial, indirect and delta CRLs are not supported");
  }
  if (c->crl_count == CONTEXT_CRL_MAX) {
    return loader_fail(l, block->line, "more than %u CRLs", CONTEXT_CRL_MAX);
  }
  struct crl_source *s = &c->crls[c->crl_count++];
  memcpy(s->issuer, ca->subject, CERT_NAME_HASH);
  const ASN1_TIME *next = X509_CRL_get0_nextUpdate(crl);
  s->next_update_s = next != NULL ? cert_time(next) : U64_MAX;
  c->info.crl_next_update_s = MIN(c->info.crl_next_update_s, s->next_update_s);
  return take_entries(l, block, crl, s->issuer);
}

static bool use_crl(struct loader *l, const struct pem_block *block, struct bytes der) {
  if (block->kind != PEM_CRL) {
    return true;
  }
  const u8 *p = der.ptr;
  X509_CRL *crl = d2i_X509_CRL(NULL, &p, (long)der.len);
  l->count++;
  bool ok = crl != NULL && p == der.ptr + der.len
                ? add_crl(l, block, crl)
                : loader_fail(l, block->line, "this is not a CRL that can be read");
  X509_CRL_free(crl);
  return ok;
}

static int compare(const void *a, const void *b) {
  return memcmp(a, b, sizeof(struct revoked));
}

// Heapsort: in place, no recursion.
static void sift_down(struct revoked *r, u32 root, u32 count) {
  for (u32 child = 2 * root + 1; child < count; child = 2 * root + 1) {
    if (child + 1 < count && compare(&r[child], &r[child + 1]) < 0) {
      child++;
    }
    if (compare(&r[root], &r[child]) >= 0) {
      return;
    }
    struct revoked t = r[root];
    r[root] = r[child];
    r[child] = t;
    root = child;
  }
}

static void sort(struct revoked *r, u32 count) {
  for (u32 i = count / 2; i > 0; i--) {
    sift_down(r, i - 1, count);
  }
  for (u32 end = count; end > 1; end--) {
    struct revoked t = r[0];
    r[0] = r[end - 1];
    r[end - 1] = t;
    sift_down(r, 0, end - 1);
  }
}

bool load_crl(struct loader *l, struct bytes text) {
  struct tls_context *c = l->context;
  l->input = TLS_INPUT_CRL;
  c->crls = OPENSSL_malloc(sizeof(struct crl_source) * CONTEXT_CRL_MAX);
  if (c->crls == NULL) {
    return loader_fail(l, 0, "no memory left for this CRL");
  }
  if (!loader_each(l, TLS_INPUT_CRL, text, use_crl)) {
    return false;
  }
  if (l->count == 0) {
    return loader_fail(l, 0, "no CRL in this file");
  }
  sort(c->revoked, c->revoked_count);
  c->info.revoked_count = c->revoked_count;
  return true;
}

bool context_is_revoked(const struct tls_context *c, const u8 issuer[CERT_NAME_HASH],
                        const u8 serial[CERT_SERIAL]) {
  struct revoked key;
  memcpy(key.issuer, issuer, CERT_NAME_HASH);
  memcpy(key.serial, serial, CERT_SERIAL);
  u32 low = 0;
  u32 high = c->revoked_count;
  while (low < high) {
    u32 middle = low + (high - low) / 2;
    int order = compare(&key, &c->revoked[middle]);
    if (order == 0) {
      return true;
    }
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return false;
}

const struct crl_source *context_crl(const struct tls_context *c, const u8 issuer[CERT_NAME_HASH]) {
  for (u32 i = 0; i < c->crl_count; i++) {
    if (memcmp(c->crls[i].issuer, issuer, CERT_NAME_HASH) == 0) {
      return &c->crls[i];
    }
  }
  return NULL;
}
