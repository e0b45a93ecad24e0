// SPDX-License-Identifier: Apache-2.0
// The store of one core: a disk of ours, its journal, and what waits to be written into it.
// DESIGN 8. Whoever wants something to survive appends a record (record.h) and waits until its LSN
// is durable; nothing here blocks.
//
// S1  The boot counter is raised durably before the journal is read: a sequence of the journal is
//     written once a boot, and two starts never share one.
// S2  A record that was appended gets the next LSN at once, and reaches the journal in this order.
// S3  After a write or flush has failed nothing becomes durable any more: whoever waits, waits for
//     ever, and new promises are refused (store_refuses).
// S5  What is told to be durable never ends inside a group of records: a group counts as a whole.
// S4  The journal's last STORE_RESERVE bytes are for what follows from promises that were made
//     (acknowledgements, ends): new ones are refused before.
// S6  A segment of the journal is released when the database file holds what is in it and a
//     superblock that says so is durable. What the database lacks is at most DB_WORKER_LAG: nobody
//     may begin a promise before it has caught up (store_room).
#pragma once
#include "loop/carve.h"
#include "loop/core.h"
#include "store/block_share.h"
#include "store/db_worker.h"
#include "store/disk.h"
#include "store/journal.h"
#include "store/record.h"

#define STORE_RING (6u << 20)      // records that wait for the journal
#define STORE_SMALL (1u << 20)     // of it: for records that nobody can be made to wait with
#define STORE_RESERVE (16u << 20)  // S4

#define STORE_GROUPS 32u  // of several records, under way; more count as one

enum store_state {
  STORE_OPENING,
  STORE_REPAIRING,
  STORE_COUNTING,  // the boot
  STORE_LOADING,   // the database
  STORE_REPLAYING,
  STORE_READY,
  STORE_FAILED,   // S3
  STORE_REFUSED,  // the disk was not opened: store_why
};

struct store_ops {
  // A whole record, in order, at the start. False: it cannot be applied for want of memory.
  bool (*apply)(void *ctx, u64 lsn, const struct record *r);
  // Everything up to lsn is durable.
  void (*durable)(void *ctx, u64 lsn);
  void (*failed)(void *ctx);
  void *ctx;
};

struct store {
  struct block_share share;
  struct disk disk;
  struct journal journal;
  struct store_ops ops;
  struct span ring;
  u32 head, tail, used;  // of the ring: bytes to be read from, written to
  u32 waiting;           // records in it
  u32 open_at;           // of the record that is being written; U32_MAX = none
  u64 next_lsn;
  u64 told_lsn;  // ops.durable knows
  u8 state;      // enum store_state
  u32 segment_len;
  struct span fill, flight, scan;
  struct store_group {
    u64 first, last;  // last 0: it is being appended
  } group[STORE_GROUPS];
  u32 group_count;
  u64 group_lsn;  // replay: of the first record of the group that is being read; 0 = none
  u32 group_len;
  struct db_worker *database;  // NULL: the journal is all there is
  bool marking;                // a superblock is being written that releases segments
  i64 wall_ms;                 // what monotonic 0 was
  const char *why;
  u64 replayed, lost, bytes;  // records; small ones without room; payload bytes appended
  u64 loaded;                 // records that the database told
};

// Bytes that store_open takes.
u64 store_bytes(void);
// Begins to open a disk that carries our layout; NULL: no memory. wall_ms: best knowledge of the
// time since 1970.
struct store *store_open(struct carve *carve, struct block *block, digest_fn *digest, u64 wall_ms,
                         u64 now_ns);
// Gives it a database, for which `left` bytes say how much memory there is; before the first
// store_boot. False: too little memory, the journal alone will be used.
bool store_add_database(struct store *s, struct carve *carve, u64 left);
void store_set_ops(struct store *s, const struct store_ops *ops);
// One step of the start; to be called until the state is READY, FAILED or REFUSED. ops.apply is
// called from here.
enum store_state store_boot(struct store *s, u64 now_ns);
// Why it was refused, and what to do: one sentence.
const char *store_why(const struct store *s);

// A stage of the loop, before the input (what is durable) and behind it (what is to be written).
bool store_stage(struct core *core, void *store);

// Room for records of `len` payload bytes in all, `count` of them; small: also of what is kept for
// records that nobody can be made to wait with.
bool store_room(const struct store *s, u64 len, u32 count, bool small);
// Bytes of the journal that may still be written.
u64 store_left(const struct store *s);
// No new promises: failed, or the journal is full.
bool store_refuses(const struct store *s);
// Memory for a record of at most RECORD_MAX bytes; one at a time. There must be room.
struct writer store_begin(struct store *s);
// It is as long as the writer says; its LSN.
u64 store_commit(struct store *s, u16 type, const struct writer *w);
// Everything up to here is durable, in whole groups.
static inline u64 store_durable(const struct store *s) {
  return s->told_lsn;
}
// Nothing waits to be written, nothing is under way.
static inline bool store_idle(const struct store *s) {
  return s->waiting == 0 && s->journal.fill.len == 0 && s->journal.flight.len == 0;
}
static inline u64 store_wall_ms(const struct store *s, u64 now_ns) {
  return (u64)(s->wall_ms + (i64)(now_ns / 1000000));
}
