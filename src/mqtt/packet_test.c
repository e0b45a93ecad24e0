// SPDX-License-Identifier: Apache-2.0
// Proves: what the encoders write the decoders read back, for random structures of all fifteen
// packet types in both versions; every such packet cut at every byte, made longer by one, and with
// every byte changed is answered without reading outside (ASan, blocks of exact size); one table of
// malformed packets a rule; property tables; varints; recorded packets of other clients.
// clang-format off
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
// clang-format on

#include "mqtt/encode.h"
#include "mqtt/wire.h"

#define BIG 200000u

static u64 seed = 20261201;
static u32 rnd(u32 below) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % below;
}

// Decodes by the type of the packet, from a block of exactly its size.
static u32 decode(enum mqtt_version v, const u8 *bytes, usize len) {
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, bytes, len);
  struct bytes p = bytes_of(copy, len);
  union {
    struct mqtt_connect connect;
    struct mqtt_connack connack;
    struct mqtt_publish publish;
    struct mqtt_ack ack;
    struct mqtt_subscribe subscribe;
    struct mqtt_suback suback;
    struct mqtt_disconnect ending;
  } out;
  struct mqtt_header h;
  u32 result = MQTT_MALFORMED_PACKET;
  if (mqtt_fixed_header(p, &h) == ERR_OK) {
    switch (h.type) {
    case MQTT_CONNECT: result = mqtt_decode_connect(p, &out.connect); break;
    case MQTT_CONNACK: result = mqtt_decode_connack(v, p, &out.connack); break;
    case MQTT_PUBLISH: result = mqtt_decode_publish(v, p, &out.publish); break;
    case MQTT_SUBSCRIBE: result = mqtt_decode_subscribe(v, p, &out.subscribe); break;
    case MQTT_UNSUBSCRIBE: result = mqtt_decode_unsubscribe(v, p, &out.subscribe); break;
    case MQTT_SUBACK:
    case MQTT_UNSUBACK: result = mqtt_decode_suback(v, p, &out.suback); break;
    case MQTT_PINGREQ:
    case MQTT_PINGRESP: result = mqtt_decode_ping(p); break;
    case MQTT_DISCONNECT: result = mqtt_decode_disconnect(v, p, &out.ending); break;
    case MQTT_AUTH: result = mqtt_decode_auth(p, &out.ending); break;
    default: result = mqtt_decode_ack(v, p, &out.ack); break;
    }
    result = v == MQTT_V5 && !h.minimal ? MQTT_MALFORMED_PACKET : result;
  }
  free(copy);
  return result;
}

// --- Random structures

static char pool[64][32];
static u32 pool_used;
static struct bytes word(void) {
  char *s = pool[pool_used++ % 64];
  int n = snprintf(s, 32, "%s/%u", rnd(2) != 0 ? "t\xc3\xa9st" : "a", rnd(1000));
  return bytes_of(s, (usize)n);
}

// Every property that may stand in `where`, each with probability one half.
static void random_props(u32 where, struct mqtt_prop_out *list, u32 room) {
  static const struct {
    u8 id;
    u32 where;
  } rows[] = {
#define IN(t) MQTT_IN(MQTT_##t)
      {1, IN(PUBLISH) | MQTT_IN(16)},
      {2, IN(PUBLISH) | MQTT_IN(16)},
      {3, IN(PUBLISH) | MQTT_IN(16)},
      {8, IN(PUBLISH) | MQTT_IN(16)},
      {9, IN(PUBLISH) | MQTT_IN(16)},
      {11, IN(PUBLISH) | IN(SUBSCRIBE)},
      {17, IN(CONNECT) | IN(CONNACK) | IN(DISCONNECT)},
      {18, IN(CONNACK)},
      {19, IN(CONNACK)},
      {21, IN(CONNECT) | IN(CONNACK) | IN(AUTH)},
      {23, IN(CONNECT)},
      {24, MQTT_IN(16)},
      {25, IN(CONNECT)},
      {26, IN(CONNACK)},
      {28, IN(CONNACK) | IN(DISCONNECT)},
      {31, 0xfef4u & ~IN(SUBSCRIBE) & ~IN(UNSUBSCRIBE) & ~IN(PINGREQ) & ~IN(PINGRESP)},
      {33, IN(CONNECT) | IN(CONNACK)},
      {34, IN(CONNECT) | IN(CONNACK)},
      {35, IN(PUBLISH)},
      {36, IN(CONNACK)},
      {37, IN(CONNACK)},
      {38, 0x1fffeu & ~IN(PINGREQ) & ~IN(PINGRESP)},
      {39, IN(CONNECT) | IN(CONNACK)},
      {40, IN(CONNACK)},
      {41, IN(CONNACK)},
      {42, IN(CONNACK)},
  };
  u32 n = 0;
  for (usize i = 0; i < ARRAY_COUNT(rows); i++) {
    if ((rows[i].where & where) != 0 && rnd(2) != 0 && n + 1 < room) {
      list[n++] =
          (struct mqtt_prop_out){.id = rows[i].id, .number = 1, .text = word(), .value = word()};
    }
  }
  list[n] = (struct mqtt_prop_out){0};
}

struct sample {
  enum mqtt_version v;
  enum mqtt_type type;
  u8 bytes[2048];
  u32 len;
};

static bool same(const u8 *packet, struct part p, struct bytes b) {
  return p.len == b.len && memcmp(packet + p.off, b.ptr, b.len) == 0;
}

static u64 bits_of(const struct mqtt_prop_out *list) {
  u64 bits = 0;
  for (; list->id != 0; list++) {
    bits |= 1ull << list->id;
  }
  return bits;
}

static void sample_connect(struct sample *s, struct writer *w) {
  struct mqtt_prop_out props[24];
  struct mqtt_prop_out will[24];
  random_props(MQTT_IN(MQTT_CONNECT), props, 24);
  random_props(MQTT_IN(16), will, 24);
  struct mqtt_connect_out c = {.version = s->v,
                               .clean_start = rnd(2),
                               .has_will = rnd(2),
                               .has_username = rnd(2),
                               .keep_alive_s = (u16)rnd(65536),
                               .client_id = word(),
                               .will_topic = word(),
                               .will_payload = word(),
                               .username = word(),
                               .password = word(),
                               .props = props,
                               .will_props = will};
  c.has_password = (c.has_username || s->v == MQTT_V5) && rnd(2) != 0;
  c.will_qos = c.has_will ? (u8)rnd(3) : 0;
  c.will_retain = c.has_will && rnd(2) != 0;
  mqtt_encode_connect(w, &c);
  struct mqtt_connect d;
  assert_int_equal(mqtt_decode_connect(writer_bytes(w), &d), 0);
  assert_int_equal(d.version, c.version);
  assert_int_equal(d.clean_start, c.clean_start);
  assert_int_equal(d.keep_alive_s, c.keep_alive_s);
  assert_int_equal(d.will_qos, c.will_qos);
  assert_int_equal(d.will_retain, c.will_retain);
  assert_true(same(s->bytes, d.client_id, c.client_id));
  assert_int_equal(d.has_will, c.has_will);
  assert_int_equal(d.has_username, c.has_username);
  assert_int_equal(d.has_password, c.has_password);
  if (c.has_will) {
    assert_true(same(s->bytes, d.will_topic, c.will_topic));
    assert_true(same(s->bytes, d.will_payload, c.will_payload));
    assert_true(s->v == MQTT_V4 || d.will_props.present == bits_of(will));
  }
  assert_true(!c.has_username || same(s->bytes, d.username, c.username));
  assert_true(!c.has_password || same(s->bytes, d.password, c.password));
  assert_true(s->v == MQTT_V4 || d.props.present == bits_of(props));
}

static void sample_publish(struct sample *s, struct writer *w) {
  struct mqtt_prop_out props[24];
  random_props(MQTT_IN(MQTT_PUBLISH), props, 24);
  struct bytes payload = word();
  struct mqtt_publish_out p = {.qos = (u8)rnd(3),
                               .retain = rnd(2),
                               .topic = word(),
                               .props = props,
                               .payload_len = (u32)payload.len};
  p.dup = p.qos > 0 && rnd(2) != 0;
  p.packet_id = p.qos > 0 ? (u16)(1 + rnd(65535)) : 0;
  mqtt_encode_publish_head(w, s->v, &p);
  write_bytes(w, payload);
  assert_int_equal(w->pos, mqtt_publish_size(s->v, &p));
  struct mqtt_publish d;
  assert_int_equal(mqtt_decode_publish(s->v, writer_bytes(w), &d), 0);
  assert_int_equal(d.qos, p.qos);
  assert_int_equal(d.dup, p.dup);
  assert_int_equal(d.retain, p.retain);
  assert_int_equal(d.packet_id, p.packet_id);
  assert_true(same(s->bytes, d.topic, p.topic));
  assert_true(same(s->bytes, d.payload, payload));
  if (s->v == MQTT_V5) {
    assert_true(d.props.present == bits_of(props));
    u8 again[2048];  // the properties copied as they are give the same packet
    struct bytes all = bytes_part(writer_bytes(w), d.props.all);
    u32 len = mqtt_copy_props(all, 0, again);
    assert_true(bytes_equal(all, bytes_of(again, len)));
    u64 expiry = 1ull << MQTT_P_MESSAGE_EXPIRY;
    u32 less = mqtt_copy_props(all, expiry, NULL);
    assert_int_equal(len - less, (d.props.present & expiry) != 0 ? 5 : 0);
    struct part name;
    struct part value;
    u32 pos = d.props.all.off;
    u32 users = 0;
    while (mqtt_user_property(writer_bytes(w), &d.props, &pos, &name, &value)) {
      users++;
    }
    assert_int_equal(users, d.props.user_count);
  }
}

static void sample_list(struct sample *s, struct writer *w) {
  struct mqtt_prop_out props[24];
  random_props(MQTT_IN(s->type), props, 24);
  struct mqtt_entry_out e[5];
  u32 count = 1 + rnd(5);
  for (u32 i = 0; i < count; i++) {
    e[i] = (struct mqtt_entry_out){.filter = word(), .options = (u8)rnd(3)};
    e[i].options |= s->v == MQTT_V5 ? (u8)(rnd(2) << 2 | rnd(2) << 3 | rnd(3) << 4) : 0;
  }
  u16 id = (u16)(1 + rnd(65535));
  struct mqtt_subscribe d;
  bool sub = s->type == MQTT_SUBSCRIBE;
  (sub ? mqtt_encode_subscribe : mqtt_encode_unsubscribe)(w, s->v, id, props, e, count);
  struct bytes b = writer_bytes(w);
  assert_int_equal((sub ? mqtt_decode_subscribe : mqtt_decode_unsubscribe)(s->v, b, &d), 0);
  assert_int_equal(d.packet_id, id);
  assert_int_equal(d.entry_count, count);
  u32 pos = d.entries.off;
  struct mqtt_entry got;
  for (u32 i = 0; i < count; i++) {
    assert_true((sub ? mqtt_subscribe_entry : mqtt_unsubscribe_entry)(b, &d, &pos, &got));
    assert_true(same(s->bytes, got.filter, e[i].filter));
    if (sub) {
      assert_int_equal(
          got.qos | got.no_local << 2 | got.retain_as_published << 3 | got.retain_handling << 4,
          e[i].options);
    }
  }
  assert_false((sub ? mqtt_subscribe_entry : mqtt_unsubscribe_entry)(b, &d, &pos, &got));
}

static void sample_answer(struct sample *s, struct writer *w) {
  struct mqtt_prop_out props[24];
  random_props(MQTT_IN(s->type), props, 24);
  u16 id = (u16)(1 + rnd(65535));
  if (s->type == MQTT_CONNACK) {
    bool present = rnd(2);
    mqtt_encode_connack(w, s->v, present, present ? MQTT_SUCCESS : MQTT_NOT_AUTHORIZED, props);
    struct mqtt_connack d;
    assert_int_equal(mqtt_decode_connack(s->v, writer_bytes(w), &d), 0);
    assert_int_equal(d.session_present, present);
    assert_int_equal(d.code, present ? 0 : s->v == MQTT_V5 ? 0x87 : 5);
    assert_true(s->v == MQTT_V4 || d.props.present == bits_of(props));
    return;
  }
  if (s->type == MQTT_SUBACK || s->type == MQTT_UNSUBACK) {
    static const u8 codes[] = {0, 0x87, 0x80};
    mqtt_encode_suback(w, s->v, s->type, id, bytes_of(codes, 3), props);
    struct mqtt_suback d;
    assert_int_equal(mqtt_decode_suback(s->v, writer_bytes(w), &d), 0);
    assert_int_equal(d.packet_id, id);
    assert_int_equal(d.codes.len, s->v == MQTT_V4 && s->type == MQTT_UNSUBACK ? 0 : 3);
    return;
  }
  enum mqtt_reason reason = rnd(2) == 0              ? MQTT_SUCCESS
                            : s->type >= MQTT_PUBREL ? MQTT_PACKET_ID_NOT_FOUND
                                                     : MQTT_QUOTA_EXCEEDED;
  mqtt_encode_ack(w, s->v, s->type, id, reason, s->v == MQTT_V5 ? props : NULL);
  struct mqtt_ack d;
  assert_int_equal(mqtt_decode_ack(s->v, writer_bytes(w), &d), 0);
  assert_int_equal(d.packet_id, id);
  assert_int_equal(d.reason, s->v == MQTT_V5 ? reason : MQTT_SUCCESS);
  assert_true(s->v == MQTT_V4 || d.props.present == bits_of(props));
}

static void sample_ending(struct sample *s, struct writer *w) {
  struct mqtt_prop_out props[24];
  random_props(MQTT_IN(s->type), props, 24);
  struct mqtt_disconnect d;
  if (s->type == MQTT_DISCONNECT) {
    enum mqtt_reason reason = rnd(2) != 0 ? MQTT_SUCCESS : MQTT_KEEP_ALIVE_TIMEOUT;
    mqtt_encode_disconnect(w, s->v, reason, props);
    assert_int_equal(mqtt_decode_disconnect(s->v, writer_bytes(w), &d), 0);
    assert_int_equal(d.reason, s->v == MQTT_V5 ? reason : MQTT_SUCCESS);
  } else if (s->type == MQTT_AUTH) {
    mqtt_encode_auth(w, MQTT_CONTINUE_AUTHENTICATION, props);
    assert_int_equal(mqtt_decode_auth(writer_bytes(w), &d), 0);
    assert_int_equal(d.reason, MQTT_CONTINUE_AUTHENTICATION);
  } else {
    mqtt_encode_ping(w, s->type);
    assert_int_equal(mqtt_decode_ping(writer_bytes(w)), 0);
    return;
  }
  assert_true(s->v == MQTT_V4 || d.props.present == bits_of(props));
}

static void make(struct sample *s, enum mqtt_type type, enum mqtt_version v) {
  s->type = type;
  s->v = v;
  struct writer w = writer_init(span_of(s->bytes, sizeof s->bytes));
  switch (type) {
  case MQTT_CONNECT: sample_connect(s, &w); break;
  case MQTT_PUBLISH: sample_publish(s, &w); break;
  case MQTT_SUBSCRIBE:
  case MQTT_UNSUBSCRIBE: sample_list(s, &w); break;
  case MQTT_PINGREQ:
  case MQTT_PINGRESP:
  case MQTT_DISCONNECT:
  case MQTT_AUTH: sample_ending(s, &w); break;
  default: sample_answer(s, &w); break;
  }
  assert_int_equal(w.err, ERR_OK);
  s->len = w.pos;
}

// [MQTT-2.2.2-1] [MQTT-3.1.2-9] [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT-3.1.2-18] [MQTT-3.1.2-19]
// [MQTT-3.1.3-1] [MQTT-3.1.3-3] [MQTT-3.1.3-11] [MQTT-3.1.3-12] [MQTT-3.3.2-13] [MQTT-3.3.2-19]
static void round_trips(void **state) {
  (void)state;
  struct sample s;
  for (u32 i = 0; i < 30000; i++) {
    make(&s, (enum mqtt_type)(1 + i % 15), i % 2 == 0 ? MQTT_V5 : MQTT_V4);
    assert_int_equal(decode(s.v, s.bytes, s.len), 0);
  }
}

// A cut packet is never whole, also with its length put right (2.1.4) wherever the format allows
// none of it to be missing; nothing outside its bytes is read.
static void cut_everywhere(void **state) {
  (void)state;
  struct sample s;
  for (u32 i = 0; i < 600; i++) {
    make(&s, (enum mqtt_type)(1 + i % 15), i % 2 == 0 ? MQTT_V5 : MQTT_V4);
    struct mqtt_header h;
    assert_int_equal(mqtt_fixed_header(bytes_of(s.bytes, s.len), &h), ERR_OK);
    for (u32 cut = 0; cut < s.len; cut++) {
      assert_int_not_equal(decode(s.v, s.bytes, cut), 0);
      if (cut >= h.header_len) {
        u8 shorter[2048 + 5];
        struct writer w = writer_init(span_of(shorter, sizeof shorter));
        write_u8(&w, s.bytes[0]);
        mqtt_write_varint(&w, cut - h.header_len);
        write_bytes(&w, bytes_of(s.bytes + h.header_len, cut - h.header_len));
        u32 r = decode(s.v, shorter, w.pos);
        bool may_be_whole = h.type == MQTT_PUBLISH || (h.type >= 4 && h.type <= 7) ||
                            h.type == MQTT_SUBSCRIBE || h.type == MQTT_UNSUBSCRIBE ||
                            h.type == MQTT_SUBACK || h.type == MQTT_UNSUBACK || h.type >= 14;
        assert_true(r != 0 || may_be_whole);
      }
    }
    s.bytes[s.len] = 0;
    assert_int_not_equal(decode(s.v, s.bytes, s.len + 1), 0);  // trailing byte
  }
}

// Each byte set to each value: every length field is wrong at some time. Any answer will do, but
// no byte outside is read and no assertion fires; both versions look at it.
static void every_byte_changed(void **state) {
  (void)state;
  struct sample s;
  u32 refused = 0;
  for (u32 i = 0; i < 30; i++) {
    make(&s, (enum mqtt_type)(1 + i % 15), i < 15 ? MQTT_V5 : MQTT_V4);
    for (u32 at = 0; at < s.len; at++) {
      u8 was = s.bytes[at];
      for (u32 value = 0; value < 256; value += 1 + (value > 4 && value < 250) * 6) {
        s.bytes[at] = (u8)value;
        refused += decode(s.v, s.bytes, s.len) != 0;
        (void)decode(s.v == MQTT_V5 ? MQTT_V4 : MQTT_V5, s.bytes, s.len);
      }
      s.bytes[at] = was;
    }
  }
  assert_true(refused > 1000);
}

// --- One packet a rule

struct rule_row {
  enum mqtt_version v;
  u32 want;
  const char *bytes;
  usize len;
};
#define ROW(v, want, s) \
  { v, want, s, sizeof(s) - 1 }

// [MQTT-1.5.5-1] [MQTT-1.5.7-1] [MQTT-2.1.3-1] [MQTT-2.2.1-2] [MQTT-3.1.2-1] [MQTT-3.1.2-2]
// [MQTT-3.1.2-3] [MQTT-3.1.2-11] [MQTT-3.1.2-12] [MQTT-3.1.2-13] [MQTT-3.1.3-4] [MQTT-3.2.2-1]
// [MQTT-3.2.2-6] [MQTT-3.2.2-8] [MQTT-3.3.1-2] [MQTT-3.3.1-4] [MQTT-3.3.2-1] [MQTT-3.3.2-2]
// [MQTT-3.3.2-8] [MQTT-3.3.2-14] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.1-1] [MQTT-3.6.2-1]
// [MQTT-3.7.2-1] [MQTT-3.8.1-1] [MQTT-3.8.3-1] [MQTT-3.8.3-2] [MQTT-3.8.3-4] [MQTT-3.8.3-5]
// [MQTT-3.9.3-2] [MQTT-3.10.1-1] [MQTT-3.10.3-1] [MQTT-3.10.3-2] [MQTT-3.11.3-2] [MQTT-3.14.1-1]
// [MQTT-3.14.2-1] [MQTT-3.15.1-1] [MQTT-3.15.2-1] [MQTT-4.8.2-1] 3.1.1 [MQTT-3.1.2-11]
// 3.1.1 [MQTT-3.1.2-12] 3.1.1 [MQTT-3.1.2-22]
static void rules(void **state) {
  (void)state;
  static const struct rule_row rows[] = {
      // Fixed header: reserved flags, length.
      ROW(5, 0x81, "\x00\x00"),
      ROW(5, 0x81, "\xc1\x00"),
      ROW(5, 0x81, "\x60\x02\x00\x01"),
      ROW(4, 0x81, "\x80\x06\x00\x01\x00\x01\x61\x00"),
      ROW(5, 0x81, "\xc0\x80\x00"),
      ROW(4, 0, "\xc0\x80\x00"),
      ROW(4, 0x81, "\xc0\x81\x00"),
      ROW(4, 0x81, "\x11\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"),
      ROW(3, 0, "\x14\x0e\x00\x06MQIsdp\x03\x03\x00\x0a\x00\x00"),
      ROW(3, 0, "\x10\x0e\x00\x06MQIsdp\x83\x02\x00\x0a\x00\x00"),
      ROW(4, 0, "\x10\x0c\x00\x04MQTT\x84\x02\x00\x0a\x00\x00"),
      ROW(5, 0x84, "\x10\x0d\x00\x04MQTT\x85\x02\x00\x0a\x00\x00\x00"),
      ROW(4, 0x84, "\x10\x0e\x00\x06MQIsdp\x04\x02\x00\x0a\x00\x00"),
      // Control characters in a string; a tabulator is one, an umlaut's second byte is not.
      ROW(4, 0x81, "\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01\t"),
      ROW(4, 0x81, "\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01\x7f"),
      ROW(4, 0x81, "\x10\x0e\x00\x04MQTT\x04\x02\x00\x0a\x00\x02\xc2\x9f"),
      ROW(4, 0, "\x10\x0e\x00\x04MQTT\x04\x02\x00\x0a\x00\x02\xc3\x9f"),
      ROW(4, 0, "\x10\x0e\x00\x04MQTT\x04\x02\x00\x0a\x00\x02\xc2\xa0"),
      ROW(5, 0x81, "\xc0\x80\x80\x80\x80\x00"),
      ROW(5, 0x81, "\xc0\x01\x00"),
      // CONNECT.
      ROW(4, 0, "\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"),
      ROW(4, 0x81, "\x10\x0c\x00\x04MQTT\x04\x03\x00\x0a\x00\x00"),
      ROW(4, 0x84, "\x10\x0c\x00\x04MQTT\x03\x02\x00\x0a\x00\x00"),
      ROW(4, 0x84, "\x10\x0c\x00\x04MQTT\x06\x02\x00\x0a\x00\x00"),
      ROW(4, 0x81, "\x10\x0c\x00\x04MQTt\x04\x02\x00\x0a\x00\x00"),
      ROW(4, 0x81, "\x10\x0c\x00\x04MQTT\x04\x08\x00\x0a\x00\x00"),
      ROW(4, 0x81, "\x10\x0c\x00\x04MQTT\x04\x20\x00\x0a\x00\x00"),
      ROW(4, 0x81,
          "\x10\x12\x00\x04MQTT\x04\x1e\x00\x0a\x00\x00\x00\x01"
          "a\x00\x01x"),
      ROW(4, 0,
          "\x10\x12\x00\x04MQTT\x04\x16\x00\x0a\x00\x00\x00\x01"
          "a\x00\x01x"),
      ROW(4, 0x90, "\x10\x12\x00\x04MQTT\x04\x16\x00\x0a\x00\x00\x00\x01#\x00\x01x"),
      ROW(4, 0x81, "\x10\x0f\x00\x04MQTT\x04\x42\x00\x0a\x00\x00\x00\x01p"),
      ROW(5, 0, "\x10\x10\x00\x04MQTT\x05\x42\x00\x0a\x00\x00\x00\x00\x01p"),
      ROW(5, 0x82, "\x10\x10\x00\x04MQTT\x05\x02\x00\x0a\x03\x21\x00\x00\x00\x00"),
      ROW(5, 0x81, "\x10\x0d\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x01\x00"),
      // PUBLISH.
      ROW(5, 0,
          "\x30\x04\x00\x01"
          "a\x00"),
      ROW(4, 0,
          "\x30\x03\x00\x01"
          "a"),
      ROW(4, 0x81,
          "\x38\x03\x00\x01"
          "a"),
      ROW(4, 0x81,
          "\x36\x05\x00\x01"
          "a\x00\x01"),
      ROW(4, 0x81,
          "\x32\x05\x00\x01"
          "a\x00\x00"),
      ROW(5, 0x82,
          "\x32\x06\x00\x01"
          "a\x00\x00\x00"),
      ROW(4, 0x90, "\x30\x03\x00\x01+"),
      ROW(4, 0x82, "\x30\x02\x00\x00"),
      ROW(5, 0x82, "\x30\x03\x00\x00\x00"),
      ROW(5, 0, "\x30\x06\x00\x00\x03\x23\x00\x01"),
      ROW(5, 0x94, "\x30\x06\x00\x00\x03\x23\x00\x00"),
      ROW(5, 0x82,
          "\x30\x08\x00\x01"
          "a\x04\x01\x00\x01\x00"),
      ROW(5, 0x82,
          "\x30\x06\x00\x01"
          "a\x02\x01\x02"),
      ROW(5, 0x81,
          "\x30\x09\x00\x01"
          "a\x05\x11\x00\x00\x00\x01"),
      ROW(5, 0x82,
          "\x30\x08\x00\x01"
          "a\x04\x08\x00\x01#"),
      ROW(5, 0x82,
          "\x30\x06\x00\x01"
          "a\x02\x0b\x00"),
      ROW(4, 0x81,
          "\x30\x04\x00\x02"
          "a\x00"),
      ROW(4, 0x81, "\x30\x05\x00\x03\xed\xa0\x80"),
      ROW(4, 0x81, "\x30\x04\x00\x02\xc0\x80"),
      // Acknowledgements.
      ROW(4, 0, "\x40\x02\x00\x01"),
      ROW(4, 0x81, "\x40\x02\x00\x00"),
      ROW(5, 0x82, "\x40\x02\x00\x00"),
      ROW(4, 0x81, "\x40\x03\x00\x01\x00"),
      ROW(5, 0, "\x40\x03\x00\x01\x10"),
      ROW(5, 0x82, "\x40\x03\x00\x01\x92"),
      ROW(5, 0, "\x62\x03\x00\x01\x92"),
      ROW(5, 0x82, "\x62\x03\x00\x01\x10"),
      ROW(5, 0, "\x40\x04\x00\x01\x00\x00"),
      ROW(5, 0x81, "\x40\x05\x00\x01\x00\x00\x00"),
      // SUBSCRIBE and UNSUBSCRIBE.
      ROW(4, 0,
          "\x82\x06\x00\x01\x00\x01"
          "a\x02"),
      ROW(4, 0x81, "\x82\x02\x00\x01"),
      ROW(5, 0x82, "\x82\x03\x00\x01\x00"),
      ROW(4, 0x81,
          "\x82\x06\x00\x01\x00\x01"
          "a\x03"),
      ROW(4, 0x81,
          "\x82\x06\x00\x01\x00\x01"
          "a\x04"),
      ROW(5, 0,
          "\x82\x07\x00\x01\x00\x00\x01"
          "a\x2c"),
      ROW(5, 0x82,
          "\x82\x07\x00\x01\x00\x00\x01"
          "a\x30"),
      ROW(5, 0x81,
          "\x82\x07\x00\x01\x00\x00\x01"
          "a\x40"),
      ROW(5, 0x81, "\x82\x06\x00\x01\x00\x00\x00\x00"),
      ROW(5, 0x8f,
          "\x82\x08\x00\x01\x00\x00\x02"
          "a#\x00"),
      ROW(5, 0x82, "\x82\x10\x00\x01\x00\x00\x0a$share/g/a\x04"),
      ROW(5, 0, "\x82\x10\x00\x01\x00\x00\x0a$share/g/a\x00"),
      ROW(5, 0x8f, "\x82\x0f\x00\x01\x00\x00\x09$share//a\x00"),
      ROW(5, 0x82,
          "\x82\x0b\x00\x01\x04\x0b\x01\x0b\x02\x00\x01"
          "a\x00"),
      ROW(4, 0x81, "\xa2\x02\x00\x01"),
      ROW(5, 0x82, "\xa2\x03\x00\x01\x00"),
      ROW(4, 0,
          "\xa2\x05\x00\x01\x00\x01"
          "a"),
      ROW(4, 0x81,
          "\xa2\x05\x00\x00\x00\x01"
          "a"),
      // What a server sends.
      ROW(4, 0, "\x20\x02\x00\x05"),
      ROW(4, 0x81, "\x20\x02\x00\x06"),
      ROW(4, 0x81, "\x20\x02\x02\x00"),
      ROW(4, 0x82, "\x20\x02\x01\x01"),
      ROW(5, 0x82, "\x20\x03\x00\x01\x00"),
      ROW(4, 0x82, "\x90\x03\x00\x01\x03"),
      ROW(4, 0x81, "\x90\x02\x00\x01"),
      ROW(5, 0x82, "\xb0\x04\x00\x01\x00\x01"),
      ROW(4, 0x81, "\xb0\x03\x00\x01\x00"),
      // DISCONNECT and AUTH.
      ROW(4, 0, "\xe0\x00"),
      ROW(4, 0x81, "\xe0\x01\x00"),
      ROW(5, 0, "\xe0\x01\x04"),
      ROW(5, 0x82, "\xe0\x01\x01"),
      ROW(5, 0, "\xf0\x00"),
      ROW(5, 0x82, "\xf0\x02\x01\x00"),
      ROW(5, 0x82, "\xf0\x05\x18\x03\x16\x00\x00"),
  };
  for (usize i = 0; i < ARRAY_COUNT(rows); i++) {
    u32 got = decode(rows[i].v, (const u8 *)rows[i].bytes, rows[i].len);
    if (got != rows[i].want) {
      fail_msg("row %zu: 0x%02x instead of 0x%02x", i, got, rows[i].want);
    }
  }
}

// An identifier beyond the table, and every legal one where it may not stand.
static void properties_in_the_wrong_packet(void **state) {
  (void)state;
  u32 accepted = 0;
  for (u32 type = 0; type <= 16; type++) {
    for (u32 id = 0; id < 256; id++) {
      u8 b[] = {9, (u8)id, 0, 1, 'a', 0, 1, 'a', 0, 0};
      // Block lengths from 2 to 9 fit every kind of value.
      for (u8 len = 2; len <= 9; len++) {
        b[0] = len;
        b[2] = len == 2 ? 1 : 0;
        struct reader r = reader_init(bytes_of(b, (usize)len + 1));
        struct mqtt_props props = {0};
        accepted += mqtt_read_props(&r, MQTT_IN(type), &props) == MQTT_SUCCESS;
      }
    }
  }
  // Table 2-4: 27 properties in this many packet types; Authentication Data (3 more) never alone.
  assert_true(accepted > 40 && accepted < 90);
}

static void varints(void **state) {
  (void)state;
  static const u32 values[] = {0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455};
  for (usize i = 0; i < ARRAY_COUNT(values); i++) {
    u8 b[4];
    struct writer w = writer_init(span_of(b, sizeof b));
    mqtt_write_varint(&w, values[i]);
    assert_int_equal(w.pos, mqtt_varint_len(values[i]));
    struct reader r = reader_init(writer_bytes(&w));
    assert_int_equal(mqtt_read_varint(&r), values[i]);
    assert_int_equal(r.err, ERR_OK);
  }
}

static void small_writers(void **state) {
  (void)state;
  struct sample s;
  u8 *small;
  for (u32 room = 0; room < 14; room++) {
    small = malloc(room == 0 ? 1 : room);
    struct writer w = writer_init(span_of(small, room));
    struct mqtt_connect_out c = {.version = MQTT_V5, .client_id = BYTES_LIT("x")};
    mqtt_encode_connect(&w, &c);
    assert_int_equal(w.err, ERR_SPACE);
    free(small);
  }
  make(&s, MQTT_PUBLISH, MQTT_V5);
  assert_true(s.len > 0);
}

// What real clients sent: the first packet of each recording is whole and well-formed, but for the
// few that are meant to be wrong.
static void recordings(void **state) {
  (void)state;
  DIR *dir = opendir(TEST_DATA "/mqtt-seeds");
  if (dir == NULL) {
    skip();
  }
  u32 fine = 0;
  u32 all = 0;
  u8 *buffer = malloc(BIG);
  for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
    char path[600];
    snprintf(path, sizeof path, "%s/mqtt-seeds/%s", TEST_DATA, e->d_name);
    FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "rb");
    if (f != NULL) {
      usize len = fread(buffer, 1, BIG, f);
      fclose(f);
      bool ok = decode(MQTT_V4, buffer, len) == 0 || decode(MQTT_V5, buffer, len) == 0;
      all++;
      fine += ok;
      if (!ok) {
        print_message("refused: %s\n", e->d_name);
      }
    }
  }
  free(buffer);
  closedir(dir);
  assert_true(all > 0);
  print_message("%u of %u recordings are well-formed\n", fine, all);
  assert_true(fine * 2 > all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(cut_everywhere),
      cmocka_unit_test(every_byte_changed),
      cmocka_unit_test(rules),
      cmocka_unit_test(properties_in_the_wrong_packet),
      cmocka_unit_test(varints),
      cmocka_unit_test(small_writers),
      cmocka_unit_test(recordings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
