// SPDX-License-Identifier: Apache-2.0
// The timer wheel by induction, for histories of any length: from any state that keeps the
// invariant, each operation keeps it and does what wheel.h says. Tiny sizes (the row's defines), as
// the code is the same for all.
//
// The invariant: a timer is armed exactly when it stands in a slot's list, and that slot comes up
// after `now` (on the lowest level: not before) and no later than the timer's deadline, or in the
// next tick when that is over. Lists are proper: every link has its back link, and every armed
// timer leads to its slot's head within TIMERS steps. The occupied bits are those of the heads.
#include "loop/wheel.c"  // its static steps are proved one by one
#include "proof.h"

#ifndef TIMERS
#define TIMERS 2u
#endif
#ifndef RUN_TICKS
#define RUN_TICKS 5u  // of the run in one piece: over a turn of the lowest level and a spread
#endif
#define LISTS (WHEEL_LEVELS * WHEEL_SLOTS)
#define TICKS (1ull << 40)  // all times are below: no clock gets there

static struct wheel w;
static struct timer timers[TIMERS];

// The tick at which the slot of an armed timer comes up next.
static u64 comes_up(u32 slot) {
  u32 level = slot >> WHEEL_BITS;
  u64 unit = w.now >> (WHEEL_BITS * level);
  u64 ahead = ((slot & (WHEEL_SLOTS - 1)) - (u32)unit) & (WHEEL_SLOTS - 1);
  if (ahead == 0 && level > 0) {
    ahead = WHEEL_SLOTS;  // this turn of the slot is over, it was spread when its time began
  }
  return (unit + ahead) << (WHEEL_BITS * level);
}

static bool timer_good(u32 i) {
  struct timer *t = &timers[i];
  if (t->slot == WHEEL_NONE) {
    return true;
  }
  if (t->slot >= LISTS || t->deadline >= TICKS || (t->next != WHEEL_NONE && t->next >= TIMERS) ||
      (t->prev != WHEEL_NONE && t->prev >= TIMERS)) {
    return false;
  }
  bool next_good =
      t->next == WHEEL_NONE || (timers[t->next].slot == t->slot && timers[t->next].prev == i);
  bool prev_good = t->prev == WHEEL_NONE
                       ? w.head[t->slot] == i
                       : timers[t->prev].slot == t->slot && timers[t->prev].next == i;
  // Never late: the slot comes up no later than the deadline, or at once when that is over.
  return next_good && prev_good && comes_up(t->slot) <= MAX(t->deadline, w.now + 1);
}

static bool wheel_good(void) {
  bool good = w.now < TICKS && w.timers == timers && w.count == TIMERS;
  u32 armed = 0;
  for (u32 i = 0; i < TIMERS; i++) {
    good = good && timer_good(i);
    armed += timers[i].slot != WHEEL_NONE;
  }
  for (u32 i = 0; good && i < TIMERS; i++) {  // no circle that hangs on no head
    u32 at = i;
    for (u32 n = 0; n < TIMERS && at != WHEEL_NONE; n++) {
      at = timers[i].slot == WHEEL_NONE ? WHEEL_NONE : timers[at].prev;
    }
    good = at == WHEEL_NONE;
  }
  for (u32 s = 0; s < LISTS; s++) {
    u32 id = w.head[s];
    bool occupied = (w.occupied[s >> WHEEL_BITS] >> (s & (WHEEL_SLOTS - 1)) & 1) != 0;
    good = good && occupied == (id != WHEEL_NONE) && (id == WHEEL_NONE || id < TIMERS);
    if (good && id != WHEEL_NONE) {
      good = timers[id].slot == s && timers[id].prev == WHEEL_NONE;
      for (u32 n = 0; good && n < TIMERS && id != WHEEL_NONE; n++) {
        id = timers[id].next;
      }
      good = good && id == WHEEL_NONE;  // no circle
    }
  }
  for (u32 l = 0; l < WHEEL_LEVELS; l++) {
    good = good && w.occupied[l] >> WHEEL_SLOTS == 0;
  }
  return good && armed == w.armed_count;
}

static void any_wheel(void) {
  struct wheel any;
  w = any;
  w.timers = timers;
  w.count = TIMERS;
  for (u32 i = 0; i < TIMERS; i++) {
    struct timer t;
    timers[i] = t;
  }
  __CPROVER_assume(wheel_good());
}

void proof_wheel_init(void) {
  struct wheel any;
  w = any;
  for (u32 i = 0; i < TIMERS; i++) {
    timers[i].slot = WHEEL_NONE;
  }
  u64 now_ns = nondet_u64();
  __CPROVER_assume(now_ns >> WHEEL_TICK_SHIFT < TICKS);
  wheel_init(&w, timers, TIMERS, now_ns);
  PROVE(wheel_good());
  PROOF_REACHED();
}

void proof_wheel_arm(void) {
  any_wheel();
  u32 id = nondet_u32();
  u64 deadline_ns = nondet_u64();
  __CPROVER_assume(id < TIMERS && deadline_ns >> WHEEL_TICK_SHIFT < TICKS - 1);
  u32 other = TIMERS - 1 - id;
  u64 others = timers[other].deadline;
  bool armed = wheel_armed(&w, other);
  wheel_arm(&w, id, deadline_ns);
  PROVE(wheel_good());
  PROVE(wheel_armed(&w, id));
  PROVE(timers[id].deadline << WHEEL_TICK_SHIFT >= deadline_ns);
  PROVE(other == id || (wheel_armed(&w, other) == armed && timers[other].deadline == others));
  if (timers[id].slot >= WHEEL_SLOTS && timers[id].next != WHEEL_NONE) {
    PROOF_REACHED();
  }
}

void proof_wheel_cancel(void) {
  any_wheel();
  u32 id = nondet_u32();
  __CPROVER_assume(id < TIMERS);
  bool armed = wheel_armed(&w, id);
  u32 count = w.armed_count;
  wheel_cancel(&w, id);
  PROVE(wheel_good());
  PROVE(!wheel_armed(&w, id) && w.armed_count == count - armed);
  if (armed && w.armed_count == 1) {
    PROOF_REACHED();
  }
}

static u64 deadline_was[TIMERS];
static bool armed_was[TIMERS];

static void remember(void) {
  for (u32 i = 0; i < TIMERS; i++) {
    deadline_was[i] = timers[i].deadline;
    armed_was[i] = timers[i].slot != WHEEL_NONE;
  }
}

static bool all_kept(void) {
  bool kept = true;
  for (u32 i = 0; i < TIMERS; i++) {
    kept = kept && (timers[i].slot != WHEEL_NONE) == armed_was[i] &&
           (!armed_was[i] || timers[i].deadline == deadline_was[i]);
  }
  return kept;
}

// wheel_expire is "while (turn == TURN_ON) turn = expire_turn(...)" and nothing else. So what these
// proofs say of one turn, from any state that keeps the invariant and for any target, holds for the
// whole of it by induction over its turns: every turn keeps the invariant and all timers but the
// one it fires; TURN_ON goes on within the target, and cannot go on for ever (time moves on, or the
// current slot gets shorter while time stands); TURN_FIRED fires what is due and no other; after
// TURN_DONE nothing is due. Timers fire in the order of their ticks, as time only moves on and
// nothing that is due is left behind. The turn's three cases are proved one by one.
static u32 in_slot(void) {
  u32 count = 0;
  for (u32 i = 0; i < TIMERS; i++) {
    count += timers[i].slot == ((u32)w.now & SLOT_MASK);
  }
  return count;
}

// Something stands in the current slot.
void proof_wheel_fire(void) {
  any_wheel();
  __CPROVER_assume(w.head[(u32)w.now & SLOT_MASK] != WHEEL_NONE);
  remember();
  u64 now = w.now;
  u32 count = w.armed_count;
  u32 before = in_slot();
  u32 id = WHEEL_NONE;
  enum turn turn = expire_turn(&w, nondet_u64(), &id);
  PROVE(turn != TURN_DONE && w.now == now && in_slot() < before);
  PROVE(wheel_good());
  if (turn == TURN_FIRED) {
    PROVE(id < TIMERS && armed_was[id] && deadline_was[id] <= now);  // never early
    PROVE(!wheel_armed(&w, id) && w.armed_count == count - 1);
    armed_was[id] = false;
    PROVE(all_kept());
    if (in_slot() > 0) {
      PROOF_REACHED();
    }
  } else {
    PROVE(all_kept());
  }
}

// Nothing stands there, and the next slot that holds a timer lies within the target: no slot that
// holds one is jumped over, and after the spread every timer is there still, in a place where it
// comes up in time.
void proof_wheel_tick(void) {
  any_wheel();
  __CPROVER_assume(w.head[(u32)w.now & SLOT_MASK] == WHEEL_NONE);
  remember();
  u64 before = w.now;
  u64 next = next_event(&w);
  u64 target = nondet_u64();
  PROVE((next == U64_MAX) == (w.armed_count == 0));
  PROVE(next > before);
  for (u32 i = 0; i < TIMERS; i++) {
    PROVE(!armed_was[i] || comes_up(timers[i].slot) >= next);
  }
  __CPROVER_assume(next <= target && target < TICKS);
  bool high = next % WHEEL_SLOTS == 0 && w.occupied[WHEEL_LEVELS - 1] != 0;
  u32 id = WHEEL_NONE;
  PROVE(expire_turn(&w, target, &id) == TURN_ON);
  PROVE(w.now == next);
  PROVE(wheel_good());
  PROVE(all_kept());
  if (high && w.head[(u32)w.now & SLOT_MASK] != WHEEL_NONE) {
    PROOF_REACHED();
  }
}

// Nothing stands there and nothing comes up within the target: time stops there, and nothing that
// is due stays behind.
void proof_wheel_stop(void) {
  any_wheel();
  __CPROVER_assume(w.head[(u32)w.now & SLOT_MASK] == WHEEL_NONE);
  remember();
  u64 before = w.now;
  u64 target = nondet_u64();
  u32 id = WHEEL_NONE;
  __CPROVER_assume(target < TICKS && (target <= before || next_event(&w) > target));
  PROVE(expire_turn(&w, target, &id) == TURN_DONE);
  PROVE(w.now == MAX(before, target) && id == WHEEL_NONE);
  PROVE(wheel_good());
  PROVE(all_kept());
  for (u32 i = 0; i < TIMERS; i++) {
    PROVE(!armed_was[i] || timers[i].deadline > target || target <= before);  // I3
  }
  PROVE(wheel_next_ns(&w) > w.now << WHEEL_TICK_SHIFT);
  if (w.armed_count == TIMERS && target > before + 2) {
    PROOF_REACHED();
  }
}

// The whole in one piece, bounded: two timers of any deadlines, then time to any tick, and on to
// the end. What fires by then is what is due, in order.
void proof_wheel_run(void) {
  u64 start = nondet_u64();
  u64 target = nondet_u64();
  u64 last = 0;
  u32 fired = 0;
  __CPROVER_assume(start < WHEEL_SLOTS && target >= start && target <= start + RUN_TICKS);
  for (u32 i = 0; i < TIMERS; i++) {
    timers[i].slot = WHEEL_NONE;
  }
  wheel_init(&w, timers, TIMERS, start << WHEEL_TICK_SHIFT);
  for (u32 i = 0; i < TIMERS; i++) {
    u64 deadline = nondet_u64();
    __CPROVER_assume(deadline > start && deadline <= start + RUN_TICKS);
    wheel_arm(&w, i, deadline << WHEEL_TICK_SHIFT);
  }
  for (u32 n = 0; n <= TIMERS; n++) {
    u32 id = wheel_expire(&w, target << WHEEL_TICK_SHIFT);
    if (id != WHEEL_NONE) {
      PROVE(id < TIMERS && timers[id].deadline <= target && timers[id].deadline >= last);
      last = timers[id].deadline;
      fired++;
    }
  }
  for (u32 i = 0; i < TIMERS; i++) {
    PROVE(wheel_armed(&w, i) == (timers[i].deadline > target));
    fired += wheel_armed(&w, i);
  }
  PROVE(fired == TIMERS);
  if (last == start + RUN_TICKS) {
    PROOF_REACHED();
  }
}
