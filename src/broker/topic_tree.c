// SPDX-License-Identifier: Apache-2.0
// The subscription index: a trie of topic levels. Named children are found in one hash table keyed
// by (parent, level); '+' and '#' children hang at their parent, so a match touches only nodes that
// match, whatever the number of filters beside them.
//
// I1  A node exists while it has subscriptions, groups or children, or the other cores are still to
//     be told of it (cross_live.c). The root always exists.
// I2  Every subscription is in its node's (or its group's) list, in its session's list and in
//     sub_table.
// I3  A match follows at most LEVELS_MAX levels: no filter is deeper.
#include "broker/cross.h"

static u32 node_new(struct broker *b, u32 parent, struct bytes text, u32 hash) {
  struct tnode *n = pool_take(&b->nodes);
  if (n == NULL) {
    return NONE;
  }
  if (!level_text_set(&b->blocks, &n->text, text, hash)) {
    pool_put(&b->nodes, n);
    return NONE;
  }
  n->hash_next = n->plus = n->rest = n->subs = n->shares = NONE;
  n->parent = parent;
  return pool_index(&b->nodes, n);
}

void tree_init(struct broker *b) {
  b->root = node_new(b, NONE, BYTES_LIT(""), 0);
  ASSERT(b->root != NONE);
}

static u32 child_named(const struct broker *b, u32 parent, struct bytes text, u32 hash) {
  u32 i = b->node_table.bucket[table_slot(&b->node_table, parent, hash)];
  while (i != NONE) {
    const struct tnode *n = node_at(b, i);
    if (n->parent == parent && level_text_is(&n->text, text, hash)) {
      return i;
    }
    i = n->hash_next;
  }
  return NONE;
}

static bool is_char(struct bytes text, u8 c) {
  return text.len == 1 && text.ptr[0] == c;
}

static u32 child_of(const struct broker *b, u32 parent, struct bytes text, u32 hash) {
  if (is_char(text, '+')) {
    return node_at(b, parent)->plus;
  }
  return is_char(text, '#') ? node_at(b, parent)->rest : child_named(b, parent, text, hash);
}

static u32 child_make(struct broker *b, u32 parent, struct bytes text, u32 hash) {
  u32 i = node_new(b, parent, text, hash);
  if (i == NONE) {
    return NONE;
  }
  struct tnode *p = node_at(b, parent);
  p->children++;
  if (is_char(text, '+')) {
    p->plus = i;
  } else if (is_char(text, '#')) {
    p->rest = i;
  } else {
    u32 *bucket = &b->node_table.bucket[table_slot(&b->node_table, parent, hash)];
    node_at(b, i)->hash_next = *bucket;
    *bucket = i;
  }
  return i;
}

// Removes the node and every ancestor that nothing needs any more (I1).
static void node_prune(struct broker *b, u32 i) {
  while (i != b->root) {
    struct tnode *n = node_at(b, i);
    if (n->children > 0 || n->subs != NONE || n->shares != NONE || n->cross != 0) {
      return;
    }
    u32 parent = n->parent;
    struct tnode *p = node_at(b, parent);
    if (p->plus == i) {
      p->plus = NONE;
    } else if (p->rest == i) {
      p->rest = NONE;
    } else {
      u32 *link = &b->node_table.bucket[table_slot(&b->node_table, parent, n->text.hash)];
      while (*link != i) {
        ASSERT(*link != NONE);
        link = &node_at(b, *link)->hash_next;
      }
      *link = n->hash_next;
    }
    ASSERT(p->children > 0);
    p->children--;
    level_text_clear(&b->blocks, &n->text);
    pool_put(&b->nodes, n);
    i = parent;
  }
}

// The filter's node; makes the missing ones when `make`. NONE: not there, or no memory.
static u32 node_walk(struct broker *b, struct bytes filter, bool make) {
  struct levels *l = &b->filter_levels;
  levels_split(b, filter, l);
  ASSERT(!l->more);
  u32 at = b->root;
  for (u32 k = 0; k < l->count; k++) {
    struct bytes text = level_bytes(l, k);
    u32 child = child_of(b, at, text, l->level[k].hash);
    if (child == NONE && make) {
      child = child_make(b, at, text, l->level[k].hash);
      if (child == NONE) {
        node_prune(b, at);
      }
    }
    if (child == NONE) {
      return NONE;
    }
    at = child;
  }
  return at;
}

void tree_prune(struct broker *b, u32 node) {
  node_prune(b, node);
}

// Written from its end.
bool tree_filter(const struct broker *b, u32 node, struct span room, struct bytes *out) {
  usize at = room.len;
  for (u32 i = node; i != b->root; i = node_at(b, i)->parent) {
    struct bytes level = level_text_bytes(&node_at(b, i)->text);
    usize need = level.len + (i != node ? 1 : 0);
    if (need > at) {
      return false;
    }
    if (i != node) {
      room.ptr[--at] = '/';
    }
    at -= level.len;
    if (level.len > 0) {
      memcpy(room.ptr + at, level.ptr, level.len);
    }
  }
  *out = bytes_of(room.ptr + at, room.len - at);
  return true;
}

static u32 share_find(const struct broker *b, u32 node, struct bytes group) {
  u32 i = node_at(b, node)->shares;
  while (i != NONE && !bytes_equal(level_text_bytes(&share_at(b, i)->name), group)) {
    i = share_at(b, i)->next;
  }
  return i;
}

static u32 share_make(struct broker *b, u32 node, struct bytes group) {
  u32 found = share_find(b, node, group);
  if (found != NONE) {
    return found;
  }
  struct share *g = pool_take(&b->shares);
  if (g == NULL) {
    return NONE;
  }
  if (!level_text_set(&b->blocks, &g->name, group, 0)) {
    pool_put(&b->shares, g);
    return NONE;
  }
  g->node = node;
  g->first = g->cursor = NONE;
  list_reset(&g->queue);
  list_reset(&g->back);
  list_init(&g->wait);
  struct tnode *n = node_at(b, node);
  g->next = n->shares;
  n->shares = pool_index(&b->shares, g);
  if (b->cross != NULL) {
    branch_init(b, n->shares, b->filter_levels.topic, group);
  }
  return n->shares;
}

static void share_prune(struct broker *b, u32 index) {
  struct share *g = share_at(b, index);
  if (g->count > 0 || (b->cross != NULL && !branch_idle(b, index))) {
    return;
  }
  while (g->queue.head != NONE) {
    share_drop_first(b, g);
  }
  u32 *link = &node_at(b, g->node)->shares;
  while (*link != index) {
    ASSERT(*link != NONE);
    link = &share_at(b, *link)->next;
  }
  *link = g->next;
  level_text_clear(&b->blocks, &g->name);
  pool_put(&b->shares, g);
}

u32 tree_group(struct broker *b, struct bytes filter, struct bytes group) {
  u32 node = node_walk(b, filter, true);
  u32 share = node == NONE ? NONE : share_make(b, node, group);
  if (node != NONE && share == NONE) {
    node_prune(b, node);
  }
  return share;
}

void tree_group_prune(struct broker *b, u32 share) {
  u32 node = share_at(b, share)->node;
  share_prune(b, share);
  node_prune(b, node);
}

static struct sub *sub_lookup(const struct broker *b, const struct session *s, u32 node,
                              u32 share) {
  u32 i = b->sub_table.bucket[table_slot(&b->sub_table, s->index, node)];
  while (i != NONE) {
    struct sub *sub = sub_at(b, i);
    if (sub->session == s && sub->node == node && sub->share == share) {
      return sub;
    }
    i = sub->hash_next;
  }
  return NULL;
}

// The head of the list that a subscription is linked in by node_next (I2).
static u32 *sub_head(const struct broker *b, const struct sub *sub) {
  return sub->share == NONE ? &node_at(b, sub->node)->subs : &share_at(b, sub->share)->first;
}

static void sub_link(struct broker *b, struct sub *sub) {
  u32 i = pool_index(&b->subs, sub);
  struct session *s = sub->session;
  u32 *head = sub_head(b, sub);
  sub->node_prev = NONE;
  sub->node_next = *head;
  if (*head != NONE) {
    sub_at(b, *head)->node_prev = i;
  }
  *head = i;
  u32 *own = sub->share == NONE ? &s->subs : &s->shared;
  sub->session_prev = NONE;
  sub->session_next = *own;
  if (*own != NONE) {
    sub_at(b, *own)->session_prev = i;
  }
  *own = i;
  s->sub_count++;
  u32 *bucket = &b->sub_table.bucket[table_slot(&b->sub_table, s->index, sub->node)];
  sub->hash_next = *bucket;
  *bucket = i;
  if (sub->share != NONE) {
    share_at(b, sub->share)->count++;
  }
  b->stats.subscriptions++;
}

struct sub *tree_subscribe(struct broker *b, struct session *s, struct bytes filter,
                           struct bytes group, bool *existed) {
  u32 node = node_walk(b, filter, true);
  if (node == NONE) {
    return NULL;
  }
  u32 share = group.len > 0 ? share_make(b, node, group) : NONE;
  if (group.len > 0 && share == NONE) {
    node_prune(b, node);
    return NULL;
  }
  struct sub *sub = sub_lookup(b, s, node, share);
  *existed = sub != NULL;
  if (sub != NULL) {
    return sub;
  }
  sub = pool_take(&b->subs);
  if (sub == NULL) {
    if (share != NONE) {
      share_prune(b, share);
    }
    node_prune(b, node);
    return NULL;
  }
  sub->session = s;
  sub->node = node;
  sub->share = share;
  sub->route_next = NONE;
  sub_link(b, sub);
  if (b->cross != NULL) {
    live_changed(b, node);
  }
  if (share != NONE) {
    share_join(b, sub);
  }
  return sub;
}

struct sub *tree_find(struct broker *b, const struct session *s, struct bytes filter,
                      struct bytes group) {
  u32 node = node_walk(b, filter, false);
  if (node == NONE) {
    return NULL;
  }
  u32 share = group.len > 0 ? share_find(b, node, group) : NONE;
  return group.len > 0 && share == NONE ? NULL : sub_lookup(b, s, node, share);
}

void tree_remove(struct broker *b, struct sub *sub) {
  u32 i = pool_index(&b->subs, sub);
  struct session *s = sub->session;
  struct share *g = sub->share == NONE ? NULL : share_at(b, sub->share);
  if (g != NULL) {
    share_leave(b, sub);
    g->cursor = g->cursor == i ? sub->node_next : g->cursor;
  }
  *(sub->node_prev == NONE ? sub_head(b, sub) : &sub_at(b, sub->node_prev)->node_next) =
      sub->node_next;
  if (sub->node_next != NONE) {
    sub_at(b, sub->node_next)->node_prev = sub->node_prev;
  }
  u32 *own = g == NULL ? &s->subs : &s->shared;
  *(sub->session_prev == NONE ? own : &sub_at(b, sub->session_prev)->session_next) =
      sub->session_next;
  if (sub->session_next != NONE) {
    sub_at(b, sub->session_next)->session_prev = sub->session_prev;
  }
  u32 *link = &b->sub_table.bucket[table_slot(&b->sub_table, s->index, sub->node)];
  while (*link != i) {
    ASSERT(*link != NONE);
    link = &sub_at(b, *link)->hash_next;
  }
  *link = sub->hash_next;
  ASSERT(s->sub_count > 0);
  s->sub_count--;
  b->stats.subscriptions--;
  if (g != NULL) {
    ASSERT(g->count > 0);
    g->count--;
    share_left(b, g);
    share_prune(b, sub->share);
  }
  u32 node = sub->node;
  pool_put(&b->subs, sub);
  if (b->cross != NULL) {
    live_changed(b, node);
  }
  node_prune(b, node);
}

static void collect(struct broker *b, u32 node, const struct session *publisher) {
  const struct tnode *n = node_at(b, node);
  for (u32 i = n->subs; i != NONE; i = sub_at(b, i)->node_next) {
    route_add(b, sub_at(b, i), publisher);
  }
  for (u32 i = n->shares; i != NONE; i = share_at(b, i)->next) {
    if (b->cross != NULL && !branch_roots(b, i)) {
      continue;  // its root is another core's
    }
    share_at(b, i)->route_next = b->route_shared;
    b->route_shared = i;
  }
}

struct step {
  u32 node;
  u32 level;
};

void tree_match(struct broker *b, struct bytes name, const struct session *publisher) {
  struct levels *l = &b->match_levels;
  levels_split(b, name, l);
  struct step stack[2 * LEVELS_MAX + 4];  // a step pops one and pushes at most two
  u32 top = 0;
  stack[top++] = (struct step){b->root, 0};
  while (top > 0) {
    struct step at = stack[--top];
    const struct tnode *n = node_at(b, at.node);
    bool dollar = at.level == 0 && name.ptr[0] == '$';  // [MQTT-4.7.2-1]
    if (n->rest != NONE && !dollar) {                   // '#' also matches the parent level
      collect(b, n->rest, publisher);
    }
    if (at.level == l->count) {
      if (!l->more) {
        collect(b, at.node, publisher);
      }
      continue;
    }
    u32 child = n->children == 0
                    ? NONE
                    : child_named(b, at.node, level_bytes(l, at.level), l->level[at.level].hash);
    if (child != NONE) {
      stack[top++] = (struct step){child, at.level + 1};
    }
    if (n->plus != NONE && !dollar) {
      stack[top++] = (struct step){n->plus, at.level + 1};
    }
    ASSERT(top <= ARRAY_COUNT(stack));
  }
}

static void check_sub(const struct broker *b, const struct sub *sub, u32 node, u32 share) {
  ASSERT(sub->node == node);
  ASSERT(sub->share == share);
  ASSERT(sub_lookup(b, sub->session, node, share) == sub);
}

void tree_check(const struct broker *b) {
  u32 subs = 0;
  u32 nodes = 0;
  u32 children = 0;
  for (u32 i = 0; i < b->nodes.count; i++) {
    if (b->nodes.state[i] == 0) {
      continue;
    }
    const struct tnode *n = node_at(b, i);
    nodes++;
    children += n->children;
    ASSERT(i == b->root || n->children > 0 || n->subs != NONE || n->shares != NONE ||
           n->cross != 0);  // I1
    ASSERT(i == b->root || child_of(b, n->parent, level_text_bytes(&n->text), n->text.hash) == i);
    for (u32 k = n->subs; k != NONE; k = sub_at(b, k)->node_next) {
      check_sub(b, sub_at(b, k), i, NONE);
      subs++;
    }
    for (u32 g = n->shares; g != NONE; g = share_at(b, g)->next) {
      u32 count = 0;
      for (u32 k = share_at(b, g)->first; k != NONE; k = sub_at(b, k)->node_next) {
        check_sub(b, sub_at(b, k), i, g);
        count++;
      }
      ASSERT(count == share_at(b, g)->count);
      ASSERT(count > 0 || b->cross != NULL);
      subs += count;
    }
  }
  ASSERT(children == nodes - 1);
  ASSERT(subs == b->stats.subscriptions);
  ASSERT(subs == pool_taken(&b->subs));
}
