// SPDX-License-Identifier: Apache-2.0
// Proves: a client below a mount point reaches and sees its part of the tree only: publishes,
// wills, filters, shared filters, aliases and retained messages are lengthened coming in and
// shortened going out, in both versions; a topic that would become too long is refused.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client in, old, out;  // two below "home/", 5.0 and 3.1.1; one outside

static int setup(void **state) {
  (void)state;
  world_open(&w);
  client_init(&in, &w, MQTT_V5);
  client_init(&old, &w, MQTT_V4);
  client_init(&out, &w, MQTT_V5);
  in.mount = old.mount = "home/";
  CHECK(client_connect(&in, "in", true, 0) && client_connect(&old, "old", true, 0));
  CHECK(client_connect(&out, "out", true, 0));
  return 0;
}
static int teardown(void **state) {
  (void)state;
  struct client *all[] = {&in, &old, &out};
  for (u32 i = 0; i < 3; i++) {
    client_detach(all[i]);
    client_free(all[i]);
  }
  world_close(&w);
  return 0;
}

static void subscribe(struct client *c, const char *filter) {
  CHECK(client_subscribe_id(c, filter, 0, 0, 1) == MQTT_SUCCESS);
  expect_suback(c, MQTT_SUBACK, 0);
}
static void expect_topic(struct client *c, const char *topic, const char *payload) {
  struct bytes p;
  struct mqtt_publish m;
  CHECK(next_type(c, &p) == MQTT_PUBLISH);
  CHECK(mqtt_decode_publish(c->version, p, &m) == MQTT_SUCCESS);
  CHECK(bytes_equal_str(bytes_part(p, m.topic), topic));
  CHECK(bytes_equal_str(bytes_part(p, m.payload), payload));
}

static void both_ways(void **state) {
  (void)state;
  subscribe(&in, "#");
  subscribe(&old, "a/+");
  subscribe(&out, "home/#");
  client_publish(&in, "a/1", "x", 0, false, 0);
  expect_topic(&in, "a/1", "x");
  expect_topic(&old, "a/1", "x");
  expect_topic(&out, "home/a/1", "x");
  client_publish(&out, "a/1", "outside", 0, false, 0);
  client_publish(&out, "home/a/2", "y", 0, false, 0);
  expect_topic(&in, "a/2", "y");
  expect_topic(&old, "a/2", "y");
  expect_topic(&out, "home/a/2", "y");
  expect_none(&in);
  expect_none(&old);
  CHECK(client_unsubscribe(&in, "#", 2) == MQTT_SUCCESS);
  expect_suback(&in, MQTT_UNSUBACK, 0);
  client_publish(&out, "home/a/3", "z", 0, false, 0);
  expect_none(&in);
}

static void retained_and_shared(void **state) {
  (void)state;
  client_publish(&in, "r/1", "kept", 0, true, 0);
  subscribe(&out, "home/r/1");
  expect_topic(&out, "home/r/1", "kept");
  subscribe(&old, "r/#");
  while (broker_stage(&w.core, w.b)) {
  }
  expect_topic(&old, "r/1", "kept");
  subscribe(&in, "$share/g/s/#");
  client_publish(&out, "home/s/1", "shared", 0, false, 0);
  expect_topic(&in, "s/1", "shared");
  // $SYS is outside.
  subscribe(&in, "$SYS/#");
  CHECK(broker_publish(w.b, BYTES_LIT("$SYS/x"), BYTES_LIT("1"), 0, false, unit_now_ns));
  expect_none(&in);
}

static void will_and_length(void **state) {
  (void)state;
  subscribe(&out, "home/w");
  struct client gone;
  client_init(&gone, &w, MQTT_V5);
  gone.mount = "home/";
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .client_id = BYTES_LIT("gone"),
                               .clean_start = true,
                               .has_will = true,
                               .will_topic = BYTES_LIT("w"),
                               .will_payload = BYTES_LIT("bye")};
  CHECK(client_connect_with(&gone, &o));
  client_detach(&gone);
  client_free(&gone);
  expect_topic(&out, "home/w", "bye");
  static char longest[65536];
  memset(longest, 'x', 65530);
  CHECK(client_publish(&in, longest, "", 0, false, 0) == MQTT_SUCCESS);
  longest[65530] = 'x';
  CHECK(client_publish(&in, longest, "", 0, false, 0) == MQTT_TOPIC_NAME_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(both_ways, setup, teardown),
      cmocka_unit_test_setup_teardown(retained_and_shared, setup, teardown),
      cmocka_unit_test_setup_teardown(will_and_length, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
