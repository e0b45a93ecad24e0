// SPDX-License-Identifier: Apache-2.0
// Each operation gets a number of its own below (its pending slot), so that tokens of the caller
// never meet those of this device. OWN is the number of the delayed write.
#include "store/block_fault.h"

#define OWN BLOCK_INFLIGHT_MAX

static bool applies(const struct block_fault *f, const struct block_op *op) {
  struct block_info i;
  switch (f->kind) {
  case BLOCK_FAULT_NONE: return false;
  case BLOCK_FAULT_ERROR:
  case BLOCK_FAULT_STUCK: return true;
  case BLOCK_FAULT_TORN:
  case BLOCK_FAULT_TORN_SILENT:
    block_info(f->under, &i);
    return op->kind == BLOCK_WRITE && op->len >= 2ull * i.block_len;
  case BLOCK_FAULT_LOST: return op->kind == BLOCK_WRITE;
  case BLOCK_FAULT_REORDERED: return op->kind == BLOCK_WRITE && op->len <= f->scratch.len;
  case BLOCK_FAULT_MISDIRECTED:
    block_info(f->under, &i);
    return (op->kind == BLOCK_WRITE || op->kind == BLOCK_READ) && i.len >= 2 * op->len &&
           op->at <= i.len - op->len;
  case BLOCK_FAULT_LYING_FLUSH: return op->kind == BLOCK_FLUSH;
  default: return op->kind == BLOCK_READ;
  }
}

static enum block_fault_kind choose(struct block_fault *f, const struct block_op *op) {
  if (!applies(f, op)) {
    return BLOCK_FAULT_NONE;
  }
  f->seen++;
  bool now = f->seen == f->nth || (f->kind == BLOCK_FAULT_LYING_FLUSH && f->seen > f->nth);
  f->fired = f->fired || now;
  return now ? f->kind : BLOCK_FAULT_NONE;
}

// What goes below in its place. False: nothing does.
static bool change(struct block_fault *f, struct block_op *op, enum block_fault_kind how) {
  struct block_info i;
  block_info(f->under, &i);
  switch (how) {
  case BLOCK_FAULT_TORN:
  case BLOCK_FAULT_TORN_SILENT: op->len = ALIGN_DOWN(op->len / 2, (u64)i.block_len); return true;
  case BLOCK_FAULT_MISDIRECTED:
    op->at = op->at + 2 * op->len <= i.len ? op->at + op->len : op->at - op->len;
    return true;
  case BLOCK_FAULT_REORDERED:
    f->delayed = *op;
    f->delayed.memory = f->scratch.ptr;
    f->delayed.token = OWN;
    f->have_delayed = true;
    memcpy(f->scratch.ptr, op->memory, op->len);
    return false;
  case BLOCK_FAULT_NONE:
  case BLOCK_FAULT_FLIPPED: return true;
  default: return false;
  }
}

static u32 free_slot(const struct block_fault *f) {
  u32 i = 0;
  while (i < BLOCK_INFLIGHT_MAX && f->pending[i].used) {
    i++;
  }
  return i;
}

static u32 submit(struct block *b, const struct block_op *ops, u32 count) {
  struct block_fault *f = (struct block_fault *)(void *)b;
  u32 n = 0;
  for (; n < count; n++) {
    u32 i = free_slot(f);
    if (i == BLOCK_INFLIGHT_MAX) {
      break;
    }
    struct block_op op = ops[n];
    op.token = i;
    u32 seen = f->seen;
    bool fired = f->fired;
    enum block_fault_kind how = choose(f, &op);
    bool below = change(f, &op, how);
    if (below && block_submit(f->under, &op, 1) != 1) {
      f->seen = seen;  // it comes again
      f->fired = fired;
      break;
    }
    f->pending[i] = (struct fault_pending){ops[n], (u8)how, true, !below};
  }
  return n;
}

static void info(struct block *b, struct block_info *out) {
  block_info(((struct block_fault *)(void *)b)->under, out);
}

static u8 status_of(const struct fault_pending *p, u8 status) {
  bool fails = p->how == BLOCK_FAULT_ERROR || p->how == BLOCK_FAULT_TORN;
  return fails ? (u8)BLOCK_ERROR : status;
}

static u32 finish_ready(struct block_fault *f, struct block_done *out, u32 max) {
  u32 n = 0;
  for (u32 i = 0; i < BLOCK_INFLIGHT_MAX && n < max; i++) {
    struct fault_pending *p = &f->pending[i];
    if (p->used && p->ready && p->how != BLOCK_FAULT_STUCK) {
      out[n++] = (struct block_done){p->op.token, status_of(p, BLOCK_OK)};
      p->used = false;
    }
  }
  return n;
}

static u32 complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  struct block_fault *f = (struct block_fault *)(void *)b;
  u32 n = finish_ready(f, out, max);
  u32 end = n + block_complete(f->under, now_ns, out + n, max - n);
  for (u32 i = n; i < end; i++) {
    if (out[i].token == OWN) {
      continue;  // the delayed write has happened
    }
    struct fault_pending *p = &f->pending[out[i].token];
    ASSERT(p->used && !p->ready);
    if (p->how == BLOCK_FAULT_FLIPPED) {
      ((u8 *)p->op.memory)[p->op.len / 2] ^= 0x10;
    }
    if (p->op.kind == BLOCK_FLUSH && f->have_delayed &&
        block_submit(f->under, &f->delayed, 1) == 1) {
      f->have_delayed = false;
    }
    out[n++] = (struct block_done){p->op.token, status_of(p, out[i].status)};
    p->used = false;
  }
  return n;
}

void block_fault_init(struct block_fault *f, struct block *under, enum block_fault_kind kind,
                      u32 nth, struct span scratch) {
  ASSERT(kind < BLOCK_FAULT_COUNT);
  *f = (struct block_fault){.block = {info, submit, complete},
                            .under = under,
                            .kind = kind,
                            .nth = nth,
                            .scratch = scratch};
}
