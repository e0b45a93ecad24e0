// SPDX-License-Identifier: Apache-2.0
// The outgoing byte stream of a session, written when the connection has room: control packets,
// then queued messages. A packet is a list of at most five segments (small head, topic, identifier
// and own properties, forwarded properties, payload), and a position in it; so a payload of
// megabytes leaves piece by piece and many small packets share one span.
//
// I1  A packet that was begun is finished before any other.
// I2  QoS > 0 goes out only while there is room in flight (ceiling.c); what stands behind waits, so
//     the order holds (4.9 allows it).
#include "broker/state.h"

struct segments {
  struct bytes part[5];
  u32 count;
  u32 len;
  u8 head[8];
  u8 middle[16 + MQTT_SUBSCRIPTION_IDS_MAX * 5];
};

static void segments_add(struct segments *g, struct bytes b) {
  g->part[g->count++] = b;
  g->len += (u32)b.len;
}

// Copies [off, ..) of the segments into out; returns how much fitted.
static u32 segments_copy(const struct segments *g, u32 off, struct span out) {
  u32 done = 0;
  for (u32 i = 0; i < g->count && done < out.len; i++) {
    struct bytes p = g->part[i];
    if (off >= p.len) {
      off -= (u32)p.len;
      continue;
    }
    u32 n = (u32)MIN(p.len - off, out.len - done);
    memcpy(out.ptr + done, p.ptr + off, n);
    done += n;
    off = 0;
  }
  return done;
}

static u32 id_count(const struct entry *e) {
  u32 count = (e->flags & ENTRY_IDS) != 0 ? e->identifier : e->identifier != 0 ? 1 : 0;
  return MIN(count, MQTT_SUBSCRIPTION_IDS_MAX);
}

// Packet identifier and, for v5, the property length with our own properties.
static void write_middle(const struct session *s, const struct entry *e, struct writer *w) {
  const struct message *m = e->message;
  if (e->qos > 0) {
    write_be16(w, entry_packet_id(e));
  }
  if (s->version != MQTT_V5) {
    return;
  }
  struct mqtt_prop_out list[MQTT_SUBSCRIPTION_IDS_MAX + 3];
  u32 n = 0;
  if (m->expires_ns != NEVER_NS) {  // [MQTT-3.3.2-6]
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_MESSAGE_EXPIRY, .number = s->stream_expiry_s};
  }
  if (s->stream_alias != 0) {
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_TOPIC_ALIAS, .number = s->stream_alias};
  }
  for (u32 i = 0; i < id_count(e); i++) {
    u32 id = (e->flags & ENTRY_IDS) != 0 ? entry_ids(s->b, e)[i] : e->identifier;
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_SUBSCRIPTION_ID, .number = id};
  }
  list[n].id = 0;
  u32 own = mqtt_props_size(list);
  mqtt_write_varint(w, own + m->payload_off - m->raw_off);
  if (own > 0) {
    u8 text[12 + MQTT_SUBSCRIPTION_IDS_MAX * 5];
    struct writer p = writer_init(span_of(text, sizeof text));
    mqtt_write_props(&p, list);
    ASSERT(p.err == ERR_OK);
    write_bytes(w, bytes_skip(writer_bytes(&p), p.pos - own));
  }
}

static bool middle_is_plain(const struct session *s, const struct entry *e) {
  return e->qos == 0 && (s->version != MQTT_V5 || (e->identifier == 0 && s->stream_alias == 0 &&
                                                   e->message->expires_ns == NEVER_NS));
}

// [MQTT-3.3.1-2] [MQTT-3.3.1-3] [MQTT-4.3.1-1]
static void publish_segments(const struct session *s, const struct entry *e, struct segments *g) {
  const struct message *m = e->message;
  u32 middle_len = 0;
  if (!middle_is_plain(s, e)) {
    struct writer w = writer_init(span_of(g->middle, sizeof g->middle));
    write_middle(s, e, &w);
    ASSERT(w.err == ERR_OK);
    middle_len = w.pos;
  }
  bool v5 = s->version == MQTT_V5;
  u32 rest_off = !v5 ? m->payload_off : middle_len == 0 ? message_props_off(m) : m->raw_off;
  bool by_alias = s->stream_alias != 0 && !s->stream_alias_new;
  u32 cut = by_alias ? m->topic_len : mount_out(s, m);
  u32 remaining = message_props_off(m) - cut + middle_len + m->len - rest_off;
  u8 first = (u8)(MQTT_PUBLISH << 4 | ((e->flags & ENTRY_DUP) != 0 && e->qos > 0 ? 8 : 0) |
                  e->qos << 1 | ((e->flags & ENTRY_RETAIN) != 0 ? 1 : 0));
  struct writer w = writer_init(span_of(g->head, sizeof g->head));
  write_u8(&w, first);
  mqtt_write_varint(&w, MIN(remaining, MQTT_REMAINING_MAX));
  if (cut > 0) {
    write_be16(&w, (u16)(m->topic_len - cut));
  }
  ASSERT(w.err == ERR_OK);
  u32 from = cut > 0 ? 2 + cut : 0;
  segments_add(g, writer_bytes(&w));
  segments_add(g, bytes_of(m->data + from, message_props_off(m) - from));
  segments_add(g, bytes_of(g->middle, middle_len));
  segments_add(g, bytes_of(m->data + rest_off, m->len - rest_off));
}

#define ACK_WITH_STRING 9u  // bytes beside the string
// [MQTT-3.5.2-2] [MQTT-3.6.2-2] [MQTT-3.7.2-2]
static void ack_segments(const struct session *s, u8 type, u16 packet_id, u8 reason,
                         struct segments *g) {
  struct writer w = writer_init(span_of(g->middle, sizeof g->middle));
  if (type == MQTT_PINGRESP) {
    mqtt_encode_ping(&w, MQTT_PINGRESP);
  } else {
    mqtt_encode_ack(&w, (enum mqtt_version)s->version, (enum mqtt_type)type, packet_id,
                    (enum mqtt_reason)reason, NULL);
  }
  if (reason >= MQTT_UNSPECIFIED_ERROR && s->version == MQTT_V5 && s->problem_info) {
    struct bytes text = bytes_str(mqtt_reason_name((enum mqtt_reason)reason));
    struct mqtt_prop_out list[] = {{.id = MQTT_P_REASON_STRING, .text = text}, {0}};
    if (text.len + ACK_WITH_STRING <= s->packet_max) {  // [MQTT-3.4.2-2] and its siblings
      w = writer_init(span_of(g->middle, sizeof g->middle));
      mqtt_encode_ack(&w, MQTT_V5, (enum mqtt_type)type, packet_id, (enum mqtt_reason)reason, list);
    }
  }
  ASSERT(w.err == ERR_OK);
  segments_add(g, writer_bytes(&w));
}

// Writes on with the packet described by g. True when it is finished.
static bool advance(struct session *s, const struct segments *g, struct span out, u32 *pos) {
  ASSERT(s->stream_off < g->len);
  u32 n = segments_copy(g, s->stream_off, span_of(out.ptr + *pos, out.len - *pos));
  *pos += n;
  s->stream_off += n;
  ASSERT(s->stream_off <= g->len);
  if (s->stream_off < g->len) {
    return false;
  }
  s->stream_off = 0;
  s->b->stats.messages_sent++;
  s->b->stats.packets_sent[g->part[0].ptr[0] >> 4]++;
  return true;
}

static void pull_control(struct session *s, struct span out, u32 *pos) {
  struct broker *b = s->b;
  u32 index = s->control.head;
  struct control *c = control_at(b, index);
  struct segments g;
  g.count = g.len = 0;
  if (c->block != NULL) {
    segments_add(&g, bytes_of(c->block, c->len));
  } else {
    ack_segments(s, c->type, c->packet_id, c->reason, &g);
  }
  if (!advance(s, &g, out, pos)) {
    return;
  }
  s->control.head = c->next;
  s->control.tail = c->next == NONE ? NONE : s->control.tail;
  s->control.count--;
  if (c->block != NULL) {
    blocks_put(&b->blocks, c->block);
  }
  pool_put(&b->controls, c);
}

static bool too_large(const struct session *s, const struct entry *e) {
  if (e->message->len + (u64)(sizeof(struct segments)) <= s->packet_max) {
    return false;  // by far not
  }
  struct segments g;
  g.count = g.len = 0;
  publish_segments(s, e, &g);
  return g.len > s->packet_max;
}

// Takes the queue's head for sending; false when it was dropped instead.
static bool begin(struct session *s, u64 now_ns) {
  struct broker *b = s->b;
  u32 index = queue_pop_behind(s, NONE);
  struct entry *e = entry_at(b, index);
  if (e->state != ENTRY_RELEASED) {
    bool sent_before = (e->flags & ENTRY_DUP) != 0;
    if (!sent_before && message_expired(e->message, now_ns)) {  // [MQTT-3.3.2-5]
      session_count_drop(s, BROKER_DROPPED_EXPIRED);
      durable_done(s, e);
      entry_free(b, index);
      return false;
    }
    u64 left = e->message->expires_ns <= now_ns ? 0 : e->message->expires_ns - now_ns;
    s->stream_expiry_s = (u32)MIN((left + NS - 1) / NS, (u64)U32_MAX);
    alias_choose(s, e->message);
    if (s->stream_alias_new && too_large(s, e)) {
      s->stream_alias = 0;  // without it, perhaps
      s->stream_alias_new = false;
    }
    if (too_large(s, e)) {  // [MQTT-3.1.2-24] [MQTT-3.1.2-25]
      session_count_drop(s, BROKER_DROPPED_TOO_LARGE);
      durable_done(s, e);
      entry_free(b, index);
      return false;
    }
    alias_commit(s, e->message);
  }
  s->stream = index;
  if (e->qos > 0) {
    inflight_add(s, e);
  }
  return true;
}

static void pull_stream(struct session *s, struct span out, u32 *pos) {
  struct broker *b = s->b;
  struct entry *e = entry_at(b, s->stream);
  struct segments g;
  g.count = g.len = 0;
  if (e->state == ENTRY_RELEASED) {
    ack_segments(s, MQTT_PUBREL, entry_packet_id(e), 0, &g);  // [MQTT-4.4.0-1]
  } else {
    publish_segments(s, e, &g);
  }
  if (!advance(s, &g, out, pos)) {
    return;
  }
  u32 index = s->stream;
  s->stream = NONE;
  if (e->state != ENTRY_RELEASED) {
    b->stats.publish_sent++;
    b->stats.publish_bytes_sent += message_payload_len(e->message);
  }
  if (e->qos == 0) {
    durable_done(s, e);
    entry_free(b, index);
    return;
  }
  e->state = e->state == ENTRY_RELEASED ? ENTRY_RELEASED : ENTRY_SENT;
  s->inflight.count--;  // entries_push counts it again
  s->inflight.bytes -= entry_len(e);
  entries_push(b, &s->inflight, index);
}

// [MQTT-4.9.0-2] [MQTT-4.9.0-3] [MQTT-3.3.4-10]
static bool queue_can_send(const struct session *s) {
  if (s->queue.head == NONE || s->held_subacks > 0) {
    return false;
  }
  const struct entry *e = entry_at(s->b, s->queue.head);
  return e->qos == 0 || (inflight_room(s) && (e->qos < 2 || !durable_waits(s, e)));
}

bool broker_has_output(const struct session *s) {
  return (s->stream != NONE || s->control.head != NONE || queue_can_send(s) || share_can_take(s)) &&
         !s->opening;
}

u32 broker_pull(struct session *s, struct span out, u64 now_ns) {
  ASSERT(out.len <= U32_MAX);
  ASSERT(s->user != NULL);
  if (s->opening) {
    return 0;
  }
  u32 pos = 0;
  s->stuck = false;
  while (pos < out.len) {
    if (s->stream != NONE) {
      pull_stream(s, out, &pos);
    } else if (s->control.head != NONE) {
      pull_control(s, out, &pos);
    } else if (queue_can_send(s)) {
      if (begin(s, now_ns) && s->stream != NONE) {
        pull_stream(s, out, &pos);
      }
    } else if (s->shared == NONE) {
      break;
    } else {
      share_available(s);
      if (!share_can_take(s)) {
        break;
      }
      share_take(s);
    }
  }
  if (s->shared != NONE) {
    share_settle(s);
  }
  if (s->replay != NONE && s->queue.count < REPLAY_LOW) {
    retained_resume(s);
  }
  s->ready = broker_has_output(s);
  if (!s->ready && s->queue.head != NONE) {
    session_stall(s);
  }
  s->b->stats.bytes_sent += pos;
  return pos;
}

bool broker_mid_packet(const struct session *s) {
  return s->stream_off > 0;
}
