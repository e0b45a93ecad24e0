// SPDX-License-Identifier: Apache-2.0
// Proves: what a client sees of connect, subscribe, publish in every QoS, acknowledgement, session,
// takeover, will, retained, expiry, properties and limits, byte for byte through the codec.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static const enum mqtt_version versions[] = {MQTT_V4, MQTT_V5};

// [MQTT-2.2.1-4] [MQTT-2.2.1-5] [MQTT-3.1.4-5] [MQTT-3.3.1-3] [MQTT-3.3.4-1] [MQTT-3.8.4-1]
// [MQTT-3.8.4-8] [MQTT-4.3.1-1] [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.2-4] [MQTT-4.3.3-1]
// [MQTT-4.3.3-2] [MQTT-4.3.3-4] [MQTT-4.3.3-8] [MQTT-4.3.3-11] [MQTT-4.5.0-1]
static void publish_every_qos(void **state) {
  (void)state;
  for (u32 v = 0; v < 2; v++) {
    struct client p, s;
    world_open(&w);
    client_init(&p, &w, versions[v]);
    client_init(&s, &w, versions[1 - v]);
    CHECK(client_connect(&p, "p", true, 0));
    CHECK(client_connect(&s, "s", true, 0));
    CHECK(!s.connack.session_present);
    subscribe_ok(&s, "a/+", 2);
    for (u8 qos = 0; qos <= 2; qos++) {
      CHECK(client_publish(&p, "a/b", "hello", qos, false, 7) == MQTT_SUCCESS);
      broker_check(w.b);
      struct mqtt_publish m = expect_publish(&s, "a/b", "hello", qos, false, NULL);
      CHECK(!m.dup);
      if (qos == 1) {
        expect_ack(&p, MQTT_PUBACK, 7, 0);
        client_ack(&s, MQTT_PUBACK, m.packet_id, 0);
      } else if (qos == 2) {
        expect_ack(&p, MQTT_PUBREC, 7, 0);
        client_ack(&p, MQTT_PUBREL, 7, 0);
        expect_ack(&p, MQTT_PUBCOMP, 7, 0);
        client_ack(&s, MQTT_PUBREC, m.packet_id, 0);
        expect_ack(&s, MQTT_PUBREL, m.packet_id, 0);
        client_ack(&s, MQTT_PUBCOMP, m.packet_id, 0);
      }
      expect_none(&s);
      expect_none(&p);
      CHECK(broker_stats(w.b)->messages_stored == 0);
    }
    CHECK(client_publish(&p, "b", "x", 1, false, 8) == MQTT_SUCCESS);
    expect_ack(&p, MQTT_PUBACK, 8, MQTT_NO_MATCHING_SUBSCRIBERS);
    client_disconnect(&p, 0, NULL);
    client_disconnect(&s, 0, NULL);
    CHECK(broker_stats(w.b)->clients_total == 0);
    client_free(&p);
    client_free(&s);
    world_close(&w);
  }
}

// --- a world with clients a, b and c

static struct client a, b, c;
static int setup(void **state) {
  (void)state;
  world_open(&w);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V5);
  client_init(&c, &w, MQTT_V5);
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

// [MQTT-3.1.2-4] [MQTT-3.1.2-5] [MQTT-3.1.2-6] [MQTT-3.1.2-23] [MQTT-3.2.2-2] [MQTT-3.2.2-3]
// [MQTT-4.1.0-2] [MQTT-3.1.4-4] [MQTT-3.1.3-5] 3.1.1 [MQTT-3.1.2-5]
static void sessions_expire(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 10));
  subscribe_ok(&a, "t", 1);
  client_detach(&a);
  world_run(&w, 9 * NS);
  CHECK(client_connect(&a, "a", false, 10));
  CHECK(a.connack.session_present);
  client_disconnect(&a, 0, NULL);
  world_run(&w, 11 * NS);  // tbmq 372: not a moment longer
  CHECK(broker_stats(w.b)->clients_total == 0);
  CHECK(broker_stats(w.b)->subscriptions == 0);
  CHECK(client_connect(&a, "a", false, 0));
  CHECK(!a.connack.session_present);
  client_detach(&a);
  CHECK(broker_stats(w.b)->clients_total == 0);
  a.version = MQTT_V4;
  CHECK(client_connect(&a, "a", false, 0));
  client_detach(&a);
  world_run(&w, 1000000 * NS);
  CHECK(client_connect(&a, "a", false, 0));
  CHECK(a.connack.session_present);  // 3.1.1: kept for good
  client_detach(&a);
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(!a.connack.session_present);
}

static void expiry_at_disconnect(void **state) {
  (void)state;
  struct mqtt_prop_out p[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = 5}, {0}};
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_disconnect(&a, 0, p) == MQTT_PROTOCOL_ERROR);
  CHECK(client_connect(&a, "a", true, 100));
  CHECK(client_disconnect(&a, 0, p) == MQTT_SUCCESS);
  world_run(&w, 6 * NS);
  CHECK(broker_stats(w.b)->clients_total == 0);
}

// [MQTT-3.1.3-2] [MQTT-3.1.4-3] [MQTT-3.3.1-1] [MQTT-4.1.0-1] [MQTT-4.3.3-10] [MQTT-4.4.0-1]
static void takeover_keeps_state(void **state) {  // emqx 18441, mosq 1650
  (void)state;
  CHECK(client_connect(&a, "x", true, 100));
  subscribe_ok(&a, "t", 1);
  CHECK(client_connect(&c, "pub", true, 0));
  client_publish(&c, "t", "one", 1, false, 1);
  struct mqtt_publish m = expect_publish(&a, "t", "one", 1, false, NULL);
  client_publish(&c, "t", "two", 1, false, 2);
  client_publish(&a, "q", "exactly once", 2, false, 9);
  CHECK(client_connect(&b, "x", false, 100));
  CHECK(a.kicked);
  CHECK(a.reason == MQTT_SESSION_TAKEN_OVER);
  CHECK(b.connack.session_present);
  struct mqtt_publish again = expect_publish(&b, "t", "one", 1, false, NULL);
  CHECK(again.dup);
  CHECK(again.packet_id == m.packet_id);
  m = expect_publish(&b, "t", "two", 1, false, NULL);
  CHECK(!m.dup);
  subscribe_ok(&b, "q", 0);
  for (u32 i = 0; i < 3; i++) {  // mosq 3602: the third copy too
    client_publish(&b, "q", "exactly once", 2, false, 9);
    expect_ack(&b, MQTT_PUBREC, 9, 0);
  }
  client_ack(&b, MQTT_PUBREL, 9, 0);
  expect_ack(&b, MQTT_PUBCOMP, 9, 0);  // bifromq 281: not 0x92
  client_ack(&b, MQTT_PUBREL, 9, 0);
  expect_ack(&b, MQTT_PUBCOMP, 9, MQTT_PACKET_ID_NOT_FOUND);
  expect_none(&b);
  broker_check(w.b);
}

static void connect_will(struct client *k, const char *id, u32 expiry, u32 delay, bool clean) {
  struct mqtt_prop_out p[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = expiry}, {0}};
  struct mqtt_prop_out wp[] = {{.id = MQTT_P_WILL_DELAY, .number = delay},
                               {.id = MQTT_P_CONTENT_TYPE, .text = BYTES_LIT("will")},
                               {.id = MQTT_P_MESSAGE_EXPIRY, .number = 7},
                               {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = clean,
                               .client_id = bytes_str(id),
                               .props = p,
                               .has_will = true,
                               .will_qos = 1,
                               .will_topic = BYTES_LIT("will"),
                               .will_payload = BYTES_LIT("gone"),
                               .will_props = wp};
  CHECK(client_connect_with(k, &o));
}
static void expect_will(struct client *k) {
  struct bytes p;
  struct mqtt_publish m = expect_publish(k, "will", "gone", 1, false, &p);
  CHECK(bytes_equal_str(bytes_part(p, m.props.content_type), "will"));
  CHECK(m.props.message_expiry_s == 7);  // from its publication on
  CHECK(!mqtt_has(&m.props, MQTT_P_WILL_DELAY));
  client_ack(k, MQTT_PUBACK, m.packet_id, 0);
}

// [MQTT-3.1.2-7] [MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT-3.1.3-9]
// [MQTT-3.14.4-3]
static void wills(void **state) {
  (void)state;
  CHECK(client_connect(&b, "watch", true, 0));
  subscribe_ok(&b, "will", 1);
  connect_will(&a, "a", 0, 0, true);
  client_detach(&a);
  expect_will(&b);
  connect_will(&a, "a", 0, 0, true);
  client_disconnect(&a, 0, NULL);
  expect_none(&b);  // [MQTT-3.1.2-10]
  connect_will(&a, "a", 0, 0, true);
  client_disconnect(&a, MQTT_DISCONNECT_WITH_WILL, NULL);
  expect_will(&b);
  connect_will(&a, "a", 100, 5, true);
  client_detach(&a);
  world_run(&w, 4 * NS);
  expect_none(&b);
  world_run(&w, 2 * NS);
  expect_will(&b);
  connect_will(&a, "a", 100, 5, false);
  client_detach(&a);
  world_run(&w, 2 * NS);
  CHECK(client_connect(&a, "a", false, 100));  // [MQTT-3.1.3-9]
  world_run(&w, 10 * NS);
  expect_none(&b);
  client_disconnect(&a, 0, NULL);
  connect_will(&a, "a", 2, 50, true);  // the session ends before the delay
  client_detach(&a);
  world_run(&w, 3 * NS);
  expect_will(&b);
  connect_will(&a, "a", 100, 0, true);
  connect_will(&c, "a", 100, 50, false);  // takeover: the first one's is due
  expect_will(&b);
  connect_will(&a, "a", 100, 0, true);  // the session of the second ends
  expect_will(&b);
  expect_none(&b);
  client_disconnect(&a, 0, NULL);
  expect_none(&b);
}

// [MQTT-3.3.1-5] [MQTT-3.3.1-6] [MQTT-3.3.1-7] [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10]
// [MQTT-3.3.1-11] [MQTT-3.3.1-12] [MQTT-3.3.1-13] 3.1.1 [MQTT-3.1.2-7] 3.1.1 [MQTT-3.3.1-7]
// 3.1.1 [MQTT-3.3.1-8]
static void retained_options(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  client_publish(&a, "r/1", "one", 1, true, 1);
  client_publish(&a, "$r/1", "dollar", 0, true, 0);
  CHECK(broker_stats(w.b)->retained == 2);
  subscribe_ok(&b, "r/1", 2);
  expect_publish(&b, "r/1", "one", 1, true, NULL);
  subscribe_ok(&b, "r/1", 0x10 | 2);  // handling 1: it existed
  expect_none(&b);
  subscribe_ok(&b, "#", 0x10);
  world_run(&w, 0);
  expect_publish(&b, "r/1", "one", 0, true, NULL);
  expect_none(&b);  // [MQTT-4.7.2-1]
  subscribe_ok(&b, "r/+", 0x20);
  world_run(&w, 0);
  expect_none(&b);
  client_publish(&a, "r/1", "", 0, true, 0);
  expect_publish(&b, "r/1", "", 0, false, NULL);
  CHECK(broker_stats(w.b)->retained == 1);
  client_unsubscribe(&b, "r/+", 1);
  expect_suback(&b, MQTT_UNSUBACK, 0);
  client_unsubscribe(&b, "r/+", 1);
  expect_suback(&b, MQTT_UNSUBACK, MQTT_NO_SUBSCRIPTION_EXISTED);
  subscribe_ok(&b, "rap", 8);
  client_publish(&a, "rap", "x", 0, true, 0);
  expect_publish(&b, "rap", "x", 0, true, NULL);
  subscribe_ok(&b, "own", 4);  // no local
  client_publish(&b, "own", "x", 0, false, 0);
  struct mqtt_publish m = expect_publish(&b, "own", "x", 0, false, NULL);  // through '#'
  (void)m;
  client_unsubscribe(&b, "#", 1);
  expect_suback(&b, MQTT_UNSUBACK, 0);
  client_publish(&b, "own", "x", 0, false, 0);
  expect_none(&b);
}

static void retained_replay_is_not_bounded(void **state) {  // mosq 2887, emqx 5431
  (void)state;
  struct broker_limits l;
  broker_limits_default(&l, 32u << 20);
  teardown(NULL);
  l.session_queued_max = 10;
  world_limits(&w, &l);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V5);
  client_init(&c, &w, MQTT_V5);
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  char topic[32];
  for (u32 i = 0; i < 3000; i++) {
    snprintf(topic, sizeof topic, "r/%u/%u", i % 7, i);
    client_publish(&a, topic, "x", 1, true, 1);
    expect_ack(&a, MQTT_PUBACK, 1, MQTT_NO_MATCHING_SUBSCRIBERS);
  }
  CHECK(client_subscribe_id(&b, "r/+/+", 1, 5, 1) == MQTT_SUCCESS);
  expect_suback(&b, MQTT_SUBACK, 1);
  u32 got = 0;
  for (u32 turn = 0; turn < 10000 && got < 3000; turn++) {
    world_run(&w, 1000);
    CHECK(broker_stats(w.b)->messages_stored <= 3001);  // never a copy
    struct bytes p;
    while (next_type(&b, &p) == MQTT_PUBLISH) {
      struct mqtt_publish m;
      CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
      if (m.payload.len == 0) {
        continue;  // the removal below, live
      }
      CHECK(m.retain);
      CHECK(m.props.subscription_id[0] == 5);
      client_ack(&b, MQTT_PUBACK, m.packet_id, 0);
      got++;
    }
    if (turn == 20) {  // the tree changes under the walk, the client leaves and comes back
      client_publish(&a, "r/0/0", "", 0, true, 0);
      broker_check(w.b);
    }
  }
  CHECK(got >= 2999);
  CHECK(broker_stats(w.b)->publish_dropped == 0);
}

// [MQTT-3.3.2-5] [MQTT-3.3.2-6]
static void message_expiry(void **state) {
  (void)state;
  struct mqtt_prop_out p[] = {{.id = MQTT_P_MESSAGE_EXPIRY, .number = 10}, {0}};
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "t", 1);
  client_detach(&b);
  struct mqtt_publish_out o = {
      .qos = 1, .packet_id = 1, .topic = BYTES_LIT("t"), .props = p, .payload_len = 1};
  client_publish_with(&a, &o, BYTES_LIT("1"));
  world_run(&w, 4 * NS);
  CHECK(client_connect(&b, "b", false, 100));
  struct mqtt_publish m = expect_publish(&b, "t", "1", 1, false, NULL);
  CHECK(m.props.message_expiry_s == 6);  // [MQTT-3.3.2-6]
  client_ack(&b, MQTT_PUBACK, m.packet_id, 0);
  client_detach(&b);
  client_publish_with(&a, &o, BYTES_LIT("2"));
  world_run(&w, 11 * NS);
  CHECK(client_connect(&b, "b", false, 100));
  expect_none(&b);  // [MQTT-3.3.2-5]
  o.retain = true;
  client_publish_with(&a, &o, BYTES_LIT("3"));
  m = expect_publish(&b, "t", "3", 1, false, NULL);
  world_run(&w, 11 * NS);
  subscribe_ok(&b, "t", 0);
  expect_none(&b);
  CHECK(broker_stats(w.b)->retained == 0);
}

// [MQTT-3.3.4-9] [MQTT-3.3.4-10] [MQTT-4.3.3-3] [MQTT-4.3.3-5] [MQTT-4.3.3-6] [MQTT-4.4.0-2]
// [MQTT-4.9.0-1] [MQTT-4.9.0-2] [MQTT-4.9.0-3]
static void send_quota(void **state) {
  (void)state;
  struct mqtt_prop_out p[] = {{.id = MQTT_P_RECEIVE_MAXIMUM, .number = 2},
                              {.id = MQTT_P_SESSION_EXPIRY, .number = 50},
                              {0}};
  struct mqtt_connect_out o = {
      .version = MQTT_V5, .clean_start = true, .client_id = BYTES_LIT("b"), .props = p};
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect_with(&b, &o));
  subscribe_ok(&b, "t", 2);
  const char *text[] = {"0", "1", "2", "3", "4"};
  u16 pid[5];
  for (u32 i = 0; i < 5; i++) {
    client_publish(&a, "t", text[i], 2, false, (u16)(i + 1));
  }
  pid[0] = expect_publish(&b, "t", "0", 2, false, NULL).packet_id;
  pid[1] = expect_publish(&b, "t", "1", 2, false, NULL).packet_id;
  expect_none(&b);
  client_ack(&b, MQTT_PUBREC, pid[0], 0);
  expect_ack(&b, MQTT_PUBREL, pid[0], 0);
  expect_none(&b);  // not before PUBCOMP
  client_ack(&b, MQTT_PUBREC, pid[1], 0x97);
  pid[2] = expect_publish(&b, "t", "2", 2, false, NULL).packet_id;
  expect_none(&b);
  client_detach(&b);  // PUBREL again, then PUBLISH with DUP, no more than two open
  o.clean_start = false;
  CHECK(client_connect_with(&b, &o));
  expect_ack(&b, MQTT_PUBREL, pid[0], 0);
  CHECK(expect_publish(&b, "t", "2", 2, false, NULL).dup);
  expect_none(&b);
  client_ack(&b, MQTT_PUBCOMP, pid[0], 0);
  CHECK(!expect_publish(&b, "t", "3", 2, false, NULL).dup);
  client_ack(&b, MQTT_PUBREC, 60000, 0);
  expect_ack(&b, MQTT_PUBREL, 60000, MQTT_PACKET_ID_NOT_FOUND);
  broker_check(w.b);
}

// [MQTT-3.1.2-24] [MQTT-3.1.2-25]
static void maximum_packet_size(void **state) {  // mosq 3503: wrong both ways
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  for (u32 most = 20; most < 40; most++) {
    struct mqtt_prop_out p[] = {{.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = most}, {0}};
    struct mqtt_connect_out o = {
        .version = MQTT_V5, .clean_start = true, .client_id = BYTES_LIT("b"), .props = p};
    CHECK(client_connect_with(&b, &o));
    subscribe_ok(&b, "t", 1);
    client_publish(&a, "t", "01234567890123456789", 1, false, 1);  // 2 + 3 + 2 + 1 + 20 = 28
    client_publish(&a, "t", "after", 1, false, 2);
    if (most >= 28) {
      expect_publish(&b, "t", "01234567890123456789", 1, false, NULL);
    }
    expect_publish(&b, "t", "after", 1, false, NULL);
    client_detach(&b);
  }
  CHECK(broker_stats(w.b)->publish_dropped == 8);
}

static enum mqtt_reason publish_alias(struct client *k, const char *topic, u16 alias) {
  struct mqtt_prop_out p[] = {{.id = MQTT_P_TOPIC_ALIAS, .number = alias}, {0}};
  struct mqtt_publish_out o = {.topic = bytes_str(topic), .props = p, .payload_len = 1};
  return client_publish_with(k, &o, BYTES_LIT("x"));
}
// [MQTT-3.3.2-12]
static void topic_alias(void **state) {
  (void)state;
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "#", 0);
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(a.connack.props.topic_alias_maximum == 10);
  CHECK(publish_alias(&a, "first", 10) == MQTT_SUCCESS);
  CHECK(publish_alias(&a, "", 10) == MQTT_SUCCESS);
  CHECK(publish_alias(&a, "second", 10) == MQTT_SUCCESS);
  CHECK(publish_alias(&a, "", 10) == MQTT_SUCCESS);
  struct mqtt_publish m = expect_publish(&b, "first", "x", 0, false, NULL);
  CHECK(!mqtt_has(&m.props, MQTT_P_TOPIC_ALIAS));  // the publisher's alone
  expect_publish(&b, "first", "x", 0, false, NULL);
  expect_publish(&b, "second", "x", 0, false, NULL);
  expect_publish(&b, "second", "x", 0, false, NULL);
  CHECK(publish_alias(&a, "", 9) == MQTT_PROTOCOL_ERROR);
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(publish_alias(&a, "", 10) == MQTT_PROTOCOL_ERROR);  // of the connection, not the session
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(publish_alias(&a, "t", 11) == MQTT_TOPIC_ALIAS_INVALID);
}

// [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]
// [MQTT-3.3.4-3]
static void properties_pass_in_order(void **state) {
  (void)state;
  struct mqtt_prop_out list[] = {
      {.id = MQTT_P_USER_PROPERTY, .text = BYTES_LIT("k"), .value = BYTES_LIT("1")},
      {.id = MQTT_P_PAYLOAD_FORMAT, .number = 1},
      {.id = MQTT_P_MESSAGE_EXPIRY, .number = 60},
      {.id = MQTT_P_USER_PROPERTY, .text = BYTES_LIT("k"), .value = BYTES_LIT("2")},
      {.id = MQTT_P_CONTENT_TYPE, .text = BYTES_LIT("ct")},
      {.id = MQTT_P_RESPONSE_TOPIC, .text = BYTES_LIT("reply/to")},
      {.id = MQTT_P_TOPIC_ALIAS, .number = 1},
      {.id = MQTT_P_CORRELATION_DATA, .text = BYTES_LIT("\x00\x01\xff")},
      {.id = MQTT_P_USER_PROPERTY, .text = BYTES_LIT("a"), .value = BYTES_LIT("3")},
      {0}};
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  CHECK(client_subscribe_id(&b, "t", 1, 268435455, 1) == MQTT_SUCCESS);
  expect_suback(&b, MQTT_SUBACK, 1);
  CHECK(client_subscribe_id(&b, "+", 0, 7, 1) == MQTT_SUCCESS);
  expect_suback(&b, MQTT_SUBACK, 0);
  struct mqtt_publish_out o = {
      .qos = 2, .packet_id = 5, .topic = BYTES_LIT("t"), .props = list, .payload_len = 2};
  CHECK(client_publish_with(&a, &o, BYTES_LIT("hi")) == MQTT_SUCCESS);
  struct bytes packet;
  struct mqtt_publish m = expect_publish(&b, "t", "hi", 1, false, &packet);
  expect_none(&b);  // one copy, the highest QoS, both identifiers
  CHECK(m.props.subscription_id_count == 2);
  CHECK(m.props.subscription_id[0] + m.props.subscription_id[1] == 268435455 + 7);
  struct bytes all = bytes_part(packet, m.props.all);
  u8 want[200];
  struct writer wr = writer_init(span_of(want, sizeof want));
  struct mqtt_prop_out kept[8];
  u32 n = 0;
  for (u32 i = 0; list[i].id != 0; i++) {
    if (list[i].id != MQTT_P_TOPIC_ALIAS && list[i].id != MQTT_P_MESSAGE_EXPIRY) {
      kept[n++] = list[i];
    }
  }
  kept[n].id = 0;
  mqtt_write_props(&wr, kept);
  u32 tail = wr.pos - 1;
  CHECK(all.len > tail);
  CHECK(bytes_equal(bytes_skip(all, all.len - tail), bytes_of(want + 1, tail)));
}

static void queue_full_drops_newest(void **state) {  // mosq 2202: counted, and it drains
  (void)state;
  struct broker_limits l;
  broker_limits_default(&l, 16u << 20);
  teardown(NULL);
  l.session_queued_max = 5;
  l.session_inflight_max = 2;
  world_limits(&w, &l);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V5);
  client_init(&c, &w, MQTT_V5);
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 50));
  subscribe_ok(&b, "t", 1);
  client_detach(&b);
  char text[8];
  for (u32 i = 1; i <= 12; i++) {
    snprintf(text, sizeof text, "m%u", i);
    client_publish(&a, "t", text, 1, false, (u16)i);
    expect_ack(&a, MQTT_PUBACK, (u16)i, i <= 5 ? 0 : MQTT_QUOTA_EXCEEDED);
  }
  CHECK(broker_stats(w.b)->publish_dropped == 7);
  CHECK(client_connect(&b, "b", false, 50));
  for (u32 i = 1; i <= 5; i++) {
    snprintf(text, sizeof text, "m%u", i);
    struct mqtt_publish m = expect_publish(&b, "t", text, 1, false, NULL);
    client_ack(&b, MQTT_PUBACK, m.packet_id, 0);
  }
  client_publish(&a, "t", "later", 1, false, 1);
  expect_publish(&b, "t", "later", 1, false, NULL);
}

// [MQTT-2.2.1-6] [MQTT-3.8.4-2] [MQTT-3.8.4-5] [MQTT-3.8.4-6] [MQTT-3.8.4-7] [MQTT-3.9.3-1]
static void many_filters(void **state) {
  (void)state;
  for (u32 v = 0; v < 2; v++) {
    a.version = versions[v];
    CHECK(client_connect(&a, "a", true, 0));
    enum { MANY = 1500 };
    static char text[MANY][16];
    static struct mqtt_entry_out e[MANY];
    static u8 buf[40000];
    for (u32 i = 0; i < MANY; i++) {
      snprintf(text[i], sizeof text[i], "f/%u", i);
      e[i] = (struct mqtt_entry_out){bytes_str(text[i]), (u8)(i % 3)};
    }
    struct writer wr = writer_init(span_of(buf, sizeof buf));
    mqtt_encode_subscribe(&wr, a.version, 77, NULL, e, MANY);
    CHECK(wr.err == ERR_OK);
    CHECK(client_send(&a, writer_bytes(&wr)) == MQTT_SUCCESS);
    a.span_len = 13;
    struct bytes p;
    struct mqtt_suback s;
    CHECK(next_type(&a, &p) == MQTT_SUBACK);
    CHECK(mqtt_decode_suback(a.version, p, &s) == MQTT_SUCCESS);
    CHECK(s.packet_id == 77 && s.codes.len == MANY);
    for (u32 i = 0; i < MANY; i++) {
      CHECK(p.ptr[s.codes.off + i] == i % 3);
    }
    CHECK(broker_stats(w.b)->subscriptions == MANY);
    broker_check(w.b);
    client_detach(&a);
    CHECK(pool_taken(&w.b->nodes) == 1);
  }
}

// [MQTT-3.3.4-5]
static void shared_round_robin(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  CHECK(client_connect(&c, "c", true, 100));
  subscribe_ok(&b, "$share/g/t/+", 1);
  subscribe_ok(&c, "$share/g/t/+", 1);
  subscribe_ok(&c, "t/1", 0);  // beside the group: a copy of its own
  u32 got_b = 0;
  u32 got_c = 0;
  for (u32 i = 0; i < 10; i++) {
    client_publish(&a, "t/1", "x", 1, false, 1);
    struct bytes p;
    while (next_type(&b, &p) == MQTT_PUBLISH) {
      got_b++;
    }
    while (next_type(&c, &p) == MQTT_PUBLISH) {
      struct mqtt_publish m;
      CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
      if (m.qos > 0) {
        client_ack(&c, MQTT_PUBACK, m.packet_id, 0);
      }
      got_c++;
    }
  }
  CHECK(got_b == 5);
  CHECK(got_c == 15);
  broker_check(w.b);
  client_detach(&c);  // who is away is passed over
  client_publish(&a, "t/2", "x", 1, false, 1);
  client_publish(&a, "t/2", "y", 1, false, 1);
  expect_publish(&b, "t/2", "x", 1, false, NULL);
  expect_publish(&b, "t/2", "y", 1, false, NULL);
  client_unsubscribe(&b, "$share/g/t/+", 1);
  expect_suback(&b, MQTT_UNSUBACK, 0);
  client_publish(&a, "t/2", "z", 1, false, 1);
  expect_none(&b);
  CHECK(client_connect(&c, "c", false, 100));
  expect_publish(&c, "t/2", "z", 1, false, NULL);
}

// [MQTT-3.1.3-6] [MQTT-3.1.3-7] [MQTT-3.1.3-8] [MQTT-3.2.2-16] [MQTT-3.12.4-1] [MQTT-4.12.0-1]
// 3.1.1 [MQTT-3.1.3-8]
static void connect_rules(void **state) {
  (void)state;
  a.version = MQTT_V4;
  CHECK(!client_connect(&a, "", false, 0));
  CHECK(a.reason == MQTT_CLIENT_ID_NOT_VALID);
  CHECK(client_connect(&a, "", true, 0));
  b.version = MQTT_V5;
  CHECK(client_connect(&b, "", false, 0));
  CHECK(mqtt_has(&b.connack.props, MQTT_P_ASSIGNED_CLIENT_ID));
  CHECK(broker_stats(w.b)->clients_connected == 2);
  struct mqtt_prop_out p[] = {{.id = MQTT_P_AUTH_METHOD, .text = BYTES_LIT("SCRAM")}, {0}};
  struct mqtt_connect_out o = {
      .version = MQTT_V5, .clean_start = true, .client_id = BYTES_LIT("z"), .props = p};
  CHECK(!client_connect_with(&c, &o));
  CHECK(c.reason == MQTT_BAD_AUTH_METHOD);
  u8 ping[2] = {MQTT_PINGREQ << 4, 0};
  struct bytes packet;
  client_send(&a, bytes_of(ping, 2));
  CHECK(next_type(&a, &packet) == MQTT_PINGRESP);
  CHECK(client_publish(&b, "$SYS/x", "x", 1, false, 1) == MQTT_SUCCESS);
  expect_ack(&b, MQTT_PUBACK, 1, MQTT_NOT_AUTHORIZED);
}

// [MQTT-3.2.2-9] [MQTT-3.2.2-10]
static void limits_by_listener(void **state) {
  (void)state;
  struct broker_limits l;
  broker_limits_default(&l, 16u << 20);
  teardown(NULL);
  l.retain_available = false;
  l.keep_alive_max = 60;
  world_limits(&w, &l);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V5);
  client_init(&c, &w, MQTT_V5);
  a.qos_max = 1;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(a.keep_alive_s == 60);
  CHECK(a.connack.props.server_keep_alive == 60);
  CHECK(a.connack.props.maximum_qos == 1);
  CHECK(mqtt_has(&a.connack.props, MQTT_P_RETAIN_AVAILABLE));
  CHECK(client_publish(&a, "t", "x", 2, false, 1) == MQTT_QOS_NOT_SUPPORTED);
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_publish(&a, "t", "x", 0, true, 0) == MQTT_RETAIN_NOT_SUPPORTED);
  CHECK(client_connect(&a, "a", true, 0));
  client_subscribe_id(&a, "t", 2, 0, 1);
  expect_suback(&a, MQTT_SUBACK, 1);
}

static void big_payload_in_pieces(void **state) {
  (void)state;
  static u8 payload[1000000];
  for (u32 i = 0; i < sizeof payload; i++) {
    payload[i] = (u8)(i * 7 + i / 251);
  }
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  struct mqtt_publish_out o = {
      .qos = 1, .packet_id = 1, .topic = BYTES_LIT("t"), .payload_len = sizeof payload};
  CHECK(client_publish_with(&a, &o, bytes_of(payload, sizeof payload)) == MQTT_SUCCESS);
  client_publish(&a, "t", "small", 0, false, 0);
  b.span_len = 1447;
  struct bytes p;
  struct mqtt_publish m;
  CHECK(next_type(&b, &p) == MQTT_PUBLISH);
  CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
  CHECK(bytes_equal(bytes_part(p, m.payload), bytes_of(payload, sizeof payload)));
  expect_publish(&b, "t", "small", 0, false, NULL);
}

// [MQTT-4.3.2-3] [MQTT-4.3.2-5]
static void identifiers_stay_unique(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  client_publish(&a, "t", "x", 1, false, 1);
  u16 oldest = expect_publish(&b, "t", "x", 1, false, NULL).packet_id;  // never acknowledged
  for (u32 i = 0; i < 70000; i++) {
    client_publish(&a, "t", "x", 1, false, 1);
    a.rx_len = a.rx_pos = 0;
    client_pull(&a);
    struct bytes p;
    struct mqtt_publish m;
    b.rx_len = b.rx_pos = 0;
    if (next_type(&b, &p) == MQTT_PUBLISH) {
      CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
      CHECK(m.packet_id != oldest);
      client_ack(&b, MQTT_PUBACK, m.packet_id, 0);
    }
  }
  CHECK(broker_stats(w.b)->publish_dropped > 0);
  client_ack(&b, MQTT_PUBACK, oldest, 0);
  client_publish(&a, "t", "again", 1, false, 1);
  expect_publish(&b, "t", "again", 1, false, NULL);
}

static void replay_goes_on_after_reconnect(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  char topic[32];
  for (u32 i = 0; i < 200; i++) {
    snprintf(topic, sizeof topic, "r/%u", i);
    client_publish(&a, topic, "x", 1, true, 1);
    expect_ack(&a, MQTT_PUBACK, 1, MQTT_NO_MATCHING_SUBSCRIBERS);
  }
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "r/#", 1);
  static bool seen[200];
  u32 got = 0;
  for (u32 turn = 0; turn < 1000 && got < 200; turn++) {
    world_run(&w, 1000);
    struct bytes p;
    struct mqtt_publish m;
    while (next_type(&b, &p) == MQTT_PUBLISH) {
      CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
      u32 n = (u32)atoi((const char *)p.ptr + m.topic.off + 2);
      CHECK(n < 200);
      got += seen[n] ? 0 : 1;
      seen[n] = true;
      client_ack(&b, MQTT_PUBACK, m.packet_id, 0);
    }
    if (turn % 3 == 1) {
      client_detach(&b);
      world_run(&w, 1000);
      broker_check(w.b);
      CHECK(client_connect(&b, "b", false, 100));
    }
  }
  CHECK(got == 200);
  CHECK(pool_taken(&w.b->replays) == 0);
}

static bool no_secret(const void *ctx, const struct access_who *who, enum access_kind kind,
                      struct bytes topic) {
  (void)ctx, (void)who;
  return kind == ACCESS_READ || !bytes_equal_str(topic, "secret");
}
// 3.1.1 [MQTT-3.3.5-2]
static void permission_hooks(void **state) {
  (void)state;
  struct access_rules rules = {.allows = no_secret};
  broker_set_access(w.b, 0, &rules, true);
  for (u32 v = 0; v < 2; v++) {
    a.version = versions[v];
    CHECK(client_connect(&a, "a", true, 0));
    CHECK(client_subscribe_id(&a, "secret", 1, 0, 1) == MQTT_SUCCESS);
    expect_suback(&a, MQTT_SUBACK, v == 0 ? 0x80 : MQTT_NOT_AUTHORIZED);
    subscribe_ok(&a, "#", 1);
    client_publish(&a, "secret", "x", 1, true, 3);
    expect_ack(&a, MQTT_PUBACK, 3, MQTT_NOT_AUTHORIZED);  // 3.1.1: acknowledged all the same
    client_publish(&a, "secret", "x", 2, false, 4);
    expect_ack(&a, MQTT_PUBREC, 4, MQTT_NOT_AUTHORIZED);
    client_publish(&a, "secret", "x", 0, false, 0);
    expect_none(&a);
    CHECK(broker_stats(w.b)->retained == 0);
    client_detach(&a);
  }
}

// --- Shortage: every pool with k objects left, for all k until nothing fails any more

// Reads all: how many answers are refusals.
static u32 refusals(struct client *k) {
  struct bytes p;
  u32 count = 0;
  for (u8 type = next_type(k, &p); type != 0; type = next_type(k, &p)) {
    struct mqtt_suback s;
    struct mqtt_ack r;
    if (type == MQTT_SUBACK) {
      CHECK(mqtt_decode_suback(k->version, p, &s) == MQTT_SUCCESS);
      count += p.ptr[s.codes.off] >= 0x80 ? 1 : 0;
    } else if (type == MQTT_PUBACK || type == MQTT_PUBREC) {
      CHECK(mqtt_decode_ack(k->version, p, &r) == MQTT_SUCCESS);
      count += r.reason >= 0x80 ? 1 : 0;
    }
  }
  return count;
}

static u32 scenario(u32 k, u32 which) {
  struct pool *pool[] = {&w.b->sessions, &w.b->subs,   &w.b->nodes,   &w.b->entries,
                         &w.b->controls, &w.b->rnodes, &w.b->replays, &w.b->shares};
  void *held[40000];
  u32 count = 0;
  void *blocks[4000];
  u32 block_count = 0;
  if (which < ARRAY_COUNT(pool)) {
    while (pool[which]->free_count > k) {
      CHECK(count < ARRAY_COUNT(held));
      held[count++] = pool_take(pool[which]);
    }
  } else {
    for (u32 order = 21; order + 1 > 0; order--) {
      void *p = NULL;
      while (w.b->blocks.count - w.b->blocks.taken >= k + (1u << order) &&
             (p = blocks_take(&w.b->blocks, (u64)BLOCK_GRANULE << order)) != NULL) {
        blocks[block_count++] = p;
      }
    }
  }
  u32 failed = 0;
  failed +=
      client_publish(&c, "r/long-level-that-needs-a-block-of-its-own/x", "kept", 1, true, 1) != 0
          ? 1
          : 0;
  if (client_connect(&a, "a", true, 50)) {
    failed += client_subscribe_id(&a, "r/#", 1, 3, 1) != MQTT_SUCCESS ? 1 : 0;
    failed += a.s != NULL && client_subscribe_id(&a, "$share/g/t", 1, 3, 1) != 0 ? 1 : 0;
    failed += a.s != NULL && client_subscribe_id(&a, "t", 2, 4, 1) != 0 ? 1 : 0;
    world_run(&w, 1000);
    failed += a.s != NULL ? refusals(&a) : 0;
  } else {
    failed++;
  }
  for (u32 i = 0; i < 4 && c.s != NULL; i++) {
    failed += client_publish(&c, "t", "x", (u8)(i % 3), false, (u16)(i + 2)) != 0 ? 1 : 0;
    failed += c.s != NULL ? refusals(&c) : 0;
  }
  while (count > 0) {
    pool_put(pool[which], held[--count]);
  }
  while (block_count > 0) {
    blocks_put(&w.b->blocks, blocks[--block_count]);
  }
  broker_check(w.b);
  client_detach(&a);
  client_detach(&c);
  broker_check(w.b);
  return failed;
}
static void shortage_of_everything(void **state) {
  (void)state;
  for (u32 which = 0; which <= 8; which++) {
    u32 failures = 0;
    u32 short_of_it = 0;
    for (u32 k = 0; k < 40; k++) {
      struct broker_limits l;
      broker_limits_default(&l, 2u << 20);
      teardown(NULL);
      world_limits(&w, &l);
      client_init(&a, &w, MQTT_V5);
      client_init(&b, &w, MQTT_V5);
      client_init(&c, &w, MQTT_V5);
      CHECK(client_connect(&c, "c", true, 0));
      failures = scenario(k, which);
      short_of_it += failures > 0 || w.b->stats.publish_dropped > 0 ? 1 : 0;
    }
    if (short_of_it == 0) {
      fprintf(stderr, "pool %u is never short\n", which);
    }
    CHECK(short_of_it > 0);
    CHECK(failures == 0);  // with 40 left nothing is missing any more
  }
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(publish_every_qos),
      ONE(sessions_expire),
      ONE(expiry_at_disconnect),
      ONE(takeover_keeps_state),
      ONE(wills),
      ONE(retained_options),
      ONE(retained_replay_is_not_bounded),
      ONE(message_expiry),
      ONE(send_quota),
      ONE(maximum_packet_size),
      ONE(topic_alias),
      ONE(properties_pass_in_order),
      ONE(queue_full_drops_newest),
      ONE(many_filters),
      ONE(shared_round_robin),
      ONE(connect_rules),
      ONE(limits_by_listener),
      ONE(big_payload_in_pieces),
      ONE(identifiers_stay_unique),
      ONE(replay_goes_on_after_reconnect),
      ONE(permission_hooks),
      ONE(shortage_of_everything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
