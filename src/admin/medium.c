// SPDX-License-Identifier: Apache-2.0
#include "admin/medium.h"

#include "plat/plat.h"

#define WAIT_NS 60000000000ull  // above the drivers' own deadlines and resets
#define STEP_NS 10000000ull

// Waits for the one operation that is under way. BLOCK_LOST: it never came.
static enum block_status wait(struct medium *m) {
  struct block_done done;
  u64 until = plat_now_ns() + WAIT_NS;
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

static bool load(struct medium *m, u64 at) {
  u64 len = MIN((u64)m->window.len, (u64)m->info.transfer_max);
  struct block_op op = {.kind = BLOCK_READ, .memory = m->window.ptr};
  op.at = ALIGN_DOWN(at, (u64)m->info.block_len);
  op.len = MIN(ALIGN_DOWN(len, (u64)m->info.block_len), m->info.len - op.at);
  m->window_at = U64_MAX;
  if (m->failed || block_submit(m->disk, &op, 1) != 1 || wait(m) != BLOCK_OK) {
    return false;
  }
  m->window_at = op.at;
  m->window_len = op.len;
  return true;
}

static bool read(void *ctx, u64 at, struct span out) {
  struct medium *m = ctx;
  usize done = 0;
  while (done < out.len) {
    u64 from = at + done;
    bool inside =
        m->window_at != U64_MAX && from >= m->window_at && from - m->window_at < m->window_len;
    if (!inside && !load(m, from)) {
      return false;
    }
    usize off = (usize)(from - m->window_at);
    usize n = MIN(out.len - done, m->window_len - off);
    memcpy(out.ptr + done, m->window.ptr + off, n);
    done += n;
  }
  return true;
}

bool medium_open(struct medium *m, struct block *disk, struct span window,
                 struct volume_medium *out) {
  *m = (struct medium){.disk = disk, .window = window, .window_at = U64_MAX};
  block_info(disk, &m->info);
  *out = (struct volume_medium){read, m, m->info.len};
  return !m->info.dead && m->info.block_len <= window.len &&
         m->info.transfer_max >= m->info.block_len;
}
