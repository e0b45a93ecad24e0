// SPDX-License-Identifier: Apache-2.0
// Proves: what users of other brokers have reported about memory without bound, about queues, and
// about access files does not happen here; one test a kind of fault (docs/conformance.md lists
// them all).
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/acl.h"
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
static void nothing_is_left(void) {
  const struct broker_stats *t = broker_stats(w.b);
  CHECK(t->clients_total == 0 && t->messages_stored == 0 && t->message_bytes_stored == 0);
  CHECK(t->queued == 0 && t->queued_bytes == 0 && t->inflight == 0 && t->inflight_bytes == 0);
  CHECK(pool_taken(&w.b->entries) == 0 && pool_taken(&w.b->controls) == 0);
  CHECK(w.b->blocks.taken == 0);
}

static void qos2_identifiers_without_end(void **state) {  // CVE-2023-28366
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  u32 taken = 0;
  while (taken < 65535 && client_publish(&a, "t", "x", 2, false, (u16)(taken + 1)) == 0) {
    taken++;
    expect_ack(&a, MQTT_PUBREC, (u16)taken, MQTT_NO_MATCHING_SUBSCRIBERS);
    // The same one again takes no second place.
    CHECK(client_publish(&a, "t", "x", 2, false, (u16)taken) == 0);
    expect_ack(&a, MQTT_PUBREC, (u16)taken, MQTT_SUCCESS);
  }
  CHECK(taken == INBOUND_QOS2_MAX);
  CHECK(a.reason == MQTT_RECEIVE_MAXIMUM_EXCEEDED);
  nothing_is_left();
}

static void properties_of_a_refused_will_leak(void **state) {  // CVE-2023-3592
  (void)state;
  struct mqtt_prop_out will[] = {{.id = MQTT_P_CONTENT_TYPE, .text = BYTES_LIT("text/plain")},
                                 {.id = MQTT_P_RESPONSE_TOPIC, .text = BYTES_LIT("answer/here")},
                                 {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("a"),
                               .has_will = true,
                               .will_qos = 2,
                               .will_topic = BYTES_LIT("w"),
                               .will_payload = BYTES_LIT("gone"),
                               .will_props = will};
  a.qos_max = 1;  // so that a will of QoS 2 is refused
  for (u32 i = 0; i < 500; i++) {
    CHECK(!client_connect_with(&a, &o));
    CHECK(a.reason == MQTT_QOS_NOT_SUPPORTED);
    nothing_is_left();
  }
}

static void more_in_flight_than_the_receive_maximum(void **state) {  // mosquitto 3515, 3471
  (void)state;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  subscribe_ok(&b, "t", 0);
  u32 told = a.connack.props.receive_maximum;
  CHECK(told > 0 && told < 65535);
  for (u32 i = 1; i <= told + 20; i++) {  // clients that count wrongly are served all the same
    CHECK(client_publish(&a, "t", "x", 2, false, (u16)i) == MQTT_SUCCESS);
    expect_ack(&a, MQTT_PUBREC, (u16)i, MQTT_SUCCESS);
    expect_publish(&b, "t", "x", 0, false, NULL);
  }
}

static void sessions_of_random_ids_stay_for_ever(void **state) {  // mosquitto 3273
  (void)state;
  char id[32];
  a.version = MQTT_V4;
  w.b->limits.v4_expiry_s = 3600;  // persistent_client_expiration 1h
  for (u32 i = 0; i < 200; i++) {
    snprintf(id, sizeof id, "random-%u", i);
    CHECK(client_connect(&a, id, false, 0));
    subscribe_ok(&a, "t/#", 1);
    client_detach(&a);
  }
  CHECK(broker_stats(w.b)->clients_total == 200);
  CHECK(client_connect(&b, "p", true, 0));
  client_publish(&b, "t/1", "kept", 1, false, 1);
  CHECK(broker_stats(w.b)->queued == 200);
  world_run(&w, 3700 * NS);
  for (u32 i = 0; i < 10; i++) {  // a turn ends some of them
    world_run(&w, NS / 1000);
  }
  CHECK(broker_stats(w.b)->clients_expired == 200);
  client_detach(&b);
  nothing_is_left();
  CHECK(broker_stats(w.b)->subscriptions == 0);
}

// Publishes until the store is full: what is acknowledged lies within the ceiling, what does not
// fit is not taken from the client yet, and goes on when there is room.
static void memory_ceiling_that_only_warns(void **state) {  // rabbitmq 10621, rmqtt 495
  (void)state;
  static char big[4001];
  memset(big, 'x', sizeof big - 1);
  u64 ceiling = w.b->limits.message_bytes;
  w.b->limits.session_queued_max = 1u << 30;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "t", 1);
  client_detach(&b);
  u8 packet[4100];
  struct writer out = writer_init(span_of(packet, sizeof packet));
  struct mqtt_publish_out o = {
      .qos = 1, .packet_id = 1, .topic = BYTES_LIT("t"), .payload_len = 4000};
  mqtt_encode_publish_head(&out, MQTT_V5, &o);
  write_bytes(&out, bytes_of((const u8 *)big, 4000));
  struct mqtt_publish m;
  CHECK(mqtt_decode_publish(MQTT_V5, writer_bytes(&out), &m) == MQTT_SUCCESS);
  u32 taken = 0;
  u32 dropped = 0;
  enum mqtt_reason r = MQTT_SUCCESS;
  while (taken < 100000 && dropped == 0) {
    r = broker_on_publish(a.s, &m, writer_bytes(&out), unit_now_ns);
    if (r != MQTT_SUCCESS) {
      break;
    }
    CHECK(broker_stats(w.b)->message_bytes_stored <= ceiling);
    struct bytes p;
    struct mqtt_ack k;
    CHECK(next_type(&a, &p) == MQTT_PUBACK);
    CHECK(mqtt_decode_ack(MQTT_V5, p, &k) == MQTT_SUCCESS);
    dropped = k.reason == MQTT_QUOTA_EXCEEDED ? 1 : 0;
    taken += 1 - dropped;
  }
  CHECK(taken > 100 && taken < 100000);
  CHECK(r == MQTT_SERVER_BUSY || dropped == 1);  // held back, or told
  CHECK(client_connect(&b, "b", false, 100));
  for (u32 i = 0; i < taken; i++) {
    u16 pid = expect_publish(&b, "t", big, 1, false, NULL).packet_id;
    client_ack(&b, MQTT_PUBACK, pid, 0);
  }
  expect_none(&b);
  CHECK(client_publish(&a, "t", "again", 1, false, 9) == MQTT_SUCCESS);
  expect_publish(&b, "t", "again", 1, false, NULL);
}

static void zero_means_no_limit(void **state) {  // mosquitto 2256: 2.0.16 took it for "none at all"
  (void)state;
  w.b->limits.session_queued_max = 0;
  w.b->limits.session_queued_bytes_max = 0;
  w.b->limits.session_inflight_max = 0;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 100));
  subscribe_ok(&b, "t", 1);
  client_detach(&b);
  for (u32 i = 0; i < 3000; i++) {
    CHECK(client_publish(&a, "t", "x", 1, false, 1) == MQTT_SUCCESS);
    expect_ack(&a, MQTT_PUBACK, 1, MQTT_SUCCESS);
  }
  CHECK(client_connect(&b, "b", false, 100));
  u32 got = 0;
  struct bytes p;
  while (next_type(&b, &p) == MQTT_PUBLISH) {
    got++;
  }
  CHECK(got == 3000);
}

static void full_queue_that_never_drains(void **state) {  // mosquitto 2879, nats 6989
  (void)state;
  w.b->limits.session_queued_max = 5;
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 1000));
  subscribe_ok(&b, "t", 1);
  for (u32 round = 0; round < 20; round++) {
    client_detach(&b);
    for (u32 i = 0; i < 12; i++) {
      CHECK(client_publish(&a, "t", "x", 1, false, 1) == MQTT_SUCCESS);
      expect_ack(&a, MQTT_PUBACK, 1, i < 5 ? MQTT_SUCCESS : MQTT_QUOTA_EXCEEDED);
    }
    CHECK(client_connect(&b, "b", false, 1000));
    for (u32 i = 0; i < 5; i++) {
      u16 pid = expect_publish(&b, "t", "x", 1, false, NULL).packet_id;
      client_ack(&b, MQTT_PUBACK, pid, 0);
    }
    expect_none(&b);
    CHECK(broker_stats(w.b)->queued == 0 && broker_stats(w.b)->inflight == 0);
  }
}

static void retained_bytes_without_a_ceiling(void **state) {  // FlashMQ 169, 156; mosquitto 3237
  (void)state;
  char topic[32];
  CHECK(client_connect(&a, "a", true, 0));
  w.b->limits.retained_bytes_max = 100000;
  u32 refused = 0;
  for (u32 i = 0; i < 5000; i++) {
    snprintf(topic, sizeof topic, "r/%u", i);
    CHECK(client_publish(&a, topic, "0123456789012345678901234567890123456789", 1, true, 1) == 0);
    struct bytes p;
    struct mqtt_ack k;
    CHECK(next_type(&a, &p) == MQTT_PUBACK);
    CHECK(mqtt_decode_ack(MQTT_V5, p, &k) == MQTT_SUCCESS);
    refused += k.reason == MQTT_QUOTA_EXCEEDED ? 1 : 0;
    CHECK(broker_stats(w.b)->retained_bytes <= 100000);
  }
  CHECK(refused > 2000 && refused < 5000);
}

static void complain(void *user, const struct acl_complaint *k) {
  (void)user;
  fprintf(stderr, "%u: %s\n", k->line, k->text);
  abort();
}
static struct acl *compile(const char *text, void **memory, u64 *size) {
  static const struct siphash_key key = {1, 2};
  *size = acl_bytes(bytes_str(text));
  *memory = aligned_alloc(16, ALIGN_UP(*size, 16));
  struct acl *acl = acl_parse(bytes_str(text), span_of(*memory, *size), &key, complain, NULL);
  CHECK(acl != NULL);
  return acl;
}

static void slash_in_a_client_id(void **state) {  // home-assistant add-on 7.0.1
  (void)state;
  void *memory;
  u64 size;
  struct acl *acl =
      compile("user u\ntopic readwrite home/#\npattern read dev/%c/#\n", &memory, &size);
  struct access_who who = {BYTES_LIT("u"), BYTES_LIT("zigbee/a1"), true};
  CHECK(acl_allows(acl, &who, ACCESS_WRITE, BYTES_LIT("home/x")));
  CHECK(acl_allows(acl, &who, ACCESS_READ, BYTES_LIT("dev/zigbee/a1/x")));
  CHECK(!acl_allows(acl, &who, ACCESS_READ, BYTES_LIT("dev/other/x")));
  free(memory);
}

static void access_file_that_eats_memory(void **state) {  // vernemq 330: 14 M lines, 5 GB
  (void)state;
  const u32 users = 20000;
  char *text = malloc(users * 64);
  usize len = 0;
  for (u32 i = 0; i < users; i++) {
    len += (usize)sprintf(text + len, "user user%05u\ntopic read site/%05u/#\n", i, i);
  }
  void *memory;
  u64 size;
  struct acl *acl = compile(text, &memory, &size);
  CHECK(acl_stats(acl).rules == users);
  CHECK(size <= 5 * len);  // 360 bytes a line there
  struct access_who who = {BYTES_LIT("user19999"), BYTES_LIT("c"), true};
  CHECK(acl_allows(acl, &who, ACCESS_READ, BYTES_LIT("site/19999/x")));
  CHECK(!acl_allows(acl, &who, ACCESS_READ, BYTES_LIT("site/19998/x")));
  free(memory);
  free(text);
}

static bool deny_secret(const void *ctx, const struct access_who *who, enum access_kind kind,
                        struct bytes topic) {
  (void)ctx, (void)who, (void)kind;
  return !bytes_equal_str(topic, "secret");
}

static void granted_and_never_told(void **state) {  // mosquitto 2296: SUBACK for what is unreadable
  (void)state;
  struct access_rules rules = {.allows = deny_secret};
  for (u32 check = 0; check < 2; check++) {
    broker_set_access(w.b, 0, &rules, check == 1);
    broker_access_changed(w.b);
    CHECK(client_connect(&a, "a", true, 0));
    CHECK(client_subscribe_id(&a, "secret", 1, 0, 1) == MQTT_SUCCESS);
    expect_suback(&a, MQTT_SUBACK, check == 1 ? MQTT_NOT_AUTHORIZED : 1);  // as mosquitto, or told
    client_detach(&a);
  }
  broker_set_access(w.b, 0, NULL, false);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      ONE(qos2_identifiers_without_end),
      ONE(properties_of_a_refused_will_leak),
      ONE(more_in_flight_than_the_receive_maximum),
      ONE(sessions_of_random_ids_stay_for_ever),
      ONE(memory_ceiling_that_only_warns),
      ONE(zero_means_no_limit),
      ONE(full_queue_that_never_drains),
      ONE(retained_bytes_without_a_ceiling),
      ONE(slash_in_a_client_id),
      ONE(access_file_that_eats_memory),
      ONE(granted_and_never_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
