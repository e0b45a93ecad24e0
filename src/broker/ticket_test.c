// SPDX-License-Identifier: Apache-2.0
// Proves: an acknowledgement with a ticket leaves when its last part is home, not before; those
// behind it wait for it, a PINGRESP does not; the disk's parts come home as a prefix; a connection
// that ends gives its tickets back, those that are under way once they are home.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#include <cmocka.h>

#include "broker/state.h"

static struct world w;
static struct client a;

static void begin(void) {
  world_open(&w);
  client_init(&a, &w, MQTT_V5);
  CHECK(client_connect(&a, "a", true, 0));
}
static void end(void) {
  client_detach(&a);
  client_free(&a);
  CHECK(pool_taken(&w.b->tickets) == 0);
  world_close(&w);
}

static u32 waiting(u16 packet_id, u32 cores, u64 lsn) {
  u32 t = ticket_open(w.b, a.s);
  CHECK(t != NONE);
  if (cores > 0) {
    ticket_expect(w.b, t, cores);
  }
  if (lsn > 0) {
    ticket_expect_lsn(w.b, t, lsn);
  }
  CHECK(control_push_after(a.s, MQTT_PUBACK, packet_id, 0, NULL, 0, t));
  return t;
}

static void counts_down(void **state) {
  (void)state;
  begin();
  u32 t = waiting(1, 2, 7);
  broker_check(w.b);
  ticket_home(w.b, t);
  ticket_durable(w.b, 7);
  expect_none(&a);
  ticket_home(w.b, t);
  expect_ack(&a, MQTT_PUBACK, 1, 0);
  CHECK(pool_taken(&w.b->tickets) == 0);
  (void)waiting(2, 0, 0);  // nothing to wait for
  expect_ack(&a, MQTT_PUBACK, 2, 0);
  end();
}

static void keeps_order(void **state) {
  (void)state;
  begin();
  u32 first = waiting(1, 1, 0);
  u32 second = waiting(2, 1, 0);
  CHECK(control_push(a.s, MQTT_PUBREC, 3, 0, NULL, 0));  // volatile: it waits all the same
  broker_on_ping(a.s);
  struct bytes p;
  CHECK(next_type(&a, &p) == MQTT_PINGRESP);
  ticket_home(w.b, second);
  expect_none(&a);
  broker_check(w.b);
  ticket_home(w.b, first);
  expect_ack(&a, MQTT_PUBACK, 1, 0);
  expect_ack(&a, MQTT_PUBACK, 2, 0);
  expect_ack(&a, MQTT_PUBREC, 3, 0);
  CHECK(control_push(a.s, MQTT_PUBACK, 4, 0, NULL, 0));
  expect_ack(&a, MQTT_PUBACK, 4, 0);
  end();
}

static void durable_is_a_prefix(void **state) {
  (void)state;
  begin();
  for (u16 i = 1; i <= 4; i++) {
    (void)waiting(i, 0, i * 10u);
  }
  ticket_durable(w.b, 9);
  expect_none(&a);
  ticket_durable(w.b, 20);
  expect_ack(&a, MQTT_PUBACK, 1, 0);
  expect_ack(&a, MQTT_PUBACK, 2, 0);
  expect_none(&a);
  ticket_durable(w.b, 1000);
  expect_ack(&a, MQTT_PUBACK, 3, 0);
  expect_ack(&a, MQTT_PUBACK, 4, 0);
  end();
}

static void connection_ends(void **state) {
  (void)state;
  begin();
  u32 core = waiting(1, 1, 0);
  u32 disk = waiting(2, 0, 5);
  client_detach(&a);
  CHECK(pool_taken(&w.b->tickets) == 2);  // their numbers are under way
  CHECK(client_connect(&a, "a", true, 0));
  u32 other = ticket_open(w.b, a.s);
  CHECK(other != core && other != disk);
  ticket_leave(w.b, other);
  ticket_durable(w.b, 5);
  CHECK(pool_taken(&w.b->tickets) == 1);
  ticket_home(w.b, core);
  expect_none(&a);
  end();
}

static void runs_out(void **state) {
  (void)state;
  begin();
  u32 all = w.b->tickets.free_count;
  u32 *t = malloc(all * sizeof *t);
  for (u32 i = 0; i < all; i++) {
    t[i] = ticket_open(w.b, a.s);
    CHECK(t[i] != NONE);
  }
  CHECK(ticket_open(w.b, a.s) == NONE);
  for (u32 i = 0; i < all; i++) {
    ticket_leave(w.b, t[i]);
  }
  free(t);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_down),
      cmocka_unit_test(keeps_order),
      cmocka_unit_test(durable_is_a_prefix),
      cmocka_unit_test(connection_ends),
      cmocka_unit_test(runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
