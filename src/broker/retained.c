// SPDX-License-Identifier: Apache-2.0
// Retained messages: a trie of topic levels like the subscriptions', with sibling lists so that a
// wildcard can walk it. A walk runs in slices in the broker's stage and only while its session's
// queue is short: so it never counts against the queue, and a huge retained set delays nobody else.
//
// I1  A node exists while refs > 0 (children, a message, replays that stand on it) or it is the
//     root.
// I2  A replay reads a message when it queues it: never an older one than what is retained then.
// I3  With several cores each has all that is retained. Every change carries a stamp that is later
//     than any its core has seen; the latest wins, so all cores come to the same. A deletion is
//     remembered for a while (a grave), for a set of before it that comes after it.
#include "broker/cross.h"

static u32 rnode_make(struct broker *b, u32 parent, struct bytes text, u32 hash) {
  struct rnode *n = pool_take(&b->rnodes);
  if (n == NULL) {
    return NONE;
  }
  if (!level_text_set(&b->blocks, &n->text, text, hash)) {
    pool_put(&b->rnodes, n);
    return NONE;
  }
  n->parent = parent;
  n->hash_next = n->child = n->next = n->prev = NONE;
  u32 i = pool_index(&b->rnodes, n);
  if (parent != NONE) {
    struct rnode *p = rnode_at(b, parent);
    u32 *bucket = &b->rnode_table.bucket[table_slot(&b->rnode_table, parent, hash)];
    n->hash_next = *bucket;
    *bucket = i;
    n->next = p->child;
    if (p->child != NONE) {
      rnode_at(b, p->child)->prev = i;
    }
    p->child = i;
    p->refs++;
  }
  return i;
}

void retained_init(struct broker *b) {
  b->rroot = rnode_make(b, NONE, BYTES_LIT(""), 0);
  ASSERT(b->rroot != NONE);
  list_init(&b->replay_list);
}

static u32 rchild(const struct broker *b, u32 parent, struct bytes text, u32 hash) {
  u32 i = b->rnode_table.bucket[table_slot(&b->rnode_table, parent, hash)];
  while (i != NONE) {
    const struct rnode *n = rnode_at(b, i);
    if (n->parent == parent && level_text_is(&n->text, text, hash)) {
      return i;
    }
    i = n->hash_next;
  }
  return NONE;
}

static void rnode_prune(struct broker *b, u32 i) {
  while (i != b->rroot && rnode_at(b, i)->refs == 0) {
    struct rnode *n = rnode_at(b, i);
    ASSERT(n->child == NONE);
    u32 parent = n->parent;
    struct rnode *p = rnode_at(b, parent);
    *(n->prev == NONE ? &p->child : &rnode_at(b, n->prev)->next) = n->next;
    if (n->next != NONE) {
      rnode_at(b, n->next)->prev = n->prev;
    }
    u32 *link = &b->rnode_table.bucket[table_slot(&b->rnode_table, parent, n->text.hash)];
    while (*link != i) {
      ASSERT(*link != NONE);
      link = &rnode_at(b, *link)->hash_next;
    }
    *link = n->hash_next;
    ASSERT(p->refs > 0);
    p->refs--;
    level_text_clear(&b->blocks, &n->text);
    pool_put(&b->rnodes, n);
    i = parent;
  }
}

static u32 rwalk(struct broker *b, struct bytes topic, bool make) {
  struct levels *l = &b->name_levels;
  levels_split(b, topic, l);
  u32 at = b->rroot;
  for (u32 k = 0; k < l->count && !l->more; k++) {
    struct bytes text = level_bytes(l, k);
    u32 child = rchild(b, at, text, l->level[k].hash);
    if (child == NONE && make) {
      child = rnode_make(b, at, text, l->level[k].hash);
      if (child == NONE) {
        rnode_prune(b, at);
      }
    }
    if (child == NONE) {
      return NONE;
    }
    at = child;
  }
  return l->more ? NONE : at;
}

static void rnode_clear(struct broker *b, u32 i) {
  struct rnode *n = rnode_at(b, i);
  if (n->message == NULL) {
    return;
  }
  b->stats.retained_bytes -= n->message->len;
  durable_retain_clear(b, n->message);
  message_unref(b, n->message);
  n->message = NULL;
  ASSERT(n->refs > 0);
  n->refs--;
  b->stats.retained--;
  rnode_prune(b, i);
}

// [MQTT-3.3.1-5]
bool retained_set(struct broker *b, struct message *m, u64 stamp) {
  ASSERT(message_payload_len(m) > 0);
  u32 i = b->stats.retained < b->limits.retained ? rwalk(b, message_topic(m), true)
                                                 : rwalk(b, message_topic(m), false);
  if (i == NONE) {
    return false;
  }
  struct rnode *n = rnode_at(b, i);
  if (n->stamp > stamp) {
    return true;  // I3
  }
  u64 old_len = n->message == NULL ? 0 : n->message->len;
  u64 most = b->limits.retained_bytes_max;
  bool fits = most == 0 || b->stats.retained_bytes - old_len + m->len <= most;
  if (!fits || (n->message == NULL && b->stats.retained >= b->limits.retained)) {
    rnode_prune(b, i);
    return false;
  }
  if (n->message == NULL) {
    n->refs++;
    b->stats.retained++;
  } else {
    message_unref(b, n->message);
  }
  n->message = message_ref(m);
  n->stamp = stamp;
  n->expires_ns = b->limits.retained_expiry_s == 0
                      ? NEVER_NS
                      : b->core->now_ns + b->limits.retained_expiry_s * NS;
  b->stats.retained_bytes += m->len - old_len;
  return true;
}

struct message *retained_find(struct broker *b, struct bytes topic) {
  u32 i = rwalk(b, topic, false);
  return i == NONE ? NULL : rnode_at(b, i)->message;
}

void retained_bury(struct broker *b, u32 node) {
  ASSERT(rnode_at(b, node)->refs > 0);
  rnode_at(b, node)->refs--;
  rnode_prune(b, node);
}

void retained_delete(struct broker *b, struct bytes topic, u64 stamp) {
  u32 i = rwalk(b, topic, b->cross != NULL);
  struct rnode *n = i == NONE ? NULL : rnode_at(b, i);
  if (n == NULL || n->stamp > stamp) {  // I3
    return;
  }
  if (b->cross != NULL) {
    n->stamp = stamp;
    n->refs++;
    grave_dig(b, i);
  }
  rnode_clear(b, i);
}

// 3.1.1 [MQTT-3.3.1-8]
static void replay_push(struct broker *b, u32 i, struct sub *sub, u64 now_ns) {
  struct message *m = rnode_at(b, i)->message;
  if (message_expired(m, now_ns) || rnode_at(b, i)->expires_ns <= now_ns) {
    rnode_clear(b, i);
    return;
  }
  if (b->access_on) {
    access_begin(b, m);
    if (!access_may_read(sub->session, m) || !access_origin_may_write(b, m)) {
      return;
    }
  }
  sub->route_next = NONE;
  u32 ids = sub->identifier != 0 ? pool_index(&b->subs, sub) : NONE;
  (void)queue_push(sub->session, m, MIN(sub->qos, m->qos), true, ids, true);  // [MQTT-3.3.1-9]
}

bool retained_start(struct broker *b, struct sub *sub, struct bytes filter, u64 now_ns) {
  if (!topic_has_wildcard(filter)) {
    u32 i = rwalk(b, filter, false);
    if (i != NONE && rnode_at(b, i)->message != NULL) {
      replay_push(b, i, sub, now_ns);
    }
    return true;
  }
  if (b->stats.retained == 0) {
    return true;
  }
  retained_cancel(b, sub);
  struct replay *r = pool_take(&b->replays);
  if (r == NULL) {
    return false;
  }
  r->filter = blocks_take(&b->blocks, filter.len);
  if (r->filter == NULL) {
    pool_put(&b->replays, r);
    return false;
  }
  memcpy(r->filter, filter.ptr, filter.len);
  r->filter_len = (u32)filter.len;
  r->session = sub->session;
  r->sub = pool_index(&b->subs, sub);
  r->node = b->rroot;
  rnode_at(b, r->node)->refs++;
  r->next = sub->session->replay;
  sub->session->replay = pool_index(&b->replays, r);
  list_init(&r->link);
  list_push(&b->replay_list, &r->link);
  return true;
}

static void replay_stand(struct broker *b, struct replay *r, u32 node) {
  rnode_at(b, node)->refs++;
  u32 old = r->node;
  r->node = node;
  ASSERT(rnode_at(b, old)->refs > 0);
  rnode_at(b, old)->refs--;
  rnode_prune(b, old);
}

static void replay_end(struct broker *b, struct replay *r) {
  u32 index = pool_index(&b->replays, r);
  u32 *link = &r->session->replay;
  while (*link != index) {
    ASSERT(*link != NONE);
    link = &replay_at(b, *link)->next;
  }
  *link = r->next;
  list_remove(&r->link);
  u32 node = r->node;
  ASSERT(rnode_at(b, node)->refs > 0);
  rnode_at(b, node)->refs--;
  rnode_prune(b, node);
  blocks_put(&b->blocks, r->filter);
  pool_put(&b->replays, r);
}

void retained_cancel(struct broker *b, const struct sub *sub) {
  u32 index = pool_index(&b->subs, sub);
  u32 i = sub->session->replay;
  while (i != NONE) {
    struct replay *r = replay_at(b, i);
    i = r->next;
    if (r->sub == index) {
      replay_end(b, r);
    }
  }
}

static bool level_is(const struct levels *l, u32 k, u8 c) {
  return l->level[k].len == 1 && l->topic.ptr[l->level[k].off] == c;
}

// Does the filter take any name at level k (0 = the first)?
static bool level_is_wild(const struct levels *l, u32 k) {
  return k >= l->count || level_is(l, k, '+') || level_is(l, k, '#');
}

// i or the next sibling that a wildcard at level k may take: none that begins with '$' at level 0.
static u32 skip_dollar(const struct broker *b, u32 i, u32 k) {
  while (k == 0 && i != NONE) {
    struct bytes t = level_text_bytes(&rnode_at(b, i)->text);
    if (t.len == 0 || t.ptr[0] != '$') {  // [MQTT-4.7.2-1]
      break;
    }
    i = rnode_at(b, i)->next;
  }
  return i;
}

// Moves to the next node in depth-first order that the filter may reach; false at the end.
static bool replay_step(struct broker *b, struct replay *r, const struct levels *l) {
  const struct rnode *n = rnode_at(b, r->node);
  u32 d = r->depth;
  bool deep = level_is(l, l->count - 1, '#');
  u32 to = NONE;
  if (d < l->count || deep) {
    to = level_is_wild(l, d) ? skip_dollar(b, n->child, d)
                             : rchild(b, r->node, level_bytes(l, d), l->level[d].hash);
  }
  if (to != NONE) {
    replay_stand(b, r, to);
    r->depth = d + 1;
    return true;
  }
  u32 at = r->node;
  for (; d > 0; d--) {
    n = rnode_at(b, at);
    to = level_is_wild(l, d - 1) ? skip_dollar(b, n->next, d - 1) : NONE;
    if (to != NONE) {
      replay_stand(b, r, to);
      r->depth = d;
      return true;
    }
    at = n->parent;
  }
  return false;
}

// One slice of a replay. False when it has ended.
static bool replay_slice(struct broker *b, struct replay *r, u64 now_ns) {
  struct levels *l = &b->filter_levels;
  levels_split(b, bytes_of(r->filter, r->filter_len), l);
  bool deep = level_is(l, l->count - 1, '#');
  for (u32 k = 0; k < REPLAY_STEPS && r->session->queue.count < REPLAY_LOW; k++) {
    if (!replay_step(b, r, l)) {
      return false;
    }
    bool match = r->depth == l->count || (deep && r->depth + 1 >= l->count);
    if (match && rnode_at(b, r->node)->message != NULL) {
      replay_push(b, r->node, sub_at(b, r->sub), now_ns);
    }
  }
  return true;
}

bool retained_stage(struct broker *b, u64 now_ns) {
  for (u32 k = 0; k < REPLAY_SLICES; k++) {
    struct link *link = list_pop(&b->replay_list);
    if (link == NULL) {
      return k > 0;
    }
    struct replay *r = CONTAINER_OF(link, struct replay, link);
    ASSERT(r->session->user != NULL);
    if (!replay_slice(b, r, now_ns)) {
      replay_end(b, r);
    } else if (r->session->queue.count < REPLAY_LOW) {
      list_push(&b->replay_list, &r->link);
    }  // else it is parked until the session has been pulled
  }
  return true;
}

void retained_resume(struct session *s) {
  for (u32 i = s->replay; i != NONE; i = replay_at(s->b, i)->next) {
    struct replay *r = replay_at(s->b, i);
    if (!list_linked(&r->link)) {
      list_push(&s->b->replay_list, &r->link);
    }
  }
}

void retained_park(struct session *s) {
  for (u32 i = s->replay; i != NONE; i = replay_at(s->b, i)->next) {
    list_remove(&replay_at(s->b, i)->link);
  }
}

void retained_check(const struct broker *b) {
  u32 refs = 0;
  u32 nodes = 0;
  u32 messages = 0;
  for (u32 i = 0; i < b->rnodes.count; i++) {
    if (b->rnodes.state[i] == 0) {
      continue;
    }
    const struct rnode *n = rnode_at(b, i);
    nodes++;
    refs += n->refs;
    messages += n->message != NULL ? 1 : 0;
    ASSERT(i == b->rroot || n->refs > 0);
    ASSERT(i == b->rroot || rchild(b, n->parent, level_text_bytes(&n->text), n->text.hash) == i);
    ASSERT(n->child == NONE || rnode_at(b, n->child)->parent == i);
    ASSERT(n->next == NONE || rnode_at(b, n->next)->prev == i);
  }
  ASSERT(messages == b->stats.retained);
  u32 graves = b->cross == NULL ? 0 : b->cross->grave_count;
  ASSERT(refs == nodes - 1 + messages + pool_taken(&b->replays) + graves);
}
