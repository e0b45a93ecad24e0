// SPDX-License-Identifier: Apache-2.0
// What a record costs in the journal alone: appended, framed, checksummed and carried to a disk in
// memory that answers at once; no device, no flush to wait for. Says records/s and bytes written a
// record, by payload and by how many arrive while a batch is under way.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/journal.h"

#define LEN (64u << 20)

static u8 disk[LEN], a[JOURNAL_BATCH_MAX], b[JOURNAL_BATCH_MAX], scan[1u << 20], payload[4096];
static struct block_op held[4];
static u32 held_count;

static void info(struct block *blk, struct block_info *out) {
  (void)blk;
  *out = (struct block_info){.len = LEN, .block_len = 512};
}
static u32 submit(struct block *blk, const struct block_op *ops, u32 count) {
  (void)blk;
  (void)count;
  held[held_count++] = ops[0];
  return 1;
}
static u32 complete(struct block *blk, u64 now_ns, struct block_done *out, u32 max) {
  (void)blk;
  (void)now_ns;
  (void)max;
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

static void run(u32 len, u32 together) {
  static const struct extent_table table = {.count = 1, .e = {{ROLE_JOURNAL, 0, LEN}}};
  static struct block block = {info, submit, complete};
  static struct journal j;
  struct journal_place place = {
      .block = &block, .extents = &table, .segment_len = 1u << 20, .boot = 1, .oldest = 1};
  struct journal_record r;
  u64 lsn = 0;
  memset(disk, 0, LEN);
  journal_start(&j, &place, span_of(a, sizeof a), span_of(b, sizeof b), span_of(scan, sizeof scan),
                1);
  while (journal_replay(&j, 0, &r) == ERR_AGAIN) {
  }
  double start = seconds();
  while (j.bytes_written < 1ull << 30 && j.records < 3000000) {
    for (u32 i = 0; i < together; i++) {
      (void)journal_append(&j, 1, bytes_of(payload, len), &lsn);
    }
    do {
      journal_turn(&j, 0);
    } while (j.durable_lsn < lsn);
    journal_release(&j, j.sequence);
  }
  double took = seconds() - start;
  printf("%5u B, %4u a batch: %9.0f records/s, %7.1f B written a record, %6.0f MB/s\n", len,
         together, (double)j.records / took, (double)j.bytes_written / (double)j.records,
         (double)j.bytes_written / took / 1e6);
}

int main(void) {
  static const u32 lens[] = {64, 256, 1024};
  static const u32 together[] = {1, 16, 100};
  for (u32 i = 0; i < 9; i++) {
    run(lens[i / 3], together[i % 3]);
  }
  return 0;
}
