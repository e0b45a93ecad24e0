// SPDX-License-Identifier: Apache-2.0
// For tests of what SQLite writes: a small disk with a WAL, a database and two backups, on which
// one connection is opened, used, closed and cut; allocations of SQLite's fail by counter.
#pragma once
#include <sqlite3.h>

#include "store/block_fault.h"
#include "store/block_memory.h"
#include "store/block_record.h"
#include "store/vfs.h"

#define RIG_WAL (2u << 20)
#define RIG_FILE (2u << 20)
#define RIG_LEN (RIG_WAL + 3 * RIG_FILE)
#define RIG_HEAP (12u << 20)
#define RIG_ENTRIES 8192u

static const struct extent_table rig_table = {
    .count = 5,
    .e = {{ROLE_WAL, 0, RIG_WAL / 2},
          {ROLE_DATABASE, RIG_WAL / 2, RIG_FILE},
          {ROLE_WAL, RIG_WAL / 2 + RIG_FILE, RIG_WAL / 2},
          {ROLE_BACKUP_A, RIG_WAL + RIG_FILE, RIG_FILE},
          {ROLE_BACKUP_B, RIG_WAL + 2 * RIG_FILE, RIG_FILE}}};
static u8 rig_now[RIG_LEN], rig_stable[RIG_LEN], rig_memory[VFS_MEMORY] ALIGNED(4096);
static u8 rig_heap[RIG_HEAP] ALIGNED(64), rig_data[64u << 20], rig_scratch[VFS_BUFFER];
static u32 rig_dirty[RIG_LEN / 512], rig_crc[RIG_WAL / VFS_FRAME + 2];
static struct record_entry rig_entries[RIG_ENTRIES];
static struct block_memory rig_mem;
static struct block_record rig_rec;
static struct block_fault rig_fault;
static struct vfs rig_vfs;

// The nth allocation from now fails; 0: none does.
static u32 rig_alloc_nth, rig_alloc_seen;
static bool rig_alloc_fired;
static sqlite3_mem_methods rig_real;

static bool rig_alloc_fails(void) {
  rig_alloc_seen++;
  bool now = rig_alloc_nth != 0 && rig_alloc_seen == rig_alloc_nth;
  rig_alloc_fired = rig_alloc_fired || now;
  return now;
}
static void *rig_malloc(int n) {
  return rig_alloc_fails() ? NULL : rig_real.xMalloc(n);
}
static void *rig_realloc(void *p, int n) {
  return rig_alloc_fails() ? NULL : rig_real.xRealloc(p, n);
}

static inline void rig_power(u64 seed, enum block_fault_kind kind, u32 nth) {
  block_memory_init(&rig_mem, span_of(rig_now, RIG_LEN), span_of(rig_stable, RIG_LEN), rig_dirty,
                    512, seed);
  block_record_init(&rig_rec, &rig_mem.block, rig_entries, RIG_ENTRIES,
                    span_of(rig_data, sizeof rig_data));
  block_fault_init(&rig_fault, &rig_rec.block, kind, nth, span_of(rig_scratch, VFS_BUFFER));
}

// The disk's content as it is; SQLite from nothing.
static inline void rig_vfs_start(void) {
  struct vfs_place place = {&rig_fault.block, &rig_table, 0, {3, 1, 4}};
  memset(rig_crc, 0, sizeof rig_crc);
  vfs_start(&rig_vfs, &place, span_of(rig_memory, VFS_MEMORY), span_of(rig_crc, sizeof rig_crc));
  (void)sqlite3_shutdown();
  rig_alloc_nth = 0;
  if (rig_real.xMalloc == NULL) {
    (void)sqlite3_config(SQLITE_CONFIG_HEAP, rig_heap, RIG_HEAP, 64);
    (void)sqlite3_config(SQLITE_CONFIG_GETMALLOC, &rig_real);
  }
  ASSERT(vfs_register(&rig_vfs, span_of(rig_heap, RIG_HEAP)) == ERR_OK);
  // As it is now, but for what fails.
  (void)sqlite3_shutdown();
  sqlite3_mem_methods mine = rig_real;
  mine.xMalloc = rig_malloc;
  mine.xRealloc = rig_realloc;
  (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
  (void)sqlite3_initialize();
}

static inline void rig_blank(void) {
  memset(rig_now, 0xa5, RIG_LEN);  // what a disk held before
  memset(rig_stable, 0xa5, RIG_LEN);
  memset(rig_dirty, 0, sizeof rig_dirty);
}
