// SPDX-License-Identifier: Apache-2.0
#include "mqtt/encode.h"

#include "mqtt/wire.h"

void mqtt_write_varint(struct writer *w, u32 v) {
  ASSERT(v <= MQTT_REMAINING_MAX);
  do {
    u8 b = v & 0x7f;
    v >>= 7;
    write_u8(w, (u8)(b | (v != 0 ? 0x80 : 0)));
  } while (v != 0);
}

void mqtt_write_utf8(struct writer *w, struct bytes s) {
  ASSERT(s.len <= U16_MAX);
  write_be16(w, (u16)s.len);
  write_bytes(w, s);
}

enum width { WIDTH_BYTE, WIDTH_U16, WIDTH_U32, WIDTH_VARINT, WIDTH_TEXT, WIDTH_PAIR };

static enum width width_of(u8 id) {
  switch (id) {
  case MQTT_P_PAYLOAD_FORMAT:
  case MQTT_P_REQUEST_PROBLEM:
  case MQTT_P_REQUEST_RESPONSE:
  case MQTT_P_MAXIMUM_QOS:
  case MQTT_P_RETAIN_AVAILABLE:
  case MQTT_P_WILDCARD_AVAILABLE:
  case MQTT_P_SUBSCRIPTION_ID_AVAILABLE:
  case MQTT_P_SHARED_AVAILABLE: return WIDTH_BYTE;
  case MQTT_P_SERVER_KEEP_ALIVE:
  case MQTT_P_RECEIVE_MAXIMUM:
  case MQTT_P_TOPIC_ALIAS_MAXIMUM:
  case MQTT_P_TOPIC_ALIAS: return WIDTH_U16;
  case MQTT_P_MESSAGE_EXPIRY:
  case MQTT_P_SESSION_EXPIRY:
  case MQTT_P_WILL_DELAY:
  case MQTT_P_MAXIMUM_PACKET_SIZE: return WIDTH_U32;
  case MQTT_P_SUBSCRIPTION_ID: return WIDTH_VARINT;
  case MQTT_P_USER_PROPERTY: return WIDTH_PAIR;
  default: return WIDTH_TEXT;
  }
}

u32 mqtt_props_size(const struct mqtt_prop_out *list) {
  u32 size = 0;
  for (; list != NULL && list->id != 0; list++) {
    switch (width_of(list->id)) {
    case WIDTH_BYTE: size += 2; break;
    case WIDTH_U16: size += 3; break;
    case WIDTH_U32: size += 5; break;
    case WIDTH_VARINT: size += 1 + mqtt_varint_len(list->number); break;
    case WIDTH_TEXT: size += 3 + (u32)list->text.len; break;
    case WIDTH_PAIR: size += 5 + (u32)list->text.len + (u32)list->value.len; break;
    }
  }
  return size;
}

static void write_list(struct writer *w, const struct mqtt_prop_out *list) {
  for (; list != NULL && list->id != 0; list++) {
    write_u8(w, list->id);
    switch (width_of(list->id)) {
    case WIDTH_BYTE: write_u8(w, (u8)list->number); break;
    case WIDTH_U16: write_be16(w, (u16)list->number); break;
    case WIDTH_U32: write_be32(w, list->number); break;
    case WIDTH_VARINT: mqtt_write_varint(w, list->number); break;
    case WIDTH_TEXT: mqtt_write_utf8(w, list->text); break;
    case WIDTH_PAIR:
      mqtt_write_utf8(w, list->text);
      mqtt_write_utf8(w, list->value);
      break;
    }
  }
}

// [MQTT-2.2.2-1]
void mqtt_write_props(struct writer *w, const struct mqtt_prop_out *list) {
  mqtt_write_varint(w, mqtt_props_size(list));
  write_list(w, list);
}

// Bytes of a property block with its length.
static u32 block_size(u32 len) {
  return mqtt_varint_len(len) + len;
}

static void write_head(struct writer *w, u8 first, u32 remaining_len) {
  write_u8(w, first);
  mqtt_write_varint(w, remaining_len);
}

static u32 text_size(struct bytes s) {
  ASSERT(s.len <= U16_MAX);
  return 2 + (u32)s.len;
}

static u8 connect_flags(const struct mqtt_connect_out *c) {
  return (u8)((c->clean_start ? 2 : 0) | (c->has_will ? 4 : 0) | c->will_qos << 3 |
              (c->will_retain ? 0x20 : 0) | (c->has_password ? 0x40 : 0) |
              (c->has_username ? 0x80 : 0));
}

void mqtt_encode_connect(struct writer *w, const struct mqtt_connect_out *c) {
  bool v5 = c->version == MQTT_V5;
  struct bytes name = c->version == MQTT_V3 ? BYTES_LIT("MQIsdp") : BYTES_LIT("MQTT");
  u32 len = 4 + text_size(name) + (v5 ? block_size(mqtt_props_size(c->props)) : 0) +
            text_size(c->client_id);
  if (c->has_will) {
    len += (v5 ? block_size(mqtt_props_size(c->will_props)) : 0) + text_size(c->will_topic) +
           text_size(c->will_payload);
  }
  len += (c->has_username ? text_size(c->username) : 0) +
         (c->has_password ? text_size(c->password) : 0);
  write_head(w, MQTT_CONNECT << 4, len);
  mqtt_write_utf8(w, name);
  write_u8(w, (u8)c->version);
  write_u8(w, connect_flags(c));
  write_be16(w, c->keep_alive_s);
  if (v5) {
    mqtt_write_props(w, c->props);
  }
  mqtt_write_utf8(w, c->client_id);
  if (c->has_will) {
    if (v5) {
      mqtt_write_props(w, c->will_props);
    }
    mqtt_write_utf8(w, c->will_topic);
    mqtt_write_utf8(w, c->will_payload);
  }
  if (c->has_username) {
    mqtt_write_utf8(w, c->username);
  }
  if (c->has_password) {
    mqtt_write_utf8(w, c->password);
  }
}

void mqtt_encode_connack(struct writer *w, enum mqtt_version v, bool session_present,
                         enum mqtt_reason code, const struct mqtt_prop_out *props) {
  ASSERT(!session_present || code == MQTT_SUCCESS);  // [MQTT-3.2.2-6]
  u32 len = 2 + (v == MQTT_V5 ? block_size(mqtt_props_size(props)) : 0);
  write_head(w, MQTT_CONNACK << 4, len);
  write_u8(w, session_present ? 1 : 0);
  write_u8(w, v == MQTT_V5 ? (u8)code : mqtt_v4_return_code(code));
  if (v == MQTT_V5) {
    mqtt_write_props(w, props);
  }
}

static u32 publish_remaining(enum mqtt_version v, const struct mqtt_publish_out *p) {
  u32 len = text_size(p->topic) + (p->qos > 0 ? 2 : 0) + p->payload_len;
  if (v == MQTT_V5) {
    len += block_size(mqtt_props_size(p->props) + (u32)p->raw_props.len);
  }
  return len;
}

u32 mqtt_publish_size(enum mqtt_version v, const struct mqtt_publish_out *p) {
  u32 len = publish_remaining(v, p);
  return 1 + mqtt_varint_len(len) + len;
}

void mqtt_encode_publish_head(struct writer *w, enum mqtt_version v,
                              const struct mqtt_publish_out *p) {
  ASSERT(p->qos <= 2);
  ASSERT(p->qos > 0 || !p->dup);  // [MQTT-3.3.1-2]
  ASSERT((p->qos > 0) == (p->packet_id != 0));
  write_head(w, (u8)(MQTT_PUBLISH << 4 | (p->dup ? 8 : 0) | p->qos << 1 | (p->retain ? 1 : 0)),
             publish_remaining(v, p));
  mqtt_write_utf8(w, p->topic);
  if (p->qos > 0) {
    write_be16(w, p->packet_id);
  }
  if (v == MQTT_V5) {
    mqtt_write_varint(w, mqtt_props_size(p->props) + (u32)p->raw_props.len);
    write_list(w, p->props);
    write_bytes(w, p->raw_props);
  }
}

void mqtt_encode_ack(struct writer *w, enum mqtt_version v, enum mqtt_type type, u16 packet_id,
                     enum mqtt_reason reason, const struct mqtt_prop_out *props) {
  ASSERT(type >= MQTT_PUBACK);
  ASSERT(type <= MQTT_PUBCOMP);
  u8 first = (u8)(type << 4 | (type == MQTT_PUBREL ? 2 : 0));
  u32 props_len = mqtt_props_size(props);
  bool has_reason = v == MQTT_V5 && (reason != MQTT_SUCCESS || props_len > 0);
  write_head(w, first,
             2 + (has_reason ? 1 : 0) + (has_reason && props_len > 0 ? block_size(props_len) : 0));
  write_be16(w, packet_id);
  if (has_reason) {
    write_u8(w, (u8)reason);
    if (props_len > 0) {
      mqtt_write_props(w, props);
    }
  }
}

static void encode_list(struct writer *w, enum mqtt_version v, enum mqtt_type type, u16 packet_id,
                        const struct mqtt_prop_out *props, const struct mqtt_entry_out *e,
                        u32 count) {
  u32 option_len = type == MQTT_SUBSCRIBE ? 1 : 0;
  u32 len = 2 + (v == MQTT_V5 ? block_size(mqtt_props_size(props)) : 0);
  for (u32 i = 0; i < count; i++) {
    len += text_size(e[i].filter) + option_len;
  }
  write_head(w, (u8)(type << 4 | 2), len);
  write_be16(w, packet_id);
  if (v == MQTT_V5) {
    mqtt_write_props(w, props);
  }
  for (u32 i = 0; i < count; i++) {
    mqtt_write_utf8(w, e[i].filter);
    if (type == MQTT_SUBSCRIBE) {
      write_u8(w, e[i].options);
    }
  }
}

void mqtt_encode_subscribe(struct writer *w, enum mqtt_version v, u16 packet_id,
                           const struct mqtt_prop_out *props, const struct mqtt_entry_out *e,
                           u32 count) {
  encode_list(w, v, MQTT_SUBSCRIBE, packet_id, props, e, count);
}

void mqtt_encode_unsubscribe(struct writer *w, enum mqtt_version v, u16 packet_id,
                             const struct mqtt_prop_out *props, const struct mqtt_entry_out *e,
                             u32 count) {
  encode_list(w, v, MQTT_UNSUBSCRIBE, packet_id, props, e, count);
}

void mqtt_encode_suback(struct writer *w, enum mqtt_version v, enum mqtt_type type, u16 packet_id,
                        struct bytes codes, const struct mqtt_prop_out *props) {
  bool has_codes = v == MQTT_V5 || type == MQTT_SUBACK;
  u32 len = 2 + (has_codes ? (u32)codes.len : 0) +
            (v == MQTT_V5 ? block_size(mqtt_props_size(props)) : 0);
  write_head(w, (u8)(type << 4), len);
  write_be16(w, packet_id);
  if (v == MQTT_V5) {
    mqtt_write_props(w, props);
  }
  for (usize i = 0; has_codes && i < codes.len; i++) {
    write_u8(w, v != MQTT_V5 && codes.ptr[i] >= 0x80 ? 0x80 : codes.ptr[i]);
  }
}

void mqtt_encode_ping(struct writer *w, enum mqtt_type type) {
  ASSERT(type == MQTT_PINGREQ || type == MQTT_PINGRESP);
  write_head(w, (u8)(type << 4), 0);
}

static void encode_ending(struct writer *w, u8 first, enum mqtt_reason reason,
                          const struct mqtt_prop_out *props) {
  u32 props_len = mqtt_props_size(props);
  if (reason == MQTT_SUCCESS && props_len == 0) {
    write_head(w, first, 0);
    return;
  }
  write_head(w, first, 1 + (props_len > 0 || first == MQTT_AUTH << 4 ? block_size(props_len) : 0));
  write_u8(w, (u8)reason);
  if (props_len > 0 || first == MQTT_AUTH << 4) {
    mqtt_write_props(w, props);
  }
}

void mqtt_encode_disconnect(struct writer *w, enum mqtt_version v, enum mqtt_reason reason,
                            const struct mqtt_prop_out *props) {
  encode_ending(w, MQTT_DISCONNECT << 4, v == MQTT_V5 ? reason : MQTT_SUCCESS,
                v == MQTT_V5 ? props : NULL);
}

void mqtt_encode_auth(struct writer *w, enum mqtt_reason reason,
                      const struct mqtt_prop_out *props) {
  encode_ending(w, MQTT_AUTH << 4, reason, props);
}
