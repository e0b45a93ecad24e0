// SPDX-License-Identifier: Apache-2.0
// Message objects: the one copy of a message that every receiver's queue refers to. The body of a
// PUBLISH is laid out ready to be sent, so that a delivery is a small head and a memcpy.
//
// I1  What is forwarded unaltered and in order: payload format, content type, response topic,
//     correlation data, user properties [MQTT-3.3.2-4] [-15] [-16] [-17] [-18] [-20].
//     What is not: message expiry (recomputed), topic alias and subscription identifier (of the
//     connection), will delay.
#include "broker/state.h"

// Length of one validated property at `p`, identifier included, and whether it is forwarded.
static u32 property_len(struct bytes p, bool *forward) {
  *forward = true;
  switch (p.ptr[0]) {
  case MQTT_P_PAYLOAD_FORMAT: return 2;
  case MQTT_P_CONTENT_TYPE:
  case MQTT_P_RESPONSE_TOPIC:
  case MQTT_P_CORRELATION_DATA: return 3u + load_be16(p.ptr + 1);
  case MQTT_P_USER_PROPERTY: {
    u32 name_len = load_be16(p.ptr + 1);
    return 5u + name_len + load_be16(p.ptr + 3 + name_len);
  }
  default: break;
  }
  *forward = false;
  if (p.ptr[0] == MQTT_P_TOPIC_ALIAS) {
    return 3;
  }
  if (p.ptr[0] == MQTT_P_SUBSCRIPTION_ID) {
    u32 len = 2;
    while ((p.ptr[len - 1] & 0x80) != 0) {
      len++;
    }
    return len;
  }
  ASSERT(p.ptr[0] == MQTT_P_MESSAGE_EXPIRY || p.ptr[0] == MQTT_P_WILL_DELAY);
  return 5;
}

// Copies the properties that are forwarded to `to` (NULL = only count); returns their length.
static u32 forward_props(struct bytes props, u8 *to) {
  u32 len = 0;
  usize off = 0;
  while (off < props.len) {
    bool forward = false;
    u32 one = property_len(bytes_skip(props, off), &forward);
    ASSERT(one <= props.len - off);
    if (forward) {
      if (to != NULL) {
        memcpy(to + len, props.ptr + off, one);
      }
      len += one;
    }
    off += one;
  }
  return len;
}

u64 expiry_deadline(const struct mqtt_props *props, u64 now_ns) {
  return mqtt_has(props, MQTT_P_MESSAGE_EXPIRY) ? now_ns + props->message_expiry_s * NS : NEVER_NS;
}

static u32 varint_len(u32 v) {
  return v < 128 ? 1 : v < 16384 ? 2 : v < 2097152 ? 3 : 4;
}

struct message *message_make(struct broker *b, const struct message_in *in) {
  ASSERT(in->topic.len > 0);
  ASSERT(in->topic.len <= U16_MAX);
  u32 raw_len = in->props_clean ? (u32)in->props.len : forward_props(in->props, NULL);
  u32 topic_len = (u32)in->topic.len;
  u32 props_off = 2 + topic_len;
  u32 raw_off = props_off + varint_len(raw_len);
  u64 len = (u64)raw_off + raw_len + in->payload.len;
  struct message *m = blocks_take(&b->blocks, sizeof *m + len);
  if (m == NULL) {
    return NULL;
  }
  *m = (struct message){.refs = 1,
                        .topic_len = topic_len,
                        .props_off = props_off,
                        .raw_off = raw_off,
                        .payload_off = raw_off + raw_len,
                        .len = (u32)len,
                        .qos = in->qos,
                        .retain = in->retain,
                        .expires_ns = in->expires_ns};
  struct writer w = writer_init(span_of(m->data, raw_off));
  mqtt_write_utf8(&w, in->topic);
  mqtt_write_varint(&w, raw_len);
  ASSERT(w.err == ERR_OK);
  ASSERT(w.pos == raw_off);
  if (in->props_clean && raw_len > 0) {
    memcpy(m->data + raw_off, in->props.ptr, raw_len);
  } else if (raw_len > 0) {
    u32 copied = forward_props(in->props, m->data + raw_off);
    ASSERT(copied == raw_len);
  }
  if (in->payload.len > 0) {
    memcpy(m->data + m->payload_off, in->payload.ptr, in->payload.len);
  }
  b->stats.messages_stored++;
  b->stats.message_bytes_stored += blocks_len(&b->blocks, m);
  return m;
}

void message_unref(struct broker *b, struct message *m) {
  ASSERT(m->refs > 0);
  if (--m->refs > 0) {
    return;
  }
  ASSERT(b->stats.messages_stored > 0);
  b->stats.messages_stored--;
  b->stats.message_bytes_stored -= blocks_len(&b->blocks, m);
  blocks_put(&b->blocks, m);
}
