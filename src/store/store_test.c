// SPDX-License-Identifier: Apache-2.0
// Proves, of the store with its database: over many lives, each ended by a power cut at any turn or
// by an operation that fails, everything that was told to be durable is told or replayed at the
// next start, in its last version, while the journal's segments are released behind the database; a
// flush that lies is found by the same checks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "store/block_fault.h"
#include "store/block_memory.h"
#include "store/disk_test_support.h"
#include "store/store.h"

#define MIB (1ull << 20)
#define LEN (600 * MIB)
#define EDGE (64u << 10)
#define PARTITION (66 * MIB)
#define SEGMENT (128u << 10)
#define WINDOW (24 * MIB)  // of the journal, the WAL, the database each
#define IMAGE (2 * EDGE + SUPERBLOCK_SLOTS * SUPERBLOCK_LEN + 3 * WINDOW)
#define MEMORY (128 * MIB)
#define TOPICS 40u

extern u64 unit_now_ns;

static u8 *now, *stable, *formatted;
static u32 *dirty;
static u8 *memory;
static struct block_memory mem;
static struct block_fault fault;
static struct fold fold;
static struct store *store;
static struct core core;

static u64 value[TOPICS];     // as the start told
static u64 written[TOPICS];   // last appended
static u64 promised[TOPICS];  // last durable
static struct {
  u64 lsn;
  u32 topic;
  u64 value;
} waiting[4096];
static u32 waiting_count;
static u64 last_value;

static void attach(u64 seed, enum block_fault_kind kind, u32 nth) {
  struct extent_table t;
  u64 run;
  assert_int_equal(extents_plan(&t, LEN - PARTITION - MIB, 1u << 20), ERR_OK);
  block_memory_init(&mem, span_of(now, IMAGE), span_of(stable, IMAGE), dirty, 512, seed);
  block_fault_init(&fault, &mem.block, kind, nth, (struct span){0});
  fold_init(&fold, &fault.block, LEN);
  fold_add(&fold, 0, EDGE);
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    fold_add(&fold, PARTITION + SUPERBLOCK_SLOT_AT(i), SUPERBLOCK_LEN);
  }
  fold_add(&fold, PARTITION + extents_at(&t, ROLE_JOURNAL, 0, &run), WINDOW);
  fold_add(&fold, PARTITION + extents_at(&t, ROLE_WAL, 0, &run), WINDOW);
  // The last window takes in the database and the disk's end.
  fold.window[fold.count++] = (struct fold_window){
      PARTITION + extents_at(&t, ROLE_DATABASE, 0, &run), WINDOW, IMAGE - EDGE - WINDOW};
}

static struct fold edge;  // a second fold for the last blocks, in front of the first
static u32 edge_submit(struct block *b, const struct block_op *ops, u32 count) {
  (void)b;
  for (u32 n = 0; n < count; n++) {
    bool last = ops[n].kind != BLOCK_FLUSH && ops[n].at >= LEN - EDGE;
    struct block_op op = ops[n];
    op.at = last ? op.at - (LEN - EDGE) + IMAGE - EDGE : op.at;
    if (block_submit(last ? &fault.block : &fold.block, &op, 1) == 0) {
      return n;
    }
  }
  return count;
}

static bool apply(void *ctx, u64 lsn, const struct record *r) {
  (void)ctx;
  (void)lsn;
  u32 topic;
  if (r->kind == RECORD_PUBLISH && r->publish.keep) {
    topic = r->publish.part.ptr[0];
    assert_true(topic < TOPICS && r->publish.part.len >= 9);
    value[topic] = load_le64(r->publish.part.ptr + 1);
  }
  return true;
}
static void durable(void *ctx, u64 lsn) {
  (void)ctx;
  u32 n = 0;
  for (; n < waiting_count && waiting[n].lsn <= lsn; n++) {
    promised[waiting[n].topic] = waiting[n].value;
  }
  memmove(waiting, waiting + n, (waiting_count - n) * sizeof waiting[0]);
  waiting_count -= n;
}
static void on_failed(void *ctx) {
  (void)ctx;
}

static enum store_state boot(void) {
  struct carve carve = {.region = {{memory, MEMORY}}, .region_count = 1, .total_len = MEMORY};
  edge = fold;
  edge.block.submit = edge_submit;
  memset(memory, 0, MEMORY);
  memset(value, 0, sizeof value);
  waiting_count = 0;
  store = store_open(&carve, &edge.block, test_digest, 1700000000000ull, unit_now_ns);
  assert_non_null(store);
  assert_true(store_add_database(store, &carve, MEMORY));
  store->segment_len = SEGMENT;
  store_set_ops(store, &(struct store_ops){apply, durable, on_failed, NULL});
  for (u32 i = 0; i < 1000000 && store->state < STORE_READY; i++) {
    (void)store_boot(store, unit_now_ns);
  }
  return (enum store_state)store->state;
}

// Whatever the fiber was in the middle of is gone with it.
static void power_off(void) {
  (void)sqlite3_shutdown();
  store = NULL;
}

static void put(u32 topic, u32 len) {
  static u8 body[16000];
  struct record r = {.kind = RECORD_PUBLISH};
  r.publish = (struct record_publish){.qos = 1, .retain = true, .keep = true, .topic_len = 1};
  r.publish.payload_len = len;
  body[0] = (u8)topic;
  store_le64(body + 1, ++last_value);
  r.publish.part = bytes_of(body, 1 + len);
  struct writer w = store_begin(store);
  record_write(&r, &w);
  u64 lsn = store_commit(store, record_type(&r), &w);
  waiting[waiting_count].lsn = lsn;
  waiting[waiting_count].topic = topic;
  waiting[waiting_count++].value = last_value;
  written[topic] = last_value;
}

static u64 seed;
static u32 rnd(u32 below) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % below;
}

static void turns(u32 count) {
  for (u32 i = 0; i < count && store->state == STORE_READY; i++) {
    for (u32 k = rnd(4); k > 0 && waiting_count < 4000; k--) {
      u32 len = 8 + rnd(9000);
      if (store_room(store, len + 100, 1, false)) {
        put(rnd(TOPICS), len);
      }
    }
    core.now_ns = unit_now_ns += 1000000;
    (void)store_stage(&core, store);
  }
}

// Everything promised is there; nothing that was never written.
static bool whole(void) {
  for (u32 i = 0; i < TOPICS; i++) {
    if (value[i] < promised[i] || value[i] > written[i]) {
      return false;
    }
    written[i] = promised[i] = value[i];
  }
  return true;
}

static void fresh(u64 of) {
  memcpy(now, formatted, IMAGE);
  memcpy(stable, formatted, IMAGE);
  memset(dirty, 0, IMAGE / 512 * sizeof(u32));
  memset(written, 0, sizeof written);
  memset(promised, 0, sizeof promised);
  seed = of;
  last_value = 0;
}

static int set_up(void **state) {
  (void)state;
  static struct disk disk;
  static u8 work[DISK_MEMORY], random[DISK_SEED];
  now = calloc(1, IMAGE);
  stable = calloc(1, IMAGE);
  formatted = calloc(1, IMAGE);
  dirty = calloc(IMAGE / 512, sizeof(u32));
  memory = aligned_alloc(4096, MEMORY);
  attach(1, BLOCK_FAULT_NONE, 1);
  edge = fold;
  edge.block.submit = edge_submit;
  disk_format_start(&disk, &edge.block, test_digest, span_of(work, sizeof work), random);
  while (!disk_turn(&disk, 0)) {
  }
  assert_int_equal(disk.verdict, DISK_OURS);
  memcpy(formatted, now, IMAGE);
  return 0;
}

// The database takes over, segments are released, and a start needs only what is left.
static void journal_is_let_go(void **state) {
  (void)state;
  fresh(1);
  attach(1, BLOCK_FAULT_NONE, 1);
  assert_int_equal(boot(), STORE_READY);
  turns(1200);
  assert_int_equal(store->state, STORE_READY);
  assert_true(store->journal.sequence > 40);
  assert_true(store->disk.super.roots.journal_sequence > 30);
  assert_int_equal(store->disk.super.roots.database_state, 1);
  u64 appended = store->next_lsn;
  power_off();
  block_memory_cut(&mem);
  attach(2, BLOCK_FAULT_NONE, 1);
  assert_int_equal(boot(), STORE_READY);
  assert_true(whole());
  assert_int_equal(store->loaded, TOPICS);
  assert_true(store->replayed < appended / 2);
  power_off();
}

static u32 lives(u64 of, enum block_fault_kind kind) {
  u32 bad = 0;
  fresh(of);
  for (u32 life = 0; life < 5 && bad == 0; life++) {
    attach(of * 100 + life, kind, kind == BLOCK_FAULT_ERROR ? 5 + rnd(400) : 1);
    enum store_state s = boot();
    if (s == STORE_READY) {
      bad += !whole();
      turns(50 + rnd(500));
    } else if (kind == BLOCK_FAULT_NONE) {
      bad++;
    }
    power_off();
    block_memory_cut(&mem);
  }
  attach(of, BLOCK_FAULT_NONE, 1);
  bad += boot() != STORE_READY || !whole();
  power_off();
  return bad;
}

static void lives_end_by_power(void **state) {
  (void)state;
  u32 lied = 0;
  for (u64 of = 1; of <= 12; of++) {
    assert_int_equal(lives(of, BLOCK_FAULT_NONE), 0);
    lied += lives(of, BLOCK_FAULT_LYING_FLUSH);
  }
  assert_true(lied > 3);  // the control
}

static void lives_end_by_failure(void **state) {
  (void)state;
  for (u64 of = 50; of < 66; of++) {
    assert_int_equal(lives(of, BLOCK_FAULT_ERROR), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(journal_is_let_go),
                                     cmocka_unit_test(lives_end_by_power),
                                     cmocka_unit_test(lives_end_by_failure)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
