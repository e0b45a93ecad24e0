// SPDX-License-Identifier: Apache-2.0
// Words that two cores touch: a node's hash_next, plus, rest, cores, the buckets and `everything`.
// The writer releases them (link, unlink, wants_set); readers acquire them (wants_match): the node
// behind an index was filled in before. A node that was unlinked keeps its own links, so that who
// stands on it goes on.
#include "broker/wants.h"

#include "base/shared.h"
#include "broker/state.h"

struct want {
  u64 cores;
  struct level_text text;
  u32 hash_next;
  u32 parent;
  u32 plus;
  u32 rest;
  u32 children;  // the writer's own, as are the two below
  u32 next;      // of the free or unlinked
};

struct wants {
  u64 everything;  // cores that are sent all there is (I3)
  struct want *node;
  struct table table;
  u32 root;
  u32 fresh, count;
  u32 free;
  u32 unlinked;       // since the last wants_unlinked
  u32 waiting;        // for the epoch below
  u64 waiting_epoch;  // 0 = none waits
  u32 used;
  u32 missing[PLAT_CORE_MAX];  // filters of this core that have no node
};

static u32 buckets(u32 nodes) {
  u32 size = 16;
  while (size < nodes) {
    size *= 2;
  }
  return size;
}

u64 wants_bytes(u32 nodes) {
  return sizeof(struct wants) + (u64)nodes * sizeof(struct want) + buckets(nodes) * 4ull + 3 * 64;
}

static u32 node_take(struct wants *w) {
  u32 i = w->free;
  if (i != NONE) {
    w->free = w->node[i].next;
  } else if (w->fresh < w->count) {
    i = w->fresh++;
  }
  w->used += i != NONE ? 1 : 0;
  return i;
}

struct wants *wants_open(struct carve *carve, u32 nodes) {
  ASSERT(nodes > 0);
  struct span own = carve_take(carve, sizeof(struct wants), 64);
  struct span memory = carve_take(carve, (usize)nodes * sizeof(struct want), 64);
  struct span table = carve_take(carve, (usize)buckets(nodes) * 4, 64);
  if (own.ptr == NULL || memory.ptr == NULL || table.ptr == NULL) {
    return NULL;
  }
  struct wants *w = (struct wants *)(void *)own.ptr;
  *w = (struct wants){.node = (struct want *)(void *)memory.ptr, .count = nodes};
  w->table = (struct table){(u32 *)(void *)table.ptr, buckets(nodes) - 1};
  memset(table.ptr, 0xff, table.len);  // NONE
  w->free = w->unlinked = w->waiting = NONE;
  w->root = node_take(w);
  w->node[w->root].plus = w->node[w->root].rest = w->node[w->root].hash_next = NONE;
  w->node[w->root].parent = NONE;
  return w;
}

static u32 *slot_of(const struct wants *w, u32 parent, struct bytes text, u32 hash) {
  struct want *p = &w->node[parent];
  if (bytes_equal(text, BYTES_LIT("+"))) {
    return &p->plus;
  }
  return bytes_equal(text, BYTES_LIT("#")) ? &p->rest
                                           : &w->table.bucket[table_slot(&w->table, parent, hash)];
}

// From this slot on, the node of this parent and level.
static u32 find(const struct wants *w, const u32 *slot, u32 parent, struct bytes text, u32 hash) {
  for (u32 i = shared_acquire_u32(slot); i != NONE; i = shared_acquire_u32(&w->node[i].hash_next)) {
    const struct want *n = &w->node[i];
    if (n->parent == parent && level_text_is(&n->text, text, hash)) {
      return i;
    }
  }
  return NONE;
}

// --- reading

struct step {
  u32 node;
  u32 level;
};

// [MQTT-4.7.2-1]
u64 wants_match(const struct wants *w, const struct levels *l) {
  u64 cores = shared_acquire_u64(&w->everything);
  struct step stack[2 * LEVELS_MAX + 4];  // a step pops one and pushes at most two
  u32 top = 0;
  stack[top++] = (struct step){w->root, 0};
  while (top > 0) {
    struct step at = stack[--top];
    const struct want *n = &w->node[at.node];
    bool dollar = at.level == 0 && l->topic.ptr[0] == '$';
    u32 rest = shared_acquire_u32(&n->rest);
    if (rest != NONE && !dollar) {
      cores |= shared_acquire_u64(&w->node[rest].cores);
    }
    if (at.level == l->count) {
      cores |= l->more ? 0 : shared_acquire_u64(&n->cores);
      continue;
    }
    u32 hash = l->level[at.level].hash;
    const u32 *slot = &w->table.bucket[table_slot(&w->table, at.node, hash)];
    u32 child = find(w, slot, at.node, level_bytes(l, at.level), hash);
    if (child != NONE) {
      stack[top++] = (struct step){child, at.level + 1};
    }
    u32 plus = shared_acquire_u32(&n->plus);
    if (plus != NONE && !dollar) {
      stack[top++] = (struct step){plus, at.level + 1};
    }
    ASSERT(top <= ARRAY_COUNT(stack));
  }
  return cores;
}

// --- writing

static u32 link_new(struct wants *w, struct blocks *text, u32 *slot, u32 parent, struct bytes name,
                    u32 hash) {
  u32 i = node_take(w);
  if (i == NONE) {
    return NONE;
  }
  struct want *n = &w->node[i];
  *n = (struct want){.parent = parent, .hash_next = *slot, .plus = NONE, .rest = NONE};
  if (!level_text_set(text, &n->text, name, hash)) {
    n->next = w->free;
    w->free = i;
    w->used--;
    return NONE;
  }
  w->node[parent].children++;
  shared_release_u32(slot, i);
  return i;
}

// The node, and every ancestor that nothing needs any more, out of readers' sight.
static void prune(struct wants *w, u32 i) {
  while (i != w->root && w->node[i].cores == 0 && w->node[i].children == 0) {
    struct want *n = &w->node[i];
    u32 *slot = slot_of(w, n->parent, level_text_bytes(&n->text), n->text.hash);
    while (*slot != i) {
      ASSERT(*slot != NONE);
      slot = &w->node[*slot].hash_next;
    }
    shared_release_u32(slot, n->hash_next);
    n->next = w->unlinked;
    w->unlinked = i;
    i = n->parent;
    ASSERT(w->node[i].children > 0);
    w->node[i].children--;
  }
}

void wants_set(struct wants *w, struct blocks *text, const struct levels *l, u32 core, bool want) {
  u64 bit = 1ull << core;
  u32 at = w->root;
  for (u32 k = 0; k < l->count && at != NONE; k++) {
    u32 hash = l->level[k].hash;
    u32 *slot = slot_of(w, at, level_bytes(l, k), hash);
    u32 child = find(w, slot, at, level_bytes(l, k), hash);
    if (child == NONE && want) {
      child = link_new(w, text, slot, at, level_bytes(l, k), hash);
      if (child == NONE) {
        prune(w, at);
      }
    }
    at = child;
  }
  if (at != NONE && (want || (w->node[at].cores & bit) != 0)) {
    u64 cores = w->node[at].cores;
    shared_release_u64(&w->node[at].cores, want ? cores | bit : cores & ~bit);
    prune(w, at);
    return;
  }
  ASSERT(want || w->missing[core] > 0);  // I3
  w->missing[core] += want ? 1 : U32_MAX;
  u64 all = w->everything;
  shared_release_u64(&w->everything, w->missing[core] > 0 ? all | bit : all & ~bit);
}

void wants_unlinked(struct wants *w, u64 epoch) {
  ASSERT(w->waiting == NONE);
  w->waiting = w->unlinked;
  w->waiting_epoch = epoch;
  w->unlinked = NONE;
}

void wants_reclaim(struct wants *w, struct blocks *text, u64 epoch) {
  ASSERT(w->waiting_epoch == epoch);
  while (w->waiting != NONE) {
    u32 i = w->waiting;
    w->waiting = w->node[i].next;
    level_text_clear(text, &w->node[i].text);
    w->node[i].next = w->free;
    w->free = i;
    ASSERT(w->used > 0);
    w->used--;
  }
}

u32 wants_count(const struct wants *w) {
  return w->used;
}
