// SPDX-License-Identifier: Apache-2.0
// For tests of what survives: a broker over a store over a disk in memory that can be cut at any
// operation, made to fail at any, and looked at as any cut would have left it.
#pragma once
#include "broker/broker_test_support.h"
#include "broker/state.h"
#include "store/block_fault.h"
#include "store/block_memory.h"
#include "store/block_record.h"
#include "store/disk_test_support.h"

#define MIB (1ull << 20)
#define DISK_LEN (600 * MIB)
#define DISK_EDGE (64u << 10)
#define DISK_PARTITION (66 * MIB)
#define DISK_SEGMENT (128u << 10)
#define DISK_JOURNAL (2 * MIB)
#define DISK_IMAGE (2 * DISK_EDGE + SUPERBLOCK_SLOTS * SUPERBLOCK_LEN + DISK_JOURNAL)
#define DISK_ENTRIES 8192u

static u8 disk_now[DISK_IMAGE], disk_stable[DISK_IMAGE], disk_fresh[DISK_IMAGE];
static u32 disk_dirty[DISK_IMAGE / 512];
static u8 disk_data[64u << 20];
static struct record_entry disk_entries[DISK_ENTRIES];
static struct block_memory mem;
static struct block_fault fault;
static struct block_record rec;
static struct fold fold;
static void *store_memory;
static struct store *store;
static u32 failures;  // told by the store

static u64 journal_place(void) {
  struct extent_table t;
  u64 run;
  CHECK(extents_plan(&t, DISK_LEN - DISK_PARTITION - MIB, 1u << 20) == ERR_OK);
  return DISK_PARTITION + extents_at(&t, ROLE_JOURNAL, 0, &run);
}

// The disk with this content, on which the nth operation fails in this way.
static void disk_attach(const u8 *image, u64 seed, enum block_fault_kind kind, u32 nth) {
  memcpy(disk_now, image, DISK_IMAGE);
  memcpy(disk_stable, image, DISK_IMAGE);
  memset(disk_dirty, 0, sizeof disk_dirty);
  block_memory_init(&mem, span_of(disk_now, DISK_IMAGE), span_of(disk_stable, DISK_IMAGE),
                    disk_dirty, 512, seed);
  block_record_init(&rec, &mem.block, disk_entries, DISK_ENTRIES,
                    span_of(disk_data, sizeof disk_data));
  block_fault_init(&fault, &rec.block, kind, nth, (struct span){0});
  fold_init(&fold, &fault.block, DISK_LEN);
  fold_add(&fold, 0, DISK_EDGE);
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    fold_add(&fold, DISK_PARTITION + SUPERBLOCK_SLOT_AT(i), SUPERBLOCK_LEN);
  }
  fold_add(&fold, journal_place(), DISK_JOURNAL);
  fold_add(&fold, DISK_LEN - DISK_EDGE, DISK_EDGE);
}

static void disk_format(void) {
  static struct disk disk;
  static u8 memory[DISK_MEMORY], seed[DISK_SEED];
  static u8 zero[DISK_IMAGE];
  for (u32 i = 0; i < DISK_SEED; i++) {
    seed[i] = (u8)(i * 7 + 1);
  }
  disk_attach(zero, 1, BLOCK_FAULT_NONE, 1);
  disk_format_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory), seed);
  for (u32 i = 0; !disk_turn(&disk, 0); i++) {
    CHECK(i < 10000);
  }
  CHECK(disk.verdict == DISK_OURS);
  memcpy(disk_fresh, disk_now, DISK_IMAGE);
}

static void on_failed(void *ctx) {
  (void)ctx;
  failures++;
}

// A world whose store is the attached disk; false: the store was not opened.
static bool disk_world(struct world *w, const struct broker_limits *l) {
  world_limits(w, l);
  u64 len = store_bytes() + 65536;
  store_memory = calloc(1, len);
  struct carve carve = {.region = {{store_memory, len}}, .region_count = 1, .total_len = len};
  store = store_open(&carve, &fold.block, test_digest, 1700000000000ull, unit_now_ns);
  CHECK(store != NULL);
  store->segment_len = DISK_SEGMENT;
  CHECK(broker_restore_begin(w->b, store));
  store_set_ops(store, &(struct store_ops){broker_restore, broker_durable, on_failed, w->b});
  u32 i = 0;
  while (store_boot(store, unit_now_ns) < STORE_READY && i < 200000) {
    i++;
  }
  broker_restore_end(w->b, store);
  if (store->state != STORE_READY) {
    w->b->durable.store = NULL;
    return false;
  }
  // Of the ring only the window is there.
  store->journal.segments = DISK_JOURNAL / DISK_SEGMENT;
  loop_stage(&w->core, "store", store_stage, store);
  return true;
}
static void disk_world_close(struct world *w) {
  world_close(w);
  free(store_memory);
}

// The core runs until nothing is under way to the disk any more.
static void disk_run(struct world *w) {
  for (u32 i = 0, quiet = 0; i < 4000 && quiet < 24; i++) {
    bool busy = loop_turn(&w->core);
    bool waits = store->waiting > 0 || store->journal.fill.len > 0 || store->journal.flight.len > 0;
    quiet = busy || (waits && store->state == STORE_READY) ? 0 : quiet + 1;
  }
}
