// SPDX-License-Identifier: Apache-2.0
// The path of a PUBLISH inside the broker: check, resolve the alias, match, queue, retain, answer.
#include "broker/state.h"

// Properties that are not passed on as they came: the alias is the connection's own, the expiry is
// counted down, subscription identifiers are each receiver's.
#define NOT_FORWARDED \
  (1ull << MQTT_P_TOPIC_ALIAS | 1ull << MQTT_P_MESSAGE_EXPIRY | 1ull << MQTT_P_SUBSCRIPTION_ID)

u32 route(struct broker *b, struct message *m, u8 qos, bool retain, const struct session *from,
          u32 *refused) {
  u32 taken = 0;
  *refused = 0;
  for (struct session *s = tree_match(b, message_topic(m), from); s != NULL; s = s->match_next) {
    u8 granted = MIN(qos, s->match_qos);
    bool flag = retain && s->match_rap;  // [MQTT-3.3.1-12] [MQTT-3.3.1-13]
    if (session_deliver(s, m, granted, flag, s->match_id, s->match_ids)) {
      taken++;
    } else if (s->user != NULL || granted > 0) {
      *refused += 1;
    }
  }
  return taken;
}

// The topic of this PUBLISH, through the connection's aliases (3.3.2.3.4).
static enum mqtt_reason resolve_topic(struct session *s, const struct mqtt_publish *p,
                                      struct bytes packet, struct bytes *topic) {
  struct broker *b = s->broker;
  *topic = bytes_part(packet, p->topic);
  if (!mqtt_has(&p->props, MQTT_P_TOPIC_ALIAS)) {
    return MQTT_SUCCESS;
  }
  if (p->props.topic_alias > MIN(b->limits.topic_alias_max, ALIAS_MAX)) {  // [MQTT-3.3.2-9]
    return MQTT_TOPIC_ALIAS_INVALID;
  }
  if (s->alias == NULL) {
    s->alias = blob_take(b, ALIAS_MAX * sizeof *s->alias);
    if (s->alias == NULL) {
      return MQTT_QUOTA_EXCEEDED;
    }
    memset(s->alias, 0, ALIAS_MAX * sizeof *s->alias);
  }
  struct bytes *entry = &s->alias[p->props.topic_alias - 1];
  if (topic->len == 0) {
    *topic = *entry;
    return entry->len == 0 ? MQTT_PROTOCOL_ERROR : MQTT_SUCCESS;  // [MQTT-3.3.2-12]
  }
  u8 *copy = blob_take(b, topic->len);
  if (copy == NULL) {
    return MQTT_QUOTA_EXCEEDED;
  }
  if (entry->len > 0) {
    blob_put(b, (u8 *)(uptr)entry->ptr, entry->len);
  }
  memcpy(copy, topic->ptr, topic->len);
  *entry = bytes_of(copy, topic->len);
  return MQTT_SUCCESS;
}

static struct message *make_message(struct broker *b, const struct mqtt_publish *p,
                                    struct bytes packet, struct bytes topic, u64 now_ns) {
  struct message *m = message_new(b, topic, p->props.all.len, p->payload.len);
  if (m == NULL) {
    return NULL;
  }
  struct writer w = writer_init(span_of(m->data + m->topic_len, p->props.all.len));
  if (p->props.all.len > 0) {
    mqtt_copy_props(packet, &p->props, NOT_FORWARDED, &w);
    ASSERT(w.err == ERR_OK);
  }
  m->props_len = w.pos;
  if (p->payload.len > 0) {
    memcpy(m->data + m->topic_len + m->props_len, packet.ptr + p->payload.off, p->payload.len);
  }
  if (mqtt_has(&p->props, MQTT_P_MESSAGE_EXPIRY)) {
    m->expires_ns = now_ns + p->props.message_expiry_s * SECOND_NS;
  }
  return m;
}

// Matches, stores and retains; the reason for the acknowledgement.
static enum mqtt_reason accept(struct session *s, const struct mqtt_publish *p, struct bytes packet,
                               struct bytes topic, u64 now_ns) {
  struct broker *b = s->broker;
  u32 refused = 0;
  struct message *m = make_message(b, p, packet, topic, now_ns);
  if (m == NULL) {
    return MQTT_SERVER_BUSY;  // nothing has changed: the server offers the packet again
  }
  if (p->retain && p->payload.len == 0) {
    retained_clear(b, topic);
  }
  bool kept = !p->retain || p->payload.len == 0 || retained_set(b, m, p->qos);
  u32 taken = route(b, m, p->qos, p->retain, s, &refused);
  message_unref(b, m);
  if (!kept) {
    return MQTT_QUOTA_EXCEEDED;
  }
  return taken == 0 && refused == 0 ? MQTT_NO_MATCHING_SUBSCRIBERS : MQTT_SUCCESS;
}

static struct delivery **find_received(struct session *s, u16 pid) {
  struct delivery **at = &s->received;
  while (*at != NULL && (*at)->pid != pid) {
    at = &(*at)->next;
  }
  return at;
}

// Remembers a QoS 2 identifier until its PUBREL.
static enum mqtt_reason remember(struct session *s, u16 pid) {
  if (s->received_count >= RECEIVE_MAXIMUM) {  // [MQTT-3.3.4-9] from the other side
    return MQTT_RECEIVE_MAXIMUM_EXCEEDED;
  }
  struct delivery *d = pool_take(&s->broker->deliveries);
  if (d == NULL) {
    return MQTT_QUOTA_EXCEEDED;
  }
  d->pid = pid;
  d->next = s->received;
  s->received = d;
  s->received_count++;
  return MQTT_SUCCESS;
}

static enum mqtt_reason not_allowed(struct session *s, const struct mqtt_publish *p,
                                    struct bytes topic) {
  struct broker *b = s->broker;
  if (p->qos > b->limits.qos_max) {
    return MQTT_QOS_NOT_SUPPORTED;  // [MQTT-3.2.2-11]
  }
  if (p->retain && !b->limits.retain_available) {
    return MQTT_RETAIN_NOT_SUPPORTED;  // [MQTT-3.2.2-14]
  }
  bool system = bytes_starts_with(topic, BYTES_LIT("$SYS/"));
  bool may = b->ops.may_publish == NULL || b->ops.may_publish(s->user, topic, p->qos, p->retain);
  return system || !may ? MQTT_NOT_AUTHORIZED : MQTT_SUCCESS;
}

enum mqtt_reason broker_on_publish(struct session *s, const struct mqtt_publish *p,
                                   struct bytes packet, u64 now_ns) {
  struct broker *b = s->broker;
  struct bytes topic;
  b->stats.publish_received++;
  enum mqtt_reason reason = resolve_topic(s, p, packet, &topic);
  if (reason != MQTT_SUCCESS) {
    return reason;
  }
  reason = not_allowed(s, p, topic);
  if (reason == MQTT_QOS_NOT_SUPPORTED || reason == MQTT_RETAIN_NOT_SUPPORTED) {
    return reason;
  }
  bool repeated = p->qos == 2 && *find_received(s, p->packet_id) != NULL;
  if (reason == MQTT_SUCCESS && !repeated) {  // [MQTT-4.3.3-10]: delivered once
    if (p->qos == 2) {
      reason = remember(s, p->packet_id);
      if (reason == MQTT_RECEIVE_MAXIMUM_EXCEEDED) {
        return reason;
      }
    }
    reason = reason == MQTT_SUCCESS ? accept(s, p, packet, topic, now_ns) : reason;
    if (p->qos == 2 && reason >= MQTT_UNSPECIFIED_ERROR) {  // an error ends the identifier (4.3.3)
      struct delivery **at = find_received(s, p->packet_id);
      struct delivery *d = *at;
      if (d != NULL) {
        *at = d->next;
        s->received_count--;
        delivery_free(b, d);
      }
    }
  }
  if (p->qos == 0 || reason == MQTT_SERVER_BUSY) {
    return reason == MQTT_SERVER_BUSY ? reason : MQTT_SUCCESS;
  }
  // 3.1.1 has no reason to send: acknowledged all the same, as mosquitto does for a denied one.
  bool sent = session_control(s, p->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, p->packet_id,
                              s->version == MQTT_V5 ? reason : MQTT_SUCCESS);
  return sent ? MQTT_SUCCESS : MQTT_QUOTA_EXCEEDED;
}

// --- acknowledgements of what we sent

static struct delivery **find_inflight(struct session *s, u16 pid) {
  struct delivery **at = &s->inflight.first;
  while (*at != NULL && (*at)->pid != pid) {
    at = &(*at)->next;
  }
  return at;
}

static void complete(struct session *s, struct delivery **at) {
  struct delivery *d = *at;
  *at = d->next;
  if (s->inflight.last == d) {
    s->inflight.last = s->inflight.first == NULL || at == &s->inflight.first
                           ? NULL
                           : CONTAINER_OF(at, struct delivery, next);
  }
  ASSERT(s->inflight_count > 0);
  s->inflight_count--;
  delivery_free(s->broker, d);
  if (s->out[OUT_QOS12].first != NULL) {
    session_wake(s);
  }
}

static enum mqtt_reason on_pubrec(struct session *s, const struct mqtt_ack *a) {
  struct delivery **at = find_inflight(s, a->packet_id);
  struct delivery *d = *at;
  if (d == NULL || d->qos != 2) {
    return session_control(s, MQTT_PUBREL, a->packet_id, MQTT_PACKET_ID_NOT_FOUND)
               ? MQTT_SUCCESS
               : MQTT_QUOTA_EXCEEDED;
  }
  if (a->reason >= MQTT_UNSPECIFIED_ERROR) {  // [MQTT-4.3.3-4]: no PUBREL then
    complete(s, at);
    return MQTT_SUCCESS;
  }
  d->flags |= DELIVERY_RELEASED;
  if (d->m != NULL) {  // the message is the receiver's now, only the identifier is open
    message_unref(s->broker, d->m);
    d->m = NULL;
  }
  return session_control(s, MQTT_PUBREL, a->packet_id, MQTT_SUCCESS) ? MQTT_SUCCESS
                                                                     : MQTT_QUOTA_EXCEEDED;
}

enum mqtt_reason broker_on_ack(struct session *s, enum mqtt_type type, const struct mqtt_ack *a,
                               u64 now_ns) {
  (void)now_ns;
  struct delivery **at = NULL;
  switch (type) {
  case MQTT_PUBREC: return on_pubrec(s, a);
  case MQTT_PUBREL: {  // of a message that this client published
    struct delivery **received = find_received(s, a->packet_id);
    struct delivery *d = *received;
    if (d != NULL) {
      *received = d->next;
      s->received_count--;
      delivery_free(s->broker, d);
    }
    enum mqtt_reason reason =
        d != NULL || s->version == MQTT_V4 ? MQTT_SUCCESS : MQTT_PACKET_ID_NOT_FOUND;
    return session_control(s, MQTT_PUBCOMP, a->packet_id, reason) ? MQTT_SUCCESS
                                                                  : MQTT_QUOTA_EXCEEDED;
  }
  default:  // PUBACK, PUBCOMP; an unknown identifier is ignored (a late answer after a takeover)
    at = find_inflight(s, a->packet_id);
    if (*at != NULL && ((*at)->qos == 1) == (type == MQTT_PUBACK)) {
      complete(s, at);
    }
    return MQTT_SUCCESS;
  }
}
