// SPDX-License-Identifier: Apache-2.0
// Proves: page runs never overlap, all pages come back, and free buddies join (a region taken in
// pieces and given back serves its full size again), over random histories.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "loop/extent.h"

static u64 seed = 7;
static u32 draw(u32 below) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % below;
}

static void runs_do_not_overlap(void **state) {
  (void)state;
  enum { PAGES = 777, RUNS = 64 };
  struct extent e;
  struct span memory = span_of(malloc(extent_bytes(PAGES)), extent_bytes(PAGES));
  extent_init(&e, memory, PAGES);
  assert_int_equal(e.free_pages, PAGES);
  struct {
    u8 *p;
    usize len;
  } run[RUNS] = {0};
  for (u32 step = 0; step < 20000; step++) {
    u32 i = draw(RUNS);
    if (run[i].p != NULL) {
      for (usize k = 0; k < run[i].len; k += 1024) {
        assert_int_equal(run[i].p[k], i);
      }
      extent_put(&e, run[i].p, run[i].len);
      run[i].p = NULL;
    } else {
      run[i].len = 1 + draw(draw(8) == 0 ? 300000 : 20000);
      run[i].p = extent_take(&e, run[i].len);
      if (run[i].p != NULL) {
        memset(run[i].p, (int)i, run[i].len);
      }
    }
  }
  for (u32 i = 0; i < RUNS; i++) {
    if (run[i].p != NULL) {
      extent_put(&e, run[i].p, run[i].len);
    }
  }
  assert_int_equal(e.free_pages, PAGES);
  void *big = extent_take(&e, 512 * EXTENT_PAGE); // only when everything has joined again
  assert_non_null(big);
  extent_put(&e, big, 512 * EXTENT_PAGE);
  assert_null(extent_take(&e, (usize)PAGES * EXTENT_PAGE + 1));
  free(memory.ptr);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs_do_not_overlap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
