// SPDX-License-Identifier: Apache-2.0
// A session's lists. `queue`: not yet sent on this connection. `inflight`: QoS 1 and 2, sent, not
// acknowledged, in order of sending. `control`: acknowledgements, in the order of what they answer.
//
// I1  Sequences of queue and inflight ascend; they never span more than 65535, so packet
//     identifiers (1 + sequence mod 65535) are unique among them [MQTT-2.2.1-4].
// I2  inflight.count = entries in the list + a QoS > 0 entry that is being streamed <= send_max.
// I3  ready is true exactly between wake and the pull that finds nothing more.
// I4  requeued_tail is the last entry of `queue` that was sent on an earlier connection (NONE:
//     none): everything before it was too, nothing behind it. What was sent never makes room.
// I5  stats.queued and queued_bytes are the sums over all queues, stats.inflight and inflight_bytes
//     over all inflight lists.
#include "broker/state.h"

void entries_push(struct broker *b, struct list *l, u32 index) {
  struct entry *e = entry_at(b, index);
  e->next = NONE;
  if (l->tail == NONE) {
    ASSERT(l->head == NONE);
    l->head = index;
  } else {
    entry_at(b, l->tail)->next = index;
  }
  l->tail = index;
  l->count++;
  l->bytes += entry_len(e);
}

u32 entries_pop(struct broker *b, struct list *l) {
  u32 index = l->head;
  ASSERT(index != NONE);
  ASSERT(l->count > 0);
  const struct entry *e = entry_at(b, index);
  l->head = e->next;
  if (l->head == NONE) {
    l->tail = NONE;
  }
  l->count--;
  l->bytes -= entry_len(e);
  return index;
}

// Takes out the one behind `prev`.
u32 entries_pop_behind(struct broker *b, struct list *l, u32 prev) {
  u32 index = entry_at(b, prev)->next;
  ASSERT(index != NONE);
  const struct entry *e = entry_at(b, index);
  entry_at(b, prev)->next = e->next;
  l->tail = l->tail == index ? prev : l->tail;
  l->count--;
  l->bytes -= entry_len(e);
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

void session_count_drop(struct session *s, enum broker_drop why) {
  s->dropped[why]++;
  s->b->stats.dropped[why]++;
  s->b->stats.publish_dropped++;
}

void session_wake(struct session *s) {
  if (s->ready || s->user == NULL) {
    return;
  }
  if (broker_has_output(s)) {
    s->ready = true;
    if (s->b->ops.wake != NULL) {
      s->b->ops.wake(s->user);
    }
  } else if (s->queue.head != NONE) {
    session_stall(s);
  }
}

// --- the queue, with the totals of all sessions

void queue_append(struct session *s, u32 index) {
  struct broker_stats *t = &s->b->stats;
  entries_push(s->b, &s->queue, index);
  t->queued++;
  t->queued_bytes += entry_len(entry_at(s->b, index));
}

u32 queue_pop_behind(struct session *s, u32 prev) {
  struct broker_stats *t = &s->b->stats;
  u32 index =
      prev == NONE ? entries_pop(s->b, &s->queue) : entries_pop_behind(s->b, &s->queue, prev);
  ASSERT(t->queued > 0);
  t->queued--;
  t->queued_bytes -= entry_len(entry_at(s->b, index));
  if (s->requeued_tail == index) {
    s->requeued_tail = prev;
  }
  return index;
}

void queue_clear(struct session *s) {
  while (s->queue.head != NONE) {
    if (s->number == 0) {
      durable_done(s, entry_at(s->b, s->queue.head));  // of a group that is kept
    }
    entry_free(s->b, queue_pop_behind(s, NONE));
  }
  ASSERT(s->queue.bytes == 0);
}

void queue_prepend(struct session *s, struct list *front) {
  struct broker_stats *t = &s->b->stats;
  if (front->head == NONE) {
    return;
  }
  entry_at(s->b, front->tail)->next = s->queue.head;
  s->queue.head = front->head;
  s->queue.tail = s->queue.tail == NONE ? front->tail : s->queue.tail;
  s->queue.count += front->count;
  s->queue.bytes += front->bytes;
  t->queued += front->count;
  t->queued_bytes += front->bytes;
  list_reset(front);
}

static bool sequence_has_room(const struct session *s) {
  u32 oldest = s->seq_next;
  if (s->inflight.head != NONE) {
    oldest = entry_at(s->b, s->inflight.head)->seq;
  } else if (s->stream != NONE && entry_at(s->b, s->stream)->qos > 0) {
    oldest = entry_at(s->b, s->stream)->seq;
  }
  u32 most = s->b->limits.session_queued_max;
  most = most == 0 ? 0 : MIN(most, 32768u);
  return s->seq_next - oldest < 65534u - most;  // I1: the oldest is never acknowledged
}

static bool over(u64 have, u64 more, u64 most) {
  return most != 0 && have + more > most;
}

// BROKER_DROPPED_COUNT: there is room.
static enum broker_drop queue_full(const struct session *s, u32 len, u8 qos, bool unlimited) {
  const struct broker_limits *l = &s->b->limits;
  const struct broker_stats *t = &s->b->stats;
  u64 most = (u64)l->session_queued_max * (qos == 0 ? QOS0_QUEUE_FACTOR : 1);
  if (!unlimited &&
      (over(s->queue.count, 1, most) || over(s->queue.bytes, len, l->session_queued_bytes_max))) {
    return BROKER_DROPPED_QUEUE;
  }
  if (over(t->queued, 1, l->queued_max) || over(t->queued_bytes, len, l->queued_bytes_max) ||
      s->b->entries.free_count == 0) {
    return BROKER_DROPPED_GLOBAL;
  }
  return BROKER_DROPPED_COUNT;
}

// I4: what was sent before is in the middle of its exchange and stays.
static bool drop_oldest(struct session *s) {
  u32 prev = s->requeued_tail;
  u32 victim = prev == NONE ? s->queue.head : entry_at(s->b, prev)->next;
  if (victim == NONE) {
    return false;
  }
  ASSERT(entry_at(s->b, victim)->state == ENTRY_QUEUED);
  durable_done(s, entry_at(s->b, victim));
  entry_free(s->b, queue_pop_behind(s, prev));
  session_count_drop(s, BROKER_DROPPED_OLD);
  return true;
}

// Room for one more of `len` bytes, made by the policy when it must; false: it is dropped, counted.
static bool queue_make_room(struct session *s, u32 len, u8 qos, bool unlimited) {
  const struct broker_limits *l = &s->b->limits;
  if (qos > 0 && !sequence_has_room(s)) {
    session_count_drop(s, BROKER_DROPPED_QUEUE);
    return false;
  }
  bool plain = s->queue.count < l->session_queued_max && !s->b->more_ceilings;
  if (plain && s->b->entries.free_count > 0) {  // nearly always
    return true;
  }
  enum broker_drop why = queue_full(s, len, qos, unlimited);
  bool fits_alone = !over(0, len, l->session_queued_bytes_max);
  while (why != BROKER_DROPPED_COUNT && l->drop_policy == BROKER_DROP_OLDEST && fits_alone &&
         drop_oldest(s)) {
    why = queue_full(s, len, qos, unlimited);
  }
  if (why == BROKER_DROPPED_COUNT) {
    return true;
  }
  session_count_drop(s, why);
  if (l->drop_policy == BROKER_DROP_CLIENT && why == BROKER_DROPPED_QUEUE) {
    session_doom(s, MQTT_QUOTA_EXCEEDED);
  }
  return false;
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

// [MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2] [MQTT-4.5.0-1]
// [MQTT-4.6.0-6] 3.1.1 [MQTT-3.1.2-5]
bool queue_push(struct session *s, struct message *m, u8 qos, bool retain, u32 subs,
                bool unlimited) {
  struct broker *b = s->b;
  ASSERT(qos <= 2);
  if (s->user == NULL && qos == 0 && !b->limits.queue_qos0 && s->move == 0) {
    return true;  // 4.1: QoS 0 is not kept for who is away
  }
  struct entry *e = queue_make_room(s, m->len, qos, unlimited) ? pool_take(&b->entries) : NULL;
  if (e == NULL) {
    return false;
  }
  e->message = message_ref(m);
  e->share = NONE;
  e->qos = qos;
  e->flags = retain ? ENTRY_RETAIN : 0;
  u32 index = pool_index(&b->entries, e);
  if (subs != NONE && !take_identifiers(b, e, subs)) {
    entry_free(b, index);
    session_count_drop(s, BROKER_DROPPED_GLOBAL);
    return false;
  }
  if (qos > 0) {
    e->seq = s->seq_next++;
    if (session_kept(s)) {
      durable_ref(s, e);
    }
  }
  queue_append(s, index);
  session_wake(s);
  return true;
}

// [MQTT-4.3.3-7]
void queue_requeue(struct session *s) {
  struct broker *b = s->b;
  if (s->stream != NONE) {
    struct entry *e = entry_at(b, s->stream);
    if (e->qos > 0) {
      ASSERT(s->inflight.count > 0);
      s->inflight.count--;
      s->inflight.bytes -= entry_len(e);
      e->flags |= e->state == ENTRY_QUEUED ? ENTRY_DUP : 0;  // the client may have it
      entries_push(b, &s->inflight, s->stream);
    } else {
      durable_done(s, e);
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
  struct list *in = &s->inflight;
  if (in->head != NONE) {
    entry_at(b, in->tail)->next = s->queue.head;
    s->queue.head = in->head;
    s->queue.tail = s->queue.tail == NONE ? in->tail : s->queue.tail;
    s->queue.count += in->count;
    s->queue.bytes += in->bytes;
    s->requeued_tail = s->requeued_tail == NONE ? in->tail : s->requeued_tail;
    b->stats.inflight -= in->count;
    b->stats.inflight_bytes -= in->bytes;
    b->stats.queued += in->count;
    b->stats.queued_bytes += in->bytes;
  }
  list_reset(in);
}
