// SPDX-License-Identifier: Apache-2.0
// Proves: as a client we take only a server whose chain ends in the configured CA, whose dates and
// purpose fit and which is named as we asked; that a certificate of ours is shown when wanted; that
// records flow both ways afterwards, also past tickets in any cut; and every allocation may fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tls/tls_test_support.h"

static u8 client_arena[TLS_ARENA_BYTES] ALIGNED(64);
static u8 to_server[TEST_FLIGHT], to_client[TEST_FLIGHT];
static u32 to_server_len, to_client_len;

struct ends {
  enum tls_step client, server;
  struct tls_failure failure;  // the client's
  struct tls_record client_record, server_record;
  struct tls_identity identity;  // of the client, as the server sees it
};

static struct tls_context *client_context(const char *certificate, const char *key,
                                          const char *ca) {
  struct tls_config config = {.client = true, .ca = test_file(ca), .alpn = BYTES_LIT("mqtt")};
  struct tls_problem problem;
  if (certificate != NULL) {
    config.certificate = test_file(certificate);
    config.key = test_file(key);
  }
  struct tls_context *c = tls_context_new(&config, &test_now, &problem);
  if (c == NULL) {
    fail_msg("%s", problem.reason);
  }
  return c;
}

// One step of one end: takes what the other sent, at most `chunk` bytes at once.
static enum tls_step step(struct tls_handshake *hs, u8 *in, u32 *in_len, u8 *out, u32 *out_len,
                          u32 chunk) {
  u32 consumed = 0;
  u32 produced = 0;
  enum tls_step s = tls_handshake_step(hs, bytes_of(in, MIN(*in_len, chunk)), &consumed,
                                       span_of(out + *out_len, TEST_FLIGHT - *out_len), &produced);
  memmove(in, in + consumed, *in_len - consumed);
  *in_len -= consumed;
  *out_len += produced;
  return s;
}

static void shake(struct ends *e, struct tls_context *cc, struct tls_context *sc,
                  struct tls_time now, const char *host, bool any_name, u32 chunk, u32 fail_after) {
  *e = (struct ends){.client = TLS_STEP_WANT_INPUT, .server = TLS_STEP_WANT_INPUT};
  to_server_len = to_client_len = 0;
  struct tls_handshake *c = tls_handshake_begin_client(
      cc, span_of(client_arena, sizeof client_arena), &now, bytes_str(host), any_name);
  struct tls_handshake *s =
      tls_handshake_begin(sc, span_of(test_arena_memory, sizeof test_arena_memory), &now);
  handshake_fail_after(c, fail_after);
  for (u32 turn = 0; turn < 20000; turn++) {
    if (e->client <= TLS_STEP_WANT_OUTPUT) {
      e->client = step(c, to_client, &to_client_len, to_server, &to_server_len, chunk);
    }
    if (e->server <= TLS_STEP_WANT_OUTPUT && to_server_len > 0) {
      e->server = step(s, to_server, &to_server_len, to_client, &to_client_len, chunk);
    }
    bool waits = e->client != TLS_STEP_WANT_INPUT || to_client_len == 0;
    if (waits && to_server_len == 0) {
      break;
    }
    if (e->client == TLS_STEP_FAILED && e->server != TLS_STEP_WANT_INPUT) {
      break;
    }
  }
  if (e->client == TLS_STEP_FAILED) {
    e->failure = tls_handshake_failure(c);
  }
  if (e->client == TLS_STEP_DONE && e->server == TLS_STEP_DONE) {
    tls_handshake_finish(c, &e->client_record, NULL);
    tls_handshake_finish(s, &e->server_record, &e->identity);
  } else {
    tls_handshake_abort(c);
    tls_handshake_abort(s);
  }
}

static struct tls_cipher_cache *cache(void) {
  static struct tls_cipher_cache *c;
  static u8 memory[65536] ALIGNED(64);
  if (c == NULL) {
    assert_true(tls_cipher_cache_bytes(8) <= sizeof memory);
    c = tls_cipher_cache_init(span_of(memory, sizeof memory), 8);
  }
  return c;
}

// A message from one record layer to the other.
static void carry(struct tls_record *from, struct tls_record *to, const char *text) {
  u8 wire[256];
  u32 len = (u32)strlen(text);
  struct span content;
  memcpy(wire + TLS_RECORD_HEAD, text, len);
  u32 n = tls_seal(from, cache(), span_of(wire, sizeof wire), len, TLS_CONTENT_DATA);
  assert_int_equal(tls_open(to, cache(), span_of(wire, n), &content), TLS_OPEN_DATA);
  assert_int_equal(content.len, len);
  assert_memory_equal(content.ptr, text, len);
}

// What the server sent behind its Finished: its ticket.
static void take_tickets(struct ends *e) {
  u32 at = 0;
  while (at < to_client_len) {
    struct span content;
    u32 len = tls_record_length(to_client + at);
    assert_true(len > 0 && len <= to_client_len - at);
    assert_int_equal(tls_open(&e->client_record, cache(), span_of(to_client + at, len), &content),
                     TLS_OPEN_NOTHING);
    at += len;
  }
}

static void a_good_server(void **state) {
  (void)state;
  struct tls_context *sc = test_context((struct test_server){.alpn = true});
  struct tls_context *cc =
      client_context("client-p256-p256.crt", "client-p256-p256.key", "ca-p256.crt");
  for (u32 chunk = 7; chunk <= TEST_FLIGHT; chunk *= 9) {
    struct ends e;
    shake(&e, cc, sc, test_now, "localhost", false, chunk, U32_MAX);
    assert_int_equal(e.client, TLS_STEP_DONE);
    assert_int_equal(e.server, TLS_STEP_DONE);
    assert_true(e.identity.has_certificate && e.identity.alpn_mqtt);
    assert_memory_equal(e.identity.text + e.identity.cn.off, "device-p256-p256", 16);
    assert_true(to_client_len > 0);
    take_tickets(&e);
    carry(&e.client_record, &e.server_record, "to the server");
    carry(&e.server_record, &e.client_record, "to the client");
    u8 wire[64];
    u32 n = tls_seal_key_update(&e.server_record, cache(), span_of(wire, sizeof wire), true);
    struct span content;
    assert_int_equal(tls_open(&e.client_record, cache(), span_of(wire, n), &content),
                     TLS_OPEN_KEY_UPDATE_REPLY);
    carry(&e.server_record, &e.client_record, "with new keys");
    tls_record_fini(&e.client_record, cache());
    tls_record_fini(&e.server_record, cache());
  }
  tls_context_unref(cc);
  tls_context_unref(sc);
}

static void rsa_and_no_certificate_of_ours(void **state) {
  (void)state;
  struct tls_context *sc = test_context((struct test_server){
      .certificate = "server-rsa-rsa.crt", .key = "server-rsa-rsa.key", .open = true});
  struct tls_context *cc = client_context(NULL, NULL, "ca-rsa.crt");
  struct ends e;
  shake(&e, cc, sc, test_now, "127.0.0.1", false, TEST_FLIGHT, U32_MAX);
  assert_int_equal(e.client, TLS_STEP_DONE);
  assert_int_equal(e.server, TLS_STEP_DONE);
  assert_false(e.identity.has_certificate);
  tls_record_fini(&e.client_record, cache());
  tls_record_fini(&e.server_record, cache());
  tls_context_unref(cc);
  tls_context_unref(sc);
}

static void refused_servers(void **state) {
  (void)state;
  static const struct tls_time later = {2600000000u, 2600000000u, true};  // 2052
  static const struct {
    const char *certificate, *key, *ca, *host;
    bool any_name, late;
    enum tls_reason reason;
  } cases[] = {
      {NULL, NULL, "ca-p256.crt", "example.org", false, false, TLS_REASON_WRONG_NAME},
      {NULL, NULL, "ca-p256.crt", "localhost.", false, false, TLS_REASON_WRONG_NAME},
      {NULL, NULL, "ca-p256.crt", "127.0.0.2", false, false, TLS_REASON_WRONG_NAME},
      {NULL, NULL, "ca-p256.crt", "example.org", true, false, TLS_REASON_NONE},
      {NULL, NULL, "ca-rsa.crt", "localhost", false, false, TLS_REASON_UNKNOWN_CA},
      {NULL, NULL, "other.crt", "localhost", true, false, TLS_REASON_UNKNOWN_CA},
      {NULL, NULL, "ca-p256.crt", "localhost", false, true, TLS_REASON_EXPIRED},
      // A client's certificate cannot be a server's.
      {"client-p256-p256.crt", "client-p256-p256.key", "ca-p256.crt", "localhost", true, false,
       TLS_REASON_BAD_CERTIFICATE},
  };
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    struct tls_context *sc = test_context((struct test_server){
        .certificate = cases[i].certificate, .key = cases[i].key, .open = true});
    struct tls_context *cc = client_context(NULL, NULL, cases[i].ca);
    struct ends e;
    shake(&e, cc, sc, cases[i].late ? later : test_now, cases[i].host, cases[i].any_name,
          TEST_FLIGHT, U32_MAX);
    if (cases[i].reason == TLS_REASON_NONE) {
      assert_int_equal(e.client, TLS_STEP_DONE);
      tls_record_fini(&e.client_record, cache());
      tls_record_fini(&e.server_record, cache());
    } else {
      assert_int_equal(e.client, TLS_STEP_FAILED);
      if (e.failure.reason != cases[i].reason) {
        fail_msg("case %u: %s", i, e.failure.text);
      }
      assert_int_equal(e.server, TLS_STEP_FAILED);
    }
    tls_context_unref(cc);
    tls_context_unref(sc);
  }
}

static void a_certificate_that_is_wanted(void **state) {
  (void)state;
  struct tls_context *sc = test_context((struct test_server){.alpn = false});
  struct tls_context *cc = client_context(NULL, NULL, "ca-p256.crt");
  struct ends e;
  shake(&e, cc, sc, test_now, "localhost", false, TEST_FLIGHT, U32_MAX);
  // The client is done before the server has judged it (RFC 8446 4.4.4): it hears by an alert.
  assert_int_equal(e.server, TLS_STEP_FAILED);
  tls_context_unref(cc);
  tls_context_unref(sc);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  struct tls_context *sc = test_context((struct test_server){.alpn = true});
  struct tls_context *cc =
      client_context("client-p256-p256.crt", "client-p256-p256.key", "ca-p256.crt");
  u32 failed = 0;
  for (u32 n = 0; n < 3000; n++) {
    struct ends e;
    shake(&e, cc, sc, test_now, "localhost", false, TEST_FLIGHT, n);
    if (e.client == TLS_STEP_DONE) {
      tls_record_fini(&e.client_record, cache());
      tls_record_fini(&e.server_record, cache());
      break;
    }
    assert_int_equal(e.client, TLS_STEP_FAILED);
    failed++;
  }
  assert_in_range(failed, 50, 2999);
  tls_context_unref(cc);
  tls_context_unref(sc);
}

// Handshake messages behind the handshake, from a server, in records cut at every place.
static void tickets_in_pieces(void **state) {
  (void)state;
  static const u8 messages[] = {4, 0, 0, 5, 1, 2, 3, 4, 5, 4, 0, 0, 0, 24, 0, 0, 1, 0};
  for (u32 a = 0; a <= sizeof messages; a++) {
    for (u32 b = a; b <= sizeof messages; b++) {
      struct tls_record server = {.cipher_suite = 0x1301};
      struct tls_record client = {.cipher_suite = 0x1301, .from_server = true};
      memset(server.write.secret, 3, 32);
      memset(client.read.secret, 3, 32);
      memset(server.read.secret, 4, 32);
      memset(client.write.secret, 4, 32);
      tls_record_start(&server);
      tls_record_start(&client);
      const u32 cut[] = {0, a, b, sizeof messages};
      for (u32 i = 0; i < 3; i++) {
        u8 wire[128];
        struct span content;
        u32 len = cut[i + 1] - cut[i];
        if (len == 0) {
          continue;
        }
        memcpy(wire + TLS_RECORD_HEAD, messages + cut[i], len);
        u32 n = tls_seal(&server, cache(), span_of(wire, sizeof wire), len, TLS_CONTENT_HANDSHAKE);
        assert_int_equal(tls_open(&client, cache(), span_of(wire, n), &content), TLS_OPEN_NOTHING);
      }
      assert_int_equal(client.read.epoch, 1);
      tls_record_fini(&client, cache());
      tls_record_fini(&server, cache());
    }
  }
}

static void a_ticket_cut_by_data_is_refused(void **state) {
  (void)state;
  for (u32 len = 1; len < 9; len++) {
    static const u8 ticket[] = {4, 0, 0, 5, 1, 2, 3, 4, 5};
    struct tls_record server = {.cipher_suite = 0x1301};
    struct tls_record client = {.cipher_suite = 0x1301, .from_server = true};
    memset(server.write.secret, 3, 32);
    memset(client.read.secret, 3, 32);
    tls_record_start(&server);
    tls_record_start(&client);
    u8 wire[128];
    struct span content;
    memcpy(wire + TLS_RECORD_HEAD, ticket, len);
    u32 n = tls_seal(&server, cache(), span_of(wire, sizeof wire), len, TLS_CONTENT_HANDSHAKE);
    assert_int_equal(tls_open(&client, cache(), span_of(wire, n), &content), TLS_OPEN_NOTHING);
    n = tls_seal(&server, cache(), span_of(wire, sizeof wire), 1, TLS_CONTENT_DATA);
    assert_int_equal(tls_open(&client, cache(), span_of(wire, n), &content), TLS_OPEN_FAILED);
    assert_int_equal(client.alert, TLS_ALERT_UNEXPECTED_MESSAGE);
    tls_record_fini(&client, cache());
    tls_record_fini(&server, cache());
  }
}

int main(void) {
  test_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_good_server),
      cmocka_unit_test(rsa_and_no_certificate_of_ours),
      cmocka_unit_test(refused_servers),
      cmocka_unit_test(a_certificate_that_is_wanted),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(tickets_in_pieces),
      cmocka_unit_test(a_ticket_cut_by_data_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
