// SPDX-License-Identifier: Apache-2.0
// A timer with `delta` ticks to go lies on the lowest level whose reach exceeds delta; on level l
// the slot is bits [l*BITS, (l+1)*BITS) of its tick. When time reaches a multiple of 2^(l*BITS) the
// level's current slot is spread over the levels below. The occupancy words let time jump from one
// occupied slot to the next, so that a long sleep costs nothing.
#include "loop/wheel.h"

#define SLOT_MASK (WHEEL_SLOTS - 1u)
#define HORIZON ((1ull << (WHEEL_BITS * WHEEL_LEVELS)) - 1)

static void link_slot(struct wheel *w, u32 id, u32 slot) {
  struct timer *t = &w->timers[id];
  ASSERT(t->slot == WHEEL_NONE);
  t->slot = slot;
  t->prev = WHEEL_NONE;
  t->next = w->head[slot];
  if (t->next != WHEEL_NONE) {
    w->timers[t->next].prev = id;
  }
  w->head[slot] = id;
  w->occupied[slot >> WHEEL_BITS] |= 1ull << (slot & SLOT_MASK);
}

static void unlink_slot(struct wheel *w, u32 id) {
  struct timer *t = &w->timers[id];
  u32 slot = t->slot;
  ASSERT(slot < WHEEL_LEVELS * WHEEL_SLOTS);
  if (t->prev != WHEEL_NONE) {
    w->timers[t->prev].next = t->next;
  } else {
    ASSERT(w->head[slot] == id);
    w->head[slot] = t->next;
  }
  if (t->next != WHEEL_NONE) {
    w->timers[t->next].prev = t->prev;
  }
  if (w->head[slot] == WHEEL_NONE) {
    w->occupied[slot >> WHEEL_BITS] &= ~(1ull << (slot & SLOT_MASK));
  }
  t->slot = WHEEL_NONE;
  t->next = t->prev = WHEEL_NONE;
}

// Places by the distance from w->now; due >= w->now. Beyond the horizon: at the horizon (I3).
static void place(struct wheel *w, u32 id, u64 due) {
  ASSERT(due >= w->now);
  u64 delta = MIN(due - w->now, HORIZON);
  u64 tick = w->now + delta;
  u32 level = 0;
  while (level + 1 < WHEEL_LEVELS && delta >> (WHEEL_BITS * (level + 1)) != 0) {
    level++;
  }
  u32 index = (u32)(tick >> (WHEEL_BITS * level)) & SLOT_MASK;
  link_slot(w, id, level * WHEEL_SLOTS + index);
}

void wheel_init(struct wheel *w, struct timer *timers, u32 count, u64 now_ns) {
  ASSERT(count > 0);
  ASSERT(count < WHEEL_NONE);
  w->timers = timers;
  w->count = count;
  w->armed_count = 0;
  w->now = now_ns >> WHEEL_TICK_SHIFT;
  for (u32 i = 0; i < WHEEL_LEVELS * WHEEL_SLOTS; i++) {
    w->head[i] = WHEEL_NONE;
  }
  for (u32 l = 0; l < WHEEL_LEVELS; l++) {
    w->occupied[l] = 0;
  }
  w->free_head = WHEEL_NONE;
  w->fresh = 0;
}

u32 wheel_take(struct wheel *w, u32 kind, void *owner) {
  u32 id = w->free_head;
  if (id == WHEEL_NONE && w->fresh == w->count) {
    return WHEEL_NONE;
  }
  if (id == WHEEL_NONE) {
    id = w->fresh++;
    w->timers[id].slot = WHEEL_NONE;
  } else {
    w->free_head = w->timers[id].next;
  }
  struct timer *t = &w->timers[id];
  ASSERT(t->slot == WHEEL_NONE);
  t->next = t->prev = WHEEL_NONE;
  t->kind = kind;
  t->owner = owner;
  return id;
}

void wheel_put(struct wheel *w, u32 id) {
  ASSERT(id < w->count);
  wheel_cancel(w, id);
  w->timers[id].owner = NULL;
  w->timers[id].next = w->free_head;
  w->free_head = id;
}

void wheel_arm(struct wheel *w, u32 id, u64 deadline_ns) {
  ASSERT(id < w->count);
  wheel_cancel(w, id);
  u64 due = deadline_ns > U64_MAX - (1ull << WHEEL_TICK_SHIFT) ? U64_MAX >> WHEEL_TICK_SHIFT
                                                               : wheel_tick_ceil(deadline_ns);
  w->timers[id].deadline = due;
  place(w, id, MAX(due, w->now + 1));
  w->armed_count++;
}

void wheel_cancel(struct wheel *w, u32 id) {
  ASSERT(id < w->count);
  if (w->timers[id].slot != WHEEL_NONE) {
    unlink_slot(w, id);
    ASSERT(w->armed_count > 0);
    w->armed_count--;
  }
}

// Ticks until the next occupied slot of a level comes up: 1 .. WHEEL_SLOTS of its own units.
static u64 level_next(const struct wheel *w, u32 level) {
  u64 unit = w->now >> (WHEEL_BITS * level);
  u32 index = (u32)unit & SLOT_MASK;
  u64 ahead = index + 1 < WHEEL_SLOTS ? w->occupied[level] >> (index + 1) : 0;
  u64 step = 0;
  if (ahead != 0) {
    step = (u64)__builtin_ctzll(ahead) + 1;
  } else {
    step = (u64)__builtin_ctzll(w->occupied[level]) + WHEEL_SLOTS - index;
  }
  return (unit + step) << (WHEEL_BITS * level);
}

// The next tick at which a slot must be fired or spread; U64_MAX when nothing is armed.
static u64 next_event(const struct wheel *w) {
  u64 next = U64_MAX;
  for (u32 level = 0; level < WHEEL_LEVELS; level++) {
    if (w->occupied[level] != 0) {
      next = MIN(next, level_next(w, level));
    }
  }
  return next;
}

// Time has just become w->now: spreads every level whose slot begins here, highest first.
static void cascade(struct wheel *w) {
  for (u32 level = WHEEL_LEVELS - 1; level > 0; level--) {
    if ((w->now & ((1ull << (WHEEL_BITS * level)) - 1)) != 0) {
      continue;
    }
    u32 slot = level * WHEEL_SLOTS + ((u32)(w->now >> (WHEEL_BITS * level)) & SLOT_MASK);
    while (w->head[slot] != WHEEL_NONE) {
      u32 id = w->head[slot];
      unlink_slot(w, id);
      place(w, id, MAX(w->timers[id].deadline, w->now));
    }
  }
}

enum turn { TURN_FIRED, TURN_ON, TURN_DONE };

// One turn of wheel_expire, the unit of proof: fires a timer of the current slot (*id), puts one on
// that had been clamped to the horizon, lets time jump to the next slot that holds something, or
// stops at target.
static enum turn expire_turn(struct wheel *w, u64 target, u32 *id) {
  u32 first = w->head[(u32)w->now & SLOT_MASK];
  if (first != WHEEL_NONE) {
    unlink_slot(w, first);
    if (w->timers[first].deadline > w->now) {
      place(w, first, w->timers[first].deadline);
      return TURN_ON;
    }
    ASSERT(w->armed_count > 0);
    w->armed_count--;
    *id = first;
    return TURN_FIRED;
  }
  u64 next = w->now < target ? next_event(w) : U64_MAX;
  if (next > target) {
    w->now = MAX(w->now, target);
    return TURN_DONE;
  }
  w->now = next;
  cascade(w);
  return TURN_ON;
}

u32 wheel_expire(struct wheel *w, u64 now_ns) {
  u64 target = now_ns >> WHEEL_TICK_SHIFT;
  u32 id = WHEEL_NONE;
  enum turn turn = TURN_ON;
  while (turn == TURN_ON) {
    turn = expire_turn(w, target, &id);
  }
  return id;
}

u64 wheel_next_ns(const struct wheel *w) {
  if (w->head[(u32)w->now & SLOT_MASK] != WHEEL_NONE) {
    return w->now << WHEEL_TICK_SHIFT;
  }
  u64 next = next_event(w);
  return next >= U64_MAX >> WHEEL_TICK_SHIFT ? U64_MAX : next << WHEEL_TICK_SHIFT;
}
