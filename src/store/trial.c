// SPDX-License-Identifier: Apache-2.0
// Steps: pattern, flush, zero, read; pattern, flush, discard, read. Each is one operation and the
// judgement of the one before.
#include "store/trial.h"

enum { PATTERN_1, FLUSH_1, ZERO, READ_1, PATTERN_2, FLUSH_2, DISCARD, READ_2, END };

static u64 unit_of(const struct block_info *i) {
  u64 unit = MAX((u64)i->block_len, (u64)i->physical_len);
  return MAX(unit, IS_POWER_OF_TWO(i->discard_align) ? (u64)i->discard_align : 0);
}

u64 trial_len(const struct block_info *i) {
  u64 len = 3 * unit_of(i);
  return len <= TRIAL_MAX && len <= i->transfer_max ? len : 0;
}

void trial_start(struct trial *t, struct block *disk, u64 at, struct span memory) {
  *t = (struct trial){.disk = disk, .at = at, .memory = memory, .io_good = true};
  block_info(disk, &t->info);
  t->unit = unit_of(&t->info);
  ASSERT(trial_len(&t->info) != 0);
  ASSERT(memory.len >= 3 * t->unit);
  ASSERT(at % t->unit == 0);
}

static u8 pattern(const struct trial *t, u64 i) {
  return (u8)(0x80 | (i * 7 + (i >> 8) + t->step));  // never zero
}

static void fill(struct trial *t) {
  for (u64 i = 0; i < 3 * t->unit; i++) {
    t->memory.ptr[i] = pattern(t, i);
  }
}

// The outer thirds as `step` wrote them.
static bool beside_intact(struct trial *t, u32 step) {
  u32 now = t->step;
  bool good = true;
  t->step = step;
  for (u64 i = 0; i < t->unit; i++) {
    good = good && t->memory.ptr[i] == pattern(t, i) &&
           t->memory.ptr[2 * t->unit + i] == pattern(t, 2 * t->unit + i);
  }
  t->step = now;
  return good;
}

static bool middle_zero(const struct trial *t) {
  bool good = true;
  for (u64 i = t->unit; i < 2 * t->unit; i++) {
    good = good && t->memory.ptr[i] == 0;
  }
  return good;
}

static struct block_op op_of(struct trial *t) {
  struct block_op op = {.at = t->at, .len = 3 * t->unit, .memory = t->memory.ptr};
  switch (t->step) {
  case PATTERN_1:
  case PATTERN_2:
    fill(t);
    op.kind = BLOCK_WRITE;
    return op;
  case FLUSH_1:
  case FLUSH_2: return (struct block_op){.kind = BLOCK_FLUSH};
  case READ_1:
  case READ_2:
    memset(t->memory.ptr, 0x11, 3 * t->unit);
    op.kind = BLOCK_READ;
    return op;
  default:
    op.kind = t->step == ZERO ? BLOCK_ZERO : BLOCK_DISCARD;
    op.at += t->unit;
    op.len = t->unit;
    return op;
  }
}

static void judge(struct trial *t, u8 status) {
  bool good = status == BLOCK_OK;
  switch (t->step) {
  case ZERO: t->zero_good = good; break;
  case DISCARD: t->discard_good = good; break;
  case READ_1:
    t->zero_good = t->zero_good && good && middle_zero(t) && beside_intact(t, PATTERN_1);
    break;
  case READ_2: t->discard_good = t->discard_good && good && beside_intact(t, PATTERN_2); break;
  default: break;
  }
  t->io_good = t->io_good && (good || t->step == ZERO || t->step == DISCARD);
  t->step = t->io_good ? t->step + 1 : END;
}

bool trial_turn(struct trial *t, u64 now_ns) {
  struct block_done done;
  if (t->waiting && block_complete(t->disk, now_ns, &done, 1) == 1) {
    t->waiting = false;
    judge(t, done.status);
  }
  if (!t->waiting && t->step < END) {
    struct block_op op = op_of(t);
    t->waiting = block_submit(t->disk, &op, 1) == 1;
  }
  block_info(t->disk, &t->info);
  if (t->info.dead) {
    t->io_good = false;
    t->step = END;
  }
  bool end = t->step >= END;
  t->zero_good = t->zero_good && (!end || t->io_good);
  t->discard_good = t->discard_good && (!end || t->io_good);
  return end;
}
