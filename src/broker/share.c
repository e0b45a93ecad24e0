// SPDX-License-Identifier: Apache-2.0
// Shared subscriptions (4.8.2). A message waits in its group's queue until a member has room to
// send it: then, and not before, it becomes that member's. So no message waits for one member while
// another is idle, and what a member has not acknowledged goes to another when it leaves.
//
// A group asks its members in turn (an offer: `due` of the subscription, `offered` of the group),
// as many as it has messages; a member takes what it was offered when its connection pulls. A
// member that was asked and is not pulled is stuck: the stage takes the offer back and asks others.
//
// I1  offered = sum of its members' due <= messages in the queue. A session's due is the sum over
//     its subscriptions, 0 while it is offline, and never more than its window has room for.
// I2  A group with messages is in wait_list. `full`: it has more messages than offers and no member
//     can take one; who becomes able to (share_available) asks again.
// I3  QoS 2 that was sent stays with its session and ends with it [MQTT-4.8.2-4] [MQTT-4.8.2-5];
//     QoS 0 and 1 that was not acknowledged goes back to the front of the queue, in order: at the
//     end of the session to any other member, at the end of the connection to one that is there.
#include "broker/cross.h"

#define QUEUE_MAX 16u       // of a member's own; beyond, it is behind and not asked
#define OFFERS_MAX 1000u    // to one member, when its window is wide
#define GROUPS_A_TURN 64u   // that the stage looks at
#define UNREADABLE_MAX 16u  // messages a member passes over because it may not read them

static u32 take_first(struct broker *b, struct share *g, u32 prev) {
  u32 index = prev == NONE ? entries_pop(b, &g->queue) : entries_pop_behind(b, &g->queue, prev);
  const struct entry *e = entry_at(b, index);
  ASSERT(b->stats.queued > 0);
  b->stats.queued--;
  b->stats.queued_bytes -= entry_len(e);
  if (g->queue.count == 0) {
    list_remove(&g->wait);
  }
  return index;
}

static void count_in(struct broker *b, struct share *g, u32 index) {
  b->stats.queued++;
  b->stats.queued_bytes += entry_len(entry_at(b, index));
  if (!list_linked(&g->wait)) {
    list_push(&b->wait_list, &g->wait);
  }
}

static bool can_take(const struct session *s) {
  return s->user != NULL && !s->stuck && s->queue.count < QUEUE_MAX && s->due < OFFERS_MAX &&
         s->inflight.count + s->queue.count + s->due < s->send_max;
}

// The next member that can take the first message of the queue.
static u32 next_member(struct broker *b, struct share *g) {
  const struct message *m = entry_at(b, g->queue.head)->message;
  if (b->access_on) {
    access_begin(b, m);
  }
  u32 i = g->cursor == NONE ? g->first : g->cursor;
  for (u32 k = 0; k < g->count; k++) {
    struct sub *sub = sub_at(b, i);
    u32 next = sub->node_next == NONE ? g->first : sub->node_next;
    if (can_take(sub->session) && (!b->access_on || access_may_read(sub->session, m))) {
      g->cursor = next;
      return i;
    }
    i = next;
  }
  return NONE;
}

static bool give_away(struct broker *b, struct share *g) {
  bool gone = branch_give(b, pool_index(&b->shares, g), entry_at(b, g->queue.head)->message);
  if (gone) {
    entry_free(b, take_first(b, g, NONE));
  }
  return gone;
}

// Asks members until there is an offer for each message, or nobody can take one.
static void offer(struct broker *b, struct share *g) {
  while (g->offered < g->queue.count) {
    u32 i = next_member(b, g);
    if (b->cross != NULL && (i == NONE || g->away) && give_away(b, g)) {
      g->away = false;
      continue;
    }
    if (i == NONE) {
      break;
    }
    g->away = true;
    struct sub *sub = sub_at(b, i);
    sub->due++;
    sub->session->due++;
    g->offered++;
    session_wake(sub->session);
  }
  g->full = g->offered < g->queue.count;
}

static void withdraw(struct broker *b, struct sub *sub) {
  struct share *g = share_at(b, sub->share);
  ASSERT(g->offered >= sub->due);
  ASSERT(sub->session->due >= sub->due);
  g->offered -= sub->due;
  sub->session->due -= sub->due;
  sub->due = 0;
}

// --- messages in

static bool readable_by_any(struct broker *b, const struct share *g, const struct message *m) {
  for (u32 i = g->first; b->access_on && i != NONE; i = sub_at(b, i)->node_next) {
    if (access_may_read(sub_at(b, i)->session, m)) {
      return true;
    }
  }
  return !b->access_on;
}

static void drop_first(struct broker *b, struct share *g) {
  u32 index = take_first(b, g, NONE);
  durable_group_done(b, g, entry_at(b, index)->message);
  entry_free(b, index);
}

static bool has_room(struct broker *b, struct share *g, u32 len) {
  const struct broker_limits *l = &b->limits;
  const struct broker_stats *t = &b->stats;
  u64 bytes_max = l->session_queued_bytes_max;
  bool own = (l->session_queued_max == 0 || g->queue.count < l->session_queued_max) &&
             (bytes_max == 0 || g->queue.bytes + len <= bytes_max);
  bool all = (l->queued_max == 0 || t->queued < l->queued_max) &&
             (l->queued_bytes_max == 0 || t->queued_bytes + len <= l->queued_bytes_max) &&
             b->entries.free_count > 0;
  if (own && all) {
    return true;
  }
  bool oldest = l->drop_policy == BROKER_DROP_OLDEST && g->queue.count > g->offered;
  enum broker_drop why = oldest ? BROKER_DROPPED_OLD
                         : own  ? BROKER_DROPPED_GLOBAL
                                : BROKER_DROPPED_QUEUE;
  b->stats.dropped[why]++;
  b->stats.publish_dropped++;
  if (oldest) {
    drop_first(b, g);
  }
  return oldest && g->queue.bytes + len <= (bytes_max == 0 ? U64_MAX : bytes_max);
}

static bool elsewhere(const struct broker *b, const struct share *g) {
  return b->cross != NULL && branch_elsewhere(b, pool_index(&b->shares, g));
}

static bool enqueue(struct broker *b, struct share *g, struct message *m);

bool share_push(struct broker *b, struct share *g, struct message *m) {
  bool others = elsewhere(b, g);
  ASSERT(g->count > 0 || b->cross != NULL);
  if (g->count == 0 && !others) {
    return true;  // the last has gone, it is not forgotten yet
  }
  if (m->qos == 0 && g->online == 0 && !b->limits.queue_qos0 && !others) {
    return true;  // 4.1: QoS 0 is not kept when nobody is there
  }
  if (!others && !readable_by_any(b, g, m)) {
    return true;
  }
  return enqueue(b, g, m);
}

static bool enqueue(struct broker *b, struct share *g, struct message *m) {
  struct entry *e = has_room(b, g, m->len) ? pool_take(&b->entries) : NULL;
  if (e == NULL) {
    return false;
  }
  e->message = message_ref(m);
  e->share = NONE;
  if (g->number != 0) {
    durable_group_ref(b, g, m);
  }
  u32 index = pool_index(&b->entries, e);
  entries_push(b, &g->queue, index);
  count_in(b, g, index);
  if (!g->full) {
    offer(b, g);
  }
  return true;
}

bool share_restore(struct broker *b, struct share *g, struct message *m) {
  struct entry *e = pool_take(&b->entries);
  if (e == NULL) {
    return false;
  }
  ASSERT(g->online == 0);
  e->message = message_ref(m);
  e->share = NONE;
  u32 index = pool_index(&b->entries, e);
  entries_push(b, &g->queue, index);
  count_in(b, g, index);
  g->full = true;  // nobody is connected
  return true;
}

void share_restore_remove(struct broker *b, struct share *g, u32 lsn) {
  u32 prev = NONE;
  u32 i = g->queue.head;
  while (i != NONE && (u32)entry_at(b, i)->message->lsn != lsn) {
    prev = i;
    i = entry_at(b, i)->next;
  }
  if (i != NONE) {
    entry_free(b, take_first(b, g, prev));
    g->full = g->queue.count > 0;
  }
}

// --- messages out

// The first message of the group that this member may read; NONE: none among the first.
static u32 take_readable(struct broker *b, struct share *g, struct session *s) {
  u32 prev = NONE;
  u32 i = g->queue.head;
  for (u32 k = 0; b->access_on && i != NONE && k < UNREADABLE_MAX; k++) {
    access_begin(b, entry_at(b, i)->message);
    if (access_may_read(s, entry_at(b, i)->message)) {
      return take_first(b, g, prev);
    }
    prev = i;
    i = entry_at(b, i)->next;
  }
  return b->access_on || i == NONE ? NONE : take_first(b, g, NONE);
}

// The subscription that is next to take; offers come in turn, so does taking.
static struct sub *next_due(const struct session *s) {
  u32 i = s->shared;
  ASSERT(i != NONE);
  while (sub_at(s->b, i)->due == 0) {
    i = sub_at(s->b, i)->session_next;
    ASSERT(i != NONE);  // I1
  }
  return sub_at(s->b, i);
}

void share_take(struct session *s) {
  struct broker *b = s->b;
  ASSERT(share_can_take(s));
  struct sub *sub = next_due(s);
  struct share *g = share_at(b, sub->share);
  ASSERT(g->offered > 0);
  sub->due--;
  s->due--;
  g->offered--;
  g->taken++;
  u32 index = take_readable(b, g, s);
  if (index == NONE) {
    offer(b, g);  // to one who may
    return;
  }
  struct entry *e = entry_at(b, index);
  const struct message *m = e->message;
  e->share = sub->share;
  e->qos = delivery_qos(b, sub->qos, m->qos);  // [MQTT-4.8.2-3]
  e->flags = (sub->flags & SUB_RAP) != 0 && m->retain ? ENTRY_RETAIN : 0;
  e->identifier = sub->identifier;
  e->state = ENTRY_QUEUED;
  if (e->qos > 0) {
    e->seq = s->seq_next++;
    durable_moved(b, s, g, e, true);
  }
  queue_append(s, index);
}

void share_available(struct session *s) {
  struct broker *b = s->b;
  if (b->cross != NULL) {
    branch_look_all(s);
  }
  if (s->shared == NONE || list_empty(&b->wait_list) || !can_take(s)) {
    return;
  }
  for (u32 i = s->shared; i != NONE; i = sub_at(b, i)->session_next) {
    struct sub *sub = sub_at(b, i);
    struct share *g = share_at(b, sub->share);
    if (g->offered < g->queue.count) {
      offer(b, g);
    }
  }
}

// Its window is full: what it was offered is others'.
static void return_offers(struct session *s) {
  struct broker *b = s->b;
  for (u32 i = s->shared; i != NONE && s->due > 0; i = sub_at(b, i)->session_next) {
    if (sub_at(b, i)->due > 0) {
      withdraw(b, sub_at(b, i));
      offer(b, share_at(b, sub_at(b, i)->share));
    }
  }
}

void share_settle(struct session *s) {
  if (s->due > 0 && s->inflight.count >= s->send_max) {
    return_offers(s);
  }
  share_available(s);
}

// --- members come and go

void share_online(struct session *s) {
  for (u32 i = s->shared; i != NONE; i = sub_at(s->b, i)->session_next) {
    share_at(s->b, sub_at(s->b, i)->share)->online++;
  }
  share_available(s);
}

static u32 share_of(const struct entry *e) {
  return (e->flags & ENTRY_IDS) != 0 ? NONE : e->share;
}

// May this queued entry go to another member?
static bool movable(const struct broker *b, const struct entry *e, bool at_end) {
  if (share_of(e) == NONE || e->message == NULL ||
      (e->qos == 2 && (e->flags & ENTRY_DUP) != 0)) {  // I3
    return false;
  }
  const struct share *g = share_at(b, e->share);
  return elsewhere(b, g) || (at_end ? g->count > 1 : g->online > 0);
}

// Takes what may go to other members out of the queue, each to its group's `back`.
static void give_back(struct session *s, bool at_end) {
  struct broker *b = s->b;
  u32 prev = NONE;
  for (u32 i = s->queue.head; i != NONE;) {
    struct entry *e = entry_at(b, i);
    u32 next = e->next;
    if (movable(b, e, at_end)) {
      u32 share = e->share;
      if (e->qos > 0) {
        durable_moved(b, s, share_at(b, share), e, false);
      }
      (void)queue_pop_behind(s, prev);
      *e = (struct entry){.message = e->message, .next = NONE, .share = NONE};
      entries_push(b, &share_at(b, share)->back, i);
    } else {
      prev = i;
    }
    i = next;
  }
}

// What came back goes before what waits.
static void take_back(struct broker *b, struct share *g) {
  for (u32 i = g->back.head; i != NONE; i = entry_at(b, i)->next) {
    count_in(b, g, i);
  }
  if (g->back.head != NONE) {
    entry_at(b, g->back.tail)->next = g->queue.head;
    g->queue.head = g->back.head;
    g->queue.tail = g->queue.tail == NONE ? g->back.tail : g->queue.tail;
    g->queue.count += g->back.count;
    g->queue.bytes += g->back.bytes;
    list_reset(&g->back);
  }
  offer(b, g);
}

void share_offline(struct session *s) {
  struct broker *b = s->b;
  for (u32 i = s->shared; i != NONE; i = sub_at(b, i)->session_next) {
    struct share *g = share_at(b, sub_at(b, i)->share);
    withdraw(b, sub_at(b, i));
    ASSERT(g->online > 0);
    g->online--;
  }
  ASSERT(s->due == 0);
  share_return(s, false);
  if (b->cross != NULL) {
    branch_look_all(s);
  }
}

void share_return(struct session *s, bool at_end) {
  if (s->shared == NONE) {
    return;
  }
  ASSERT(s->inflight.count == 0);  // it is in the queue by now
  give_back(s, at_end);
  for (u32 i = s->shared; i != NONE; i = sub_at(s->b, i)->session_next) {
    take_back(s->b, share_at(s->b, sub_at(s->b, i)->share));
  }
}

void share_join(struct broker *b, struct sub *sub) {
  struct share *g = share_at(b, sub->share);
  b->stats.shared_subscriptions++;
  g->online += sub->session->user != NULL ? 1 : 0;
  if (g->queue.count > g->offered) {
    offer(b, g);
  }
  if (b->cross != NULL) {
    branch_look(b, sub->share);
  }
}

// It is the session's own from now on: nobody else will have it.
static void disown(const struct session *s, struct entry *e) {
  if (s->number == 0) {
    durable_done(s, e);
  }
  e->share = NONE;
}

static void forget(const struct session *s, const struct list *l, u32 share) {
  struct broker *b = s->b;
  for (u32 i = l->head; i != NONE; i = entry_at(b, i)->next) {
    struct entry *e = entry_at(b, i);
    if (share_of(e) == share) {
      disown(s, e);
    }
  }
}

void share_leave(struct broker *b, struct sub *sub) {
  struct session *s = sub->session;
  struct share *g = share_at(b, sub->share);
  withdraw(b, sub);
  g->online -= s->user != NULL ? 1 : 0;
  b->stats.shared_subscriptions--;
  forget(s, &s->queue, sub->share);
  forget(s, &s->inflight, sub->share);
  if (s->stream != NONE && share_of(entry_at(b, s->stream)) == sub->share) {
    disown(s, entry_at(b, s->stream));
  }
  if (s->number != 0 && g->kept > 0) {
    g->kept--;
    g->number = g->kept > 0 ? g->number : 0;  // record.h R4
  }
}

void share_left(struct broker *b, struct share *g) {
  if (b->cross != NULL) {
    branch_look(b, pool_index(&b->shares, g));
  }
  if (g->count > 0 || elsewhere(b, g)) {
    offer(b, g);
    return;
  }
  while (g->queue.head != NONE) {  // nobody is left to have them
    drop_first(b, g);
  }
}

void share_offer(struct broker *b, struct share *g) {
  offer(b, g);
}

bool share_feed(struct broker *b, struct share *g, struct message *m) {
  return (b->access_on && g->count > 0 && !readable_by_any(b, g, m)) || enqueue(b, g, m);
}

void share_take_back(struct broker *b, u32 share) {
  take_back(b, share_at(b, share));
}

void share_drop_first(struct broker *b, struct share *g) {
  ASSERT(g->offered < g->queue.count);
  entry_free(b, take_first(b, g, NONE));
  g->full = g->offered < g->queue.count;
}

u32 share_member_room(const struct session *s) {
  return !can_take(s) ? 0 : s->send_max - s->inflight.count - s->queue.count - s->due;
}

// Offers of the stage before that nobody took: their members are stuck.
static bool take_stale_offers(struct broker *b, struct share *g) {
  if (g->offered == 0) {
    return false;
  }
  if (g->taken != g->taken_seen || !g->seen) {
    g->taken_seen = g->taken;
    g->seen = true;
    return true;  // look again after the output of this turn
  }
  g->seen = false;
  for (u32 i = g->first; i != NONE; i = sub_at(b, i)->node_next) {
    struct sub *sub = sub_at(b, i);
    if (sub->due > 0) {
      withdraw(b, sub);
      sub->session->stuck = true;
    }
  }
  offer(b, g);
  return g->offered > 0;
}

bool share_stage(struct broker *b) {
  bool more = false;
  struct link again;
  list_init(&again);
  for (u32 k = 0; k < GROUPS_A_TURN && !list_empty(&b->wait_list); k++) {
    struct link *l = list_pop(&b->wait_list);
    struct share *g = CONTAINER_OF(l, struct share, wait);
    list_push(&again, l);
    more |= take_stale_offers(b, g);
  }
  for (struct link *l = list_pop(&again); l != NULL; l = list_pop(&again)) {
    list_push(&b->wait_list, l);
  }
  return more;
}

void share_check(const struct broker *b) {
  u32 due = 0;
  for (u32 i = 0; i < b->shares.count; i++) {
    if (b->shares.state[i] == 0) {
      continue;
    }
    const struct share *g = share_at(b, i);
    u32 sum = 0;
    u32 online = 0;
    for (u32 k = g->first; k != NONE; k = sub_at(b, k)->node_next) {
      const struct sub *sub = sub_at(b, k);
      ASSERT(sub->due == 0 || sub->session->user != NULL);
      sum += sub->due;
      online += sub->session->user != NULL ? 1 : 0;
      ASSERT(!g->full || b->access_on || !can_take(sub->session));  // I2
    }
    due += sum;
    ASSERT(sum == g->offered);
    ASSERT(sum <= g->queue.count);
    ASSERT(online == g->online);
    ASSERT(g->back.head == NONE || b->cross != NULL);
    ASSERT(g->full || sum == g->queue.count);
    ASSERT(list_linked(&g->wait) == (g->queue.count > 0));
  }
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] != 0) {
      ASSERT(due >= session_at(b, i)->due);
      due -= session_at(b, i)->due;
    }
  }
  ASSERT(due == 0);
}
