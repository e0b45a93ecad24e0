// SPDX-License-Identifier: Apache-2.0
// Keeps the database behind the journal: a fiber that tells what the database holds at the start,
// then reads the journal's segments back from the disk and applies them, a run at a time. Between
// it and the loop stand numbers, and one record while it is told.
//
// W1  A run ends where a group of records ends that is durable.
// W2  What is `stable` is in the database file itself: the journal's segments before stable_seq are
//     not needed any more, whatever becomes of the WAL.
// W3  A group of records that a start has cut short is skipped (record.h R2).
#pragma once
#include "loop/carve.h"
#include "store/db.h"
#include "store/journal.h"

#define DB_WORKER_STACK (256u << 10)
#define DB_WORKER_LAG (64ull << 20)  // bytes of the journal that may be unapplied

enum db_worker_state {
  DB_WORKER_OPENING,  // or telling: see `told`
  DB_WORKER_IDLE,
  DB_WORKER_RUNNING,
  DB_WORKER_BROKEN  // `why`; the journal goes on without it until it is full
};

struct db_worker {
  struct db db;
  struct fiber fiber;
  struct journal reader;
  struct journal_place place;  // of the reader
  struct span heap, memory, crc, scan, stack;
  u8 state;  // enum db_worker_state
  enum err why;
  bool fresh;    // there is no database yet
  bool reading;  // waits for the journal's disk
  // To the loop.
  const struct record *told;  // to be taken before the next resume
  u64 told_lsn;
  bool told_good;  // its answer
  u64 applied, stable;
  u64 seq, stable_seq;  // segments that hold what follows these LSNs
  // From the loop.
  u64 target;  // W1
  bool go;
  u64 ran_ns;  // when the last run began
  struct db_worker_skip {
    u64 first, last;
  } skip[8];  // W3, of this run
  u32 skips;
  u64 runs, skipped;
};

// Memory that db_worker_make takes for a machine with so much left; 0: too little for a database.
u64 db_worker_bytes(u64 left, const struct extent_table *extents);
// NULL: no memory, the store works without a database.
struct db_worker *db_worker_make(struct carve *carve, u64 left, const struct extent_table *extents);
// vfs, journal: ports of the disk of its own. fresh: no database was ever made here.
void db_worker_start(struct db_worker *w, const struct vfs_place *vfs,
                     const struct journal_place *journal, bool fresh);
// One slice. False: it waits for the disk, or has nothing to do.
bool db_worker_turn(struct db_worker *w);
// Segments of the journal, up to `sequence`, that the database does not hold yet.
static inline u64 db_worker_behind(const struct db_worker *w, u64 sequence) {
  return sequence > w->stable_seq ? sequence - w->stable_seq : 0;
}
