// SPDX-License-Identifier: Apache-2.0
// Message objects: the one copy of a message that every receiver's queue refers to. The body of a
// PUBLISH is laid out ready to be sent, so that a delivery is a small head and a memcpy.
//
// I1  What is forwarded unaltered and in order: payload format, content type, response topic,
//     correlation data, user properties [MQTT-3.3.2-4] [-15] [-16] [-17] [-18] [-20].
//     What is not: message expiry (recomputed), topic alias and subscription identifier (of the
//     connection), will delay.
#include "broker/state.h"

#define NOT_FORWARDED                                                                            \
  (1ull << MQTT_P_MESSAGE_EXPIRY | 1ull << MQTT_P_TOPIC_ALIAS | 1ull << MQTT_P_SUBSCRIPTION_ID | \
   1ull << MQTT_P_WILL_DELAY)

u64 expiry_deadline(const struct mqtt_props *props, u64 now_ns) {
  return mqtt_has(props, MQTT_P_MESSAGE_EXPIRY) ? now_ns + props->message_expiry_s * NS : NEVER_NS;
}

struct message *message_make(struct broker *b, const struct message_in *in) {
  ASSERT(in->topic.len > 0);
  ASSERT(in->topic.len <= U16_MAX);
  u32 raw_len =
      in->props_clean ? (u32)in->props.len : mqtt_copy_props(in->props, NOT_FORWARDED, NULL);
  u32 topic_len = (u32)in->topic.len;
  u32 props_off = 2 + topic_len;
  u32 raw_off = props_off + mqtt_varint_len(raw_len);
  u64 len = (u64)raw_off + raw_len + in->payload.len;
  u32 origin_len = access_origin_len(b, in);
  struct message *m = blocks_take(&b->blocks, sizeof *m + len + origin_len);
  if (m == NULL) {
    return NULL;
  }
  *m = (struct message){.refs = 1,
                        .topic_len = (u16)topic_len,
                        .raw_off = raw_off,
                        .payload_off = raw_off + raw_len,
                        .len = (u32)len,
                        .qos = in->qos,
                        .retain = in->retain,
                        .origin_len = origin_len,
                        .expires_ns = in->expires_ns};
  struct writer w = writer_init(span_of(m->data, raw_off));
  mqtt_write_utf8(&w, in->topic);
  mqtt_write_varint(&w, raw_len);
  ASSERT(w.err == ERR_OK);
  ASSERT(w.pos == raw_off);
  if (in->props_clean && raw_len > 0) {
    memcpy(m->data + raw_off, in->props.ptr, raw_len);
  } else if (raw_len > 0) {
    u32 copied = mqtt_copy_props(in->props, NOT_FORWARDED, m->data + raw_off);
    ASSERT(copied == raw_len);
  }
  if (in->payload.len > 0) {
    memcpy(m->data + m->payload_off, in->payload.ptr, in->payload.len);
  }
  if (origin_len > 0) {
    access_origin_write(in, m->data + len, origin_len);
  }
  b->stats.messages_stored++;
  b->stats.message_bytes_stored += blocks_len(&b->blocks, m);
  return m;
}

struct message *message_adopt(struct broker *b, const struct message *remote) {
  u64 len = (u64)remote->len + remote->origin_len;
  struct message *m = blocks_take(&b->blocks, sizeof *m + len);
  if (m == NULL) {
    return NULL;
  }
  *m = (struct message){.refs = 1,  // the other's count is its own core's
                        .topic_len = remote->topic_len,
                        .raw_off = remote->raw_off,
                        .payload_off = remote->payload_off,
                        .len = remote->len,
                        .qos = remote->qos,
                        .retain = remote->retain,
                        .origin_len = remote->origin_len,
                        .expires_ns = remote->expires_ns};
  memcpy(m->data, remote->data, len);
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
