// SPDX-License-Identifier: Apache-2.0
#include "store/db_worker.h"

#include "plat/plat.h"

#define HEAP_MOST (64ull << 20)

// --- Memory

static u64 heap_len(u64 left) {
  u64 len = MIN(ALIGN_DOWN(left / 10, 1ull << 20), HEAP_MOST);
  return len < DB_HEAP_MIN ? 0 : len;
}

u64 db_worker_bytes(u64 left, const struct extent_table *extents) {
  u64 heap = heap_len(left);
  u64 rest = sizeof(struct db_worker) + VFS_MEMORY + vfs_crc_bytes(extents) +
             JOURNAL_SEGMENT_DEFAULT + DB_WORKER_STACK + 4ull * 4096;
  return heap == 0 || left / 4 < rest + heap ? 0 : heap + rest;
}

struct db_worker *db_worker_make(struct carve *carve, u64 left,
                                 const struct extent_table *extents) {
  if (db_worker_bytes(left, extents) == 0) {
    return NULL;
  }
  struct span own = carve_take(carve, sizeof(struct db_worker), 64);
  struct span heap = carve_take(carve, heap_len(left), 4096);
  struct span memory = carve_take(carve, VFS_MEMORY, 4096);
  struct span crc = carve_take(carve, vfs_crc_bytes(extents), 64);
  struct span scan = carve_take(carve, JOURNAL_SEGMENT_DEFAULT, 4096);
  struct span stack = plat_stack(DB_WORKER_STACK);
  if (own.ptr == NULL || heap.ptr == NULL || memory.ptr == NULL || crc.ptr == NULL ||
      scan.ptr == NULL || stack.ptr == NULL) {
    return NULL;
  }
  struct db_worker *w = (struct db_worker *)(void *)own.ptr;
  w->heap = heap;
  w->memory = memory;
  w->crc = crc;
  w->scan = scan;
  w->stack = stack;
  return w;
}

// --- On the fiber

static bool tell(void *ctx, u64 lsn, const struct record *r) {
  struct db_worker *w = ctx;
  w->told = r;
  w->told_lsn = lsn;
  fiber_yield(&w->fiber);
  ASSERT(w->told == NULL);
  return w->told_good;
}

// The next record behind `applied` up to the target. ERR_NOT_FOUND: there is none.
static enum err next_record(struct db_worker *w, u64 from, u64 to, u64 *lsn, struct record *r) {
  struct journal_record j;
  for (;;) {
    enum err e = journal_replay(&w->reader, plat_now_ns(), &j);
    if (e == ERR_AGAIN) {
      w->reading = true;
      fiber_yield(&w->fiber);
      w->reading = false;
      w->db.vfs.slice_ns = plat_now_ns();
      continue;
    }
    TRY(e);
    vfs_breathe(&w->db.vfs);
    if (j.lsn > to) {
      return ERR_NOT_FOUND;
    }
    if (j.lsn > from) {
      *lsn = j.lsn;
      return record_read(j.type, bytes_part(span_bytes(w->reader.scan), j.payload), r);
    }
  }
}

static void read_from(struct db_worker *w) {
  w->place.oldest = w->seq;
  journal_start(&w->reader, &w->place, span_of(NULL, 0), span_of(NULL, 0), w->scan, 1);
}

// First pass: what is needless, and groups that were cut short.
static enum err look_ahead(struct db_worker *w, u64 to) {
  u64 lsn = 0;
  u64 group = 0;
  struct record r;
  enum err e;
  w->skips = 0;
  db_expect_none(&w->db);
  read_from(w);
  while ((e = next_record(w, w->db.applied, to, &lsn, &r)) == ERR_OK) {
    if (r.kind == RECORD_BOOT && group != 0) {
      if (w->skips == ARRAY_COUNT(w->skip)) {
        return ERR_LIMIT;
      }
      w->skip[w->skips++] = (struct db_worker_skip){group, lsn - 1};
    }
    group = !r.more ? 0 : group == 0 ? lsn : group;
    db_expect(&w->db, &r);
  }
  return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool is_skipped(const struct db_worker *w, u64 lsn) {
  for (u32 i = 0; i < w->skips; i++) {
    if (lsn >= w->skip[i].first && lsn <= w->skip[i].last) {
      return true;
    }
  }
  return false;
}

static enum err apply_run(struct db_worker *w, u64 to) {
  u64 lsn = w->db.applied;
  u64 seq = w->seq;
  struct record r;
  enum err e;
  read_from(w);
  while ((e = next_record(w, lsn, to, &lsn, &r)) == ERR_OK) {
    seq = w->reader.sequence;
    if (is_skipped(w, lsn)) {
      w->skipped++;
      continue;
    }
    TRY(db_apply(&w->db, lsn, &r));
    if (!r.more && db_full(&w->db)) {
      TRY(db_commit(&w->db));
    }
  }
  if (e != ERR_NOT_FOUND) {
    return e;
  }
  TRY(db_commit(&w->db));
  w->applied = w->db.applied;
  w->seq = seq;
  return ERR_OK;
}

static enum err run(struct db_worker *w) {
  u64 to = w->target;
  w->ran_ns = plat_now_ns();
  w->runs++;
  TRY(look_ahead(w, to));
  TRY(apply_run(w, to));
  if (w->seq > w->stable_seq || w->fresh) {
    TRY(db_checkpoint(&w->db));
    w->stable = w->db.stable;
    w->stable_seq = w->seq;
    w->fresh = false;
  }
  return ERR_OK;
}

static void work(struct fiber *self, void *arg) {
  struct db_worker *w = arg;
  enum err e = db_open(&w->db, w->heap, w->fresh);
  if (e == ERR_OK) {
    e = db_load(&w->db, tell, w);
  }
  w->applied = w->db.applied;
  while (e == ERR_OK) {
    w->state = DB_WORKER_IDLE;
    fiber_yield(self);
    w->db.vfs.slice_ns = plat_now_ns();
    if (w->go) {
      w->state = DB_WORKER_RUNNING;
      e = run(w);
    }
  }
  w->why = e;
  w->state = DB_WORKER_BROKEN;
}

// --- From the loop

void db_worker_start(struct db_worker *w, const struct vfs_place *vfs,
                     const struct journal_place *journal, bool fresh) {
  vfs_start(&w->db.vfs, vfs, w->memory, w->crc);
  w->db.vfs.fiber = &w->fiber;
  w->place = *journal;
  w->seq = w->stable_seq = journal->oldest;
  w->fresh = fresh;
  w->state = DB_WORKER_OPENING;
  fiber_start(&w->fiber, w->stack, work, w);
}

bool db_worker_turn(struct db_worker *w) {
  ASSERT(w->told == NULL);
  if (w->state == DB_WORKER_BROKEN || (w->state == DB_WORKER_IDLE && !w->go)) {
    return false;
  }
  (void)fiber_resume(&w->fiber);
  bool waits = w->reading || w->db.vfs.waits;
  return w->told != NULL || (!waits && w->state != DB_WORKER_IDLE);
}
