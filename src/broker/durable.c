// SPDX-License-Identifier: Apache-2.0
// What is kept across a power cut: sessions that outlive their connection, and retained messages.
// Each change of them is a record of the store, written where it happens; what is promised to a
// client waits until its record is durable (ticket.c). docs/formats/promises.md has the table.
//
// I1  A session is kept from its CONNECT on: number != 0. Whether it is does not change while it is
//     connected.
// I2  A packet is only begun when there is room for all its records (durable_room): records are
//     never left out of what is promised.
// I3  What nobody can be made to wait with (ends, removals) is left out without room, and counted:
//     it comes back after a cut as something that was not acknowledged.
// I4  Removals are collected and written behind: each is behind the record that made its entry.
// I5  A message that is being routed has one record, begun by its first receiver that is kept.
#include "broker/state.h"

#define REF_MOST (RECORD_REF_LEN + 4 * RECORD_IDS_MAX)
#define PUBLISH_HEAD 56u
#define SESSION_HEAD 48u
#define SYSTEM BYTES_LIT("$SYS/")

bool durable_has_room(const struct broker *b, u64 len, u32 count) {
  return store_room(b->durable.store, len + 64, count + 2, false) && b->tickets.free_count > 0;
}

bool durable_push_after(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block, u32 len,
                        u32 ticket) {
  struct broker *b = s->b;
  const struct durable *d = &b->durable;
  if (!d->relaxed && !s->relaxed) {
    ticket = ticket != NONE ? ticket : ticket_open(b, s);
    ASSERT(ticket != NONE);  // durable_room
    ticket_expect_lsn(b, ticket, d->last_lsn);
  }
  return control_push_after(s, type, packet_id, reason, block, len, ticket);
}

// --- Records

static bool small_room(struct durable *d, u64 len) {
  bool room = store_room(d->store, len, 2, true);
  d->store->lost += room ? 0 : 1;
  return room;
}

static void append_as(struct durable *d, const struct record *r) {
  ASSERT(!d->open);
  struct writer w = store_begin(d->store);
  record_write(r, &w);
  d->last_lsn = store_commit(d->store, record_type(r), &w);
}

// A record by itself; without room it is left out (I3).
static void append(struct broker *b, const struct record *r, u64 len) {
  if (small_room(&b->durable, len)) {
    append_as(&b->durable, r);
  }
}

static void begin(struct durable *d, u8 kind) {
  ASSERT(!d->open);
  d->w = store_begin(d->store);
  d->kind = kind;
  d->open = true;
}

static void commit(struct durable *d, bool more) {
  ASSERT(d->open);
  d->last_lsn = store_commit(d->store, (u16)(d->kind | (more ? RECORD_MORE : 0)), &d->w);
  d->open = false;
}

// --- Messages

struct message_body {
  struct bytes part[5];
  u64 len;
};

static void add_part(struct message_body *body, u32 i, struct bytes part) {
  body->part[i] = part;
  body->len += part.len;
}

// Fills the lengths too. Who published it stands behind the message (access.c I3).
static void body_of(const struct message *m, struct record_publish *p, struct message_body *body) {
  *body = (struct message_body){.len = 0};
  if (m->origin_len > 0) {
    struct reader r = reader_init(bytes_of(m->data + m->len, m->origin_len));
    p->access_set = read_u8(&r);
    p->has_username = read_u8(&r) != 0;
    p->client_len = read_be16(&r);
    p->username_len = read_be16(&r);
    add_part(body, 2, reader_bytes(&r, read_part(&r, p->client_len)));
    add_part(body, 3, reader_bytes(&r, read_part(&r, p->username_len)));
    ASSERT(r.err == ERR_OK);
  }
  p->topic_len = m->topic_len;
  p->props_len = m->payload_off - m->raw_off;
  p->payload_len = m->len - m->payload_off;
  add_part(body, 0, message_topic(m));
  add_part(body, 1, bytes_of(m->data + m->raw_off, p->props_len));
  add_part(body, 4, bytes_of(m->data + m->payload_off, p->payload_len));
}

// What fits the first record is written, then chunks.
static void write_body(struct durable *d, const struct message_body *body, u32 room) {
  for (u32 i = 0; i < 5; i++) {
    struct bytes b = body->part[i];
    while (b.len > 0) {
      if (room == 0) {
        commit(d, true);
        begin(d, RECORD_CHUNK);
        room = RECORD_MAX;
      }
      u32 n = (u32)MIN(b.len, (usize)room);
      write_bytes(&d->w, bytes_sub(b, 0, n));
      room -= n;
      b = bytes_skip(b, n);
    }
  }
}

static void begin_publish(struct broker *b, struct message *m, bool keep) {
  struct durable *d = &b->durable;
  u64 now_ns = b->core->now_ns;
  struct message_body body;
  struct record r = {.kind = RECORD_PUBLISH};
  struct record_publish *p = &r.publish;
  *p = (struct record_publish){.qos = m->qos,
                               .retain = m->retain,
                               .keep = keep,
                               .inbound_id = d->inbound_id,
                               .inbound_session = d->inbound,
                               .will_of = d->will_of,
                               .at_ms = store_wall_ms(d->store, now_ns)};
  if (m->expires_ns != NEVER_NS) {
    p->expires_ms = store_wall_ms(d->store, m->expires_ns);
  }
  body_of(m, p, &body);
  u32 first = (u32)MIN(body.len, (u64)(RECORD_MAX - PUBLISH_HEAD));
  begin(d, RECORD_PUBLISH);
  m->lsn = d->store->next_lsn;
  record_write_publish_head(p, first, &d->w);
  ASSERT(d->w.pos == PUBLISH_HEAD);
  write_body(d, &body, first);
  d->inbound = d->will_of = 0;
  d->inbound_id = 0;
}

static void begin_queue(struct durable *d, u64 message, u64 from, struct bytes topic) {
  struct record r = {.kind = RECORD_QUEUE, .queue = {message, from, topic, {0}}};
  begin(d, RECORD_QUEUE);
  record_write(&r, &d->w);
}

// The record that takes this message's receivers is open. False: there is no room.
static bool open_for(struct broker *b, struct message *m) {
  struct durable *d = &b->durable;
  if (d->open) {
    ASSERT(d->message == m);
    if (writer_left(&d->w) >= REF_MOST) {
      return true;
    }
    if (!small_room(d, RECORD_MAX)) {
      return false;
    }
    commit(d, true);
    begin_queue(d, 0, 0, bytes_of(NULL, 0));
    return true;
  }
  u64 len = PUBLISH_HEAD + (u64)m->len + m->origin_len;
  if (!store_room(d->store, len + REF_MOST, (u32)(len / RECORD_MAX) + 2, true)) {
    d->store->lost++;
    return false;
  }
  if (m->lsn != 0) {
    begin_queue(d, m->lsn, 0, message_topic(m));
  } else {
    begin_publish(b, m, d->message == m && d->keep);
  }
  return true;
}

static void close_unless_routing(struct broker *b, const struct message *m) {
  if (b->durable.message != m) {
    commit(&b->durable, false);
  }
}

static void write_entry(const struct session *s, struct entry *e, struct writer *w) {
  u8 text[4 * RECORD_IDS_MAX];
  struct record_ref ref = {
      .target = s->number, .seq = e->seq, .qos = e->qos, .retain = (e->flags & ENTRY_RETAIN) != 0};
  bool list = (e->flags & ENTRY_IDS) != 0;
  u32 count = list ? e->identifier : e->identifier != 0 ? 1 : 0;
  ref.id_count = (u8)MIN(count, RECORD_IDS_MAX);
  for (u32 i = 0; i < ref.id_count; i++) {
    store_le32(text + (usize)i * 4, list ? entry_ids(s->b, e)[i] : e->identifier);
  }
  ref.ids = bytes_of(text, (usize)ref.id_count * 4);
  record_write_ref(&ref, w);
  e->lsn = (u32)s->b->durable.store->next_lsn;
}

void durable_ref(struct session *s, struct entry *e) {
  struct broker *b = s->b;
  ASSERT(s->number != 0);
  if (!bytes_starts_with(message_topic(e->message), SYSTEM) && open_for(b, e->message)) {
    write_entry(s, e, &b->durable.w);
    close_unless_routing(b, e->message);
  }
}

void durable_group_ref(struct broker *b, const struct share *g, struct message *m) {
  struct record_ref ref = {.target = g->number, .qos = m->qos};
  ASSERT(g->number != 0);
  if (!bytes_starts_with(message_topic(m), SYSTEM) && open_for(b, m)) {
    record_write_ref(&ref, &b->durable.w);
    close_unless_routing(b, m);
  }
}

void durable_moved(struct broker *b, const struct session *s, const struct share *g,
                   struct entry *e, bool to_session) {
  struct durable *d = &b->durable;
  u8 text[DURABLE_REMOVE_LEN];
  struct writer w = writer_init(span_of(text, sizeof text));
  if (s->number == 0 || g->number == 0 || e->message->lsn == 0 ||
      !small_room(d, REF_MOST + 64ull)) {
    return;
  }
  begin_queue(d, e->message->lsn, to_session ? g->number : s->number, bytes_of(NULL, 0));
  if (to_session) {
    write_entry(s, e, &d->w);
    record_write_remove(g->number, (u32)e->message->lsn, &w);
  } else {
    struct record_ref ref = {.target = g->number, .qos = e->message->qos};
    record_write_ref(&ref, &d->w);
    record_write_remove(s->number, e->seq, &w);
  }
  commit(d, true);
  append_as(d, &(struct record){.kind = RECORD_REMOVE, .remove = writer_bytes(&w)});
}

enum durable_verdict durable_may_route(const struct broker *b, const struct message_in *in,
                                       bool retain, const struct session *publisher) {
  const struct durable *d = &b->durable;
  bool keep = retain;
  if (bytes_starts_with(in->topic, SYSTEM)) {
    return DURABLE_YES;  // nothing of it is kept
  }
  bool kept_qos = in->qos > 0 || b->limits.upgrade_outgoing_qos;
  u64 refs = 0;
  for (u32 i = b->route_head; i != NONE; i = session_at(b, i)->route_next) {
    refs += session_at(b, i)->number != 0 && kept_qos ? 1 : 0;
  }
  for (u32 i = b->route_shared; i != NONE; i = share_at(b, i)->route_next) {
    refs += share_at(b, i)->number != 0 ? 1 : 0;
  }
  if (refs == 0 && !keep) {
    return DURABLE_YES;
  }
  if (store_refuses(d->store)) {
    return DURABLE_REFUSED;
  }
  u64 names = publisher == NULL ? 0 : publisher->names.id_len + publisher->names.username_len;
  u64 len = PUBLISH_HEAD + in->topic.len + in->props.len + in->payload.len + names +
            refs * REF_MOST + 256;
  if (len > RECORD_GROUP_MAX) {
    return DURABLE_REFUSED;
  }
  return durable_room(b, len, (u32)(len / (RECORD_MAX - REF_MOST)) + 2) ? DURABLE_YES
                                                                        : DURABLE_BUSY;
}

void durable_route_begin(struct broker *b, struct message *m, bool kept) {
  struct durable *d = &b->durable;
  ASSERT(d->message == NULL);
  d->message = m;
  d->keep = kept && !bytes_starts_with(message_topic(m), SYSTEM);
  if (d->keep) {
    (void)open_for(b, m);
  }
}

void durable_route_end(struct broker *b) {
  struct durable *d = &b->durable;
  if (d->open) {
    commit(d, false);
  }
  d->message = NULL;
  d->keep = false;
}

void durable_retain_clear(struct broker *b, const struct message *m) {
  if (b->durable.store != NULL && m->lsn != 0) {
    append(b, &(struct record){.kind = RECORD_RETAIN_CLEAR, .topic = message_topic(m)},
           m->topic_len);
  }
}

// --- Queues

bool durable_removes_room(const struct broker *b) {
  return b->durable.remove_len < sizeof b->durable.removes;
}

bool durable_flush_removes(struct broker *b) {
  struct durable *d = &b->durable;
  if (d->remove_len == 0 || !store_room(d->store, d->remove_len, 1, true)) {
    return false;
  }
  append_as(d,
            &(struct record){.kind = RECORD_REMOVE, .remove = bytes_of(d->removes, d->remove_len)});
  d->remove_len = 0;
  return true;
}

static void remove_later(struct broker *b, u64 target, u32 seq) {
  struct durable *d = &b->durable;
  bool full = d->remove_len == sizeof d->removes;
  if (full && (d->open || !durable_flush_removes(b))) {
    d->store->lost++;
    return;
  }
  struct writer w = writer_init(span_of(d->removes + d->remove_len, DURABLE_REMOVE_LEN));
  record_write_remove(target, seq, &w);
  d->remove_len += w.pos;
}

void durable_group_done(struct broker *b, const struct share *g, const struct message *m) {
  if (b->durable.store != NULL && g->number != 0 && m->lsn != 0) {
    remove_later(b, g->number, (u32)m->lsn);
  }
}

void durable_removed(const struct session *s, const struct entry *e) {
  struct broker *b = s->b;
  if (s->number != 0 && e->qos > 0) {
    remove_later(b, s->number, e->seq);
  } else if ((e->flags & ENTRY_IDS) == 0 && e->share != NONE && e->message != NULL) {
    durable_group_done(b, share_at(b, e->share), e->message);
  }
}

bool durable_waits(const struct session *s, const struct entry *e) {
  const struct durable *d = &s->b->durable;
  if (d->store == NULL || s->number == 0 || d->relaxed || s->relaxed) {
    return false;
  }
  // Only the low half is kept: an entry that is older than 2^32 records may wait for one flush.
  u32 next = (u32)d->store->next_lsn;
  return next - e->lsn < next - (u32)store_durable(d->store);
}

void durable_wait(struct session *s) {
  struct durable *d = &s->b->durable;
  if (!s->disk_waits) {
    s->disk_waits = true;
    s->disk_next = d->wait_head;
    d->wait_head = s->index;
  }
}

void durable_forget(struct session *s) {
  if (!s->disk_waits) {
    return;
  }
  u32 *link = &s->b->durable.wait_head;
  while (*link != s->index) {
    ASSERT(*link != NONE);
    link = &session_at(s->b, *link)->disk_next;
  }
  *link = s->disk_next;
  s->disk_waits = false;
}

void broker_durable(void *broker, u64 lsn) {
  struct broker *b = broker;
  ticket_durable(b, lsn);
  u32 i = b->durable.wait_head;
  b->durable.wait_head = NONE;
  while (i != NONE) {
    struct session *s = session_at(b, i);
    i = s->disk_next;
    s->disk_waits = false;
    session_wake(s);  // or it waits again
  }
}

// --- QoS 2 and sessions

void durable_received(struct session *s, struct entry *e) {
  struct record r = {.kind = RECORD_RECEIVED};
  if (s->number == 0 || s->b->durable.store == NULL) {
    return;
  }
  r.received.session = s->number;
  r.received.seq = e->seq;
  append(s->b, &r, 16);
  e->lsn = (u32)s->b->durable.last_lsn;
}

void durable_inbound(struct session *s, u16 packet_id, bool add) {
  struct record r = {.kind = add ? RECORD_INBOUND_ADD : RECORD_INBOUND_REMOVE};
  if (s->number == 0 || s->b->durable.store == NULL) {
    return;
  }
  r.inbound.session = s->number;
  r.inbound.packet_id = packet_id;
  append(s->b, &r, 16);
}

enum mqtt_reason durable_may_connect(const struct broker *b, const struct names *names,
                                     const struct message *will, bool kept) {
  const struct durable *d = &b->durable;
  if (d->store == NULL) {
    return MQTT_SUCCESS;
  }
  const struct session *old = session_find(b, names_id(names));
  bool known = old != NULL && old->number != 0;
  u64 len =
      SESSION_HEAD + (u64)names->id_len + names->username_len + (will == NULL ? 0 : will->len);
  if (!known && !kept) {
    return MQTT_SUCCESS;
  }
  if (d->store->state == STORE_FAILED) {
    return MQTT_SERVER_UNAVAILABLE;
  }
  if (len > RECORD_MAX || (store_refuses(d->store) && !known)) {
    return MQTT_QUOTA_EXCEEDED;
  }
  return durable_room(b, len, 4) ? MQTT_SUCCESS : MQTT_SERVER_BUSY;
}

void durable_session(struct session *s) {
  struct broker *b = s->b;
  if (b->durable.store == NULL || (s->number == 0 && s->expiry_s == 0)) {
    return;
  }
  struct record r = {.kind = RECORD_SESSION};
  const struct message *w = s->will;
  r.session = (struct record_session){.session = s->number,
                                      .has_username = s->has_username,
                                      .access_set = s->access_set,
                                      .expiry_s = s->expiry_s,
                                      .will_delay_s = s->will_delay_s,
                                      .will_expiry_s = U32_MAX,
                                      .at_ms = store_wall_ms(b->durable.store, b->core->now_ns),
                                      .client_id = names_id(&s->names),
                                      .username = names_username(&s->names)};
  if (w != NULL) {
    r.session.has_will = true;
    r.session.will_qos = w->qos;
    r.session.will_retain = w->retain;
    r.session.will_expiry_s =
        w->expires_ns == NEVER_NS ? U32_MAX : (u32)MIN(w->expires_ns / NS, (u64)U32_MAX - 1);
    r.session.will_topic = message_topic(w);
    r.session.will_props = bytes_of(w->data + w->raw_off, w->payload_off - w->raw_off);
    r.session.will_payload = bytes_of(w->data + w->payload_off, message_payload_len(w));
  }
  append_as(&b->durable, &r);  // room was asked for
  s->number = s->number != 0 ? s->number : b->durable.last_lsn;
}

static u32 left_s(const struct session *s) {
  u64 now_ns = s->b->core->now_ns;
  if (s->expire_at_ns == NEVER_NS) {
    return U32_MAX;
  }
  u64 left = s->expire_at_ns > now_ns ? s->expire_at_ns - now_ns : 0;
  return (u32)MIN((left + NS - 1) / NS, (u64)U32_MAX - 1);
}

void durable_offline(struct session *s) {
  struct broker *b = s->b;
  if (b->durable.store == NULL || s->number == 0) {
    return;
  }
  struct record r = {.kind = RECORD_OFFLINE};
  r.offline = (struct record_offline){.session = s->number,
                                      .at_ms = store_wall_ms(b->durable.store, b->core->now_ns),
                                      .expiry_s = left_s(s),
                                      .has_will = s->will != NULL};
  append(b, &r, 32);
}

void durable_session_end(struct session *s) {
  if (s->b->durable.store != NULL && s->number != 0) {
    append(s->b, &(struct record){.kind = RECORD_SESSION_END, .session_end = s->number}, 16);
  }
}

static struct record subscribe_record(const struct session *s, u8 kind, struct bytes filter,
                                      struct bytes group) {
  struct record r = {.kind = kind};
  r.subscribe = (struct record_subscribe){.session = s->number, .name = group, .filter = filter};
  return r;
}

void durable_subscribe(struct session *s, const struct sub *sub, struct bytes filter,
                       struct bytes group, bool existed) {
  struct broker *b = s->b;
  if (b->durable.store == NULL || s->number == 0) {
    return;
  }
  struct share *g = sub->share != NONE ? share_at(b, sub->share) : NULL;
  struct record r = subscribe_record(s, RECORD_SUBSCRIBE, filter, group);
  r.subscribe.group = g != NULL ? g->number : 0;
  r.subscribe.qos = sub->qos;
  r.subscribe.flags = sub->flags;
  r.subscribe.identifier = sub->identifier;
  append_as(&b->durable, &r);  // room was asked for
  if (g != NULL) {
    g->number = g->number != 0 ? g->number : b->durable.last_lsn;
    g->kept += existed ? 0 : 1;
  }
}

void durable_unsubscribe(struct session *s, struct bytes filter, struct bytes group) {
  if (s->b->durable.store != NULL && s->number != 0) {
    struct record r = subscribe_record(s, RECORD_UNSUBSCRIBE, filter, group);
    append_as(&s->b->durable, &r);  // room was asked for
  }
}

void broker_set_relaxed(struct broker *b, bool relaxed) {
  b->durable.relaxed = relaxed;
}
