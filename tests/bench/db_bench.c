// SPDX-License-Identifier: Apache-2.0
// What the database costs on a disk in memory that answers at once: records of messages for 1000
// offline sessions applied in runs, acknowledged later or within the run; then a million
// subscriptions told. Says microseconds of processor time and bytes written a message, and rows a
// second.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "store/db.h"

#define DISK (2ull << 30)
#define WAL (64ull << 20)
#define HEAP (64u << 20)
#define SESSIONS 1000u
#define MESSAGES 200000u
#define RUN 10000u

static u8 *disk;
static struct block_op held[64];
static u32 held_count;

static void info(struct block *b, struct block_info *out) {
  (void)b;
  *out = (struct block_info){.len = DISK, .block_len = 512};
}
static u32 submit(struct block *b, const struct block_op *ops, u32 count) {
  (void)b;
  (void)count;
  held[held_count++] = ops[0];
  return 1;
}
static u32 complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  (void)b, (void)now_ns, (void)max;
  if (held_count == 0) {
    return 0;
  }
  struct block_op *op = &held[--held_count];
  if (op->kind == BLOCK_WRITE) {
    memcpy(disk + op->at, op->memory, op->len);
  } else if (op->kind == BLOCK_READ) {
    memcpy(op->memory, disk + op->at, op->len);
  }
  *out = (struct block_done){op->token, BLOCK_OK};
  return 1;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void good(enum err e) {
  if (e != ERR_OK) {
    printf("failed: %s\n", err_name(e));
    exit(1);
  }
}

static struct db db;
static const struct extent_table table = {
    .count = 2, .e = {{ROLE_WAL, 0, WAL}, {ROLE_DATABASE, WAL, DISK - WAL}}};

static void begin(void) {
  static struct block block = {info, submit, complete};
  static u8 memory[VFS_MEMORY];
  static u8 heap[HEAP] ALIGNED(64);
  struct span crc = span_of(calloc(1, vfs_crc_bytes(&table)), vfs_crc_bytes(&table));
  struct vfs_place place = {&block, &table, 0, {1}};
  memset(&db, 0, sizeof db);
  vfs_start(&db.vfs, &place, span_of(memory, sizeof memory), crc);
  good(db_open(&db, span_of(heap, HEAP), true));
}

static u64 lsn;
static void give(const struct record *r) {
  good(db_apply(&db, ++lsn, r));
  if (db_full(&db)) {
    good(db_commit(&db));
  }
}

static void make_sessions(u32 count, u32 subscriptions) {
  char text[32];
  for (u32 i = 0; i < count; i++) {
    struct record r = {.kind = RECORD_SESSION};
    r.session.client_id = bytes_of(text, (usize)snprintf(text, sizeof text, "client-%u", i));
    r.session.expiry_s = U32_MAX;
    give(&r);
    u64 session = lsn;
    for (u32 k = 0; k < subscriptions; k++) {
      r = (struct record){.kind = RECORD_SUBSCRIBE};
      r.subscribe = (struct record_subscribe){.session = session, .qos = 1};
      r.subscribe.filter = bytes_of(text, (usize)snprintf(text, sizeof text, "s/%u/%u/+", i, k));
      give(&r);
    }
  }
}

static void remove_one(u64 target, u32 seq, bool expect) {
  u8 entry[12];
  struct writer w = writer_init(span_of(entry, sizeof entry));
  record_write_remove(target, seq, &w);
  struct record r = {.kind = RECORD_REMOVE, .remove = writer_bytes(&w)};
  if (expect) {
    db_expect(&db, &r);
  } else {
    give(&r);
  }
}

// The session of message m and its sequence there; sessions have the numbers 1 to SESSIONS.
static u64 target_of(u32 m) {
  return 1 + m * 7919ull % SESSIONS;
}

static void messages(u32 payload, bool within) {
  static u8 body[8192];
  u8 refs[RECORD_REF_LEN];
  begin();
  lsn = 0;
  make_sessions(SESSIONS, 0);
  good(db_commit(&db));
  good(db_checkpoint(&db));
  double from = seconds();
  u64 bytes = db.vfs.bytes_written;
  for (u32 m = 0; m < MESSAGES; m += RUN) {
    db_expect_none(&db);
    for (u32 k = m; within && k < m + RUN; k++) {
      remove_one(target_of(k), k, true);
    }
    for (u32 k = m; k < m + RUN; k++) {
      struct writer w = writer_init(span_of(refs, sizeof refs));
      struct record_ref ref = {.target = target_of(k), .seq = k, .qos = 1};
      record_write_ref(&ref, &w);
      struct record r = {.kind = RECORD_PUBLISH};
      r.publish = (struct record_publish){.qos = 1, .topic_len = 20, .payload_len = payload};
      r.publish.part = bytes_of(body, 20 + payload);
      r.publish.refs = writer_bytes(&w);
      give(&r);
    }
    for (u32 k = m; within && k < m + RUN; k++) {
      remove_one(target_of(k), k, false);
    }
    good(db_commit(&db));
  }
  good(db_checkpoint(&db));
  double t = seconds() - from;
  printf("payload %5u, %s: %5.2f us, %6.0f bytes written a message\n", payload,
         within ? "removed within the run" : "kept                  ", t * 1e6 / MESSAGES,
         (double)(db.vfs.bytes_written - bytes) / MESSAGES);
  if (!within) {
    from = seconds();
    bytes = db.vfs.bytes_written;
    for (u32 k = 0; k < MESSAGES; k++) {
      remove_one(target_of(k), k, false);
    }
    good(db_commit(&db));
    good(db_checkpoint(&db));
    t = seconds() - from;
    printf("               removed later         : %5.2f us, %6.0f bytes written a message\n",
           t * 1e6 / MESSAGES, (double)(db.vfs.bytes_written - bytes) / MESSAGES);
  }
  db_close(&db);
}

static bool count(void *ctx, u64 at, const struct record *r) {
  (void)at;
  *(u64 *)ctx += r->kind == RECORD_SUBSCRIBE;
  return true;
}

int main(void) {
  disk =
      mmap(NULL, DISK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  messages(100, false);
  messages(100, true);
  messages(2000, false);
  begin();
  lsn = 0;
  make_sessions(100000, 10);
  good(db_commit(&db));
  good(db_checkpoint(&db));
  u64 told = 0;
  double from = seconds();
  good(db_load(&db, count, &told));
  double t = seconds() - from;
  printf("%llu subscriptions of 100000 sessions told in %.2f s: %.2f M rows/s\n",
         (unsigned long long)told, t, (double)told / t / 1e6);
  return 0;
}
