// SPDX-License-Identifier: Apache-2.0
// What the disk holds, back into memory: records are applied one by one, in order, before anybody
// connects (record.h R1..R8). All sessions are offline then.
//
// I1  Between begin and end nothing is recorded: durable.store is NULL.
// I2  Sessions and groups are found by their number in a table that exists only meanwhile; chains
//     go through their route_next, which nothing else uses then. The highest bit of an index says
//     that it is a group's.
// I3  Meanwhile `normal_end` of a session says: it is connected.
// I4  What may have been sent (queued while its session was connected, or before it connected
//     again) carries DUP and counts as sent (queue.c I4).
#include "broker/state.h"

#define GROUP_BIT 0x80000000u

static u32 *bucket_of(const struct broker *b, u64 number) {
  u64 hash = number * 0x9e3779b97f4a7c15ull;
  return &b->restore->bucket[(u32)(hash >> 32) & b->restore->mask];
}

static u32 *next_of(const struct broker *b, u32 i) {
  return (i & GROUP_BIT) != 0 ? &share_at(b, i & ~GROUP_BIT)->route_next
                              : &session_at(b, i)->route_next;
}
static u64 number_of(const struct broker *b, u32 i) {
  return (i & GROUP_BIT) != 0 ? share_at(b, i & ~GROUP_BIT)->number : session_at(b, i)->number;
}

// NONE: there is no such session or group (any more).
static u32 find(const struct broker *b, u64 number) {
  u32 i = *bucket_of(b, number);
  while (i != NONE && number_of(b, i) != number) {
    i = *next_of(b, i);
  }
  return i;
}
static struct session *find_session(const struct broker *b, u64 number) {
  u32 i = find(b, number);
  return i == NONE || (i & GROUP_BIT) != 0 ? NULL : session_at(b, i);
}
static struct share *find_group(const struct broker *b, u64 number) {
  u32 i = find(b, number);
  return i == NONE || (i & GROUP_BIT) == 0 ? NULL : share_at(b, i & ~GROUP_BIT);
}
static void insert(struct broker *b, u32 i) {
  u32 *bucket = bucket_of(b, number_of(b, i));
  *next_of(b, i) = *bucket;
  *bucket = i;
}
static void unlink(struct broker *b, u32 i) {
  u32 *link = bucket_of(b, number_of(b, i));
  while (*link != i) {
    ASSERT(*link != NONE);
    link = next_of(b, *link);
  }
  *link = *next_of(b, i);
  *next_of(b, i) = NONE;
}

static u64 to_ns(const struct broker *b, u64 ms) {
  const struct restore *r = b->restore;
  u64 now_ms = store_wall_ms(r->store, b->core->now_ns);
  if (ms <= now_ms) {
    u64 ago = now_ms - ms;
    return ago >= b->core->now_ns / 1000000 ? 0 : b->core->now_ns - ago * 1000000;
  }
  u64 ahead = ms - now_ms;
  return ahead > NEVER_NS / 4000000 ? NEVER_NS : b->core->now_ns + ahead * 1000000;
}

// --- Messages and queues

static void forget_message(struct broker *b) {
  struct restore *r = b->restore;
  if (r->message != NULL) {
    message_unref(b, r->message);
    r->message = NULL;
  }
  if (r->body != NULL) {
    blocks_put(&b->blocks, r->body);
    r->body = NULL;
  }
}

static void mark_sent(struct session *s, struct entry *e, u32 index) {
  e->flags |= ENTRY_DUP;
  s->requeued_tail = index;
}

static bool add_to_session(struct session *s, struct message *m, const struct record_ref *ref) {
  struct broker *b = s->b;
  struct entry *e = pool_take(&b->entries);
  if (e == NULL) {
    return false;
  }
  e->message = message_ref(m);
  e->share = NONE;
  e->qos = ref->qos;
  e->seq = ref->seq;
  e->flags = ref->retain ? ENTRY_RETAIN : 0;
  u32 index = pool_index(&b->entries, e);
  if (ref->id_count == 1) {
    e->identifier = record_ref_id(ref, 0);
  } else if (ref->id_count > 1) {
    u32 *ids = blocks_take(&b->blocks, ref->ids.len);
    if (ids == NULL) {
      entry_free(b, index);
      return false;
    }
    e->flags |= ENTRY_IDS;
    e->identifier = ref->id_count;
    e->ids = (u32)(((u8 *)ids - b->blocks.base) / BLOCK_GRANULE);
    for (u32 i = 0; i < ref->id_count; i++) {
      ids[i] = record_ref_id(ref, i);
    }
  }
  queue_append(s, index);
  if (s->normal_end) {
    mark_sent(s, e, index);
  }
  if ((i32)(ref->seq + 1 - s->seq_next) > 0) {  // R6
    s->seq_next = ref->seq + 1;
  }
  return true;
}

static bool apply_refs(struct broker *b, struct message *m, struct bytes refs) {
  struct record_ref ref;
  u32 pos = 0;
  while (record_ref_next(refs, &pos, &ref)) {
    struct session *s = find_session(b, ref.target);
    struct share *g = s == NULL ? find_group(b, ref.target) : NULL;
    if (s != NULL && !add_to_session(s, m, &ref)) {
      return false;
    }
    if (g != NULL && !share_restore(b, g, m)) {
      return false;
    }
  }
  return true;
}

static bool make_message(struct broker *b, struct bytes body) {
  struct restore *r = b->restore;
  const struct record_publish *p = &r->publish;
  struct record_body parts = record_publish_body(p, body);
  struct access_who who = {parts.username, parts.client_id, p->has_username};
  struct message_in in = {.topic = parts.topic,
                          .props = parts.props,
                          .props_clean = true,
                          .payload = parts.payload,
                          .qos = p->qos,
                          .retain = p->retain,
                          .expires_ns = p->expires_ms == 0 ? NEVER_NS : to_ns(b, p->expires_ms),
                          .origin = parts.client_id.len > 0 ? &who : NULL,
                          .origin_set = p->access_set};
  r->message = message_make(b, &in);
  if (r->message == NULL) {
    return false;
  }
  r->message->lsn = r->lsn;
  return !p->keep || retained_set(b, r->message, 0);
}

static bool apply_publish(struct broker *b, u64 lsn, const struct record_publish *p) {
  struct restore *r = b->restore;
  forget_message(b);
  r->publish = *p;
  r->lsn = lsn;
  struct session *s = find_session(b, p->inbound_session);
  if (s != NULL && !inbound_has(s, p->inbound_id) && !inbound_add(s, p->inbound_id)) {
    return false;
  }
  s = find_session(b, p->will_of);
  if (s != NULL) {
    session_drop_will(s);
  }
  u64 len = record_publish_body_len(p);
  if (p->part.len == len) {
    return make_message(b, p->part) && apply_refs(b, r->message, p->refs);
  }
  r->body = blocks_take(&b->blocks, len);
  if (r->body == NULL) {
    return false;
  }
  memcpy(r->body, p->part.ptr, p->part.len);
  r->body_len = (u32)p->part.len;
  return true;
}

static bool apply_chunk(struct broker *b, struct bytes chunk) {
  struct restore *r = b->restore;
  u64 len = r->body == NULL ? 0 : record_publish_body_len(&r->publish);
  if (chunk.len > len - r->body_len) {
    return true;  // of a body that is not a message's
  }
  memcpy(r->body + r->body_len, chunk.ptr, chunk.len);
  r->body_len += (u32)chunk.len;
  return r->body_len < len || make_message(b, bytes_of(r->body, r->body_len));
}

// The entry of this message in a queue; NULL: it is not there.
static struct message *in_queue(const struct broker *b, const struct list *l, u64 lsn) {
  u32 i = l->head;
  while (i != NONE && (entry_at(b, i)->message == NULL || entry_at(b, i)->message->lsn != lsn)) {
    i = entry_at(b, i)->next;
  }
  return i == NONE ? NULL : entry_at(b, i)->message;
}

static bool apply_queue(struct broker *b, const struct record_queue *q) {
  struct message *m = q->message == 0 ? b->restore->message : NULL;
  if (q->message != 0 && q->from == 0) {
    m = retained_find(b, q->topic);
    m = m != NULL && m->lsn == q->message ? m : NULL;
  } else if (q->message != 0) {
    const struct session *s = find_session(b, q->from);
    const struct share *g = s == NULL ? find_group(b, q->from) : NULL;
    m = s != NULL   ? in_queue(b, &s->queue, q->message)
        : g != NULL ? in_queue(b, &g->queue, q->message)
                    : NULL;
  }
  return m == NULL || apply_refs(b, m, q->refs);
}

// The entry with this sequence and its predecessor; NONE.
static u32 entry_of(const struct session *s, u32 seq, u32 *prev) {
  u32 i = s->queue.head;
  *prev = NONE;
  while (i != NONE && (entry_at(s->b, i)->qos == 0 || entry_at(s->b, i)->seq != seq)) {
    *prev = i;
    i = entry_at(s->b, i)->next;
  }
  return i;
}

static void apply_remove(struct broker *b, struct bytes entries) {
  u64 target;
  u32 seq;
  u32 pos = 0;
  while (record_remove_next(entries, &pos, &target, &seq)) {
    struct session *s = find_session(b, target);
    struct share *g = s == NULL ? find_group(b, target) : NULL;
    u32 prev;
    if (s != NULL && entry_of(s, seq, &prev) != NONE) {
      entry_free(b, queue_pop_behind(s, prev));
    } else if (g != NULL) {
      share_restore_remove(b, g, seq);
    }
  }
}

static void apply_received(struct broker *b, u64 session, u32 seq) {
  struct session *s = find_session(b, session);
  u32 prev;
  u32 i = s == NULL ? NONE : entry_of(s, seq, &prev);
  if (i == NONE || entry_at(b, i)->message == NULL) {
    return;
  }
  struct entry *e = entry_at(b, i);
  s->queue.bytes -= entry_len(e);
  b->stats.queued_bytes -= entry_len(e);
  message_unref(b, e->message);
  e->message = NULL;
  e->state = ENTRY_RELEASED;
}

// --- Sessions

static bool set_will(struct session *s, const struct record_session *r) {
  struct broker *b = s->b;
  session_drop_will(s);
  if (!r->has_will) {
    return true;
  }
  struct access_who who = session_who(s);
  struct message_in in = {
      .topic = r->will_topic,
      .props = r->will_props,
      .props_clean = true,
      .payload = r->will_payload,
      .qos = r->will_qos,
      .retain = r->will_retain,
      .expires_ns = r->will_expiry_s == U32_MAX ? NEVER_NS : r->will_expiry_s * NS,
      .origin = &who,
      .origin_set = r->access_set};
  s->will = message_make(b, &in);
  s->will_delay_s = r->will_delay_s;
  return s->will != NULL;
}

static bool apply_session(struct broker *b, u64 lsn, const struct record_session *r) {
  struct session *s = find_session(b, r->session);
  struct names names;
  if (s == NULL && (r->session != 0 || session_find(b, r->client_id) != NULL)) {
    return true;  // R1
  }
  if (!names_set(b, &names, r->client_id, r->username)) {
    return false;
  }
  if (s != NULL) {
    names_put(b, &s->names);
    s->names = names;
  } else {
    s = session_new(b, &names);
    if (s == NULL) {
      names_put(b, &names);
      return false;
    }
    s->number = lsn;
    insert(b, s->index);
  }
  struct broker_identity id = {.has_username = r->has_username, .access_set = r->access_set};
  access_identity(s, &id);
  s->expiry_s = s->connect_expiry_s = r->expiry_s;
  s->expire_at_ns = NEVER_NS;
  s->normal_end = true;
  for (u32 i = s->queue.head; i != NONE; i = entry_at(b, i)->next) {
    mark_sent(s, entry_at(b, i), i);
  }
  return set_will(s, r);
}

static void go_offline(struct session *s, u64 at_ns) {
  s->normal_end = false;
  s->expire_at_ns = s->expiry_s == U32_MAX ? NEVER_NS : at_ns + s->expiry_s * NS;
  s->will_at_ns = s->will == NULL ? NEVER_NS : at_ns + s->will_delay_s * NS;
}

static void apply_offline(struct broker *b, const struct record_offline *r) {
  struct session *s = find_session(b, r->session);
  if (s == NULL) {
    return;
  }
  s->expiry_s = r->expiry_s;
  if (!r->has_will) {
    session_drop_will(s);
  }
  go_offline(s, to_ns(b, r->at_ms));
}

static void leave_group(struct broker *b, const struct sub *sub) {
  if (sub->share != NONE && share_at(b, sub->share)->kept == 1) {
    unlink(b, sub->share | GROUP_BIT);
  }
}

static void apply_end(struct broker *b, u64 session) {
  struct session *s = find_session(b, session);
  if (s == NULL) {
    return;
  }
  for (u32 i = s->shared; i != NONE; i = sub_at(b, i)->session_next) {
    leave_group(b, sub_at(b, i));
  }
  unlink(b, s->index);
  session_drop_will(s);
  session_end(s, b->core->now_ns);
}

static bool apply_subscribe(struct broker *b, u64 lsn, const struct record_subscribe *r) {
  struct session *s = find_session(b, r->session);
  bool existed = false;
  if (s == NULL) {
    return true;
  }
  struct sub *sub = tree_subscribe(b, s, r->filter, r->name, &existed);
  if (sub == NULL) {
    return false;
  }
  sub->qos = r->qos;
  sub->flags = r->flags;
  sub->identifier = r->identifier;
  if (sub->share != NONE) {
    struct share *g = share_at(b, sub->share);
    g->kept += existed ? 0 : 1;
    if (g->number == 0) {
      g->number = r->group != 0 ? r->group : lsn;
      insert(b, sub->share | GROUP_BIT);
    }
  }
  return true;
}

static void apply_unsubscribe(struct broker *b, const struct record_subscribe *r) {
  struct session *s = find_session(b, r->session);
  struct sub *sub = s == NULL ? NULL : tree_find(b, s, r->filter, r->name);
  if (sub != NULL) {
    leave_group(b, sub);
    tree_remove(b, sub);
  }
}

// Who was connected when the power went is offline since the start that followed (R7).
static void all_offline(struct broker *b, u64 at_ns) {
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] != 0 && session_at(b, i)->normal_end) {
      go_offline(session_at(b, i), at_ns);
    }
  }
}

// --- All of it

bool broker_restore_begin(struct broker *b, const struct store *store) {
  ASSERT(b->durable.store == NULL && b->stats.clients_total == 0);
  u32 size = b->session_table.mask + 1;
  u64 len = sizeof(struct restore) + (u64)size * sizeof(u32);
  struct restore *r = blocks_take(&b->blocks, len);
  if (r == NULL) {
    return false;
  }
  *r = (struct restore){.store = store, .mask = size - 1};
  memset(r->bucket, 0xff, (usize)size * sizeof(u32));  // NONE
  b->restore = r;
  return true;
}

bool broker_restore(void *broker, u64 lsn, const struct record *r) {
  struct broker *b = broker;
  struct session *s;
  ASSERT(b->restore != NULL);
  switch (r->kind) {
  case RECORD_BOOT: all_offline(b, to_ns(b, r->boot.at_ms)); return true;
  case RECORD_PUBLISH: return apply_publish(b, lsn, &r->publish);
  case RECORD_CHUNK: return apply_chunk(b, r->chunk);
  case RECORD_QUEUE: return apply_queue(b, &r->queue);
  case RECORD_REMOVE: apply_remove(b, r->remove); return true;
  case RECORD_RECEIVED: apply_received(b, r->received.session, r->received.seq); return true;
  case RECORD_INBOUND_ADD:
    s = find_session(b, r->inbound.session);
    return s == NULL || inbound_has(s, r->inbound.packet_id) ||
           inbound_add(s, r->inbound.packet_id);
  case RECORD_INBOUND_REMOVE:
    s = find_session(b, r->inbound.session);
    if (s != NULL) {
      (void)inbound_remove(s, r->inbound.packet_id);
    }
    return true;
  case RECORD_SESSION: return apply_session(b, lsn, &r->session);
  case RECORD_OFFLINE: apply_offline(b, &r->offline); return true;
  case RECORD_SESSION_END: apply_end(b, r->session_end); return true;
  case RECORD_SUBSCRIBE: return apply_subscribe(b, lsn, &r->subscribe);
  case RECORD_UNSUBSCRIBE: apply_unsubscribe(b, &r->subscribe); return true;
  case RECORD_RETAIN_CLEAR: retained_delete(b, r->topic, 0); return true;
  default: return true;  // CONTROL: nobody keeps one yet
  }
}

void broker_restore_end(struct broker *b, struct store *store) {
  all_offline(b, b->core->now_ns);
  forget_message(b);
  blocks_put(&b->blocks, b->restore);
  b->restore = NULL;
  b->durable.store = store;
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] != 0) {
      session_at(b, i)->route_next = NONE;
      session_arm(session_at(b, i));
    }
  }
  for (u32 i = 0; i < b->shares.count; i++) {
    if (b->shares.state[i] != 0) {
      share_at(b, i)->route_next = NONE;
    }
  }
}
