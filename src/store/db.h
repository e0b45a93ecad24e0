// SPDX-License-Identifier: Apache-2.0
// The database: what the journal's records have made of sessions, subscriptions, queues, messages,
// retained messages and control states, up to one LSN. SQLite over vfs.h; everything here waits, so
// it runs on the store's fiber. The schema: docs/formats/database.md.
//
// DB1 What is committed is the state after all records up to `applied`, or that and a part of the
//     group behind it: applied again, it gives what it would have given (record.h R1).
// DB2 A record's group is applied whole before its LSN is stored (R2).
// DB3 No transaction is longer than a quarter of the WAL: it is cut in the middle of a record
//     rather.
// DB4 After an error the connection is of no use; what is committed stays.
#pragma once
#include "store/record.h"
#include "store/vfs.h"

#define DB_VERSION 1u
#define DB_HEAP_MIN (8ull << 20)
#define DB_SEQUENCES 4096u  // sessions whose highest sequence waits to be stored
#define DB_GONE 65536u      // entries and messages known to be needless, or needed

struct sqlite3;
struct sqlite3_stmt;

enum db_statement {
  DB_BEGIN,
  DB_COMMIT,
  DB_STATE_SET,
  DB_ALL_OFFLINE,
  DB_SESSION_NEW,
  DB_SESSION_SET,
  DB_SESSION_WILL,
  DB_SESSION_OFFLINE,
  DB_SESSION_IS,
  DB_SESSION_END,
  DB_SESSION_NO_WILL,
  DB_SEQUENCE,
  DB_SEQUENCE_END,
  DB_INBOUND_ADD,
  DB_INBOUND_REMOVE,
  DB_INBOUND_END,
  DB_SUBSCRIBE,
  DB_GROUP_OF,
  DB_GROUP_IS,
  DB_UNSUBSCRIBE,
  DB_SUBSCRIPTIONS_END,
  DB_MESSAGE_ADD,
  DB_MESSAGE_IS,
  DB_MESSAGE_DROP,
  DB_MESSAGE_UNKEEP,
  DB_RETAINED_GET,
  DB_RETAINED_SET,
  DB_RETAINED_CLEAR,
  DB_QUEUE_ADD,
  DB_QUEUE_FIND,
  DB_QUEUE_FIRST,
  DB_QUEUE_DELETE,
  DB_QUEUE_RELEASE,
  DB_CONTROL_SET,
  DB_STATEMENTS
};

struct db {
  struct vfs vfs;
  struct sqlite3 *handle;
  struct sqlite3_stmt *statement[DB_STATEMENTS];
  u64 applied;                // LSN of the last record
  u64 committed;              // the one that the database says
  u64 stable;                 // LSN; in the database file itself, without the WAL
  u64 queue_id;               // of the last entry added
  u64 whole, whole_queue_id;  // `applied` and `queue_id` when the last group ended
  bool open;                  // a transaction
  u64 spent;                  // bytes of the WAL that it may take, a guess from above
  u64 budget;                 // DB3
  // The body that RECORD_CHUNKs go on with.
  u64 message;  // the group's message; 0 = none, or not kept
  bool control;
  i64 body_row;
  u32 body_at, body_len;
  bool orphan;  // nothing refers to it yet
  struct db_sequence {
    u64 session;
    u32 next;
  } sequence[DB_SEQUENCES];
  struct db_gone {
    u64 target;
    u32 seq;
    u16 removes;  // that come later in this run
    bool skipped;
  } gone[DB_GONE];
  u32 gone_count;
  u64 records, messages, elided, transactions;  // since the start
};

// Opens what vfs_start was given. fresh: the extents hold nothing of ours; a new database is
// made. ERR_CORRUPT: a page is not what was written, or the content is none of ours;
// ERR_UNSUPPORTED: of a newer version; ERR_NO_MEMORY; ERR_IO.
NODISCARD enum err db_open(struct db *db, struct span heap, bool fresh);
// Closes without touching the disk.
void db_close(struct db *db);

// A run of records is looked at first, then applied: what is queued and removed in one run never
// reaches the database. db_expect is optional, and of one run only.
void db_expect(struct db *db, const struct record *r);
void db_expect_none(struct db *db);
// Applies the record with this LSN, in order, behind `applied`. The memory it points to is not
// needed afterwards.
NODISCARD enum err db_apply(struct db *db, u64 lsn, const struct record *r);
// Everything applied is durable.
NODISCARD enum err db_commit(struct db *db);
// The transaction is long enough.
bool db_full(const struct db *db);
// Moves the WAL's pages into the database file; `stable` = `committed` then. No transaction is
// open. Happens by itself when the WAL is half full.
NODISCARD enum err db_checkpoint(struct db *db);

// Tells the state as records that make it, each whole (a body is never chunked). False from `tell`
// ends it with ERR_NO_MEMORY. What `tell` is given is borrowed.
typedef bool db_tell_fn(void *ctx, u64 lsn, const struct record *r);
NODISCARD enum err db_load(struct db *db, db_tell_fn *tell, void *ctx);

// --- Between the files of the database (db.c)

enum err db_error(struct db *db, int sqlite_code);
// A statement of the table, reset.
struct sqlite3_stmt *db_take(struct db *db, enum db_statement which);
// Runs it to its end; and the same for one that gives at most one row of one number. ERR_NOT_FOUND:
// no row.
NODISCARD enum err db_run(struct db *db, struct sqlite3_stmt *s);
NODISCARD enum err db_number(struct db *db, struct sqlite3_stmt *s, u64 *out);
NODISCARD enum err db_begin(struct db *db);
// So much more of the WAL; commits in between when it is much (DB3).
NODISCARD enum err db_spend(struct db *db, u64 len);
