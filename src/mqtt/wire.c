// SPDX-License-Identifier: Apache-2.0
// Properties are read by table: the identifier says its type, where it may stand and where its
// value goes. A block is one loop over mqtt_read_property, which is the unit of proof.
#include "mqtt/wire.h"

#include "base/utf8.h"

static inline u32 read_length(struct reader *r, bool *minimal) {
  u32 value = 0;
  *minimal = true;
  for (u32 i = 0; i < 4; i++) {
    u8 b = read_u8(r);
    value |= (u32)(b & 0x7f) << (7 * i);
    if ((b & 0x80) == 0) {
      *minimal = i == 0 || b != 0;  // else the last byte of more than one carries no bit
      return r->err == ERR_OK ? value : 0;
    }
  }
  reader_fail(r, ERR_MALFORMED);
  return 0;
}

u32 mqtt_read_length(struct reader *r, bool *minimal) {
  return read_length(r, minimal);
}

u32 mqtt_read_varint(struct reader *r) {
  bool minimal;
  u32 value = read_length(r, &minimal);
  if (!minimal) {  // [MQTT-1.5.5-1]
    reader_fail(r, ERR_MALFORMED);
    return 0;
  }
  return value;
}

u32 mqtt_varint_len(u32 v) {
  ASSERT(v <= MQTT_REMAINING_MAX);
  return v < 128u ? 1 : v < 16384u ? 2 : v < 2097152u ? 3 : 4;
}

struct part mqtt_read_binary(struct reader *r) {
  u32 len = read_be16(r);
  return read_part(r, len);
}

// [MQTT-1.5.4-3] [MQTT-3.1.3-11] [MQTT-3.1.3-12] [MQTT-3.3.2-1] [MQTT-3.3.2-13] [MQTT-3.3.2-19]
// [MQTT-3.8.3-1] [MQTT-4.7.3-2] [MQTT-4.7.3-3]
struct part mqtt_read_utf8(struct reader *r) {
  struct part p = mqtt_read_binary(r);
  if (r->err == ERR_OK && !utf8_text(r->base + p.off, p.len)) {  // [MQTT-1.5.4-1] [MQTT-1.5.4-2]
    reader_fail(r, ERR_MALFORMED);
  }
  return p;
}

enum kind {
  KIND_NONE,
  KIND_BYTE,
  KIND_U16,
  KIND_U32,
  KIND_VARINT,
  KIND_UTF8,
  KIND_BINARY,
  KIND_PAIR
};

struct rule {
  u8 kind;
  u8 least;  // smallest legal value of a number
  u8 most;   // largest legal value of a byte
  u32 where;
};

#define C MQTT_IN(MQTT_CONNECT)
#define CA MQTT_IN(MQTT_CONNACK)
#define PUB MQTT_IN(MQTT_PUBLISH)
#define ACKS                                                                                    \
  (MQTT_IN(MQTT_PUBACK) | MQTT_IN(MQTT_PUBREC) | MQTT_IN(MQTT_PUBREL) | MQTT_IN(MQTT_PUBCOMP) | \
   MQTT_IN(MQTT_SUBACK) | MQTT_IN(MQTT_UNSUBACK))
#define SUB MQTT_IN(MQTT_SUBSCRIBE)
#define UNSUB MQTT_IN(MQTT_UNSUBSCRIBE)
#define DIS MQTT_IN(MQTT_DISCONNECT)
#define AUT MQTT_IN(MQTT_AUTH)
#define WILL MQTT_IN(MQTT_IN_WILL)

// 5.0, table 2-4.
static const struct rule rules[MQTT_P_SHARED_AVAILABLE + 1] = {
    [MQTT_P_PAYLOAD_FORMAT] = {KIND_BYTE, 0, 1, PUB | WILL},
    [MQTT_P_MESSAGE_EXPIRY] = {KIND_U32, 0, 0, PUB | WILL},
    [MQTT_P_CONTENT_TYPE] = {KIND_UTF8, 0, 0, PUB | WILL},
    [MQTT_P_RESPONSE_TOPIC] = {KIND_UTF8, 0, 0, PUB | WILL},
    [MQTT_P_CORRELATION_DATA] = {KIND_BINARY, 0, 0, PUB | WILL},
    [MQTT_P_SUBSCRIPTION_ID] = {KIND_VARINT, 1, 0, PUB | SUB},
    [MQTT_P_SESSION_EXPIRY] = {KIND_U32, 0, 0, C | CA | DIS},
    [MQTT_P_ASSIGNED_CLIENT_ID] = {KIND_UTF8, 0, 0, CA},
    [MQTT_P_SERVER_KEEP_ALIVE] = {KIND_U16, 0, 0, CA},
    [MQTT_P_AUTH_METHOD] = {KIND_UTF8, 0, 0, C | CA | AUT},
    [MQTT_P_AUTH_DATA] = {KIND_BINARY, 0, 0, C | CA | AUT},
    [MQTT_P_REQUEST_PROBLEM] = {KIND_BYTE, 0, 1, C},
    [MQTT_P_WILL_DELAY] = {KIND_U32, 0, 0, WILL},
    [MQTT_P_REQUEST_RESPONSE] = {KIND_BYTE, 0, 1, C},
    [MQTT_P_RESPONSE_INFORMATION] = {KIND_UTF8, 0, 0, CA},
    [MQTT_P_SERVER_REFERENCE] = {KIND_UTF8, 0, 0, CA | DIS},
    [MQTT_P_REASON_STRING] = {KIND_UTF8, 0, 0, CA | ACKS | DIS | AUT},
    [MQTT_P_RECEIVE_MAXIMUM] = {KIND_U16, 1, 0, C | CA},
    [MQTT_P_TOPIC_ALIAS_MAXIMUM] = {KIND_U16, 0, 0, C | CA},
    [MQTT_P_TOPIC_ALIAS] = {KIND_U16, 0, 0, PUB},
    [MQTT_P_MAXIMUM_QOS] = {KIND_BYTE, 0, 1, CA},
    [MQTT_P_RETAIN_AVAILABLE] = {KIND_BYTE, 0, 1, CA},
    [MQTT_P_USER_PROPERTY] = {KIND_PAIR, 0, 0,
                              C | CA | PUB | WILL | ACKS | SUB | UNSUB | DIS | AUT},
    [MQTT_P_MAXIMUM_PACKET_SIZE] = {KIND_U32, 1, 0, C | CA},
    [MQTT_P_WILDCARD_AVAILABLE] = {KIND_BYTE, 0, 1, CA},
    [MQTT_P_SUBSCRIPTION_ID_AVAILABLE] = {KIND_BYTE, 0, 1, CA},
    [MQTT_P_SHARED_AVAILABLE] = {KIND_BYTE, 0, 1, CA},
};

static void store_byte(struct mqtt_props *p, u32 id, u8 v) {
  switch (id) {
  case MQTT_P_PAYLOAD_FORMAT: p->payload_format = v; break;
  case MQTT_P_REQUEST_PROBLEM: p->request_problem = v; break;
  case MQTT_P_REQUEST_RESPONSE: p->request_response = v; break;
  case MQTT_P_MAXIMUM_QOS: p->maximum_qos = v; break;
  case MQTT_P_RETAIN_AVAILABLE: p->retain_available = v; break;
  case MQTT_P_WILDCARD_AVAILABLE: p->wildcard_available = v; break;
  case MQTT_P_SUBSCRIPTION_ID_AVAILABLE: p->subscription_id_available = v; break;
  default: p->shared_available = v; break;
  }
}

static void store_number(struct mqtt_props *p, u32 id, u32 v) {
  switch (id) {
  case MQTT_P_MESSAGE_EXPIRY: p->message_expiry_s = v; break;
  case MQTT_P_SESSION_EXPIRY: p->session_expiry_s = v; break;
  case MQTT_P_WILL_DELAY: p->will_delay_s = v; break;
  case MQTT_P_MAXIMUM_PACKET_SIZE: p->maximum_packet_size = v; break;
  case MQTT_P_SERVER_KEEP_ALIVE: p->server_keep_alive = (u16)v; break;
  case MQTT_P_RECEIVE_MAXIMUM: p->receive_maximum = (u16)v; break;
  case MQTT_P_TOPIC_ALIAS_MAXIMUM: p->topic_alias_maximum = (u16)v; break;
  case MQTT_P_TOPIC_ALIAS: p->topic_alias = (u16)v; break;
  default:
    if (p->subscription_id_count < MQTT_SUBSCRIPTION_IDS_MAX) {
      p->subscription_id[p->subscription_id_count++] = v;
    }
    break;
  }
}

static void store_part(struct mqtt_props *p, u32 id, struct part v) {
  switch (id) {
  case MQTT_P_CONTENT_TYPE: p->content_type = v; break;
  case MQTT_P_RESPONSE_TOPIC: p->response_topic = v; break;
  case MQTT_P_CORRELATION_DATA: p->correlation_data = v; break;
  case MQTT_P_ASSIGNED_CLIENT_ID: p->assigned_client_id = v; break;
  case MQTT_P_AUTH_METHOD: p->auth_method = v; break;
  case MQTT_P_AUTH_DATA: p->auth_data = v; break;
  case MQTT_P_RESPONSE_INFORMATION: p->response_information = v; break;
  case MQTT_P_SERVER_REFERENCE: p->server_reference = v; break;
  default: p->reason_string = v; break;
  }
}

// Which properties may come more than once: user properties, and subscription identifiers of a
// PUBLISH (3.3.2.3.8). In SUBSCRIBE a second identifier is a protocol error (3.8.2.1.2).
static bool may_repeat(u32 id, u32 where) {
  return id == MQTT_P_USER_PROPERTY ||
         (id == MQTT_P_SUBSCRIPTION_ID && where == MQTT_IN(MQTT_PUBLISH));
}

// [MQTT-1.5.7-1]
static bool read_value(struct reader *r, const struct rule *rule, u32 id, struct mqtt_props *out) {
  u32 v = 0;
  switch (rule->kind) {
  case KIND_BYTE:
    v = read_u8(r);
    store_byte(out, id, (u8)v);
    return v <= rule->most;
  case KIND_U16: v = read_be16(r); break;
  case KIND_U32: v = read_be32(r); break;
  case KIND_VARINT: v = mqtt_read_varint(r); break;
  case KIND_UTF8: store_part(out, id, mqtt_read_utf8(r)); return true;
  case KIND_BINARY: store_part(out, id, mqtt_read_binary(r)); return true;
  default:  // a pair of strings
    mqtt_read_utf8(r);
    mqtt_read_utf8(r);
    out->user_count++;
    return true;
  }
  store_number(out, id, v);
  return v >= rule->least;
}

enum mqtt_reason mqtt_read_property(struct reader *r, u32 where, struct mqtt_props *out) {
  u32 id = mqtt_read_varint(r);
  if (r->err != ERR_OK || id >= ARRAY_COUNT(rules) || rules[id].kind == KIND_NONE ||
      (rules[id].where & where) == 0) {
    return MQTT_MALFORMED_PACKET;  // 2.2.2.2: unknown, or not valid for this packet
  }
  if (mqtt_has(out, (enum mqtt_property)id) && !may_repeat(id, where)) {
    return MQTT_PROTOCOL_ERROR;  // "It is a Protocol Error to include ... more than once"
  }
  bool in_range = read_value(r, &rules[id], id, out);
  if (r->err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  out->present |= 1ull << id;
  return in_range ? MQTT_SUCCESS : MQTT_PROTOCOL_ERROR;
}

enum mqtt_reason mqtt_read_props(struct reader *r, u32 where, struct mqtt_props *out) {
  u32 len = mqtt_read_varint(r);
  struct part all = read_part(r, len);
  if (r->err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  struct reader block = {.base = r->base, .pos = all.off, .end = all.off + all.len, .err = ERR_OK};
  while (block.pos < block.end)
    LOOP_ASSIGNS(block.pos, block.err, *out)
  LOOP_INVARIANT(block.pos >= all.off && block.pos <= block.end && block.err == ERR_OK)
  LOOP_INVARIANT(out->subscription_id_count <= MQTT_SUBSCRIPTION_IDS_MAX)
  LOOP_INVARIANT(out->response_topic.off <= block.end)
  LOOP_INVARIANT(out->response_topic.len <= block.end - out->response_topic.off)
  LOOP_DECREASES(block.end - block.pos)
  {
    enum mqtt_reason reason = mqtt_read_property(&block, where, out);
    if (reason != MQTT_SUCCESS) {
      return reason;
    }
  }
  out->all = all;
  if (mqtt_has(out, MQTT_P_AUTH_DATA) && !mqtt_has(out, MQTT_P_AUTH_METHOD)) {
    return MQTT_PROTOCOL_ERROR;  // 3.1.2.11.10
  }
  return MQTT_SUCCESS;
}

// Skips one property that the decoder has validated before.
static void skip_value(struct reader *r, u32 kind) {
  switch (kind) {
  case KIND_BYTE: (void)read_u8(r); break;
  case KIND_U16: (void)read_be16(r); break;
  case KIND_U32: (void)read_be32(r); break;
  case KIND_VARINT: (void)mqtt_read_varint(r); break;
  case KIND_PAIR:
    (void)mqtt_read_binary(r);
    (void)mqtt_read_binary(r);
    break;
  default: (void)mqtt_read_binary(r); break;
  }
}

bool mqtt_user_property(struct bytes packet, const struct mqtt_props *p, u32 *pos,
                        struct part *name, struct part *value) {
  ASSERT(p->all.off <= packet.len);
  ASSERT(p->all.len <= packet.len - p->all.off);
  struct reader r = {.base = packet.ptr, .pos = *pos, .end = p->all.off + p->all.len};
  while (r.pos < r.end && r.err == ERR_OK)
    LOOP_ASSIGNS(r.pos, r.err, *name, *value)
  LOOP_INVARIANT(r.pos >= *pos && r.pos <= r.end)
  LOOP_DECREASES(r.end - r.pos)
  {
    u32 id = mqtt_read_varint(&r);
    if (r.err != ERR_OK || id >= ARRAY_COUNT(rules)) {
      return false;
    }
    if (id == MQTT_P_USER_PROPERTY) {
      *name = mqtt_read_binary(&r);
      *value = mqtt_read_binary(&r);
      *pos = r.pos;
      return r.err == ERR_OK;
    }
    skip_value(&r, rules[id].kind);
  }
  return false;
}

u32 mqtt_copy_props(struct bytes props, u64 without, u8 *to) {
  struct reader r = reader_init(props);
  u32 len = 0;
  while (reader_left(&r) > 0) {
    u32 start = r.pos;
    u32 id = mqtt_read_varint(&r);
    ASSERT(r.err == ERR_OK);
    ASSERT(id < ARRAY_COUNT(rules));
    skip_value(&r, rules[id].kind);
    ASSERT(r.err == ERR_OK);
    u32 one = r.pos - start;
    if ((without >> id & 1) != 0) {
      continue;
    }
    if (to != NULL) {
      memcpy(to + len, props.ptr + start, one);
    }
    len += one;
  }
  return len;
}
