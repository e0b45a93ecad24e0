// SPDX-License-Identifier: Apache-2.0
#include "store/block_record.h"

static void info(struct block *b, struct block_info *out) {
  struct block_record *r = (struct block_record *)(void *)b;
  block_info(r->under, out);
}

static u32 submit(struct block *b, const struct block_op *ops, u32 count) {
  struct block_record *r = (struct block_record *)(void *)b;
  u32 n = 0;
  for (u32 i = 0; i < BLOCK_INFLIGHT_MAX && n < count; i++) {
    struct record_pending *p = &r->pending[i];
    if (p->used) {
      continue;
    }
    struct block_op op = ops[n];
    op.token = i;
    if (block_submit(r->under, &op, 1) != 1) {
      break;
    }
    *p = (struct record_pending){ops[n], r->count, true};
    n++;
  }
  return n;
}

static void write_down(struct block_record *r, const struct record_pending *p, u8 status) {
  const struct block_op *op = &p->op;
  usize len = op->kind == BLOCK_WRITE ? op->len : 0;
  if (op->kind == BLOCK_READ || status == BLOCK_REFUSED) {
    return;
  }
  if (r->count == r->max || len > r->data.len - r->data_len) {
    r->full = true;
    return;
  }
  r->entry[r->count++] =
      (struct record_entry){op->kind, status, p->submitted, op->at, op->len, r->data_len};
  if (len != 0) {
    memcpy(r->data.ptr + r->data_len, op->memory, len);
    r->data_len += len;
  }
}

static u32 complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  struct block_record *r = (struct block_record *)(void *)b;
  u32 n = block_complete(r->under, now_ns, out, max);
  for (u32 i = 0; i < n; i++) {
    ASSERT(out[i].token < BLOCK_INFLIGHT_MAX);
    struct record_pending *p = &r->pending[out[i].token];
    ASSERT(p->used);
    write_down(r, p, out[i].status);
    out[i].token = p->op.token;
    p->used = false;
  }
  return n;
}

void block_record_init(struct block_record *r, struct block *under, struct record_entry *entry,
                       u32 max, struct span data) {
  *r = (struct block_record){
      .block = {info, submit, complete}, .under = under, .entry = entry, .max = max, .data = data};
}

// How many entries, from the first, are certain after a cut at n.
static u32 certain(const struct block_record *r, u32 n) {
  u32 covered = 0;
  for (u32 i = 0; i < n; i++) {
    if (r->entry[i].kind == BLOCK_FLUSH && r->entry[i].status == BLOCK_OK) {
      covered = MAX(covered, r->entry[i].submitted);
    }
  }
  return covered;
}

static bool is_loose(const struct block_record *r, u32 i, u32 n) {
  return r->entry[i].kind != BLOCK_FLUSH && r->entry[i].submitted <= n;
}

u32 block_record_loose(const struct block_record *r, u32 n, u32 *out, u32 max) {
  u32 count = 0;
  ASSERT(n <= r->count);
  for (u32 i = certain(r, n); i < r->count; i++) {
    if (is_loose(r, i, n)) {
      if (count < max) {
        out[count] = i;
      }
      count++;
    }
  }
  return count;
}

static void apply(const struct block_record *r, u32 i, u64 len, struct span image) {
  const struct record_entry *e = &r->entry[i];
  ASSERT(e->at <= image.len && e->len <= image.len - e->at);
  if (e->kind == BLOCK_WRITE) {
    memcpy(image.ptr + e->at, r->data.ptr + e->data, len);
  } else if (e->kind != BLOCK_FLUSH) {
    memset(image.ptr + e->at, e->kind == BLOCK_DISCARD ? 0xdc : 0, len);
  }
}

void block_record_replay(const struct block_record *r, u32 n, u64 keep, u64 torn_len,
                         struct span image) {
  u32 sure = certain(r, n);
  u32 bit = 0;
  for (u32 i = 0; i < sure; i++) {  // one that failed has left nothing that can be relied on
    apply(r, i, r->entry[i].len, image);
  }
  for (u32 i = sure; i < r->count && bit < 64; i++) {
    if (!is_loose(r, i, n)) {
      continue;
    }
    bool last = bit == 63 || keep >> (bit + 1) == 0;
    u64 len = last && torn_len != 0 ? MIN(torn_len, r->entry[i].len) : r->entry[i].len;
    if ((keep >> bit & 1) != 0) {
      apply(r, i, len, image);
    }
    bit++;
  }
}
