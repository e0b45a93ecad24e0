// SPDX-License-Identifier: Apache-2.0
// Proves: entries of random sizes arrive once, in order, whole, and come back in order with what
// the receiver wrote; data leaves the reserve to control; a core that is asleep is woken once a
// batch and never sleeps on mail; a turn takes a bounded share; epochs wait for every core that is
// awake. `threads` has the same with four threads that sleep and wake each other (under
// ThreadSanitizer: make tsan).
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/shared.h"
#include "loop/epoch.h"
#include "loop/loop.h"
#include "loop/mailbox.h"

#define CORES 4u
#define RING MAIL_RING_MIN

struct post {
  u32 number;
  u32 len;
  u32 answer;
  u32 from;
  u8 text[];
};
struct pair {
  u32 put, taken, back;
};
static struct core core[CORES];
static struct timer timers[CORES][16];
static struct pair pair[CORES][CORES];  // [from][to]
static void *memory;
static u32 wakes[CORES];
static sem_t bell[CORES];
static bool threaded;
static u64 seed = 1;

static u32 draw(u64 *s, u32 below) {
  *s = *s * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(*s >> 33) % below;
}

void plat_wake(u32 c) {
  __atomic_add_fetch(&wakes[c], 1, __ATOMIC_RELAXED);
  if (threaded) {
    sem_post(&bell[c]);
  }
}

static void on_take(struct core *c, u32 from, struct span body) {
  struct post *p = (struct post *)(void *)body.ptr;
  struct pair *a = &pair[from][c->id];
  assert_int_equal((uptr)body.ptr % 8, 0);
  assert_int_equal(p->number, a->taken);
  assert_int_equal(p->from, from);
  assert_int_equal(body.len, sizeof *p + p->len);
  for (u32 i = 0; i < p->len; i++) {
    assert_int_equal(p->text[i], (u8)(p->number + i));
  }
  p->answer = p->number * 3;
  a->taken++;
}

static void on_done(struct core *c, u32 to, struct span body) {
  const struct post *p = (const struct post *)(const void *)body.ptr;
  assert_int_equal(p->number, pair[c->id][to].back);
  assert_int_equal(p->answer, p->number * 3);
  pair[c->id][to].back++;
}

static bool post(struct core *c, u32 to, enum mail_class class, u32 len, bool wake_back) {
  bool room = mailbox_room(c, to, class, (u32)sizeof(struct post) + len);
  struct span s = mailbox_put(c, to, class, MAIL_TEST, (u32)sizeof(struct post) + len, wake_back);
  assert_int_equal(room, s.ptr != NULL);
  if (s.ptr == NULL) {
    return false;
  }
  struct post *p = (struct post *)(void *)s.ptr;
  *p = (struct post){.number = pair[c->id][to].put++, .len = len, .from = c->id};
  for (u32 i = 0; i < len; i++) {
    p->text[i] = (u8)(p->number + i);
  }
  return true;
}

static int open_all(void **state) {
  (void)state;
  u64 len = mailroom_bytes(CORES, RING) + epoch_bytes() + 256;
  memory = calloc(1, len);
  struct carve carve = {.region = {{memory, len}}, .region_count = 1, .total_len = len};
  struct mailroom *room = mailroom_open(&carve, CORES, RING);
  struct epoch *epoch = epoch_open(&carve, CORES);
  assert_non_null(room);
  memset(pair, 0, sizeof pair);
  memset(wakes, 0, sizeof wakes);
  for (u32 i = 0; i < CORES; i++) {
    core_init(&core[i], i, timers[i], 16);
    mailbox_open(&core[i], room);
    mailbox_on(&core[i], MAIL_TEST, on_take, on_done);
    core[i].epoch = epoch;
    assert_int_equal(mailbox_cores(&core[i]), CORES);
  }
  return 0;
}
static int close_all(void **state) {
  (void)state;
  free(memory);
  return 0;
}

static void arrives_in_order_and_comes_back(void **state) {
  (void)state;
  u32 refused = 0;
  for (u32 step = 0; step < 200000; step++) {
    struct core *c = &core[draw(&seed, CORES)];
    u32 to = draw(&seed, CORES);
    u32 op = draw(&seed, 8);
    if (op < 5 && to != c->id) {
      u32 len = draw(&seed, draw(&seed, 20) == 0 ? RING / 4 - 8 - sizeof(struct post) : 400);
      refused += post(c, to, draw(&seed, 4) == 0 ? MAIL_CONTROL : MAIL_DATA, len, true) ? 0 : 1;
    } else if (op >= 5 && draw(&seed, 12) == 0) {
      (void)loop_turn(c);
      mailbox_check(c);
    }
  }
  for (u32 k = 0; k < 3000; k++) {
    (void)loop_turn(&core[k % CORES]);
  }
  u32 total = 0;
  for (u32 i = 0; i < CORES; i++) {
    for (u32 k = 0; k < CORES; k++) {
      assert_int_equal(pair[i][k].taken, pair[i][k].put);
      assert_int_equal(pair[i][k].back, pair[i][k].put);
      assert_true(i == k || mailbox_idle(&core[i], k));
      total += pair[i][k].put;
    }
  }
  assert_true(total > 10000);
  assert_true(refused > 100);
}

static void data_leaves_the_reserve(void **state) {
  (void)state;
  u32 data = 0;
  u32 control = 0;
  while (post(&core[0], 1, MAIL_DATA, 40, false)) {
    data++;
  }
  while (post(&core[0], 1, MAIL_CONTROL, 40, false)) {
    control++;
  }
  u32 size = 8 + sizeof(struct post) + 40;
  assert_in_range(data, RING * 3 / 4 / size - 1, RING * 3 / 4 / size);
  assert_in_range(control, RING / 4 / size - 1, RING / 4 / size + 1);
  (void)loop_turn(&core[0]);
  (void)loop_turn(&core[1]);
  assert_false(post(&core[0], 1, MAIL_DATA, 40, false));  // it is the sender's when it has looked
  (void)loop_turn(&core[0]);
  assert_true(post(&core[0], 1, MAIL_DATA, 40, false));
}

static void a_sleeper_is_woken_once(void **state) {
  (void)state;
  assert_true(mailbox_sleep(&core[1]));
  for (u32 i = 0; i < 5; i++) {
    assert_true(post(&core[0], 1, MAIL_DATA, 10, i == 3));
  }
  assert_int_equal(wakes[1], 0);
  (void)loop_turn(&core[0]);
  assert_int_equal(wakes[1], 1);
  assert_true(post(&core[2], 1, MAIL_DATA, 10, false));
  (void)loop_turn(&core[2]);
  assert_int_equal(wakes[1], 1);  // it has been told
  mailbox_awake(&core[1]);
  assert_true(post(&core[0], 1, MAIL_DATA, 10, false));
  (void)loop_turn(&core[0]);
  assert_int_equal(wakes[1], 1);  // it is awake
  assert_false(mailbox_sleep(&core[1]));
  mailbox_awake(&core[1]);
  assert_true(mailbox_sleep(&core[0]));
  assert_true(mailbox_sleep(&core[2]));
  (void)loop_turn(&core[1]);
  assert_int_equal(pair[0][1].taken, 6);
  assert_int_equal(wakes[0], 1);  // for the one that asked for it
  assert_int_equal(wakes[2], 0);
  assert_false(mailbox_sleep(&core[0]));  // and what came back is there
  assert_false(mailbox_sleep(&core[2]));
}

static void a_turn_is_bounded(void **state) {
  (void)state;
  for (u32 from = 1; from < CORES; from++) {
    while (post(&core[from], 0, MAIL_DATA, 0, false)) {
    }
    (void)loop_turn(&core[from]);
  }
  u32 before = 0;
  for (u32 k = 0; k < 20; k++) {
    bool busy = loop_turn(&core[0]);
    u32 taken = pair[1][0].taken + pair[2][0].taken + pair[3][0].taken;
    assert_true(taken - before <= MAIL_A_TURN);
    assert_int_equal(busy, taken != before);
    before = taken;
  }
  assert_int_equal(before, pair[1][0].put + pair[2][0].put + pair[3][0].put);
}

static void epochs_wait_for_who_is_awake(void **state) {
  (void)state;
  struct epoch *e = core[0].epoch;
  u64 at = epoch_next(e);
  assert_false(epoch_reached(e, at));
  epoch_offline(&core[3]);
  for (u32 i = 0; i < 3; i++) {
    assert_false(epoch_reached(e, at));
    (void)loop_turn(&core[i]);
  }
  assert_true(epoch_reached(e, at));
  epoch_online(&core[3]);
  assert_true(epoch_reached(e, at));
  assert_false(epoch_reached(e, epoch_next(e)));
}

// --- threads

#define ROUNDS 20000u
static u32 finished;

// What loop_run does, with a bell in plat_idle's place.
static void *run_core(void *arg) {
  struct core *c = arg;
  u64 s = c->id + 1;
  bool told = false;
  for (;;) {
    bool busy = false;
    for (u32 to = 0; to < CORES; to++) {
      while (to != c->id && pair[c->id][to].put < ROUNDS && draw(&s, 4) != 0) {
        busy |= post(c, to, MAIL_DATA, draw(&s, 100), true);
      }
      busy |= to != c->id && pair[c->id][to].put < ROUNDS && mailbox_room(c, to, MAIL_DATA, 200);
    }
    busy |= loop_turn(c);
    bool all = true;
    for (u32 to = 0; to < CORES; to++) {
      all &= to == c->id || (pair[c->id][to].back == ROUNDS && pair[to][c->id].taken == ROUNDS);
    }
    if (all && !told) {
      told = true;
      if (__atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST) == CORES) {
        for (u32 i = 0; i < CORES; i++) {
          sem_post(&bell[i]);
        }
      }
    }
    if (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) == CORES) {
      return NULL;
    }
    if (!busy) {
      epoch_offline(c);
      if (mailbox_sleep(c)) {
        sem_wait(&bell[c->id]);
      }
      mailbox_awake(c);
      epoch_online(c);
    }
  }
}

static void threads(void **state) {
  (void)state;
  pthread_t thread[CORES];
  threaded = true;
  finished = 0;
  for (u32 i = 0; i < CORES; i++) {
    sem_init(&bell[i], 0, 0);
  }
  for (u32 i = 0; i < CORES; i++) {
    assert_int_equal(pthread_create(&thread[i], NULL, run_core, &core[i]), 0);
  }
  for (u32 i = 0; i < CORES; i++) {
    pthread_join(thread[i], NULL);
  }
  threaded = false;
  for (u32 i = 0; i < CORES; i++) {
    for (u32 k = 0; k < CORES; k++) {
      assert_int_equal(pair[i][k].back, i == k ? 0 : ROUNDS);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(arrives_in_order_and_comes_back, open_all, close_all),
      cmocka_unit_test_setup_teardown(data_leaves_the_reserve, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_sleeper_is_woken_once, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_turn_is_bounded, open_all, close_all),
      cmocka_unit_test_setup_teardown(epochs_wait_for_who_is_awake, open_all, close_all),
      cmocka_unit_test_setup_teardown(threads, open_all, close_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
