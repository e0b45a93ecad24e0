// SPDX-License-Identifier: Apache-2.0
// Ceilings of what is in flight, for one client and for all together, and what follows when a
// client's queue is full and the policy says to disconnect him.
//
// I1  One message is always let through (nothing else in flight): a ceiling in bytes slows, it
//     never stops for good.
// I2  A session whose next message waits for the ceiling of all clients only is in the stall list,
//     and woken by the stage when there is room.
#include "broker/state.h"

#define WAKES_A_TURN 64u
#define DOOMED_A_TURN 16u

static bool global_room(const struct session *s, u32 len) {
  const struct broker_limits *l = &s->b->limits;
  const struct broker_stats *t = &s->b->stats;
  return t->inflight == 0 ||
         ((l->inflight_max == 0 || t->inflight < l->inflight_max) &&
          (l->inflight_bytes_max == 0 || t->inflight_bytes + len <= l->inflight_bytes_max));
}

static bool own_room(const struct session *s, u32 len) {
  u64 most = s->b->limits.session_inflight_bytes_max;
  return s->inflight.count < s->send_max &&  // [MQTT-3.3.4-7] [MQTT-3.3.4-9]
         (most == 0 || s->inflight.count == 0 || s->inflight.bytes + len <= most);
}

bool inflight_room(const struct session *s) {
  u32 len = s->queue.head == NONE ? 0 : entry_len(entry_at(s->b, s->queue.head));
  return own_room(s, len) && global_room(s, len);
}

void inflight_add(struct session *s, const struct entry *e) {
  struct broker_stats *t = &s->b->stats;
  s->inflight.count++;
  s->inflight.bytes += entry_len(e);
  t->inflight++;
  t->inflight_bytes += entry_len(e);
}

void inflight_sub(struct session *s, const struct entry *e) {
  struct broker_stats *t = &s->b->stats;
  ASSERT(s->inflight.count > 0);
  ASSERT(t->inflight > 0);
  s->inflight.count--;
  s->inflight.bytes -= entry_len(e);
  t->inflight--;
  t->inflight_bytes -= entry_len(e);
}

void session_stall(struct session *s) {
  struct broker *b = s->b;
  if (s->stalled || s->queue.head == NONE) {
    return;
  }
  const struct entry *e = entry_at(b, s->queue.head);
  if (e->qos == 2 && durable_waits(s, e)) {
    durable_wait(s);
  }
  if (e->qos == 0 || !own_room(s, entry_len(e)) || global_room(s, entry_len(e))) {
    return;  // it does not wait for the others
  }
  s->stalled = true;
  s->stall_next = NONE;
  if (b->stall_tail == NONE) {
    b->stall_head = s->index;
  } else {
    session_at(b, b->stall_tail)->stall_next = s->index;
  }
  b->stall_tail = s->index;
}

void session_doom(struct session *s, enum mqtt_reason reason) {
  ASSERT(reason != MQTT_SUCCESS);
  if (s->user != NULL && s->doom == 0) {
    s->doom = (u8)reason;
    s->doom_next = s->b->doom_head;
    s->b->doom_head = s->index;
  }
}

void session_forget(struct session *s) {
  struct broker *b = s->b;
  durable_forget(s);
  if (s->stalled) {
    u32 prev = NONE;
    u32 i = b->stall_head;
    for (; i != s->index; i = session_at(b, i)->stall_next) {
      ASSERT(i != NONE);
      prev = i;
    }
    *(prev == NONE ? &b->stall_head : &session_at(b, prev)->stall_next) = s->stall_next;
    b->stall_tail = b->stall_tail == i ? prev : b->stall_tail;
    s->stalled = false;
  }
  if (s->doom != 0) {
    u32 *link = &b->doom_head;
    while (*link != s->index) {
      ASSERT(*link != NONE);
      link = &session_at(b, *link)->doom_next;
    }
    *link = s->doom_next;
    s->doom = 0;
  }
}

bool ceiling_stage(struct broker *b, u64 now_ns) {
  bool did = false;
  for (u32 k = 0; k < DOOMED_A_TURN && b->doom_head != NONE; k++) {
    struct session *s = session_at(b, b->doom_head);
    session_kick(s, (enum mqtt_reason)s->doom, now_ns);
    did = true;
  }
  for (u32 k = 0; k < WAKES_A_TURN && b->stall_head != NONE; k++) {
    struct session *s = session_at(b, b->stall_head);
    ASSERT(s->stalled);
    if (!global_room(s, 0)) {
      break;
    }
    b->stall_head = s->stall_next;
    b->stall_tail = b->stall_head == NONE ? NONE : b->stall_tail;
    s->stalled = false;
    session_wake(s);
    did |= s->ready;
  }
  return did;
}
