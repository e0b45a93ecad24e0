// SPDX-License-Identifier: Apache-2.0
#include "loop/pool.h"

#define POOL_NONE U32_MAX
#define POOL_ALIGN 8u  // objects that want more have a size that is a multiple of it

enum pool_state { POOL_FREE = 0, POOL_TAKEN = 1 };

static u32 stride_of(u32 object_size) {
  return ALIGN_UP(MAX(object_size, (u32)sizeof(u32)) + POOL_REDZONE, POOL_ALIGN);
}

usize pool_bytes(u32 object_size, u32 count) {
  return (usize)stride_of(object_size) * count + ALIGN_UP(count, POOL_ALIGN) + POOL_ALIGN;
}

static u32 *next_of(const struct pool *p, u32 index) {
  return (u32 *)(void *)(p->base + (usize)index * p->stride);
}

// Links a free object into the list. In sanitizer builds at the tail (a quarantine as long as the
// list), otherwise at the head (still warm in the cache).
static void link_free(struct pool *p, u32 index) {
  u32 *next = next_of(p, index);
  *next = POOL_NONE;
  if (p->free_head == POOL_NONE) {
    p->free_head = p->free_tail = index;
  } else if (POOL_REDZONE != 0) {
    MEM_UNPOISON(next_of(p, p->free_tail), sizeof(u32));
    *next_of(p, p->free_tail) = index;
    MEM_POISON(next_of(p, p->free_tail), sizeof(u32));
    p->free_tail = index;
  } else {
    *next = p->free_head;
    p->free_head = index;
  }
  p->free_count++;
}

static const struct pool *listed[POOL_LISTED_MAX];

// A pool that is divided anew keeps its place; what comes when the list is full is not on it.
static void list_pool(const struct pool *p) {
  u32 i = 0;
  while (i < POOL_LISTED_MAX && listed[i] != NULL && listed[i] != p) {
    i++;
  }
  if (i < POOL_LISTED_MAX) {
    listed[i] = p;
  }
}

const struct pool *pool_listed(u32 i) {
  return i < POOL_LISTED_MAX ? listed[i] : NULL;
}

void pool_init(struct pool *p, const char *name, struct span memory, u32 object_size, u32 count) {
  ASSERT(object_size > 0);
  ASSERT(count > 0);
  ASSERT(memory.len >= pool_bytes(object_size, count));
  uptr start = ALIGN_UP((uptr)memory.ptr, (uptr)POOL_ALIGN);
  *p = (struct pool){.name = name,
                     .base = (u8 *)start,
                     .stride = stride_of(object_size),
                     .object_size = object_size,
                     .count = count,
                     .free_count = count,
                     .free_low = count,
                     .free_head = POOL_NONE,
                     .free_tail = POOL_NONE};
  p->state = p->base + (usize)p->stride * count;
  memset(p->state, POOL_FREE, count);
  MEM_POISON(p->base, POOL_REDZONE != 0 ? (usize)p->stride * count : 0);
  list_pool(p);
}

// Index of a free object, off its list; POOL_NONE when all are taken. Used ones come first (warm),
// in sanitizer builds fresh ones (a longer quarantine).
static u32 next_free(struct pool *p) {
  bool fresh = p->fresh < p->count && (POOL_REDZONE != 0 || p->free_head == POOL_NONE);
  if (fresh) {
    return p->fresh++;
  }
  u32 index = p->free_head;
  if (index != POOL_NONE) {
    MEM_UNPOISON(next_of(p, index), sizeof(u32));
    p->free_head = *next_of(p, index);
    p->free_tail = p->free_head == POOL_NONE ? POOL_NONE : p->free_tail;
  }
  return index;
}

void *pool_take_raw(struct pool *p) {
  u32 index = next_free(p);
  if (index == POOL_NONE) {
    ASSERT(p->free_count == 0);
    return NULL;
  }
  ASSERT(p->state[index] == POOL_FREE);
  u8 *object = p->base + (usize)index * p->stride;
  MEM_UNPOISON(object, p->object_size);
  p->state[index] = POOL_TAKEN;
  p->free_count--;
  p->free_low = MIN(p->free_low, p->free_count);
  return object;
}

void *pool_take(struct pool *p) {
  void *object = pool_take_raw(p);
  if (object != NULL) {
    memset(object, 0, p->object_size);
  }
  return object;
}

u32 pool_index(const struct pool *p, const void *object) {
  usize off = (usize)((const u8 *)object - p->base);
  ASSERT(off < (usize)p->stride * p->count);
  ASSERT(off % p->stride == 0);
  return (u32)(off / p->stride);
}

void pool_put(struct pool *p, void *object) {
  u32 index = pool_index(p, object);
  ASSERT(p->state[index] == POOL_TAKEN);  // I2: a double free ends here
  p->state[index] = POOL_FREE;
  link_free(p, index);
  MEM_POISON(object, POOL_REDZONE != 0 ? p->stride : 0);
}
