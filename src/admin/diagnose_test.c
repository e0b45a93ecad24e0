// SPDX-License-Identifier: Apache-2.0
// Proves: the gap that may be written touches no partition, whatever the table; a disk that is not
// understood, cannot be read or is too small has none; an empty disk's gap leaves its ends alone;
// and the document's text shows every value.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "admin/diagnose.h"
#include "store/block_memory.h"
#include "store/gpt.h"

#define MIB (1u << 20)
#define DISK (64 * MIB)
#define BLOCK 512u

static u8 now[DISK], stable[DISK];
static u32 dirty[DISK / BLOCK];
static u8 scratch[2 * MIB] ALIGNED(4096);
static struct block_memory disk;

static void start(void) {
  memset(now, 0, sizeof now);
}
static bool gap_of(struct diagnose_gap *gap, const char **why) {
  memcpy(stable, now, sizeof now);
  memset(dirty, 0, sizeof dirty);
  block_memory_init(&disk, span_of(now, sizeof now), span_of(stable, sizeof stable), dirty, BLOCK,
                    7);
  return diagnose_find_gap(&disk.block, span_of(scratch, sizeof scratch), gap, why);
}

// A table of partitions given in blocks: first, last, first, last, ..., 0.
static void table(const u64 *parts) {
  struct gpt g = {.block_len = BLOCK, .blocks = DISK / BLOCK, .guid = {1}};
  start();
  for (u32 i = 0; parts[2 * i] != 0; i++) {
    struct gpt_part p = {.idx = i, .first = parts[2 * i], .last = parts[2 * i + 1], .unique = {9}};
    gpt_put_entry(span_of(now + 2 * BLOCK, GPT_ENTRIES_LEN), i, gpt_type_esp, &p, "part");
  }
  gpt_seal_first(&g, span_of(now, GPT_FIRST_LEN(BLOCK)));
}

static void test_between(void **state) {
  (void)state;
  struct diagnose_gap gap;
  const char *why;
  table((const u64[]){2048, 4095, 20480, 40959, 0});  // MiB 1 to 2, 10 to 20
  assert_true(gap_of(&gap, &why));
  assert_int_equal(gap.at, 20 * MIB);
  assert_int_equal(gap.len, 43 * MIB);
  table((const u64[]){2048, 4095, 100000, DISK / BLOCK - 40, 0});
  assert_true(gap_of(&gap, &why));
  assert_int_equal(gap.at, 2 * MIB);
  assert_int_equal(gap.len, 46 * MIB);
  table((const u64[]){34, DISK / BLOCK - 40, 0});
  assert_false(gap_of(&gap, &why));
  assert_string_equal(why, "its partitions leave no MiB free");
}

static void test_any_table(void **state) {
  (void)state;
  srand(5);
  for (u32 round = 0; round < 300; round++) {
    u64 parts[21] = {0};
    u32 count = 1 + (u32)rand() % 10;
    for (u32 i = 0; i < count; i++) {  // also overlapping ones
      parts[2 * i] = 34 + (u64)rand() % (DISK / BLOCK - 2000);
      parts[2 * i + 1] = MIN(parts[2 * i] + (u64)rand() % 30000, DISK / BLOCK - 40ull);
    }
    table(parts);
    struct diagnose_gap gap;
    const char *why;
    if (!gap_of(&gap, &why)) {
      continue;
    }
    assert_true(gap.len >= MIB && gap.at >= MIB && gap.at + gap.len <= DISK - 33 * BLOCK);
    for (u32 i = 0; i < count; i++) {
      u64 first = parts[2 * i] * BLOCK;
      u64 behind = (parts[2 * i + 1] + 1) * BLOCK;
      assert_true(behind <= gap.at || first >= gap.at + gap.len);
    }
  }
}

static void test_not_understood(void **state) {
  (void)state;
  struct diagnose_gap gap;
  const char *why;
  start();  // empty: all but its ends
  assert_true(gap_of(&gap, &why));
  assert_int_equal(gap.at, MIB);
  assert_int_equal(gap.len, DISK - 2 * MIB);
  now[DISK - 5] = 1;
  assert_false(gap_of(&gap, &why));
  start();
  now[MIB - 1] = 1;  // a file system, perhaps
  assert_false(gap_of(&gap, &why));
  table((const u64[]){2048, 4095, 0});
  for (u32 at = 0; at < GPT_FIRST_LEN(BLOCK); at += 7) {  // any damage of the table
    if (at < 446) {
      continue;  // boot code
    }
    now[at] ^= 0xff;
    assert_false(gap_of(&gap, &why) && gap.at < 2 * MIB);
    now[at] ^= 0xff;
  }
}

static void test_text(void **state) {
  (void)state;
  static u8 out[2000];
  struct json_node nodes[64];
  struct writer w = writer_init(span_of(out, sizeof out));
  diagnose_text(BYTES_LIT("{\"a\":1,\"b\":{\"c\":true,\"d\":\"x\"},\"e\":[{\"f\":2},{\"f\":3}],"
                          "\"g\":{\"h\":{\"i\":4}}}"),
                nodes, ARRAY_COUNT(nodes), &w);
  const char *want = "a: 1\nb:\n  c true, d x\ne:\n  f 2\n  f 3\ng:\n  h:\n    i 4\n";
  assert_int_equal(w.pos, strlen(want));
  assert_memory_equal(out, want, w.pos);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_between),
      cmocka_unit_test(test_any_table),
      cmocka_unit_test(test_not_understood),
      cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
