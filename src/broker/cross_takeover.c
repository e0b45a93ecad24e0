// SPDX-License-Identifier: Apache-2.0
// A session moves from core A, where it was, to core B, where its client has connected again.
// Modelled in tests/models/takeover.pml.
//
//   B -> A     TAKE: A ends its connection. Without a session to keep: TAKEN, that is all.
//   A -> B     HEAD, its subscriptions, SUBS_END. A goes on queueing for it, and so does B as soon
//              as it has the subscriptions: by them B enters the filters' sets of cores.
//   B          waits until every core has seen that (cross_live.c)
//   B -> all   MARK: each core X puts a MARKER into its rings to A and to B, at one point of what
//   it
//              publishes. What X published before is A's, what comes behind is B's (I1).
//   A -> B     when A has all markers: the queue, END. A forgets the session.
//   B          puts what came from A before what it has queued itself; the CONNECT goes on.
//
// I1  A message of core X for this session is queued by A while X's bit is not in export.cut, by B
//     once it is in claim.cut: by one of them, whatever ways both copies go.
// I2  B takes all memory for session and subscriptions before MARK; until then it can refuse, and A
//     keeps the session. Messages it has no room for are dropped and counted, as always.
// I3  session.move is 0 or says which of the two it is on: 1 + export, or MOVE_IN + claim.
#include "broker/cross.h"

#define MOVE_IN 0x8000u

bool takeover_skips(const struct session *s) {
  const struct cross *x = s->b->cross;
  u64 from = 1ull << s->b->route_from;
  ASSERT(s->move != 0);
  return s->move < MOVE_IN ? (x->export[s->move - 1].cut & from) != 0
                           : (x->claim[s->move - MOVE_IN].cut & from) == 0;
}

static void say(struct broker *b, u32 to, u32 kind, struct move_mail m) {
  post(b, to, kind, &m, sizeof m);
}

// --- on A

static void export_end(struct broker *b, struct export *e) {
  session_at(b, e->session)->move = 0;
  *e = (struct export){.state = EXPORT_FREE};
  b->cross->export_count--;
}

static void on_take(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  struct cross *x = b->cross;
  const struct take_mail *m = (const struct take_mail *)(const void *)body.ptr;
  struct session *s = session_find(b, bytes_of(m->id, m->id_len));
  if (x->export_count == EXPORTS) {
    say(b, from, MAIL_TAKEN, (struct move_mail){.claim = m->claim, .refused = s != NULL});
    return;
  }
  if (s != NULL && s->user != NULL) {
    session_take_over(s, core->now_ns);
  }
  if (s != NULL && (m->clean || s->expiry_s == 0)) {  // [MQTT-3.1.2-4]
    session_end(s, core->now_ns);
    s = NULL;
  }
  if (s == NULL) {
    say(b, from, MAIL_TAKEN, (struct move_mail){.claim = m->claim});
    return;
  }
  ASSERT(s->move == 0);
  u32 i = 0;
  while (x->export[i].state != EXPORT_FREE) {
    i++;
  }
  session_drop_will(s);  // [MQTT-3.1.3-9]
  session_disarm(s);
  x->export[i] = (struct export){.session = s->index,
                                 .claim = m->claim,
                                 .to = (u8)from,
                                 .state = EXPORT_SUBS,
                                 .sub = s->subs != NONE ? s->subs : s->shared};
  x->export_count++;
  s->move = (u16)(1 + i);
  say(b, from, MAIL_HEAD,
      (struct move_mail){.claim = m->claim, .export = i, .number = s->expiry_s});
}

// The subscription's group and filter in one block; NULL: no memory.
static u8 *sub_text(struct broker *b, const struct sub *sub, struct sub_mail *m) {
  struct bytes filter;
  struct bytes group = BYTES_LIT("");
  if (sub->share != NONE) {
    group = level_text_bytes(&share_at(b, sub->share)->name);
  }
  bool fits = tree_filter(b, sub->node, span_of(b->mounted, sizeof b->mounted), &filter);
  ASSERT(fits);
  u8 *text = blocks_take(&b->blocks, group.len + filter.len);
  if (text != NULL) {
    memcpy(text, group.ptr, group.len);
    memcpy(text + group.len, filter.ptr, filter.len);
  }
  m->text = text;
  m->group_len = (u32)group.len;
  m->filter_len = (u32)filter.len;
  return text;
}

static void *put(struct broker *b, u32 to, u32 kind, u32 len) {
  struct span s = mailbox_put(b->core, to, MAIL_DATA, (enum mail_kind)kind, len, true);
  ASSERT(s.ptr != NULL);  // cross_data_room was asked
  return s.ptr;
}

// False: no room now.
static bool send_sub(struct broker *b, struct export *e) {
  const struct sub *sub = sub_at(b, e->sub);
  const struct session *s = sub->session;
  struct sub_mail m = {
      .claim = e->claim, .identifier = sub->identifier, .qos = sub->qos, .flags = sub->flags};
  if (!cross_data_room(b, e->to, sizeof m) || sub_text(b, sub, &m) == NULL) {
    return false;
  }
  *(struct sub_mail *)put(b, e->to, MAIL_SUB, sizeof m) = m;
  e->sub = sub->session_next == NONE && sub->share == NONE ? s->shared : sub->session_next;
  return true;
}

static void sub_back(struct core *core, u32 to, struct span body) {
  (void)to;
  blocks_put(&core->broker->blocks, ((struct sub_mail *)(void *)body.ptr)->text);
}

static bool send_entry(struct broker *b, struct export *e) {
  struct session *s = session_at(b, e->session);
  if (!cross_data_room(b, e->to, sizeof(struct entry_mail))) {
    return false;
  }
  bool requeued = s->requeued_tail != NONE;
  u32 index = queue_pop_behind(s, NONE);
  struct entry *n = entry_at(b, index);
  bool list = (n->flags & ENTRY_IDS) != 0;
  *(struct entry_mail *)put(b, e->to, MAIL_ENTRY, sizeof(struct entry_mail)) =
      (struct entry_mail){.message = n->message,
                          .ids = list ? entry_ids(b, n) : NULL,
                          .claim = e->claim,
                          .identifier = n->identifier,
                          .seq = n->seq,
                          .qos = n->qos,
                          .state = n->state,
                          .flags = n->flags,
                          .requeued = requeued};
  b->mail_refs += n->message != NULL ? 1 : 0;
  pool_put(&b->entries, n);
  return true;
}

static void entry_back(struct core *core, u32 to, struct span body) {
  struct broker *b = core->broker;
  const struct entry_mail *m = (const struct entry_mail *)(const void *)body.ptr;
  (void)to;
  if (m->message != NULL) {
    b->mail_refs--;
    message_unref(b, m->message);
  }
  if (m->ids != NULL) {
    blocks_put(&b->blocks, m->ids);
  }
}

static bool send_inbound(struct broker *b, struct export *e) {
  struct session *s = session_at(b, e->session);
  if (!cross_data_room(b, e->to, sizeof(struct inbound_mail))) {
    return false;
  }
  struct inbound_mail *m = put(b, e->to, MAIL_INBOUND, sizeof *m);
  *m = (struct inbound_mail){.claim = e->claim};
  while (s->inbound != NONE && m->count < INBOUND_A_MAIL) {
    m->id[m->count] = control_at(b, s->inbound)->packet_id;
    (void)inbound_remove(s, m->id[m->count]);
    m->count++;
  }
  return true;
}

// One export as far as there is room. True when it could go on.
static void export_step(struct broker *b, struct export *e) {
  struct session *s = session_at(b, e->session);
  bool room = true;
  if (e->state == EXPORT_SUBS) {
    while (room && e->sub != NONE) {
      room = send_sub(b, e);
    }
    if (room) {
      e->state = EXPORT_MARKERS;
      say(b, e->to, MAIL_SUBS_END, (struct move_mail){.claim = e->claim});
    }
    return;
  }
  if (e->state == EXPORT_MARKERS && e->cut == cross_all(b)) {
    e->state = EXPORT_QUEUE;
  }
  if (e->state != EXPORT_QUEUE) {
    return;
  }
  while (room && s->queue.head != NONE) {
    room = send_entry(b, e);
  }
  while (room && s->inbound != NONE) {
    room = send_inbound(b, e);
  }
  if (room) {
    say(b, e->to, MAIL_END, (struct move_mail){.claim = e->claim, .number = s->seq_next});
    export_end(b, e);
    s->place_gen = 0;  // it lives on elsewhere
    session_free(s);
  }
}

static void on_refuse(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  struct export *e = &b->cross->export[m->export];
  struct session *s = session_at(b, e->session);
  ASSERT(e->state == EXPORT_SUBS || e->state == EXPORT_MARKERS);
  ASSERT(e->cut == 0);
  export_end(b, e);
  session_left(s, core->now_ns);
  say(b, from, MAIL_CANCELLED, (struct move_mail){.claim = m->claim});
}

// --- on every core

static void on_mark(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  struct move_mail m = *(const struct move_mail *)(const void *)body.ptr;
  (void)from;
  u32 old = m.from;
  u32 new = m.to;
  m.old = true;
  say(b, old, MAIL_MARKER, m);
  m.old = false;
  say(b, new, MAIL_MARKER, m);
}

// Everything has come: what came from A goes before what was queued here, which gets its sequences
// now.
static void open_session(struct broker *b, struct claim *c) {
  struct session *s = session_at(b, c->session);
  if (!c->ended || c->cut != cross_all(b)) {
    return;
  }
  ASSERT(s->requeued_tail == NONE);
  for (u32 i = s->queue.head; i != NONE; i = entry_at(b, i)->next) {
    struct entry *e = entry_at(b, i);
    e->seq = e->qos > 0 ? s->seq_next++ : 0;
  }
  queue_prepend(s, &c->tail);
  s->requeued_tail = c->requeued_tail;
  s->move = 0;
  claim_ready(b, c, MQTT_SUCCESS);
}

static void on_marker(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  struct cross *x = b->cross;
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  u64 *cut = m->old ? &x->export[m->export].cut : &x->claim[m->claim].cut;
  ASSERT((*cut & 1ull << from) == 0);
  *cut |= 1ull << from;
  if (!m->old) {
    open_session(b, &x->claim[m->claim]);
  }
}

// --- on B

void takeover_begin(struct broker *b, struct claim *c) {
  c->state = CLAIM_TAKING;
  struct take_mail m = {.id = c->identity.client_id.ptr,
                        .id_len = (u32)c->identity.client_id.len,
                        .claim = claim_index(b, c),
                        .clean = c->connect.clean_start};
  post(b, c->from, MAIL_TAKE, &m, sizeof m);
}

static struct claim *claim_of(struct core *core, u32 claim, enum claim_state state) {
  struct claim *c = &core->broker->cross->claim[claim];
  ASSERT(claim < CLAIMS);
  ASSERT(c->block != NULL);
  ASSERT(c->state == state);
  return c;
}

static void on_taken(struct core *core, u32 from, struct span body) {
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_TAKING);
  (void)from;
  c->from = m->refused ? c->from : NOWHERE;
  claim_ready(core->broker, c, m->refused ? MQTT_SERVER_BUSY : MQTT_SUCCESS);
}

static void on_head(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_TAKING);
  struct names names;
  ASSERT(from == c->from);
  c->state = CLAIM_SUBS;
  c->export = m->export;
  c->requeued_tail = NONE;
  bool named = names_set(b, &names, c->identity.client_id, c->identity.username);
  struct session *s = named ? session_new(b, &names) : NULL;
  if (s == NULL) {
    c->failed = true;
    if (named) {
      names_put(b, &names);
    }
    return;
  }
  c->session = s->index;
  s->expiry_s = m->number;
  s->move = (u16)(MOVE_IN + claim_index(b, c));
}

static void on_sub(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct sub_mail *m = (const struct sub_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_SUBS);
  (void)from;
  if (c->failed) {
    return;
  }
  bool existed = false;
  struct sub *sub =
      tree_subscribe(b, session_at(b, c->session), bytes_of(m->text + m->group_len, m->filter_len),
                     bytes_of(m->text, m->group_len), &existed);
  c->failed = sub == NULL;
  if (sub != NULL) {
    ASSERT(!existed);
    sub->qos = m->qos;
    sub->flags = m->flags;
    sub->identifier = m->identifier;
  }
}

static void on_subs_end(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_SUBS);
  if (c->failed) {  // I2
    say(b, from, MAIL_REFUSE, (struct move_mail){.claim = m->claim, .export = c->export});
    return;
  }
  c->state = CLAIM_LIVE;
  c->live_seq = live_seq(b);
}

static void on_cancelled(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_SUBS);
  (void)from;
  if (c->session != NONE) {
    session_at(b, c->session)->move = 0;
    session_free(session_at(b, c->session));
    c->session = NONE;
  }
  claim_ready(b, c, MQTT_QUOTA_EXCEEDED);
}

static void send_marks(struct broker *b, struct claim *c) {
  struct move_mail m = {
      .claim = claim_index(b, c), .export = c->export, .from = c->from, .to = (u8)b->core->id};
  c->state = CLAIM_TAIL;
  for (u32 to = 0; to < b->cross->shared->cores; to++) {
    say(b, to, MAIL_MARK, m);
  }
}

static void on_entry(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct entry_mail *m = (const struct entry_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_TAIL);
  struct session *s = session_at(b, c->session);
  (void)from;
  struct entry *e = pool_take(&b->entries);
  struct message *copy = m->message == NULL || e == NULL ? NULL : message_adopt(b, m->message);
  u32 *ids =
      m->ids == NULL || e == NULL ? NULL : blocks_take(&b->blocks, m->identifier * sizeof(u32));
  if (e == NULL || (copy == NULL) != (m->message == NULL) || (ids == NULL) != (m->ids == NULL)) {
    session_count_drop(s, BROKER_DROPPED_GLOBAL);
    if (copy != NULL) {
      message_unref(b, copy);
    }
    if (e != NULL) {
      pool_put(&b->entries, e);
    }
    return;
  }
  *e = (struct entry){.message = copy,
                      .seq = m->seq,
                      .identifier = m->identifier,
                      .qos = m->qos,
                      .state = m->state,
                      .flags = m->flags,
                      .share = NONE};
  if (ids != NULL) {
    memcpy(ids, m->ids, m->identifier * sizeof(u32));
    e->ids = (u32)(((u8 *)ids - b->blocks.base) / BLOCK_GRANULE);
  }
  u32 index = pool_index(&b->entries, e);
  entries_push(b, &c->tail, index);
  c->requeued_tail = m->requeued ? index : c->requeued_tail;
}

static void on_inbound(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct inbound_mail *m = (const struct inbound_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_TAIL);
  (void)from;
  for (u32 i = 0; i < m->count; i++) {
    (void)inbound_add(session_at(b, c->session), m->id[i]);
  }
}

// The queue of A has come; a marker may still be under way.
static void on_end(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct move_mail *m = (const struct move_mail *)(const void *)body.ptr;
  struct claim *c = claim_of(core, m->claim, CLAIM_TAIL);
  (void)from;
  ASSERT(!c->ended);
  session_at(b, c->session)->seq_next = m->number;
  c->ended = true;
  open_session(b, c);
}

// Of its shared subscriptions: the old core's may go now.
static bool groups_joined(const struct session *s) {
  for (u32 i = s->shared; i != NONE; i = sub_at(s->b, i)->session_next) {
    if (!branch_joined(s->b, sub_at(s->b, i)->share)) {
      return false;
    }
  }
  return true;
}

bool takeover_stage(struct broker *b) {
  struct cross *x = b->cross;
  for (u32 i = 0; i < EXPORTS && x->export_count > 0; i++) {
    if (x->export[i].state != EXPORT_FREE) {
      export_step(b, &x->export[i]);
    }
  }
  for (u32 i = 0; i < CLAIMS && x->claim_count > 0; i++) {
    struct claim *c = &x->claim[i];
    if (c->block != NULL && c->state == CLAIM_LIVE && live_until(b) >= c->live_seq &&
        groups_joined(session_at(b, c->session))) {
      send_marks(b, c);
    }
  }
  return false;
}

void takeover_open(struct core *core) {
  static const struct {
    u32 kind;
    mail_take *take;
    mail_done *done;
  } mail[] = {
      {MAIL_TAKE, on_take, NULL},           {MAIL_TAKEN, on_taken, NULL},
      {MAIL_HEAD, on_head, NULL},           {MAIL_SUB, on_sub, sub_back},
      {MAIL_SUBS_END, on_subs_end, NULL},   {MAIL_REFUSE, on_refuse, NULL},
      {MAIL_CANCELLED, on_cancelled, NULL}, {MAIL_MARK, on_mark, NULL},
      {MAIL_MARKER, on_marker, NULL},       {MAIL_ENTRY, on_entry, entry_back},
      {MAIL_INBOUND, on_inbound, NULL},     {MAIL_END, on_end, NULL},
  };
  for (u32 i = 0; i < ARRAY_COUNT(mail); i++) {
    mailbox_on(core, (enum mail_kind)mail[i].kind, mail[i].take, mail[i].done);
  }
}
