// SPDX-License-Identifier: Apache-2.0
// Proves: frames pass in order and once, never more than the ring holds; tokens come back in any
// order of the device, never more than were sent; with two threads the same (make tsan).
#include "plat/outbox.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct outbox box;
static struct tx_frame frames[OUTBOX_FRAMES + 8];

static void number(u32 first) {
  for (u32 i = 0; i < OUTBOX_FRAMES + 8; i++) {
    frames[i].token = (void *)(uptr)(first + i);
  }
}

static void order_and_bounds(void **state) {
  (void)state;
  memset(&box, 0, sizeof box);
  box.put = box.back = box.taken = box.returned = U32_MAX - 20;  // the counters wrap
  number(1);
  assert_null(outbox_next(&box));
  assert_false(outbox_waits(&box));
  assert_int_equal(outbox_put(&box, frames, OUTBOX_FRAMES + 8), OUTBOX_FRAMES);
  assert_int_equal(outbox_put(&box, frames, 1), 0);
  assert_true(outbox_waits(&box));
  for (u32 i = 1; i <= OUTBOX_FRAMES; i++) {
    assert_ptr_equal(outbox_next(&box)->token, (void *)(uptr)i);
    outbox_take(&box);
  }
  assert_null(outbox_next(&box));
  void *token[4];
  assert_int_equal(outbox_done(&box, token, 4), 0);
  outbox_return(&box, (void *)2);
  outbox_return(&box, (void *)1);
  assert_int_equal(outbox_done(&box, token, 1), 1);
  assert_ptr_equal(token[0], (void *)2);
  assert_int_equal(outbox_done(&box, token, 4), 1);
  assert_ptr_equal(token[0], (void *)1);
}

static void no_more_out_than_can_come_back(void **state) {
  (void)state;
  memset(&box, 0, sizeof box);
  u32 sent = 0;
  u32 got = 0;
  while ((got = outbox_put(&box, frames, OUTBOX_FRAMES)) > 0) {
    sent += got;
    for (u32 i = 0; i < got; i++) {
      outbox_take(&box);
    }
  }
  assert_int_equal(sent, OUTBOX_TOKENS);
  outbox_return(&box, NULL);
  void *token = NULL;
  assert_int_equal(outbox_done(&box, &token, 1), 1);
  assert_int_equal(outbox_put(&box, frames, OUTBOX_FRAMES), 1);
}

#define ROUNDS 100000u

static void *owner(void *arg) {
  (void)arg;
  for (uptr want = 1; want <= ROUNDS;) {
    const struct tx_frame *f = outbox_next(&box);
    if (f == NULL) {
      sched_yield();
      continue;
    }
    assert_ptr_equal(f->token, (void *)want);
    void *token = f->token;
    outbox_take(&box);
    outbox_return(&box, token);
    want++;
  }
  return NULL;
}

static void threads(void **state) {
  (void)state;
  pthread_t t;
  memset(&box, 0, sizeof box);
  pthread_create(&t, NULL, owner, NULL);
  u32 sent = 0;
  u32 back = 0;
  while (back < ROUNDS) {
    number(sent + 1);
    sent += outbox_put(&box, frames, MIN(7u, ROUNDS - sent));
    void *token[16];
    u32 n = outbox_done(&box, token, 16);
    for (u32 i = 0; i < n; i++) {
      assert_ptr_equal(token[i], (void *)(uptr)++back);
    }
    if (n == 0) {
      sched_yield();
    }
  }
  pthread_join(t, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(order_and_bounds),
      cmocka_unit_test(no_more_out_than_can_come_back),
      cmocka_unit_test(threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
