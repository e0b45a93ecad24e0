// SPDX-License-Identifier: Apache-2.0
// The subscription index. Filters without wildcards stand whole in a hash table: one look-up a
// publish, whatever their number. Filters with wildcards are paths of levels in the same table
// (key: parent and text), '+' and '#' children by pointer; a publish walks only paths that match
// it, so its cost does not depend on the filters that do not.
#include "broker/state.h"

static u64 text_key(const struct broker *b, const struct node *parent, struct bytes text) {
  struct siphash_key key = b->core->hash_key;
  key.k0 ^= (uptr)parent;
  return siphash(&key, text);
}

static struct node *find(const struct broker *b, const struct node *parent, struct bytes text,
                         u64 key) {
  struct node *n = b->node_hash[key & b->node_mask];
  while (n != NULL && (n->key != key || n->parent != parent || n->kind > NODE_LEVEL ||
                       !bytes_equal(bytes_of(n->text, n->text_len), text))) {
    n = n->hash_next;
  }
  return n;
}

static struct node *add(struct broker *b, struct node *parent, struct bytes text, u8 kind) {
  struct node *n = pool_take(&b->nodes);
  if (n == NULL) {
    return NULL;
  }
  if (kind <= NODE_LEVEL) {
    n->text = blob_take(b, MAX(text.len, (usize)1));
    if (n->text == NULL) {
      pool_put(&b->nodes, n);
      return NULL;
    }
    memcpy(n->text, text.ptr, text.len);
    n->text_len = (u16)text.len;
    n->key = text_key(b, parent, text);
    n->hash_next = b->node_hash[n->key & b->node_mask];
    b->node_hash[n->key & b->node_mask] = n;
  }
  n->kind = kind;
  n->parent = parent;
  if (parent != NULL) {
    parent->children++;
    parent->plus = kind == NODE_PLUS ? n : parent->plus;
    parent->hash = kind == NODE_HASH ? n : parent->hash;
    b->wildcard_nodes++;
  }
  return n;
}

// Frees n and its parents as far as nothing hangs on them (I3).
static void prune(struct broker *b, struct node *n) {
  while (n != NULL && n->kind != NODE_ROOT && n->subs == NULL && n->groups == NULL &&
         n->children == 0) {
    struct node *parent = n->parent;
    if (n->kind <= NODE_LEVEL) {
      struct node **at = &b->node_hash[n->key & b->node_mask];
      while (*at != n) {
        at = &(*at)->hash_next;
      }
      *at = n->hash_next;
      blob_put(b, n->text, MAX((usize)n->text_len, (usize)1));
    }
    if (parent != NULL) {
      parent->children--;
      parent->plus = parent->plus == n ? NULL : parent->plus;
      parent->hash = parent->hash == n ? NULL : parent->hash;
      b->wildcard_nodes--;
    }
    pool_put(&b->nodes, n);
    n = parent;
  }
}

static usize level_end(struct bytes t, usize from) {
  usize i = from;
  while (i < t.len && t.ptr[i] != '/') {
    i++;
  }
  return i;
}

// The node of a valid filter; made when `make`. NULL: not there, too deep, or no room (then what
// was made is pruned).
static struct node *node_of(struct broker *b, struct bytes filter, bool make) {
  if (!topic_has_wildcard(filter)) {
    struct node *n = find(b, NULL, filter, text_key(b, NULL, filter));
    return n == NULL && make ? add(b, NULL, filter, NODE_EXACT) : n;
  }
  struct node *n = &b->root;
  usize from = 0;
  for (u32 depth = 0; from <= filter.len; depth++) {
    usize end = level_end(filter, from);
    struct bytes level = bytes_sub(filter, from, end - from);
    bool plus = level.len == 1 && level.ptr[0] == '+';
    bool hash = level.len == 1 && level.ptr[0] == '#';
    struct node *child = plus ? n->plus : hash ? n->hash : find(b, n, level, text_key(b, n, level));
    if (child == NULL && make && depth < FILTER_LEVELS_MAX) {
      child = add(b, n, level, plus ? NODE_PLUS : hash ? NODE_HASH : NODE_LEVEL);
    }
    if (child == NULL) {
      prune(b, make ? n : NULL);
      return NULL;
    }
    n = child;
    from = end + 1;
  }
  return n;
}

static struct group *group_of(struct broker *b, struct node *n, struct bytes name, bool make) {
  struct group *g = n->groups;
  while (g != NULL && !bytes_equal(bytes_of(g->name, g->name_len), name)) {
    g = g->next;
  }
  if (g == NULL && make) {
    g = blob_take(b, sizeof *g + name.len);
    if (g != NULL) {
      *g = (struct group){.next = n->groups, .name_len = (u32)name.len};
      memcpy(g->name, name.ptr, name.len);
      n->groups = g;
    }
  }
  return g;
}

static struct subscription *find_sub(struct session *s, const struct node *n,
                                     const struct group *g) {
  struct subscription *sub = s->subs;
  while (sub != NULL && (sub->node != n || sub->group != g)) {
    sub = sub->session_next;
  }
  return sub;
}

static void link_sub(struct subscription **head, struct subscription *sub) {
  sub->node_next = *head;
  sub->node_at = head;
  if (*head != NULL) {
    (*head)->node_at = &sub->node_next;
  }
  *head = sub;
}

static void unlink_sub(struct subscription *sub) {
  *sub->node_at = sub->node_next;
  if (sub->node_next != NULL) {
    sub->node_next->node_at = sub->node_at;
  }
}

static void drop_group(struct broker *b, struct node *n, struct group *g) {
  struct group **at = &n->groups;
  while (*at != g) {
    at = &(*at)->next;
  }
  *at = g->next;
  blob_put(b, g, sizeof *g + g->name_len);
}

enum err tree_subscribe(struct broker *b, struct session *s, struct bytes filter,
                        const struct subscription *options, bool *existed) {
  struct bytes name;
  struct bytes inner = filter;
  bool shared = topic_shared(filter, &name, &inner);
  struct node *n = node_of(b, shared ? inner : filter, true);
  if (n == NULL) {
    return ERR_NO_MEMORY;
  }
  struct group *g = shared ? group_of(b, n, name, true) : NULL;
  struct subscription *sub = shared && g == NULL ? NULL : find_sub(s, n, g);
  *existed = sub != NULL;
  if (sub == NULL && (!shared || g != NULL)) {
    sub = pool_take(&b->subs);
  }
  if (sub == NULL) {
    if (g != NULL && g->members == NULL) {
      drop_group(b, n, g);
    }
    prune(b, n);
    return ERR_NO_MEMORY;
  }
  if (!*existed) {
    sub->session = s;
    sub->node = n;
    sub->group = g;
    link_sub(g != NULL ? &g->members : &n->subs, sub);
    sub->session_next = s->subs;
    s->subs = sub;
    b->stats.subscriptions++;
  }
  sub->qos = options->qos;
  sub->id = options->id;
  sub->no_local = options->no_local;
  sub->retain_as_published = options->retain_as_published;
  return ERR_OK;
}

static void remove_sub(struct broker *b, struct subscription *sub) {
  struct node *n = sub->node;
  unlink_sub(sub);
  if (sub->group != NULL && sub->group->members == NULL) {
    drop_group(b, n, sub->group);
  }
  pool_put(&b->subs, sub);
  b->stats.subscriptions--;
  prune(b, n);
}

bool tree_unsubscribe(struct broker *b, struct session *s, struct bytes filter) {
  struct bytes name;
  struct bytes inner = filter;
  bool shared = topic_shared(filter, &name, &inner);
  struct node *n = node_of(b, shared ? inner : filter, false);
  struct group *g = n != NULL && shared ? group_of(b, n, name, false) : NULL;
  if (n == NULL || (shared && g == NULL)) {
    return false;
  }
  struct subscription **at = &s->subs;
  while (*at != NULL && ((*at)->node != n || (*at)->group != g)) {
    at = &(*at)->session_next;
  }
  struct subscription *sub = *at;
  if (sub == NULL) {
    return false;
  }
  *at = sub->session_next;
  remove_sub(b, sub);
  return true;
}

void tree_remove_all(struct broker *b, struct session *s) {
  while (s->subs != NULL) {
    struct subscription *sub = s->subs;
    s->subs = sub->session_next;
    remove_sub(b, sub);
  }
}

// --- match

struct match {
  struct broker *b;
  const struct session *from;
  struct session *first;
};

// Overlapping subscriptions of one session give one delivery: highest QoS, all identifiers
// (3.3.4 of 5.0 allows it; [MQTT-3.3.4-2]).
static void hit(struct match *m, struct subscription *sub) {
  struct session *s = sub->session;
  if (sub->no_local && s == m->from) {  // [MQTT-3.8.3-3]
    return;
  }
  if (s->match_epoch != m->b->epoch) {
    s->match_epoch = m->b->epoch;
    s->match_next = m->first;
    m->first = s;
    s->match_ids = 0;
    s->match_qos = 0;
    s->match_rap = false;
  }
  s->match_qos = MAX(s->match_qos, sub->qos);
  s->match_rap |= sub->retain_as_published;
  if (sub->id != 0 && s->match_ids < SUB_IDS) {
    s->match_id[s->match_ids++] = sub->id;
  }
}

// A member takes its turn: the first that is connected, else the first; then the list rotates.
static void hit_group(struct match *m, struct group *g) {
  struct subscription *chosen = g->members;
  for (struct subscription *sub = g->members; sub != NULL; sub = sub->node_next) {
    if (sub->session->user != NULL) {
      chosen = sub;
      break;
    }
  }
  hit(m, chosen);
  if (chosen->node_next != NULL) {  // to the end of the line
    struct subscription *last = chosen->node_next;
    while (last->node_next != NULL) {
      last = last->node_next;
    }
    unlink_sub(chosen);
    chosen->node_next = NULL;
    chosen->node_at = &last->node_next;
    last->node_next = chosen;
  }
}

static void hit_node(struct match *m, struct node *n) {
  for (struct subscription *sub = n->subs; sub != NULL; sub = sub->node_next) {
    hit(m, sub);
  }
  for (struct group *g = n->groups; g != NULL; g = g->next) {
    hit_group(m, g);
  }
}

struct step {
  struct node *node;
  u32 from;  // where the next level begins; topic.len + 1: the topic has ended
};

// One path step: what hangs on `at.node` when the level at `at.from` comes. Pushes at most two.
static u32 walk(struct match *m, struct bytes topic, struct step at, struct step *stack, u32 top) {
  bool dollar = at.node->kind == NODE_ROOT && topic.ptr[0] == '$';  // [MQTT-4.7.2-1]
  if (at.node->hash != NULL && !dollar) {
    hit_node(m, at.node->hash);  // "a/#" matches "a" and all below
  }
  if (at.from > topic.len) {
    hit_node(m, at.node);
    return top;
  }
  usize end = level_end(topic, at.from);
  struct bytes level = bytes_sub(topic, at.from, end - at.from);
  struct node *child = find(m->b, at.node, level, text_key(m->b, at.node, level));
  if (child != NULL) {
    stack[top++] = (struct step){child, (u32)end + 1};
  }
  if (at.node->plus != NULL && !dollar) {
    stack[top++] = (struct step){at.node->plus, (u32)end + 1};
  }
  return top;
}

struct session *tree_match(struct broker *b, struct bytes topic, const struct session *from) {
  struct match m = {.b = b, .from = from};
  b->epoch++;
  struct node *exact = find(b, NULL, topic, text_key(b, NULL, topic));
  if (exact != NULL) {
    hit_node(&m, exact);
  }
  if (b->wildcard_nodes == 0) {
    return m.first;
  }
  struct step stack[FILTER_LEVELS_MAX + 8];  // depth first: each level leaves at most one behind
  u32 top = 0;
  stack[top++] = (struct step){&b->root, 0};
  while (top > 0) {
    struct step at = stack[--top];
    ASSERT(top + 2 <= ARRAY_COUNT(stack));
    top = walk(&m, topic, at, stack, top);
  }
  return m.first;
}

void tree_check(const struct broker *b) {
  u32 subs = 0;
  for (u32 i = 0; i <= b->node_mask; i++) {
    for (const struct node *n = b->node_hash[i]; n != NULL; n = n->hash_next) {
      ASSERT((n->key & b->node_mask) == i);
      ASSERT(n->subs != NULL || n->groups != NULL || n->children > 0);
      ASSERT((n->kind == NODE_EXACT) == (n->parent == NULL));
    }
  }
  for (u32 i = 0; i <= b->session_mask; i++) {
    for (const struct session *s = b->session_hash[i]; s != NULL; s = s->hash_next) {
      for (const struct subscription *sub = s->subs; sub != NULL; sub = sub->session_next) {
        ASSERT(*sub->node_at == sub);
        ASSERT(sub->session == s);
        subs++;
      }
    }
  }
  ASSERT(subs == b->stats.subscriptions);
}
