// SPDX-License-Identifier: Apache-2.0
// From one PUBLISH to the queues of its receivers, in two passes: the match links every receiving
// session once (however many of its subscriptions match), then each gets one queue entry that
// refers to the one message object, which is made only when somebody needs it.
//
// I1  Overlapping subscriptions of a session give one delivery with the highest QoS among them and
//     all their identifiers [MQTT-3.3.4-2] [MQTT-3.3.4-3] [MQTT-3.3.4-4]; shared subscriptions are
//     deliveries of their own (4.8.2).
// I2  Between two routings route_head and route_shared are empty.
#include "broker/cross.h"

// [MQTT-3.3.4-5] [MQTT-3.3.2-3]
void route_add(struct broker *b, struct sub *sub, const struct session *publisher) {
  struct session *s = sub->session;
  if (s == publisher && (sub->flags & SUB_NO_LOCAL) != 0) {  // [MQTT-3.8.3-3]
    return;
  }
  if (s->route_gen != b->route_gen) {
    s->route_gen = b->route_gen;
    s->route_qos = 0;
    s->route_retain = false;
    s->route_subs = NONE;
    s->route_next = NONE;
    if (b->route_tail == NONE) {
      b->route_head = s->index;
    } else {
      session_at(b, b->route_tail)->route_next = s->index;
    }
    b->route_tail = s->index;
  }
  s->route_qos = MAX(s->route_qos, sub->qos);
  s->route_retain |= (sub->flags & SUB_RAP) != 0;
  if (sub->identifier != 0) {
    sub->route_next = s->route_subs;
    s->route_subs = pool_index(&b->subs, sub);
  }
}

static void route_match(struct broker *b, struct bytes topic, const struct session *publisher) {
  ASSERT(b->route_head == NONE);
  ASSERT(b->route_shared == NONE);
  b->route_gen++;
  tree_match(b, topic, publisher);
}

static void route_forget(struct broker *b) {
  b->route_head = b->route_tail = b->route_shared = NONE;
}

static void deliver_all(struct broker *b, struct message *m, struct route_result *r) {
  if (b->access_on) {
    access_begin(b, m);
  }
  u32 i = b->route_head;
  b->route_head = b->route_tail = NONE;
  while (i != NONE) {
    struct session *s = session_at(b, i);
    i = s->route_next;
    if (s->move != 0 && takeover_skips(s)) {
      continue;
    }
    if (b->access_on && !access_may_read(s, m)) {
      continue;
    }
    // Retain as published: the flag of the PUBLISH; otherwise 0 [MQTT-3.3.1-12] [MQTT-3.3.1-13].
    bool kept = queue_push(s, m, delivery_qos(b, s->route_qos, m->qos),
                           s->route_retain && m->retain, s->route_subs, false);
    r->matched++;
    r->dropped += kept ? 0 : 1;
  }
  i = b->route_shared;
  b->route_shared = NONE;
  while (i != NONE) {
    struct share *g = share_at(b, i);
    i = g->route_next;
    r->matched++;
    r->dropped += share_push(b, g, m) ? 0 : 1;
  }
}

static void deliver_and_keep(struct broker *b, struct message *m, bool kept,
                             struct route_result *r) {
  if (!broker_keeps(b)) {
    deliver_all(b, m, r);
    return;
  }
  durable_route_begin(b, m, kept);
  deliver_all(b, m, r);
  durable_route_end(b);
}

// [MQTT-3.3.1-8] 3.1.1 [MQTT-3.3.1-7]
struct route_result route(struct broker *b, const struct message_in *in,
                          const struct session *publisher, u64 now_ns) {
  struct route_result r = {0};
  bool retain = in->retain && b->limits.retain_available;
  route_match(b, in->topic, publisher);
  u64 stamp = 0;
  u64 cores = b->cross == NULL ? 0 : cross_match(b, retain, &stamp);
  if (cores != 0 && publisher != NULL && !cross_room(b, cores)) {
    route_forget(b);
    r.no_memory = true;
    return r;
  }
  enum durable_verdict may =
      broker_keeps(b) ? durable_may_route(b, in, retain, publisher) : DURABLE_YES;
  if (may != DURABLE_YES && (may == DURABLE_BUSY || in->qos > 0)) {
    route_forget(b);
    r.no_memory = may == DURABLE_BUSY;
    r.not_retained = may == DURABLE_REFUSED;
    return r;
  }
  retain = retain && may == DURABLE_YES;
  if (retain && in->payload.len == 0) {
    retained_delete(b, in->topic, stamp);  // [MQTT-3.3.1-6] [MQTT-3.3.1-7]
    retain = false;
  }
  bool wanted = b->route_head != NONE || b->route_shared != NONE || cores != 0;
  if (!wanted && !retain) {
    return r;
  }
  if (in->expires_ns <= now_ns) {
    route_forget(b);
    return r;
  }
  struct message *m = message_make(b, in);
  if (m == NULL) {
    route_forget(b);
    r.no_memory = true;
    return r;
  }
  if (retain && !retained_set(b, m, stamp)) {
    r.not_retained = true;
    b->stats.dropped[BROKER_DROPPED_RETAINED]++;
  }
  if (r.not_retained && m->qos > 0) {
    route_forget(b);  // what is not acknowledged as asked for is not half done either
  } else {
    deliver_and_keep(b, m, retain && !r.not_retained, &r);
    if (cores != 0) {
      cross_send_later(b, m, cores, stamp);
    }
  }
  message_unref(b, m);
  return r;
}

// A message object's retained side.
// True: it is the retained one now.
static bool retain_message(struct broker *b, struct message *m, u64 stamp) {
  if (message_payload_len(m) == 0) {
    retained_delete(b, message_topic(m), stamp);
    return false;
  }
  bool kept = retained_set(b, m, stamp);
  b->stats.dropped[BROKER_DROPPED_RETAINED] += kept ? 0 : 1;
  return kept;
}

void route_message(struct broker *b, struct message *m, const struct session *publisher,
                   u64 now_ns) {
  if (message_expired(m, now_ns)) {
    return;
  }
  route_match(b, message_topic(m), publisher);
  u64 stamp = 0;
  bool retain = m->retain && b->limits.retain_available;
  u64 cores = b->cross == NULL ? 0 : cross_match(b, retain, &stamp);
  bool kept = retain && retain_message(b, m, stamp);
  struct route_result r = {0};
  deliver_and_keep(b, m, kept, &r);
  if (cores != 0) {
    cross_send_later(b, m, cores, stamp);
  }
}

struct route_result route_remote(struct broker *b, const struct message *remote, u64 stamp,
                                 u64 now_ns) {
  struct route_result r = {0};
  route_match(b, message_topic(remote), NULL);
  bool wanted = b->route_head != NONE || b->route_shared != NONE || stamp != 0;
  if (!wanted || message_expired(remote, now_ns)) {
    route_forget(b);
    return r;
  }
  struct message *m = message_adopt(b, remote);
  if (m == NULL) {
    r.matched = r.dropped = b->route_head != NONE || b->route_shared != NONE ? 1 : 0;
    route_forget(b);
    b->stats.dropped[stamp != 0 ? BROKER_DROPPED_RETAINED : BROKER_DROPPED_GLOBAL]++;
    b->stats.publish_dropped++;
    return r;
  }
  bool kept = stamp != 0 && retain_message(b, m, stamp);
  deliver_and_keep(b, m, kept, &r);
  message_unref(b, m);
  return r;
}
