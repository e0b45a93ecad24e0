// SPDX-License-Identifier: Apache-2.0
// Hierarchical timer wheel: O(1) arm and cancel, monotonic ticks. Timers live in one array and link
// by index, so that the proof (tests/proof) can run it with tiny parameters.
//
// I1  An armed timer is in exactly one slot list; a timer that is not armed is in none.
// I2  No timer fires before its deadline tick; each fires in the first advance that reaches it.
// I3  A deadline at or before `now` fires at the next advance. Deadlines beyond the horizon are
//     clamped to it and re-armed when reached (the owner sees only the true deadline).
#pragma once
#include "base/bytes.h"

#ifndef WHEEL_BITS
#define WHEEL_BITS 6u
#endif
#ifndef WHEEL_LEVELS
#define WHEEL_LEVELS 6u
#endif
#define WHEEL_SLOTS (1u << WHEEL_BITS)
#define WHEEL_NONE U32_MAX
#define WHEEL_TICK_SHIFT 20u  // one tick = 2^20 ns = 1.05 ms

struct timer {
  u64 deadline;  // tick
  u32 next;
  u32 prev;
  u32 slot;  // level * WHEEL_SLOTS + slot, or WHEEL_NONE
  u32 kind;  // the owner's tag: which handler
  void *owner;
};

struct wheel {
  struct timer *timers;
  u32 count;
  u32 free_head;
  u32 fresh;  // timers from here on were never taken
  u32 armed_count;
  u64 now;                     // last tick processed
  u64 occupied[WHEEL_LEVELS];  // bit s: slot s of that level holds timers
  u32 head[WHEEL_LEVELS * WHEEL_SLOTS];
};

static inline u64 wheel_tick_ceil(u64 ns) {
  return (ns + ((1ull << WHEEL_TICK_SHIFT) - 1)) >> WHEEL_TICK_SHIFT;
}

void wheel_init(struct wheel *w, struct timer *timers, u32 count, u64 now_ns);
// A timer of `kind` for `owner`, not armed. WHEEL_NONE when all are taken.
u32 wheel_take(struct wheel *w, u32 kind, void *owner);
void wheel_put(struct wheel *w, u32 timer CONSUMES);  // cancels first
// (Re-)arms. Fires not before deadline_ns and at most one tick plus the turn's length after it.
void wheel_arm(struct wheel *w, u32 timer, u64 deadline_ns);
void wheel_cancel(struct wheel *w, u32 timer);
static inline bool wheel_armed(const struct wheel *w, u32 timer) {
  return w->timers[timer].slot != WHEEL_NONE;
}
// The next timer that is due at now_ns, disarmed; WHEEL_NONE when none is left. Call until it says
// so, at most `budget` times a turn: time only moves on past slots that are empty.
u32 wheel_expire(struct wheel *w, u64 now_ns);
// A lower bound of the earliest deadline in ns (U64_MAX when nothing is armed): how long a core may
// sleep.
u64 wheel_next_ns(const struct wheel *w);
