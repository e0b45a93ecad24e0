// SPDX-License-Identifier: Apache-2.0
// The session's outgoing byte stream, produced on demand. A packet is a row of pieces (head, topic,
// identifier and properties, payload); what does not fit now continues at the same offset next
// time, so that a payload of megabytes passes through spans of kilobytes without a copy of its own.
#include "broker/state.h"

#define HEAD_MAX 8u
#define MIDDLE_MAX 64u
#define PIECES 5u

struct pieces {
  u8 head[HEAD_MAX];      // fixed header and topic length
  u8 middle[MIDDLE_MAX];  // packet identifier, property length, our properties
  struct bytes piece[PIECES];
  u32 count;
  u32 total;
};

static void add(struct pieces *p, struct bytes b) {
  ASSERT(p->count < PIECES);
  p->piece[p->count++] = b;
  p->total += (u32)b.len;
}

// Pieces of a control packet without a message.
static void control_pieces(const struct session *s, const struct delivery *d, struct pieces *p) {
  struct writer w = writer_init(span_of(p->middle, MIDDLE_MAX));
  if (d->qos == MQTT_PINGRESP) {
    mqtt_encode_ping(&w, MQTT_PINGRESP);
  } else {
    mqtt_encode_ack(&w, (enum mqtt_version)s->version, (enum mqtt_type)d->qos, d->pid,
                    (enum mqtt_reason)d->flags, NULL);
  }
  ASSERT(w.err == ERR_OK);
  add(p, writer_bytes(&w));
}

// Our own properties of a PUBLISH, before the publisher's.
static u32 own_props(const struct session *s, const struct delivery *d,
                     struct mqtt_prop_out *list) {
  u32 n = 0;
  if (d->m->expires_ns != NEVER) {
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_MESSAGE_EXPIRY, .number = s->pull_expiry_s};
  }
  for (u32 i = 0; i < SUB_IDS && d->sub_id[i] != 0; i++) {  // [MQTT-3.3.4-3]
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_SUBSCRIPTION_ID, .number = d->sub_id[i]};
  }
  list[n] = (struct mqtt_prop_out){0};
  return mqtt_props_size(list);
}

static void publish_pieces(const struct session *s, const struct delivery *d, struct pieces *p) {
  const struct message *m = d->m;
  bool v5 = s->version == MQTT_V5;
  struct mqtt_prop_out own[SUB_IDS + 2];
  u32 own_len = v5 ? own_props(s, d, own) : 0;
  u32 props_len = v5 ? own_len + m->props_len : 0;
  struct writer middle = writer_init(span_of(p->middle, MIDDLE_MAX));
  if (d->qos > 0) {
    write_be16(&middle, d->pid);
  }
  if (v5) {
    mqtt_write_varint(&middle, props_len);
    for (const struct mqtt_prop_out *o = own; o->id != 0; o++) {
      write_u8(&middle, o->id);
      if (o->id == MQTT_P_MESSAGE_EXPIRY) {
        write_be32(&middle, o->number);
      } else {
        mqtt_write_varint(&middle, o->number);
      }
    }
  }
  u32 remaining = 2 + m->topic_len + middle.pos + (v5 ? m->props_len : 0) + m->payload_len;
  struct writer head = writer_init(span_of(p->head, HEAD_MAX));
  write_u8(&head, (u8)(MQTT_PUBLISH << 4 | ((d->flags & DELIVERY_DUP) ? 8 : 0) | d->qos << 1 |
                       ((d->flags & DELIVERY_RETAIN) ? 1 : 0)));
  mqtt_write_varint(&head, remaining);
  write_be16(&head, (u16)m->topic_len);
  ASSERT(head.err == ERR_OK);
  ASSERT(middle.err == ERR_OK);
  add(p, writer_bytes(&head));
  add(p, message_topic(m));
  add(p, writer_bytes(&middle));
  if (v5) {
    add(p, message_props(m));
  }
  add(p, message_payload(m));
}

static void pieces_of(const struct session *s, const struct delivery *d, struct pieces *p) {
  p->count = p->total = 0;
  if (d->m == NULL) {
    control_pieces(s, d, p);
  } else if ((d->flags & DELIVERY_RAW) != 0) {
    add(p, message_payload(d->m));
  } else {
    publish_pieces(s, d, p);
  }
}

// Copies from offset `skip` of the packet; returns how many bytes went into `out`.
static u32 copy_pieces(const struct pieces *p, u32 skip, struct span out) {
  u32 done = 0;
  for (u32 i = 0; i < p->count && done < out.len; i++) {
    struct bytes b = p->piece[i];
    if (skip >= b.len) {
      skip -= (u32)b.len;
      continue;
    }
    u32 n = (u32)MIN(b.len - skip, out.len - done);
    memcpy(out.ptr + done, b.ptr + skip, n);
    done += n;
    skip = 0;
  }
  return done;
}

static bool expired(const struct delivery *d, u64 now_ns) {
  return d->m != NULL && d->m->expires_ns <= now_ns && (d->flags & DELIVERY_DUP) == 0;
}

static u32 wire_size(const struct session *s, const struct delivery *d) {
  const struct message *m = d->m;
  return 16 + m->topic_len + (s->version == MQTT_V5 ? m->props_len + 24 : 0) + m->payload_len;
}

// The next delivery to write: still first in its queue. Expired and too large ones are dropped
// here.
static struct delivery *next_of(struct session *s, u32 class, u64 now_ns) {
  for (;;) {
    struct delivery *d = s->out[class].first;
    if (d == NULL || class == OUT_CONTROL) {
      return d;
    }
    if (class == OUT_QOS12 && s->inflight_count >= s->receive_maximum) {
      return NULL;  // [MQTT-3.3.4-9]
    }
    // [MQTT-3.3.2-5]; [MQTT-3.1.2-25]: what is larger than the client takes is not sent.
    if (!expired(d, now_ns) && (s->max_packet == U32_MAX || wire_size(s, d) <= s->max_packet)) {
      return d;
    }
    (void)queue_pop(&s->out[class]);
    s->queued_count--;
    s->dropped++;
    s->broker->stats.publish_dropped++;
    delivery_free(s->broker, d);
  }
}

static struct delivery *next(struct session *s, u64 now_ns) {
  for (u32 class = 0; class < OUT_COUNT; class ++) {
    struct delivery *d = next_of(s, class, now_ns);
    if (d != NULL) {
      return d;
    }
  }
  return NULL;
}

static void remaining_expiry(struct session *s, const struct delivery *d, u64 now_ns) {
  if (d->m != NULL && d->m->expires_ns != NEVER) {  // [MQTT-3.3.2-6]
    u64 left = d->m->expires_ns > now_ns ? d->m->expires_ns - now_ns : 0;
    s->pull_expiry_s = (u32)MIN((left + SECOND_NS - 1) / SECOND_NS, (u64)U32_MAX);
  }
}

// The whole packet is out: what becomes of the delivery.
static void written(struct session *s, struct delivery *d) {
  struct broker *b = s->broker;
  bool control = d->m == NULL || (d->flags & DELIVERY_RAW) != 0;
  u32 class = control ? OUT_CONTROL : d->qos == 0 ? OUT_QOS0 : OUT_QOS12;
  struct delivery *popped = queue_pop(&s->out[class]);
  ASSERT(popped == d);
  b->stats.messages_sent++;
  if (class == OUT_CONTROL) {
    delivery_free(b, d);
    return;
  }
  s->queued_count--;
  b->stats.publish_sent++;
  if (d->qos == 0) {
    delivery_free(b, d);
  } else {
    queue_push(&s->inflight, d);
    s->inflight_count++;
  }
}

u32 broker_pull(struct session *s, struct span out, u64 now_ns) {
  u32 done = 0;
  struct pieces p;
  while (done < out.len) {
    struct delivery *d = s->pulling;
    if (d == NULL) {
      d = next(s, now_ns);
      if (d == NULL) {
        break;
      }
      s->pulled = 0;
      remaining_expiry(s, d, now_ns);
    }
    pieces_of(s, d, &p);
    u32 n = copy_pieces(&p, s->pulled, span_of(out.ptr + done, out.len - done));
    done += n;
    s->pulled += n;
    ASSERT(s->pulled <= p.total);
    s->pulling = s->pulled < p.total ? d : NULL;
    if (s->pulling == NULL) {
      written(s, d);
    }
  }
  s->broker->stats.bytes_sent += done;
  if (done == 0) {
    s->awake = false;
  }
  return done;
}

bool broker_has_output(const struct session *s) {
  return s->pulling != NULL || s->out[OUT_CONTROL].first != NULL ||
         s->out[OUT_QOS0].first != NULL ||
         (s->out[OUT_QOS12].first != NULL && s->inflight_count < s->receive_maximum);
}

bool broker_mid_packet(const struct session *s) {
  return s->pulling != NULL;
}
