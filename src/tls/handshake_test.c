// SPDX-License-Identifier: Apache-2.0
// Proves: handshakes with every kind of certificate and key end as they should, full and resumed;
// every refusal has its reason and its alert; input cut at any byte, given byte by byte or with any
// allocation refused leaves nothing in the arena and the next handshake fine.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>

#include <openssl/rand.h>

#include "tls/tls_test_support.h"

static const struct test_client good_client = {.certificate = "client-p256-p256.crt",
                                               .key = "client-p256-p256.key"};

static struct test_result shake(struct tls_context *context, struct test_client client) {
  struct test_peer p = test_peer(client);
  struct test_result r = test_shake(context, &p, test_now, TEST_RUN_ALL);
  test_peer_free(&p);
  return r;
}

// Must run first: what tls_init has not made would be made in the arena of some handshake.
static void nothing_is_made_late(void **state) {
  (void)state;
  static const int curves[] = {NID_secp224r1, NID_X9_62_prime256v1, NID_secp384r1, NID_secp521r1};
  u64 used = tls_heap_used();
  for (u32 i = 0; i < ARRAY_COUNT(curves); i++) {
    assert_non_null(EC_GROUP_new_by_curve_name(curves[i]));
  }
  u8 random[8];
  RAND_bytes(random, sizeof random);
  assert_int_equal(tls_heap_used(), used);
}

static void full_and_resumed(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  assert_non_null(context);
  struct test_result r = shake(context, good_client);
  if (r.step == TLS_STEP_FAILED) {
    fail_msg("%s", r.failure.text);
  }
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_true(r.client_done);
  assert_false(r.identity.resumed);
  assert_true(r.identity.has_certificate);
  assert_memory_equal(r.identity.text + r.identity.cn.off, "device-p256-p256", 16);
  assert_int_equal(r.identity.cn.len, 16);
  printf("full: arena peak %u\n", r.arena_peak);
  assert_non_null(test_session);
  struct test_client again = good_client;
  again.session = test_session;
  SSL_SESSION_up_ref(test_session);
  struct test_result s = shake(context, again);
  assert_int_equal(s.step, TLS_STEP_DONE);
  assert_true(s.identity.resumed);
  assert_int_equal(s.identity.cn.len, 16);
  assert_memory_equal(&s.record.client, &r.record.client, sizeof r.record.client);
  printf("resumed: arena peak %u\n", s.arena_peak);
  SSL_SESSION_free(again.session);
  tls_context_unref(context);
}

// --- Refusals: the reason, the alert we send, the alert the client reads

struct refusal {
  const char *name;
  struct test_server server;
  struct test_client client;
  enum tls_reason reason;
  u8 alert;
};

static const int p384_only[] = {NID_secp384r1};

static void refusals(void **state) {
  (void)state;
  const struct refusal all[] = {
      {"no certificate", {0}, {0}, TLS_REASON_NO_CERTIFICATE, 116},
      {"other CA",
       {0},
       {.certificate = "client-other-p256.crt", .key = "client-other-p256.key"},
       TLS_REASON_UNKNOWN_CA,
       48},
      {"expired",
       {0},
       {.certificate = "client-p256-expired.crt", .key = "client-p256-expired.key"},
       TLS_REASON_EXPIRED,
       45},
      {"not yet valid",
       {0},
       {.certificate = "client-p256-future.crt", .key = "client-p256-future.key"},
       TLS_REASON_NOT_YET_VALID,
       45},
      {"revoked",
       {.crl = "revoked.crl"},
       {.certificate = "client-p256-revoked.crt", .key = "client-p256-revoked.key"},
       TLS_REASON_REVOKED,
       44},
      {"a server's certificate",
       {0},
       {.certificate = "server-p256-p256.crt", .key = "server-p256-p256.key"},
       TLS_REASON_BAD_CERTIFICATE,
       43},
      {"a CA of the same name",
       {0},
       {.certificate = "client-twin.crt", .key = "client-twin.key"},
       TLS_REASON_UNKNOWN_CA,
       48},
      {"a certificate signed over SHA-1",
       {0},
       {.certificate = "client-p256-sha1.crt", .key = "client-p256-sha1.key"},
       TLS_REASON_BAD_CERTIFICATE,
       42},
      {"an RSA key of 1024 bits",
       {0},
       {.certificate = "client-p256-rsa1024.crt", .key = "client-p256-rsa1024.key"},
       TLS_REASON_BAD_CERTIFICATE,
       42},
      {"TLS 1.2", {0}, {.max_version = TLS1_2_VERSION}, TLS_REASON_OLD_TLS, 70},
      {"no group in common",
       {0},
       {.groups = p384_only, .group_count = 1},
       TLS_REASON_NO_SHARED_CIPHER,
       40},
      {"ALPN of another protocol",
       {.alpn = true},
       {.certificate = "client-p256-p256.crt", .key = "client-p256-p256.key", .alpn = "http/1.1"},
       TLS_REASON_ALPN,
       120},
      {"no ALPN",
       {.alpn = true},
       {.certificate = "client-p256-p256.crt", .key = "client-p256-p256.key"},
       TLS_REASON_ALPN,
       120},
      {"TLS 1.2 where ALPN is enforced",
       {.alpn = true},
       {.max_version = TLS1_2_VERSION},
       TLS_REASON_OLD_TLS,
       70},
      {"no CRL for this CA",
       {.ca = "two-cas.crt", .crl = "other.crl"},
       {.certificate = "client-p256-p256.crt", .key = "client-p256-p256.key"},
       TLS_REASON_NO_CRL,
       48},
  };
  for (u32 i = 0; i < ARRAY_COUNT(all); i++) {
    struct tls_context *context = test_context(all[i].server);
    assert_non_null(context);
    struct test_result r = shake(context, all[i].client);
    if (r.step != TLS_STEP_FAILED || r.failure.reason != all[i].reason ||
        r.failure.alert != all[i].alert || r.client_alert != all[i].alert) {
      fail_msg("%s: step %d, reason %d (wanted %d), alert %u, client read %u (wanted %u)",
               all[i].name, (int)r.step, (int)r.failure.reason, (int)all[i].reason, r.failure.alert,
               r.client_alert, all[i].alert);
    }
    assert_string_equal(r.failure.text, tls_reason_text(all[i].reason));
    tls_context_unref(context);
  }
}

// --- Every kind of key and certificate

static void matrix(void **state) {
  (void)state;
  static const char *const cas[] = {"p256", "rsa"};
  static const char *const types[] = {"p256", "rsa"};
  static const char *const forms[] = {"key", "trad.key"};
  u32 count = 0;
  for (u32 i = 0; i < 32; i++) {
    const char *server_ca = cas[i & 1];
    const char *client_ca = cas[i >> 1 & 1];
    char name[6][64];
    snprintf(name[0], 64, "server-%s-%s.crt", server_ca, types[i >> 2 & 1]);
    snprintf(name[1], 64, "server-%s-%s.%s", server_ca, types[i >> 2 & 1], forms[i >> 4 & 1]);
    snprintf(name[2], 64, "client-%s-%s.crt", client_ca, types[i >> 3 & 1]);
    snprintf(name[3], 64, "client-%s-%s.key", client_ca, types[i >> 3 & 1]);
    snprintf(name[4], 64, "ca-%s.crt", client_ca);
    struct tls_context *context =
        test_context((struct test_server){.certificate = name[0], .key = name[1], .ca = name[4]});
    assert_non_null(context);
    struct test_result r =
        shake(context, (struct test_client){.certificate = name[2], .key = name[3]});
    if (r.step != TLS_STEP_DONE) {
      fail_msg("%s with %s: %s", name[1], name[2], r.failure.text);
    }
    count++;
    tls_context_unref(context);
  }
  assert_int_equal(count, 32);
  struct tls_context *context = test_context((struct test_server){
      .certificate = "server-p256-ed25519.crt", .key = "server-p256-ed25519.key"});
  assert_non_null(context);
  struct test_result r =
      shake(context, (struct test_client){.certificate = "client-p256-ed25519.crt",
                                          .key = "client-p256-ed25519.key"});
  assert_int_equal(r.step, TLS_STEP_DONE);
  struct tls_context_info info;
  tls_context_info(context, &info);
  assert_string_equal(info.key_type, "Ed25519");
  tls_context_unref(context);
}

static void intermediate_and_plain(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){.crl = "empty.crl"});
  // The intermediate has no CRL of its own, and one is configured: refused (as mosquitto does).
  struct test_result r = shake(
      context, (struct test_client){.certificate = "client-inter.crt", .key = "client-inter.key"});
  assert_int_equal(r.step, TLS_STEP_FAILED);
  assert_int_equal(r.failure.reason, TLS_REASON_NO_CRL);
  tls_context_unref(context);
  context = test_context((struct test_server){0});
  r = shake(context,
            (struct test_client){.certificate = "client-inter.crt", .key = "client-inter.key"});
  assert_int_equal(r.step, TLS_STEP_DONE);
  tls_context_unref(context);
  context = test_context((struct test_server){.ca = "ca-rsa.crt"});
  r = shake(context,
            (struct test_client){.certificate = "client-all-rsa.crt", .key = "client-all-rsa.key"});
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_true(r.arena_peak <= TLS_ARENA_BYTES);
  tls_context_unref(context);
  context = test_context((struct test_server){.open = true, .alpn = true});
  r = shake(context, (struct test_client){.alpn = "mqtt"});
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_false(r.identity.has_certificate);
  assert_true(r.identity.alpn_mqtt);
  assert_int_equal(r.record.client.present, 0);
  tls_context_unref(context);
}

// A CA that changed its key and kept its name: both are configured, each with its CRL.
static void changed_ca_key(void **state) {
  (void)state;
  struct tls_context *context =
      test_context((struct test_server){.ca = "twins.crt", .crl = "twins.crl"});
  assert_non_null(context);
  assert_int_equal(shake(context, good_client).step, TLS_STEP_DONE);
  struct test_result r = shake(
      context, (struct test_client){.certificate = "client-twin.crt", .key = "client-twin.key"});
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_int_equal(tls_recheck(context, &r.record, &test_now), TLS_REASON_NONE);
  tls_context_unref(context);
  context = test_context((struct test_server){.ca = "twin.crt"});
  assert_int_equal(tls_recheck(context, &r.record, &test_now), TLS_REASON_NONE);
  tls_context_unref(context);
  context = test_context((struct test_server){0});  // the new key's CA is gone again
  assert_int_equal(tls_recheck(context, &r.record, &test_now), TLS_REASON_UNKNOWN_CA);
  tls_context_unref(context);
}

static void identity_text(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  struct test_result r = shake(context, good_client);
  const struct tls_identity *id = &r.identity;
  struct bytes text = bytes_of(id->text, sizeof id->text);
  assert_true(bytes_equal_str(bytes_part(text, id->cn), "device-p256-p256"));
  assert_true(bytes_equal_str(bytes_part(text, id->subject), "O=urMQTT test,CN=device-p256-p256"));
  assert_true(bytes_equal_str(bytes_part(text, id->san_dns), "device.example"));
  assert_true(bytes_equal_str(bytes_part(text, id->san_email), "device@example.org"));
  assert_int_equal(id->group, SSL_CURVE_X25519);
  tls_context_unref(context);
}

static void hello_retry(void **state) {
  (void)state;
  static const int first_unknown[] = {NID_secp384r1, NID_X9_62_prime256v1};
  struct tls_context *context = test_context((struct test_server){0});
  struct test_client c = good_client;
  c.groups = first_unknown;
  c.group_count = 2;
  struct test_result r = shake(context, c);
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_int_equal(r.identity.group, SSL_CURVE_SECP256R1);
  tls_context_unref(context);
}

// --- Resumption is judged again

static struct test_result resume(struct tls_context *with, const char *name, struct tls_time now) {
  char cert[64];
  char key[64];
  snprintf(cert, sizeof cert, "%s.crt", name);
  snprintf(key, sizeof key, "%s.key", name);
  struct test_client c = {.certificate = cert, .key = key, .session = test_session};
  SSL_SESSION_up_ref(c.session);
  struct test_peer p = test_peer(c);
  struct test_result r = test_shake(with, &p, now, TEST_RUN_ALL);
  test_peer_free(&p);
  SSL_SESSION_free(c.session);
  return r;
}

static void resumption_is_judged(void **state) {
  (void)state;
  struct tls_context *before = test_context((struct test_server){0});
  struct tls_context *crl = test_context((struct test_server){.crl = "revoked.crl"});
  struct tls_context *two = test_context((struct test_server){.ca = "two-cas.crt"});
  const struct test_client revoked = {.certificate = "client-p256-revoked.crt",
                                      .key = "client-p256-revoked.key"};
  struct test_result first = shake(before, revoked);
  assert_int_equal(first.step, TLS_STEP_DONE);
  struct test_result r = resume(before, "client-p256-revoked", test_now);
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_true(r.identity.resumed);
  r = resume(crl, "client-p256-revoked", test_now);
  assert_int_equal(r.step, TLS_STEP_FAILED);
  assert_int_equal(r.failure.reason, TLS_REASON_REVOKED);
  assert_int_equal(r.client_alert, 44);
  assert_true(r.client_done);  // it was a resumption: the client had finished its side

  assert_int_equal(shake(before, good_client).step, TLS_STEP_DONE);
  r = resume(two, "client-p256-p256", test_now);  // another set of CAs: a full handshake
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_false(r.identity.resumed);

  // The live connection of the revoked client, judged by each context.
  assert_int_equal(tls_recheck(before, &first.record, &test_now), TLS_REASON_NONE);
  assert_int_equal(tls_recheck(two, &first.record, &test_now), TLS_REASON_NONE);
  assert_int_equal(tls_recheck(crl, &first.record, &test_now), TLS_REASON_REVOKED);
  struct tls_time late = {4102444800ull, 4102444800ull, true};
  assert_int_equal(tls_recheck(before, &first.record, &late), TLS_REASON_EXPIRED);
  tls_context_unref(before);
  tls_context_unref(crl);
  tls_context_unref(two);
}

// The clock's lower bound judges notAfter, its estimate notBefore, and only when it is good.
static void clock_quality(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  const struct {
    const char *name;
    struct tls_time now;
    enum tls_step step;
  } all[] = {
      {"client-p256-p256", {4102444800ull, 1796083200, false}, TLS_STEP_DONE},
      {"client-p256-p256", {4102444800ull, 4102444800ull, true}, TLS_STEP_FAILED},
      {"client-p256-future", {946684800, 946684800, false}, TLS_STEP_DONE},
      {"client-p256-future", {946684800, 946684800, true}, TLS_STEP_FAILED},
      {"client-p256-expired", {946684800, 946684800, false}, TLS_STEP_DONE},
  };
  for (u32 i = 0; i < ARRAY_COUNT(all); i++) {
    char cert[64];
    char key[64];
    snprintf(cert, sizeof cert, "%s.crt", all[i].name);
    snprintf(key, sizeof key, "%s.key", all[i].name);
    struct test_peer p = test_peer((struct test_client){.certificate = cert, .key = key});
    struct test_result r = test_shake(context, &p, all[i].now, TEST_RUN_ALL);
    test_peer_free(&p);
    assert_int_equal(r.step, all[i].step);
  }
  tls_context_unref(context);
}

// --- Slices, cuts, shortage

static void byte_by_byte(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  struct test_peer p = test_peer(good_client);
  struct test_result r =
      test_shake(context, &p, test_now, (struct test_run){1, 16, U64_MAX, U32_MAX});
  test_peer_free(&p);
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_true(r.client_done);
  tls_context_unref(context);
}

static void cut_at_every_byte(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  u64 heap = tls_heap_used();
  u32 done = 0;
  for (u64 cut = 0; cut < 4000; cut++) {
    struct test_peer p = test_peer(good_client);
    struct test_result r = test_shake(context, &p, test_now, (struct test_run){0, 0, cut, U32_MAX});
    test_peer_free(&p);
    if (r.step == TLS_STEP_DONE) {
      done++;
      break;
    }
    assert_int_equal(r.step, TLS_STEP_WANT_INPUT);
  }
  assert_int_equal(done, 1);
  SSL_SESSION_free(test_session);
  test_session = NULL;
  assert_true(tls_heap_used() <= heap + 4096);
  tls_context_unref(context);
}

static void damaged_at_every_byte(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  static u8 hello[2048];
  static u8 out[TEST_FLIGHT];
  struct test_peer p = test_peer(good_client);
  SSL_do_handshake(p.ssl);
  u32 len = (u32)BIO_read(p.out, hello, sizeof hello);
  test_peer_free(&p);
  u32 plain_alerts = 0;
  for (u32 i = 0; i < len * 2; i++) {
    hello[i / 2] ^= i % 2 == 0 ? 0x01 : 0x80;
    struct tls_handshake *hs = tls_handshake_begin(
        context, span_of(test_arena_memory, sizeof test_arena_memory), &test_now);
    u32 consumed = 0;
    u32 produced = 0;
    enum tls_step step = tls_handshake_step(hs, bytes_of(hello, len), &consumed,
                                            span_of(out, sizeof out), &produced);
    assert_true(step != TLS_STEP_DONE);
    if (step == TLS_STEP_FAILED) {
      assert_true(produced >= 7);
      if (out[0] == 21) {  // not under keys yet: the alert can be read
        assert_int_equal(out[6], tls_handshake_failure(hs).alert);
        plain_alerts++;
      }
    }
    tls_handshake_abort(hs);
    hello[i / 2] ^= i % 2 == 0 ? 0x01 : 0x80;
  }
  assert_true(plain_alerts > 50);
  tls_context_unref(context);
}

static void allocation_refused(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  u32 n = 0;
  for (; n < 2000; n++) {
    struct test_peer p = test_peer(good_client);
    struct test_result r = test_shake(context, &p, test_now, (struct test_run){0, 0, U64_MAX, n});
    test_peer_free(&p);
    if (r.step == TLS_STEP_DONE && r.identity.subject.len != 0 && r.identity.san_dns.len != 0) {
      break;
    }
    if (n % 16 == 0) {  // the next one is fine
      assert_int_equal(shake(context, good_client).step, TLS_STEP_DONE);
    }
  }
  printf("full handshake: %u allocations\n", n);
  assert_true(n > 100 && n < 2000);
  struct test_result r = shake(context, good_client);
  assert_int_equal(r.step, TLS_STEP_DONE);
  tls_context_unref(context);
}

// The same for a resumed handshake, and its flights cut at every byte.
static void resumption_refused_and_cut(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  assert_int_equal(shake(context, good_client).step, TLS_STEP_DONE);
  SSL_SESSION *session = test_session;
  test_session = NULL;
  u32 ends[2] = {0, 0};
  for (u32 kind = 0; kind < 2; kind++) {
    for (u32 n = 0; n < 4000 && ends[kind] == 0; n++) {
      struct test_client client = good_client;
      client.session = session;
      struct test_peer p = test_peer(client);
      struct test_run run = TEST_RUN_ALL;
      run.fail_after = kind == 0 ? n : U32_MAX;
      run.cut = kind == 1 ? n : U64_MAX;
      struct test_result r = test_shake(context, &p, test_now, run);
      test_peer_free(&p);
      if (r.step == TLS_STEP_DONE && r.identity.resumed && r.identity.san_dns.len != 0) {
        ends[kind] = n;
      }
      assert_true(kind == 0 || r.step == TLS_STEP_DONE || r.step == TLS_STEP_WANT_INPUT);
    }
  }
  printf("resumed handshake: %u allocations, %u bytes from the client\n", ends[0], ends[1]);
  assert_true(ends[0] > 100 && ends[1] > 500);
  SSL_SESSION_free(session);
  tls_context_unref(context);
}

static void nothing_is_consumed_behind(void **state) {
  (void)state;
  struct tls_context *context =
      test_context((struct test_server){.open = true, .no_tickets = true});
  struct test_peer p = test_peer((struct test_client){0});
  static u8 wire[TEST_FLIGHT];
  static u8 out[TEST_FLIGHT];
  struct tls_handshake *hs =
      tls_handshake_begin(context, span_of(test_arena_memory, sizeof test_arena_memory), &test_now);
  u32 consumed = 0;
  u32 produced = 0;
  SSL_do_handshake(p.ssl);
  u32 len = (u32)BIO_read(p.out, wire, sizeof wire);
  assert_int_equal(
      tls_handshake_step(hs, bytes_of(wire, len), &consumed, span_of(out, sizeof out), &produced),
      TLS_STEP_WANT_INPUT);
  assert_int_equal(consumed, len);
  BIO_write(p.in, out, (int)produced);
  assert_int_equal(SSL_do_handshake(p.ssl), 1);
  SSL_write(p.ssl, "hello", 5);
  len = (u32)BIO_read(p.out, wire, sizeof wire);
  assert_int_equal(
      tls_handshake_step(hs, bytes_of(wire, len), &consumed, span_of(out, sizeof out), &produced),
      TLS_STEP_DONE);
  assert_int_equal(len - consumed, 5 + TLS_RECORD_OVERHEAD);
  assert_int_equal(tls_record_length(wire + consumed), len - consumed);
  struct tls_record record;
  tls_handshake_finish(hs, &record, NULL);
  for (u32 i = 0; i < sizeof test_arena_memory; i++) {
    assert_int_equal(test_arena_memory[i], 0);  // wiped
  }
  static u8 memory[1 << 16] ALIGNED(64);
  struct tls_cipher_cache *cache = tls_cipher_cache_init(span_of(memory, sizeof memory), 8);
  struct span content;
  assert_int_equal(tls_open(&record, cache, span_of(wire + consumed, len - consumed), &content),
                   TLS_OPEN_DATA);
  assert_int_equal(content.len, 5);
  assert_memory_equal(content.ptr, "hello", 5);
  tls_record_fini(&record, cache);
  test_peer_free(&p);
  tls_context_unref(context);
}

static void without_tickets(void **state) {
  (void)state;
  SSL_SESSION_free(test_session);
  test_session = NULL;
  struct tls_context *context = test_context((struct test_server){.no_tickets = true});
  assert_int_equal(shake(context, good_client).step, TLS_STEP_DONE);
  assert_null(test_session);
  tls_context_unref(context);
}

// --- Configurations that are refused

static void problems(void **state) {
  (void)state;
  const struct {
    const char *certificate, *key, *ca, *crl;
    enum tls_input input;
    u32 line;
    const char *reason;
  } all[] = {
      {"server-p256-p256.crt", "client-p256-p256.key", "ca-p256.crt", NULL, TLS_INPUT_KEY, 1,
       "key does not match the certificate"},
      {"server-p256-p256.crt", "encrypted.key", "ca-p256.crt", NULL, TLS_INPUT_KEY, 1,
       "encrypted private key (ENCRYPTED PRIVATE KEY) is not supported"},
      {"server-p256-rsa.crt", "encrypted.trad.key", "ca-p256.crt", NULL, TLS_INPUT_KEY, 1,
       "encrypted private key (RSA PRIVATE KEY) is not supported"},
      {"server-p256-p256.crt", "server-p256-p256.key", "ca-old.crt", NULL, TLS_INPUT_CA, 1,
       "CA expired on 2020-01-01"},
      {"client-p256-expired.crt", "client-p256-expired.key", "ca-p256.crt", NULL,
       TLS_INPUT_CERTIFICATE, 1, "server certificate expired on 2020-01-01"},
      {"server-p256-p256.key", "server-p256-p256.key", "ca-p256.crt", NULL, TLS_INPUT_CERTIFICATE,
       0, "no certificate in this file"},
      {"server-p256-p256.crt", "ca-p256.crt", "ca-p256.crt", NULL, TLS_INPUT_KEY, 0,
       "no private key in this file"},
      {"server-p256-p256.crt", "server-p256-p256.key", "server-p256-p256.crt", NULL, TLS_INPUT_CA,
       1, "this certificate is not a CA (basicConstraints)"},
      {"server-p256-p256.crt", "server-p256-p256.key", "ca-p256.crt", "other.crl", TLS_INPUT_CRL, 1,
       "its issuer is none of the configured CAs"},
      {"server-p256-p256.crt", "server-p256-p256.key", "ca-p256.crt", "twin.crl", TLS_INPUT_CRL, 1,
       "its signature is not by the CA it names"},
      {"server-p256-p256.crt", "server-p256-p256.key", "ca-p256.crt", "ca-p256.crt", TLS_INPUT_CRL,
       0, "no CRL in this file"},
      {"broken-base64.crt", "server-p256-p256.key", "ca-p256.crt", NULL, TLS_INPUT_CERTIFICATE, 3,
       "broken base64"},
      {"ca-p384.crt", "ca-p384.key", "ca-p256.crt", NULL, TLS_INPUT_CERTIFICATE, 1,
       "key of type P-384 is not supported"},
      {"two-lines.crt", "server-p256-p256.key", "ca-p256.crt", NULL, TLS_INPUT_CERTIFICATE, 1,
       "BEGIN without END"},
  };
  u64 heap = tls_heap_used();
  for (u32 i = 0; i < ARRAY_COUNT(all); i++) {
    struct tls_config config = {.certificate = test_file(all[i].certificate),
                                .key = test_file(all[i].key),
                                .ca = test_file(all[i].ca),
                                .require_certificate = true};
    if (all[i].crl != NULL) {
      config.crl = test_file(all[i].crl);
    }
    struct tls_problem problem;
    assert_null(tls_context_new(&config, &test_now, &problem));
    if (problem.input != all[i].input || problem.line != all[i].line ||
        strncmp(problem.reason, all[i].reason, strlen(all[i].reason)) != 0) {
      fail_msg("case %u: input %d line %u: %s", i, (int)problem.input, problem.line,
               problem.reason);
    }
    assert_int_equal(tls_heap_used(), heap);
  }
}

static void key_with_parameters(void **state) {
  (void)state;
  struct tls_context *context =
      test_context((struct test_server){.key = "server-p256-p256.params.key"});
  assert_non_null(context);
  tls_context_unref(context);
}

// A context built with every allocation refused in turn: NULL with a reason, and nothing lost.
static void context_without_memory(void **state) {
  (void)state;
  struct tls_config config = {.certificate = test_file("server-p256-rsa.crt"),
                              .key = test_file("server-p256-rsa.trad.key"),
                              .ca = test_file("ca-p256.crt"),
                              .crl = test_file("revoked.crl"),
                              .require_certificate = true,
                              .tickets = true};
  struct tls_problem problem;
  u64 heap = tls_heap_used();
  for (u32 n = 0; n < 3000; n++) {
    memory_heap()->fail_after = n;
    struct tls_context *context = tls_context_new(&config, &test_now, &problem);
    memory_heap()->fail_after = U32_MAX;
    if (context != NULL) {
      printf("context: %u allocations, %u bytes\n", n, (u32)(tls_heap_used() - heap));
      tls_context_unref(context);
      assert_int_equal(tls_heap_used(), heap);
      return;
    }
    assert_true(problem.input != TLS_INPUT_NONE && problem.reason[0] != 0);
    assert_int_equal(tls_heap_used(), heap);
  }
  fail_msg("no end");
}

int main(void) {
  test_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_made_late),
      cmocka_unit_test(full_and_resumed),
      cmocka_unit_test(refusals),
      cmocka_unit_test(matrix),
      cmocka_unit_test(intermediate_and_plain),
      cmocka_unit_test(changed_ca_key),
      cmocka_unit_test(identity_text),
      cmocka_unit_test(hello_retry),
      cmocka_unit_test(resumption_is_judged),
      cmocka_unit_test(clock_quality),
      cmocka_unit_test(byte_by_byte),
      cmocka_unit_test(cut_at_every_byte),
      cmocka_unit_test(damaged_at_every_byte),
      cmocka_unit_test(allocation_refused),
      cmocka_unit_test(resumption_refused_and_cut),
      cmocka_unit_test(nothing_is_consumed_behind),
      cmocka_unit_test(without_tickets),
      cmocka_unit_test(problems),
      cmocka_unit_test(key_with_parameters),
      cmocka_unit_test(context_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
