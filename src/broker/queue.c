// SPDX-License-Identifier: Apache-2.0
// A session's lists. `queue`: not yet sent on this connection. `inflight`: QoS 1 and 2, sent, not
// acknowledged, in order of sending. `control`: acknowledgements, in the order of what they answer.
//
// I1  Sequences of queue and inflight ascend; they never span more than 65535, so packet
//     identifiers (1 + sequence mod 65535) are unique among them [MQTT-2.2.1-4].
// I2  inflight.count = entries in the list + a QoS > 0 entry that is being streamed <= send_max.
// I3  ready is true exactly between wake and the pull that finds nothing more.
#include "broker/state.h"

void entries_push(struct broker *b, struct list *l, u32 index) {
  entry_at(b, index)->next = NONE;
  if (l->tail == NONE) {
    ASSERT(l->head == NONE);
    l->head = index;
  } else {
    entry_at(b, l->tail)->next = index;
  }
  l->tail = index;
  l->count++;
}

u32 entries_pop(struct broker *b, struct list *l) {
  u32 index = l->head;
  ASSERT(index != NONE);
  ASSERT(l->count > 0);
  l->head = entry_at(b, index)->next;
  if (l->head == NONE) {
    l->tail = NONE;
  }
  l->count--;
  return index;
}

u32 *entry_ids(const struct broker *b, const struct entry *e) {
  ASSERT((e->flags & ENTRY_IDS) != 0);
  return (u32 *)(void *)(b->blocks.base + (usize)e->ids * BLOCK_GRANULE);
}

void entry_free(struct broker *b, u32 index) {
  struct entry *e = entry_at(b, index);
  if (e->message != NULL) {
    message_unref(b, e->message);
  }
  if ((e->flags & ENTRY_IDS) != 0) {
    blocks_put(&b->blocks, entry_ids(b, e));
  }
  pool_put(&b->entries, e);
}

void entries_clear(struct broker *b, struct list *l) {
  while (l->head != NONE) {
    entry_free(b, entries_pop(b, l));
  }
  list_reset(l);
}

void session_wake(struct session *s) {
  if (!s->ready && s->user != NULL && broker_has_output(s)) {
    s->ready = true;
    if (s->b->ops.wake != NULL) {
      s->b->ops.wake(s->user);
    }
  }
}

static bool queue_has_room(const struct session *s, u8 qos, bool unlimited) {
  const struct broker_limits *l = &s->b->limits;
  if (qos == 0) {
    return unlimited || s->queue.count < l->session_queued_max * QOS0_QUEUE_FACTOR;
  }
  u32 oldest = s->seq_next;
  if (s->inflight.head != NONE) {
    oldest = entry_at(s->b, s->inflight.head)->seq;
  } else if (s->stream != NONE && entry_at(s->b, s->stream)->qos > 0) {
    oldest = entry_at(s->b, s->stream)->seq;
  }
  if (s->seq_next - oldest >= 65534u - l->session_queued_max) {
    return false;  // I1: the oldest is never acknowledged
  }
  return unlimited || s->queue.count < l->session_queued_max;
}

// The identifiers of the chain of matched subscriptions; false when there is no memory.
static bool take_identifiers(struct broker *b, struct entry *e, u32 subs) {
  u32 count = 0;
  for (u32 i = subs; i != NONE; i = sub_at(b, i)->route_next) {
    count++;
  }
  if (count == 0) {
    return true;
  }
  if (count == 1) {
    e->identifier = sub_at(b, subs)->identifier;
    return true;
  }
  u32 *ids = blocks_take(&b->blocks, (u64)count * sizeof(u32));
  if (ids == NULL) {
    return false;
  }
  e->flags |= ENTRY_IDS;
  e->identifier = count;
  e->ids = (u32)(((u8 *)ids - b->blocks.base) / BLOCK_GRANULE);
  for (u32 i = subs, k = 0; i != NONE; i = sub_at(b, i)->route_next) {
    ids[k++] = sub_at(b, i)->identifier;
  }
  return true;
}

bool queue_push(struct session *s, struct message *m, u8 qos, bool retain, u32 subs,
                bool unlimited) {
  struct broker *b = s->b;
  ASSERT(qos <= 2);
  if (s->user == NULL && qos == 0) {
    return false;  // 4.1: QoS 0 is not kept for who is away
  }
  struct entry *e = queue_has_room(s, qos, unlimited) ? pool_take(&b->entries) : NULL;
  if (e == NULL) {
    s->dropped_full++;
    b->stats.publish_dropped++;
    return false;
  }
  e->message = message_ref(m);
  e->qos = qos;
  e->flags = retain ? ENTRY_RETAIN : 0;
  u32 index = pool_index(&b->entries, e);
  if (subs != NONE && !take_identifiers(b, e, subs)) {
    entry_free(b, index);
    s->dropped_full++;
    b->stats.publish_dropped++;
    return false;
  }
  if (qos > 0) {
    e->seq = s->seq_next++;
  }
  entries_push(b, &s->queue, index);
  session_wake(s);
  return true;
}

void queue_requeue(struct session *s) {
  struct broker *b = s->b;
  if (s->stream != NONE) {
    struct entry *e = entry_at(b, s->stream);
    if (e->qos > 0) {
      ASSERT(s->inflight.count > 0);
      s->inflight.count--;
      e->flags |= e->state == ENTRY_QUEUED ? ENTRY_DUP : 0;  // the client may have it
      entries_push(b, &s->inflight, s->stream);
    } else {
      entry_free(b, s->stream);
    }
    s->stream = NONE;
  }
  s->stream_off = 0;
  for (u32 i = s->inflight.head; i != NONE; i = entry_at(b, i)->next) {
    struct entry *e = entry_at(b, i);
    if (e->state == ENTRY_SENT) {
      e->state = ENTRY_QUEUED;
      e->flags |= ENTRY_DUP;  // [MQTT-3.3.1-1]
    }
  }
  if (s->inflight.head != NONE) {
    entry_at(b, s->inflight.tail)->next = s->queue.head;
    s->queue.head = s->inflight.head;
    s->queue.tail = s->queue.tail == NONE ? s->inflight.tail : s->queue.tail;
    s->queue.count += s->inflight.count;
  }
  list_reset(&s->inflight);
}

bool control_room(const struct session *s) {
  return s->control.count < CONTROL_MAX && s->b->controls.free_count > 0;
}

bool control_push(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block, u32 len) {
  struct broker *b = s->b;
  struct control *c = pool_take(&b->controls);
  if (c == NULL) {
    if (block != NULL) {
      blocks_put(&b->blocks, block);
    }
    return false;
  }
  *c = (struct control){.block = block,
                        .len = len,
                        .next = NONE,
                        .packet_id = packet_id,
                        .type = type,
                        .reason = reason};
  u32 index = pool_index(&b->controls, c);
  if (s->control.tail == NONE) {
    s->control.head = index;
  } else {
    control_at(b, s->control.tail)->next = index;
  }
  s->control.tail = index;
  s->control.count++;
  session_wake(s);
  return true;
}

void control_clear(struct session *s) {
  struct broker *b = s->b;
  while (s->control.head != NONE) {
    struct control *c = control_at(b, s->control.head);
    s->control.head = c->next;
    if (c->block != NULL) {
      blocks_put(&b->blocks, c->block);
    }
    pool_put(&b->controls, c);
  }
  list_reset(&s->control);
}

static u32 *inbound_link(struct session *s, u16 packet_id) {
  u32 *link = &s->inbound;
  while (*link != NONE && control_at(s->b, *link)->packet_id != packet_id) {
    link = &control_at(s->b, *link)->next;
  }
  return link;
}

bool inbound_has(const struct session *s, u16 packet_id) {
  u32 i = s->inbound;
  while (i != NONE && control_at(s->b, i)->packet_id != packet_id) {
    i = control_at(s->b, i)->next;
  }
  return i != NONE;
}

bool inbound_add(struct session *s, u16 packet_id) {
  struct control *c = pool_take(&s->b->controls);
  if (c == NULL) {
    return false;
  }
  u32 *link = inbound_link(s, packet_id);
  ASSERT(*link == NONE);
  c->packet_id = packet_id;
  c->next = NONE;
  *link = pool_index(&s->b->controls, c);
  s->inbound_count++;
  return true;
}

bool inbound_remove(struct session *s, u16 packet_id) {
  u32 *link = inbound_link(s, packet_id);
  if (*link == NONE) {
    return false;
  }
  struct control *c = control_at(s->b, *link);
  *link = c->next;
  pool_put(&s->b->controls, c);
  ASSERT(s->inbound_count > 0);
  s->inbound_count--;
  return true;
}
