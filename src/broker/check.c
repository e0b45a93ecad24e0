// SPDX-License-Identifier: Apache-2.0
// The broker's whole-structure validator, for tests and fuzz targets.
#include "broker/check.h"

#include "broker/cross.h"

// One holder of a message: in the first pass (release) its count goes down, in the second up again.
// In between every count must be 0: each reference has exactly one holder (broker.h I2).
struct holders {
  bool release;
  u32 distinct;
};

static void hold(struct holders *h, struct message *m) {
  if (m == NULL) {
    return;
  }
  if (!h->release) {
    m->refs++;
    return;
  }
  ASSERT(m->refs > 0);
  m->refs--;
  h->distinct += m->refs == 0 ? 1 : 0;
}

static void hold_list(const struct broker *b, struct holders *h, const struct list *l) {
  for (u32 i = l->head; i != NONE; i = entry_at(b, i)->next) {
    hold(h, entry_at(b, i)->message);
  }
}

static void hold_all(const struct broker *b, struct holders *h) {
  if (b->cross != NULL) {
    hold_list(b, h, &b->cross->backlog);
    for (u32 i = 0; i < CLAIMS; i++) {
      if (b->cross->claim[i].block != NULL) {
        hold_list(b, h, &b->cross->claim[i].tail);
      }
    }
  }
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] == 0) {
      continue;
    }
    const struct session *s = session_at(b, i);
    hold_list(b, h, &s->queue);
    hold_list(b, h, &s->inflight);
    hold(h, s->stream == NONE ? NULL : entry_at(b, s->stream)->message);
    hold(h, s->will);
  }
  for (u32 i = 0; i < b->shares.count; i++) {
    if (b->shares.state[i] != 0) {
      hold_list(b, h, &share_at(b, i)->queue);
      hold_list(b, h, &share_at(b, i)->back);
    }
  }
  for (u32 i = 0; i < b->rnodes.count; i++) {
    hold(h, b->rnodes.state[i] == 0 ? NULL : rnode_at(b, i)->message);
  }
}

static void check_references(const struct broker *b) {
  struct holders h = {.release = true};
  hold_all(b, &h);
  ASSERT(h.distinct == b->stats.messages_stored);
  h.release = false;
  hold_all(b, &h);
}

// A list's own shape.
static void check_entries(const struct broker *b, const struct list *l, u32 extra, bool inflight) {
  u32 count = 0;
  u32 last = NONE;
  u64 bytes = 0;
  u32 seq = 0;
  bool first = true;
  for (u32 i = l->head; i != NONE; i = entry_at(b, i)->next) {
    const struct entry *e = entry_at(b, i);
    ASSERT(e->message != NULL || (e->qos == 2 && e->state == ENTRY_RELEASED));
    ASSERT(!inflight || (e->qos > 0 && e->state != ENTRY_QUEUED));
    ASSERT(inflight || e->state != ENTRY_SENT);
    if (e->qos > 0) {
      ASSERT(first || (i32)(e->seq - seq) > 0);
      seq = e->seq;
      first = false;
    }
    last = i;
    count++;
    bytes += entry_len(e);
  }
  ASSERT(last == l->tail);
  ASSERT(count + extra == l->count);
  ASSERT(extra > 0 || bytes == l->bytes);
}

static u32 controls_count(const struct broker *b, u32 head) {
  u32 count = 0;
  for (u32 i = head; i != NONE; i = control_at(b, i)->next) {
    count++;
  }
  return count;
}

static void check_session(const struct broker *b, const struct session *s, u32 *entries,
                          u32 *controls) {
  const struct entry *stream = s->stream == NONE ? NULL : entry_at(b, s->stream);
  u32 extra = stream != NULL && stream->qos > 0 ? 1 : 0;
  check_entries(b, &s->queue, 0, false);
  check_entries(b, &s->inflight, extra, true);
  *entries += s->queue.count + s->inflight.count - extra + (stream != NULL ? 1 : 0);
  u32 held = controls_count(b, s->held_head);
  ASSERT(controls_count(b, s->control.head) + held == s->control.count);
  if (held > 0) {
    u32 ticket = control_at(b, s->held_head)->ticket;
    ASSERT(ticket != NONE && ticket_at(b, ticket)->parts > 0);  // control.c I2
    ASSERT(ticket_at(b, ticket)->session == s->index);
  }
  ASSERT(controls_count(b, s->inbound) == s->inbound_count);
  *controls += s->control.count + s->inbound_count;
  u32 count = 0;
  for (u32 i = s->subs; i != NONE; i = sub_at(b, i)->session_next) {
    ASSERT(sub_at(b, i)->session == s);
    count++;
  }
  for (u32 i = s->shared; i != NONE; i = sub_at(b, i)->session_next) {
    ASSERT(sub_at(b, i)->session == s);
    ASSERT(sub_at(b, i)->share != NONE);
    count++;
  }
  ASSERT(count == s->sub_count);
  if (s->user == NULL) {
    ASSERT(s->inflight.count == 0);
    ASSERT(s->control.count == 0);
    ASSERT(s->stream == NONE);
    ASSERT(s->aliases == NULL);
    ASSERT(!s->ready);
  } else {
    ASSERT(s->inflight.count <= s->send_max);
    ASSERT(!broker_has_output(s) || s->ready || s->stalled);  // nobody waits unwoken
  }
  ASSERT(session_find(b, session_client_id(s)) == s);
}

void broker_check(const struct broker *b) {
  u32 sessions = 0;
  u32 connected = 0;
  u32 entries = 0;
  u32 controls = 0;
  struct broker_stats sum = {0};
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] == 0) {
      continue;
    }
    const struct session *s = session_at(b, i);
    sessions++;
    connected += s->user != NULL ? 1 : 0;
    check_session(b, s, &entries, &controls);
    sum.queued += s->queue.count;
    sum.queued_bytes += s->queue.bytes;
    sum.inflight += s->inflight.count;
    sum.inflight_bytes += s->inflight.bytes;
  }
  ASSERT(sessions == b->stats.clients_total);
  ASSERT(connected == b->stats.clients_connected);
  for (u32 i = 0; i < b->shares.count; i++) {
    const struct share *g = b->shares.state[i] == 0 ? NULL : share_at(b, i);
    entries += g == NULL ? 0 : g->queue.count + g->back.count;
    sum.queued += g == NULL ? 0 : g->queue.count;
    sum.queued_bytes += g == NULL ? 0 : g->queue.bytes;
  }
  ASSERT(sum.queued == b->stats.queued);
  ASSERT(sum.queued_bytes == b->stats.queued_bytes);
  ASSERT(sum.inflight == b->stats.inflight);
  ASSERT(sum.inflight_bytes == b->stats.inflight_bytes);
  entries += b->cross != NULL ? b->cross->backlog.count : 0;
  for (u32 i = 0; b->cross != NULL && i < CLAIMS; i++) {
    entries += b->cross->claim[i].block != NULL ? b->cross->claim[i].tail.count : 0;
  }
  ASSERT(entries == pool_taken(&b->entries));
  ASSERT(controls == pool_taken(&b->controls));
  ASSERT(b->route_head == NONE);
  ASSERT(b->route_shared == NONE);
  if (b->mail_refs == 0) {  // else some are held by mail under way
    check_references(b);
  }
  tree_check(b);
  share_check(b);
  retained_check(b);
  blocks_check(&b->blocks);
}
