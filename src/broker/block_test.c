// SPDX-License-Identifier: Apache-2.0
// Proves: blocks never overlap, keep their contents, come back whole: after any history everything
// put, the region gives its largest block again; shortage is NULL.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/block.h"

#include <cmocka.h>

#define HELD 500u

static void random_history(void **state) {
  (void)state;
  u64 len = (1u << 20) + 37 * BLOCK_GRANULE;
  u8 *memory = malloc(blocks_bytes(len));
  struct blocks a;
  static struct {
    u8 *p;
    u32 len;
  } held[HELD];
  memset(held, 0, sizeof held);
  blocks_init(&a, span_of(memory, blocks_bytes(len)), len);
  blocks_check(&a);
  u64 rng = 7;
  u32 refused = 0;
  for (u32 i = 0; i < 60000; i++) {
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    u32 k = (u32)(rng >> 33) % HELD;
    if (held[k].p != NULL) {
      for (u32 j = 0; j < held[k].len; j += 97) {
        assert_int_equal(held[k].p[j], (u8)k);
      }
      blocks_put(&a, held[k].p);
      held[k].p = NULL;
    } else {
      held[k].len = 1 + (u32)(rng >> 40) % (k % 10 == 0 ? 30000 : 700);
      held[k].p = blocks_take(&a, held[k].len);
      refused += held[k].p == NULL ? 1 : 0;
      if (held[k].p != NULL) {
        assert_true(blocks_len(&a, held[k].p) >= held[k].len);
        memset(held[k].p, (int)k, held[k].len);
      }
    }
    if (i % 1000 == 0) {
      blocks_check(&a);
    }
  }
  assert_true(refused > 0);
  for (u32 k = 0; k < HELD; k++) {
    if (held[k].p != NULL) {
      blocks_put(&a, held[k].p);
    }
  }
  blocks_check(&a);
  assert_int_equal(a.taken, 0);
  assert_null(blocks_take(&a, (1u << 20) + 1));  // larger than any run of a power of two
  u8 *whole = blocks_take(&a, 1u << 20);
  assert_non_null(whole);
  assert_null(blocks_take(&a, 64 * BLOCK_GRANULE));
  blocks_put(&a, whole);
  free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_history)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
