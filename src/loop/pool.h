// SPDX-License-Identifier: Apache-2.0
// Fixed-size objects from a fixed piece of memory, owned by one core. Running out is an answer, not
// an accident.
//
// I1  taken + free_count == count.
// I2  An object is either taken or on the free list; pool_put asserts that it was taken (double
//     free, foreign pointer).
// I3  Free objects link by index; in sanitizer builds their contents are poisoned, a red zone
//     stands behind each, and the free list is a queue, so that reuse comes as late as possible.
// I4  Objects that were never taken are no list: start costs nothing, and memory that a quiet
//     machine does not need is never touched.
#pragma once
#include "base/bytes.h"

struct pool {
  const char *name;
  u8 *base;
  u8 *state;  // one byte an object: 0 free, 1 taken
  u32 stride;
  u32 object_size;
  u32 count;
  u32 free_count;
  u32 free_low;  // fewest ever free: printed by diagnostics
  u32 fresh;     // objects from here on were never taken: their memory is untouched
  u32 free_head;
  u32 free_tail;
};

// Bytes of memory that `count` objects of `object_size` need, everything included.
usize pool_bytes(u32 object_size, u32 count);
// Divides `memory` (>= pool_bytes) among `count` objects. Memory stays the caller's property and is
// never returned.
void pool_init(struct pool *p, const char *name, struct span memory, u32 object_size, u32 count);
// The pools that were ever divided, for diagnostics: 0, 1, ... until NULL. At most POOL_LISTED_MAX
// are remembered; each must live as long as this is asked.
#define POOL_LISTED_MAX 64u
const struct pool *pool_listed(u32 i);
// An object, zeroed; NULL when all are taken. OWNED.
void *pool_take(struct pool *p);
// The same without zeroing: for buffers that are about to be filled.
void *pool_take_raw(struct pool *p);
void pool_put(struct pool *p, void *object CONSUMES);
static inline u32 pool_taken(const struct pool *p) {
  return p->count - p->free_count;
}
// Object <-> index, for links by index.
u32 pool_index(const struct pool *p, const void *object);
static inline void *pool_at(const struct pool *p, u32 index) {
  ASSERT(index < p->count);
  return p->base + (usize)index * p->stride;
}
