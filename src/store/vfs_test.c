// SPDX-License-Identifier: Apache-2.0
// Proves, of SQLite over our VFS: after a cut at any operation, with any of the unflushed writes
// done, torn or not, the database holds exactly the committed transactions up to some one, at least
// those whose commit had returned; when any operation or allocation fails the same; a flush that
// lies is found by the same checks; a flipped bit in the database or the WAL is an error or changes
// nothing, a misplaced or foreign page is an error. The shape is SQLite's own
// (testing.html 3.2-3.4).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/vfs_test_support.h"

#define TXNS 12u

static int exec(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static i64 number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *s = NULL;
  i64 out = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
    out = sqlite3_column_int64(s, 0);
  }
  sqlite3_finalize(s);
  return out;
}

static int open_db(sqlite3 **db, bool fresh) {
  int rc = SQLITE_IOERR;
  enum err e = fresh ? vfs_wal_erase(&rig_vfs) : vfs_measure(&rig_vfs, VFS_DATABASE);
  *db = NULL;
  if (e != ERR_OK) {
    return rc;
  }
  int reserve = VFS_TAG;
  rc = sqlite3_open_v2(VFS_NAME_DATABASE, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
  if (rc == SQLITE_OK && fresh) {
    rc = sqlite3_file_control(*db, NULL, SQLITE_FCNTL_RESERVE_BYTES, &reserve);
  }
  if (rc == SQLITE_OK) {
    rc = exec(*db,
              "PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0;"
              "PRAGMA secure_delete=ON; PRAGMA synchronous=FULL; PRAGMA cache_size=40; PRAGMA "
              "cache_spill=OFF");
  }
  if (rc == SQLITE_OK && fresh) {
    rc = exec(*db, "PRAGMA journal_mode=OFF");
  }
  if (rc == SQLITE_OK) {
    rc = exec(*db, "PRAGMA journal_mode=WAL");
  }
  return rc;
}

static int create(sqlite3 **db) {
  int rc = open_db(db, true);
  if (rc == SQLITE_OK) {
    rc = exec(*db,
              "CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c BLOB);"
              "CREATE INDEX i ON t(b); CREATE TABLE n(txn INTEGER);"
              "INSERT INTO n VALUES(0); PRAGMA wal_checkpoint");
  }
  return rc;
}

// Transaction k: what depends on k only. Every fourth is followed by a checkpoint.
static int transact(sqlite3 *db, u32 k) {
  char sql[512];
  snprintf(sql, sizeof sql,
           "BEGIN IMMEDIATE;"
           "WITH RECURSIVE s(x) AS (VALUES(0) UNION ALL SELECT x+1 FROM s WHERE x<%u)"
           " INSERT OR REPLACE INTO t SELECT (x*7919+%u*13)%%97, x*%u, zeroblob(x*%u%%900) FROM s;"
           "DELETE FROM t WHERE a%%11=%u; UPDATE n SET txn=%u; COMMIT",
           8 + k * 5 % 23, k, k * 31 + 1, k * 37 + 5, k % 11, k);
  int rc = exec(db, sql);
  if (rc == SQLITE_OK && k % 4 == 3) {
    rc = exec(db, "PRAGMA wal_checkpoint");
  }
  return rc;
}

// A number for all content.
static i64 digest(sqlite3 *db) {
  return number(db, "SELECT coalesce(sum((a*31+b*17+length(c)*7)%1000003),0)*1000+count(*) FROM t");
}
static i64 digest_of[TXNS + 1];

// Closes without checkpoint, as a cut would find it.
static void drop(sqlite3 *db) {
  if (db != NULL) {
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_close(db);
  }
}

// What the disk holds: whole, and one of the states. -1: not whole.
static i64 look(void) {
  sqlite3 *db = NULL;
  rig_vfs_start();
  i64 txn = -1;
  if (open_db(&db, false) == SQLITE_OK) {
    sqlite3_stmt *s = NULL;
    bool good = sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL) == SQLITE_OK &&
                sqlite3_step(s) == SQLITE_ROW &&
                strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0;
    sqlite3_finalize(s);
    txn = good ? number(db, "SELECT txn FROM n") : -1;
    if (txn < 0 || txn > TXNS || digest(db) != digest_of[txn]) {
      txn = -1;
    }
  }
  drop(db);
  return txn;
}

// A new database, closed and on the medium; later runs start from this image.
static u8 base[RIG_LEN];
static int set_up(void **state) {
  (void)state;
  sqlite3 *db = NULL;
  rig_blank();
  rig_power(1, BLOCK_FAULT_NONE, 1);
  rig_vfs_start();
  assert_int_equal(create(&db), SQLITE_OK);
  assert_int_equal(number(db, "PRAGMA page_size"), VFS_PAGE);
  digest_of[0] = digest(db);
  drop(db);
  assert_int_equal(vfs_sync(&rig_vfs), ERR_OK);
  memcpy(base, rig_stable, RIG_LEN);
  assert_int_equal(look(), 0);
  rig_vfs_start();
  assert_int_equal(open_db(&db, false), SQLITE_OK);
  for (u32 k = 1; k <= TXNS; k++) {
    assert_int_equal(transact(db, k), SQLITE_OK);
    digest_of[k] = digest(db);
    assert_int_not_equal(digest_of[k], digest_of[k - 1]);
  }
  drop(db);
  return 0;
}

static void from_base(u64 seed, enum block_fault_kind kind, u32 nth) {
  memcpy(rig_now, base, RIG_LEN);
  memcpy(rig_stable, base, RIG_LEN);
  memset(rig_dirty, 0, sizeof rig_dirty);
  rig_power(seed, kind, nth);
  rig_vfs_start();
}

// After how many entries of the record the commit of each transaction had returned.
static u32 returned_at[TXNS + 1];
static u32 work(u32 alloc_nth) {
  sqlite3 *db = NULL;
  u32 done = 0;
  rig_alloc_nth = alloc_nth;
  rig_alloc_seen = 0;
  rig_alloc_fired = false;
  if (open_db(&db, false) == SQLITE_OK) {
    for (u32 k = 1; k <= TXNS && transact(db, k) == SQLITE_OK; k++) {
      done = k;
      returned_at[k] = rig_rec.count;
    }
  }
  rig_alloc_nth = 0;
  drop(db);
  return done;
}

// Every prefix; of what was not flushed all subsets of up to 6, torn at several lengths.
static void every_cut(void **state) {
  (void)state;
  static const u32 torn[] = {0, 512, 4096 + 1024};
  static struct record_entry kept_entries[RIG_ENTRIES];
  static u8 *kept_data;
  from_base(5, BLOCK_FAULT_NONE, 1);
  assert_int_equal(work(0), TXNS);
  assert_false(rig_rec.full);
  struct block_record kept = rig_rec;
  memcpy(kept_entries, rig_entries, sizeof kept_entries);
  kept_data = malloc(kept.data_len);
  memcpy(kept_data, rig_data, kept.data_len);
  kept.entry = kept_entries;
  kept.data = span_of(kept_data, kept.data_len);
  u32 states = 0;
  for (u32 n = 0; n <= kept.count; n++) {
    u32 loose[64];
    u32 count = block_record_loose(&kept, n, loose, 64);
    u32 promised = 0;
    while (promised < TXNS && returned_at[promised + 1] <= n) {
      promised++;
    }
    for (u32 i = 0; i < 6; i++) {
      // None, all, the first, the last, and two that the numbers choose.
      u64 all = count >= 64 ? U64_MAX : (1ull << count) - 1;
      u64 keep[] = {0,
                    all,
                    1,
                    all & ~1ull,
                    (n * 0x9e3779b97f4a7c15ull) & all,
                    (n * 0xd1342543de82ef95ull) & all};
      memcpy(rig_now, base, RIG_LEN);
      block_record_replay(&kept, n, keep[i], torn[n % 3], span_of(rig_now, RIG_LEN));
      memcpy(rig_stable, rig_now, RIG_LEN);
      memset(rig_dirty, 0, sizeof rig_dirty);
      rig_power(n, BLOCK_FAULT_NONE, 1);
      i64 txn = look();
      assert_true(txn >= (i64)promised);
      assert_true(txn <= (i64)promised + 1);
      states++;
      if (count == 0) {
        break;
      }
    }
  }
  free(kept_data);
  print_message("%u entries, %u states\n", kept.count, states);
  assert_true(states > 300);
}

// Lives with cuts by the disk itself, whose cache reorders and tears; a lying flush as control.
static void many_lives(void **state) {
  (void)state;
  u32 bad = 0;
  u32 lied = 0;
  for (u64 seed = 1; seed <= 60; seed++) {
    for (u32 lies = 0; lies < 2; lies++) {
      from_base(seed, lies != 0 ? BLOCK_FAULT_LYING_FLUSH : BLOCK_FAULT_NONE, 1);
      sqlite3 *db = NULL;
      u32 done = 0;
      assert_int_equal(open_db(&db, false), SQLITE_OK);
      while (done < seed % TXNS && transact(db, done + 1) == SQLITE_OK) {
        done++;
      }
      (void)exec(db, "BEGIN; DELETE FROM t; UPDATE n SET txn=77");  // never committed
      block_memory_cut(&rig_mem);
      drop(db);
      memset(rig_dirty, 0, sizeof rig_dirty);
      memcpy(rig_now, rig_stable, RIG_LEN);
      rig_power(seed, BLOCK_FAULT_NONE, 1);
      i64 txn = look();
      *(lies != 0 ? &lied : &bad) += txn != (i64)done;
    }
  }
  assert_int_equal(bad, 0);
  assert_true(lied > 20);
}

// The nth operation fails, or is torn: no commit returns that is not kept, and what is left is
// whole.
static void every_operation_fails(void **state) {
  (void)state;
  static const u8 kinds[] = {BLOCK_FAULT_ERROR, BLOCK_FAULT_TORN};
  for (u32 k = 0; k < 2; k++) {
    u32 nth = 1;
    for (bool again = true; again; nth++) {
      from_base(nth, (enum block_fault_kind)kinds[k], nth);
      u32 done = work(0);
      again = rig_fault.fired;
      assert_true(again || done == TXNS);
      block_memory_cut(&rig_mem);
      rig_power(nth, BLOCK_FAULT_NONE, 1);
      i64 txn = look();
      assert_true(txn >= (i64)done && txn <= (i64)done + 1);
    }
    print_message("%u operations\n", nth);
    assert_true(nth > 30);
  }
}

// The nth allocation fails: an error or nothing, and the same.
static void every_allocation_fails(void **state) {
  (void)state;
  u32 nth = 1;
  u32 refused = 0;
  for (bool again = true; again; nth += 1 + nth / 40) {
    from_base(nth, BLOCK_FAULT_NONE, 1);
    u32 done = work(nth);
    again = rig_alloc_fired;
    refused += done < TXNS;
    assert_true(again || done == TXNS);
    block_memory_cut(&rig_mem);
    rig_power(nth, BLOCK_FAULT_NONE, 1);
    i64 txn = look();
    assert_true(txn >= (i64)done && txn <= (i64)done + 1);
  }
  print_message("allocations to %u, %u refused\n", nth, refused);
  assert_true(refused > 50);
}

// One bit of what the disk holds: found, or without effect; never another content.
static void bits_flip(void **state) {
  (void)state;
  static u8 image[RIG_LEN];
  u32 found = 0;
  from_base(7, BLOCK_FAULT_NONE, 1);
  assert_int_equal(work(0), TXNS);
  rig_vfs_start();  // everything out of the WAL
  sqlite3 *db = NULL;
  assert_int_equal(open_db(&db, false), SQLITE_OK);
  assert_int_equal(exec(db, "PRAGMA wal_checkpoint"), SQLITE_OK);
  drop(db);
  assert_int_equal(vfs_wal_erase(&rig_vfs), ERR_OK);
  memcpy(image, rig_stable, RIG_LEN);
  u64 pages = load_be32(image + RIG_WAL / 2 + 28);
  assert_true(pages > 5);
  for (u32 i = 0; i < 400; i++) {
    memcpy(rig_now, image, RIG_LEN);
    u64 at = RIG_WAL / 2 + i * 2654435761ull % (pages * VFS_PAGE);
    rig_now[at] ^= (u8)(1u << i % 8);
    memcpy(rig_stable, rig_now, RIG_LEN);
    rig_power(i, BLOCK_FAULT_NONE, 1);
    i64 txn = look();
    assert_true(txn == -1 || txn == TXNS);  // a free page is not read
    found += rig_vfs.damaged;
    assert_int_equal(rig_vfs.damaged, txn == -1);
  }
  assert_true(found > 200);
  // A whole page in another's place, and a page of another disk.
  memcpy(rig_now, image, RIG_LEN);
  memcpy(rig_now + RIG_WAL / 2 + 2 * VFS_PAGE, image + RIG_WAL / 2 + VFS_PAGE, VFS_PAGE);
  memcpy(rig_stable, rig_now, RIG_LEN);
  rig_power(1, BLOCK_FAULT_NONE, 1);
  assert_int_equal(look(), -1);
  assert_true(rig_vfs.damaged && rig_vfs.damaged_at == 2 * VFS_PAGE);
}

// A WAL that rots while it is in use: what was written is known, so it is an error, not content.
static void wal_rots(void **state) {
  (void)state;
  u32 found = 0;
  for (u32 i = 0; i < 60; i++) {
    sqlite3 *db = NULL;
    from_base(i, BLOCK_FAULT_NONE, 1);
    assert_int_equal(open_db(&db, false), SQLITE_OK);
    for (u32 k = 1; k <= 2; k++) {
      assert_int_equal(transact(db, k), SQLITE_OK);
    }
    u64 last = (rig_vfs.tail.at + rig_vfs.tail.len - VFS_WAL_HEAD) / VFS_FRAME - 1;
    rig_now[VFS_WAL_HEAD + (last - i % 4) * VFS_FRAME + 24 + i * 67 % VFS_PAGE] ^= 4;
    rig_vfs.wal_ahead.len = 0;
    int rc = exec(db, "PRAGMA wal_checkpoint");
    assert_int_equal(rig_vfs.damaged, rc != SQLITE_OK);
    found += rig_vfs.damaged;
    drop(db);
  }
  assert_true(found > 20);  // a later frame of the same page counts instead
}

static void parts_of_fibers(struct fiber *self, void *arg) {
  (void)self;
  *(u32 *)arg = work(0);
}

// On a fiber the core gets its turn at each wait.
static void yields_while_waiting(void **state) {
  (void)state;
  static u8 stack[256 << 10] ALIGNED(4096);
  static struct fiber fiber;
  u32 done = 0;
  u32 turns = 0;
  from_base(3, BLOCK_FAULT_NONE, 1);
  rig_vfs.fiber = &fiber;
  fiber_start(&fiber, span_of(stack, sizeof stack), parts_of_fibers, &done);
  while (fiber_resume(&fiber) == FIBER_WAITING) {
    turns++;
  }
  rig_vfs.fiber = NULL;
  assert_int_equal(done, TXNS);
  assert_true(turns > 10);
  assert_int_equal(rig_vfs.yields, turns);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_cut),
      cmocka_unit_test(many_lives),
      cmocka_unit_test(every_operation_fails),
      cmocka_unit_test(every_allocation_fails),
      cmocka_unit_test(bits_flip),
      cmocka_unit_test(wal_rots),
      cmocka_unit_test(yields_while_waiting),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
