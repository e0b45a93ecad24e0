// SPDX-License-Identifier: Apache-2.0
// Makes keys and certificates (RFC 5280): for measurements, and for machines that were given none.
#pragma once
#include "tls/tls.h"

#define TLS_MADE_PEM_MAX 1400u  // bytes of a certificate or key made here, as PEM

struct tls_made {  // PEM texts; the key is PKCS#8
  u8 certificate[TLS_MADE_PEM_MAX], key[TLS_MADE_PEM_MAX];
  u32 certificate_len, key_len;
};
struct tls_make {
  struct bytes common_name;       // at most 64 bytes, UTF-8
  const struct tls_made *issuer;  // NULL: signed by itself
  bool ca;
  const u8 *address;  // four bytes: an IPv4 address it is valid for, beside its name; NULL = none
  u64 not_before_s, not_after_s;
};
// A P-256 key and its certificate. After tls_init. False: no memory. The caller wipes the key.
bool tls_make(const struct tls_make *m, struct tls_made *out);
