// SPDX-License-Identifier: Apache-2.0
// Proves: the exchange of RFC 7677 3 byte by byte; every cut and every wrong field of both client
// messages ends it; another password, nonce, channel binding or a message said twice proves
// nothing; names are unescaped and compared as RFC 5802 7 says.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "server/scram.h"

#include <cmocka.h>

// RFC 7677 3; the keys are those of "pencil" with that salt, by Python's hashlib.
#define CLIENT_NONCE "rOprNGfwEbeRWgbNEkqO"
#define OWN_NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define FIRST "n,,n=user,r=" CLIENT_NONCE
#define ANSWER "r=" CLIENT_NONCE OWN_NONCE ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
#define PROOF "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define WITHOUT "c=biws,r=" CLIENT_NONCE OWN_NONCE
#define FINAL WITHOUT ",p=" PROOF
#define VERIFIER "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

static void keys_of_the_rfc(struct scram_keys *k) {
  static u8 salt[16], stored[32], server[32];
  u32 n = 0;
  assert_true(base64_decode(BYTES_LIT("W22ZaJ0SNY7soEsUEjb6gQ=="), span_of(salt, 16), &n));
  assert_true(base64_decode(BYTES_LIT("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="),
                            span_of(stored, 32), &n));
  assert_true(base64_decode(BYTES_LIT("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="),
                            span_of(server, 32), &n));
  *k = (struct scram_keys){
      .salt = bytes_of(salt, 16), .iterations = 4096, .stored = stored, .server = server};
}

static u8 said[512];
static u32 said_len;

static void begin(struct scram *s, const char *text) {
  struct scram_keys k;
  struct scram_first f;
  struct writer w = writer_init(span_of(said, sizeof said));
  keys_of_the_rfc(&k);
  assert_null(scram_first(bytes_str(text), &f));
  scram_begin(s, bytes_str(text), &f, &k, BYTES_LIT(OWN_NONCE), &w);
  said_len = w.pos;
}
static const char *finish(struct scram *s, const void *text, usize len) {
  u8 *exact = malloc(len + (len == 0));
  struct writer w = writer_init(span_of(said, SCRAM_FINAL_MAX));
  memcpy(exact, text, len);
  const char *bad = scram_final(s, bytes_of(exact, len), &w);
  said_len = w.pos;
  free(exact);
  assert_true((bad == NULL) == (said_len > 0));
  return bad;
}
static const char *first(const void *text, usize len) {
  struct scram_first f;
  u8 *exact = malloc(len + (len == 0));
  memcpy(exact, text, len);
  const char *bad = scram_first(bytes_of(exact, len), &f);
  free(exact);
  return bad;
}

static void vector(void **state) {
  struct scram s;
  (void)state;
  begin(&s, FIRST);
  assert_int_equal(said_len, sizeof ANSWER - 1);
  assert_memory_equal(said, ANSWER, said_len);
  assert_null(finish(&s, FINAL, sizeof FINAL - 1));
  assert_int_equal(said_len, sizeof VERIFIER - 1);
  assert_memory_equal(said, VERIFIER, said_len);
  // RFC 4231 case 6: a key longer than a block.
  u8 key[131], out[32];
  struct tls_hmac h;
  static const u8 want[4] = {0x60, 0xe4, 0x31, 0x59};
  memset(key, 0xaa, sizeof key);
  tls_hmac_begin(&h, bytes_of(key, sizeof key));
  tls_hmac_add(&h, BYTES_LIT("Test Using Larger Than Block-Size Key"));
  tls_hmac_add(&h, BYTES_LIT(" - Hash Key First"));
  tls_hmac_end(&h, out);
  assert_memory_equal(out, want, sizeof want);
}

static void first_cut_anywhere(void **state) {
  (void)state;
  for (usize n = 0; n < sizeof FIRST - 1; n++) {
    bool whole = n > sizeof "n,,n=user,r=" - 1;  // a shorter nonce is one too
    assert_true((first(FIRST, n) == NULL) == whole);
  }
}

static void final_cut_anywhere(void **state) {
  struct scram s;
  (void)state;
  for (usize n = 0; n < sizeof FINAL - 1; n++) {
    begin(&s, FIRST);
    assert_non_null(finish(&s, FINAL, n));
  }
}

// Each byte of the last message, in turn, is another one.
static void final_changed_anywhere(void **state) {
  struct scram s;
  char text[] = FINAL;
  (void)state;
  for (usize i = 0; i < sizeof text - 1; i++) {
    for (u8 bit = 1; bit != 0; bit = (u8)(bit << 1)) {
      begin(&s, FIRST);
      text[i] = (char)(text[i] ^ bit);
      if (finish(&s, text, sizeof text - 1) == NULL) {
        fail_msg("byte %zu changed by %u was taken", i, bit);
      }
      text[i] = (char)(text[i] ^ bit);
    }
  }
}

static void bad_firsts(void **state) {
  static const char *const bad[] = {
      "",
      "n",
      "n,",
      "n,,",
      "x,,n=user,r=a",
      ",,n=user,r=a",
      "nn,,n=user,r=a",
      "p=tls-exporter,,n=user,r=a",
      "p=,,n=user,r=a",
      "n,a=user,n=user,r=a",
      "n,x,n=user,r=a",
      "n,,m=1,n=user,r=a",
      "n,,r=a,n=user",
      "n,,n=,r=a",
      "n,,n=user",
      "n,,n=user,",
      "n,,n=user,r=",
      "n,,n=user,r=a b",
      "n,,n=user,r=a\x7f",
      "n,,n=us=er,r=a",
      "n,,n=us=2cer,r=a",
      "n,,n=us=3,r=a",
      "n,,n=us=2,r=a",
      "n,,n=us\x01er,r=a",
      "n,,n=us\xff,r=a",
      "n,,n=us\xc3,r=a",
      "n,,n=user,r=a,",
      "n,,n=user,r=a,x",
      "n,,n=user,r=a,x=",
      "n,,n=user,r=a,1=x",
      "n,,n=user,r=a,x=\xff",
      " n,,n=user,r=a",
      "N,,n=user,r=a",
  };
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    if (first(bad[i], strlen(bad[i])) == NULL) {
      fail_msg("%s was taken", bad[i]);
    }
  }
  assert_non_null(first("n,,n=us\0er,r=a", sizeof "n,,n=us\0er,r=a" - 1));
  char nonce[200] = "n,,n=u,r=";
  memset(nonce + 9, 'x', 129);
  assert_null(first(nonce, 9 + 128));
  assert_non_null(first(nonce, 9 + 129));
  assert_null(first("y,,n=u,r=a,x=1,y=2", sizeof "y,,n=u,r=a,x=1,y=2" - 1));
}

static void bad_finals(void **state) {
  static const char *const bad[] = {
      "c=eSws,r=" CLIENT_NONCE OWN_NONCE ",p=" PROOF,
      "c=biw=,r=" CLIENT_NONCE OWN_NONCE ",p=" PROOF,
      "r=" CLIENT_NONCE OWN_NONCE ",c=biws,p=" PROOF,
      "c=biws,r=" CLIENT_NONCE ",p=" PROOF,
      "c=biws,r=" CLIENT_NONCE OWN_NONCE "x,p=" PROOF,
      "c=biws,p=" PROOF ",r=" CLIENT_NONCE OWN_NONCE,
      WITHOUT ",p=",
      WITHOUT ",p=AAAA",
      WITHOUT ",p=" PROOF ",x=1",
      WITHOUT ",x,p=" PROOF,
      WITHOUT ",,p=" PROOF,
      WITHOUT ",p=" PROOF "AAAA",
      WITHOUT ",x=1,p=" PROOF,  // well formed: the proof covers the extension
      WITHOUT ",p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
  };
  struct scram s;
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    begin(&s, FIRST);
    if (finish(&s, bad[i], strlen(bad[i])) == NULL) {
      fail_msg("%s was taken", bad[i]);
    }
  }
}

// The same proof in an exchange with another nonce of ours, and twice in the same one.
static void replayed(void **state) {
  struct scram_keys k;
  struct scram_first f;
  struct scram s;
  struct writer w = writer_init(span_of(said, sizeof said));
  (void)state;
  keys_of_the_rfc(&k);
  assert_null(scram_first(BYTES_LIT(FIRST), &f));
  scram_begin(&s, BYTES_LIT(FIRST), &f, &k, BYTES_LIT("another"), &w);
  assert_non_null(finish(&s, FINAL, sizeof FINAL - 1));
  static const char same[] = "c=biws,r=" CLIENT_NONCE "another,p=" PROOF;
  scram_begin(&s, BYTES_LIT(FIRST), &f, &k, BYTES_LIT("another"), &w);
  assert_non_null(finish(&s, same, sizeof same - 1));
  begin(&s, FIRST);
  assert_null(finish(&s, FINAL, sizeof FINAL - 1));
  assert_non_null(finish(&s, FINAL, sizeof FINAL - 1));
}

static void names(void **state) {
  static const struct {
    const char *escaped, *plain;
  } name[] = {{"user", "user"}, {"=2C", ","},           {"=3D=2C", "=,"},
              {"a=3D", "a="},   {"a=3D2Cb", "a=2Cb"},   {"\xc3\xbc", "\xc3\xbc"},
              {"u r", "u r"},   {"x=2Cy=3Dz", "x,y=z"}, {"=2C=2C=2C", ",,,"}};
  u8 out[32];
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(name); i++) {
    struct bytes escaped = bytes_str(name[i].escaped), plain = bytes_str(name[i].plain);
    memcpy(out, escaped.ptr, escaped.len);
    u32 n = scram_name(bytes_of(out, escaped.len), out);  // in place
    assert_true(bytes_equal(bytes_of(out, n), plain));
    assert_true(scram_name_is(escaped, plain));
    assert_false(scram_name_is(escaped, bytes_sub(plain, 0, plain.len - 1)));
    memcpy(out, plain.ptr, plain.len);
    out[plain.len] = 'x';
    assert_false(scram_name_is(escaped, bytes_of(out, plain.len + 1)));
    out[plain.len - 1] ^= 1;
    assert_false(scram_name_is(escaped, bytes_of(out, plain.len)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(vector),
                                     cmocka_unit_test(first_cut_anywhere),
                                     cmocka_unit_test(final_cut_anywhere),
                                     cmocka_unit_test(final_changed_anywhere),
                                     cmocka_unit_test(bad_firsts),
                                     cmocka_unit_test(bad_finals),
                                     cmocka_unit_test(replayed),
                                     cmocka_unit_test(names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
