// SPDX-License-Identifier: Apache-2.0
#include "store/block_memory.h"

#define SECTOR 512u

static u32 rnd(struct block_memory *m, u32 below) {
  m->seed = m->seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(m->seed >> 33) % below;
}

static void make_dirty(struct block_memory *m, u64 at, u64 len) {
  u32 block_len = m->facts.block_len;
  bool clean = m->dirty_from == m->dirty_to;
  m->dirty_from = clean ? at / block_len : MIN(m->dirty_from, at / block_len);
  m->dirty_to = clean ? (at + len) / block_len : MAX(m->dirty_to, (at + len) / block_len);
  for (u64 b = at / block_len; b < (at + len) / block_len; b++) {
    m->dirty[b] = m->dirty[b] == 0 ? m->epoch + 1 : m->dirty[b];
  }
}

// Blocks first written before the flush was submitted are stable now, with what was written to them
// since: a disk flushes a cached block as it is.
static void flush(struct block_memory *m, u32 epoch) {
  u32 block_len = m->facts.block_len;
  u64 from = m->dirty_from;
  u64 to = m->dirty_to;
  m->dirty_from = m->dirty_to = 0;
  for (u64 b = from; b < to; b++) {
    if (m->dirty[b] != 0 && m->dirty[b] <= epoch) {
      memcpy(m->stable + b * block_len, m->now + b * block_len, block_len);
      m->dirty[b] = 0;
    } else if (m->dirty[b] != 0) {
      m->dirty_from = m->dirty_from == m->dirty_to ? b : m->dirty_from;
      m->dirty_to = b + 1;
    }
  }
  m->flushes++;
}

static void carry_out(struct block_memory *m, const struct block_memory_held *h) {
  const struct block_op *op = &h->op;
  switch (op->kind) {
  case BLOCK_READ:
    memcpy(op->memory, m->now + op->at, op->len);
    m->reads++;
    return;
  case BLOCK_WRITE: memcpy(m->now + op->at, op->memory, op->len); break;
  case BLOCK_FLUSH: flush(m, h->epoch); return;
  case BLOCK_DISCARD: memset(m->now + op->at, (int)rnd(m, 256), op->len); break;
  default: memset(m->now + op->at, 0, op->len); break;
  }
  m->writes++;
  make_dirty(m, op->at, op->len);
}

static void info(struct block *b, struct block_info *out) {
  *out = ((struct block_memory *)(void *)b)->facts;
}

static u32 submit(struct block *b, const struct block_op *ops, u32 count) {
  struct block_memory *m = (struct block_memory *)(void *)b;
  u32 n = 0;
  for (; n < count && m->held_count < BLOCK_INFLIGHT_MAX; n++) {
    m->epoch += ops[n].kind == BLOCK_FLUSH;
    m->held[m->held_count++] = (struct block_memory_held){ops[n], m->epoch};
  }
  return n;
}

static u32 complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  struct block_memory *m = (struct block_memory *)(void *)b;
  u32 n = 0;
  (void)now_ns;
  while (n < max && m->held_count > 0 && rnd(m, 8) >= m->delay) {
    u32 i = rnd(m, m->held_count);
    struct block_memory_held h = m->held[i];
    m->held[i] = m->held[--m->held_count];
    bool fits = block_op_fits(&m->facts, &h.op);
    if (fits) {
      carry_out(m, &h);
    }
    out[n++] = (struct block_done){h.op.token, fits ? BLOCK_OK : BLOCK_REFUSED};
  }
  return n;
}

void block_memory_init(struct block_memory *m, struct span now, struct span stable, u32 *dirty,
                       u32 block_len, u64 seed) {
  ASSERT(now.len == stable.len);
  ASSERT(IS_POWER_OF_TWO(block_len) && block_len >= SECTOR);
  ASSERT(now.len % block_len == 0);
  *m = (struct block_memory){.block = {info, submit, complete},
                             .facts = {.name = "memory",
                                       .len = now.len,
                                       .block_len = block_len,
                                       .physical_len = block_len,
                                       .transfer_max = BLOCK_TRANSFER_MAX,
                                       .inflight_max = BLOCK_INFLIGHT_MAX,
                                       .discard_max = now.len,
                                       .discard_align = block_len,
                                       .zero_max = now.len,
                                       .flush = true,
                                       .write_cache = true},
                             .now = now.ptr,
                             .stable = stable.ptr,
                             .dirty = dirty,
                             .seed = seed,
                             .delay = 2};
}

void block_memory_cut(struct block_memory *m) {
  u32 block_len = m->facts.block_len;
  for (; m->held_count > 0; m->held_count--) {
    const struct block_memory_held *h = &m->held[m->held_count - 1];
    bool writes = h->op.kind != BLOCK_READ && h->op.kind != BLOCK_FLUSH;
    if (writes && rnd(m, 2) != 0 && block_op_fits(&m->facts, &h->op)) {
      carry_out(m, h);
    }
  }
  for (u64 b = m->dirty_from; b < m->dirty_to; b++) {
    for (u32 s = 0; m->dirty[b] != 0 && s < block_len; s += SECTOR) {
      u64 at = b * block_len + s;
      if (rnd(m, 2) != 0) {
        memcpy(m->stable + at, m->now + at, SECTOR);
      } else {
        memcpy(m->now + at, m->stable + at, SECTOR);
      }
    }
    m->dirty[b] = 0;  // I1: the others are equal
  }
  m->dirty_from = m->dirty_to = 0;
}
