// SPDX-License-Identifier: Apache-2.0
// Facts about one certificate; see cert.h. The rules of what we accept (DESIGN 6): keys P-256,
// Ed25519 and RSA 2048 to 4096, no signature over SHA-1 or MD5.
#include "tls/cert.h"

#include <openssl/ec.h>
#include <openssl/ec_key.h>
#include <openssl/evp.h>
#include <openssl/nid.h>
#include <openssl/sha.h>

#include "base/fmt.h"

void cert_name_hash(u8 out[CERT_NAME_HASH], const X509_NAME *name) {
  const u8 *der = NULL;
  usize len = 0;
  u8 hash[SHA256_DIGEST_LENGTH];
  int ok = X509_NAME_get0_der((X509_NAME *)(uptr)name, &der, &len);
  ASSERT(ok == 1);  // a parsed name has its encoding
  SHA256(der, len, hash);
  memcpy(out, hash, CERT_NAME_HASH);
}

bool cert_serial(u8 out[CERT_SERIAL], const ASN1_INTEGER *serial) {
  const u8 *data = ASN1_STRING_get0_data(serial);
  int len = ASN1_STRING_length(serial);
  memset(out, 0, CERT_SERIAL);
  if (len < 0 || len > (int)CERT_SERIAL) {
    return false;
  }
  memcpy(out + CERT_SERIAL - len, data, (usize)len);
  return true;
}

u64 cert_time(const ASN1_TIME *t) {
  int64_t unix_s = 0;
  if (t == NULL || !ASN1_TIME_to_posix(t, &unix_s) || unix_s < 0) {
    return 0;
  }
  return (u64)unix_s;
}

bool cert_key_type(char out[16], const EVP_PKEY *key) {
  int id = EVP_PKEY_id(key);
  if (id == EVP_PKEY_ED25519) {
    fmt_z(out, 16, "Ed25519");
    return true;
  }
  if (id == EVP_PKEY_RSA) {
    u32 bits = (u32)EVP_PKEY_bits(key);
    fmt_z(out, 16, "RSA-%u", bits);
    return bits >= 2048 && bits <= 4096;
  }
  if (id == EVP_PKEY_EC) {
    int curve = EC_GROUP_get_curve_name(EC_KEY_get0_group(EVP_PKEY_get0_EC_KEY(key)));
    fmt_z(out, 16, "%s",
          curve == NID_X9_62_prime256v1 ? "P-256"
          : curve == NID_secp384r1      ? "P-384"
          : curve == NID_secp521r1      ? "P-521"
                                        : "another curve");
    return curve == NID_X9_62_prime256v1;
  }
  fmt_z(out, 16, "type %d", id);
  return false;
}

bool cert_signature_ok(const X509 *cert) {
  switch (X509_get_signature_nid(cert)) {
  case NID_ecdsa_with_SHA256:
  case NID_ecdsa_with_SHA384:
  case NID_ecdsa_with_SHA512:
  case NID_sha256WithRSAEncryption:
  case NID_sha384WithRSAEncryption:
  case NID_sha512WithRSAEncryption:
  case NID_rsassaPss:
  case NID_ED25519: return true;
  default: return false;
  }
}

// Days since 1970 to a civil date (proleptic Gregorian): years begin in March, so that the leap day
// is the last of its year.
void cert_date_text(char out[16], u64 unix_s) {
  u64 z = unix_s / 86400 + 719468;  // days since 0000-03-01
  u64 era = z / 146097;
  u64 doe = z % 146097;
  u64 yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  u64 doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  u64 mp = (5 * doy + 2) / 153;
  u64 day = doy - (153 * mp + 2) / 5 + 1;
  u64 month = mp < 10 ? mp + 3 : mp - 9;
  u64 year = yoe + era * 400 + (month <= 2 ? 1 : 0);
  ASSERT(month >= 1 && month <= 12);
  fmt_z(out, 16, "%04u-%02u-%02u", (u32)year, (u32)month, (u32)day);
}
