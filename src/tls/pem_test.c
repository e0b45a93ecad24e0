// SPDX-License-Identifier: Apache-2.0
// Proves: PEM blocks are found with their lines whatever stands around them, base64 decodes
// exactly, encrypted keys are recognised in both forms, and a text cut at any byte is never read
// past its end.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tls/pem.h"

static const char text[] =
    "Certificate:\n    Data: 1\n-----BEGIN CERTIFICATE-----\r\nQUJD\r\nREVG\r\nRw==\r\n"
    "-----END CERTIFICATE-----  \r\nbetween\n"
    "-----BEGIN EC PARAMETERS-----\nBggq\n-----END EC PARAMETERS-----\n"
    "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nQUJD\n"
    "-----END EC PRIVATE KEY-----\n"
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nQUI=\n-----END ENCRYPTED PRIVATE KEY-----";

static void blocks(void **state) {
  (void)state;
  struct bytes t = bytes_str(text);
  struct pem_cursor c = {0, 0};
  struct pem_block b;
  const char *reason = NULL;
  u8 der[64];
  u32 len = 0;
  u32 line = 0;
  assert_int_equal(pem_next(t, &c, &b, &reason), ERR_OK);
  assert_int_equal(b.kind, PEM_CERTIFICATE);
  assert_int_equal(b.line, 3);
  assert_int_equal(pem_decode(t, &b, span_of(der, sizeof der), &len, &line), ERR_OK);
  assert_int_equal(len, 7);
  assert_memory_equal(der, "ABCDEFG", 7);
  assert_int_equal(pem_decode(t, &b, span_of(der, 6), &len, &line), ERR_SPACE);
  assert_int_equal(pem_next(t, &c, &b, &reason), ERR_OK);
  assert_int_equal(b.kind, PEM_OTHER);
  assert_int_equal(b.line, 9);
  assert_int_equal(pem_next(t, &c, &b, &reason), ERR_OK);
  assert_int_equal(b.kind, PEM_KEY_ENCRYPTED);
  assert_int_equal(b.line, 12);
  assert_int_equal(pem_next(t, &c, &b, &reason), ERR_OK);
  assert_int_equal(b.kind, PEM_KEY_ENCRYPTED);
  assert_int_equal(pem_decode(t, &b, span_of(der, sizeof der), &len, &line), ERR_OK);
  assert_int_equal(len, 2);
  assert_int_equal(pem_next(t, &c, &b, &reason), ERR_NOT_FOUND);
}

static void broken(void **state) {
  (void)state;
  static const struct {
    const char *text;
    u32 line;
    bool in_next;  // else in decode
  } all[] = {
      {"-----BEGIN A-----\nQUJD\n", 1, true},
      {"-----BEGIN A-----\nQUJD\n-----END B-----\n", 3, true},
      {"-----BEGIN A-----\n-----BEGIN B-----\n-----END B-----\n", 1, true},
      {"-----BEGIN A-----\nQU*D\n-----END A-----\n", 2, false},
      {"-----BEGIN A-----\nQUJD\nQUJ\n-----END A-----\n", 4, false},
      {"-----BEGIN A-----\nQ===\n-----END A-----\n", 2, false},
      {"-----BEGIN A-----\nQU=D\n-----END A-----\n", 2, false},
      {"-----BEGIN A-----\n-----END A-----\n", 2, false},
  };
  for (u32 i = 0; i < ARRAY_COUNT(all); i++) {
    struct bytes t = bytes_str(all[i].text);
    struct pem_cursor c = {0, 0};
    struct pem_block b;
    const char *reason = NULL;
    u8 der[64];
    u32 len = 0;
    u32 line = 0;
    enum err e = pem_next(t, &c, &b, &reason);
    assert_int_equal(e, all[i].in_next ? ERR_MALFORMED : ERR_OK);
    if (all[i].in_next) {
      assert_non_null(reason);
      assert_int_equal(b.line, all[i].line);
    } else {
      assert_int_equal(pem_decode(t, &b, span_of(der, sizeof der), &len, &line), ERR_MALFORMED);
      assert_int_equal(line, all[i].line);
    }
  }
}

static void cut_at_every_byte(void **state) {
  (void)state;
  u32 found = 0;
  for (usize cut = 0; cut < sizeof text; cut++) {
    u8 *copy = malloc(cut + 1);  // one byte, so that an empty text has an address
    memcpy(copy, text, cut);
    struct bytes t = bytes_of(copy, cut);
    struct pem_cursor c = {0, 0};
    struct pem_block b;
    const char *reason = NULL;
    while (pem_next(t, &c, &b, &reason) == ERR_OK) {
      u8 der[64];
      u32 len = 0;
      u32 line = 0;
      (void)!pem_decode(t, &b, span_of(der, sizeof der), &len, &line);
      found++;
    }
    free(copy);
  }
  assert_true(found > 500);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks),
      cmocka_unit_test(broken),
      cmocka_unit_test(cut_at_every_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
