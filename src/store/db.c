// SPDX-License-Identifier: Apache-2.0
#include "store/db.h"

#include <sqlite3.h>

#include "base/fmt.h"

#define APPLICATION_ID "1970099540"  // "umqT"

static const char *const schema =
    "CREATE TABLE state(id INTEGER PRIMARY KEY, applied INTEGER, queue_id INTEGER);"
    "INSERT INTO state VALUES(1, 0, 0);"
    "CREATE TABLE session(id INTEGER PRIMARY KEY, client BLOB NOT NULL UNIQUE, username BLOB,"
    " access_set INTEGER, expiry_s INTEGER, connected INTEGER, at_ms INTEGER,"
    " unsent_from INTEGER, will_qos INTEGER, will_retain INTEGER, will_delay_s INTEGER,"
    " will_expiry_s INTEGER, will_topic BLOB, will_props BLOB, will_payload BLOB);"
    "CREATE INDEX session_connected ON session(id) WHERE connected=1;"
    "CREATE TABLE sequence(session INTEGER PRIMARY KEY, next INTEGER);"
    "CREATE TABLE inbound(session INTEGER, packet_id INTEGER, PRIMARY KEY(session, packet_id))"
    " WITHOUT ROWID;"
    "CREATE TABLE subscription(session INTEGER, name BLOB, filter BLOB, grp INTEGER, qos INTEGER,"
    " flags INTEGER, identifier INTEGER, PRIMARY KEY(session, name, filter)) WITHOUT ROWID;"
    "CREATE INDEX subscription_group ON subscription(grp) WHERE grp<>0;"
    "CREATE TABLE message(lsn INTEGER PRIMARY KEY, kept INTEGER, qos INTEGER, retain INTEGER,"
    " has_username INTEGER, access_set INTEGER, at_ms INTEGER, expires_ms INTEGER,"
    " topic_len INTEGER, props_len INTEGER, client_len INTEGER, username_len INTEGER, body BLOB);"
    "CREATE TABLE retained(topic BLOB PRIMARY KEY, message INTEGER) WITHOUT ROWID;"
    "CREATE TABLE queue(id INTEGER PRIMARY KEY, target INTEGER, seq INTEGER, message INTEGER,"
    " meta INTEGER, ids BLOB);"
    "CREATE INDEX queue_target ON queue(target, seq);"
    "CREATE INDEX queue_message ON queue(message);"
    "CREATE TABLE control(name BLOB UNIQUE, body BLOB);"
    "PRAGMA application_id=" APPLICATION_ID ";";

static const char *const text[DB_STATEMENTS] = {
    [DB_BEGIN] = "BEGIN IMMEDIATE",
    [DB_COMMIT] = "COMMIT",
    [DB_STATE_SET] = "UPDATE state SET applied=?1, queue_id=?2",
    [DB_ALL_OFFLINE] = "UPDATE session SET connected=0, at_ms=?1, unsent_from=?2 WHERE connected=1",
    [DB_SESSION_NEW] = "INSERT OR IGNORE INTO session(id, client) VALUES(?1, ?2)",
    [DB_SESSION_SET] =
        "UPDATE session SET client=?2, username=?3, access_set=?4, expiry_s=?5,"
        " at_ms=?6, connected=1, unsent_from=NULL, will_topic=NULL,"
        " will_props=NULL, will_payload=NULL WHERE id=?1",
    [DB_SESSION_WILL] =
        "UPDATE session SET will_qos=?2, will_retain=?3, will_delay_s=?4,"
        " will_expiry_s=?5, will_topic=?6, will_props=?7, will_payload=?8"
        " WHERE id=?1",
    [DB_SESSION_OFFLINE] =
        "UPDATE session SET connected=0, at_ms=?2, expiry_s=?3, unsent_from=?4"
        " WHERE id=?1",
    [DB_SESSION_IS] = "SELECT 1 FROM session WHERE id=?1",
    [DB_SESSION_END] = "DELETE FROM session WHERE id=?1",
    [DB_SESSION_NO_WILL] =
        "UPDATE session SET will_topic=NULL, will_props=NULL,"
        " will_payload=NULL WHERE id=?1 AND will_topic IS NOT NULL",
    [DB_SEQUENCE] =
        "INSERT INTO sequence VALUES(?1, ?2)"
        " ON CONFLICT(session) DO UPDATE SET next=?2"
        " WHERE ((?2 - next) & 4294967295) < 2147483648",
    [DB_SEQUENCE_END] = "DELETE FROM sequence WHERE session=?1",
    [DB_INBOUND_ADD] = "INSERT OR IGNORE INTO inbound VALUES(?1, ?2)",
    [DB_INBOUND_REMOVE] = "DELETE FROM inbound WHERE session=?1 AND packet_id=?2",
    [DB_INBOUND_END] = "DELETE FROM inbound WHERE session=?1",
    [DB_SUBSCRIBE] = "INSERT OR REPLACE INTO subscription VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [DB_GROUP_OF] = "SELECT grp FROM subscription WHERE session=?1 AND name=?2 AND filter=?3",
    [DB_GROUP_IS] = "SELECT 1 FROM subscription WHERE grp=?1 AND grp<>0 LIMIT 1",
    [DB_UNSUBSCRIBE] = "DELETE FROM subscription WHERE session=?1 AND name=?2 AND filter=?3",
    [DB_SUBSCRIPTIONS_END] =
        "DELETE FROM subscription WHERE session=?1 AND (name, filter) IN"
        " (SELECT name, filter FROM subscription WHERE session=?1 LIMIT 64)"
        " RETURNING grp",
    [DB_MESSAGE_ADD] =
        "INSERT OR REPLACE INTO message"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    [DB_MESSAGE_IS] = "SELECT 1 FROM message WHERE lsn=?1",
    [DB_MESSAGE_DROP] =
        "DELETE FROM message WHERE lsn=?1 AND kept=0"
        " AND NOT EXISTS(SELECT 1 FROM queue WHERE message=?1)",
    [DB_MESSAGE_UNKEEP] = "UPDATE message SET kept=0 WHERE lsn=?1",
    [DB_RETAINED_GET] = "SELECT message FROM retained WHERE topic=?1",
    [DB_RETAINED_SET] = "INSERT OR REPLACE INTO retained VALUES(?1, ?2)",
    [DB_RETAINED_CLEAR] = "DELETE FROM retained WHERE topic=?1",
    [DB_QUEUE_ADD] = "INSERT INTO queue VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [DB_QUEUE_FIND] =
        "SELECT id, message FROM queue WHERE target=?1 AND seq=?2"
        " ORDER BY id LIMIT 1",
    [DB_QUEUE_FIRST] = "SELECT id, message FROM queue WHERE target=?1 LIMIT 1",
    [DB_QUEUE_DELETE] = "DELETE FROM queue WHERE id=?1",
    [DB_QUEUE_RELEASE] = "UPDATE queue SET message=0 WHERE id=?1",
    [DB_CONTROL_SET] = "INSERT OR REPLACE INTO control VALUES(?1, ?2) RETURNING rowid"};

enum err db_error(struct db *db, int code) {
  switch (code & 0xff) {
  case SQLITE_OK:
  case SQLITE_ROW:
  case SQLITE_DONE: return ERR_OK;
  case SQLITE_NOMEM: return ERR_NO_MEMORY;
  case SQLITE_FULL: return ERR_LIMIT;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB: return ERR_CORRUPT;
  default: return db->vfs.damaged ? ERR_CORRUPT : ERR_IO;
  }
}

static enum err execute(struct db *db, const char *sql) {
  return db_error(db, sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
}

struct sqlite3_stmt *db_take(struct db *db, enum db_statement which) {
  ASSERT(which < DB_STATEMENTS);
  vfs_breathe(&db->vfs);
  return db->statement[which];
}

enum err db_run(struct db *db, struct sqlite3_stmt *s) {
  int code = sqlite3_step(s);
  ASSERT(code != SQLITE_ROW);
  (void)sqlite3_reset(s);
  return db_error(db, code);
}

enum err db_number(struct db *db, struct sqlite3_stmt *s, u64 *out) {
  int code = sqlite3_step(s);
  if (code == SQLITE_ROW) {
    *out = (u64)sqlite3_column_int64(s, 0);
  }
  (void)sqlite3_reset(s);
  return code == SQLITE_DONE ? ERR_NOT_FOUND : db_error(db, code);
}

// --- Opening

static enum err make(struct db *db) {
  int reserve = VFS_TAG;
  TRY(vfs_wal_erase(&db->vfs));
  TRY(db_error(db, sqlite3_file_control(db->handle, NULL, SQLITE_FCNTL_RESERVE_BYTES, &reserve)));
  // The first page goes straight into the file: a cut leaves none, and it is made again.
  return execute(db, "PRAGMA page_size=4096; PRAGMA journal_mode=OFF");
}

static enum err look_at_version(struct db *db) {
  struct sqlite3_stmt *s = NULL;
  u64 version = 0;
  TRY(db_error(db, sqlite3_prepare_v2(db->handle, "PRAGMA user_version", -1, &s, NULL)));
  enum err e = db_number(db, s, &version);
  sqlite3_finalize(s);
  if (e == ERR_OK && version != DB_VERSION) {
    e = version == 0 ? ERR_CORRUPT : ERR_UNSUPPORTED;
  }
  return e;
}

static enum err read_state(struct db *db) {
  struct sqlite3_stmt *s = NULL;
  const char *sql = "SELECT applied, queue_id FROM state WHERE id=1";
  TRY(db_error(db, sqlite3_prepare_v2(db->handle, sql, -1, &s, NULL)));
  int code = sqlite3_step(s);
  if (code == SQLITE_ROW) {
    db->applied = db->committed = (u64)sqlite3_column_int64(s, 0);
    db->queue_id = (u64)sqlite3_column_int64(s, 1);
    db->whole = db->applied;
    db->whole_queue_id = db->queue_id;
  }
  sqlite3_finalize(s);
  return code == SQLITE_DONE ? ERR_CORRUPT : db_error(db, code);
}

// Entries of records that were applied in part come again with them (DB1).
static enum err forget_later(struct db *db) {
  struct sqlite3_stmt *s = NULL;
  const char *sql = "DELETE FROM queue WHERE id>?1";
  TRY(db_error(db, sqlite3_prepare_v2(db->handle, sql, -1, &s, NULL)));
  (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)db->queue_id);
  enum err e = db_run(db, s);
  sqlite3_finalize(s);
  return e;
}

static enum err prepare(struct db *db) {
  for (u32 i = 0; i < DB_STATEMENTS; i++) {
    TRY(db_error(db, sqlite3_prepare_v3(db->handle, text[i], -1, SQLITE_PREPARE_PERSISTENT,
                                        &db->statement[i], NULL)));
  }
  return ERR_OK;
}

static enum err open_handle(struct db *db, u64 heap_len, bool fresh) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if (!fresh) {
    TRY(vfs_measure(&db->vfs, VFS_DATABASE));
  }
  TRY(db_error(db, sqlite3_open_v2(VFS_NAME_DATABASE, &db->handle, flags, NULL)));
  if (fresh) {
    TRY(make(db));
  }
  // Exclusive before the WAL is first looked at: no shared memory. Nothing is spilled into the WAL
  // before its transaction ends. Zeroed when freed: vfs.h V5.
  TRY(execute(db,
              "PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0;"
              "PRAGMA synchronous=FULL; PRAGMA cache_spill=OFF;"
              "PRAGMA secure_delete=ON; PRAGMA trusted_schema=OFF"));
  char cache[48];
  (void)fmt_z(cache, sizeof cache, "PRAGMA cache_size=-%u", (u32)(heap_len / 4 / 1024));
  TRY(execute(db, cache));
  TRY(execute(db, "PRAGMA journal_mode=WAL"));
  if (fresh) {
    TRY(execute(db, "BEGIN"));
    TRY(execute(db, schema));
    TRY(execute(db, "PRAGMA user_version=1; COMMIT; PRAGMA wal_checkpoint"));
  }
  TRY(look_at_version(db));
  TRY(read_state(db));
  TRY(forget_later(db));
  return prepare(db);
}

enum err db_open(struct db *db, struct span heap, bool fresh) {
  TRY(vfs_register(&db->vfs, heap));
  db->budget = MIN(vfs_room(&db->vfs, VFS_WAL) / 4, heap.len / 2);
  return open_handle(db, heap.len, fresh);
}

void db_close(struct db *db) {
  for (u32 i = 0; i < DB_STATEMENTS; i++) {
    (void)sqlite3_finalize(db->statement[i]);
    db->statement[i] = NULL;
  }
  if (db->handle != NULL) {
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    (void)sqlite3_close(db->handle);
    db->handle = NULL;
  }
  (void)sqlite3_shutdown();
}

// --- Transactions

enum err db_begin(struct db *db) {
  if (db->open) {
    return ERR_OK;
  }
  TRY(db_run(db, db_take(db, DB_BEGIN)));
  db->open = true;
  db->spent = 0;
  return ERR_OK;
}

static enum err flush_sequences(struct db *db) {
  for (u32 i = 0; i < DB_SEQUENCES; i++) {
    struct db_sequence *q = &db->sequence[i];
    if (q->session != 0) {
      struct sqlite3_stmt *s = db_take(db, DB_SEQUENCE);
      (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)q->session);
      (void)sqlite3_bind_int64(s, 2, q->next);
      TRY(db_run(db, s));
      q->session = 0;
    }
  }
  return ERR_OK;
}

// Ends it, and empties the WAL when half of it is used.
static enum err end_transaction(struct db *db, u64 lsn) {
  TRY(db_run(db, db_take(db, DB_COMMIT)));
  db->open = false;
  db->committed = lsn;
  db->transactions++;
  bool much = db->vfs.tail.at > vfs_room(&db->vfs, VFS_WAL) / 2;
  return much ? db_checkpoint(db) : ERR_OK;
}

static enum err commit_as(struct db *db, u64 lsn, u64 queue_id) {
  TRY(flush_sequences(db));
  struct sqlite3_stmt *s = db_take(db, DB_STATE_SET);
  (void)sqlite3_bind_int64(s, 1, (sqlite3_int64)lsn);
  (void)sqlite3_bind_int64(s, 2, (sqlite3_int64)queue_id);
  TRY(db_run(db, s));
  return end_transaction(db, lsn);
}

enum err db_commit(struct db *db) {
  TRY(db_begin(db));
  return commit_as(db, db->applied, db->queue_id);
}

bool db_full(const struct db *db) {
  return db->spent >= db->budget / 8 * 3;
}

enum err db_spend(struct db *db, u64 len) {
  db->spent += len;
  if (db->spent < db->budget / 2) {
    return ERR_OK;
  }
  TRY(commit_as(db, db->whole, db->whole_queue_id));
  return db_begin(db);
}

enum err db_checkpoint(struct db *db) {
  ASSERT(!db->open);
  int left = 0;
  int moved = 0;
  TRY(db_error(
      db, sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &left, &moved)));
  if (left != moved) {
    return ERR_IO;
  }
  db->stable = db->committed;
  return ERR_OK;
}
