// SPDX-License-Identifier: Apache-2.0
// PUBLISH from a client and the acknowledgements of both directions.
//
// I1  A QoS 2 message is routed when its identifier is new and remembered until PUBREL; a repeated
//     PUBLISH, the third copy too, is answered by PUBREC and not routed [MQTT-4.3.3-10].
// I2  Acknowledgements are queued in the order of the packets they answer [MQTT-4.6.0-2..4].
#include "base/utf8.h"
#include "broker/cross.h"

// Topic of the PUBLISH by its alias, and the alias's upkeep [MQTT-3.3.2-7..12].
static enum mqtt_reason resolve_alias(struct session *s, const struct mqtt_publish *p,
                                      struct bytes packet, struct bytes *topic) {
  struct broker *b = s->b;
  u32 most = b->limits.topic_alias_max;
  if (p->props.topic_alias > most) {
    return MQTT_TOPIC_ALIAS_INVALID;
  }
  ASSERT(p->props.topic_alias > 0);
  if (s->aliases == NULL) {
    s->aliases = blocks_take(&b->blocks, most * sizeof(u8 *));
    if (s->aliases == NULL) {
      return MQTT_SERVER_BUSY;
    }
    memset(s->aliases, 0, most * sizeof(u8 *));
  }
  u8 **slot = &s->aliases[p->props.topic_alias - 1];
  if (p->topic.len == 0) {
    if (*slot == NULL) {
      return MQTT_PROTOCOL_ERROR;  // 3.3.2.3.4: no mapping
    }
    *topic = bytes_of(*slot + 2, load_be16(*slot));
    return MQTT_SUCCESS;
  }
  *topic = bytes_part(packet, p->topic);
  u8 *block = blocks_take(&b->blocks, topic->len + 2);
  if (block == NULL) {
    return MQTT_SERVER_BUSY;
  }
  if (*slot != NULL) {
    blocks_put(&b->blocks, *slot);
  }
  store_be16(block, (u16)topic->len);
  memcpy(block + 2, topic->ptr, topic->len);
  *slot = block;
  return MQTT_SUCCESS;
}

// 3.3.2.3.2: a payload that calls itself UTF-8 is.
static bool payload_is_what_it_says(const struct mqtt_publish *p, struct bytes packet) {
  return !mqtt_has(&p->props, MQTT_P_PAYLOAD_FORMAT) || p->props.payload_format == 0 ||
         utf8_data(bytes_part(packet, p->payload));
}

static enum mqtt_reason check_publish(const struct session *s, const struct mqtt_publish *p,
                                      struct bytes packet) {
  const struct broker_limits *l = &s->b->limits;
  if (p->qos > s->qos_max) {
    return MQTT_QOS_NOT_SUPPORTED;  // [MQTT-3.2.2-11]
  }
  if (p->retain && !l->retain_available) {
    return MQTT_RETAIN_NOT_SUPPORTED;  // [MQTT-3.2.2-14]
  }
  if (mqtt_has(&p->props, MQTT_P_SUBSCRIPTION_ID)) {
    return MQTT_PROTOCOL_ERROR;  // [MQTT-3.3.4-6]
  }
  if (p->qos == 0 && !payload_is_what_it_says(p, packet)) {
    return MQTT_PAYLOAD_FORMAT_INVALID;  // nothing else can tell
  }
  return MQTT_SUCCESS;
}

// Routes; the reason of the acknowledgement, or MQTT_SERVER_BUSY: nothing was done.
static enum mqtt_reason route_publish(struct session *s, const struct mqtt_publish *p,
                                      struct bytes packet, struct bytes topic, u64 now_ns) {
  struct broker *b = s->b;
  if (!access_allows(s, ACCESS_WRITE, topic)) {
    return MQTT_NOT_AUTHORIZED;
  }
  if (!payload_is_what_it_says(p, packet)) {
    return MQTT_PAYLOAD_FORMAT_INVALID;
  }
  if (b->limits.payload_size_max != 0 && p->payload.len > b->limits.payload_size_max) {
    // As mosquitto: acknowledged, not forwarded; 0x95 is no reason of a PUBACK, so 0x97.
    return s->version == MQTT_V5 ? MQTT_QUOTA_EXCEEDED : MQTT_NOT_AUTHORIZED;
  }
  if (bytes_starts_with(topic, BYTES_LIT("$CONTROL/"))) {
    struct access_who by = session_who(s);
    bool taken = access_control(b, topic, &by, bytes_part(packet, p->payload), now_ns);
    return taken ? MQTT_SUCCESS : MQTT_NO_MATCHING_SUBSCRIBERS;
  }
  struct access_who who = session_who(s);
  u64 own =
      1ull << MQTT_P_MESSAGE_EXPIRY | 1ull << MQTT_P_TOPIC_ALIAS | 1ull << MQTT_P_SUBSCRIPTION_ID;
  struct message_in in = {.topic = topic,
                          .props = bytes_part(packet, p->props.all),
                          .props_clean = (p->props.present & own) == 0,
                          .payload = bytes_part(packet, p->payload),
                          .qos = p->qos,
                          .retain = p->retain,
                          .expires_ns = expiry_deadline(&p->props, now_ns),
                          .origin = &who,
                          .origin_set = s->access_set};
  struct route_result r = route(b, &in, s, now_ns);
  if (r.no_memory) {
    return MQTT_SERVER_BUSY;
  }
  bool all_dropped = r.matched > 0 && r.dropped == r.matched;
  if (r.not_retained || (all_dropped && s->version == MQTT_V5)) {
    return MQTT_QUOTA_EXCEEDED;
  }
  return r.matched == 0 ? MQTT_NO_MATCHING_SUBSCRIBERS : MQTT_SUCCESS;
}

// Rates, by the generic cell rate algorithm: each message moves a virtual time on by its share of a
// second; a client may run ahead of the clock by one second and is not read beyond that.
u64 broker_publish_at(const struct session *s) {
  u64 at = MAX(s->rate_messages_ns, s->rate_bytes_ns);
  return at > NS ? at - NS : 0;
}

static void rate_count(struct session *s, u32 len, u64 now_ns) {
  const struct broker_limits *l = &s->b->limits;
  if (l->session_message_rate > 0) {
    s->rate_messages_ns = MAX(s->rate_messages_ns, now_ns) + NS / l->session_message_rate;
  }
  if (l->session_byte_rate > 0) {
    s->rate_bytes_ns = MAX(s->rate_bytes_ns, now_ns) + len * NS / l->session_byte_rate;
  }
}

static void count_publish(struct session *s, const struct mqtt_publish *p, struct bytes packet,
                          u64 now_ns) {
  struct broker_stats *t = &s->b->stats;
  t->messages_received++;
  t->publish_received++;
  t->publish_bytes_received += p->payload.len;
  t->bytes_received += packet.len;
  rate_count(s, (u32)packet.len, now_ns);
}

// Room for an acknowledgement, an identifier, and the records of both.
static bool answer_room(const struct session *s) {
  return control_room(s) && s->b->controls.free_count >= 2 && durable_room(s->b, 0, 2);
}

static bool open_ticket(const struct session *s) {
  s->b->route_ticket = ticket_open(s->b, s);
  return s->b->route_ticket != NONE;
}

// The ticket of the present routing, when other cores have a part in it.
static u32 take_ticket(struct broker *b) {
  u32 ticket = b->route_ticket;
  b->route_ticket = NONE;
  if (ticket != NONE && ticket_at(b, ticket)->parts == 0) {
    ticket_leave(b, ticket);
    ticket = NONE;
  }
  return ticket;
}

// QoS 2: the identifier stays until PUBREL, or the exchange ends with this PUBREC (4.3.3).
static void inbound_settle(struct session *s, u16 packet_id, enum mqtt_reason reason) {
  struct durable *d = &s->b->durable;
  bool recorded = d->inbound == 0;  // the message's record has it
  d->inbound = 0;
  d->inbound_id = 0;
  bool ends =
      reason == MQTT_SERVER_BUSY || (reason >= MQTT_UNSPECIFIED_ERROR && s->version == MQTT_V5);
  if (ends) {
    (void)inbound_remove(s, packet_id);
  }
  if (recorded == ends) {
    durable_inbound(s, packet_id, !ends);
  }
}

// [MQTT-2.2.1-5] [MQTT-3.3.4-1] [MQTT-4.3.2-4] [MQTT-4.3.2-5] [MQTT-4.3.3-8] [MQTT-4.3.3-9]
// [MQTT-4.3.3-12] 3.1.1 [MQTT-3.3.5-2]
enum mqtt_reason broker_on_publish(struct session *s, const struct mqtt_publish *p,
                                   struct bytes packet, u64 now_ns) {
  struct broker *b = s->b;
  ASSERT(s->user != NULL);
  if (p->qos > 0 && !answer_room(s)) {
    return MQTT_SERVER_BUSY;
  }
  u64 mark = durable_mark(b);
  if (broker_publish_at(s) > now_ns) {
    return MQTT_MESSAGE_RATE_TOO_HIGH;
  }
  enum mqtt_reason reason = check_publish(s, p, packet);
  struct bytes topic = bytes_part(packet, p->topic);
  if (reason == MQTT_SUCCESS && mqtt_has(&p->props, MQTT_P_TOPIC_ALIAS)) {
    reason = resolve_alias(s, p, packet, &topic);
  }
  if (reason != MQTT_SUCCESS) {
    return reason;
  }
  topic = mount_in(b, session_mount(s), topic);
  if (topic.ptr == NULL) {
    return MQTT_TOPIC_NAME_INVALID;
  }
  ASSERT(topic.len > 0);
  if (p->qos == 2 && inbound_has(s, p->packet_id)) {  // I1
    rate_count(s, (u32)packet.len, now_ns);
    (void)control_push(s, MQTT_PUBREC, p->packet_id, MQTT_SUCCESS, NULL, 0);
    return MQTT_SUCCESS;
  }
  if (p->qos == 2 && s->inbound_count >= INBOUND_QOS2_MAX) {
    return MQTT_RECEIVE_MAXIMUM_EXCEEDED;
  }
  if (p->qos > 0 && b->cross != NULL && !open_ticket(s)) {
    return MQTT_SERVER_BUSY;
  }
  if (p->qos == 2) {
    bool added = inbound_add(s, p->packet_id);
    ASSERT(added);
    b->durable.inbound = s->number;
    b->durable.inbound_id = p->packet_id;
  }
  reason = route_publish(s, p, packet, topic, now_ns);
  u32 ticket = take_ticket(b);
  if (p->qos == 2) {
    inbound_settle(s, p->packet_id, reason);
  }
  if (reason == MQTT_SERVER_BUSY) {
    return reason;
  }
  if (p->qos > 0 && reason == MQTT_QUOTA_EXCEEDED && s->version != MQTT_V5) {
    // 3.1.1 cannot say that a message was not retained: rather than acknowledge what was not done
    // the connection ends.
    if (inbound_remove(s, p->packet_id)) {
      durable_inbound(s, p->packet_id, false);
    }
    if (ticket != NONE) {
      ticket_leave(b, ticket);
    }
    return reason;
  }
  count_publish(s, p, packet, now_ns);
  if (p->qos == 0) {
    return MQTT_SUCCESS;
  }
  u8 type = p->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC;
  // Room was asked for.
  (void)durable_push(s, mark, ticket, type, p->packet_id, (u8)reason, NULL, 0);
  return MQTT_SUCCESS;
}

// The inflight entry with this identifier, and its predecessor; NONE when there is none. Clients
// answer in order, so it is mostly the first.
static u32 inflight_find(const struct session *s, u16 packet_id, u32 *prev) {
  *prev = NONE;
  u32 i = s->inflight.head;
  while (i != NONE && entry_packet_id(entry_at(s->b, i)) != packet_id) {
    *prev = i;
    i = entry_at(s->b, i)->next;
  }
  return i;
}

static void inflight_remove(struct session *s, u32 index, u32 prev) {
  struct broker *b = s->b;
  struct entry *e = entry_at(b, index);
  durable_done(s, e);
  *(prev == NONE ? &s->inflight.head : &entry_at(b, prev)->next) = e->next;
  if (s->inflight.tail == index) {
    s->inflight.tail = prev;
  }
  inflight_sub(s, e);
  entry_free(b, index);
}

// [MQTT-4.3.3-3] [MQTT-4.3.3-6] [MQTT-4.3.3-13] [MQTT-4.4.0-2] [MQTT-4.8.2-6]
static enum mqtt_reason on_pubrec(struct session *s, const struct mqtt_ack *a) {
  u64 mark = durable_mark(s->b);
  u32 prev = NONE;
  u32 index = inflight_find(s, a->packet_id, &prev);
  struct entry *e = index == NONE ? NULL : entry_at(s->b, index);
  bool failed = a->reason >= MQTT_UNSPECIFIED_ERROR;  // the exchange ends here [MQTT-4.3.3-4]
  if (e == NULL) {
    u8 reason = s->version == MQTT_V5 ? MQTT_PACKET_ID_NOT_FOUND : MQTT_SUCCESS;
    if (!failed) {
      (void)control_push(s, MQTT_PUBREL, a->packet_id, reason, NULL, 0);
    }
    return MQTT_SUCCESS;
  }
  if (e->qos != 2) {
    return MQTT_PROTOCOL_ERROR;
  }
  if (failed) {
    inflight_remove(s, index, prev);
    return MQTT_SUCCESS;
  }
  if (e->state == ENTRY_SENT) {
    e->state = ENTRY_RELEASED;
    if (s->number != 0) {
      durable_received(s, e);
    } else {
      durable_done(s, e);  // a shared subscription's: nobody else gets it any more
    }
    inflight_sub(s, e);
    message_unref(s->b, e->message);
    e->message = NULL;
    inflight_add(s, e);  // its identifier is still in use
  }
  // [MQTT-4.3.3-5]
  (void)durable_push(s, mark, NONE, MQTT_PUBREL, a->packet_id, MQTT_SUCCESS, NULL, 0);
  return MQTT_SUCCESS;
}

// PUBACK of QoS 1, PUBCOMP of QoS 2 after its PUBREL. An identifier that is not in use is not an
// error (a repeated acknowledgement, or one of before a reconnect); one in use for something else
// is.
// [MQTT-4.3.2-3]
static enum mqtt_reason on_last_ack(struct session *s, enum mqtt_type type, u16 packet_id) {
  u32 prev = NONE;
  u32 index = inflight_find(s, packet_id, &prev);
  if (index == NONE) {
    return MQTT_SUCCESS;
  }
  const struct entry *e = entry_at(s->b, index);
  if (e->qos != (type == MQTT_PUBACK ? 1 : 2) ||
      e->state != (type == MQTT_PUBACK ? ENTRY_SENT : ENTRY_RELEASED)) {
    return MQTT_PROTOCOL_ERROR;
  }
  inflight_remove(s, index, prev);
  return MQTT_SUCCESS;
}

enum mqtt_reason broker_on_ack(struct session *s, enum mqtt_type type, const struct mqtt_ack *a,
                               u64 now_ns) {
  (void)now_ns;
  ASSERT(s->user != NULL);
  s->b->stats.messages_received++;
  bool answered = type == MQTT_PUBREC || type == MQTT_PUBREL;
  if (answered ? !control_room(s) || !durable_room(s->b, 0, 2)
               : broker_keeps(s->b) && !durable_removes_room(s->b)) {
    return MQTT_SERVER_BUSY;
  }
  u64 mark = durable_mark(s->b);
  enum mqtt_reason reason = MQTT_SUCCESS;
  if (type == MQTT_PUBREC) {
    reason = on_pubrec(s, a);
  } else if (type == MQTT_PUBREL) {
    bool known = inbound_remove(s, a->packet_id);
    if (known) {
      durable_inbound(s, a->packet_id, false);
    }
    u8 code = known || s->version != MQTT_V5 ? MQTT_SUCCESS : MQTT_PACKET_ID_NOT_FOUND;
    (void)durable_push(s, mark, NONE, MQTT_PUBCOMP, a->packet_id, code, NULL,
                       0);  // [MQTT-4.3.3-11]
  } else {
    ASSERT(type == MQTT_PUBACK || type == MQTT_PUBCOMP);
    reason = on_last_ack(s, type, a->packet_id);
  }
  if (s->shared != NONE) {
    share_available(s);
  }
  session_wake(s);
  return reason;
}

// [MQTT-3.12.4-1]
void broker_on_ping(struct session *s) {
  s->b->stats.messages_received++;
  if (control_room(s)) {  // who does not read what waits needs no further answer
    (void)control_push(s, MQTT_PINGRESP, 0, 0, NULL, 0);
  }
}

bool broker_publish(struct broker *b, struct bytes topic, struct bytes payload, u8 qos, bool retain,
                    u64 now_ns) {
  ASSERT(topic_name_valid(topic));
  struct message_in in = {.topic = topic,
                          .props_clean = true,
                          .payload = payload,
                          .qos = qos,
                          .retain = retain,
                          .expires_ns = NEVER_NS};
  struct route_result r = route(b, &in, NULL, now_ns);
  return !r.no_memory && !r.not_retained;
}
