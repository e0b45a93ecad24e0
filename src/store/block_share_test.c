// SPDX-License-Identifier: Apache-2.0
// Proves: users of one device through their ports get their own completions with their own tokens,
// whatever the order, and never more under way than their share; a port with nothing under way
// takes nobody's completions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/block_memory.h"
#include "store/block_share.h"

#define LEN (64u * 512u)

static u8 now[LEN], stable[LEN], page[BLOCK_SHARE_PORTS][512];
static u32 dirty[LEN / 512];
static struct block_memory mem;
static struct block_share share;

static void begin(u64 seed) {
  memset(now, 0, LEN);
  memset(stable, 0, LEN);
  memset(dirty, 0, sizeof dirty);
  block_memory_init(&mem, span_of(now, LEN), span_of(stable, LEN), dirty, 512, seed);
  mem.delay = 3;
  block_share_init(&share, &mem.block);
}

static void everyone_gets_his_own(void **state) {
  (void)state;
  for (u64 seed = 1; seed < 50; seed++) {
    u64 asked[BLOCK_SHARE_PORTS] = {0};
    u64 got[BLOCK_SHARE_PORTS] = {0};
    begin(seed);
    for (u32 i = 0; i < 4000; i++) {
      u32 k = (u32)((i * 7 + seed) % BLOCK_SHARE_PORTS);
      struct block *b = block_share_port(&share, k);
      struct block_op op = {BLOCK_READ, 512ull * k, 512, page[k], ++asked[k]};
      asked[k] -= block_submit(b, &op, 1) == 1 ? 0 : 1;
      struct block_done done[3];
      u32 n = block_complete(block_share_port(&share, i % BLOCK_SHARE_PORTS), 0, done, 3);
      for (u32 d = 0; d < n; d++) {
        assert_int_equal(done[d].status, BLOCK_OK);
        assert_true(done[d].token >= 1 && done[d].token <= asked[i % BLOCK_SHARE_PORTS]);
      }
      got[i % BLOCK_SHARE_PORTS] += n;
    }
    for (u32 k = 0; k < BLOCK_SHARE_PORTS; k++) {
      struct block_done done;
      for (u32 i = 0; i < 10000 && got[k] < asked[k]; i++) {
        got[k] += block_complete(block_share_port(&share, k), 0, &done, 1);
      }
      assert_true(asked[k] > 100 && got[k] == asked[k]);
      assert_int_equal(block_complete(block_share_port(&share, k), 0, &done, 1), 0);
    }
  }
}

static void a_share_is_a_share(void **state) {
  (void)state;
  struct block_info i;
  begin(5);
  struct block *a = block_share_port(&share, 0);
  struct block *b = block_share_port(&share, 1);
  struct block_op op = {BLOCK_READ, 0, 512, page[0], 9};
  block_info(a, &i);
  assert_true(i.inflight_max > 0 && i.len == LEN);
  for (u32 n = 0; n < i.inflight_max; n++) {
    assert_int_equal(block_submit(a, &op, 1), 1);
  }
  assert_int_equal(block_submit(a, &op, 1), 0);
  assert_int_equal(block_submit(b, &op, 1), 1);  // another's share is left
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everyone_gets_his_own),
      cmocka_unit_test(a_share_is_a_share),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
