// SPDX-License-Identifier: Apache-2.0
// The block allocator; see alloc.h for its invariants.
//
// Offsets instead of pointers: a block is named by the offset of its head from `base`, and the
// first block starts at offset ORIGIN, so that 0 can mean "none". Payload = head + 8; the payload
// of a free block holds two offsets, its list's next and previous.
#include "tls/alloc.h"

#define HEAD 16u
#define ORIGIN 16u
#define MIN_BLOCK 32u
#define TAKEN 1u
#define SMALL_CLASSES 32u  // sizes below 512: one class each 16 bytes

struct head {
  u32 size;  // of the block, head included; a multiple of 16; bit 0: taken
  u32 prev;  // size of the block before, 0 for the first
  u32 len;   // what was asked for
  u32 spare;
};
static_assert(sizeof(struct head) == HEAD, "payloads are 16-aligned");

static struct head *head_at(const struct alloc *a, u32 off) {
  ASSERT(off >= ORIGIN);
  ASSERT(off + HEAD <= a->len);
  return (struct head *)(void *)(a->base + off);
}
static u32 size_at(const struct alloc *a, u32 off) {
  return head_at(a, off)->size & ~TAKEN;
}
static u32 *links_at(const struct alloc *a, u32 off) {
  return (u32 *)(void *)(a->base + off + HEAD);
}

static u32 class_of(u32 size) {
  ASSERT(size >= MIN_BLOCK);
  if (size < SMALL_CLASSES * 16) {
    return size / 16;
  }
  u32 c = SMALL_CLASSES + (31u - (u32)__builtin_clz(size)) - 9u;
  return MIN(c, ALLOC_CLASS_COUNT - 1);
}

static void list_add(struct alloc *a, u32 off) {
  u32 c = class_of(size_at(a, off));
  u32 *links = links_at(a, off);
  links[0] = a->head[c];
  links[1] = 0;
  if (a->head[c] != 0) {
    links_at(a, a->head[c])[1] = off;
  }
  a->head[c] = off;
  a->classes |= 1ull << c;
}

static void list_drop(struct alloc *a, u32 off) {
  u32 c = class_of(size_at(a, off));
  u32 next = links_at(a, off)[0];
  u32 prev = links_at(a, off)[1];
  if (prev != 0) {
    links_at(a, prev)[0] = next;
  } else {
    ASSERT(a->head[c] == off);
    a->head[c] = next;
  }
  if (next != 0) {
    links_at(a, next)[1] = prev;
  }
  if (a->head[c] == 0) {
    a->classes &= ~(1ull << c);
  }
}

// Makes [off, off+size) one block and tells its successor.
static void set_block(struct alloc *a, u32 off, u32 size, u32 flag) {
  head_at(a, off)->size = size | flag;
  if (off + size < a->len) {
    head_at(a, off + size)->prev = size;
  }
}

void alloc_init(struct alloc *a, struct span memory) {
  uptr start = ALIGN_UP((uptr)memory.ptr, (uptr)16);
  usize skipped = start - (uptr)memory.ptr;
  ASSERT(memory.len >= 256 + skipped);
  ASSERT(memory.len <= 64u << 20);
  MEM_UNPOISON(memory.ptr, memory.len);
  *a = (struct alloc){.base = memory.ptr + skipped, .fail_after = U32_MAX};
  a->len = ALIGN_DOWN((u32)(memory.len - skipped) - ORIGIN, 16u) + ORIGIN;
  head_at(a, ORIGIN)->prev = 0;
  set_block(a, ORIGIN, a->len - ORIGIN, 0);
  list_add(a, ORIGIN);
  MEM_POISON(a->base + ORIGIN + HEAD + 8, a->len - ORIGIN - HEAD - 8);
}

// First block of a class that is large enough, or 0.
static u32 find_in_class(const struct alloc *a, u32 c, u32 size) {
  for (u32 off = a->head[c]; off != 0; off = links_at(a, off)[0]) {
    if (size_at(a, off) >= size) {
      return off;
    }
  }
  return 0;
}

static u32 find(const struct alloc *a, u32 size) {
  u32 first = class_of(size);
  u64 candidates = a->classes & (~0ull << first);
  while (candidates != 0) {
    u32 c = (u32)__builtin_ctzll(candidates);
    u32 off = find_in_class(a, c, size);
    if (off != 0) {
      return off;
    }
    candidates &= candidates - 1;
  }
  return 0;
}

void *alloc_take(struct alloc *a, usize len) {
  if (len > a->len || a->fail_after == 0) {
    a->refused++;
    return NULL;
  }
  a->fail_after -= a->fail_after != U32_MAX;
  u32 size = MAX(MIN_BLOCK, ALIGN_UP((u32)len + HEAD + POOL_REDZONE, 16u));
  u32 off = find(a, size);
  if (off == 0) {
    a->refused++;
    return NULL;
  }
  u32 have = size_at(a, off);
  ASSERT(have >= size);
  list_drop(a, off);
  MEM_UNPOISON(a->base + off, size);
  if (have - size >= MIN_BLOCK) {
    MEM_UNPOISON(a->base + off + size, HEAD + 8);
    set_block(a, off + size, have - size, 0);
    head_at(a, off + size)->prev = size;
    list_add(a, off + size);
    have = size;
  }
  MEM_UNPOISON(a->base + off, have);
  set_block(a, off, have, TAKEN);
  head_at(a, off)->len = (u32)len;
  a->used += have;
  a->peak = MAX(a->peak, a->used);
  a->count++;
  a->high = MAX(a->high, off + have);
  MEM_POISON(a->base + off + HEAD + len, have - HEAD - len);
  return a->base + off + HEAD;
}

static u32 offset_of(const struct alloc *a, const void *p) {
  ASSERT(alloc_owns(a, p));
  u32 off = (u32)((const u8 *)p - a->base) - HEAD;
  ASSERT((head_at(a, off)->size & TAKEN) != 0);
  return off;
}

bool alloc_owns(const struct alloc *a, const void *p) {
  const u8 *b = p;
  return b >= a->base + ORIGIN + HEAD && b < a->base + a->len;
}

usize alloc_size(const struct alloc *a, const void *p) {
  return head_at(a, offset_of(a, p))->len;
}

void alloc_put(struct alloc *a, void *p) {
  u32 off = offset_of(a, p);
  u32 size = size_at(a, off);
  ASSERT(a->used >= size);
  ASSERT(a->count > 0);
  a->used -= size;
  a->count--;
  MEM_UNPOISON(a->base + off, size);
  mem_wipe(a->base + off + HEAD, size - HEAD);
  u32 next = off + size;
  if (next < a->len && (head_at(a, next)->size & TAKEN) == 0) {
    list_drop(a, next);
    size += size_at(a, next);
  }
  u32 prev_size = head_at(a, off)->prev;
  if (prev_size != 0 && (head_at(a, off - prev_size)->size & TAKEN) == 0) {
    off -= prev_size;
    list_drop(a, off);
    size += prev_size;
  }
  set_block(a, off, size, 0);
  list_add(a, off);
  MEM_POISON(a->base + off + HEAD + 8, size - HEAD - 8);
}

void alloc_fini(struct alloc *a) {
  MEM_UNPOISON(a->base, a->len);
  // Beyond `high` there was never more than the head and the links of a free block.
  mem_wipe(a->base, MIN(a->len, a->high + MIN_BLOCK));
  mem_wipe(a, sizeof *a);
}

void alloc_check(const struct alloc *a) {
  u32 prev = 0;
  u32 used = 0;
  u32 count = 0;
  bool prev_free = false;
  u32 off = ORIGIN;
  while (off < a->len) {
    const struct head *h = head_at(a, off);
    u32 size = h->size & ~TAKEN;
    bool taken = (h->size & TAKEN) != 0;
    ASSERT(size >= MIN_BLOCK);
    ASSERT(size % 16 == 0);
    ASSERT(size <= a->len - off);
    ASSERT(h->prev == prev);
    ASSERT(taken || !prev_free);
    used += taken ? size : 0;
    count += taken;
    prev_free = !taken;
    prev = size;
    off += size;
  }
  ASSERT(off == a->len);
  ASSERT(used == a->used);
  ASSERT(count == a->count);
}
