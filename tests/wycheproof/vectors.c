// SPDX-License-Identifier: Apache-2.0
// Proves: the cipher, signature, key agreement and key derivation code that goes into the kernel
// gives Wycheproof's results for every vector. Sealing, opening, scattered and in-place calls are
// all made; a vector passes when all of them are right.
#include "vectors.h"

#include <openssl/aead.h>
#include <openssl/bn.h>
#include <openssl/curve25519.h>
#include <openssl/digest.h>
#include <openssl/ec.h>
#include <openssl/ec_key.h>
#include <openssl/ecdh.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/hkdf.h>
#include <openssl/nid.h>
#include <openssl/sha.h>

#define FIELDS 6u
#define WORK 8192u

struct vector {
  u8 set;
  u8 result;  // 0 invalid, 1 valid, 2 acceptable
  u32 test_case;
  struct bytes f[FIELDS];
};

static u8 work[2 * WORK];

const char *vectors_set_name(u32 set) {
  static const char *const names[VECTOR_SETS] = {"",        "AES-GCM",    "ChaCha20-Poly1305",
                                                 "X25519",  "ECDH P-256", "ECDSA P-256",
                                                 "Ed25519", "HKDF-SHA256"};
  ASSERT(set < VECTOR_SETS);
  return names[set];
}

// --- AEAD: f = key, iv, aad, msg, ct, tag

static const char *check_seal(EVP_AEAD_CTX *ctx, const struct vector *v) {
  struct bytes msg = v->f[3];
  usize len = 0;
  if (!EVP_AEAD_CTX_seal(ctx, work, &len, WORK, v->f[1].ptr, v->f[1].len, msg.ptr, msg.len,
                         v->f[2].ptr, v->f[2].len)) {
    return "seal refused";
  }
  if (len != msg.len + 16 || memcmp(work, v->f[4].ptr, msg.len) != 0 ||
      memcmp(work + msg.len, v->f[5].ptr, 16) != 0) {
    return "seal gives other bytes";
  }
  // In place and scattered, as the record layer does it.
  memcpy(work, msg.ptr, msg.len);
  if (!EVP_AEAD_CTX_seal_scatter(ctx, work, work + msg.len, &len, 16, v->f[1].ptr, v->f[1].len,
                                 work, msg.len, NULL, 0, v->f[2].ptr, v->f[2].len)) {
    return "seal in place refused";
  }
  bool same = len == 16 && memcmp(work, v->f[4].ptr, msg.len) == 0 &&
              memcmp(work + msg.len, v->f[5].ptr, 16) == 0;
  return same ? NULL : "seal in place gives other bytes";
}

static const char *check_open(EVP_AEAD_CTX *ctx, const struct vector *v, bool valid) {
  struct bytes ct = v->f[4];
  usize len = 0;
  memcpy(work + WORK, ct.ptr, ct.len);
  memcpy(work + WORK + ct.len, v->f[5].ptr, v->f[5].len);
  bool opened = EVP_AEAD_CTX_open(ctx, work, &len, WORK, v->f[1].ptr, v->f[1].len, work + WORK,
                                  ct.len + v->f[5].len, v->f[2].ptr, v->f[2].len) == 1;
  if (opened != valid) {
    return valid ? "open refused" : "open accepted a forgery";
  }
  if (opened && (len != v->f[3].len || memcmp(work, v->f[3].ptr, len) != 0)) {
    return "open gives other bytes";
  }
  memcpy(work, ct.ptr, ct.len);
  opened = EVP_AEAD_CTX_open_gather(ctx, work, v->f[1].ptr, v->f[1].len, work, ct.len, v->f[5].ptr,
                                    v->f[5].len, v->f[2].ptr, v->f[2].len) == 1;
  if (opened != valid) {
    return valid ? "open in place refused" : "open in place accepted a forgery";
  }
  return opened && memcmp(work, v->f[3].ptr, v->f[3].len) != 0 ? "open in place gives other bytes"
                                                               : NULL;
}

static const EVP_AEAD *aead_of(const struct vector *v) {
  if (v->set == 2) {
    return EVP_aead_chacha20_poly1305();
  }
  return v->f[0].len == 16   ? EVP_aead_aes_128_gcm()
         : v->f[0].len == 24 ? EVP_aead_aes_192_gcm()
                             : EVP_aead_aes_256_gcm();
}

static const char *check_aead(const struct vector *v) {
  EVP_AEAD_CTX ctx;
  if (v->f[3].len + 16 > WORK || v->f[4].len + v->f[5].len > WORK) {
    return "longer than this runner's buffer";
  }
  if (!EVP_AEAD_CTX_init(&ctx, aead_of(v), v->f[0].ptr, v->f[0].len, 16, NULL)) {
    return v->result == 1 ? "key refused" : NULL;
  }
  const char *what = v->result == 1 ? check_seal(&ctx, v) : NULL;
  what = what != NULL ? what : check_open(&ctx, v, v->result == 1);
  EVP_AEAD_CTX_cleanup(&ctx);
  return what;
}

// --- Key agreement: f = private, public, shared

static const char *check_x25519(const struct vector *v) {
  u8 shared[32];
  static const u8 zero[32];
  if (v->f[0].len != 32 || v->f[1].len != 32 || v->f[2].len != 32) {
    return "not 32 bytes";
  }
  bool ok = X25519(shared, v->f[0].ptr, v->f[1].ptr) == 1;
  // RFC 7748 6.1: an all-zero secret is refused; every other input has a result.
  if (!ok) {
    return memcmp(v->f[2].ptr, zero, 32) == 0 ? NULL : "refused";
  }
  if (memcmp(v->f[2].ptr, zero, 32) == 0) {
    return "accepted a zero secret";
  }
  return memcmp(shared, v->f[2].ptr, 32) == 0 ? NULL : "gives another secret";
}

static bool ecdh(const struct vector *v, u8 shared[32]) {
  EC_KEY *key = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
  const EC_GROUP *group = EC_KEY_get0_group(key);
  EC_POINT *point = EC_POINT_new(group);
  BIGNUM *number = BN_bin2bn(v->f[0].ptr, v->f[0].len, NULL);
  bool ok = EC_POINT_oct2point(group, point, v->f[1].ptr, v->f[1].len, NULL) == 1 &&
            EC_KEY_set_private_key(key, number) == 1 &&
            ECDH_compute_key(shared, 32, point, key, NULL) == 32;
  BN_free(number);
  EC_POINT_free(point);
  EC_KEY_free(key);
  return ok;
}

static const char *check_ecdh(const struct vector *v) {
  u8 shared[32];
  bool ok = ecdh(v, shared);
  if (!ok) {
    return v->result == 1 ? "refused" : NULL;
  }
  if (v->result == 0) {
    return "accepted an invalid point";
  }
  return v->f[2].len == 32 && memcmp(shared, v->f[2].ptr, 32) == 0 ? NULL : "gives another secret";
}

// --- Signatures: f = public key, message, signature

static const char *check_ecdsa(const struct vector *v) {
  u8 digest[SHA256_DIGEST_LENGTH];
  EC_KEY *key = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
  bool have_key = EC_KEY_oct2key(key, v->f[0].ptr, v->f[0].len, NULL) == 1;
  SHA256(v->f[1].ptr, v->f[1].len, digest);
  bool ok = have_key && ECDSA_verify(0, digest, sizeof digest, v->f[2].ptr, v->f[2].len, key) == 1;
  EC_KEY_free(key);
  return ok == (v->result == 1) ? NULL : ok ? "accepted a forgery" : "refused";
}

static const char *check_ed25519(const struct vector *v) {
  bool ok = v->f[0].len == 32 && v->f[2].len == 64 &&
            ED25519_verify(v->f[1].ptr, v->f[1].len, v->f[2].ptr, v->f[0].ptr) == 1;
  return ok == (v->result == 1) ? NULL : ok ? "accepted a forgery" : "refused";
}

// --- HKDF: f = ikm, salt, info, size, okm

static const char *check_hkdf(const struct vector *v) {
  u32 size = load_be32(v->f[3].ptr);
  if (size > 2 * WORK) {
    return v->result == 1 ? "longer than this runner's buffer" : NULL;
  }
  bool ok = HKDF(work, size, EVP_sha256(), v->f[0].ptr, v->f[0].len, v->f[1].ptr, v->f[1].len,
                 v->f[2].ptr, v->f[2].len) == 1;
  if (ok != (v->result == 1)) {
    return ok ? "accepted an impossible size" : "refused";
  }
  return !ok || memcmp(work, v->f[4].ptr, size) == 0 ? NULL : "gives other bytes";
}

static const char *check(const struct vector *v) {
  switch (v->set) {
  case 1:
  case 2: return check_aead(v);
  case 3: return check_x25519(v);
  case 4: return check_ecdh(v);
  case 5: return check_ecdsa(v);
  case 6: return check_ed25519(v);
  case 7: return check_hkdf(v);
  default: return "unknown set";
  }
}

static bool read_vector(struct reader *r, struct vector *v) {
  *v = (struct vector){.set = read_u8(r)};
  if (v->set == 0) {
    return false;
  }
  v->result = read_u8(r);
  v->test_case = read_be32(r);
  u32 count = read_u8(r);
  if (count > FIELDS || v->set >= VECTOR_SETS || v->result > 2) {
    reader_fail(r, ERR_MALFORMED);
  }
  for (u32 i = 0; i < count && r->err == ERR_OK; i++) {
    struct part p = read_part(r, read_be32(r));
    v->f[i] = r->err == ERR_OK ? reader_bytes(r, p) : bytes_of(NULL, 0);
  }
  return r->err == ERR_OK;
}

void vectors_run(struct bytes file, struct vector_result *result,
                 void (*report)(const char *set, u32 test_case, const char *what)) {
  *result = (struct vector_result){.malformed = false};
  struct reader r = reader_init(file);
  struct part magic = read_part(&r, 8);
  if (r.err != ERR_OK || !bytes_equal(reader_bytes(&r, magic), bytes_of("WYCHE1\n", 8))) {
    result->malformed = true;
    return;
  }
  struct vector v;
  while (read_vector(&r, &v)) {
    const char *what = check(&v);
    ERR_clear_error();
    if (what == NULL) {
      result->passed[v.set]++;
    } else {
      result->failed[v.set]++;
      report(vectors_set_name(v.set), v.test_case, what);
    }
  }
  result->malformed = r.err != ERR_OK;
}
