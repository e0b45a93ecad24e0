// SPDX-License-Identifier: Apache-2.0
// Input: operations of three clients, two bytes each (client and operation, argument), some
// followed by a raw MQTT packet of that length. Whatever they send: no assertion, nothing read that
// was freed (every packet is a block of its own size), and the broker's invariants hold at the end.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"

#define CLIENTS 3u

static void connect_as(struct client *c, u32 n, u8 argument) {
  char id[4];
  snprintf(id, sizeof id, "f%u", (n + (argument >> 6)) % CLIENTS);
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = argument & 3},
                                  {.id = MQTT_P_RECEIVE_MAXIMUM, .number = 1 + (argument & 7)},
                                  {.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = 40 + argument},
                                  {0}};
  struct mqtt_prop_out will[] = {{.id = MQTT_P_WILL_DELAY, .number = argument & 1}, {0}};
  enum mqtt_version v = (argument & 16) != 0 ? MQTT_V4 : MQTT_V5;
  struct mqtt_connect_out o = {.version = v,
                               .clean_start = (argument & 8) != 0,
                               .client_id = bytes_str(id),
                               .props = v == MQTT_V5 ? props : NULL,
                               .has_will = (argument & 32) != 0,
                               .will_qos = argument % 3,
                               .will_retain = (argument & 4) != 0,
                               .will_topic = BYTES_LIT("a/b"),
                               .will_payload = BYTES_LIT("w"),
                               .will_props = v == MQTT_V5 ? will : NULL};
  o.will_qos = o.has_will ? o.will_qos : 0;
  o.will_retain = o.has_will && o.will_retain;
  (void)client_connect_with(c, &o);
}

// One packet that the input holds, cut to its own length.
static u32 raw_packet(struct client *c, const u8 *data, usize size) {
  struct mqtt_header h;
  if (c->s == NULL || mqtt_fixed_header(bytes_of(data, size), &h) != ERR_OK ||
      h.remaining_len > size - h.header_len || h.type == MQTT_CONNECT) {
    return 0;
  }
  u32 len = h.header_len + h.remaining_len;
  (void)client_send(c, bytes_of(data, len));
  return len;
}

static void operate(struct world *w, struct client *c, u32 n, u8 op, u8 argument) {
  static const char *filters[] = {"a/b", "a/+", "#", "$share/g/a/+", "+/b", "c", "$x/#", "a/#"};
  static const char *topics[] = {"a/b", "a/c", "c", "$x/y", "a", "a/b/c", "/", "b/b"};
  if (op == 0) {
    unit_now_ns += (u64)argument * 100000000ull;
    world_run(w, 0);
  } else if (op == 1 && c->s == NULL) {
    connect_as(c, n, argument);
  } else if (c->s == NULL) {
    return;
  } else if (op == 2) {
    client_detach(c);
  } else if (op == 3) {
    (void)client_subscribe_id(c, filters[argument & 7], (argument >> 3) % 3,
                              c->version == MQTT_V5 ? argument >> 5 : 0, 1);
  } else if (op == 4) {
    (void)client_unsubscribe(c, filters[argument & 7], 1);
  } else if (op == 5) {
    (void)client_publish(c, topics[argument & 7], (argument & 64) ? "" : "payload",
                         (argument >> 3) % 3, (argument & 128) != 0, 1 + (argument >> 5));
  } else if (op == 6) {
    (void)client_ack(c, (enum mqtt_type)(MQTT_PUBACK + argument % 4), 1 + (argument >> 2), 0);
  } else if (op == 7) {
    c->span_len = 1 + argument;
    client_pull(c);
    c->rx_len = c->rx_pos = 0;
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize size) {
  static struct world w;
  static struct client c[CLIENTS];
  struct broker_limits l;
  broker_limits_default(&l, 512u << 10);
  l.session_queued_max = 8;
  unit_now_ns = 0;
  world_limits(&w, &l);
  for (u32 i = 0; i < CLIENTS; i++) {
    client_init(&c[i], &w, MQTT_V5);
  }
  for (usize i = 0; i + 2 <= size;) {
    u32 n = data[i] % CLIENTS;
    u8 op = data[i] >> 4 & 7;
    u8 argument = data[i + 1];
    bool raw = (data[i] & 8) != 0;
    i += 2;
    if (raw) {
      i += raw_packet(&c[n], data + i, size - i);
    } else {
      operate(&w, &c[n], n, op, argument);
    }
  }
  world_run(&w, 100000000000ull);
  for (u32 i = 0; i < CLIENTS; i++) {
    client_detach(&c[i]);
    client_free(&c[i]);
  }
  world_close(&w);
  return 0;
}
