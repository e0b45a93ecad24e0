// SPDX-License-Identifier: Apache-2.0
// Proves: a frame comes to the core of its flow, once, in order, with its buffers; buffers go home;
// a core that keeps too much loses frames and nobody else does; who sleeps is woken for what comes
// (real threads, also under ThreadSanitizer: `make tsan`).
#include "plat/steer.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BUFS 64u
#define CORES 3u

static struct rxbuf bufs[BUFS];
static u8 data[BUFS][128];
static u32 woken[PLAT_CORE_MAX];

void plat_wake(u32 core) {
  __atomic_add_fetch(&woken[core], 1, __ATOMIC_SEQ_CST);
}

// A frame of `count` buffers from this port, beginning with buffer `at`.
static struct rxbuf *frame_from(u32 at, u16 port, u32 count) {
  u8 *f = data[at];
  memset(f, 0, 64);
  store_be16(f + 12, 0x0800);
  f[14] = 0x45;
  f[23] = 6;
  store_be32(f + 26, 0x0a090001);
  store_be32(f + 30, 0x0a090002);
  store_be16(f + 34, port);
  store_be16(f + 36, 1883);
  for (u32 i = 0; i < count; i++) {
    bufs[at + i] = (struct rxbuf){.data = data[at + i], .len = 64, .id = at + i};
    bufs[at + i].next = i + 1 < count ? &bufs[at + i + 1] : NULL;
  }
  bufs[at].frame_len = 64 * count;
  return &bufs[at];
}

static u32 core_of(u32 at, u16 port) {
  struct rxbuf *b = frame_from(at, port, 1);
  return flow_core(steer_flows(), bytes_of(b->data, b->len));
}

// A port whose flow is `core`'s.
static u16 port_of(u32 core) {
  for (u16 p = 1024; p < 49152; p++) {
    if (core_of(0, p) == core) {
      return p;
    }
  }
  fail();
  return 0;
}

static void one_core_keeps_all(void **state) {
  (void)state;
  struct rxbuf *dropped = NULL;
  steer_init(1, 8);
  for (u16 p = 1024; p < 1100; p++) {
    struct rxbuf *f = frame_from(0, p, 2);
    assert_true(steer_is_mine(0, f, &dropped));
    assert_ptr_equal(steer_release(0, f), f);
  }
  struct rxbuf *got[4];
  assert_int_equal(steer_take(0, 0, got, 4), 0);
  assert_true(steer_sleep(0, true));
  assert_null(steer_back(0));
}

static void order_and_homecoming(void **state) {
  (void)state;
  struct rxbuf *dropped = NULL;
  struct rxbuf *got[BUFS];
  steer_init(CORES, BUFS);
  u16 port = port_of(2);
  for (u32 i = 0; i < 20; i += 2) {
    assert_false(steer_is_mine(0, frame_from(i, port, 2), &dropped));
    assert_null(dropped);
    if (i == 8) {
      steer_send(0);
    }
  }
  steer_send(0);
  assert_int_equal(steer_take(2, 0, got, 4), 4);
  assert_int_equal(steer_take(2, 0, got + 4, BUFS), 6);
  for (u32 i = 0; i < 10; i++) {
    assert_int_equal(got[i]->id, 2 * i);
    assert_int_equal(got[i]->frame_len, 128);
    assert_int_equal(got[i]->next->id, 2 * i + 1);
    assert_null(steer_release(2, got[i]));
  }
  assert_null(steer_back(0));  // not yet sent
  steer_send(2);
  u32 back = 0;
  for (struct rxbuf *b = steer_back(0); b != NULL; b = b->next) {
    back++;
  }
  assert_int_equal(back, 20);
}

static void a_hoarder_harms_itself(void **state) {
  (void)state;
  struct rxbuf *dropped = NULL;
  struct rxbuf *got[BUFS];
  steer_init(CORES, 4);
  u16 one = port_of(1);
  u16 two = port_of(2);
  for (u32 i = 0; i < 6; i++) {
    dropped = NULL;
    bool mine = steer_is_mine(0, frame_from(i, one, 1), &dropped);
    assert_false(mine);
    assert_true((dropped == NULL) == (i < 4));
    assert_true(dropped == NULL || steer_release(0, dropped) == &bufs[i]);
  }
  assert_int_equal(steer_dropped(0), 2);
  dropped = NULL;
  assert_false(steer_is_mine(0, frame_from(10, two, 1), &dropped));
  assert_null(dropped);
  steer_send(0);
  assert_int_equal(steer_take(1, 0, got, BUFS), 4);
  assert_null(steer_release(1, got[0]));
  steer_send(1);
  assert_ptr_equal(steer_back(0), &bufs[0]);
  assert_false(steer_is_mine(0, frame_from(0, one, 1), &dropped));  // one more fits again
  assert_null(dropped);
}

static void sleepers_are_woken(void **state) {
  (void)state;
  struct rxbuf *dropped = NULL;
  struct rxbuf *got[4];
  steer_init(CORES, BUFS);
  memset(woken, 0, sizeof woken);
  u16 port = port_of(1);
  assert_true(steer_sleep(1, false));
  assert_false(steer_is_mine(0, frame_from(0, port, 1), &dropped));
  steer_send(0);
  assert_int_equal(woken[1], 1);
  steer_awake(1);
  assert_false(steer_sleep(1, false));  // the frame is still there
  steer_awake(1);
  assert_int_equal(steer_take(1, 0, got, 4), 1);
  assert_true(steer_sleep(0, false));
  assert_null(steer_release(1, got[0]));
  steer_send(1);
  assert_int_equal(woken[0], 0);  // only a starved one wants its buffers at once
  steer_awake(0);
  assert_false(steer_sleep(0, true));
  steer_awake(0);
  assert_non_null(steer_back(0));
  assert_false(steer_is_mine(0, frame_from(0, port, 1), &dropped));
  steer_send(0);
  assert_int_equal(steer_take(1, 0, got, 4), 1);
  assert_true(steer_sleep(0, true));
  assert_null(steer_release(1, got[0]));
  steer_send(1);
  assert_int_equal(woken[0], 1);
  steer_awake(0);
}

// --- threads: core 0 polls, all take, each checks the order of its flow

#define ROUNDS 20000u
static struct rxbuf *spare;
static u64 seen[CORES];

static void *taker(void *arg) {
  u32 core = (u32)(uptr)arg;
  struct rxbuf *got[16];
  u64 last = 0;
  while (last < ROUNDS) {
    u32 n = steer_take(core, 0, got, 16);
    for (u32 i = 0; i < n; i++) {
      u64 number = load_le64(got[i]->data + 48);
      assert_true(number == last + 1);
      last = number;
      seen[core]++;
      assert_null(steer_release(core, got[i]));
    }
    steer_send(core);
    if (n == 0) {
      (void)steer_sleep(core, false);
      steer_awake(core);
      sched_yield();
    }
  }
  return NULL;
}

static struct rxbuf *take_spare(void) {
  while (spare == NULL) {
    steer_send(0);
    spare = steer_back(0);
    sched_yield();
  }
  struct rxbuf *b = spare;
  spare = b->next;
  return b;
}

static void threads(void **state) {
  (void)state;
  pthread_t t[CORES];
  struct rxbuf *dropped = NULL;
  steer_init(CORES, BUFS);
  u16 port[CORES];
  for (u32 i = 1; i < CORES; i++) {
    port[i] = port_of(i);
  }
  spare = NULL;
  for (u32 i = 0; i < BUFS; i++) {
    bufs[i] = (struct rxbuf){.data = data[i], .id = i, .next = spare};
    spare = &bufs[i];
  }
  for (u32 i = 1; i < CORES; i++) {
    pthread_create(&t[i], NULL, taker, (void *)(uptr)i);
  }
  for (u64 round = 1; round <= ROUNDS; round++) {
    for (u32 to = 1; to < CORES; to++) {
      struct rxbuf *b = frame_from(take_spare()->id, port[to], 1);
      store_le64(b->data + 48, round);
      assert_false(steer_is_mine(0, b, &dropped));
      assert_null(dropped);
    }
    if (round % 7 == 0 || round == ROUNDS || spare == NULL) {
      steer_send(0);
    }
  }
  for (u32 i = 1; i < CORES; i++) {
    pthread_join(t[i], NULL);
    assert_int_equal(seen[i], ROUNDS);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_core_keeps_all),
      cmocka_unit_test(order_and_homecoming),
      cmocka_unit_test(a_hoarder_harms_itself),
      cmocka_unit_test(sleepers_are_woken),
      cmocka_unit_test(threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
