// SPDX-License-Identifier: Apache-2.0
// Proves: chacha_block gives the key stream of RFC 8439 2.3.2, and a change of any input changes
// it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plat/metal/chacha.c"

static void vector(void **state) {
  (void)state;
  u8 key[32];
  for (u32 i = 0; i < 32; i++) {
    key[i] = (u8)i;
  }
  static const u8 nonce[12] = {0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0};
  static const u8 want[64] = {0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd,
                              0x1f, 0xa3, 0x20, 0x71, 0xc4, 0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0,
                              0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e, 0xd2,
                              0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05,
                              0xd9, 0x8b, 0x02, 0xa2, 0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16, 0x4e,
                              0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e};
  u8 got[64];
  chacha_block(got, key, 1, nonce);
  assert_memory_equal(got, want, 64);
  key[31] ^= 0x80;
  chacha_block(got, key, 1, nonce);
  assert_memory_not_equal(got, want, 64);
  key[31] ^= 0x80;
  chacha_block(got, key, 2, nonce);
  assert_memory_not_equal(got, want, 64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(vector)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
