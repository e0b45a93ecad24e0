// SPDX-License-Identifier: Apache-2.0
// For tests of the disk: a large disk of which only a few windows exist, and a digest. Whatever is
// read or written outside the windows fails the test.
#pragma once
#include "store/disk.h"

#define FOLD_WINDOWS 10u

u8 *SHA256(const u8 *data, usize len, u8 out[32]);  // BoringSSL's, linked by the tests

static inline void test_digest(struct bytes data, u8 out[SUPERBLOCK_DIGEST]) {
  SHA256(data.ptr, data.len, out);
}

struct fold {
  struct block block;  // first
  struct block *under;
  u64 len;  // of the disk that is shown
  u32 optimal_len;
  u32 count;
  struct fold_window {
    u64 at;
    u64 len;
    u64 to;  // on the disk below
  } window[FOLD_WINDOWS];
};

static inline void fold_info(struct block *b, struct block_info *out) {
  struct fold *f = (struct fold *)(void *)b;
  block_info(f->under, out);
  out->len = f->len;
  out->optimal_len = f->optimal_len;
}
// Where `at` lies below; U64_MAX: nowhere.
static inline u64 fold_place(const struct fold *f, u64 at, u64 len) {
  for (u32 i = 0; i < f->count; i++) {
    const struct fold_window *w = &f->window[i];
    if (at >= w->at && at + len <= w->at + w->len) {
      return w->to + (at - w->at);
    }
  }
  return U64_MAX;
}
static inline u32 fold_submit(struct block *b, const struct block_op *ops, u32 count) {
  struct fold *f = (struct fold *)(void *)b;
  u32 n = 0;
  for (; n < count; n++) {
    struct block_op op = ops[n];
    if (op.kind != BLOCK_FLUSH) {
      op.at = fold_place(f, op.at, op.len);
      ASSERT(op.at != U64_MAX);
    }
    if (block_submit(f->under, &op, 1) == 0) {
      break;
    }
  }
  return n;
}
static inline u32 fold_complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  return block_complete(((struct fold *)(void *)b)->under, now_ns, out, max);
}
static inline void fold_init(struct fold *f, struct block *under, u64 len) {
  *f = (struct fold){.block = {fold_info, fold_submit, fold_complete}, .under = under, .len = len};
}
static inline void fold_add(struct fold *f, u64 at, u64 len) {
  ASSERT(f->count < FOLD_WINDOWS);
  u64 to = f->count == 0 ? 0 : f->window[f->count - 1].to + f->window[f->count - 1].len;
  f->window[f->count++] = (struct fold_window){at, len, to};
}
