// SPDX-License-Identifier: Apache-2.0
// Proves: message_size_limit, global_max_clients and retain_expiry_interval hold exactly at their
// figure, for both versions of MQTT, and change while serving; payload bytes are counted both ways.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client a, b;

static void begin(u32 payload, u32 clients, u32 expiry_s) {
  struct broker_limits l;
  broker_limits_default(&l, 16u << 20);
  l.payload_size_max = payload;
  l.clients_max = clients;
  l.retained_expiry_s = expiry_s;
  world_limits(&w, &l);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V4);
}
static void end(void) {
  client_detach(&a);
  client_detach(&b);
  client_free(&a);
  client_free(&b);
  world_close(&w);
}

static void payloads(void **state) {
  (void)state;
  begin(5, 0, 0);
  CHECK(client_connect(&a, "a", true, 0) && client_connect(&b, "b", true, 0));
  CHECK(client_subscribe_id(&b, "t", 0, 0, 1) == MQTT_SUCCESS);
  expect_suback(&b, MQTT_SUBACK, 0);
  client_publish(&a, "t", "12345", 1, false, 1);
  expect_ack(&a, MQTT_PUBACK, 1, 0);
  struct bytes p;
  CHECK(next_type(&b, &p) == MQTT_PUBLISH);
  for (u8 qos = 0; qos <= 2; qos++) {  // as mosquitto: the connection stays, nothing is forwarded
    CHECK(client_publish(&a, "t", "123456", qos, true, 2) == MQTT_SUCCESS);
    if (qos > 0) {
      expect_ack(&a, qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, 2, MQTT_QUOTA_EXCEEDED);
    }
    CHECK(client_publish(&b, "t", "123456", qos == 2 ? 1 : qos, true, 3) == MQTT_SUCCESS);
    if (qos > 0) {
      expect_ack(&b, MQTT_PUBACK, 3, 0);
    }
  }
  expect_none(&b);
  CHECK(broker_stats(w.b)->retained == 0);
  CHECK(broker_stats(w.b)->publish_bytes_received == 5 + 6 * 6);
  CHECK(broker_stats(w.b)->publish_bytes_sent == 5);
  struct broker_limits l;
  broker_limits_default(&l, 16u << 20);
  broker_change_limits(w.b, &l);
  client_publish(&a, "t", "123456", 1, false, 4);
  expect_ack(&a, MQTT_PUBACK, 4, 0);
  end();
}

static void clients(void **state) {
  (void)state;
  begin(0, 1, 0);
  CHECK(client_connect(&a, "a", true, 100));
  CHECK(!client_connect(&b, "b", true, 0));
  client_detach(&a);
  CHECK(!client_connect(&b, "b", true, 0));  // who is away counts too
  CHECK(client_connect(&a, "a", false, 0));  // and may come back
  client_detach(&a);
  CHECK(client_connect(&b, "b", true, 0));
  end();
}

static void retained(void **state) {
  (void)state;
  begin(0, 0, 60);
  CHECK(client_connect(&a, "a", true, 0) && client_connect(&b, "b", true, 0));
  client_publish(&a, "r/1", "x", 0, true, 0);
  unit_now_ns += 59999999999ull;
  w.core.now_ns = unit_now_ns;
  CHECK(client_subscribe_id(&b, "r/1", 0, 0, 1) == MQTT_SUCCESS);
  expect_suback(&b, MQTT_SUBACK, 0);
  struct bytes p;
  CHECK(next_type(&b, &p) == MQTT_PUBLISH);
  unit_now_ns++;
  CHECK(client_subscribe_id(&b, "r/1", 0, 0, 2) == MQTT_SUCCESS);
  expect_suback(&b, MQTT_SUBACK, 0);
  expect_none(&b);
  CHECK(broker_stats(w.b)->retained == 0);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(payloads), cmocka_unit_test(clients),
                                     cmocka_unit_test(retained)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
