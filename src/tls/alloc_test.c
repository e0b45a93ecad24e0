// SPDX-License-Identifier: Apache-2.0
// Proves: the allocator's structure holds after any sequence of takes and puts (validator after
// every step), payloads never overlap, freed bytes are wiped, an empty allocator has one block
// again.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tls/alloc.h"

static u64 seed;
static u32 random_below(u32 n) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % n;
}

static void random_sequences(void **state) {
  (void)state;
  enum { LEN = 20480, SLOTS = 64 };
  u8 *memory = aligned_alloc(64, LEN);
  for (u32 run = 0; run < 60; run++) {
    seed = run;
    struct alloc a;
    alloc_init(&a, span_of(memory, LEN - run % 16));
    alloc_check(&a);
    u8 *p[SLOTS] = {NULL};
    u32 len[SLOTS];
    u32 refused = 0;
    for (u32 step = 0; step < 1500; step++) {
      u32 i = random_below(SLOTS);
      if (p[i] == NULL) {
        len[i] = random_below(4) == 0 ? random_below(3000) : random_below(120);
        p[i] = alloc_take(&a, len[i]);
        refused += p[i] == NULL;
        if (p[i] != NULL) {
          assert_int_equal(alloc_size(&a, p[i]), len[i]);
          assert_int_equal((uptr)p[i] % 16, 0);
          memset(p[i], (int)i + 1, len[i]);
        }
      } else {
        for (u32 k = 0; k < len[i]; k++) {
          assert_int_equal(p[i][k], i + 1);
        }
        alloc_put(&a, p[i]);
        p[i] = NULL;
      }
      alloc_check(&a);
    }
    assert_true(refused > 0);  // the arena was full at times
    for (u32 i = 0; i < SLOTS; i++) {
      if (p[i] != NULL) {
        alloc_put(&a, p[i]);
      }
    }
    alloc_check(&a);
    assert_int_equal(a.count, 0);
    assert_int_equal(a.used, 0);
    void *all = alloc_take(&a, LEN - 256);  // one block again
    assert_non_null(all);
    alloc_put(&a, all);
    alloc_fini(&a);
  }
  free(memory);
}

static void freed_is_wiped(void **state) {
  (void)state;
  u8 *memory = aligned_alloc(64, 4096);
  memset(memory, 0x55, 4096);
  struct alloc a;
  alloc_init(&a, span_of(memory, 4096));
  u8 *secret = alloc_take(&a, 100);
  u8 *after = alloc_take(&a, 10);
  memset(secret, 0xaa, 100);
  u32 off = (u32)(secret - memory);
  alloc_put(&a, secret);
  MEM_UNPOISON(memory, 4096);
  for (u32 i = 8; i < 100; i++) {  // the first 8 bytes are the free list's links
    assert_int_equal(memory[off + i], 0);
  }
  alloc_put(&a, after);
  alloc_fini(&a);
  free(memory);
}

static void faults_by_counter(void **state) {
  (void)state;
  u8 *memory = aligned_alloc(64, 4096);
  memset(memory, 0, 4096);
  struct alloc a;
  alloc_init(&a, span_of(memory, 4096));
  a.fail_after = 2;
  void *one = alloc_take(&a, 10);
  void *two = alloc_take(&a, 10);
  assert_non_null(one);
  assert_non_null(two);
  assert_null(alloc_take(&a, 10));
  alloc_put(&a, one);
  assert_null(alloc_take(&a, 10));
  assert_null(alloc_take(&a, U32_MAX));
  memset(two, 0xaa, 10);
  alloc_fini(&a);  // while a block is still taken
  for (u32 i = 0; i < 4096; i++) {
    assert_int_equal(memory[i], 0);
  }
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_sequences),
      cmocka_unit_test(freed_is_wiped),
      cmocka_unit_test(faults_by_counter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
