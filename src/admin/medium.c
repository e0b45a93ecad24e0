// SPDX-License-Identifier: Apache-2.0
#include "admin/medium.h"

#include "plat/plat.h"

#define STEP_NS 10000000ull

// Waits for the one operation that is under way. BLOCK_LOST: it never came.
static enum block_status wait(struct medium *m) {
  struct block_done done;
  u64 until = plat_now_ns() + m->wait_ns;
  for (;;) {
    u64 now = plat_now_ns();
    if (block_complete(m->disk, now, &done, 1) == 1) {
      return (enum block_status)done.status;
    }
    block_info(m->disk, &m->info);
    if (now > until || m->info.dead) {
      m->failed = true;
      return BLOCK_LOST;
    }
    plat_idle(0, now + STEP_NS);
  }
}

// Into the half that was not used last. U32_MAX: it could not be read.
static u32 load(struct medium *m, u64 at) {
  u32 half = 1 - m->last;
  u64 len = MIN((u64)MEDIUM_PIECE, (u64)m->info.transfer_max);
  struct block_op op = {.kind = BLOCK_READ, .memory = m->window.ptr + (usize)half * MEDIUM_PIECE};
  op.at = ALIGN_DOWN(at, (u64)m->info.block_len);
  op.len = MIN(ALIGN_DOWN(len, (u64)m->info.block_len), m->info.len - op.at);
  m->piece[half].at = U64_MAX;
  if (m->failed || block_submit(m->disk, &op, 1) != 1 || wait(m) != BLOCK_OK) {
    return U32_MAX;
  }
  m->piece[half].at = op.at;
  m->piece[half].len = op.len;
  return half;
}

static u32 half_of(const struct medium *m, u64 at) {
  for (u32 i = 0; i < 2; i++) {
    if (m->piece[i].at != U64_MAX && at >= m->piece[i].at &&
        at - m->piece[i].at < m->piece[i].len) {
      return i;
    }
  }
  return U32_MAX;
}

static bool read(void *ctx, u64 at, struct span out) {
  struct medium *m = ctx;
  usize done = 0;
  while (done < out.len) {
    u64 from = at + done;
    u32 half = half_of(m, from);
    half = half == U32_MAX ? load(m, from) : half;
    if (half == U32_MAX) {
      return false;
    }
    m->last = half;
    usize off = (usize)(from - m->piece[half].at);
    usize n = MIN(out.len - done, m->piece[half].len - off);
    memcpy(out.ptr + done, m->window.ptr + (usize)half * MEDIUM_PIECE + off, n);
    done += n;
  }
  return true;
}

bool medium_open(struct medium *m, struct block *disk, struct span window, u64 wait_ns,
                 struct volume_medium *out) {
  *m = (struct medium){.disk = disk, .window = window, .wait_ns = wait_ns};
  ASSERT(window.len >= MEDIUM_WINDOW);
  m->piece[0].at = U64_MAX;
  m->piece[1].at = U64_MAX;
  block_info(disk, &m->info);
  *out = (struct volume_medium){read, m, m->info.len};
  return !m->info.dead && m->info.block_len <= MEDIUM_PIECE &&
         m->info.transfer_max >= m->info.block_len;
}
