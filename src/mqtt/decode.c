// SPDX-License-Identifier: Apache-2.0
// One function a packet type; each reads like the figure in the standard and checks once at the
// end. The fixed header's flags were checked by mqtt_fixed_header for all types but PUBLISH.
#include "mqtt/topic.h"
#include "mqtt/wire.h"

// The flags that 2.1.3 reserves, by type; PUBLISH's are its own.
// [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1]
static const u8 fixed_flags[16] = {[MQTT_PUBREL] = 2, [MQTT_SUBSCRIBE] = 2, [MQTT_UNSUBSCRIBE] = 2};

enum err mqtt_fixed_header(struct bytes in, struct mqtt_header *out) {
  struct reader r = reader_init(bytes_of(in.ptr, MIN(in.len, (usize)MQTT_FIXED_MAX)));
  u8 first = read_u8(&r);
  out->type = first >> 4;
  out->flags = first & 15;
  bool free_flags = out->type == MQTT_PUBLISH || out->type == MQTT_CONNECT;
  if (r.err == ERR_OK &&
      (out->type == MQTT_RESERVED || (!free_flags && out->flags != fixed_flags[out->type]))) {
    return ERR_MALFORMED;  // [MQTT-2.1.3-1]
  }
  out->remaining_len = mqtt_read_length(&r, &out->minimal);
  out->header_len = (u8)r.pos;
  return r.err;
}

// Cursor behind the fixed header of a whole packet.
static struct reader body_of(struct bytes packet) {
  struct mqtt_header h = {0};
  struct reader r = reader_init(packet);
  enum err e = mqtt_fixed_header(packet, &h);
  if (e != ERR_OK || packet.len - h.header_len != h.remaining_len) {
    r.err = ERR_MALFORMED;
    return r;
  }
  r.pos = h.header_len;
  return r;
}

// A packet ends where its fields do.
static enum mqtt_reason finish(const struct reader *r) {
  return r->err == ERR_OK && r->pos == r->end ? MQTT_SUCCESS : MQTT_MALFORMED_PACKET;
}

static bool reason_in(u8 code, struct bytes allowed) {
  return bytes_find(allowed, code) < allowed.len;
}

static enum mqtt_reason props_if_v5(enum mqtt_version v, struct reader *r, u32 where,
                                    struct mqtt_props *out) {
  *out = (struct mqtt_props){.request_problem = 1, .receive_maximum = U16_MAX};
  return v == MQTT_V5 ? mqtt_read_props(r, where, out) : MQTT_SUCCESS;
}

#define TRY_REASON(expr)                     \
  do {                                       \
    enum mqtt_reason reason_ = (expr);       \
    if (UNLIKELY(reason_ != MQTT_SUCCESS)) { \
      return reason_;                        \
    }                                        \
  } while (0)

static enum mqtt_reason check_message_props(const struct reader *r, const struct mqtt_props *p) {
  if (mqtt_has(p, MQTT_P_RESPONSE_TOPIC) && !topic_name_valid(reader_bytes(r, p->response_topic))) {
    return MQTT_PROTOCOL_ERROR;  // [MQTT-3.3.2-14]
  }
  return MQTT_SUCCESS;
}

static enum mqtt_reason read_will(struct reader *r, struct mqtt_connect *out) {
  TRY_REASON(props_if_v5(out->version, r, MQTT_IN(MQTT_IN_WILL), &out->will_props));
  TRY_REASON(check_message_props(r, &out->will_props));
  out->will_topic = mqtt_read_utf8(r);
  out->will_payload = mqtt_read_binary(r);
  if (r->err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  return topic_name_valid(reader_bytes(r, out->will_topic)) ? MQTT_SUCCESS
                                                            : MQTT_TOPIC_NAME_INVALID;
}

// 3.1.2.3 Connect flags.
static enum mqtt_reason read_connect_flags(struct reader *r, struct mqtt_connect *out) {
  u8 flags = read_u8(r);
  out->clean_start = (flags & 2) != 0;
  out->has_will = (flags & 4) != 0;
  out->will_qos = flags >> 3 & 3;
  out->will_retain = (flags & 0x20) != 0;
  out->has_password = (flags & 0x40) != 0;
  out->has_username = (flags & 0x80) != 0;
  bool reserved = (flags & 1) != 0 && out->version != MQTT_V3;
  if (reserved || out->will_qos == 3) {  // [MQTT-3.1.2-3] [MQTT-3.1.2-12]
    return MQTT_MALFORMED_PACKET;
  }
  if (!out->has_will && (out->will_qos != 0 || out->will_retain)) {  // [MQTT-3.1.2-11] [-13]
    return MQTT_MALFORMED_PACKET;
  }
  if (out->version != MQTT_V5 && out->has_password && !out->has_username) {
    return MQTT_MALFORMED_PACKET;  // 3.1.1 [MQTT-3.1.2-22]
  }
  return MQTT_SUCCESS;
}

// Protocol name and level, 3.1.2.1 and 3.1.2.2; 3.1's are its own.
static enum mqtt_reason read_version(struct bytes name, u8 level, struct mqtt_connect *out) {
  bool old = bytes_equal_str(name, "MQIsdp");
  if (!old && !bytes_equal_str(name, "MQTT")) {  // [MQTT-3.1.2-1]
    return MQTT_MALFORMED_PACKET;
  }
  out->bridge = (level & 0x80) != 0;
  u8 plain = level & 0x7f;
  bool known = old ? plain == MQTT_V3 : plain == MQTT_V4 || level == MQTT_V5;
  if (!known) {  // [MQTT-3.1.2-2]
    return MQTT_UNSUPPORTED_VERSION;
  }
  out->version = (enum mqtt_version)plain;
  return MQTT_SUCCESS;
}

// [MQTT-3.1.2-9] [MQTT-3.1.2-16] [MQTT-3.1.2-17] [MQTT-3.1.2-18] [MQTT-3.1.2-19] [MQTT-3.1.3-1]
// [MQTT-3.1.3-3] 3.1.1 [MQTT-3.1.2-11] 3.1.1 [MQTT-3.1.2-12]
enum mqtt_reason mqtt_decode_connect(struct bytes packet, struct mqtt_connect *out) {
  *out = (struct mqtt_connect){.version = MQTT_V4};
  struct reader r = body_of(packet);
  struct part name = mqtt_read_utf8(&r);
  u8 level = read_u8(&r);
  if (r.err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  TRY_REASON(read_version(reader_bytes(&r, name), level, out));
  if (out->version != MQTT_V3 && (packet.ptr[0] & 15) != 0) {  // [MQTT-2.1.3-1]
    return MQTT_MALFORMED_PACKET;
  }
  TRY_REASON(read_connect_flags(&r, out));
  out->keep_alive_s = read_be16(&r);
  TRY_REASON(props_if_v5(out->version, &r, MQTT_IN(MQTT_CONNECT), &out->props));
  out->client_id = mqtt_read_utf8(&r);  // [MQTT-3.1.3-4]
  if (out->has_will) {
    TRY_REASON(read_will(&r, out));
  }
  if (out->has_username) {
    out->username = mqtt_read_utf8(&r);  // [MQTT-3.1.3-12]
  }
  if (out->has_password) {
    out->password = mqtt_read_binary(&r);
  }
  return finish(&r);
}

enum mqtt_reason mqtt_decode_connack(enum mqtt_version v, struct bytes packet,
                                     struct mqtt_connack *out) {
  *out = (struct mqtt_connack){0};
  struct reader r = body_of(packet);
  u8 flags = read_u8(&r);
  out->session_present = (flags & 1) != 0;
  out->code = read_u8(&r);
  if ((flags & 0xfe) != 0) {  // [MQTT-3.2.2-1]
    return MQTT_MALFORMED_PACKET;
  }
  if (out->session_present && out->code != 0) {  // [MQTT-3.2.2-6]
    return MQTT_PROTOCOL_ERROR;
  }
  if (v != MQTT_V5 && out->code > 5) {
    return MQTT_MALFORMED_PACKET;
  }
  // 5.0, table 3-1.
  if (v == MQTT_V5 && !reason_in(out->code, BYTES_LIT("\x00\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89"
                                                      "\x8a\x8c\x90\x95\x97\x99\x9a\x9b\x9c\x9d"
                                                      "\x9f"))) {
    return MQTT_PROTOCOL_ERROR;  // [MQTT-3.2.2-8]
  }
  TRY_REASON(props_if_v5(v, &r, MQTT_IN(MQTT_CONNACK), &out->props));
  return finish(&r);
}

// [MQTT-2.2.1-2]
enum mqtt_reason mqtt_decode_publish(enum mqtt_version v, struct bytes packet,
                                     struct mqtt_publish *out) {
  *out = (struct mqtt_publish){0};
  struct reader r = body_of(packet);
  if (r.err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  u8 flags = packet.ptr[0] & 15;
  out->dup = (flags & 8) != 0;
  out->qos = flags >> 1 & 3;
  out->retain = (flags & 1) != 0;
  if (out->qos == 3 || (out->qos == 0 && out->dup)) {  // [MQTT-3.3.1-4] [MQTT-3.3.1-2]
    return MQTT_MALFORMED_PACKET;
  }
  out->topic = mqtt_read_utf8(&r);
  if (out->qos > 0) {
    out->packet_id = read_be16(&r);
    if (r.err == ERR_OK && out->packet_id == 0) {  // [MQTT-2.2.1-3]
      return v == MQTT_V5 ? MQTT_PROTOCOL_ERROR : MQTT_MALFORMED_PACKET;
    }
  }
  TRY_REASON(props_if_v5(v, &r, MQTT_IN(MQTT_PUBLISH), &out->props));
  if (r.err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  bool has_alias = mqtt_has(&out->props, MQTT_P_TOPIC_ALIAS);
  if (has_alias && out->props.topic_alias == 0) {  // [MQTT-3.3.2-8]
    return MQTT_TOPIC_ALIAS_INVALID;
  }
  if (out->topic.len == 0 ? !has_alias : !topic_name_valid(reader_bytes(&r, out->topic))) {
    // [MQTT-3.3.2-2]; an empty topic without an alias is a protocol error (3.3.2.1)
    return out->topic.len == 0 ? MQTT_PROTOCOL_ERROR : MQTT_TOPIC_NAME_INVALID;
  }
  TRY_REASON(check_message_props(&r, &out->props));
  out->payload = read_part(&r, reader_left(&r));
  return finish(&r);
}

// Reason codes each acknowledgement may carry (5.0, tables 3-4 to 3-7).
// [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1]
static bool ack_reason_valid(u8 type, u8 code) {
  if (type == MQTT_PUBREL || type == MQTT_PUBCOMP) {
    return code == MQTT_SUCCESS || code == MQTT_PACKET_ID_NOT_FOUND;
  }
  return reason_in(code, BYTES_LIT("\x00\x10\x80\x83\x87\x90\x91\x97\x99"));
}

enum mqtt_reason mqtt_decode_ack(enum mqtt_version v, struct bytes packet, struct mqtt_ack *out) {
  *out = (struct mqtt_ack){.reason = MQTT_SUCCESS};
  struct reader r = body_of(packet);
  out->packet_id = read_be16(&r);
  if (r.err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  if (out->packet_id == 0) {
    return v == MQTT_V5 ? MQTT_PROTOCOL_ERROR : MQTT_MALFORMED_PACKET;
  }
  if (v == MQTT_V5 && reader_left(&r) > 0) {  // 3.4.2.1: may be left out
    u8 code = read_u8(&r);
    if (!ack_reason_valid(packet.ptr[0] >> 4, code)) {
      return MQTT_PROTOCOL_ERROR;  // [MQTT-3.4.2-1] and its siblings
    }
    out->reason = (enum mqtt_reason)code;
    if (reader_left(&r) > 0) {  // 3.4.2.2.1: no properties when the remaining length is below 4
      TRY_REASON(props_if_v5(v, &r, MQTT_IN(packet.ptr[0] >> 4), &out->props));
    }
  }
  return finish(&r);
}

// One entry of SUBSCRIBE [MQTT-3.8.3-1..5]; the reader stands at its filter.
static enum mqtt_reason read_subscription(enum mqtt_version v, struct reader *r,
                                          struct mqtt_entry *out) {
  out->filter = mqtt_read_utf8(r);
  u8 options = read_u8(r);
  if (r->err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  out->qos = options & 3;
  out->no_local = (options & 4) != 0;
  out->retain_as_published = (options & 8) != 0;
  out->retain_handling = options >> 4 & 3;
  u8 reserved = v == MQTT_V5 ? 0xc0 : 0xfc;  // [MQTT-3.8.3-5]; 3.1.1 [MQTT-3-8.3-4]
  if (out->qos == 3 || (options & reserved) != 0) {
    return MQTT_MALFORMED_PACKET;
  }
  if (out->retain_handling == 3) {  // 3.8.3.1
    return MQTT_PROTOCOL_ERROR;
  }
  struct bytes filter = reader_bytes(r, out->filter);
  if (filter.len == 0) {  // [MQTT-4.7.3-1]
    return MQTT_MALFORMED_PACKET;
  }
  if (v == MQTT_V5 && out->no_local && bytes_starts_with(filter, BYTES_LIT("$share/"))) {
    return MQTT_PROTOCOL_ERROR;  // [MQTT-3.8.3-4]
  }
  return topic_filter_valid(filter) ? MQTT_SUCCESS : MQTT_TOPIC_FILTER_INVALID;
}

static enum mqtt_reason read_filter(struct reader *r, struct mqtt_entry *out) {
  *out = (struct mqtt_entry){.filter = mqtt_read_utf8(r)};  // [MQTT-3.10.3-1]
  if (r->err != ERR_OK || out->filter.len == 0) {
    return MQTT_MALFORMED_PACKET;
  }
  return topic_filter_valid(reader_bytes(r, out->filter)) ? MQTT_SUCCESS
                                                          : MQTT_TOPIC_FILTER_INVALID;
}

static enum mqtt_reason decode_list(enum mqtt_version v, struct bytes packet, u32 type,
                                    struct mqtt_subscribe *out) {
  *out = (struct mqtt_subscribe){0};
  struct reader r = body_of(packet);
  out->packet_id = read_be16(&r);
  if (r.err != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  if (out->packet_id == 0) {  // [MQTT-2.2.1-3]
    return v == MQTT_V5 ? MQTT_PROTOCOL_ERROR : MQTT_MALFORMED_PACKET;
  }
  TRY_REASON(props_if_v5(v, &r, MQTT_IN(type), &out->props));
  out->entries = (struct part){r.pos, r.end - r.pos};
  if (r.pos == r.end) {  // [MQTT-3.8.3-2] [MQTT-3.10.3-2]
    return v == MQTT_V5 ? MQTT_PROTOCOL_ERROR : MQTT_MALFORMED_PACKET;
  }
  u32 count = 0;
  while (r.pos < r.end)
    LOOP_ASSIGNS(r.pos, r.err, count)
  LOOP_INVARIANT(r.pos <= r.end && r.err == ERR_OK && r.pos >= out->entries.off)
  LOOP_INVARIANT(count <= r.pos && (count > 0 || r.pos == out->entries.off))
  LOOP_DECREASES(r.end - r.pos)
  {
    struct mqtt_entry e;
    enum mqtt_reason reason =
        type == MQTT_SUBSCRIBE ? read_subscription(v, &r, &e) : read_filter(&r, &e);
    if (reason != MQTT_SUCCESS) {
      return reason;
    }
    count++;
  }
  out->entry_count = count;
  return finish(&r);
}

enum mqtt_reason mqtt_decode_subscribe(enum mqtt_version v, struct bytes packet,
                                       struct mqtt_subscribe *out) {
  return decode_list(v, packet, MQTT_SUBSCRIBE, out);
}

enum mqtt_reason mqtt_decode_unsubscribe(enum mqtt_version v, struct bytes packet,
                                         struct mqtt_subscribe *out) {
  return decode_list(v, packet, MQTT_UNSUBSCRIBE, out);
}

static struct reader entries_at(struct bytes packet, const struct mqtt_subscribe *s, u32 pos) {
  ASSERT(s->entries.off <= packet.len);
  ASSERT(s->entries.len <= packet.len - s->entries.off);
  ASSERT(pos >= s->entries.off);
  return (struct reader){.base = packet.ptr, .pos = pos, .end = s->entries.off + s->entries.len};
}

bool mqtt_subscribe_entry(struct bytes packet, const struct mqtt_subscribe *s, u32 *pos,
                          struct mqtt_entry *out) {
  struct reader r = entries_at(packet, s, *pos);
  if (r.pos >= r.end || read_subscription(MQTT_V5, &r, out) != MQTT_SUCCESS) {
    return false;
  }
  *pos = r.pos;
  return true;
}

bool mqtt_unsubscribe_entry(struct bytes packet, const struct mqtt_subscribe *s, u32 *pos,
                            struct mqtt_entry *out) {
  struct reader r = entries_at(packet, s, *pos);
  if (r.pos >= r.end || read_filter(&r, out) != MQTT_SUCCESS) {
    return false;
  }
  *pos = r.pos;
  return true;
}

// The codes of an answer to SUBSCRIBE (5.0, table 3-8; 3.1.1, 3.9.3) or UNSUBSCRIBE (table 3-9).
static struct bytes answer_codes(enum mqtt_version v, u32 type) {
  if (v != MQTT_V5) {
    return BYTES_LIT("\x00\x01\x02\x80");  // 3.1.1 [MQTT-3.9.3-2]
  }
  return type == MQTT_UNSUBACK
             ? BYTES_LIT("\x00\x11\x80\x83\x87\x8f\x91")                       // [MQTT-3.11.3-2]
             : BYTES_LIT("\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2");  // [MQTT-3.9.3-2]
}

static bool codes_valid(struct bytes codes, struct bytes allowed) {
  u32 i = 0;
  u32 len = (u32)codes.len;
  while (i < len)
    LOOP_ASSIGNS(i)
  LOOP_INVARIANT(i <= len)
  LOOP_DECREASES(len - i)
  {
    if (!reason_in(codes.ptr[i], allowed)) {
      return false;
    }
    i++;
  }
  return true;
}

enum mqtt_reason mqtt_decode_suback(enum mqtt_version v, struct bytes packet,
                                    struct mqtt_suback *out) {
  *out = (struct mqtt_suback){0};
  struct reader r = body_of(packet);
  out->packet_id = read_be16(&r);
  if (r.err != ERR_OK || out->packet_id == 0) {
    return MQTT_MALFORMED_PACKET;
  }
  TRY_REASON(props_if_v5(v, &r, MQTT_IN(packet.ptr[0] >> 4), &out->props));
  out->codes = read_part(&r, reader_left(&r));
  bool unsuback_v4 = v != MQTT_V5 && packet.ptr[0] >> 4 == MQTT_UNSUBACK;
  if (unsuback_v4 ? out->codes.len != 0 : out->codes.len == 0) {
    return MQTT_MALFORMED_PACKET;
  }
  if (r.err == ERR_OK &&
      !codes_valid(reader_bytes(&r, out->codes), answer_codes(v, packet.ptr[0] >> 4))) {
    return MQTT_PROTOCOL_ERROR;
  }
  return finish(&r);
}

enum mqtt_reason mqtt_decode_ping(struct bytes packet) {
  struct reader r = body_of(packet);
  return finish(&r);
}

enum mqtt_reason mqtt_decode_disconnect(enum mqtt_version v, struct bytes packet,
                                        struct mqtt_disconnect *out) {
  *out = (struct mqtt_disconnect){.reason = MQTT_SUCCESS};
  struct reader r = body_of(packet);
  if (v == MQTT_V5 && r.err == ERR_OK && reader_left(&r) > 0) {  // 3.14.2.1: may be left out
    u8 code = read_u8(&r);
    // 5.0, table 3-10, what a client or a server may send.
    if (!reason_in(code,
                   BYTES_LIT("\x00\x04\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96"
                             "\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2"))) {
      return MQTT_PROTOCOL_ERROR;  // [MQTT-3.14.2-1]
    }
    out->reason = (enum mqtt_reason)code;
    if (reader_left(&r) > 0) {
      TRY_REASON(props_if_v5(v, &r, MQTT_IN(MQTT_DISCONNECT), &out->props));
    }
  }
  return finish(&r);
}

enum mqtt_reason mqtt_decode_auth(struct bytes packet, struct mqtt_disconnect *out) {
  *out = (struct mqtt_disconnect){.reason = MQTT_SUCCESS};
  struct reader r = body_of(packet);
  if (r.err != ERR_OK || reader_left(&r) == 0) {  // 3.15.2.1
    return finish(&r);
  }
  u8 code = read_u8(&r);
  if (code != MQTT_SUCCESS && code != MQTT_CONTINUE_AUTHENTICATION && code != MQTT_REAUTHENTICATE) {
    return MQTT_PROTOCOL_ERROR;  // [MQTT-3.15.2-1]
  }
  out->reason = (enum mqtt_reason)code;
  TRY_REASON(props_if_v5(MQTT_V5, &r, MQTT_IN(MQTT_AUTH), &out->props));
  return finish(&r);
}
