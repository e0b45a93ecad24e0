// SPDX-License-Identifier: Apache-2.0
// Proves: a bridge says CONNECT, SUBSCRIBE and its messages byte for byte as mosquitto's bridges
// do; what the other broker sends means the same however it is cut; a broker that refuses the mark
// of a bridge is asked without it; what is malformed ends the connection and nothing else; what
// waits while it is away comes afterwards, in order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/bridge_inner.h"
#include "server/server_test_support.h"

static const struct bridge_topic topics[] = {
    {.pattern = {(const u8 *)"#", 1},
     .local_prefix = {(const u8 *)"l/", 2},
     .remote_prefix = {(const u8 *)"r/", 2},
     .direction = BRIDGE_TOPIC_OUT | BRIDGE_TOPIC_IN,
     .qos = 2},
};

static struct bridge_config config_of(u8 version) {
  struct bridge_config k = {.name = BYTES_LIT("b"),
                            .address_count = 1,
                            .client_id = BYTES_LIT("me"),
                            .local_client_id = BYTES_LIT("local.me"),
                            .topics = topics,
                            .topic_count = 1,
                            .version = version,
                            .try_private = true,
                            .outgoing_retain = true,
                            .keep_alive_s = 60,
                            .restart_base_s = 1,
                            .restart_cap_s = 1};
  k.address[0].host = BYTES_LIT("192.0.2.1");
  k.address[0].port = 1883;
  return k;
}

// The bridge opens its next connection; what it says first is in `out`.
static struct tcp_conn *next_opening(void) {
  opening = NULL;
  for (u32 i = 0; i < 400 && opening == NULL; i++) {
    unit_now_ns += 10 * MS_NS;
    turns(1);
  }
  assert_non_null(opening);
  assert_int_equal(ip_to4(opening_address), 0xc0000201);
  struct tcp_conn *c = opening;
  opening_ops->opened(c->user, c);
  turns(2);
  return c;
}

static struct bridge_state state_now(void) {
  struct bridge_state s;
  assert_true(bridge_state(core.server, 0, &s));
  return s;
}

static void out_is(const struct tcp_conn *c, const void *bytes, u32 len) {
  if (c->out_len != len || memcmp(c->out, bytes, len) != 0) {
    for (u32 i = 0; i < c->out_len; i++) {
      print_message("%02x ", c->out[i]);
    }
    fail_msg("%u bytes came out, %u expected", c->out_len, len);
  }
}

static void answer(struct tcp_conn *c, const void *bytes, u32 len) {
  c->out_len = 0;
  feed(c, bytes, len);
  turns(3);
}

static const u8 private_connect[] = "\x10\x0e\0\4MQTT\x84\0\0\x3c\0\2me";
static const u8 plain_connect[] = "\x10\x0e\0\4MQTT\x04\0\0\x3c\0\2me";
static const u8 connack[] = "\x20\2\0\0";
static const u8 subscribe[] = "\x82\x08\0\1\0\3r/#\2";
#define LEN(a) ((u32)sizeof(a) - 1)

static struct tcp_conn *up(void) {
  struct tcp_conn *c = next_opening();
  answer(c, connack, LEN(connack));
  assert_true(state_now().connected);
  return c;
}

static void refused_mark(void **state) {
  (void)state;
  struct tcp_conn *c = next_opening();
  out_is(c, private_connect, LEN(private_connect));
  answer(c, "\x20\2\0\1", 4);  // unacceptable protocol version
  assert_true(c->closed);
  drop_conn(c);
  c = next_opening();
  out_is(c, plain_connect, LEN(plain_connect));
  answer(c, connack, LEN(connack));
  out_is(c, subscribe, LEN(subscribe));
  assert_true(state_now().connected);
  drop_conn(c);
  assert_false(state_now().connected);
}

// A local client that publishes and hears l/#.
static const u8 hello[] = "\x10\x0d\0\4MQTT\4\2\0\x3c\0\1c";
static struct tcp_conn *local(void) {
  struct tcp_conn *p = open_conn();
  feed(p, hello, LEN(hello));
  turns(2);
  feed(p, "\x82\x08\0\1\0\3l/#\2", 10);
  turns(2);
  p->out_len = 0;
  return p;
}

static void messages_go_out(void **state) {
  (void)state;
  struct tcp_conn *c = up();
  struct tcp_conn *p = local();
  c->out_len = 0;
  feed(p, "\x32\x08\0\3l/x\0\7!", 10);  // QoS 1
  turns(3);
  out_is(c, "\x32\x08\0\3r/x\0\1!", 10);
  answer(c, "\x40\2\0\1", 4);
  c->out_len = 0;
  feed(p, "\x34\x08\0\3l/y\0\x08?", 10);  // QoS 2
  turns(3);
  out_is(c, "\x34\x08\0\3r/y\0\2?", 10);
  answer(c, "\x50\2\0\2", 4);
  out_is(c, "\x62\2\0\2", 4);
  answer(c, "\x70\2\0\2", 4);
  out_is(c, "", 0);
  feed(p, "\x30\x05\0\3m/y", 7);  // no rule
  turns(3);
  out_is(c, "", 0);
  drop_conn(p);
  drop_conn(c);
}

static void messages_come_in_however_cut(void **state) {
  (void)state;
  static const u8 in[] =
      "\x30\6\0\3r/a1\x32\x08\0\3r/b\0\5"
      "2\x34\x08\0\3r/c\0\6"
      "3\x62\2\0\6\xd0\0";
  for (u32 cut = 0; cut <= LEN(in); cut++) {
    struct tcp_conn *p = local();
    struct tcp_conn *c = up();
    p->out_len = c->out_len = 0;
    feed(c, in, cut);
    turns(2);
    feed(c, in + cut, LEN(in) - cut);
    turns(3);
    out_is(c, "\x40\2\0\5\x50\2\0\6\x70\2\0\6", 12);
    assert_int_equal(p->out_len, 8 + 10 + 10);
    assert_memory_equal(p->out, "\x30\6\0\3l/a1\x32\x08\0\3l/b", 15);
    drop_conn(c);
    drop_conn(p);
  }
}

static void unwanted_topics_are_acknowledged(void **state) {
  (void)state;
  struct tcp_conn *c = up();
  u64 dropped = state_now().dropped;
  answer(c,
         "\x32\x08\0\3x/b\0\5"
         "2\x34\x08\0\3x/c\0\6"
         "3",
         20);
  out_is(c, "\x40\2\0\5\x50\2\0\6", 8);
  assert_int_equal(state_now().dropped, dropped + 2);
  drop_conn(c);
}

static void what_is_malformed_ends_it(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    u32 len;
  } cases[] = {
      {"\x10\x0d\0\4MQTT\4\2\0\x3c\0\1c", 15},  // a CONNECT
      {"\x30\2\0\0", 4},                        // an empty topic
      {"\x36\6\0\3r/a1", 8},                    // QoS 3
      {"\x20\2\0\0", 4},                        // a second CONNACK
      {"\xc0\0", 2},
      {"\x82\x08\0\1\0\3r/#\2", 10},
      {"\xff\xff\xff\xff\xff", 5},
      {"\x90\1\0", 3},
  };
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    struct tcp_conn *c = up();
    answer(c, cases[i].bytes, cases[i].len);
    if (!c->closed) {
      fail_msg("case %u", i);
    }
    assert_false(state_now().connected);
    assert_true(state_now().last[0] != 0);
    drop_conn(c);
  }
  struct tcp_conn *c = next_opening();  // something else than CONNACK first
  answer(c, "\x30\6\0\3r/a1", 8);
  assert_true(c->closed);
  drop_conn(c);
}

static void it_keeps_what_waits(void **state) {
  (void)state;
  struct tcp_conn *c = up();
  struct tcp_conn *p = local();
  c->out_len = 0;
  feed(p,
       "\x32\x08\0\3l/x\0\7"
       "1",
       10);
  turns(3);
  assert_int_equal(c->out_len, 10);  // sent, never acknowledged
  drop_conn(c);
  feed(p,
       "\x32\x08\0\3l/x\0\x08"
       "2",
       10);
  turns(3);
  c = next_opening();
  answer(c, connack, LEN(connack));
  assert_int_equal(c->out_len, LEN(subscribe) + 20);
  assert_int_equal(c->out[LEN(subscribe)], 0x3a);  // again: DUP
  assert_int_equal(c->out[LEN(subscribe) + 9], '1');
  assert_int_equal(c->out[LEN(subscribe) + 10], 0x32);
  assert_int_equal(c->out[LEN(subscribe) + 19], '2');
  drop_conn(p);
  drop_conn(c);
}

static void pubrel_after_a_reconnect(void **state) {  // mosquitto 3275
  (void)state;
  struct tcp_conn *c = up();
  struct tcp_conn *p = local();
  c->out_len = 0;
  feed(p, "\x34\x08\0\3l/y\0\x08?", 10);  // QoS 2
  turns(3);
  assert_int_equal(c->out_len, 10);
  u8 id = c->out[8];
  const u8 pubrec[] = {0x50, 2, 0, id};
  answer(c, pubrec, 4);
  assert_int_equal(c->out[0], 0x62);
  drop_conn(c);  // PUBREL was lost
  c = next_opening();
  answer(c, connack, LEN(connack));
  assert_int_equal(c->out_len, LEN(subscribe) + 4);
  const u8 pubrel[] = {0x62, 2, 0, id};
  assert_memory_equal(c->out + LEN(subscribe), pubrel, 4);
  const u8 pubcomp[] = {0x70, 2, 0, id};
  answer(c, pubcomp, 4);
  c->out_len = 0;
  feed(p, "\x34\x08\0\3l/z\0\x09?", 10);  // and one right after it goes its whole way
  turns(3);
  const u8 next[] = {0x50, 2, 0, c->out[8]};
  answer(c, next, 4);
  assert_int_equal(c->out_len, 4);
  assert_int_equal(c->out[0], 0x62);
  const u8 last[] = {0x70, 2, 0, next[3]};
  answer(c, last, 4);
  drop_conn(p);
  drop_conn(c);
}

static void attempts_that_multiply(void **state) {  // FlashMQ 1218
  (void)state;
  u64 before = state_now().attempts;
  u64 start = unit_now_ns;
  for (u32 i = 0; i < 30; i++) {  // the other broker refuses every time
    opening = NULL;
    while (opening == NULL) {
      unit_now_ns += 10 * MS_NS;
      turns(1);
    }
    struct tcp_conn *c = opening;
    opening_ops->ended(c->user, c, TCP_END_RESET);
    free(c);
  }
  assert_in_range(state_now().attempts - before, 29, 31);
  assert_true(unit_now_ns - start >= 28 * SEC_NS);  // restart_timeout 1: one a second, no more
}

static void it_pings(void **state) {
  (void)state;
  struct tcp_conn *c = up();
  c->out_len = 0;
  for (u32 i = 0; i < 59; i++) {
    unit_now_ns += SEC_NS;
    turns(2);
  }
  assert_int_equal(c->out_len, 0);
  for (u32 i = 0; i < 3; i++) {
    unit_now_ns += SEC_NS;
    turns(2);
  }
  out_is(c, "\xc0\0", 2);
  for (u32 i = 0; i < 40; i++) {  // nobody answers: one and a half times the keep-alive
    unit_now_ns += SEC_NS;
    turns(2);
  }
  assert_true(c->closed);
  drop_conn(c);
}

int main(void) {
  static struct carve carve;
  start_server(32u << 20);
  carve_init(&carve);
  struct bridge_config k = config_of(4);
  if (bridges_init(&core, &carve, 1, 1) != ERR_OK || bridge_add(core.server, &k) != ERR_OK) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused_mark),
      cmocka_unit_test(messages_go_out),
      cmocka_unit_test(messages_come_in_however_cut),
      cmocka_unit_test(unwanted_topics_are_acknowledged),
      cmocka_unit_test(what_is_malformed_ends_it),
      cmocka_unit_test(pubrel_after_a_reconnect),
      cmocka_unit_test(attempts_that_multiply),
      cmocka_unit_test(it_keeps_what_waits),
      cmocka_unit_test(it_pings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
