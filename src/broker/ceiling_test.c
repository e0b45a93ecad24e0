// SPDX-License-Identifier: Apache-2.0
// Proves: each ceiling holds (messages and bytes; queued, in flight, retained; one client and all),
// each policy drops what it says and nothing that was sent before, every drop is counted by client
// and reason, and one client at its ceiling takes nothing from another.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client a, b, c;
static struct broker_limits l;

static void begin(void) {
  world_limits(&w, &l);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V5);
  client_init(&c, &w, MQTT_V5);
  CHECK(client_connect(&a, "a", true, 0));
}
static int setup(void **state) {
  (void)state;
  broker_limits_default(&l, 16u << 20);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  client_free(&a);
  client_free(&b);
  client_free(&c);
  world_close(&w);
  return 0;
}

// `b` is offline with a QoS 1 subscription to t.
static void b_is_away(void) {
  CHECK(client_connect(&b, "b", true, 1000));
  subscribe_ok(&b, "t", 1);
  client_detach(&b);
}
static u8 publish_n(const char *topic, u32 n) {
  char text[8];
  snprintf(text, sizeof text, "%u", n);
  CHECK(client_publish(&a, topic, text, 1, false, 1) == MQTT_SUCCESS);
  struct bytes p;
  struct mqtt_ack ack;
  CHECK(next_type(&a, &p) == MQTT_PUBACK);
  CHECK(mqtt_decode_ack(MQTT_V5, p, &ack) == MQTT_SUCCESS);
  broker_check(w.b);
  return (u8)ack.reason;
}
static u16 expect_n(u32 n) {
  char text[8];
  snprintf(text, sizeof text, "%u", n);
  return expect_publish(&b, "t", text, 1, false, NULL).packet_id;
}
static struct broker_session_info info_of(const char *id) {
  struct broker_session_info i;
  broker_session_info(session_find(w.b, bytes_str(id)), &i);
  return i;
}

static void the_newest_is_dropped(void **state) {  // mosq 2202: silent there
  (void)state;
  l.session_queued_max = 3;
  begin();
  b_is_away();
  for (u32 i = 0; i < 3; i++) {
    CHECK(publish_n("t", i) == MQTT_SUCCESS);
  }
  CHECK(publish_n("t", 3) == MQTT_QUOTA_EXCEEDED);  // nobody has it: said to the publisher
  CHECK(info_of("b").dropped[BROKER_DROPPED_QUEUE] == 1);
  CHECK(info_of("a").dropped[BROKER_DROPPED_QUEUE] == 0);
  CHECK(broker_stats(w.b)->dropped[BROKER_DROPPED_QUEUE] == 1);
  CHECK(broker_stats(w.b)->queued == 3);
  CHECK(client_connect(&b, "b", false, 1000));
  for (u32 i = 0; i < 3; i++) {
    client_ack(&b, MQTT_PUBACK, expect_n(i), 0);
  }
  expect_none(&b);
  CHECK(publish_n("t", 4) == MQTT_SUCCESS);  // mosq 2879: it drains and takes again
  (void)expect_n(4);
}

static void the_oldest_makes_room(void **state) {
  (void)state;
  l.session_queued_max = 3;
  l.session_inflight_max = 2;
  l.drop_policy = BROKER_DROP_OLDEST;
  begin();
  CHECK(client_connect(&b, "b", true, 1000));
  subscribe_ok(&b, "t", 1);
  for (u32 i = 0; i < 2; i++) {
    CHECK(publish_n("t", i) == MQTT_SUCCESS);
  }
  u16 pid = expect_n(0);
  (void)expect_n(1);
  client_detach(&b);  // 0 and 1 were sent: they stay, in front
  for (u32 i = 2; i < 7; i++) {
    CHECK(publish_n("t", i) == MQTT_SUCCESS);
  }
  CHECK(info_of("b").dropped[BROKER_DROPPED_OLD] == 4);  // 2, 3, 4, 5
  CHECK(client_connect(&b, "b", false, 1000));
  struct mqtt_publish m = expect_publish(&b, "t", "0", 1, false, NULL);
  CHECK(m.dup);
  CHECK(m.packet_id == pid);
  client_ack(&b, MQTT_PUBACK, pid, 0);
  client_ack(&b, MQTT_PUBACK, expect_n(1), 0);
  client_ack(&b, MQTT_PUBACK, expect_n(6), 0);
  expect_none(&b);
  broker_check(w.b);
}

static void oldest_with_nothing_to_drop(void **state) {
  (void)state;
  l.session_queued_max = 2;
  l.session_inflight_max = 2;
  l.drop_policy = BROKER_DROP_OLDEST;
  begin();
  CHECK(client_connect(&b, "b", true, 1000));
  subscribe_ok(&b, "t", 1);
  (void)publish_n("t", 0);
  (void)publish_n("t", 1);
  (void)expect_n(0);
  (void)expect_n(1);
  client_detach(&b);  // all that is queued was sent before
  CHECK(publish_n("t", 2) == MQTT_QUOTA_EXCEEDED);
  CHECK(info_of("b").dropped[BROKER_DROPPED_QUEUE] == 1);
  CHECK(info_of("b").queued == 2);
}

static void the_client_is_disconnected(void **state) {
  (void)state;
  l.session_queued_max = 3;
  l.session_inflight_max = 1;
  l.drop_policy = BROKER_DROP_CLIENT;
  begin();
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = 1000}, {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("b"),
                               .props = props,
                               .has_will = true,
                               .will_topic = BYTES_LIT("t"),
                               .will_payload = BYTES_LIT("will")};
  CHECK(client_connect_with(&b, &o));
  subscribe_ok(&b, "t", 1);
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&c, "t", 0);
  for (u32 i = 0; i < 6; i++) {
    (void)publish_n("t", i);
    client_pull(&b);
  }
  CHECK(!b.kicked);  // not in the middle of a routing
  world_run(&w, 1);
  CHECK(b.kicked);
  CHECK(b.reason == MQTT_QUOTA_EXCEEDED);
  broker_check(w.b);
  char text[8];
  for (u32 i = 0; i < 6; i++) {  // the other has everything, and then the will
    snprintf(text, sizeof text, "%u", i);
    expect_publish(&c, "t", text, 0, false, NULL);
  }
  expect_publish(&c, "t", "will", 0, false, NULL);
  CHECK(info_of("b").dropped[BROKER_DROPPED_QUEUE] == 2);
  CHECK(info_of("b").queued == 4);
}

static void bytes_of_one_queue(void **state) {
  (void)state;
  for (u32 policy = BROKER_DROP_NEWEST; policy <= BROKER_DROP_OLDEST; policy++) {
    l.session_queued_bytes_max = 100;
    l.drop_policy = (enum broker_drop_policy)policy;
    begin();
    b_is_away();
    char big[80] = {0};
    memset(big, 'x', 78);  // 78 + 4 before it
    CHECK(client_publish(&a, "t", big, 1, false, 1) == MQTT_SUCCESS);
    CHECK(publish_n("t", 1) == MQTT_SUCCESS);
    CHECK(info_of("b").queued_bytes == 82 + 5);
    CHECK(client_publish(&a, "t", big, 1, false, 1) == MQTT_SUCCESS);
    bool old = policy == BROKER_DROP_OLDEST;
    CHECK(info_of("b").queued == 2);
    CHECK(info_of("b").dropped[BROKER_DROPPED_OLD] == (old ? 1 : 0));
    CHECK(info_of("b").dropped[BROKER_DROPPED_QUEUE] == (old ? 0 : 1));
    CHECK(info_of("b").queued_bytes <= 100);
    char huge[101] = {0};
    memset(huge, 'y', 100);  // never fits: evicts nobody
    CHECK(client_publish(&a, "t", huge, 1, false, 1) == MQTT_SUCCESS);
    CHECK(info_of("b").queued == 2);
    broker_check(w.b);
    if (policy == BROKER_DROP_NEWEST) {
      teardown(NULL);
    }
  }
}

static void bytes_in_flight(void **state) {
  (void)state;
  l.session_inflight_bytes_max = 12;
  begin();
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  for (u32 i = 0; i < 5; i++) {
    (void)publish_n("t", i);  // 5 bytes each
  }
  u16 first = expect_n(0);
  (void)expect_n(1);
  expect_none(&b);
  client_ack(&b, MQTT_PUBACK, first, 0);
  u16 third = expect_n(2);
  expect_none(&b);
  client_ack(&b, MQTT_PUBACK, third, 0);
  (void)expect_n(3);
  char big[31] = {0};
  memset(big, 'x', 30);
  client_detach(&b);
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  CHECK(client_publish(&a, "t", big, 1, false, 1) == MQTT_SUCCESS);
  expect_publish(&b, "t", big, 1, false, NULL);  // ceiling.c I1
}

static void all_in_flight_together(void **state) {
  (void)state;
  l.inflight_max = 3;
  begin();
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&c, "u", 1);
  for (u32 i = 0; i < 4; i++) {
    (void)publish_n("t", i);
  }
  u16 pid[3];
  for (u32 i = 0; i < 3; i++) {
    pid[i] = expect_n(i);
  }
  expect_none(&b);
  (void)publish_n("u", 7);
  expect_none(&c);
  CHECK(broker_stats(w.b)->inflight == 3);
  client_ack(&b, MQTT_PUBACK, pid[0], 0);
  world_run(&w, 1);
  client_ack(&b, MQTT_PUBACK, pid[1], 0);
  world_run(&w, 1);
  broker_check(w.b);
  (void)expect_n(3);
  expect_publish(&c, "u", "7", 1, false, NULL);  // it was woken
  client_detach(&b);                             // what waits or is stalled may go at any time
  client_detach(&c);
  CHECK(broker_stats(w.b)->inflight == 0);
}

static void all_queues_together(void **state) {
  (void)state;
  l.queued_max = 4;
  l.queued_bytes_max = 18;
  begin();
  b_is_away();
  CHECK(client_connect(&c, "c", true, 1000));
  subscribe_ok(&c, "u", 1);
  client_detach(&c);
  CHECK(publish_n("t", 0) == MQTT_SUCCESS);
  CHECK(publish_n("u", 1) == MQTT_SUCCESS);
  CHECK(publish_n("t", 2) == MQTT_SUCCESS);
  CHECK(publish_n("u", 3) == MQTT_QUOTA_EXCEEDED);  // 20 bytes
  CHECK(info_of("c").dropped[BROKER_DROPPED_GLOBAL] == 1);
  CHECK(client_connect(&b, "b", false, 1000));
  client_ack(&b, MQTT_PUBACK, expect_n(0), 0);
  CHECK(publish_n("u", 4) == MQTT_SUCCESS);
  CHECK(client_connect(&c, "c", false, 0));
  expect_publish(&c, "u", "1", 1, false, NULL);
  expect_publish(&c, "u", "4", 1, false, NULL);
}

static void retained_bytes(void **state) {  // flashmq 169
  (void)state;
  l.retained_bytes_max = 20;
  for (u32 v = MQTT_V4; v <= MQTT_V5; v++) {
    begin();
    a.version = (enum mqtt_version)v;
    CHECK(client_connect(&a, "a", true, 0));
    CHECK(client_connect(&b, "b", true, 0));
    subscribe_ok(&b, "#", 1);
    CHECK(client_publish(&a, "r/1", "12345", 1, true, 1) == MQTT_SUCCESS);  // 5 + 1 + 5
    expect_ack(&a, MQTT_PUBACK, 1, 0);
    client_ack(&b, MQTT_PUBACK, expect_publish(&b, "r/1", "12345", 1, false, NULL).packet_id, 0);
    CHECK(broker_stats(w.b)->retained_bytes == 11);
    CHECK(client_publish(&a, "r/2", "x", 0, true, 0) == MQTT_SUCCESS);  // 7: it fits
    CHECK(client_publish(&a, "r/3", "x", 0, true, 0) == MQTT_SUCCESS);
    expect_publish(&b, "r/2", "x", 0, false, NULL);
    expect_publish(&b, "r/3", "x", 0, false, NULL);  // delivered, not kept
    CHECK(broker_stats(w.b)->dropped[BROKER_DROPPED_RETAINED] == 1);
    CHECK(client_publish(&a, "r/1", "12", 1, true, 2) == MQTT_SUCCESS);  // a smaller value fits
    expect_ack(&a, MQTT_PUBACK, 2, 0);
    client_ack(&b, MQTT_PUBACK, expect_publish(&b, "r/1", "12", 1, false, NULL).packet_id, 0);
    enum mqtt_reason r = client_publish(&a, "r/1", "123456789", 2, true, 3);
    expect_none(&b);
    if (v == MQTT_V5) {
      CHECK(r == MQTT_SUCCESS);
      expect_ack(&a, MQTT_PUBREC, 3, MQTT_QUOTA_EXCEEDED);
      CHECK(session_find(w.b, BYTES_LIT("a"))->inbound_count == 0);
    } else {
      CHECK(r == MQTT_QUOTA_EXCEEDED);  // not acknowledged: the connection ends
    }
    CHECK(broker_stats(w.b)->retained == 2);
    CHECK(broker_stats(w.b)->retained_bytes == 15);
    if (a.s == NULL) {
      CHECK(client_connect(&a, "a", true, 0));
    }
    client_publish(&a, "r/1", "", 0, true, 0);
    client_publish(&a, "r/2", "", 0, true, 0);
    CHECK(broker_stats(w.b)->retained_bytes == 0);
    broker_check(w.b);
    if (v == MQTT_V4) {
      teardown(NULL);
    }
  }
}

static void a_stuck_one_costs_only_itself(void **state) {  // emqx 860
  (void)state;
  l.session_queued_max = 50;
  begin();
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&c, "t", 1);
  char text[8];
  for (u32 i = 0; i < 500; i++) {  // b is never pulled
    CHECK(publish_n("t", i) == MQTT_SUCCESS);
    snprintf(text, sizeof text, "%u", i);
    client_ack(&c, MQTT_PUBACK, expect_publish(&c, "t", text, 1, false, NULL).packet_id, 0);
  }
  CHECK(info_of("b").queued == 50);
  CHECK(info_of("b").dropped[BROKER_DROPPED_QUEUE] == 450);
  CHECK(info_of("c").dropped[BROKER_DROPPED_QUEUE] == 0);
  CHECK(broker_kick(w.b, BYTES_LIT("b"), MQTT_ADMINISTRATIVE_ACTION, unit_now_ns));
  CHECK(b.kicked && b.reason == MQTT_ADMINISTRATIVE_ACTION);
  CHECK(!broker_kick(w.b, BYTES_LIT("b"), MQTT_ADMINISTRATIVE_ACTION, unit_now_ns));
  CHECK(broker_stats(w.b)->messages_stored == 0);
}

static void qos0_kept_and_qos_raised(void **state) {
  (void)state;
  l.queue_qos0 = true;
  l.upgrade_outgoing_qos = true;
  begin();
  CHECK(client_connect(&b, "b", true, 1000));
  subscribe_ok(&b, "t", 0);
  subscribe_ok(&b, "u", 2);
  client_detach(&b);
  client_publish(&a, "t", "zero", 0, false, 0);
  client_publish(&a, "u", "raised", 0, false, 0);
  CHECK(client_connect(&b, "b", false, 1000));
  expect_publish(&b, "t", "zero", 0, false, NULL);
  expect_publish(&b, "u", "raised", 2, false, NULL);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      ONE(the_newest_is_dropped),
      ONE(the_oldest_makes_room),
      ONE(oldest_with_nothing_to_drop),
      ONE(the_client_is_disconnected),
      ONE(bytes_of_one_queue),
      ONE(bytes_in_flight),
      ONE(all_in_flight_together),
      ONE(all_queues_together),
      ONE(retained_bytes),
      ONE(a_stuck_one_costs_only_itself),
      ONE(qos0_kept_and_qos_raised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
