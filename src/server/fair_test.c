// SPDX-License-Identifier: Apache-2.0
// Proves: who has something short to say is served in the turn it comes, whatever others ask for:
// long SUBSCRIBEs of many and messages of one to many are spread over turns, in their order, and
// nothing of them is lost; a connection that ends with a backlog of them has all of it taken first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "broker/state.h"
#include "server/server_test_support.h"

#define FILTERS 100u

static struct tcp_conn *come(u8 name) {
  const u8 hello[] = {0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 60, 0, 0, 1, name};
  struct tcp_conn *c = open_conn();
  feed(c, hello, sizeof hello);
  turns(3);
  assert_int_equal(c->out[0], 0x20);
  c->out_len = 0;
  return c;
}

// A SUBSCRIBE of 100 filters that begin with `name`, at `to`; returns its length.
static u32 long_subscribe(u8 *to, u8 name, u32 from) {
  const u32 each = 2 + 9 + 1;
  const u32 body = 3 + FILTERS * each;
  u32 n = 0;
  to[n++] = 0x82;
  to[n++] = (u8)(body % 128 | 128);
  to[n++] = (u8)(body / 128);
  to[n++] = 0;
  to[n++] = 1;
  to[n++] = 0;
  for (u32 i = from; i < from + FILTERS; i++) {
    to[n++] = 0;
    to[n++] = 9;
    n += (u32)snprintf((char *)to + n, 16, "%c/%07u", name, i);
    to[n++] = 0;
  }
  return n;
}

static void a_ping_goes_by_long_subscribes(void **state) {
  (void)state;
  static u8 packet[2048];
  struct tcp_conn *many[12];
  struct tcp_conn *ping = come('p');
  u32 served = 0;
  for (u32 i = 0; i < ARRAY_COUNT(many); i++) {
    many[i] = come((u8)('A' + i));
  }
  for (u32 i = 0; i < ARRAY_COUNT(many); i++) {
    feed(many[i], packet, long_subscribe(packet, (u8)('A' + i), 0));
  }
  feed(ping, (const u8[]){0xc0, 0}, 2);
  turns(1);
  assert_int_equal(ping->out_len, 2);
  for (u32 i = 0; i < ARRAY_COUNT(many); i++) {
    served += many[i]->out_len > 0 ? 1 : 0;
  }
  assert_in_range(served, 1, ARRAY_COUNT(many) / 2);
  for (u32 i = 0; i < served; i++) {
    assert_true(many[i]->out_len > 0);  // in their order
  }
  turns(ARRAY_COUNT(many));
  for (u32 i = 0; i < ARRAY_COUNT(many); i++) {
    assert_int_equal(many[i]->out_len, 3 + 3 + FILTERS - 1);
    assert_int_equal(many[i]->out[0], 0x90);
    drop_conn(many[i]);
  }
  drop_conn(ping);
  turns(ARRAY_COUNT(many));
  assert_int_equal(broker_stats(core.broker)->subscriptions, 0);
}

// A crowd leaves in one moment, by reset, by DISCONNECT or by a lone FIN: their sessions are taken
// apart over many turns, and a ping is answered in each of them.
static void those_who_leave_delay_nobody(void **state) {
  (void)state;
  static u8 packet[2048];
  struct tcp_conn *many[30];
  for (u32 how = 0; how < 3; how++) {
    struct tcp_conn *ping = come('p');
    for (u32 i = 0; i < ARRAY_COUNT(many); i++) {
      many[i] = come((u8)('A' + i));
      feed(many[i], packet, long_subscribe(packet, (u8)('A' + i), 0));
      turns(2);
    }
    assert_int_equal(broker_stats(core.broker)->subscriptions, ARRAY_COUNT(many) * FILTERS);
    for (u32 i = 0; i < ARRAY_COUNT(many); i++) {
      if (how == 0) {
        drop_conn(many[i]);
      } else if (how == 1) {
        feed(many[i], (const u8[]){0xe0, 0}, 2);
      } else {
        ops->ended(many[i]->user, many[i], TCP_END_FIN);
      }
    }
    u32 left = broker_stats(core.broker)->subscriptions;
    assert_true(left >= ARRAY_COUNT(many) * FILTERS - 400);
    u32 needed = 0;
    for (; left > 0 && needed < 100; needed++) {
      ping->piece_at = ping->piece_count = 0;
      ping->out_len = 0;
      feed(ping, (const u8[]){0xc0, 0}, 2);
      turns(1);
      assert_int_equal(ping->out_len, 2);
      u32 now = broker_stats(core.broker)->subscriptions;
      assert_true(left - now <= 400);  // a turn's share
      left = now;
    }
    assert_in_range(needed, 8, 30);
    turns(2);
    assert_int_equal(server_stats(core.server)->connections, 1);
    for (u32 i = 0; i < ARRAY_COUNT(many) && how > 0; i++) {
      assert_true(many[i]->closed);
      drop_conn(many[i]);
    }
    drop_conn(ping);
  }
}

// Somebody comes under the name of one that is still being taken apart: a new session.
static void a_name_of_one_that_is_leaving(void **state) {
  (void)state;
  static u8 packet[2048];
  struct tcp_conn *c = come('A');
  for (u32 i = 0; i < 6; i++) {
    feed(c, packet, long_subscribe(packet, 'A', i * FILTERS));
    turns(2);
  }
  assert_int_equal(broker_stats(core.broker)->subscriptions, 6 * FILTERS);
  drop_conn(c);
  assert_in_range(broker_stats(core.broker)->subscriptions, 1, 6 * FILTERS - 1);
  c = come('A');
  assert_int_equal(broker_stats(core.broker)->subscriptions, 0);
  assert_int_equal(broker_stats(core.broker)->clients_connected, 1);
  turns(3);
  assert_int_equal(server_stats(core.server)->connections, 1);
  drop_conn(c);
  turns(1);
  assert_int_equal(server_stats(core.server)->connections, 0);
}

static void messages_to_many_are_spread(void **state) {
  (void)state;
  struct tcp_conn *receiver[50];
  struct tcp_conn *p = come('p');
  u8 packets[50 * 7];
  u32 had = 0;
  for (u32 i = 0; i < ARRAY_COUNT(receiver); i++) {
    u8 name = (u8)('0' + i);  // '0' to 'a'
    receiver[i] = come(name);
    feed(receiver[i], (const u8[]){0x82, 7, 0, 1, 0, 0, 1, name, 0}, 9);
    turns(2);
    receiver[i]->out_len = 0;
    memcpy(packets + 7 * (usize)i, (const u8[]){0x30, 5, 0, 1, name, 0, 'x'}, 7);
  }
  feed(p, packets, sizeof packets);
  turns(1);
  for (u32 i = 0; i < ARRAY_COUNT(receiver); i++) {
    had += receiver[i]->out_len > 0 ? 1 : 0;
  }
  assert_in_range(had, 8, 40);
  turns(8);
  for (u32 i = 0; i < ARRAY_COUNT(receiver); i++) {
    assert_int_equal(receiver[i]->out_len, 7);
    drop_conn(receiver[i]);
  }
  drop_conn(p);
}

static void a_backlog_is_taken_before_the_end(void **state) {
  (void)state;
  static u8 packets[16 * 2048];
  struct tcp_conn *watch = come('w');
  feed(watch, (const u8[]){0x82, 7, 0, 1, 0, 0, 1, 'e', 0}, 9);
  turns(2);
  watch->out_len = 0;
  struct tcp_conn *c = come('c');
  u32 len = 0;
  for (u32 i = 0; i < 10; i++) {
    len += long_subscribe(packets + len, 'c', i * FILTERS);
  }
  memcpy(packets + len, (const u8[]){0x30, 5, 0, 1, 'e', 0, 'x'}, 7);
  feed(c, packets, len + 7);
  drop_conn(c);
  turns(2);
  assert_int_equal(watch->out_len, 7);
  drop_conn(watch);
}

int main(void) {
  start_server(8u << 20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_ping_goes_by_long_subscribes),
      cmocka_unit_test(those_who_leave_delay_nobody),
      cmocka_unit_test(a_name_of_one_that_is_leaving),
      cmocka_unit_test(messages_to_many_are_spread),
      cmocka_unit_test(a_backlog_is_taken_before_the_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
