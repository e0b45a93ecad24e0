// SPDX-License-Identifier: Apache-2.0
// Proves: the ticket waits one turn for the CONNACK and goes out with it, or alone when no CONNECT
// comes; whatever ends the connection in between, nothing of it is lost, doubled or out of order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/server_test_support.h"
#include "tls/tls_test_support.h"

static const u8 hello[] = "\x10\x12\0\4MQTT\4\2\0\0\0\6device";

// What the server has sent goes to the client.
static u32 to_client(struct tcp_conn *c, struct test_peer *p) {
  u32 len = c->out_len;
  BIO_write(p->in, c->out, (int)len);
  c->out_len = 0;
  return len;
}
static void to_server(struct tcp_conn *c, struct test_peer *p) {
  static u8 wire[TEST_FLIGHT];
  int n = BIO_read(p->out, wire, sizeof wire);
  feed(c, wire, n > 0 ? (u32)n : 0);
}

// A connection whose client has sent Finished, the turn of it done.
static struct tcp_conn *finished(struct test_peer *p) {
  struct tcp_conn *c = open_conn();
  SSL_SESSION_free(test_session);
  test_session = NULL;
  *p = test_peer(
      (struct test_client){.certificate = "client-p256-p256.crt", .key = "client-p256-p256.key"});
  SSL_do_handshake(p->ssl);
  to_server(c, p);
  turns(1);
  assert_true(to_client(c, p) > 500);
  assert_int_equal(SSL_do_handshake(p->ssl), 1);
  to_server(c, p);
  turns(1);
  assert_int_equal(c->out_len, 0);  // held
  return c;
}

static void the_ticket_goes_with_the_connack(void **state) {
  (void)state;
  struct test_peer p;
  struct tcp_conn *c = finished(&p);
  u8 answer[8];
  SSL_write(p.ssl, hello, sizeof hello - 1);
  to_server(c, &p);
  turns(1);
  assert_true(to_client(c, &p) > 600);  // the client's chain is in the ticket
  assert_int_equal(SSL_read(p.ssl, answer, sizeof answer), 4);
  assert_memory_equal(answer, "\x20\2\0\0", 4);
  assert_non_null(test_session);
  turns(3);
  assert_int_equal(c->out_len, 0);  // once
  drop_conn(c);
  test_peer_free(&p);
}

static void without_connect_it_goes_alone(void **state) {
  (void)state;
  struct test_peer p;
  struct tcp_conn *c = finished(&p);
  u8 answer[8];
  turns(1);
  assert_true(to_client(c, &p) > 600);
  assert_true(SSL_read(p.ssl, answer, sizeof answer) <= 0);
  assert_non_null(test_session);
  SSL_write(p.ssl, hello, sizeof hello - 1);  // and the CONNACK follows
  to_server(c, &p);
  turns(1);
  assert_in_range(to_client(c, &p), 4, 100);
  assert_int_equal(SSL_read(p.ssl, answer, sizeof answer), 4);
  drop_conn(c);
  test_peer_free(&p);
}

static void a_reset_gives_it_back(void **state) {
  (void)state;
  struct test_peer p;
  u32 names = core.server->names.free_count;
  struct tcp_conn *c = finished(&p);
  assert_int_equal(core.server->names.free_count, names - 1);
  drop_conn(c);  // LeakSanitizer finds the buffer if it is forgotten
  turns(1);
  assert_int_equal(core.server->names.free_count, names);
  assert_int_equal(server_stats(core.server)->connections, 0);
  test_peer_free(&p);
}

static void an_alert_comes_behind_it(void **state) {
  (void)state;
  struct test_peer p;
  u8 forged[40] = {23, 3, 3, 0, 35};
  u8 answer[8];
  struct tcp_conn *c = finished(&p);
  feed(c, forged, sizeof forged);  // does not open under the client's key
  turns(1);
  assert_true(c->closed);
  test_client_alert = 0;
  SSL_set_info_callback(p.ssl, test_on_info);
  assert_true(to_client(c, &p) > 600);
  assert_true(SSL_read(p.ssl, answer, sizeof answer) <= 0);
  assert_non_null(test_session);
  assert_int_equal(test_client_alert, TLS_ALERT_BAD_RECORD_MAC);
  drop_conn(c);
  test_peer_free(&p);
}

int main(void) {
  test_start();
  test_listener.tls = test_context((struct test_server){.chains = 16});
  assert_non_null(test_listener.tls);
  start_server(64u << 20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_ticket_goes_with_the_connack),
      cmocka_unit_test(without_connect_it_goes_alone),
      cmocka_unit_test(a_reset_gives_it_back),
      cmocka_unit_test(an_alert_comes_behind_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
