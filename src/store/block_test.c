// SPDX-License-Identifier: Apache-2.0
// Proves, of the store's building blocks: the disk in memory keeps what was flushed and only that;
// every state of a recorded run that a cut may leave contains what was acknowledged, and a flush
// that lies or is left out is found by the same enumeration; each injected fault does what it says,
// once, and nothing else; a disk that lies about zeroing is found out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/block_fault.h"
#include "store/block_memory.h"
#include "store/block_record.h"
#include "store/trial.h"

#define LEN (256u << 10)
#define BLOCK 4096u
#define BLOCKS (LEN / BLOCK)

static u8 now[LEN], stable[LEN], image[LEN], buf[8][8 * BLOCK];
static u32 dirty[LEN / 512];
static struct block_memory mem;
static struct block_fault fault;
static struct block_record rec;
static struct record_entry entries[512];
static u8 data[4u << 20];
static u8 scratch[64u << 10];
static u32 fault_fired;

static void power_on(u64 seed, u32 block_len) {
  memset(now, 0, LEN);
  memset(stable, 0, LEN);
  memset(dirty, 0, sizeof dirty);
  block_memory_init(&mem, span_of(now, LEN), span_of(stable, LEN), dirty, block_len, seed);
}

// Waits for one operation; U32_MAX: it never came.
static u32 wait(struct block *b, u64 token) {
  for (u32 i = 0; i < 400; i++) {
    struct block_done d;
    if (block_complete(b, 0, &d, 1) == 1) {
      assert_int_equal(d.token, token);
      return d.status;
    }
  }
  return U32_MAX;
}
static u32 one(struct block *b, u8 kind, u64 at, u64 len, void *memory) {
  static u64 token = 1000;
  struct block_op op = {kind, at, len, memory, ++token};
  assert_int_equal(block_submit(b, &op, 1), 1);
  return wait(b, token);
}

static void memory_keeps_the_flushed(void **state) {
  (void)state;
  u32 lost = 0;
  u32 torn = 0;
  for (u32 seed = 1; seed < 60; seed++) {
    power_on(seed, BLOCK);
    memset(buf[0], 1, BLOCK);
    memset(buf[1], 2, BLOCK);
    assert_int_equal(one(&mem.block, BLOCK_WRITE, 0, BLOCK, buf[0]), BLOCK_OK);
    assert_int_equal(one(&mem.block, BLOCK_FLUSH, 0, 0, NULL), BLOCK_OK);
    assert_int_equal(one(&mem.block, BLOCK_WRITE, BLOCK, BLOCK, buf[1]), BLOCK_OK);
    block_memory_cut(&mem);
    assert_memory_equal(now, buf[0], BLOCK);
    assert_memory_equal(now, stable, LEN);
    u32 there = 0;
    for (u32 s = 0; s < BLOCK; s += 512) {
      there += now[BLOCK + s] == 2;
    }
    lost += there == 0;
    torn += there != 0 && there != 8;
  }
  assert_true(torn > 30 && lost < 30);
  power_on(1, BLOCK);
  assert_int_equal(one(&mem.block, BLOCK_WRITE, 512, BLOCK, buf[0]), BLOCK_REFUSED);
  assert_int_equal(one(&mem.block, BLOCK_READ, LEN, BLOCK, buf[0]), BLOCK_REFUSED);
}

// A flush covers what was complete when it was submitted, not what completes meanwhile.
static void flush_covers_no_more(void **state) {
  (void)state;
  u32 lost = 0;
  for (u32 seed = 1; seed < 200; seed++) {
    power_on(seed, 512);
    memset(buf[0], 1, 512);
    struct block_op ops[2] = {{BLOCK_FLUSH, 0, 0, NULL, 1}, {BLOCK_WRITE, 0, 512, buf[0], 2}};
    assert_int_equal(block_submit(&mem.block, ops, 2), 2);
    struct block_done d;
    for (u32 got = 0; got < 2;) {
      got += block_complete(&mem.block, 0, &d, 1);
    }
    block_memory_cut(&mem);
    lost += now[0] == 0;
  }
  assert_true(lost > 50);
}

// --- A store in small: a value in two places, the newer of which counts (as superblocks do). Each
// update: write the older place, flush, then the value counts as acknowledged.

struct cell {
  u64 generation;
  u64 check;
};

static u32 acknowledged[512];  // generation acknowledged when so many entries were complete
static bool leave_out_flush;

static u32 update(struct block *b, u64 generation) {
  struct cell *c = (struct cell *)(void *)buf[0];
  memset(buf[0], 0, BLOCK);
  c->generation = generation;
  c->check = ~generation;
  u32 status = one(b, BLOCK_WRITE, (generation & 1) * BLOCK, BLOCK, buf[0]);
  if (status == BLOCK_OK && !leave_out_flush) {
    status = one(b, BLOCK_FLUSH, 0, 0, NULL);
  }
  return status;
}
static u64 recover(const u8 *disk) {
  u64 best = 0;
  for (u32 i = 0; i < 2; i++) {
    struct cell c;
    memcpy(&c, disk + (u64)i * BLOCK, sizeof c);
    best = c.check == ~c.generation && c.generation > best ? c.generation : best;
  }
  return best;
}

// Records a run, then makes every state that any cut may leave. Returns how many of them have lost
// something acknowledged.
static u32 enumerate(struct block *under, u32 *states) {
  u32 bad = 0;
  memset(acknowledged, 0, sizeof acknowledged);
  block_record_init(&rec, under, entries, 512, span_of(data, sizeof data));
  for (u64 g = 1; g <= 12; g++) {
    if (update(&rec.block, g) == BLOCK_OK) {
      acknowledged[rec.count] = (u32)g;
    }
  }
  assert_false(rec.full);
  u32 promised = 0;
  *states = 0;
  for (u32 n = 0; n <= rec.count; n++) {
    u32 loose[10];
    u32 count = block_record_loose(&rec, n, loose, 10);
    promised = MAX(promised, acknowledged[n]);
    for (u64 keep = 0; keep < 1ull << MIN(count, 10u); keep++) {
      for (u32 torn = 0; torn <= 8; torn += 8) {
        memset(image, 0, LEN);
        block_record_replay(&rec, n, keep, torn, span_of(image, LEN));
        bad += recover(image) < promised;
        (*states)++;
      }
    }
  }
  return bad;
}

static void every_cut(void **state) {
  (void)state;
  u32 states = 0;
  power_on(3, BLOCK);
  assert_int_equal(enumerate(&mem.block, &states), 0);
  assert_true(states > 90);
  leave_out_flush = true;  // the negative control
  power_on(3, BLOCK);
  assert_true(enumerate(&mem.block, &states) > 0);
  leave_out_flush = false;
}

// Certain is what a flush covers that was submitted after it; what was on its way is loose.
static void loose_and_certain(void **state) {
  (void)state;
  power_on(5, 512);
  block_record_init(&rec, &mem.block, entries, 512, span_of(data, sizeof data));
  memset(buf[0], 1, 512);
  memset(buf[1], 2, 512);
  assert_int_equal(one(&rec.block, BLOCK_WRITE, 0, 512, buf[0]), BLOCK_OK);
  u32 loose[4];
  assert_int_equal(block_record_loose(&rec, 1, loose, 4), 1);
  struct block_op ops[2] = {{BLOCK_FLUSH, 0, 0, NULL, 1}, {BLOCK_WRITE, 512, 512, buf[1], 2}};
  struct block_done d;
  assert_int_equal(block_submit(&rec.block, ops, 2), 2);
  for (u32 got = 0; got < 2;) {
    got += block_complete(&rec.block, 0, &d, 1);
  }
  assert_int_equal(rec.count, 3);
  assert_int_equal(block_record_loose(&rec, 3, loose, 4), 1);
  u32 write = entries[1].kind == BLOCK_WRITE ? 1 : 2;
  assert_int_equal(loose[0], write);
  memset(image, 0, LEN);
  block_record_replay(&rec, 3, 0, 0, span_of(image, LEN));
  assert_true(image[0] == 1 && image[512] == 0);
  block_record_replay(&rec, 3, 1, 0, span_of(image, LEN));
  assert_true(image[0] == 1 && image[512] == 2);
  struct record_entry few[1];
  block_record_init(&rec, &mem.block, few, 1, span_of(data, sizeof data));
  (void)one(&rec.block, BLOCK_FLUSH, 0, 0, NULL);
  assert_false(rec.full);
  (void)one(&rec.block, BLOCK_FLUSH, 0, 0, NULL);
  assert_true(rec.full);
}

// --- Faults

static void stack(enum block_fault_kind kind, u32 nth) {
  power_on(7, 512);
  block_fault_init(&fault, &mem.block, kind, nth, span_of(scratch, sizeof scratch));
}
static u32 put(u64 at, u32 len, u8 v) {
  memset(buf[2], v, len);
  return one(&fault.block, BLOCK_WRITE, at, len, buf[2]);
}
static bool holds(u64 at, u32 len, u8 v) {
  for (u32 i = 0; i < len; i++) {
    if (now[at + i] != v) {
      return false;
    }
  }
  return true;
}

static void each_fault(void **state) {
  (void)state;
  stack(BLOCK_FAULT_ERROR, 2);
  assert_int_equal(put(0, 1024, 1), BLOCK_OK);
  assert_int_equal(put(0, 1024, 2), BLOCK_ERROR);
  assert_true(holds(0, 1024, 1));
  assert_int_equal(put(0, 1024, 3), BLOCK_OK);
  stack(BLOCK_FAULT_TORN, 1);
  assert_int_equal(put(0, 512, 1), BLOCK_OK);  // one block cannot be torn here
  assert_int_equal(put(0, 2048, 2), BLOCK_ERROR);
  assert_true(holds(0, 1024, 2) && holds(1024, 1024, 0));
  stack(BLOCK_FAULT_TORN_SILENT, 1);
  assert_int_equal(put(0, 2048, 2), BLOCK_OK);
  assert_true(holds(0, 1024, 2) && holds(1024, 1024, 0));
  stack(BLOCK_FAULT_LOST, 1);
  assert_int_equal(put(0, 1024, 1), BLOCK_OK);
  assert_true(holds(0, 1024, 0));
  assert_int_equal(put(0, 1024, 2), BLOCK_OK);
  assert_true(holds(0, 1024, 2));
  stack(BLOCK_FAULT_MISDIRECTED, 1);
  assert_int_equal(put(0, 1024, 1), BLOCK_OK);
  assert_true(holds(0, 1024, 0) && holds(1024, 1024, 1));
  stack(BLOCK_FAULT_MISDIRECTED, 1);
  assert_int_equal(put(LEN - 1024, 1024, 1), BLOCK_OK);
  assert_true(holds(LEN - 2048, 1024, 1));
}

static void faults_about_flushes(void **state) {
  (void)state;
  stack(BLOCK_FAULT_REORDERED, 1);
  assert_int_equal(put(0, 1024, 1), BLOCK_OK);
  assert_int_equal(put(2048, 1024, 2), BLOCK_OK);
  assert_true(holds(0, 1024, 0) && holds(2048, 1024, 2));
  for (u32 i = 0; i < 50; i++) {
    assert_int_equal(one(&fault.block, BLOCK_FLUSH, 0, 0, NULL), BLOCK_OK);
  }
  assert_true(holds(0, 1024, 1));
  stack(BLOCK_FAULT_LYING_FLUSH, 2);
  assert_int_equal(one(&fault.block, BLOCK_FLUSH, 0, 0, NULL), BLOCK_OK);
  assert_int_equal(mem.flushes, 1);
  assert_int_equal(one(&fault.block, BLOCK_FLUSH, 0, 0, NULL), BLOCK_OK);
  assert_int_equal(one(&fault.block, BLOCK_FLUSH, 0, 0, NULL), BLOCK_OK);
  assert_int_equal(mem.flushes, 1);
}

static void faults_of_reads(void **state) {
  (void)state;
  stack(BLOCK_FAULT_FLIPPED, 1);
  assert_int_equal(put(0, 1024, 1), BLOCK_OK);
  assert_int_equal(one(&fault.block, BLOCK_READ, 0, 1024, buf[3]), BLOCK_OK);
  u32 wrong = 0;
  for (u32 i = 0; i < 1024; i++) {
    wrong += buf[3][i] != 1;
  }
  assert_int_equal(wrong, 1);
  assert_int_equal(one(&fault.block, BLOCK_READ, 0, 1024, buf[3]), BLOCK_OK);
  assert_memory_equal(buf[3], now, 1024);
  stack(BLOCK_FAULT_STUCK, 1);
  assert_int_equal(put(0, 1024, 1), U32_MAX);
  assert_int_equal(put(0, 1024, 1), BLOCK_OK);
}

// The small store under each fault at each operation: it acknowledges nothing that it cannot keep,
// but for a disk that lies.
static void store_under_faults(void **state) {
  (void)state;
  static const bool honest[BLOCK_FAULT_COUNT] = {
      [BLOCK_FAULT_NONE] = true, [BLOCK_FAULT_ERROR] = true, [BLOCK_FAULT_TORN] = true};
  for (u32 kind = 0; kind < BLOCK_FAULT_STUCK; kind++) {
    u32 broken = 0;
    bool fired = true;
    u32 nth = 0;
    while (fired) {
      u32 promised = 0;
      nth++;
      power_on(100 + nth, 512);
      block_fault_init(&fault, &mem.block, kind, nth, span_of(scratch, sizeof scratch));
      for (u32 g = 1; g <= 5; g++) {
        promised = update(&fault.block, g) == BLOCK_OK ? g : promised;
        if (promised != g) {
          break;  // it stops trusting the disk
        }
      }
      block_memory_cut(&mem);
      broken += recover(now) < promised;
      fired = fault.fired;
      fault_fired += fired;
    }
    assert_true(nth < 60);
    assert_true(!honest[kind] || broken == 0);
    bool fatal = kind == BLOCK_FAULT_LOST || kind == BLOCK_FAULT_MISDIRECTED ||
                 kind == BLOCK_FAULT_REORDERED || kind == BLOCK_FAULT_LYING_FLUSH;
    assert_true(!fatal || broken > 0);  // the enumeration is able to see it
  }
  assert_true(fault_fired > 30);
}

// All of them stacked, many operations at once: each token once, nothing invented.
static void stacked(void **state) {
  (void)state;
  static u8 shadow[LEN];
  bool busy[16] = {false};
  struct block_op ops[16];
  u32 answered = 0;
  power_on(11, 512);
  memset(shadow, 0, LEN);
  block_fault_init(&fault, &mem.block, BLOCK_FAULT_ERROR, 50, span_of(scratch, sizeof scratch));
  block_record_init(&rec, &fault.block, entries, 512, span_of(data, sizeof data));
  for (u32 turn = 0; answered < 300; turn++) {
    u32 i = turn * 7 % 16;
    assert_true(turn < 100000);
    if (!busy[i]) {
      bool write = turn % 3 != 0;
      ops[i] = (struct block_op){write ? BLOCK_WRITE : BLOCK_READ, (u64)i * 4096, 2048,
                                 buf[i % 8] + (i / 8) * 4096, i};
      if (write) {
        memset(ops[i].memory, (int)(turn % 251 + 1), 2048);
      }
      busy[i] = block_submit(&rec.block, &ops[i], 1) == 1;
    }
    struct block_done d[3];
    u32 n = block_complete(&rec.block, 0, d, 3);
    for (u32 k = 0; k < n; k++) {
      struct block_op *op = &ops[d[k].token];
      assert_true(d[k].token < 16 && busy[d[k].token]);
      busy[d[k].token] = false;
      answered++;
      if (d[k].status == BLOCK_OK && op->kind == BLOCK_WRITE) {
        memcpy(shadow + op->at, op->memory, op->len);
      } else if (d[k].status == BLOCK_OK) {
        assert_memory_equal(op->memory, shadow + op->at, op->len);
      }
    }
  }
  assert_true(fault.fired);
  u32 submitted = 0;
  for (u32 i = 0; i < rec.count; i++) {
    submitted += entries[i].status == BLOCK_ERROR;
  }
  assert_true(submitted <= 1);
}

// --- The trial

static struct trial trial;
static u32 (*true_submit)(struct block *b, const struct block_op *ops, u32 count);
static u8 lies_about;
static u32 lying_submit(struct block *b, const struct block_op *ops, u32 count) {
  struct block_op op = ops[0];
  if (count == 1 && op.kind == lies_about) {
    op.kind = op.kind == BLOCK_ZERO ? BLOCK_FLUSH : BLOCK_DISCARD;
    op.len = op.kind == BLOCK_FLUSH ? 0 : 2 * op.len;  // ignored; or beyond its range
    op.at = op.kind == BLOCK_FLUSH ? 0 : op.at;
    return true_submit(b, &op, 1);
  }
  return true_submit(b, ops, count);
}
static void try_out(struct block *b) {
  trial_start(&trial, b, 64u << 10, span_of(scratch, sizeof scratch));
  for (u32 i = 0; i < 10000 && !trial_turn(&trial, 0); i++) {
  }
  assert_true(trial.step != 0);
}

static void trials(void **state) {
  (void)state;
  for (u32 block_len = 512; block_len <= 4096; block_len *= 8) {
    power_on(13, block_len);
    try_out(&mem.block);
    assert_true(trial.io_good && trial.zero_good && trial.discard_good);
    power_on(13, block_len);
    true_submit = mem.block.submit;
    mem.block.submit = lying_submit;
    lies_about = BLOCK_ZERO;
    try_out(&mem.block);
    assert_true(trial.io_good && !trial.zero_good && trial.discard_good);
    power_on(13, block_len);
    mem.block.submit = lying_submit;
    lies_about = BLOCK_DISCARD;
    try_out(&mem.block);
    assert_true(trial.io_good && trial.zero_good && !trial.discard_good);
    power_on(13, block_len);
    mem.facts.zero_max = 0;
    mem.facts.discard_max = 0;
    try_out(&mem.block);
    assert_true(trial.io_good && !trial.zero_good && !trial.discard_good);
  }
  for (u32 nth = 1; nth <= 8; nth++) {
    stack(BLOCK_FAULT_ERROR, nth);
    try_out(&fault.block);
    assert_true(fault.fired && !(trial.zero_good && trial.discard_good));
    assert_true(trial.io_good == (nth == 3 || nth == 7));
  }
  mem.facts.physical_len = 1u << 20;
  assert_int_equal(trial_len(&mem.facts), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_keeps_the_flushed),
      cmocka_unit_test(flush_covers_no_more),
      cmocka_unit_test(every_cut),
      cmocka_unit_test(loose_and_certain),
      cmocka_unit_test(each_fault),
      cmocka_unit_test(faults_about_flushes),
      cmocka_unit_test(faults_of_reads),
      cmocka_unit_test(store_under_faults),
      cmocka_unit_test(stacked),
      cmocka_unit_test(trials),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
