// SPDX-License-Identifier: Apache-2.0
#include "loop/extent.h"

#define NONE U32_MAX

usize extent_bytes(u32 pages) { return (usize)pages * (EXTENT_PAGE + 9) + EXTENT_PAGE; }

static void push(struct extent *e, u32 page, u32 order) {
  ASSERT(e->order[page] == 0);
  e->order[page] = (u8)(order + 1);
  e->prev[page] = NONE;
  e->next[page] = e->head[order];
  if (e->head[order] != NONE) {
    e->prev[e->head[order]] = page;
  }
  e->head[order] = page;
  e->free_pages += 1u << order;
}

static void unlink(struct extent *e, u32 page) {
  u32 order = (u32)e->order[page] - 1;
  ASSERT(order < EXTENT_ORDERS);
  if (e->prev[page] != NONE) {
    e->next[e->prev[page]] = e->next[page];
  } else {
    e->head[order] = e->next[page];
  }
  if (e->next[page] != NONE) {
    e->prev[e->next[page]] = e->prev[page];
  }
  e->order[page] = 0;
  e->free_pages -= 1u << order;
}

// Frees one aligned block, joining it with its free buddies.
static void free_block(struct extent *e, u32 page, u32 order) {
  while (order + 1 < EXTENT_ORDERS) {
    u32 buddy = page ^ 1u << order;
    if (buddy >= e->page_count || e->order[buddy] != order + 1) {
      break;
    }
    unlink(e, buddy);
    page = MIN(page, buddy);
    order++;
  }
  push(e, page, order);
}

// Frees [page, page+count) as the largest aligned blocks it contains.
static void free_range(struct extent *e, u32 page, u32 count) {
  while (count > 0) {
    u32 order = page == 0 ? EXTENT_ORDERS - 1 : (u32)__builtin_ctz(page);
    order = MIN(order, EXTENT_ORDERS - 1);
    order = MIN(order, 31u - (u32)__builtin_clz(count));
    free_block(e, page, order);
    page += 1u << order;
    count -= 1u << order;
  }
}

void extent_init(struct extent *e, struct span memory, u32 pages) {
  ASSERT(pages > 0);
  ASSERT(memory.len >= extent_bytes(pages));
  *e = (struct extent){.page_count = pages};
  e->base = (u8 *)ALIGN_UP((uptr)memory.ptr, (uptr)EXTENT_PAGE);
  e->next = (u32 *)(void *)(e->base + (usize)pages * EXTENT_PAGE);
  e->prev = e->next + pages;
  e->order = (u8 *)(e->prev + pages);
  memset(e->order, 0, pages);
  for (u32 i = 0; i < EXTENT_ORDERS; i++) {
    e->head[i] = NONE;
  }
  free_range(e, 0, pages);
  e->free_low = e->free_pages;
  MEM_POISON(e->base, (usize)pages * EXTENT_PAGE);
}

void *extent_take(struct extent *e, usize len) {
  ASSERT(len > 0);
  if (len > (usize)e->page_count * EXTENT_PAGE) {
    return NULL;
  }
  u32 count = (u32)((len + EXTENT_PAGE - 1) / EXTENT_PAGE);
  u32 order = count == 1 ? 0 : 32u - (u32)__builtin_clz(count - 1);
  while (order < EXTENT_ORDERS && e->head[order] == NONE) {
    order++;
  }
  if (order >= EXTENT_ORDERS) {
    return NULL;
  }
  u32 page = e->head[order];
  unlink(e, page);
  free_range(e, page + count, (1u << order) - count);
  e->free_low = MIN(e->free_low, e->free_pages);
  u8 *run = e->base + (usize)page * EXTENT_PAGE;
  MEM_UNPOISON(run, len);
  return run;
}

void extent_put(struct extent *e, void *run, usize len) {
  usize off = (usize)((u8 *)run - e->base);
  ASSERT(off % EXTENT_PAGE == 0);
  u32 page = (u32)(off / EXTENT_PAGE);
  u32 count = (u32)((len + EXTENT_PAGE - 1) / EXTENT_PAGE);
  ASSERT(page + count <= e->page_count);
  ASSERT(e->order[page] == 0);
  free_range(e, page, count);
  MEM_POISON(run, (usize)count * EXTENT_PAGE);
}
