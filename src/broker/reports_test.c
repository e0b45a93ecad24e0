// SPDX-License-Identifier: Apache-2.0
// Proves: faults that users of other brokers have reported do not happen here; one test a kind of
// fault. Those that older tests show are listed in docs/conformance.md.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
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

static void third_copy_of_a_qos2_message(void **state) {  // mosquitto 3602
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 0);
  for (u32 i = 0; i < 5; i++) {
    CHECK(client_publish(&a, "t", "x", 2, false, 7) == MQTT_SUCCESS);
    expect_ack(&a, MQTT_PUBREC, 7, MQTT_SUCCESS);
  }
  expect_publish(&b, "t", "x", 0, false, NULL);
  expect_none(&b);
  client_ack(&a, MQTT_PUBREL, 7, 0);
  expect_ack(&a, MQTT_PUBCOMP, 7, 0);
}

static void qos2_memory_that_a_timer_or_takeover_forgets(void **state) {  // emqx 18441, 16721
  (void)state;
  CHECK(client_connect(&a, "a", true, 100000));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 0);
  CHECK(client_publish(&a, "t", "x", 2, false, 7) == MQTT_SUCCESS);
  expect_publish(&b, "t", "x", 0, false, NULL);
  client_detach(&a);
  world_run(&w, 90000 * NS);
  CHECK(client_connect(&a, "a", false, 100000));
  CHECK(client_connect(&c, "a", false, 100000));  // and somebody takes it over
  CHECK(a.kicked);
  CHECK(client_publish(&c, "t", "x", 2, false, 7) == MQTT_SUCCESS);
  expect_ack(&c, MQTT_PUBREC, 7, 0);
  expect_none(&b);
  client_ack(&c, MQTT_PUBREL, 7, 0);
  expect_ack(&c, MQTT_PUBCOMP, 7, 0);
}

static void resend_without_dup_and_release_unknown(void **state) {  // bifromq 281, mosquitto 3275
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "t", 2);
  client_publish(&a, "t", "x", 2, false, 1);
  u16 pid = expect_publish(&b, "t", "x", 2, false, NULL).packet_id;
  client_detach(&b);
  CHECK(client_connect(&b, "b", false, 100));
  struct mqtt_publish m = expect_publish(&b, "t", "x", 2, false, NULL);
  CHECK(m.dup);
  CHECK(m.packet_id == pid);
  client_ack(&b, MQTT_PUBREC, pid, 0);
  expect_ack(&b, MQTT_PUBREL, pid, MQTT_SUCCESS);
  client_detach(&b);  // PUBCOMP was lost
  CHECK(client_connect(&b, "b", false, 100));
  expect_ack(&b, MQTT_PUBREL, pid, MQTT_SUCCESS);
  client_ack(&b, MQTT_PUBCOMP, pid, 0);
  expect_none(&b);
}

static void session_that_is_not_resumed(void **state) {  // nanomq 2412, 1885
  (void)state;
  CHECK(client_connect(&a, "a", true, 100));
  subscribe_ok(&a, "t/#", 1);
  client_detach(&a);
  CHECK(client_connect(&b, "b", true, 0));
  client_publish(&b, "t/x", "kept", 1, false, 1);
  CHECK(client_connect(&a, "a", false, 100));
  CHECK(a.connack.session_present);
  expect_publish(&a, "t/x", "kept", 1, false, NULL);
  client_publish(&b, "t/y", "live", 0, false, 0);
  expect_publish(&a, "t/y", "live", 0, false, NULL);
}

static void subscription_that_works_only_later(void **state) {  // bifromq 281
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 0);  // from the SUBACK on
  client_publish(&a, "t", "at once", 0, false, 0);
  expect_publish(&b, "t", "at once", 0, false, NULL);
}

static void acknowledged_and_dropped_in_silence(void **state) {  // mosquitto 2202, 2256
  (void)state;
  w.b->limits.session_queued_max = 1;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "t", 1);
  client_detach(&b);
  client_publish(&a, "t", "1", 1, false, 1);
  expect_ack(&a, MQTT_PUBACK, 1, MQTT_SUCCESS);
  client_publish(&a, "t", "2", 1, false, 2);
  expect_ack(&a, MQTT_PUBACK, 2, MQTT_QUOTA_EXCEEDED);
  struct broker_session_info i;
  broker_session_info(session_find(w.b, BYTES_LIT("b")), &i);
  CHECK(i.dropped[BROKER_DROPPED_QUEUE] == 1);
}

static void counters_below_zero_and_drift(void **state) {  // mosquitto 287, 2466; aedes 928
  (void)state;
  for (u32 k = 0; k < 300; k++) {
    CHECK(client_connect(&a, "a", k % 3 == 0, 10));
    CHECK(client_subscribe_id(&a, "t/+", (u8)(k % 3), 0, 1) == MQTT_SUCCESS);
    client_publish(&a, "t/1", "x", (u8)(k % 3), k % 5 == 0, 1);
    if (k % 4 == 0) {
      CHECK(client_connect(&b, "a", false, 10));  // a takeover
      CHECK(a.kicked);
      client_detach(&b);
    } else if (k % 4 == 1) {
      client_disconnect(&a, 0, NULL);
    } else {
      client_detach(&a);
    }
    world_run(&w, k % 7 == 0 ? 11 * NS : 1000);
    const struct broker_stats *t = broker_stats(w.b);
    CHECK(t->clients_connected == 0);
    CHECK(t->clients_total <= 1);
    CHECK(t->subscriptions <= 1);
    broker_check(w.b);
  }
  CHECK(client_connect(&a, "a", true, 0));
  client_publish(&a, "t/1", "", 0, true, 0);
  client_detach(&a);
  const struct broker_stats *t = broker_stats(w.b);
  CHECK(t->clients_total == 0 && t->subscriptions == 0 && t->retained == 0);
  CHECK(t->messages_stored == 0 && t->message_bytes_stored == 0);
  CHECK(t->queued == 0 && t->queued_bytes == 0 && t->inflight == 0 && t->inflight_bytes == 0);
  CHECK(pool_taken(&w.b->entries) == 0 && pool_taken(&w.b->controls) == 0);
  CHECK(w.b->blocks.taken == 0);
}

static void retained_set_that_delays_the_others(void **state) {  // emqx 5431, 2620; mosquitto 2887
  (void)state;
  w.b->limits.session_queued_max = 20;
  CHECK(client_connect(&a, "a", true, 0));
  char topic[16];
  for (u32 i = 0; i < 2000; i++) {
    snprintf(topic, sizeof topic, "r/%u", i);
    client_publish(&a, topic, "x", 0, true, 0);
  }
  CHECK(broker_stats(w.b)->retained == 2000);
  CHECK(client_connect(&b, "b", true, 0));
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&c, "live", 0);
  subscribe_ok(&b, "r/#", 0);
  u32 got = 0;
  for (u32 turn = 0; turn < 5000 && got < 2000; turn++) {
    (void)loop_turn(&w.core);
    client_publish(&a, "live", "now", 0, false, 0);
    expect_publish(&c, "live", "now", 0, false, NULL);  // in every turn of the replay
    struct bytes p;
    while (next_type(&b, &p) == MQTT_PUBLISH) {
      got++;
    }
  }
  CHECK(got == 2000);  // all of them, whatever the queue's limit
}

static void takeover_that_loses_messages(void **state) {  // mosquitto 1650
  (void)state;
  CHECK(client_connect(&a, "x", true, 100));
  subscribe_ok(&a, "t", 1);
  CHECK(client_connect(&c, "p", true, 0));
  char text[8];
  struct client *now = &a;
  struct client *next = &b;
  u32 expected = 0;
  for (u32 i = 0; i < 100; i++) {
    snprintf(text, sizeof text, "%u", i);
    client_publish(&c, "t", text, 1, false, 1);
    if (i % 10 == 9) {
      CHECK(client_connect(next, "x", false, 100));
      CHECK(next->connack.session_present);
      struct client *t = now;
      now = next;
      next = t;
      for (; expected <= i; expected++) {
        snprintf(text, sizeof text, "%u", expected);
        u16 pid = expect_publish(now, "t", text, 1, false, NULL).packet_id;
        client_ack(now, MQTT_PUBACK, pid, 0);
      }
    }
  }
  CHECK(expected == 100);
}

static void empty_topics_and_server_packets(void **state) {  // CVE-2021-34432, mosquitto 2163
  (void)state;
  static const u8 bad[][6] = {{0x30, 2, 0, 0},      {0x20, 2, 0, 0},    {0x90, 3, 0, 1, 0},
                              {0x32, 3, 0, 1, 'a'}, {0x82, 5, 0, 1, 0}, {0xd0, 0}};
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    CHECK(client_connect(&a, "a", true, 0));
    CHECK(client_send(&a, bytes_of(bad[i], (usize)bad[i][1] + 2)) != MQTT_SUCCESS);
    CHECK(a.s == NULL);
  }
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      ONE(third_copy_of_a_qos2_message),
      ONE(qos2_memory_that_a_timer_or_takeover_forgets),
      ONE(resend_without_dup_and_release_unknown),
      ONE(session_that_is_not_resumed),
      ONE(subscription_that_works_only_later),
      ONE(acknowledged_and_dropped_in_silence),
      ONE(counters_below_zero_and_drift),
      ONE(retained_set_that_delays_the_others),
      ONE(takeover_that_loses_messages),
      ONE(empty_topics_and_server_packets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
