// SPDX-License-Identifier: Apache-2.0
// Proves of brokers on several cores: a PUBLISH reaches subscribers on other cores once and is
// acknowledged when they have it, with the reason that one core would give; a SUBACK means that
// every core routes by it; filters are forgotten with their last subscriber; without room only the
// publisher waits; wills are never refused; everything comes back.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/cross_test_support.h"

#include <cmocka.h>

static u64 seed = 5;
static u32 draw_below(u32 n) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % n;
}

static struct cluster cl;
static struct client a, b, c;

static int open_three(void **state) {
  (void)state;
  cluster_open(&cl, 3, NULL);
  client_init(&a, &cl.w[0], MQTT_V5);
  client_init(&b, &cl.w[1], MQTT_V5);
  client_init(&c, &cl.w[2], MQTT_V5);
  return 0;
}
static int close_three(void **state) {
  (void)state;
  client_detach(&a);
  client_detach(&b);
  client_detach(&c);
  cluster_close(&cl);
  client_free(&a);
  client_free(&b);
  client_free(&c);
  return 0;
}
static void all_in(void) {
  CHECK(client_connect(&a, "a", true, 0));
  CHECK(client_connect(&b, "b", true, 0));
  CHECK(client_connect(&c, "c", true, 0));
}
static void subscribe(struct client *who, const char *filter, u8 options) {
  CHECK(client_subscribe_id(who, filter, options, 0, 1) == MQTT_SUCCESS);
  cluster_settle(&cl);
  expect_suback(who, MQTT_SUBACK, options & 3);
}

static void a_message_reaches_other_cores(void **state) {
  (void)state;
  all_in();
  subscribe(&b, "x/+", 1);
  subscribe(&b, "#", 0);
  subscribe(&c, "x/y/#", 2);
  assert_int_equal(client_publish(&a, "x/y", "hello", 1, false, 7), MQTT_SUCCESS);
  expect_none(&a);  // they have it not yet
  cluster_settle(&cl);
  expect_ack(&a, MQTT_PUBACK, 7, MQTT_SUCCESS);
  (void)expect_publish(&b, "x/y", "hello", 1, false, NULL);
  expect_none(&b);
  (void)expect_publish(&c, "x/y", "hello", 1, false, NULL);
  expect_none(&c);
  assert_int_equal(client_publish(&a, "$x/y", "no", 2, false, 8), MQTT_SUCCESS);
  expect_ack(&a, MQTT_PUBREC, 8, MQTT_NO_MATCHING_SUBSCRIBERS);
  cluster_check(&cl);
}

static void the_reason_is_of_all_cores(void **state) {
  (void)state;
  all_in();
  subscribe(&b, "t", 1);
  subscribe(&c, "t", 1);
  cl.w[1].b->limits.session_queued_max = 1;
  cl.w[2].b->limits.session_queued_max = 1;
  cl.w[1].b->more_ceilings = true;
  for (u16 i = 1; i <= 3; i++) {
    assert_int_equal(client_publish(&a, "t", "m", 1, false, i), MQTT_SUCCESS);
    cluster_settle(&cl);
    expect_ack(&a, MQTT_PUBACK, i, i == 1 ? MQTT_SUCCESS : MQTT_QUOTA_EXCEEDED);
  }
  (void)expect_publish(&c, "t", "m", 1, false, NULL);
  assert_int_equal(client_publish(&a, "t", "m", 1, false, 4), MQTT_SUCCESS);
  cluster_settle(&cl);
  expect_ack(&a, MQTT_PUBACK, 4, MQTT_SUCCESS);  // one has room again
  assert_int_equal(client_unsubscribe(&b, "t", 2), MQTT_SUCCESS);
  assert_int_equal(client_unsubscribe(&c, "t", 2), MQTT_SUCCESS);
  assert_int_equal(client_publish(&a, "t", "m", 1, false, 5), MQTT_SUCCESS);
  cluster_settle(&cl);
  expect_ack(&a, MQTT_PUBACK, 5, MQTT_NO_MATCHING_SUBSCRIBERS);
}

static void a_suback_means_all_cores(void **state) {
  (void)state;
  all_in();
  assert_int_equal(client_subscribe_id(&b, "t", 1, 0, 1), MQTT_SUCCESS);
  expect_none(&b);
  for (u32 k = 0; k < 20; k++) {
    cluster_turn(&cl, 0);
    cluster_turn(&cl, 1);
    expect_none(&b);  // core 2 is still in its turn
  }
  cluster_turn(&cl, 2);
  for (u32 k = 0; k < 3; k++) {
    cluster_turn(&cl, 0);
    cluster_turn(&cl, 1);
  }
  expect_suback(&b, MQTT_SUBACK, 1);
  assert_int_equal(client_subscribe_id(&b, "t", 2, 0, 1), MQTT_SUCCESS);  // nothing new
  expect_suback(&b, MQTT_SUBACK, 2);
  assert_int_equal(client_subscribe_id(&b, "u", 2, 0, 1), MQTT_SUCCESS);
  client_detach(&b);  // nobody waits for it any more
  assert_int_equal(pool_taken(&cl.w[1].b->tickets), 1);
  cluster_settle(&cl);
  assert_int_equal(pool_taken(&cl.w[1].b->tickets), 0);
}

static void filters_are_forgotten(void **state) {
  (void)state;
  all_in();
  char filter[80];
  for (u32 round = 0; round < 3; round++) {
    for (u32 i = 0; i < 200; i++) {
      snprintf(filter, sizeof filter, "a/%u/a level longer than what a node holds itself/+",
               i % 100);
      struct client *who = i % 3 == 0 ? &a : i % 3 == 1 ? &b : &c;
      assert_int_equal(client_subscribe_id(who, filter, 1, 0, 1), MQTT_SUCCESS);
      if (i % 7 == 0) {
        assert_int_equal(client_unsubscribe(who, filter, 2), MQTT_SUCCESS);
      }
    }
    cluster_settle(&cl);
    cluster_check(&cl);
    assert_true(wants_count(cl.shared->wants) > 200);
    client_detach(&a);
    client_detach(&b);
    client_detach(&c);
    cluster_settle(&cl);
    assert_int_equal(wants_count(cl.shared->wants), 1);
    for (u32 i = 0; i < 3; i++) {
      assert_int_equal(pool_taken(&cl.w[i].b->nodes), 1);
    }
    all_in();
  }
}

static void without_a_node_everything_is_sent(void **state) {
  (void)state;
  all_in();
  struct blocks *blocks = &cl.w[0].b->blocks;
  u32 most = 3 * cl.w[0].b->limits.topic_nodes;
  struct levels *l = &cl.w[0].b->filter_levels;
  char filter[40];
  u32 made = 0;
  for (u32 i = 0; wants_count(cl.shared->wants) < most; i++, made++) {
    snprintf(filter, sizeof filter, "fill/%u", i);
    levels_split(cl.w[0].b, bytes_str(filter), l);
    wants_set(cl.shared->wants, blocks, l, 0, true);
  }
  subscribe(&b, "no/node/for/this", 1);
  assert_int_equal(client_publish(&a, "no/node/for/this", "m", 1, false, 1), MQTT_SUCCESS);
  assert_int_equal(client_publish(&a, "other", "m", 1, false, 2), MQTT_SUCCESS);
  cluster_settle(&cl);
  expect_ack(&a, MQTT_PUBACK, 1, MQTT_SUCCESS);
  expect_ack(&a, MQTT_PUBACK, 2, MQTT_NO_MATCHING_SUBSCRIBERS);
  (void)expect_publish(&b, "no/node/for/this", "m", 1, false, NULL);
  expect_none(&b);
  client_detach(&b);
  cluster_settle(&cl);
  for (u32 i = 0; i < made; i++) {
    snprintf(filter, sizeof filter, "fill/%u", i);
    levels_split(cl.w[0].b, bytes_str(filter), l);
    wants_set(cl.shared->wants, blocks, l, 0, false);
  }
  levels_split(cl.w[0].b, BYTES_LIT("other"), l);
  assert_int_equal(wants_match(cl.shared->wants, l), 0);
}

static void without_room_only_the_publisher_waits(void **state) {
  (void)state;
  all_in();
  cl.w[1].b->limits.session_queued_max = 0;
  cl.w[1].b->more_ceilings = true;
  subscribe(&b, "t", 1);
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("w"),
                               .has_will = true,
                               .will_topic = BYTES_LIT("t"),
                               .will_payload = BYTES_LIT("will")};
  struct client w;
  client_init(&w, &cl.w[0], MQTT_V5);
  CHECK(client_connect_with(&w, &o));
  u32 sent = 0;
  struct mqtt_publish p = {.qos = 1, .packet_id = 1};
  u8 packet[] = {0x32, 6, 0, 1, 't', 0, 1, 0};
  assert_int_equal(mqtt_decode_publish(MQTT_V5, bytes_of(packet, sizeof packet), &p), MQTT_SUCCESS);
  while (broker_on_publish(a.s, &p, bytes_of(packet, sizeof packet), 0) == MQTT_SUCCESS) {
    sent++;
    assert_true(sent < 1000);
  }
  assert_int_equal(broker_on_publish(a.s, &p, bytes_of(packet, sizeof packet), 0),
                   MQTT_SERVER_BUSY);
  assert_int_equal(client_publish(&a, "u", "other", 1, false, 9), MQTT_SUCCESS);
  client_detach(&w);  // its will stands behind
  assert_int_equal(cl.w[0].b->cross->backlog.count, 1);
  cluster_check(&cl);
  cluster_turn(&cl, 0);
  cluster_turn(&cl, 1);
  assert_int_equal(broker_on_publish(a.s, &p, bytes_of(packet, sizeof packet), 0),
                   MQTT_SERVER_BUSY);  // it does not overtake the will
  cluster_settle(&cl);
  assert_int_equal(cl.w[0].b->cross->backlog.count, 0);
  assert_int_equal(broker_on_publish(a.s, &p, bytes_of(packet, sizeof packet), 0), MQTT_SUCCESS);
  cluster_settle(&cl);
  b.s->send_max = 1000;
  for (u32 i = 0; i < sent; i++) {
    (void)expect_publish(&b, "t", "", 1, false, NULL);
    expect_ack(&a, MQTT_PUBACK, 1, MQTT_SUCCESS);
  }
  (void)expect_publish(&b, "t", "will", 0, false, NULL);
  (void)expect_publish(&b, "t", "", 1, false, NULL);
  client_free(&w);
}

// --- client ids

static struct client d;  // a second connection, on core 2
static void begin(struct client *who, const char *id, bool clean, u32 expiry_s, u16 window) {
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = expiry_s},
                                  {.id = MQTT_P_RECEIVE_MAXIMUM, .number = window},
                                  {0}};
  struct mqtt_connect_out o = {
      .version = MQTT_V5, .clean_start = clean, .client_id = bytes_str(id), .props = props};
  client_begin(who, &o);
}

static void a_session_moves(void **state) {
  (void)state;
  struct bytes p;
  struct mqtt_publish m;
  client_init(&d, &cl.w[2], MQTT_V5);
  begin(&b, "s", true, 1000, 2);
  cluster_settle(&cl);
  CHECK(client_entered(&b));
  CHECK(client_connect(&a, "a", true, 0));
  assert_int_equal(client_subscribe_id(&b, "t/+", 2, 77, 1), MQTT_SUCCESS);
  assert_int_equal(client_subscribe_id(&b, "t/#", 1, 78, 1), MQTT_SUCCESS);
  cluster_settle(&cl);
  expect_suback(&b, MQTT_SUBACK, 2);
  expect_suback(&b, MQTT_SUBACK, 1);
  for (u16 i = 1; i <= 5; i++) {
    char text[8];
    snprintf(text, sizeof text, "%u", i);
    assert_int_equal(client_publish(&a, "t/x", text, 2, false, i), MQTT_SUCCESS);
  }
  cluster_settle(&cl);
  assert_int_equal(next_type(&b, &p), MQTT_PUBLISH);
  assert_int_equal(mqtt_decode_publish(MQTT_V5, p, &m), MQTT_SUCCESS);
  u16 first = m.packet_id;
  assert_int_equal(next_type(&b, &p), MQTT_PUBLISH);
  assert_int_equal(client_ack(&b, MQTT_PUBREC, first, 0), MQTT_SUCCESS);
  expect_ack(&b, MQTT_PUBREL, first, 0);
  assert_int_equal(client_publish(&b, "other", "q", 2, false, 99), MQTT_SUCCESS);
  begin(&d, "s", false, 1000, 10);
  assert_true(d.entering);
  cluster_settle(&cl);
  assert_true(b.kicked);
  assert_int_equal(b.reason, MQTT_SESSION_TAKEN_OVER);
  CHECK(client_entered(&d));
  assert_true(d.connack.session_present);
  assert_int_equal(cl.w[1].b->stats.clients_total, 0);
  cluster_check(&cl);
  expect_ack(&d, MQTT_PUBREL, first, 0);
  for (u32 i = 2; i <= 5; i++) {
    char text[8];
    snprintf(text, sizeof text, "%u", i);
    m = expect_publish(&d, "t/x", text, 2, false, NULL);
    assert_int_equal(m.packet_id, first + i - 1);
    assert_int_equal(m.dup, i == 2);
    assert_int_equal(m.props.subscription_id_count, 2);
  }
  assert_int_equal(client_publish(&d, "other", "q", 2, false, 99), MQTT_SUCCESS);
  expect_ack(&d, MQTT_PUBREC, 99, MQTT_SUCCESS);  // known: not routed again
  assert_int_equal(client_publish(&a, "t/x", "6", 1, false, 9), MQTT_SUCCESS);
  cluster_settle(&cl);
  (void)expect_publish(&d, "t/x", "6", 1, false, NULL);
  client_detach(&d);
  begin(&b, "s", true, 0, 10);  // from offline, and afresh
  cluster_settle(&cl);
  CHECK(client_entered(&b));
  assert_false(b.connack.session_present);
  assert_int_equal(cl.w[2].b->stats.clients_total, 0);
  client_free(&d);
}

static void one_at_a_time(void **state) {
  (void)state;
  struct client many[9];
  for (u32 round = 0; round < 20; round++) {
    for (u32 i = 0; i < 9; i++) {
      client_init(&many[i], &cl.w[i % 3], MQTT_V5);
      begin(&many[i], "same", draw_below(4) == 0, draw_below(2) * 100, 10);
      for (u32 k = draw_below(4); k > 0; k--) {
        cluster_turn(&cl, draw_below(3));
      }
      if (draw_below(4) == 0) {
        client_detach(&many[draw_below(i + 1)]);
      }
    }
    cluster_settle(&cl);
    u32 on = 0;
    for (u32 i = 0; i < 9; i++) {
      assert_false(many[i].entering);
      on += many[i].s != NULL ? 1 : 0;
    }
    assert_true(on <= 1);
    u32 total = 0;
    for (u32 i = 0; i < 3; i++) {
      total += cl.w[i].b->stats.clients_total;
    }
    assert_true(total <= 1);
    assert_true(total >= on);
    cluster_check(&cl);
    for (u32 i = 0; i < 9; i++) {
      client_detach(&many[i]);
      client_free(&many[i]);
    }
  }
  unit_now_ns += 200 * NS;
  cluster_settle(&cl);
  for (u32 i = 0; i < 3; i++) {
    assert_int_equal(pool_taken(&cl.w[i].b->cross->places), 0);
    assert_int_equal(cl.w[i].b->stats.clients_total, 0);
  }
}

// --- shared groups

#define MANY 200u
static u8 times[2 * MANY + 1];  // by number: acknowledged so often

// Reads and acknowledges up to `most` messages; returns how many.
static u32 consume(struct client *who, u32 most, bool acknowledge) {
  u32 n = 0;
  struct bytes p;
  while (n < most && next_type(who, &p) != 0) {
    struct mqtt_publish m;
    if (p.ptr[0] >> 4 != MQTT_PUBLISH) {
      continue;
    }
    CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
    u32 number = 0;
    for (u32 i = 0; i < m.payload.len; i++) {
      number = number * 10 + p.ptr[m.payload.off + i] - '0';
    }
    n++;
    if (acknowledge) {
      times[number]++;
      CHECK(client_ack(who, MQTT_PUBACK, m.packet_id, 0) == MQTT_SUCCESS);
    }
  }
  return n;
}
static void feed(struct client *who, u32 from, u32 count) {
  for (u32 i = from; i < from + count; i++) {
    char text[8];
    snprintf(text, sizeof text, "%u", i);
    struct mqtt_publish_out o = {.qos = 1,
                                 .packet_id = (u16)(1 + i),
                                 .topic = BYTES_LIT("jobs/x"),
                                 .payload_len = (u32)strlen(text)};
    u8 buf[64];
    struct writer w = writer_init(span_of(buf, sizeof buf));
    mqtt_encode_publish_head(&w, MQTT_V5, &o);
    write_bytes(&w, bytes_str(text));
    while (dispatch(who, writer_bytes(&w)) == MQTT_SERVER_BUSY) {
      cluster_settle(&cl);
    }
  }
}

static void a_group_is_one_for_all_cores(void **state) {
  (void)state;
  memset(times, 0, sizeof times);
  all_in();
  subscribe(&a, "$share/g/jobs/+", 1);
  subscribe(&b, "$share/g/jobs/+", 1);
  subscribe(&c, "$share/g/jobs/+", 1);
  feed(&b, 0, MANY);
  u32 got[3] = {0};
  for (u32 k = 0; k < 200; k++) {
    got[0] += consume(&a, 3, true);
    got[1] += consume(&b, 3, true);
    got[2] += consume(&c, 3, true);
    cluster_settle(&cl);
    cluster_check(&cl);
  }
  for (u32 i = 0; i < MANY; i++) {
    assert_int_equal(times[i], 1);
  }
  assert_true(got[0] > 20 && got[1] > 20 && got[2] > 20);
  // One goes with messages it has not acknowledged: others get them.
  feed(&b, MANY, MANY);
  cluster_settle(&cl);
  u32 kept = consume(&c, 5, false);
  assert_true(kept > 0);
  client_detach(&c);
  for (u32 k = 0; k < 200; k++) {
    cluster_settle(&cl);
    (void)consume(&a, 3, true);
    (void)consume(&b, 3, true);
  }
  for (u32 i = 0; i < 2 * MANY; i++) {
    assert_int_equal(times[i], 1);
  }
  client_detach(&a);
  client_detach(&b);
  cluster_settle(&cl);
  assert_int_equal(wants_count(cl.shared->wants), 1);
  for (u32 i = 0; i < 3; i++) {
    assert_int_equal(pool_taken(&cl.w[i].b->shares), 0);
    assert_int_equal(pool_taken(&cl.w[i].b->nodes), 1);
  }
}

// Members come and go at random, one stays: every message is acknowledged, and by one.
static void members_come_and_go(void **state) {
  (void)state;
  struct client m[6];
  for (u32 round = 0; round < 12; round++) {
    memset(times, 0, sizeof times);
    all_in();
    u32 stays = round % 3;
    struct client *stay[] = {&a, &b, &c};
    subscribe(stay[stays], "$share/g/jobs/+", 1);
    for (u32 i = 0; i < 6; i++) {
      client_init(&m[i], &cl.w[i % 3], MQTT_V5);
    }
    u32 fed = 0;
    for (u32 k = 0; k < 3000; k++) {
      struct client *who = &m[draw_below(6)];
      u32 op = draw_below(20);
      if (who->s == NULL && !who->entering && op < 6) {
        char id[8];
        snprintf(id, sizeof id, "m%u", draw_below(4));
        begin(who, id, draw_below(2) == 0, 0, (u16)(1 + draw_below(5)));
      } else if (who->s != NULL && op == 0) {
        client_detach(who);
      } else if (who->s != NULL && op < 5) {
        (void)client_subscribe_id(who, "$share/g/jobs/+", 1, 0, 9);
      } else if (who->s != NULL && op < 12) {
        (void)consume(who, 2, true);
      } else if (op < 14 && fed < 2 * MANY) {
        feed(stay[(stays + 1) % 3], fed++, 1);
      } else if (op < 16) {
        (void)consume(stay[stays], 1, true);
      }
      for (u32 n = draw_below(4); n > 0; n--) {
        cluster_turn(&cl, draw_below(3));
      }
      if (k % 16 == 0) {
        cluster_check(&cl);
      }
    }
    for (u32 i = 0; i < 6; i++) {
      client_detach(&m[i]);
      client_free(&m[i]);
    }
    for (u32 k = 0; k < 500; k++) {
      cluster_settle(&cl);
      (void)consume(stay[stays], 50, true);
    }
    for (u32 i = 0; i < fed; i++) {
      if (times[i] != 1) {
        fprintf(stderr, "round %u: message %u acknowledged %u times\n", round, i, times[i]);
      }
      assert_int_equal(times[i], 1);
    }
    assert_true(fed > 100);
    client_detach(&a);
    client_detach(&b);
    client_detach(&c);
    cluster_settle(&cl);
    assert_int_equal(wants_count(cl.shared->wants), 1);
    for (u32 i = 0; i < 3; i++) {
      assert_int_equal(pool_taken(&cl.w[i].b->shares), 0);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_message_reaches_other_cores, open_three, close_three),
      cmocka_unit_test_setup_teardown(the_reason_is_of_all_cores, open_three, close_three),
      cmocka_unit_test_setup_teardown(a_suback_means_all_cores, open_three, close_three),
      cmocka_unit_test_setup_teardown(filters_are_forgotten, open_three, close_three),
      cmocka_unit_test_setup_teardown(without_a_node_everything_is_sent, open_three, close_three),
      cmocka_unit_test_setup_teardown(a_session_moves, open_three, close_three),
      cmocka_unit_test_setup_teardown(one_at_a_time, open_three, close_three),
      cmocka_unit_test_setup_teardown(a_group_is_one_for_all_cores, open_three, close_three),
      cmocka_unit_test_setup_teardown(members_come_and_go, open_three, close_three),
      cmocka_unit_test_setup_teardown(without_room_only_the_publisher_waits, open_three,
                                      close_three),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
