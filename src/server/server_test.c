// SPDX-License-Identifier: Apache-2.0
// Proves: a stream of packets means the same however it is cut; deadlines and keep-alive end whom
// they should and nobody else; nothing is pulled beyond tcp's room or without a buffer, and it goes
// on when there is room again; a DISCONNECT stands between packets only; draining ends everybody.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/state.h"
#include "server/server_test_support.h"

// CONNECT "t" (5.0), SUBSCRIBE a, PUBLISH a "hello" QoS 1, PINGREQ.
static const u8 stream[] = {0x10, 14,  0,    4, 'M', 'Q', 'T', 'T', 5,   2,   0,    60,   0,  0,
                            1,    't', 0x82, 7, 0,   1,   0,   0,   1,   'a', 0,    0x32, 11, 0,
                            1,    'a', 0,    7, 0,   'h', 'e', 'l', 'l', 'o', 0xc0, 0};
#define CONNECT_LEN 16u

static struct tcp_conn *connected(void) {
  struct tcp_conn *c = open_conn();
  feed(c, stream, CONNECT_LEN);
  turns(3);
  assert_true(c->out_len > 4);
  assert_int_equal(c->out[0], 0x20);
  c->out_len = 0;
  return c;
}

static void the_stream_means_the_same_however_cut(void **state) {
  (void)state;
  u8 whole[256];
  u32 whole_len = 0;
  for (u32 a = 0; a <= sizeof stream; a++) {
    for (u32 b = a; b <= sizeof stream; b++) {
      struct tcp_conn *c = open_conn();
      feed(c, stream, a);
      turns(1);
      feed(c, stream + a, b - a);
      turns(1);
      feed(c, stream + b, (u32)sizeof stream - b);
      turns(3);
      if (whole_len == 0) {
        whole_len = c->out_len;
        memcpy(whole, c->out, whole_len);
        assert_true(whole_len > 30);
      }
      assert_int_equal(c->out_len, whole_len);
      assert_false(c->closed);
      drop_conn(c);
    }
  }
  assert_int_equal(server_stats(core.server)->connections, 0);
}

// [MQTT-3.14.0-1]
static void a_connection_without_connect_is_ended(void **state) {
  (void)state;
  struct tcp_conn *c = open_conn();
  turns(1);
  unit_now_ns += 9 * SEC_NS;
  turns(2);
  assert_false(c->closed);
  unit_now_ns += 2 * SEC_NS;
  turns(2);
  assert_true(c->closed);
  assert_int_equal(c->out_len, 0);
  drop_conn(c);
}

// [MQTT-3.1.2-22] [MQTT-3.2.2-22] [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT-4.13.1-1]
static void keep_alive_is_one_and_a_half(void **state) {
  (void)state;
  struct tcp_conn *quiet = connected();
  unit_now_ns += 60 * SEC_NS;
  turns(2);
  feed(quiet, stream + sizeof stream - 2, 2);  // a ping
  turns(2);
  assert_int_equal(quiet->out[0], 0xd0);
  unit_now_ns += 89 * SEC_NS;
  turns(2);
  assert_false(quiet->closed);
  quiet->out_len = 0;
  unit_now_ns += 2 * SEC_NS;
  turns(2);
  assert_true(quiet->closed);
  assert_int_equal(quiet->out_len, quiet->out[1] + 2);
  assert_int_equal(quiet->out[0], 0xe0);
  assert_int_equal(quiet->out[2], MQTT_KEEP_ALIVE_TIMEOUT);
  drop_conn(quiet);
}

// Publishes `len` bytes on topic a over a second connection.
static struct tcp_conn *publish_big(u32 len) {
  static const u8 hello[] = {0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 60, 0, 0, 1, 'p'};
  struct tcp_conn *p = open_conn();
  feed(p, hello, sizeof hello);
  turns(2);
  u8 *packet = malloc(len + 16);
  struct writer w = writer_init(span_of(packet, len + 16));
  struct mqtt_publish_out o = {.topic = BYTES_LIT("a"), .payload_len = len};
  mqtt_encode_publish_head(&w, MQTT_V5, &o);
  memset(packet + w.pos, 'x', len);
  feed(p, packet, w.pos + len);
  free(packet);
  turns(2);
  return p;
}

static void output_keeps_to_the_room(void **state) {
  (void)state;
  struct tcp_conn *c = connected();
  feed(c, stream + CONNECT_LEN, 9);  // SUBSCRIBE
  turns(2);
  c->out_len = 0;
  c->room = 1000;
  struct tcp_conn *p = publish_big(20000);
  turns(5);
  assert_true(c->out_len <= 1000);
  assert_true(c->out_len > 800);
  for (u32 i = 0; i < 100 && c->out_len < 20008; i++) {
    c->room = 1000;
    u32 before = c->out_len;
    ops->writable(c->user, c);
    turns(1);
    assert_true(c->out_len - before <= 1000);
  }
  assert_int_equal(c->out_len, 20008);  // 1 + 3 + 2 + 1 + 1 before the payload
  drop_conn(p);
  drop_conn(c);
}

static void without_buffers_it_waits(void **state) {
  (void)state;
  struct tcp_conn *c = connected();
  no_buffers = true;
  feed(c, stream + sizeof stream - 2, 2);
  turns(5);
  assert_int_equal(c->out_len, 0);
  no_buffers = false;
  unit_now_ns += 20 * MS_NS;
  turns(2);
  assert_int_equal(c->out_len, 2);
  drop_conn(c);
}

static void disconnect_stands_between_packets_only(void **state) {
  (void)state;
  struct tcp_conn *c = connected();
  feed(c, stream + CONNECT_LEN, 9);
  turns(2);
  c->out_len = 0;
  c->room = 1000;
  struct tcp_conn *p = publish_big(20000);
  turns(3);
  u32 before = c->out_len;
  assert_true(before > 0 && before < 20000);
  feed(c, (const u8 *)"\x20\x02\0\0", 4);  // a CONNACK: a protocol error in the middle of a packet
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out_len, before);
  drop_conn(p);
  drop_conn(c);
}

static void a_reset_with_disconnect_before_it_is_a_goodbye(void **state) {
  (void)state;
  struct tcp_conn *c = connected();
  feed(c, (const u8 *)"\xe0\0", 2);
  ops->ended(c->user, c, TCP_END_RESET);  // in the same turn
  c->closed = true;
  turns(2);
  assert_int_equal(c->readable, 0);
  drop_conn(c);
}

static void a_client_is_read_at_its_rate(void **state) {
  (void)state;
  struct broker_limits *l = &core.broker->limits;
  l->session_message_rate = 10;
  struct tcp_conn *c = connected();
  static const u8 publish[] = {0x32, 7, 0, 1, 'r', 0, 9, 0, 'x'};
  for (u32 i = 0; i < 25; i++) {
    feed(c, publish, sizeof publish);
  }
  turns(3);
  assert_int_equal(c->out_len, 11 * 5);  // a second's worth at once, PUBACKs with 0x10
  assert_true(c->readable > 0);
  u32 seconds = 0;
  for (; c->out_len < 25 * 5 && seconds < 100; seconds++) {
    unit_now_ns += SEC_NS / 10;
    turns(3);
    assert_true(c->out_len <= (11 + seconds + 1) * 5);
  }
  assert_int_equal(c->out_len, 25 * 5);
  assert_int_equal(seconds, 14);
  unit_now_ns += 60 * SEC_NS;
  turns(3);
  assert_false(c->closed);
  l->session_message_rate = 0;
  l->session_byte_rate = 90;  // ten such packets
  struct session *s = session_find(core.broker, BYTES_LIT("t"));
  assert_true(broker_publish_at(s) < unit_now_ns);
  c->out_len = 0;
  for (u32 i = 0; i < 25; i++) {
    feed(c, publish, sizeof publish);
  }
  turns(3);
  assert_int_equal(c->out_len, 11 * 5);
  unit_now_ns += 90 * SEC_NS;  // beyond the keep-alive, but it was we who did not read
  turns(3);
  assert_false(c->closed);
  assert_int_equal(c->out_len, 22 * 5);
  l->session_byte_rate = 0;
  drop_conn(c);
}

static bool has_text(const struct tcp_conn *c, const char *text) {
  usize n = strlen(text);
  for (u32 i = 0; i + n <= c->out_len; i++) {
    if (memcmp(c->out + i, text, n) == 0) {
      return true;
    }
  }
  return false;
}

// [MQTT-3.1.4-6] [MQTT-3.2.2-7] [MQTT-3.2.2-19] [MQTT-4.13.2-1]
static void a_listener_sends_elsewhere_and_chooses_versions(void **state) {
  (void)state;
  struct server_listener *l = listener;
  l->config.redirect = MQTT_SERVER_MOVED;
  l->config.server_reference = BYTES_LIT("there:8883");
  struct tcp_conn *c = open_conn();
  feed(c, stream, CONNECT_LEN);
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out[0], 0x20);
  assert_int_equal(c->out[3], MQTT_SERVER_MOVED);
  assert_true(has_text(c, "there:8883") && has_text(c, "server moved"));
  drop_conn(c);
  u8 narrow[CONNECT_LEN + 5];  // the same with maximum packet size 20: neither text fits
  memcpy(narrow, stream, CONNECT_LEN);
  memcpy(narrow + 12, "\x05\x27\0\0\0\x14\0\x01t", 9);
  narrow[1] = 19;
  c = open_conn();
  feed(c, narrow, sizeof narrow);
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out_len, 5);
  assert_int_equal(c->out[3], MQTT_SERVER_MOVED);
  drop_conn(c);
  narrow[17] = 4;  // nor does any CONNACK
  c = open_conn();
  feed(c, narrow, sizeof narrow);
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out_len, 0);
  drop_conn(c);
  l->config.redirect = MQTT_SUCCESS;
  l->config.server_reference = bytes_of(NULL, 0);
  l->config.versions = 1 << MQTT_V4;
  c = open_conn();
  feed(c, stream, CONNECT_LEN);
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out[3], MQTT_UNSUPPORTED_VERSION);
  l->config.versions = 0;
  drop_conn(c);
}

// [MQTT-3.1.0-2] [MQTT-3.1.4-1] [MQTT-3.1.4-2] [MQTT-3.2.0-2] [MQTT-3.14.2-2] [MQTT-3.14.2-3]
// 3.1.1 [MQTT-3.2.2-6]
static void connects_that_end_the_connection(void **state) {
  (void)state;
  u8 hello[CONNECT_LEN + 5];  // maximum packet size 12: DISCONNECT without its reason string
  memcpy(hello, stream, CONNECT_LEN);
  memcpy(hello + 12, "\x05\x27\0\0\0\x28\0\x01t", 9);
  hello[1] = 19;
  struct tcp_conn *c = open_conn();
  feed(c, hello, sizeof hello);
  turns(2);
  assert_int_equal(c->out[0], 0x20);
  assert_int_equal(c->out[3], 0);
  c->out_len = 0;
  feed(c, hello, sizeof hello);
  turns(2);
  assert_true(c->closed);
  assert_int_equal(c->out[0], 0xe0);  // and no second CONNACK
  assert_int_equal(c->out[2], MQTT_PROTOCOL_ERROR);
  struct mqtt_disconnect d;
  assert_int_equal(mqtt_decode_disconnect(MQTT_V5, bytes_of(c->out, c->out_len), &d), 0);
  assert_false(mqtt_has(&d.props, MQTT_P_SESSION_EXPIRY));
  assert_true(c->out_len <= 40);
  drop_conn(c);
  for (u8 v = 4; v <= 5; v++) {  // a reserved flag: 5.0 says why, 3.1.1 has no code for it
    memcpy(hello, stream, CONNECT_LEN);
    hello[8] = v;
    hello[9] = 3;
    c = open_conn();
    feed(c, hello, CONNECT_LEN);
    turns(2);
    assert_true(c->closed);
    assert_int_equal(c->out_len > 0, v == 5);
    drop_conn(c);
  }
}

static void a_length_too_long_is_malformed_in_5_only(void **state) {
  (void)state;
  for (u8 v = 4; v <= 5; v++) {
    u8 hello[CONNECT_LEN];
    memcpy(hello, stream, sizeof hello);
    hello[8] = v;
    struct tcp_conn *c = open_conn();
    if (v == 4) {  // without the property length
      hello[1] = 13;
      hello[12] = 0;
      hello[13] = 1;
      hello[14] = 't';
    }
    feed(c, hello, v == 4 ? sizeof hello - 1 : sizeof hello);
    turns(2);
    assert_int_equal(c->out[0], 0x20);
    c->out_len = 0;
    feed(c, (const u8 *)"\xc0\x80\0", 3);
    turns(2);
    assert_int_equal(c->closed, v == 5);
    assert_int_equal(c->out[0], v == 5 ? 0xe0 : 0xd0);
    drop_conn(c);
  }
}

static void a_listener_accepts_at_its_rate(void **state) {
  (void)state;
  struct server_listener *l = listener;
  l->config.connection_rate = 5;
  struct tcp_conn *c[5];
  for (u32 i = 0; i < 5; i++) {
    c[i] = open_conn();
  }
  struct tcp_conn more = {.room = 1};
  assert_false(ops->accept(listener, &more, &more.user));
  unit_now_ns += SEC_NS / 5;
  turns(1);
  struct tcp_conn *sixth = open_conn();
  assert_false(ops->accept(listener, &more, &more.user));
  l->config.connection_rate = 0;
  for (u32 i = 0; i < 5; i++) {
    drop_conn(c[i]);
  }
  drop_conn(sixth);
}

static void draining_ends_everybody(void **state) {  // the last test: nobody comes in afterwards
  (void)state;
  struct tcp_conn *a = connected();
  struct tcp_conn *b = open_conn();
  assert_false(server_drain(core.server));
  turns(2);
  assert_true(server_drain(core.server));
  assert_true(a->closed && b->closed);
  assert_int_equal(a->out[2], MQTT_SERVER_SHUTTING_DOWN);
  assert_int_equal(b->out_len, 0);
  struct tcp_conn late = {.room = 1};
  assert_false(ops->accept(listener, &late, &late.user));
  drop_conn(a);
  drop_conn(b);
}

int main(void) {
  start_server(32u << 20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_stream_means_the_same_however_cut),
      cmocka_unit_test(a_connection_without_connect_is_ended),
      cmocka_unit_test(keep_alive_is_one_and_a_half),
      cmocka_unit_test(output_keeps_to_the_room),
      cmocka_unit_test(without_buffers_it_waits),
      cmocka_unit_test(disconnect_stands_between_packets_only),
      cmocka_unit_test(a_reset_with_disconnect_before_it_is_a_goodbye),
      cmocka_unit_test(a_client_is_read_at_its_rate),
      cmocka_unit_test(a_listener_sends_elsewhere_and_chooses_versions),
      cmocka_unit_test(connects_that_end_the_connection),
      cmocka_unit_test(a_length_too_long_is_malformed_in_5_only),
      cmocka_unit_test(a_listener_accepts_at_its_rate),
      cmocka_unit_test(draining_ends_everybody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
