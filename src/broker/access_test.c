// SPDX-License-Identifier: Apache-2.0
// Proves: rules hold at every point of the broker: PUBLISH, each delivery (also from the remembered
// answers, after a change of rules, and for a client id in other hands), retained messages and
// their publishers, wills, SUBSCRIBE where asked for, '$' topics.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/acl.h"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client a, b, c;
static void *acl_memory;

static void complain(void *user, const struct acl_complaint *p) {
  (void)user;
  fprintf(stderr, "acl:%u: %s\n", p->line, p->text);
}
static void rules_in(u32 set, const char *text, bool check_subscribe) {
  static const struct siphash_key key = {1, 2};
  usize size = acl_bytes(bytes_str(text));
  acl_memory = aligned_alloc(16, size);
  struct acl *acl = acl_parse(bytes_str(text), span_of(acl_memory, size), &key, complain, NULL);
  CHECK(acl != NULL);
  struct access_rules r = {.ctx = acl, .allows = acl_allows};
  broker_set_access(w.b, set, &r, check_subscribe);
}
static void rules(const char *text) {
  free(acl_memory);
  rules_in(0, text, false);
}

static int open_world(void **state) {
  (void)state;
  world_open(&w);
  client_init(&a, &w, MQTT_V5);
  client_init(&b, &w, MQTT_V5);
  client_init(&c, &w, MQTT_V5);
  a.username = "alice";
  b.username = "bob";
  return 0;
}
static int close_world(void **state) {
  (void)state;
  client_free(&a);
  client_free(&b);
  client_free(&c);
  world_close(&w);
  free(acl_memory);
  acl_memory = NULL;
  return 0;
}

static void publishing(void **state) {
  (void)state;
  rules("user alice\ntopic write up/#\ntopic read down\nuser bob\ntopic read #\n");
  for (u32 v = 0; v < 2; v++) {
    a.version = v == 0 ? MQTT_V4 : MQTT_V5;
    CHECK(client_connect(&a, "a", true, 0));
    CHECK(client_connect(&b, "b", true, 0));
    subscribe_ok(&b, "#", 2);
    client_publish(&a, "down", "x", 1, false, 1);
    expect_ack(&a, MQTT_PUBACK, 1, MQTT_NOT_AUTHORIZED);  // 3.1.1: a PUBACK as any other
    client_publish(&a, "down", "x", 2, false, 2);
    expect_ack(&a, MQTT_PUBREC, 2, MQTT_NOT_AUTHORIZED);
    expect_none(&b);
    client_publish(&a, "up/1", "y", 1, false, 3);
    expect_ack(&a, MQTT_PUBACK, 3, 0);
    expect_publish(&b, "up/1", "y", 1, false, NULL);
    client_detach(&a);
    client_detach(&b);
  }
}

static void each_delivery(void **state) {
  (void)state;
  rules("user alice\ntopic #\nuser bob\ntopic read open/#\ntopic deny open/x\n");
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&b, "#", 0);  // granted, whatever may be read
  subscribe_ok(&c, "#", 0);
  for (u32 i = 0; i < 3; i++) {  // the second and third from memory
    client_publish(&a, "open/1", "1", 0, false, 0);
    client_publish(&a, "open/x", "2", 0, false, 0);
    client_publish(&a, "closed", "3", 0, false, 0);
    expect_publish(&b, "open/1", "1", 0, false, NULL);
    expect_none(&b);
    expect_none(&c);  // anonymous: no rule at all
  }
  rules("topic read #\nuser alice\ntopic #\nuser bob\ntopic read closed\n");
  for (u32 i = 0; i < 2; i++) {
    client_publish(&a, "open/1", "1", 0, false, 0);
    client_publish(&a, "closed", "3", 0, false, 0);
    expect_publish(&b, "closed", "3", 0, false, NULL);
    expect_publish(&c, "open/1", "1", 0, false, NULL);
    expect_publish(&c, "closed", "3", 0, false, NULL);
  }
  broker_set_access(w.b, 0, NULL, false);
  client_publish(&b, "open/1", "1", 0, false, 0);
  expect_publish(&b, "open/1", "1", 0, false, NULL);
}

// A session in other hands: the same client id with another user name, and none.
static void other_hands(void **state) {
  (void)state;
  rules(
      "topic write #\nuser alice\ntopic read t\nuser a very long user name that fits no small "
      "granule of any block allocator and so moves the session's names to another place\n"
      "topic read u\n");
  struct client me;
  client_init(&me, &w, MQTT_V5);
  const char *names[] = {"alice",
                         "a very long user name that fits no small granule of any block allocator "
                         "and so moves the session's names to another place",
                         NULL, "alice"};
  CHECK(client_connect(&c, "publisher", true, 0));
  for (u32 i = 0; i < ARRAY_COUNT(names); i++) {
    me.username = names[i];
    CHECK(client_connect(&me, "device", i == 0, 100));
    CHECK(me.connack.session_present == (i > 0));
    if (i == 0) {
      subscribe_ok(&me, "#", 0);
    }
    client_publish(&c, "t", "t", 0, false, 0);
    client_publish(&c, "u", "u", 0, false, 0);
    if (names[i] != NULL) {
      const char *topic = i == 1 ? "u" : "t";
      expect_publish(&me, topic, topic, 0, false, NULL);
    }
    expect_none(&me);
    client_detach(&me);
  }
  client_free(&me);
}

static void retained_source(void **state) {
  (void)state;
  rules("topic read #\nuser alice\ntopic write r\nuser bob\ntopic write r\n");
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&c, "c", true, 0));
  client_publish(&a, "r", "kept", 1, true, 1);
  expect_ack(&a, MQTT_PUBACK, 1, MQTT_NO_MATCHING_SUBSCRIBERS);
  subscribe_ok(&c, "r", 0);
  expect_publish(&c, "r", "kept", 0, true, NULL);
  subscribe_ok(&c, "#", 0);
  world_run(&w, 1);
  expect_publish(&c, "r", "kept", 0, true, NULL);
  rules("topic read #\nuser alice\ntopic read r\n");  // she may not write any more
  subscribe_ok(&c, "r", 0);
  subscribe_ok(&c, "#", 0);
  world_run(&w, 1);
  expect_none(&c);
  w.b->limits.check_retain_source = false;
  subscribe_ok(&c, "r", 0);
  expect_publish(&c, "r", "kept", 0, true, NULL);
  rules("user alice\ntopic write r\n");  // and c may not read
  subscribe_ok(&c, "r", 0);
  expect_none(&c);
}

static void wills(void **state) {
  (void)state;
  rules("topic read #\nuser alice\ntopic write good\n");
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&c, "#", 0);
  const char *topics[] = {"good", "bad", "$CONTROL/x"};
  for (u32 i = 0; i < ARRAY_COUNT(topics); i++) {
    struct mqtt_connect_out o = {.version = MQTT_V5,
                                 .clean_start = true,
                                 .client_id = BYTES_LIT("a"),
                                 .has_will = true,
                                 .will_topic = bytes_str(topics[i]),
                                 .will_payload = BYTES_LIT("gone")};
    bool in = client_connect_with(&a, &o);
    CHECK(in == (i < 2));
    CHECK(in || a.reason == MQTT_NOT_AUTHORIZED);
    client_detach(&a);
    if (i == 0) {
      expect_publish(&c, "good", "gone", 0, false, NULL);
    }
    expect_none(&c);
  }
}

static void subscribe_check(void **state) {
  (void)state;
  const char *text = "user alice\ntopic read a/#\ntopic write w\n";
  rules(text);
  CHECK(client_connect(&a, "a", true, 0));
  subscribe_ok(&a, "w", 1);
  broker_set_access(w.b, 0, &w.b->access[0].rules, true);
  CHECK(client_subscribe_id(&a, "w", 1, 0, 1) == MQTT_SUCCESS);
  expect_suback(&a, MQTT_SUBACK, MQTT_NOT_AUTHORIZED);
  subscribe_ok(&a, "a/b", 1);
  subscribe_ok(&a, "$share/g/a/+", 1);
  client_unsubscribe(&a, "w", 9);
  expect_suback(&a, MQTT_UNSUBACK, 0);
  client_detach(&a);
  a.version = MQTT_V4;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_subscribe_id(&a, "w", 1, 0, 1) == MQTT_SUCCESS);
  expect_suback(&a, MQTT_SUBACK, 0x80);
}

static void dollar_topics(void **state) {
  (void)state;
  for (u32 with = 0; with < 2; with++) {
    if (with == 1) {
      rules("user alice\ntopic #\ntopic $SYS/#\ntopic $x\n");
    }
    CHECK(client_connect(&a, "a", true, 0));
    subscribe_ok(&a, "$SYS/#", 0);
    client_publish(&a, "$SYS/broker/uptime", "1", 1, false, 1);
    expect_ack(&a, MQTT_PUBACK, 1, MQTT_NOT_AUTHORIZED);
    client_publish(&a, "$SYSx", "1", 1, false, 2);
    expect_ack(&a, MQTT_PUBACK, 2, MQTT_NOT_AUTHORIZED);
    client_publish(&a, "$share/g/x", "1", 1, false, 3);
    expect_ack(&a, MQTT_PUBACK, 3, MQTT_NOT_AUTHORIZED);
    client_publish(&a, "$SYS/broker/connection/b/state", "1", 1, false, 4);  // a bridge's
    expect_ack(&a, MQTT_PUBACK, 4, 0);
    expect_publish(&a, "$SYS/broker/connection/b/state", "1", 0, false, NULL);
    CHECK(broker_publish(w.b, BYTES_LIT("$SYS/broker/uptime"), BYTES_LIT("9"), 0, false, 1));
    expect_publish(&a, "$SYS/broker/uptime", "9", 0, false, NULL);
    client_detach(&a);
  }
}

static void sets(void **state) {
  (void)state;
  rules("topic read only-read\n");
  void *first = acl_memory;
  rules_in(3, "topic only-write\n", false);
  CHECK(client_connect(&a, "a", true, 0));
  a.username = NULL;
  c.access_set = 3;
  CHECK(client_connect(&c, "c", true, 0));
  subscribe_ok(&c, "#", 0);
  client_publish(&c, "only-read", "x", 1, false, 1);
  expect_ack(&c, MQTT_PUBACK, 1, MQTT_NOT_AUTHORIZED);
  client_publish(&c, "only-write", "x", 0, false, 0);
  expect_publish(&c, "only-write", "x", 0, false, NULL);
  free(first);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
  const struct CMUnitTest tests[] = {T(publishing),      T(each_delivery), T(other_hands),
                                     T(retained_source), T(wills),         T(subscribe_check),
                                     T(dollar_topics),   T(sets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
