// SPDX-License-Identifier: Apache-2.0
// Proves: what users of other brokers have reported about sockets, deadlines and clocks does not
// happen here; one test a kind of fault (docs/conformance.md lists them all).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "broker/state.h"
#include "server/server_test_support.h"

extern u64 unit_unix_ns;

// CONNECT of 5.0 with a keep-alive of 60 s.
static struct tcp_conn *come(u8 name, bool clean) {
  const u8 hello[] = {0x10, 19,   0, 4, 'M', 'Q', 'T', 'T', 5,   (u8)(clean ? 2 : 0), 0, 60,
                      5,    0x11, 0, 0, 3,   0,   0,   1,   name};
  struct tcp_conn *c = open_conn();
  feed(c, hello, sizeof hello);
  turns(3);
  assert_int_equal(c->out[0], 0x20);
  u32 connack_len = 2u + c->out[1];
  c->out_len -= connack_len;  // what came behind it stays
  memmove(c->out, c->out + connack_len, c->out_len);
  return c;
}
static void ping(struct tcp_conn *c) {
  c->out_len = 0;
  feed(c, (const u8[]){0xc0, 0}, 2);
  turns(1);
  assert_int_equal(c->out_len, 2);
  assert_int_equal(c->out[0], 0xd0);
}

static void huge_packet_before_connect(void **state) {  // CVE-2023-0809
  (void)state;
  static const u8 lengths[][6] = {{0x10, 0xff, 0xff, 0xff, 0x7f},
                                  {0x30, 0xff, 0xff, 0xff, 0x7f},
                                  {0x10, 0xa1, 0x8d, 0x06}};  // 100 001 bytes
  for (u32 i = 0; i < ARRAY_COUNT(lengths); i++) {
    struct tcp_conn *c = open_conn();
    feed(c, lengths[i], 5);
    turns(2);
    assert_true(c->closed);  // at its header: no byte of it was waited for
    drop_conn(c);
  }
  assert_int_equal(server_stats(core.server)->connections, 0);
}

static void idle_sockets_are_counted_as_clients(void **state) {  // mosquitto 287, 2761, 3169
  (void)state;
  struct tcp_conn *idle[5];
  for (u32 i = 0; i < ARRAY_COUNT(idle); i++) {
    idle[i] = open_conn();
  }
  turns(2);
  const struct broker_stats *t = broker_stats(core.broker);
  assert_int_equal(t->clients_connected, 0);
  assert_int_equal(t->clients_total, 0);
  struct tcp_conn *c = come('a', true);
  assert_int_equal(t->clients_connected, 1);
  assert_int_equal(t->clients_total, 1);
  for (u32 i = 0; i < ARRAY_COUNT(idle); i++) {
    drop_conn(idle[i]);
  }
  turns(1);
  assert_int_equal(t->clients_connected, 1);
  drop_conn(c);
  turns(1);
  assert_int_equal(t->clients_connected, 0);
}

static void clock_step_that_kicks_everybody(void **state) {  // mosquitto 2205, 3405, 3238
  (void)state;
  const u64 year = 31536000ull * SEC_NS;
  const u64 was = unit_unix_ns;
  struct tcp_conn *c = come('a', true);
  for (u32 i = 0; i < 4; i++) {
    unit_unix_ns = i % 2 == 0 ? was + 10 * year : was - 10 * year;
    unit_now_ns += 30 * SEC_NS;
    turns(2);
    assert_false(c->closed);
    ping(c);
  }
  unit_now_ns += 91 * SEC_NS;  // and who is silent is ended as ever
  turns(2);
  assert_true(c->closed);
  drop_conn(c);
  unit_unix_ns = was;
}

// Connections that say nothing hold every place: the next one is refused at once, nothing spins,
// and their deadline gives the places back.
static void every_place_is_taken(void **state) {  // mosquitto 948, emqx 2960
  (void)state;
  struct tcp_conn *idle[64];
  void *user;
  for (u32 i = 0; i < ARRAY_COUNT(idle); i++) {
    idle[i] = open_conn();
  }
  turns(2);
  struct tcp_conn late = {.room = 65536};
  assert_false(ops->accept(listener, &late, &user));
  assert_false(loop_turn(&core));  // nothing to do: the core sleeps
  unit_now_ns += 11 * SEC_NS;
  turns(3);
  for (u32 i = 0; i < ARRAY_COUNT(idle); i++) {
    assert_true(idle[i]->closed);
    drop_conn(idle[i]);
  }
  struct tcp_conn *c = come('a', true);
  ping(c);
  drop_conn(c);
}

// A session comes back to a long backlog: whoever else is there is served in every turn of it.
static void backlog_that_starves_the_others(void **state) {  // mosquitto 174
  (void)state;
  static u8 packet[4100];
  const u32 messages = 800;
  struct tcp_conn *away = come('a', true);
  feed(away, (const u8[]){0x82, 7, 0, 1, 0, 0, 1, 't', 1}, 9);
  turns(2);
  drop_conn(away);
  struct tcp_conn *from = come('p', true);
  for (u32 i = 0; i < messages; i++) {
    struct writer w = writer_init(span_of(packet, sizeof packet));
    struct mqtt_publish_out o = {
        .qos = 1, .packet_id = 1, .topic = BYTES_LIT("t"), .payload_len = 4000};
    mqtt_encode_publish_head(&w, MQTT_V5, &o);
    feed(from, packet, w.pos + 4000);
    turns(2);
    from->piece_at = from->piece_count = 0;  // all was read
    from->out_len = 0;
  }
  struct tcp_conn *other = come('o', true);
  core.broker->limits.session_inflight_max = 1000;
  away = come('a', false);
  u32 turns_taken = 0;
  u32 got = away->out_len;
  away->out_len = 0;
  for (; turns_taken < 3000 && got < messages * 4000; turns_taken++) {
    ping(other);
    other->piece_at = other->piece_count = 0;
    got += away->out_len;
    away->out_len = 0;
    away->room = 65536;
    ops->writable(away->user, away);
  }
  assert_true(got >= messages * 4000);
  assert_true(turns_taken > 10);  // it did not all come in one
  drop_conn(away);
  drop_conn(other);
  drop_conn(from);
}

static int group_setup(void **state) {
  (void)state;
  start_server(16u << 20);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(huge_packet_before_connect),
      cmocka_unit_test(idle_sockets_are_counted_as_clients),
      cmocka_unit_test(clock_step_that_kicks_everybody),
      cmocka_unit_test(every_place_is_taken),
      cmocka_unit_test(backlog_that_starves_the_others),
  };
  return cmocka_run_group_tests(tests, group_setup, NULL);
}
