// SPDX-License-Identifier: Apache-2.0
// Proves: against a device that completes in any order, sleeps until it is told and writes any
// length, every chain comes back exactly once with its token, no notification is lost with or
// without event index, indices wrap, and the ring is whole again afterwards; a device that names an
// id it does not hold, or more completions than there can be, breaks the queue and nothing else.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dev/virtqueue.c"

#define SIZE 16u
#define TURNS 200000u

struct device {  // lives in the queue's memory, as a real one does
  struct vq *q;
  u16 seen;  // of the available ring
  u16 used;  // ours, published at once
  u16 held[SIZE];
  u32 held_count;
  bool asleep;
};

static struct vq q;
static struct device dev;
static u8 memory[16384] __attribute__((aligned(4096)));
static struct vq_desc tables[SIZE * VQ_PARTS_MAX];

static void start(bool event_idx, bool indirect) {
  memset(memory, 0, sizeof memory);
  assert_true(vq_memory_len(SIZE) <= sizeof memory);
  vq_init(&q, SIZE, memory, indirect ? tables : NULL, (u64)(uptr)tables, event_idx);
  dev = (struct device){.q = &q, .asleep = true};
}

static void publish_used(u32 id, u32 len) {
  q.used_ring[2 * (dev.used % SIZE)] = id;
  q.used_ring[2 * (dev.used % SIZE) + 1] = len;
  dev.used++;
  q.used16[USED_IDX] = dev.used;
}

// Takes what is available, then says from where on it wants to be told, and sleeps.
static void device_fetch(void) {
  if (dev.asleep) {
    return;
  }
  q.used16[USED_FLAGS] = USED_NO_NOTIFY;
  while (dev.seen != q.avail[AVAIL_IDX]) {
    assert_true(dev.held_count < SIZE);
    dev.held[dev.held_count++] = q.avail[AVAIL_RING + dev.seen % SIZE];
    dev.seen++;
  }
  q.used16[2 + 4 * SIZE] = dev.seen;
  q.used16[USED_FLAGS] = 0;
  dev.asleep = true;
}

static void device_complete(void) {
  if (dev.held_count == 0) {
    return;
  }
  u32 pick = (u32)rand() % dev.held_count;
  publish_used(dev.held[pick], (u32)rand());
  dev.held[pick] = dev.held[--dev.held_count];
}

// The parts of the chain as the device reads them: how many, and the sum of their lengths.
static u32 chain_sum(u16 head, u32 *count) {
  struct vq_desc d = q.desc[head];
  const struct vq_desc *table = NULL;
  u32 sum = 0;
  *count = 0;
  if ((d.flags & DESC_INDIRECT) != 0) {
    table = (const struct vq_desc *)(uptr)d.phys;
    d = table[0];
  }
  for (;;) {
    sum += d.len;
    (*count)++;
    assert_true(*count <= VQ_PARTS_MAX);
    if ((d.flags & DESC_NEXT) == 0) {
      return sum;
    }
    d = table != NULL ? table[d.next] : q.desc[d.next];
  }
}

static void histories(bool event_idx, bool indirect) {
  static u8 out[TURNS];  // 1 while the chain with this number is outstanding
  start(event_idx, indirect);
  memset(out, 0, sizeof out);
  u32 added = 0;
  u32 back = 0;
  for (u32 turn = 0; turn < TURNS; turn++) {
    u32 what = (u32)rand() % 4;
    if (what == 0) {
      struct vq_part parts[6];
      u32 n = 1 + (u32)rand() % 6;
      u32 sum = 0;
      for (u32 i = 0; i < n; i++) {
        parts[i] = (struct vq_part){(u64)rand(), (u32)rand() % 1000, i >= n / 2};
        sum += parts[i].len;
      }
      u16 head = q.free_count != 0 ? vq_next_head(&q) : 0;
      bool room = vq_has_room(&q, n);
      bool ok = vq_add(&q, parts, n, (void *)(uptr)(added + 1));
      assert_true(ok == room);
      if (ok) {
        u32 count = 0;
        assert_int_equal(chain_sum(head, &count), sum);
        assert_int_equal(count, n);
        out[added++] = 1;
      }
    } else if (what == 1) {
      dev.asleep = dev.asleep && !vq_publish(&q);
      device_fetch();
    } else if (what == 2) {
      device_complete();
    } else {
      void *token = NULL;
      u32 len = 0;
      if (vq_take(&q, &token, &len)) {
        u32 number = (u32)(uptr)token - 1;
        assert_true(number < added);
        assert_int_equal(out[number], 1);
        out[number] = 0;
        back++;
      }
    }
    assert_false(q.broken);
  }
  // The rest must come back too, with no help but what vq_publish says: a lost kick stops it here.
  for (u32 i = 0; i < 4 * SIZE + 4; i++) {
    void *token = NULL;
    u32 len = 0;
    dev.asleep = dev.asleep && !vq_publish(&q);
    device_fetch();
    device_complete();
    while (vq_take(&q, &token, &len)) {
      back++;
    }
  }
  assert_true(added > 20000);
  assert_int_equal(back, added);
  assert_int_equal(q.free_count, SIZE);
  assert_int_equal(vq_outstanding(&q), 0);
}

static void any_order(void **state) {
  (void)state;
  for (u32 k = 0; k < 4; k++) {
    srand(k + 1);
    histories((k & 1) != 0, (k & 2) != 0);
  }
}

static void add_one(void) {
  struct vq_part part = {4096, 100, true};
  assert_true(vq_add(&q, &part, 1, (void *)(uptr)1));
  vq_publish(&q);
}

static void is_broken(void) {
  void *token = NULL;
  u32 len = 0;
  struct vq_part part = {4096, 100, true};
  assert_false(vq_take(&q, &token, &len));
  assert_true(q.broken);
  assert_false(vq_add(&q, &part, 1, NULL));
  assert_false(vq_publish(&q));
  assert_int_equal(vq_pending(&q), 0);
}

static void wrong_ids(void **state) {
  (void)state;
  static const u32 ids[] = {SIZE, SIZE + 1, 0xffff, 0x10000, 0xffffffff, 5 /* not outstanding */};
  for (u32 i = 0; i < ARRAY_COUNT(ids); i++) {
    start(false, false);
    add_one();
    publish_used(ids[i], 0);
    is_broken();
  }
}

static void twice(void **state) {
  (void)state;
  void *token = NULL;
  u32 len = 0;
  start(true, false);
  add_one();
  publish_used(0, 7);
  publish_used(0, 7);
  assert_true(vq_take(&q, &token, &len));
  assert_int_equal(len, 7);
  is_broken();
}

static void too_many(void **state) {
  (void)state;
  start(false, false);
  add_one();
  q.used16[USED_IDX] = SIZE + 1;
  is_broken();
}

// After vq_interrupts(true) a completion asks for an interrupt; after (false) none does.
static void suppression(void **state) {
  (void)state;
  for (u32 event = 0; event < 2; event++) {
    start(event == 1, false);
    for (u32 round = 0; round < 70000; round++) {
      void *token = NULL;
      u32 len = 0;
      bool want = (round & 1) != 0;
      add_one();
      vq_interrupts(&q, want);
      u16 before = dev.used;
      publish_used(q.avail[AVAIL_RING + (u16)(q.avail_idx - 1) % SIZE], 0);
      bool raised = event == 1 ? passed(q.avail[AVAIL_RING + SIZE], dev.used, before)
                               : (q.avail[AVAIL_FLAGS] & AVAIL_NO_INTERRUPT) == 0;
      assert_true(raised == want);
      assert_true(vq_take(&q, &token, &len));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_order), cmocka_unit_test(wrong_ids),   cmocka_unit_test(twice),
      cmocka_unit_test(too_many),  cmocka_unit_test(suppression),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
