// SPDX-License-Identifier: Apache-2.0
// Proves: a message of a shared subscription becomes a member's when it is sent and not before; it
// waits for no member while another could have it; what a member did not acknowledge moves when it
// goes, QoS 2 that was begun does not; every message is delivered once over random histories.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client p, m[4];
static struct broker_limits l;

static int setup(void **state) {
  (void)state;
  broker_limits_default(&l, 16u << 20);
  world_limits(&w, &l);
  client_init(&p, &w, MQTT_V5);
  CHECK(client_connect(&p, "publisher", true, 0));
  for (u32 i = 0; i < 4; i++) {
    client_init(&m[i], &w, MQTT_V5);
  }
  return 0;
}
static int teardown(void **state) {
  (void)state;
  client_free(&p);
  for (u32 i = 0; i < 4; i++) {
    client_free(&m[i]);
  }
  world_close(&w);
  return 0;
}

static void member(u32 i, u32 window, u8 qos) {
  char id[8];
  snprintf(id, sizeof id, "m%u", i);
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = 100},
                                  {.id = MQTT_P_RECEIVE_MAXIMUM, .number = window},
                                  {0}};
  struct mqtt_connect_out o = {
      .version = MQTT_V5, .client_id = bytes_str(id), .props = props, .keep_alive_s = 60};
  CHECK(client_connect_with(&m[i], &o));
  if (!m[i].connack.session_present) {
    subscribe_ok(&m[i], "$share/g/t", qos);
  }
}
static void publish(u32 n, u8 qos) {
  char text[8];
  snprintf(text, sizeof text, "%u", n);
  CHECK(client_publish(&p, "t", text, qos, false, 1) == MQTT_SUCCESS);
  struct bytes b;
  if (qos > 0) {
    (void)next_type(&p, &b);
  }
  if (qos == 2) {
    client_ack(&p, MQTT_PUBREL, 1, 0);
    expect_ack(&p, MQTT_PUBCOMP, 1, 0);
  }
  broker_check(w.b);
}
// The number in the next PUBLISH; 1000000 = none.
static u32 next_number(struct client *c, u16 *pid) {
  struct bytes b;
  struct mqtt_publish d;
  if (next_type(c, &b) != MQTT_PUBLISH) {
    return 1000000;
  }
  CHECK(mqtt_decode_publish(MQTT_V5, b, &d) == MQTT_SUCCESS);
  char text[8] = {0};
  memcpy(text, b.ptr + d.payload.off, d.payload.len);
  *pid = d.packet_id;
  return (u32)atoi(text);
}

static void the_idle_one_gets_it(void **state) {
  (void)state;
  u16 pid;
  member(0, 2, 1);
  member(1, 20, 1);
  for (u32 i = 0; i < 4; i++) {  // 0's window fills with two of them
    publish(i, 1);
    client_pull(&m[0]);
    client_pull(&m[1]);
  }
  for (u32 i = 4; i < 10; i++) {
    publish(i, 1);
  }
  broker_check(w.b);
  u32 got[2] = {0};
  while (next_number(&m[0], &pid) != 1000000) {
    got[0]++;
  }
  while (next_number(&m[1], &pid) != 1000000) {
    got[1]++;
    client_ack(&m[1], MQTT_PUBACK, pid, 0);
  }
  CHECK(got[0] == 2);
  CHECK(got[1] == 8);
}

static void a_stuck_one_is_passed_over(void **state) {
  (void)state;
  u16 pid;
  member(0, 20, 1);
  member(1, 20, 1);
  for (u32 i = 0; i < 4; i++) {  // each is asked twice; 0's connection takes nothing
    publish(i, 1);
  }
  u32 got = 0;
  while (next_number(&m[1], &pid) != 1000000) {
    client_ack(&m[1], MQTT_PUBACK, pid, 0);
    got++;
  }
  CHECK(got == 2);
  world_run(&w, 1);
  world_run(&w, 1);
  broker_check(w.b);
  while (next_number(&m[1], &pid) != 1000000) {
    client_ack(&m[1], MQTT_PUBACK, pid, 0);
    got++;
  }
  CHECK(got == 4);
  expect_none(&m[0]);  // pulled at last: nothing is due any more, and it may be asked again
  publish(9, 1);
  publish(10, 1);
  CHECK(next_number(&m[0], &pid) != 1000000);
  CHECK(next_number(&m[1], &pid) != 1000000);
}

static void unacknowledged_moves(void **state) {
  (void)state;
  u16 pid;
  member(0, 20, 1);
  for (u32 i = 0; i < 5; i++) {
    publish(i, 1);
  }
  for (u32 i = 0; i < 5; i++) {
    CHECK(next_number(&m[0], &pid) == i);
  }
  member(1, 20, 1);
  client_detach(&m[0]);
  broker_check(w.b);
  publish(5, 1);
  for (u32 i = 0; i < 6; i++) {  // in order, before what came later, and not as a duplicate
    struct bytes b;
    struct mqtt_publish d;
    CHECK(next_type(&m[1], &b) == MQTT_PUBLISH);
    CHECK(mqtt_decode_publish(MQTT_V5, b, &d) == MQTT_SUCCESS);
    CHECK(b.ptr[d.payload.off] == '0' + i);
    CHECK(!d.dup);
    client_ack(&m[1], MQTT_PUBACK, d.packet_id, 0);
  }
  member(0, 20, 1);  // back again: nothing of it is left here
  expect_none(&m[0]);
  CHECK(broker_stats(w.b)->messages_stored == 0);
}

static void alone_it_stays_with_the_session(void **state) {  // [MQTT-4.4.0-1]
  (void)state;
  u16 pid;
  u16 again;
  member(0, 20, 1);
  publish(1, 1);
  CHECK(next_number(&m[0], &pid) == 1);
  client_detach(&m[0]);
  publish(2, 1);
  member(0, 20, 1);
  CHECK(next_number(&m[0], &again) == 1);
  CHECK(again == pid);
  CHECK(next_number(&m[0], &again) == 2);
  client_detach(&m[0]);
  member(1, 20, 1);
  world_run(&w, 101 * NS);  // 0's session expires: the other is there
  CHECK(next_number(&m[1], &pid) == 1);
  CHECK(next_number(&m[1], &pid) == 2);
}

static void qos2_begun_is_not_moved(void **state) {  // [MQTT-4.8.2-4] [MQTT-4.8.2-5]
  (void)state;
  u16 pid;
  u16 again;
  member(0, 20, 2);
  publish(1, 2);
  publish(2, 2);
  CHECK(next_number(&m[0], &pid) == 1);
  client_ack(&m[0], MQTT_PUBREC, pid, 0);
  CHECK(next_number(&m[0], &again) == 2);
  member(1, 20, 2);
  client_detach(&m[0]);
  expect_none(&m[1]);
  member(0, 20, 2);
  expect_ack(&m[0], MQTT_PUBREL, pid, 0);
  CHECK(next_number(&m[0], &again) == 2);
  client_detach(&m[0]);
  world_run(&w, 101 * NS);
  expect_none(&m[1]);
  CHECK(broker_stats(w.b)->messages_stored == 0);
}

static void granted_qos_holds(void **state) {  // [MQTT-4.8.2-3]
  (void)state;
  member(0, 20, 0);
  publish(1, 2);
  expect_publish(&m[0], "t", "1", 0, false, NULL);
}

static void refused_is_discarded(void **state) {  // [MQTT-4.8.2-6]
  (void)state;
  u16 pid;
  member(0, 20, 1);
  member(1, 20, 1);
  publish(1, 1);
  u32 who = next_number(&m[0], &pid) == 1 ? 0 : 1;
  if (who == 1) {
    CHECK(next_number(&m[1], &pid) == 1);
  }
  client_ack(&m[who], MQTT_PUBACK, pid, MQTT_UNSPECIFIED_ERROR);
  client_detach(&m[who]);
  expect_none(&m[1 - who]);
}

static void the_last_member_takes_the_queue_along(void **state) {
  (void)state;
  u16 pid;
  member(0, 1, 1);
  for (u32 i = 0; i < 5; i++) {
    publish(i, 1);
  }
  CHECK(next_number(&m[0], &pid) == 0);
  CHECK(broker_stats(w.b)->queued == 4);
  client_unsubscribe(&m[0], "$share/g/t", 1);
  expect_suback(&m[0], MQTT_UNSUBACK, 0);
  broker_check(w.b);
  CHECK(broker_stats(w.b)->queued == 0);
  client_ack(&m[0], MQTT_PUBACK, pid, 0);  // what was sent is still its own
  expect_none(&m[0]);
  subscribe_ok(&m[0], "$share/g/t", 0);
  client_detach(&m[0]);
  publish(7, 0);
  CHECK(broker_stats(w.b)->queued == 0);  // QoS 0 is for who is there
}

static void the_queue_has_a_ceiling(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    teardown(NULL);
    l.session_queued_max = 3;
    l.drop_policy = k == 0 ? BROKER_DROP_NEWEST : BROKER_DROP_OLDEST;
    world_limits(&w, &l);
    client_init(&p, &w, MQTT_V5);
    CHECK(client_connect(&p, "publisher", true, 0));
    for (u32 i = 0; i < 4; i++) {
      client_init(&m[i], &w, MQTT_V5);
    }
    u16 pid;
    member(0, 20, 1);
    client_detach(&m[0]);
    for (u32 i = 0; i < 8; i++) {
      publish(i, 1);
    }
    CHECK(broker_stats(w.b)->dropped[k == 0 ? BROKER_DROPPED_QUEUE : BROKER_DROPPED_OLD] == 5);
    member(0, 20, 1);
    for (u32 i = 0; i < 3; i++) {
      CHECK(next_number(&m[0], &pid) == (k == 0 ? i : i + 5));
    }
    expect_none(&m[0]);
  }
}

static u64 rng = 4711;
static u32 rnd(u32 n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(rng >> 33) % n;
}

// Members come, go, answer late or not at all; at the end each message was acknowledged once, and
// none twice (QoS 1 may be sent twice, to one that went; it is acknowledged by the last).
static void random_histories(void **state) {
  (void)state;
  static u8 acked[4000];
  static u16 open_pid[4][4000];
  static u32 open_number[4][4000];
  u32 open[4] = {0};
  bool up[4] = {false};
  u32 sent = 0;
  member(3, 5, 1);
  up[3] = true;
  for (u32 step = 0; step < 20000; step++) {
    u32 i = rnd(4);
    u32 what = rnd(10);
    u16 pid;
    if (what < 3 && sent < 4000 && broker_stats(w.b)->queued < 500) {
      publish(sent++, 1);
    } else if (what < 6 && up[i]) {
      for (u32 n = next_number(&m[i], &pid); n != 1000000; n = next_number(&m[i], &pid)) {
        open_pid[i][open[i]] = pid;
        open_number[i][open[i]++] = n;
      }
    } else if (what < 8 && up[i] && open[i] > 0) {
      u32 n = open_number[i][0];
      CHECK(acked[n] == 0);
      acked[n] = 1;
      client_ack(&m[i], MQTT_PUBACK, open_pid[i][0], 0);
      open[i]--;
      memmove(open_pid[i], open_pid[i] + 1, open[i] * sizeof open_pid[i][0]);
      memmove(open_number[i], open_number[i] + 1, open[i] * sizeof open_number[i][0]);
    } else if (what == 8 && rnd(10) == 0) {
      if (up[i]) {
        client_detach(&m[i]);
      } else {
        member(i, 1 + rnd(8), 1);
      }
      up[i] = !up[i];
      open[i] = 0;
    } else if (what == 9) {
      world_run(&w, 1000);
    }
    if (step % 16 == 0) {
      broker_check(w.b);
    }
  }
  for (u32 i = 0; i < 4; i++) {
    if (!up[i]) {
      member(i, 5, 1);
    }
    for (u32 k = 0; k < open[i]; k++) {
      client_ack(&m[i], MQTT_PUBACK, open_pid[i][k], 0);
      acked[open_number[i][k]]++;
    }
  }
  for (u32 round = 0; round < 2000; round++) {
    for (u32 i = 0; i < 4; i++) {
      u16 pid;
      for (u32 n = next_number(&m[i], &pid); n != 1000000; n = next_number(&m[i], &pid)) {
        acked[n]++;
        client_ack(&m[i], MQTT_PUBACK, pid, 0);
      }
    }
    world_run(&w, 1000);
  }
  broker_check(w.b);
  CHECK(sent > 2000);
  for (u32 n = 0; n < sent; n++) {
    if (acked[n] != 1) {
      fprintf(stderr, "message %u was acknowledged %u times\n", n, acked[n]);
    }
    CHECK(acked[n] == 1);
  }
  CHECK(broker_stats(w.b)->messages_stored == 0);
}

#define ONE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      ONE(the_idle_one_gets_it),    ONE(a_stuck_one_is_passed_over),
      ONE(unacknowledged_moves),    ONE(alone_it_stays_with_the_session),
      ONE(qos2_begun_is_not_moved), ONE(granted_qos_holds),
      ONE(refused_is_discarded),    ONE(the_last_member_takes_the_queue_along),
      ONE(the_queue_has_a_ceiling), ONE(random_histories),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
