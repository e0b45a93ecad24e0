// SPDX-License-Identifier: Apache-2.0
// For the broker's tests and fuzz targets: a core and a broker in memory, and clients that speak
// real bytes to it, as the server would: every packet is encoded, copied to a block of its exact
// size, decoded, handed over and freed again, so that nothing borrowed can be kept.
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/check.h"
#include "loop/loop.h"

extern u64 unit_now_ns;

#define CHECK(cond)                                                        \
  do {                                                                     \
    if (!(cond)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
      abort();                                                             \
    }                                                                      \
  } while (0)

struct world {
  struct core core;
  struct broker *b;
  void *memory;
  struct timer *timers;
};

struct client {
  struct world *w;
  struct session *s;
  enum mqtt_version version;
  u32 wakes;
  bool awake;
  bool kicked;
  bool entering;            // on several cores: CONNECT is under way
  enum mqtt_reason reason;  // why the connection ended
  struct mqtt_connack connack;
  u16 keep_alive_s;
  u8 qos_max;         // of its listener
  const char *mount;  // of its listener; NULL = none
  u8 access_set;
  const char *username;  // NULL = anonymous
  u8 *rx;
  u32 rx_len, rx_cap, rx_pos;
  u32 span_len;  // how much room a pull is given
};

static void on_wake(void *user) {
  struct client *c = user;
  CHECK(!c->awake);  // once until pulled dry
  c->awake = true;
  c->wakes++;
}
static void on_kick(void *user, enum mqtt_reason reason) {
  struct client *c = user;
  c->s = NULL;
  c->kicked = true;
  c->awake = false;
  c->reason = reason;
}

static void on_entered(void *user, struct session *s, enum mqtt_reason reason, u16 keep_alive_s) {
  struct client *c = user;
  CHECK(c->entering);
  CHECK((s != NULL) == (reason == MQTT_SUCCESS));
  c->entering = false;
  c->s = s;
  c->reason = reason;
  c->keep_alive_s = keep_alive_s;
}

static void world_limits(struct world *w, const struct broker_limits *l) {
  memset(w, 0, sizeof *w);
  u32 timers = l->sessions + 16;
  w->timers = calloc(timers, sizeof *w->timers);
  core_init(&w->core, 0, w->timers, timers);
  u64 len = broker_bytes(l) + 4096;
  w->memory = calloc(1, len);
  struct carve carve = {.region = {{w->memory, len}}, .region_count = 1, .total_len = len};
  CHECK(broker_init(&w->core, &carve, l) == ERR_OK);
  w->b = w->core.broker;
  loop_stage(&w->core, "broker", broker_stage, w->b);
  broker_set_ops(w->b,
                 &(struct broker_ops){.wake = on_wake, .kick = on_kick, .entered = on_entered});
}
static void world_open(struct world *w) {
  struct broker_limits l;
  broker_limits_default(&l, 16u << 20);
  world_limits(w, &l);
}
static void world_close(struct world *w) {
  broker_check(w->b);
  MEM_UNPOISON(w->memory, broker_bytes(&w->b->limits));
  free(w->memory);
  free(w->timers);
}

static void client_init(struct client *c, struct world *w, enum mqtt_version v) {
  memset(c, 0, sizeof *c);
  c->w = w;
  c->version = v;
  c->qos_max = 2;
  c->span_len = 16384;
  c->rx_cap = 65536;
  c->rx = malloc(c->rx_cap);
}
static void client_free(struct client *c) {
  free(c->rx);
  c->rx = NULL;
}
static void rx_room(struct client *c, u32 more) {
  if (c->rx_len + more > c->rx_cap) {
    c->rx_cap = (c->rx_len + more) * 2;
    c->rx = realloc(c->rx, c->rx_cap);
  }
}
// Pulls as a server with room would, span_len bytes at a time.
static void client_pull(struct client *c) {
  while (c->s != NULL && c->awake) {
    u8 *piece = malloc(c->span_len);
    u32 n = broker_pull(c->s, span_of(piece, c->span_len), unit_now_ns);
    rx_room(c, n);
    memcpy(c->rx + c->rx_len, piece, n);
    c->rx_len += n;
    free(piece);
    CHECK(n > 0 || !broker_has_output(c->s));
    c->awake = broker_has_output(c->s);
  }
}
// The next whole packet received; empty when there is none.
static struct bytes client_next(struct client *c) {
  client_pull(c);
  struct mqtt_header h;
  struct bytes left = bytes_of(c->rx + c->rx_pos, c->rx_len - c->rx_pos);
  if (left.len == 0) {
    return left;
  }
  CHECK(mqtt_fixed_header(left, &h) == ERR_OK);
  u32 len = h.header_len + h.remaining_len;
  CHECK(len <= left.len);
  c->rx_pos += len;
  return bytes_of(left.ptr, len);
}

static void client_detach(struct client *c) {
  if (c->s != NULL) {
    broker_detach(c->s, unit_now_ns);
  } else if (c->entering) {
    broker_forget(c->w->b, c);
    c->entering = false;
  }
  c->s = NULL;
  c->awake = false;
  c->rx_pos = c->rx_len = 0;  // what was not read is lost with the connection
}

static enum mqtt_reason dispatch(struct client *c, struct bytes p) {
  u8 type = p.ptr[0] >> 4;
  enum mqtt_reason r = MQTT_PROTOCOL_ERROR;
  if (type == MQTT_PUBLISH) {
    struct mqtt_publish m;
    r = mqtt_decode_publish(c->version, p, &m);
    return r != MQTT_SUCCESS ? r : broker_on_publish(c->s, &m, p, unit_now_ns);
  }
  if (type >= MQTT_PUBACK && type <= MQTT_PUBCOMP) {
    struct mqtt_ack a;
    r = mqtt_decode_ack(c->version, p, &a);
    return r != MQTT_SUCCESS ? r : broker_on_ack(c->s, (enum mqtt_type)type, &a, unit_now_ns);
  }
  if (type == MQTT_SUBSCRIBE || type == MQTT_UNSUBSCRIBE) {
    struct mqtt_subscribe s;
    r = type == MQTT_SUBSCRIBE ? mqtt_decode_subscribe(c->version, p, &s)
                               : mqtt_decode_unsubscribe(c->version, p, &s);
    if (r != MQTT_SUCCESS) {
      return r;
    }
    return type == MQTT_SUBSCRIBE ? broker_on_subscribe(c->s, &s, p, unit_now_ns)
                                  : broker_on_unsubscribe(c->s, &s, p, unit_now_ns);
  }
  if (type == MQTT_PINGREQ) {
    broker_on_ping(c->s);
    return MQTT_SUCCESS;
  }
  if (type == MQTT_DISCONNECT) {
    struct mqtt_disconnect d;
    r = mqtt_decode_disconnect(c->version, p, &d);
    r = r != MQTT_SUCCESS ? r : broker_on_disconnect(c->s, &d, p, unit_now_ns);
    if (r == MQTT_SUCCESS) {
      c->s = NULL;
      client_detach(c);
    }
    return r;
  }
  return r;
}
// Sends one packet; an error ends the connection, as the server would.
static enum mqtt_reason client_send(struct client *c, struct bytes packet) {
  CHECK(c->s != NULL);
  u8 *copy = malloc(packet.len);
  memcpy(copy, packet.ptr, packet.len);
  enum mqtt_reason r = dispatch(c, bytes_of(copy, packet.len));
  memset(copy, 0xdd, packet.len);
  free(copy);
  if (r != MQTT_SUCCESS) {
    c->reason = r;
    client_detach(c);
  }
  return r;
}

// Of a CONNECT that has been decided: reads the CONNACK.
static bool client_entered(struct client *c) {
  CHECK(!c->entering);
  if (c->reason != MQTT_SUCCESS) {
    return false;
  }
  struct bytes first = client_next(c);
  CHECK(first.len > 0 && first.ptr[0] >> 4 == MQTT_CONNACK);
  CHECK(mqtt_decode_connack(c->version, first, &c->connack) == MQTT_SUCCESS);
  return true;
}

// `entering` afterwards: client_entered follows.
static void client_begin(struct client *c, const struct mqtt_connect_out *o) {
  u8 *buf = malloc(200000);
  struct writer w = writer_init(span_of(buf, 200000));
  mqtt_encode_connect(&w, o);
  CHECK(w.err == ERR_OK);
  u8 *copy = malloc(w.pos);
  memcpy(copy, buf, w.pos);
  struct bytes p = bytes_of(copy, w.pos);
  struct mqtt_connect d;
  CHECK(mqtt_decode_connect(p, &d) == MQTT_SUCCESS);
  struct broker_identity id = {.qos_max = c->qos_max,
                               .access_set = c->access_set,
                               .mount = bytes_str(c->mount != NULL ? c->mount : "")};
  if (c->username != NULL) {
    id.username = bytes_str(c->username);
    id.has_username = true;
  }
  c->version = o->version;
  c->kicked = false;
  c->awake = false;
  c->rx_pos = c->rx_len = 0;
  c->reason = broker_on_connect(c->w->b, c, &d, p, &id, unit_now_ns, &c->s, &c->keep_alive_s);
  memset(copy, 0xdd, w.pos);
  free(copy);
  free(buf);
  c->entering = c->reason == MQTT_SUCCESS && c->s == NULL;
}
static void (*clients_settle)(void);  // runs the cores until nothing moves
static bool client_connect_with(struct client *c, const struct mqtt_connect_out *o) {
  client_begin(c, o);
  if (c->entering) {
    clients_settle();
  }
  return client_entered(c);
}
static bool client_connect(struct client *c, const char *id, bool clean, u32 expiry_s) {
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = expiry_s}, {0}};
  struct mqtt_connect_out o = {.version = c->version,
                               .clean_start = clean,
                               .client_id = bytes_str(id),
                               .props = c->version == MQTT_V5 ? props : NULL};
  return client_connect_with(c, &o);
}

static enum mqtt_reason client_publish_with(struct client *c, const struct mqtt_publish_out *o,
                                            struct bytes payload) {
  u32 size = mqtt_publish_size(c->version, o);
  u8 *buf = malloc(size);
  struct writer w = writer_init(span_of(buf, size));
  mqtt_encode_publish_head(&w, c->version, o);
  write_bytes(&w, payload);
  CHECK(w.err == ERR_OK);
  CHECK(w.pos == size);
  enum mqtt_reason r = client_send(c, writer_bytes(&w));
  free(buf);
  return r;
}
static enum mqtt_reason client_publish(struct client *c, const char *topic, const char *payload,
                                       u8 qos, bool retain, u16 packet_id) {
  struct mqtt_publish_out o = {.qos = qos,
                               .retain = retain,
                               .packet_id = qos > 0 ? packet_id : 0,
                               .topic = bytes_str(topic),
                               .payload_len = (u32)strlen(payload)};
  return client_publish_with(c, &o, bytes_str(payload));
}
static enum mqtt_reason client_ack(struct client *c, enum mqtt_type type, u16 packet_id,
                                   u8 reason) {
  u8 buf[16];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_ack(&w, c->version, type, packet_id, (enum mqtt_reason)reason, NULL);
  return client_send(c, writer_bytes(&w));
}
static enum mqtt_reason client_subscribe_id(struct client *c, const char *filter, u8 options,
                                            u32 identifier, u16 packet_id) {
  u8 *buf = malloc(70000);
  struct writer w = writer_init(span_of(buf, 70000));
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SUBSCRIPTION_ID, .number = identifier}, {0}};
  struct mqtt_entry_out e = {bytes_str(filter), options};
  mqtt_encode_subscribe(&w, c->version, packet_id, identifier > 0 ? props : NULL, &e, 1);
  enum mqtt_reason r = client_send(c, writer_bytes(&w));
  free(buf);
  return r;
}
static enum mqtt_reason client_unsubscribe(struct client *c, const char *filter, u16 packet_id) {
  u8 buf[1024];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  struct mqtt_entry_out e = {bytes_str(filter), 0};
  mqtt_encode_unsubscribe(&w, c->version, packet_id, NULL, &e, 1);
  return client_send(c, writer_bytes(&w));
}
static enum mqtt_reason client_disconnect(struct client *c, u8 reason,
                                          const struct mqtt_prop_out *props) {
  u8 buf[64];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_disconnect(&w, c->version, (enum mqtt_reason)reason, props);
  return client_send(c, writer_bytes(&w));
}

// --- Expectations

static u8 next_type(struct client *c, struct bytes *p) {
  *p = client_next(c);
  return p->len == 0 ? 0 : p->ptr[0] >> 4;
}
static void expect_none(struct client *c) {
  struct bytes p;
  CHECK(next_type(c, &p) == 0);
}
static void expect_ack(struct client *c, enum mqtt_type type, u16 packet_id, u8 reason) {
  struct bytes p;
  struct mqtt_ack a;
  CHECK(next_type(c, &p) == type);
  CHECK(mqtt_decode_ack(c->version, p, &a) == MQTT_SUCCESS);
  CHECK(a.packet_id == packet_id);
  CHECK(a.reason == (c->version == MQTT_V5 ? reason : 0));
}
static void expect_suback(struct client *c, enum mqtt_type type, u8 code) {
  struct bytes p;
  struct mqtt_suback a;
  CHECK(next_type(c, &p) == type);
  CHECK(mqtt_decode_suback(c->version, p, &a) == MQTT_SUCCESS);
  if (type == MQTT_SUBACK || c->version == MQTT_V5) {
    CHECK(a.codes.len == 1);
    CHECK(p.ptr[a.codes.off] == code);
  }
}
static struct mqtt_publish expect_publish(struct client *c, const char *topic, const char *payload,
                                          u8 qos, bool retain, struct bytes *packet) {
  struct bytes p;
  struct mqtt_publish m;
  CHECK(next_type(c, &p) == MQTT_PUBLISH);
  CHECK(mqtt_decode_publish(c->version, p, &m) == MQTT_SUCCESS);
  if (!bytes_equal_str(bytes_part(p, m.payload), payload)) {
    fprintf(stderr, "got %.*s %.*s qos %u instead of %s %s\n", (int)m.topic.len,
            p.ptr + m.topic.off, (int)m.payload.len, p.ptr + m.payload.off, m.qos, topic, payload);
  }
  CHECK(bytes_equal_str(bytes_part(p, m.topic), topic));
  CHECK(bytes_equal_str(bytes_part(p, m.payload), payload));
  CHECK(m.qos == qos);
  CHECK(m.retain == retain);
  if (packet != NULL) {
    *packet = p;
  }
  return m;
}
static void subscribe_ok(struct client *c, const char *filter, u8 options) {
  CHECK(client_subscribe_id(c, filter, options, 0, 1) == MQTT_SUCCESS);
  expect_suback(c, MQTT_SUBACK, options & 3);
}
// Time passes and the core runs.
static void world_run(struct world *w, u64 ns) {
  unit_now_ns += ns;
  while (loop_turn(&w->core)) {
  }
}
