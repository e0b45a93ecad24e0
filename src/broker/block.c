// SPDX-License-Identifier: Apache-2.0
#include "broker/block.h"

#define NONE U32_MAX
#define STATE_FREE 0x40u
#define STATE_QUICK 0x80u
#define STATE_TAKEN 0xc0u
#define STATE_MASK 0xc0u
#define BLOCK_INNER 0x3fu

struct free_block {  // what a free block's first bytes hold
  u32 next;
  u32 prev;
};

u64 blocks_bytes(u64 len) {
  u64 count = len / BLOCK_GRANULE;
  return count * BLOCK_GRANULE + ALIGN_UP(count, 16ull) + 16;
}

static struct free_block *block_at(const struct blocks *a, u32 g) {
  return (struct free_block *)(void *)(a->base + (usize)g * BLOCK_GRANULE);
}

static void link_free(struct blocks *a, u32 g, u32 order) {
  ASSERT((g & ((1u << order) - 1)) == 0);  // I1
  struct free_block *f = block_at(a, g);
  f->prev = NONE;
  f->next = a->head[order];
  if (f->next != NONE) {
    block_at(a, f->next)->prev = g;
  }
  a->head[order] = g;
  a->state[g] = (u8)(STATE_FREE | order);
}

static void unlink_free(struct blocks *a, u32 g, u32 order) {
  ASSERT(a->state[g] == (STATE_FREE | order));
  const struct free_block *f = block_at(a, g);
  if (f->prev != NONE) {
    block_at(a, f->prev)->next = f->next;
  } else {
    ASSERT(a->head[order] == g);
    a->head[order] = f->next;
  }
  if (f->next != NONE) {
    block_at(a, f->next)->prev = f->prev;
  }
  a->state[g] = BLOCK_INNER;
}

// Merges with free buddies upwards.
static void release(struct blocks *a, u32 g, u32 order) {
  a->state[g] = BLOCK_INNER;
  while (order + 1 < BLOCK_ORDERS) {
    u32 buddy = g ^ 1u << order;
    if ((u64)buddy + (1u << order) > a->count || a->state[buddy] != (STATE_FREE | order)) {
      break;
    }
    unlink_free(a, buddy, order);
    g &= ~(1u << order);
    order++;
  }
  link_free(a, g, order);
}

void blocks_init(struct blocks *a, struct span memory, u64 len) {
  ASSERT(memory.len >= blocks_bytes(len));
  ASSERT(len / BLOCK_GRANULE > 0);
  ASSERT(len / BLOCK_GRANULE < NONE);
  *a = (struct blocks){.base = (u8 *)ALIGN_UP((uptr)memory.ptr, (uptr)16),
                       .count = (u32)(len / BLOCK_GRANULE)};
  a->state = a->base + (usize)a->count * BLOCK_GRANULE;
  memset(a->state, BLOCK_INNER, a->count);
  for (u32 i = 0; i < BLOCK_ORDERS; i++) {
    a->head[i] = NONE;
  }
  for (u32 i = 0; i < BLOCK_QUICK_ORDERS; i++) {
    a->quick[i] = NONE;
  }
  for (u32 g = 0; g < a->count;) {  // the largest aligned blocks that fit
    u32 order = BLOCK_ORDERS - 1;
    while ((g & ((1u << order) - 1)) != 0 || (u64)g + (1u << order) > a->count) {
      order--;
    }
    link_free(a, g, order);
    g += 1u << order;
  }
}

static u32 order_of(u64 len) {
  u64 granules = (len + BLOCK_GRANULE - 1) / BLOCK_GRANULE;
  u32 order = 0;
  while ((1ull << order) < granules) {
    order++;
  }
  return order;
}

static void flush_quick(struct blocks *a) {
  for (u32 order = 0; order < BLOCK_QUICK_ORDERS; order++) {
    while (a->quick[order] != NONE) {
      u32 g = a->quick[order];
      a->quick[order] = block_at(a, g)->next;
      release(a, g, order);
    }
    a->quick_count[order] = 0;
  }
}

// A block from the buddy lists, split down; NONE when there is none.
static u32 take_split(struct blocks *a, u32 order) {
  u32 from = order;
  while (from < BLOCK_ORDERS && a->head[from] == NONE) {
    from++;
  }
  if (from == BLOCK_ORDERS) {
    return NONE;
  }
  u32 g = a->head[from];
  unlink_free(a, g, from);
  while (from > order) {
    from--;
    link_free(a, g + (1u << from), from);
  }
  return g;
}

static void *hand_out(struct blocks *a, u32 g, u32 order) {
  a->state[g] = (u8)(STATE_TAKEN | order);
  a->taken += 1u << order;
  a->taken_high = MAX(a->taken_high, a->taken);
  ASSERT(a->taken <= a->count);
  return block_at(a, g);
}

void *blocks_take(struct blocks *a, u64 len) {
  ASSERT(len > 0);
  if (len > (u64)a->count * BLOCK_GRANULE) {
    return NULL;
  }
  u32 order = order_of(len);
  if (order < BLOCK_QUICK_ORDERS && a->quick[order] != NONE) {
    u32 g = a->quick[order];
    ASSERT(a->state[g] == (STATE_QUICK | order));
    a->quick[order] = block_at(a, g)->next;
    a->quick_count[order]--;
    return hand_out(a, g, order);
  }
  if (order >= BLOCK_ORDERS) {
    return NULL;
  }
  u32 g = take_split(a, order);
  if (g == NONE) {
    flush_quick(a);
    g = take_split(a, order);
  }
  return g == NONE ? NULL : hand_out(a, g, order);
}

static u32 granule_of(const struct blocks *a, const void *block) {
  usize off = (usize)((const u8 *)block - a->base);
  ASSERT(off < (usize)a->count * BLOCK_GRANULE);
  ASSERT(off % BLOCK_GRANULE == 0);
  u32 g = (u32)(off / BLOCK_GRANULE);
  ASSERT((a->state[g] & STATE_MASK) == STATE_TAKEN);  // a double put ends here
  return g;
}

u64 blocks_len(const struct blocks *a, const void *block) {
  u32 g = granule_of(a, block);
  return (u64)BLOCK_GRANULE << (a->state[g] & ~STATE_MASK);
}

void blocks_put(struct blocks *a, void *block) {
  u32 g = granule_of(a, block);
  u32 order = a->state[g] & ~STATE_MASK & 0xff;
  ASSERT(a->taken >= 1u << order);
  a->taken -= 1u << order;
  if (order < BLOCK_QUICK_ORDERS && a->quick_count[order] < BLOCK_QUICK_MAX) {
    a->state[g] = (u8)(STATE_QUICK | order);
    block_at(a, g)->next = a->quick[order];
    a->quick[order] = g;
    a->quick_count[order]++;
    return;
  }
  release(a, g, order);
}

void blocks_check(const struct blocks *a) {
  u32 taken = 0;
  for (u32 g = 0; g < a->count;) {
    u32 state = a->state[g] & STATE_MASK;
    u32 order = a->state[g] & ~STATE_MASK & 0xff;
    ASSERT(state != 0);
    ASSERT(order < BLOCK_ORDERS);
    ASSERT((g & ((1u << order) - 1)) == 0);
    ASSERT((u64)g + (1u << order) <= a->count);
    for (u32 i = 1; i < 1u << order; i++) {
      ASSERT(a->state[g + i] == BLOCK_INNER);
    }
    u32 buddy = g ^ 1u << order;
    bool pair = order + 1 < BLOCK_ORDERS && (u64)buddy + (1u << order) <= a->count;
    ASSERT(state != STATE_FREE || !pair || a->state[buddy] != (STATE_FREE | order));
    taken += state == STATE_TAKEN ? 1u << order : 0;
    g += 1u << order;
  }
  ASSERT(taken == a->taken);
}
