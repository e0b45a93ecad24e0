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

// wheel_expire is a loop over three steps: fire what stands in the current slot; let time jump to
// the next slot that holds something and spread it; or stop before that slot. This is the first:
// what fires is due, what is not (it had been put at the horizon) goes on.
void proof_wheel_fire(void) {
  any_wheel();
  remember();
  u64 now = w.now;
  u32 first = w.head[(u32)now & SLOT_MASK];
  u32 count = w.armed_count;
  u32 id = wheel_expire(&w, now << WHEEL_TICK_SHIFT);
  PROVE(w.now == now);
  PROVE(wheel_good());
  if (id == WHEEL_NONE) {
    PROVE(w.head[(u32)now & SLOT_MASK] == WHEEL_NONE);
    PROVE(all_kept());
  } else {
    PROVE(armed_was[id] && deadline_was[id] <= now);  // never early
    PROVE(!wheel_armed(&w, id) && w.armed_count == count - 1);
    armed_was[id] = false;
    PROVE(all_kept());
    if (id != first) {
      PROOF_REACHED();
    }
  }
}

// The second step: no slot that holds a timer is jumped over, and after the spread every timer is
// there still, in a place where it comes up in time.
void proof_wheel_tick(void) {
  any_wheel();
  __CPROVER_assume(w.head[(u32)w.now & SLOT_MASK] == WHEEL_NONE);
  remember();
  u64 next = next_event(&w);
  PROVE((next == U64_MAX) == (w.armed_count == 0));
  PROVE(next > w.now);
  for (u32 i = 0; i < TIMERS; i++) {
    PROVE(!armed_was[i] || comes_up(timers[i].slot) >= next);
  }
  if (next < TICKS) {
    bool high = next % WHEEL_SLOTS == 0 && w.occupied[WHEEL_LEVELS - 1] != 0;
    w.now = next;
    cascade(&w);
    PROVE(wheel_good());
    PROVE(all_kept());
    if (high && w.head[(u32)w.now & SLOT_MASK] != WHEEL_NONE) {
      PROOF_REACHED();
    }
  }
}

// The third step: time stops anywhere before the next slot; nothing that is due stays behind.
void proof_wheel_stop(void) {
  any_wheel();
  __CPROVER_assume(w.head[(u32)w.now & SLOT_MASK] == WHEEL_NONE);
  remember();
  u64 before = w.now;
  u64 target = nondet_u64();
  __CPROVER_assume(target >= before && target < TICKS && next_event(&w) > target);
  PROVE(wheel_expire(&w, target << WHEEL_TICK_SHIFT) == WHEEL_NONE);
  PROVE(w.now == target);
  PROVE(wheel_good());
  PROVE(all_kept());
  for (u32 i = 0; i < TIMERS; i++) {
    PROVE(!armed_was[i] || timers[i].deadline > target || target == before);  // I3
  }
  PROVE(wheel_next_ns(&w) > target << WHEEL_TICK_SHIFT);
  if (w.armed_count == TIMERS && target > before + 2) {
    PROOF_REACHED();
  }
}
