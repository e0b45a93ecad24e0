// SPDX-License-Identifier: Apache-2.0
// Proves: a remembered chain spares the path building and nothing else. Key possession, dates and
// CRL are judged each time; another set of CAs, a CA of the same name or one changed bit is another
// chain; what was refused is not remembered; a full set forgets what was longest unused.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>

#include <openssl/pool.h>
#include <openssl/sha.h>

#include "tls/chain.h"
#include "tls/tls_test_support.h"

static const struct test_client good = {.certificate = "client-p256-p256.crt",
                                        .key = "client-p256-p256.key"};

static struct test_result shake_at(struct tls_context *context, struct test_client client,
                                   struct tls_time now) {
  struct test_peer p = test_peer(client);
  struct test_result r = test_shake(context, &p, now, TEST_RUN_ALL);
  test_peer_free(&p);
  return r;
}

static struct test_result shake(struct tls_context *context, struct test_client client) {
  return shake_at(context, client, test_now);
}

static void assert_counts(const struct tls_context *context, u64 hits, u64 misses) {
  struct tls_context_info info;
  tls_context_info(context, &info);
  assert_int_equal(info.chain_hits, hits);
  assert_int_equal(info.chain_misses, misses);
}

// --- A client that presents any bytes and signs with any key

static EVP_PKEY *signing_key;

static enum ssl_private_key_result_t sign(SSL *ssl, u8 *out, usize *out_len, usize out_max,
                                          u16 algorithm, const u8 *in, usize in_len) {
  EVP_MD_CTX md;
  EVP_MD_CTX_init(&md);
  *out_len = out_max;
  bool ok = EVP_DigestSignInit(&md, NULL, SSL_get_signature_algorithm_digest(algorithm), NULL,
                               signing_key) == 1 &&
            EVP_DigestSign(&md, out, out_len, in, in_len) == 1;
  EVP_MD_CTX_cleanup(&md);
  (void)ssl;
  return ok ? ssl_private_key_success : ssl_private_key_failure;
}

static EVP_PKEY *read_key(const char *name) {
  struct bytes pem = test_file(name);
  BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
  EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
  BIO_free(bio);
  assert_non_null(key);
  return key;
}

static u32 read_certificate(const char *name, u8 *der, u32 cap) {
  struct bytes pem = test_file(name);
  BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
  X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
  assert_non_null(cert);
  int len = i2d_X509(cert, NULL);
  assert_true(len > 0 && (u32)len <= cap);
  i2d_X509(cert, &der);
  X509_free(cert);
  BIO_free(bio);
  return (u32)len;
}

// False when the client's library itself cannot present these bytes.
static bool present(struct tls_context *context, const u8 *der, u32 len, struct test_result *r) {
  static const SSL_PRIVATE_KEY_METHOD method = {.sign = sign};
  struct test_peer p = test_peer((struct test_client){0});
  CRYPTO_BUFFER *cert = CRYPTO_BUFFER_new(der, len, NULL);
  bool ok = SSL_set_chain_and_key(p.ssl, &cert, 1, NULL, &method) == 1;
  if (ok) {
    *r = test_shake(context, &p, test_now, TEST_RUN_ALL);
  }
  CRYPTO_BUFFER_free(cert);
  ERR_clear_error();
  test_peer_free(&p);
  return ok;
}

// --- Tests

static void known_chain(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){.chains = 16});
  struct test_result cold = shake(context, good);
  assert_int_equal(cold.step, TLS_STEP_DONE);
  assert_counts(context, 0, 1);
  struct test_result warm = shake(context, good);
  assert_int_equal(warm.step, TLS_STEP_DONE);
  assert_counts(context, 1, 1);
  assert_memory_equal(&warm.record.client, &cold.record.client, sizeof cold.record.client);
  assert_memory_equal(&warm.identity, &cold.identity, sizeof cold.identity);
  assert_true(warm.identity.has_certificate);
  assert_int_equal(warm.identity.cn.len, 16);
  assert_int_equal(tls_recheck(context, &warm.record, &test_now), TLS_REASON_NONE);
  assert_true(warm.arena_peak < cold.arena_peak);
  // Behind an intermediate: the whole chain is the key.
  struct test_client inter = {.certificate = "client-inter.crt", .key = "client-inter.key"};
  assert_int_equal(shake(context, inter).step, TLS_STEP_DONE);
  struct test_result r = shake(context, inter);
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_counts(context, 2, 2);
  assert_int_equal(tls_recheck(context, &r.record, &test_now), TLS_REASON_NONE);
  tls_context_unref(context);
}

static void key_possession(void **state) {
  (void)state;
  static u8 der[4096];
  struct tls_context *context = test_context((struct test_server){.chains = 16});
  assert_int_equal(shake(context, good).step, TLS_STEP_DONE);
  u32 len = read_certificate(good.certificate, der, sizeof der);
  struct test_result r;
  signing_key = read_key("client-p256-revoked.key");  // somebody else's
  assert_true(present(context, der, len, &r));
  assert_int_equal(r.step, TLS_STEP_FAILED);
  assert_int_equal(r.failure.alert, TLS_ALERT_DECRYPT_ERROR);
  assert_counts(context, 1, 1);
  EVP_PKEY_free(signing_key);
  signing_key = read_key(good.key);
  assert_true(
      present(context, der, len, &r));  // the same with its own key: the test's client works
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_counts(context, 2, 1);
  EVP_PKEY_free(signing_key);
  tls_context_unref(context);
}

static void dates_between(void **state) {
  (void)state;
  struct tls_time late = {4102444800ull, 4102444800ull, true};  // 2100
  struct tls_time next = {2114380800ull, 2114380800ull, true};  // 2037: the CRL is over
  struct tls_time early = {946684800ull, 946684800ull, true};   // 2000
  struct tls_context *context =
      test_context((struct test_server){.chains = 16, .crl = "empty.crl"});
  assert_int_equal(shake(context, good).step, TLS_STEP_DONE);
  struct test_result r = shake_at(context, good, late);
  assert_int_equal(r.step, TLS_STEP_FAILED);
  assert_int_equal(r.failure.reason, TLS_REASON_EXPIRED);
  assert_int_equal(r.client_alert, 45);
  r = shake_at(context, good, early);
  assert_int_equal(r.failure.reason, TLS_REASON_NOT_YET_VALID);
  r = shake_at(context, good, next);
  assert_int_equal(r.step, TLS_STEP_FAILED);
  assert_int_equal(r.failure.reason, TLS_REASON_CRL_EXPIRED);
  assert_int_equal(shake(context, good).step, TLS_STEP_DONE);
  assert_counts(context, 4, 1);  // all but the first were known, and judged nevertheless
  tls_context_unref(context);
}

// A reload makes a new context; whatever the old one remembers does not count there.
static void reloaded(void **state) {
  (void)state;
  const struct test_client client = {.certificate = "client-p256-revoked.crt",
                                     .key = "client-p256-revoked.key"};
  const struct {
    struct test_server server;
    enum tls_reason reason;
    u8 alert;
  } all[] = {
      {{.chains = 16, .crl = "revoked.crl"}, TLS_REASON_REVOKED, 44},
      {{.chains = 16, .ca = "other.crt"}, TLS_REASON_UNKNOWN_CA, 48},
      {{.chains = 16, .ca = "twin.crt"}, TLS_REASON_UNKNOWN_CA, 48},  // same name, other key
      {{.chains = 16, .ca = "two-cas.crt", .crl = "other.crl"}, TLS_REASON_NO_CRL, 48},
  };
  struct tls_context *before = test_context((struct test_server){.chains = 16});
  for (u32 i = 0; i < 2; i++) {
    assert_int_equal(shake(before, client).step, TLS_STEP_DONE);
  }
  assert_counts(before, 1, 1);
  for (u32 i = 0; i < ARRAY_COUNT(all); i++) {
    struct tls_context *after = test_context(all[i].server);
    for (u32 again = 0; again < 2; again++) {  // refused, and not remembered as anything else
      struct test_result r = shake(after, client);
      assert_int_equal(r.step, TLS_STEP_FAILED);
      assert_int_equal(r.failure.reason, all[i].reason);
      assert_int_equal(r.client_alert, all[i].alert);
    }
    assert_counts(after, 0, 2);
    tls_context_unref(after);
  }
  tls_context_unref(before);
}

// A revoked client whose session is resumed: its chain may be known, its revocation is seen.
static void resumed(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){.chains = 16});
  struct tls_context *crl = test_context((struct test_server){.chains = 16, .crl = "revoked.crl"});
  struct test_client client = {.certificate = "client-p256-revoked.crt",
                               .key = "client-p256-revoked.key"};
  assert_int_equal(shake(context, client).step, TLS_STEP_DONE);
  SSL_SESSION *session = test_session;
  test_session = NULL;
  client.session = session;
  struct test_result r = shake(context, client);
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_true(r.identity.resumed);
  assert_int_equal(r.identity.cn.len, 7);
  assert_counts(context, 1, 1);
  r = shake(crl, client);
  assert_int_equal(r.failure.reason, TLS_REASON_REVOKED);
  SSL_SESSION_free(session);
  tls_context_unref(context);
  tls_context_unref(crl);
}

static void one_bit(void **state) {
  (void)state;
  static u8 der[4096];
  struct tls_context *context = test_context((struct test_server){.chains = 64});
  u32 len = read_certificate(good.certificate, der, sizeof der);
  signing_key = read_key(good.key);
  struct test_result r;
  assert_true(present(context, der, len, &r));
  assert_int_equal(r.step, TLS_STEP_DONE);
  u32 presented = 0;
  for (u32 i = 0; i < len; i++) {
    u8 bit = (u8)(1u << (i % 8));
    der[i] ^= bit;
    if (present(context, der, len, &r)) {
      presented++;
      assert_int_equal(r.step, TLS_STEP_FAILED);
    }
    der[i] ^= bit;
  }
  assert_true(presented > len / 2);
  struct tls_context_info info;
  tls_context_info(context, &info);
  assert_int_equal(info.chain_hits, 0);
  assert_true(present(context, der, len, &r));  // and the right one is still known
  assert_counts(context, 1, info.chain_misses);
  EVP_PKEY_free(signing_key);
  tls_context_unref(context);
}

// Memory refused in turn while a chain is judged: it is remembered whole or not at all.
static void shortage(void **state) {
  (void)state;
  struct tls_context *context = NULL;
  u32 refused = 0;
  for (u32 n = 0; n < 1000; n++) {
    context = test_context((struct test_server){.chains = 4});
    struct test_peer p = test_peer(good);
    struct test_result r = test_shake(context, &p, test_now, (struct test_run){0, 0, U64_MAX, n});
    test_peer_free(&p);
    if (r.step == TLS_STEP_DONE) {
      assert_int_equal(r.identity.san_email.len, 18);
    }
    refused += r.step == TLS_STEP_FAILED ? 1 : 0;
    struct test_result again = shake(context, good);
    assert_int_equal(again.step, TLS_STEP_DONE);
    assert_int_equal(again.identity.cn.len, 16);
    assert_int_equal(again.identity.san_email.len, 18);
    tls_context_unref(context);
    if (r.step == TLS_STEP_DONE) {
      break;
    }
  }
  assert_true(refused > 100);
}

// --- The cache alone

static void key_of(u8 key[CHAIN_KEY], u32 set, u32 number) {
  memset(key, 0, CHAIN_KEY);
  store_le32(key, set);
  store_le32(key + 16, number);
}

static bool find(struct chain_cache *c, u32 set, u32 number) {
  struct chain_facts facts;
  struct tls_identity id;
  u8 key[CHAIN_KEY];
  key_of(key, set, number);
  bool found = chain_cache_find(c, key, &facts, &id);
  if (found) {
    assert_int_equal(facts.cert[0].not_after_s, set * 100 + number);
    assert_int_equal(id.text[0], 'a' + number);
  }
  return found;
}

static void add(struct chain_cache *c, u32 set, u32 number, u32 certs, u32 text) {
  struct chain_facts facts = {.count = certs};
  struct tls_identity id = {.has_certificate = true, .cn = {0, text}};
  u8 key[CHAIN_KEY];
  key_of(key, set, number);
  facts.cert[0].not_after_s = set * 100 + number;
  id.text[0] = (u8)('a' + number);
  chain_cache_add(c, key, &facts, &id);
}

static void replacement(void **state) {
  (void)state;
  usize len = chain_cache_bytes(16);
  struct chain_cache *c = chain_cache_init(span_of(aligned_alloc(16, ALIGN_UP(len, 16)), len), 16);
  for (u32 i = 0; i < 4; i++) {
    assert_false(find(c, 1, i));
    add(c, 1, i, 1, 1);
  }
  add(c, 2, 0, 3, CHAIN_TEXT);
  assert_true(find(c, 1, 0));  // used again: 1 is now the one longest unused
  add(c, 1, 4, 1, 1);
  assert_false(find(c, 1, 1));
  for (u32 i = 0; i < 5; i++) {
    assert_int_equal(find(c, 1, i), i != 1);
  }
  assert_true(find(c, 2, 0));        // another set is untouched
  add(c, 3, 0, CHAIN_CERTS + 1, 1);  // too long: not kept
  assert_false(find(c, 3, 0));
  add(c, 3, 1, 1, CHAIN_TEXT + 1);
  assert_false(find(c, 3, 1));
  free(c);
}

// The same bytes cut elsewhere are another chain.
static void key_holds_lengths(void **state) {
  (void)state;
  static const u8 data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  u8 keys[8][CHAIN_KEY];
  for (u32 cut = 0; cut < 8; cut++) {
    STACK_OF(CRYPTO_BUFFER) *chain = sk_CRYPTO_BUFFER_new_null();
    sk_CRYPTO_BUFFER_push(chain, CRYPTO_BUFFER_new(data, cut, NULL));
    sk_CRYPTO_BUFFER_push(chain, CRYPTO_BUFFER_new(data + cut, 8 - cut, NULL));
    chain_key(keys[cut], chain);
    sk_CRYPTO_BUFFER_pop_free(chain, CRYPTO_BUFFER_free);
    for (u32 k = 0; k < cut; k++) {
      assert_memory_not_equal(keys[k], keys[cut], CHAIN_KEY);
    }
  }
}

// A heap that is nearly full: a smaller cache or none, never a context that fails for its cache.
static void little_heap(void **state) {
  (void)state;
  struct tls_context_info info;
  u64 used = tls_heap_used();
  struct tls_context *context = test_context((struct test_server){.chains = 1u << 20});
  tls_context_info(context, &info);
  assert_true(info.chains_kept >= 1024);
  assert_true(tls_heap_used() - used < (16u << 20) / 4 + (128u << 10));
  tls_context_unref(context);
  assert_int_equal(tls_heap_used(), used);
  usize left = memory_heap()->len - memory_heap()->used;
  void *most = alloc_take(memory_heap(), left - (256u << 10));
  assert_non_null(most);
  context = test_context((struct test_server){.chains = 1024});
  assert_non_null(context);
  tls_context_info(context, &info);
  assert_true(info.chains_kept > 0 && info.chains_kept < 1024);
  assert_int_equal(shake(context, good).step, TLS_STEP_DONE);
  tls_context_unref(context);
  alloc_put(memory_heap(), most);
}

int main(void) {
  test_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_chain),   cmocka_unit_test(key_possession),
      cmocka_unit_test(dates_between), cmocka_unit_test(reloaded),
      cmocka_unit_test(resumed),       cmocka_unit_test(one_bit),
      cmocka_unit_test(shortage),      cmocka_unit_test(replacement),
      cmocka_unit_test(little_heap),   cmocka_unit_test(key_holds_lengths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
