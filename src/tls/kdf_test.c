// SPDX-License-Identifier: Apache-2.0
// Proves: PBKDF2-HMAC-SHA512 in steps gives what the library gives at once, for passwords shorter
// and longer than a block and every way to cut the iterations; SHA-512 of password and salt is
// that of the concatenation; what an iteration costs is printed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "tls/kdf.h"
#include "tls/tls.h"

#include <cmocka.h>

static void pbkdf2(void **state) {
  static const u32 lengths[] = {0, 1, 8, 127, 128, 129, 500};
  static const u32 counts[] = {1, 2, 7, 101, 1000};
  u8 password[500], salt[64], want[64];
  (void)state;
  for (u32 i = 0; i < sizeof password; i++) {
    password[i] = (u8)(i * 7 + 1);
  }
  memset(salt, 5, sizeof salt);
  for (u32 l = 0; l < ARRAY_COUNT(lengths); l++) {
    for (u32 c = 0; c < ARRAY_COUNT(counts); c++) {
      u32 salt_len = l % 2 == 0 ? 12 : 64;
      assert_int_equal(PKCS5_PBKDF2_HMAC((const char *)password, lengths[l], salt, salt_len,
                                         counts[c], EVP_sha512(), 64, want),
                       1);
      for (u32 step = 1; step <= 1000; step = step * 3 + 1) {
        struct kdf k;
        u32 turns = 0;
        kdf_pbkdf2_begin(&k, bytes_of(password, lengths[l]), bytes_of(salt, salt_len), counts[c]);
        while (!kdf_step(&k, step)) {
          turns++;
        }
        assert_true(turns <= counts[c] / step);
        assert_memory_equal(k.sum, want, 64);
        assert_true(kdf_equal(k.sum, want, 64));
        k.sum[63] ^= 1;
        assert_false(kdf_equal(k.sum, want, 64));
        kdf_fini(&k);
      }
    }
  }
}

// RFC 7914 11 has vectors for SHA-256 only; this one is OpenSSL's for SHA-512 (password "password",
// salt "salt", 1 and 4096 iterations), the first 16 bytes.
static void known(void **state) {
  static const u8 one[] = {0x86, 0x7f, 0x70, 0xcf, 0x1a, 0xde, 0x02, 0xcf,
                           0xf3, 0x75, 0x25, 0x99, 0xa3, 0xa5, 0x3d, 0xc4};
  static const u8 many[] = {0xd1, 0x97, 0xb1, 0xb3, 0x3d, 0xb0, 0x14, 0x3e,
                            0x01, 0x8b, 0x12, 0xf3, 0xd1, 0xd1, 0x47, 0x9e};
  struct kdf k;
  (void)state;
  kdf_pbkdf2_begin(&k, BYTES_LIT("password"), BYTES_LIT("salt"), 1);
  assert_true(kdf_step(&k, 0));
  assert_memory_equal(k.sum, one, 16);
  kdf_pbkdf2_begin(&k, BYTES_LIT("password"), BYTES_LIT("salt"), 4096);
  assert_true(kdf_step(&k, 5000));
  assert_memory_equal(k.sum, many, 16);
}

static void sha512(void **state) {
  u8 want[64];
  struct kdf k;
  (void)state;
  SHA512((const u8 *)"secretsalt", 10, want);
  kdf_sha512(&k, BYTES_LIT("secret"), BYTES_LIT("salt"));
  assert_true(kdf_step(&k, 1));
  assert_memory_equal(k.sum, want, 64);
}

static void cost(void **state) {
  struct kdf k;
  struct timespec a, b;
  (void)state;
  clock_gettime(CLOCK_MONOTONIC, &a);
  kdf_pbkdf2_begin(&k, BYTES_LIT("password"), BYTES_LIT("saltsaltsalt"), 20001);
  assert_true(kdf_step(&k, 20000));
  clock_gettime(CLOCK_MONOTONIC, &b);
  print_message(
      "kdf: %.2f us an iteration (sanitized)\n",
      ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / 2e4);
}

static void fill(struct span out) {
  memset(out.ptr, 9, out.len);
}

int main(void) {
  static u8 heap[TLS_HEAP_BYTES] ALIGNED(16);
  tls_init(span_of(heap, sizeof heap), fill);
  const struct CMUnitTest tests[] = {cmocka_unit_test(pbkdf2), cmocka_unit_test(known),
                                     cmocka_unit_test(sha512), cmocka_unit_test(cost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
