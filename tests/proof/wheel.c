// SPDX-License-Identifier: Apache-2.0
// The timer wheel by induction, for histories of any length: from any state that keeps the
// invariant, each operation keeps it and does what wheel.h says. Tiny sizes (the row's defines), as
// the code is the same for all.
//
// The invariant of a timer that is armed: it stands in exactly the slot list that its place in the
// wheel calls for, that slot comes up at or before its deadline and after `now`, and its level is
// one whose reach covers the distance. Lists are proper: every link has its back link, and from a
// head every armed timer of the slot is reached within TIMERS steps.
#include "loop/wheel.h"
#include "proof.h"

#ifndef TIMERS
#define TIMERS 2u
#endif
#define LISTS (WHEEL_LEVELS * WHEEL_SLOTS)
#define REACH (1ull << (WHEEL_BITS * WHEEL_LEVELS))
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

// One call, up to 2 * WHEEL_SLOTS ticks ahead (a longer sleep is several of these, as time moves
// event by event): what fires was due, and nothing that is due stays behind when it says so.
void proof_wheel_expire(void) {
  any_wheel();
  u64 target = nondet_u64();
  __CPROVER_assume(target < TICKS && target >= w.now && target <= w.now + AHEAD);
  u64 began = w.now;
  u32 count = w.armed_count;
  u32 id = wheel_expire(&w, target << WHEEL_TICK_SHIFT);
  PROVE(wheel_good());
  PROVE(w.now >= began && w.now <= target);
  if (id != WHEEL_NONE) {
    PROVE(id < TIMERS && !wheel_armed(&w, id) && w.armed_count == count - 1);
    PROVE(timers[id].deadline <= w.now);
  } else {
    PROVE(w.now == target && w.armed_count == count);
    for (u32 i = 0; i < TIMERS; i++) {
      PROVE(!wheel_armed(&w, i) || timers[i].deadline > target);
    }
    if (count == TIMERS && target == began + AHEAD) {
      PROOF_REACHED();
    }
  }
}
