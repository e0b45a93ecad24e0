// SPDX-License-Identifier: Apache-2.0
// Proves: what must end a connection does and what must not does not; reason strings, payload
// format, the CONNACK's size, MQTT 3.1 and bridges.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client a, b, c;
static const enum mqtt_version versions[] = {MQTT_V4, MQTT_V5};

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

static void acknowledgements_of_another_kind(void **state) {
  (void)state;
  static const struct {
    u8 qos;
    enum mqtt_type first, then;  // then: 0 = first is wrong
  } rows[] = {{1, MQTT_PUBREC, 0},
              {1, MQTT_PUBCOMP, 0},
              {2, MQTT_PUBACK, 0},
              {2, MQTT_PUBCOMP, 0},
              {2, MQTT_PUBREC, MQTT_PUBACK}};
  for (u32 i = 0; i < ARRAY_COUNT(rows) * 2; i++) {
    a.version = versions[i % 2];
    CHECK(client_connect(&a, "a", true, 0));
    subscribe_ok(&a, "t", 2);
    CHECK(client_publish(&a, "t", "x", rows[i / 2].qos, false, 9) == MQTT_SUCCESS);
    struct bytes p;
    struct mqtt_publish m;
    while (next_type(&a, &p) != MQTT_PUBLISH) {
    }
    CHECK(mqtt_decode_publish(a.version, p, &m) == MQTT_SUCCESS);
    enum mqtt_reason r = client_ack(&a, rows[i / 2].first, m.packet_id, 0);
    CHECK(r == (rows[i / 2].then != 0 ? MQTT_SUCCESS : MQTT_PROTOCOL_ERROR));
    if (rows[i / 2].then != 0) {
      CHECK(client_ack(&a, rows[i / 2].then, m.packet_id, 0) == MQTT_PROTOCOL_ERROR);
    }
    CHECK(a.s == NULL);
    broker_check(w.b);
  }
}

static void unknown_identifiers_are_no_error(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  client_ack(&a, MQTT_PUBACK, 77, 0);
  client_ack(&a, MQTT_PUBCOMP, 77, 0);
  expect_none(&a);
  client_ack(&a, MQTT_PUBREC, 77, MQTT_QUOTA_EXCEEDED);
  expect_none(&a);  // [MQTT-4.3.3-4]: PUBREL only after a success
  client_ack(&a, MQTT_PUBREC, 77, 0);
  expect_ack(&a, MQTT_PUBREL, 77, MQTT_PACKET_ID_NOT_FOUND);
  client_ack(&a, MQTT_PUBREL, 77, 0);
  expect_ack(&a, MQTT_PUBCOMP, 77, MQTT_PACKET_ID_NOT_FOUND);
}

// The reason string of the next acknowledgement; empty when it has none.
static struct bytes next_string(struct client *k) {
  struct bytes p;
  struct mqtt_ack ack;
  CHECK(next_type(k, &p) != 0);
  CHECK(mqtt_decode_ack(MQTT_V5, p, &ack) == MQTT_SUCCESS);
  return mqtt_has(&ack.props, MQTT_P_REASON_STRING) ? bytes_part(p, ack.props.reason_string)
                                                    : bytes_of(NULL, 0);
}
// [MQTT-3.5.2-2] [MQTT-3.6.2-2] [MQTT-3.7.2-2]
static void reason_strings(void **state) {  // [MQTT-3.1.2-29] [MQTT-3.4.2-2]
  (void)state;
  for (u32 i = 0; i < 3; i++) {
    struct mqtt_prop_out p[] = {{.id = MQTT_P_REQUEST_PROBLEM, .number = i == 1 ? 0 : 1},
                                {.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = i == 2 ? 35 : 36},
                                {0}};
    struct mqtt_connect_out o = {
        .version = MQTT_V5, .clean_start = true, .client_id = BYTES_LIT("a"), .props = p};
    CHECK(client_connect_with(&a, &o));
    client_ack(&a, MQTT_PUBREL, 1, 0);  // 9 + 27 bytes
    struct bytes text = next_string(&a);
    CHECK(bytes_equal_str(text, i == 0 ? "packet identifier not found" : ""));
    client_detach(&a);
  }
}

static enum mqtt_reason publish_text(struct client *k, u8 qos, struct bytes payload) {
  struct mqtt_prop_out p[] = {{.id = MQTT_P_PAYLOAD_FORMAT, .number = 1}, {0}};
  struct mqtt_publish_out o = {.qos = qos,
                               .packet_id = qos > 0 ? 5 : 0,
                               .topic = BYTES_LIT("t"),
                               .props = p,
                               .payload_len = (u32)payload.len};
  return client_publish_with(k, &o, payload);
}
// [MQTT-4.3.3-9]
static void payload_format(void **state) {
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 0);
  CHECK(publish_text(&a, 0, BYTES_LIT("a\0b\n\xc3\xa9")) == MQTT_SUCCESS);
  struct bytes p;
  CHECK(next_type(&b, &p) == MQTT_PUBLISH);
  CHECK(publish_text(&a, 1, BYTES_LIT("\xff")) == MQTT_SUCCESS);
  expect_ack(&a, MQTT_PUBACK, 5, MQTT_PAYLOAD_FORMAT_INVALID);
  CHECK(publish_text(&a, 2, BYTES_LIT("\xc3")) == MQTT_SUCCESS);
  expect_ack(&a, MQTT_PUBREC, 5, MQTT_PAYLOAD_FORMAT_INVALID);
  CHECK(session_find(w.b, BYTES_LIT("a"))->inbound_count == 0);
  expect_none(&b);
  CHECK(publish_text(&a, 0, BYTES_LIT("\xff")) == MQTT_PAYLOAD_FORMAT_INVALID);
  struct mqtt_prop_out will[] = {{.id = MQTT_P_PAYLOAD_FORMAT, .number = 1}, {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("a"),
                               .has_will = true,
                               .will_topic = BYTES_LIT("t"),
                               .will_payload = BYTES_LIT("\xff"),
                               .will_props = will};
  CHECK(!client_connect_with(&a, &o));
  CHECK(a.reason == MQTT_PAYLOAD_FORMAT_INVALID);
}

// [MQTT-3.2.0-1]
static void connack_fits_the_client(void **state) {  // [MQTT-3.1.2-24]
  (void)state;
  struct mqtt_prop_out p[] = {{.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = 1},
                              {.id = MQTT_P_REQUEST_RESPONSE, .number = 1},
                              {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5, .clean_start = true, .props = p};
  w.b->limits.response_information = BYTES_LIT("answers/");
  w.b->limits.client_id_prefix = BYTES_LIT("box-");
  u32 least = 0;
  for (u32 most = 2; most < 120 && least == 0; most++) {
    p[0].number = most;
    if (client_connect_with(&a, &o)) {
      least = most;
    } else {
      CHECK(a.reason == MQTT_PACKET_TOO_LARGE);
      CHECK(broker_stats(w.b)->clients_total == 0);
    }
  }
  CHECK(least > 40);
  CHECK(a.rx_len == least);
  struct bytes packet = bytes_of(a.rx, a.rx_len);
  struct bytes id = bytes_part(packet, a.connack.props.assigned_client_id);
  CHECK(id.len == 20);
  CHECK(bytes_starts_with(id, BYTES_LIT("box-")));
  CHECK(bytes_equal_str(bytes_part(packet, a.connack.props.response_information), "answers/"));
  p[1].number = 0;
  CHECK(client_connect_with(&b, &o));
  CHECK(!mqtt_has(&b.connack.props, MQTT_P_RESPONSE_INFORMATION));  // [MQTT-3.1.2-28]
  w.b->limits.allow_empty_client_id = false;
  CHECK(!client_connect_with(&c, &o));
  CHECK(c.reason == MQTT_CLIENT_ID_NOT_VALID);
}

static void version_3_1_and_bridges(void **state) {
  (void)state;
  a.version = MQTT_V3;
  CHECK(!client_connect(&a, "", true, 0));
  CHECK(a.reason == MQTT_CLIENT_ID_NOT_VALID);
  CHECK(client_connect(&a, "old", true, 0));
  subscribe_ok(&a, "t", 1);
  CHECK(client_publish(&a, "t", "x", 1, false, 1) == MQTT_SUCCESS);
  expect_ack(&a, MQTT_PUBACK, 1, 0);
  expect_publish(&a, "t", "x", 1, false, NULL);
  client_unsubscribe(&a, "t", 2);
  expect_suback(&a, MQTT_UNSUBACK, 0);
  client_detach(&a);
  w.b->limits.v4_expiry_s = 100;
  for (u32 i = 0; i < 2; i++) {  // a session that is resumed: 3.1 has no byte to say so
    CHECK(client_connect(&a, "stays", false, 0));
    CHECK(!a.connack.session_present);
    client_detach(&a);
  }
  b.version = MQTT_V4;
  CHECK(client_connect(&b, "bridge", true, 0));
  b.s->bridge = true;  // as the level's highest bit says; the decoder's test has it
  subscribe_ok(&b, "t", 1);
  CHECK(client_connect(&c, "c", true, 0));
  client_publish(&b, "t", "own", 0, false, 0);
  client_publish(&c, "t", "kept", 0, true, 0);
  expect_publish(&b, "t", "kept", 0, true, NULL);  // not its own, and retained as published
  expect_none(&b);
}

// Topic and alias of the next PUBLISH.
static u16 expect_alias(struct client *k, const char *topic) {
  struct bytes p;
  struct mqtt_publish m;
  CHECK(next_type(k, &p) == MQTT_PUBLISH);
  CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
  CHECK(bytes_equal_str(bytes_part(p, m.topic), topic));
  CHECK(bytes_equal_str(bytes_part(p, m.payload), "x"));
  if (m.qos > 0) {
    client_ack(k, MQTT_PUBACK, m.packet_id, 0);
  }
  return mqtt_has(&m.props, MQTT_P_TOPIC_ALIAS) ? m.props.topic_alias : 0;
}
static void aliases_out(void **state) {  // [MQTT-3.1.2-26] [MQTT-3.1.2-27] [MQTT-3.3.2-7] [-11]
  (void)state;
  struct mqtt_prop_out p[] = {{.id = MQTT_P_TOPIC_ALIAS_MAXIMUM, .number = 2},
                              {.id = MQTT_P_SESSION_EXPIRY, .number = 100},
                              {.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = 1000},
                              {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5, .client_id = BYTES_LIT("b"), .props = p};
  CHECK(client_connect(&a, "a", true, 0));
  for (u32 round = 0; round < 3; round++) {  // the third without: none is used
    p[0].number = round == 2 ? 0 : 2;
    CHECK(client_connect_with(&b, &o));
    if (round == 0) {
      subscribe_ok(&b, "#", 1);
    }
    client_publish(&a, "topic/one", "x", 1, false, 1);
    client_publish(&a, "topic/one", "x", 0, false, 0);
    client_publish(&a, "t", "x", 0, false, 0);  // too short to be worth it
    client_publish(&a, "topic/two", "x", 1, false, 1);
    client_publish(&a, "topic/three", "x", 1, false, 1);
    client_publish(&a, "topic/two", "x", 1, false, 1);
    bool with = round < 2;
    b.span_len = round == 1 ? 5 : 16384;  // a packet in many pulls
    CHECK(expect_alias(&b, "topic/one") == (with ? 1 : 0));
    CHECK(expect_alias(&b, with ? "" : "topic/one") == (with ? 1 : 0));
    CHECK(expect_alias(&b, "t") == 0);
    CHECK(expect_alias(&b, "topic/two") == (with ? 2 : 0));
    CHECK(expect_alias(&b, "topic/three") == 0);
    CHECK(expect_alias(&b, with ? "" : "topic/two") == (with ? 2 : 0));
    broker_check(w.b);
    client_detach(&b);
  }
  // A packet that is too large with its alias goes without, one too large at all not at all.
  p[0].number = 2;
  p[2].number = 2 + 2 + 9 + 1 + 1;
  CHECK(client_connect(&b, "b", true, 0));
  client_detach(&b);
  o.clean_start = true;
  p[1].number = 0;
  o.props = p;
  CHECK(!client_connect_with(&b, &o));  // the CONNACK itself is larger
  p[2].number = 40;
  CHECK(client_connect_with(&b, &o));
  subscribe_ok(&b, "#", 0);
  const char *topic = "a/topic/of/thirty-four/bytes/....";
  CHECK(strlen(topic) == 33);
  client_publish(&a, topic, "x", 0, false, 0);  // 2 + 2 + 33 + 1 + 1 = 39, 42 with the alias
  CHECK(expect_alias(&b, topic) == 0);
  client_publish(&a, "topic/one", "x", 0, false, 0);
  CHECK(expect_alias(&b, "topic/one") == 1);
}

// [MQTT-3.2.2-12] [MQTT-3.2.2-13] [MQTT-3.3.4-6]
static void refused_wills_and_publishes(void **state) {
  (void)state;
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("a"),
                               .has_will = true,
                               .will_qos = 2,
                               .will_topic = BYTES_LIT("t"),
                               .will_payload = BYTES_LIT("x")};
  a.qos_max = 1;
  CHECK(!client_connect_with(&a, &o));
  CHECK(a.reason == MQTT_QOS_NOT_SUPPORTED);
  o.will_qos = 1;
  o.will_retain = true;
  w.b->limits.retain_available = false;
  CHECK(!client_connect_with(&a, &o));
  CHECK(a.reason == MQTT_RETAIN_NOT_SUPPORTED);
  CHECK(broker_stats(w.b)->clients_total == 0);
  o.will_retain = false;
  CHECK(client_connect_with(&a, &o));
  struct mqtt_prop_out p[] = {{.id = MQTT_P_SUBSCRIPTION_ID, .number = 1}, {0}};
  struct mqtt_publish_out m = {.topic = BYTES_LIT("t"), .props = p, .payload_len = 1};
  CHECK(client_publish_with(&a, &m, BYTES_LIT("x")) == MQTT_PROTOCOL_ERROR);
}

// [MQTT-3.1.3-10] [MQTT-3.8.4-3]
static void will_properties_and_a_replaced_subscription(void **state) {
  (void)state;
  struct mqtt_prop_out p[] = {
      {.id = MQTT_P_USER_PROPERTY, .text = BYTES_LIT("k"), .value = BYTES_LIT("1")},
      {.id = MQTT_P_USER_PROPERTY, .text = BYTES_LIT("a"), .value = BYTES_LIT("2")},
      {.id = MQTT_P_USER_PROPERTY, .text = BYTES_LIT("k"), .value = BYTES_LIT("0")},
      {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("a"),
                               .has_will = true,
                               .will_qos = 1,
                               .will_topic = BYTES_LIT("t"),
                               .will_payload = BYTES_LIT("x"),
                               .will_props = p};
  CHECK(client_connect_with(&a, &o));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 1);
  subscribe_ok(&b, "t", 0);  // replaces: one copy, of QoS 0
  CHECK(broker_stats(w.b)->subscriptions == 1);
  client_detach(&a);
  struct bytes packet;
  struct mqtt_publish m = expect_publish(&b, "t", "x", 0, false, &packet);
  expect_none(&b);
  static const char *want[] = {"k1", "a2", "k0"};
  u32 pos = m.props.all.off;
  struct part name;
  struct part value;
  for (u32 i = 0; i < 3; i++) {
    CHECK(mqtt_user_property(packet, &m.props, &pos, &name, &value));
    CHECK(packet.ptr[name.off] == want[i][0] && packet.ptr[value.off] == want[i][1]);
  }
  CHECK(!mqtt_user_property(packet, &m.props, &pos, &name, &value));
}

// [MQTT-3.10.4-1] [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6] [MQTT-3.11.3-1]
static void unsubscribe_several(void **state) {
  (void)state;
  for (u32 v = 0; v < 2; v++) {
    a.version = versions[v];
    CHECK(client_connect(&a, "a", true, 0));
    subscribe_ok(&a, "t/1", 0);
    subscribe_ok(&a, "t/+", 0);
    u8 buf[64];
    struct writer out = writer_init(span_of(buf, sizeof buf));
    struct mqtt_entry_out e[] = {
        {BYTES_LIT("t/2"), 0}, {BYTES_LIT("t/1"), 0}, {BYTES_LIT("t/#"), 0}};
    mqtt_encode_unsubscribe(&out, a.version, 9, NULL, e, 3);
    CHECK(client_send(&a, writer_bytes(&out)) == MQTT_SUCCESS);
    struct bytes p;
    struct mqtt_suback r;
    CHECK(next_type(&a, &p) == MQTT_UNSUBACK);
    CHECK(mqtt_decode_suback(a.version, p, &r) == MQTT_SUCCESS);
    CHECK(r.packet_id == 9);
    if (a.version == MQTT_V5) {
      CHECK(r.codes.len == 3);
      CHECK(p.ptr[r.codes.off] == MQTT_NO_SUBSCRIPTION_EXISTED);
      CHECK(p.ptr[r.codes.off + 1] == MQTT_SUCCESS);
      CHECK(p.ptr[r.codes.off + 2] == MQTT_NO_SUBSCRIPTION_EXISTED);
    }
    CHECK(broker_stats(w.b)->subscriptions == 1);  // t/+ is another filter than t/#
    client_unsubscribe(&a, "nothing", 3);
    CHECK(next_type(&a, &p) == MQTT_UNSUBACK);
    client_detach(&a);
  }
}

// [MQTT-4.3.3-7] [MQTT-4.3.3-13]
static void what_was_sent_does_not_expire(void **state) {
  (void)state;
  struct mqtt_prop_out p[] = {{.id = MQTT_P_MESSAGE_EXPIRY, .number = 10}, {0}};
  struct mqtt_publish_out o = {
      .qos = 2, .packet_id = 1, .topic = BYTES_LIT("t"), .props = p, .payload_len = 1};
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "t", 2);
  client_publish_with(&a, &o, BYTES_LIT("x"));
  u16 pid = expect_publish(&b, "t", "x", 2, false, NULL).packet_id;
  client_detach(&b);
  world_run(&w, 20 * NS);
  CHECK(client_connect(&b, "b", false, 100));
  struct mqtt_publish m = expect_publish(&b, "t", "x", 2, false, NULL);
  CHECK(m.dup && m.packet_id == pid);
  world_run(&w, 20 * NS);
  client_ack(&b, MQTT_PUBREC, pid, 0);
  expect_ack(&b, MQTT_PUBREL, pid, 0);
  client_ack(&b, MQTT_PUBCOMP, pid, 0);
  CHECK(broker_stats(w.b)->messages_stored == 0);
}

// [MQTT-3.1.2-14] [MQTT-3.1.2-15]
static void wills_are_retained_when_they_say_so(void **state) {
  (void)state;
  for (u32 retain = 0; retain < 2; retain++) {
    struct mqtt_connect_out o = {.version = MQTT_V5,
                                 .clean_start = true,
                                 .client_id = BYTES_LIT("a"),
                                 .has_will = true,
                                 .will_retain = retain == 1,
                                 .will_topic = BYTES_LIT("t"),
                                 .will_payload = BYTES_LIT("x")};
    CHECK(client_connect_with(&a, &o));
    client_detach(&a);
    CHECK(broker_stats(w.b)->retained == retain);
  }
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      ONE(acknowledgements_of_another_kind),
      ONE(unknown_identifiers_are_no_error),
      ONE(reason_strings),
      ONE(payload_format),
      ONE(connack_fits_the_client),
      ONE(version_3_1_and_bridges),
      ONE(aliases_out),
      ONE(unsubscribe_several),
      ONE(what_was_sent_does_not_expire),
      ONE(wills_are_retained_when_they_say_so),
      ONE(refused_wills_and_publishes),
      ONE(will_properties_and_a_replaced_subscription),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
