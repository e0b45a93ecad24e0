// SPDX-License-Identifier: Apache-2.0
// The broker's whole-structure validator, for tests and fuzz targets.
#include "broker/check.h"

// References to messages from a list of entries, and the list's own shape.
static u64 check_entries(const struct broker *b, const struct list *l, u32 extra, bool inflight) {
  u64 refs = 0;
  u32 count = 0;
  u32 last = NONE;
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
    refs += e->message != NULL ? 1 : 0;
    last = i;
    count++;
  }
  ASSERT(last == l->tail);
  ASSERT(count + extra == l->count);
  return refs;
}

static u64 check_session(const struct broker *b, const struct session *s, u32 *entries,
                         u32 *controls) {
  const struct entry *stream = s->stream == NONE ? NULL : entry_at(b, s->stream);
  u32 extra = stream != NULL && stream->qos > 0 ? 1 : 0;
  u64 refs = check_entries(b, &s->queue, 0, false);
  refs += check_entries(b, &s->inflight, extra, true);
  refs += stream != NULL && stream->message != NULL ? 1 : 0;
  refs += s->will != NULL ? 1 : 0;
  *entries += s->queue.count + s->inflight.count - extra + (stream != NULL ? 1 : 0);
  u32 count = 0;
  for (u32 i = s->control.head; i != NONE; i = control_at(b, i)->next) {
    count++;
  }
  ASSERT(count == s->control.count);
  *controls += count;
  count = 0;
  for (u32 i = s->inbound; i != NONE; i = control_at(b, i)->next) {
    count++;
  }
  ASSERT(count == s->inbound_count);
  *controls += count;
  count = 0;
  for (u32 i = s->subs; i != NONE; i = sub_at(b, i)->session_next) {
    ASSERT(sub_at(b, i)->session == s);
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
    ASSERT(!broker_has_output(s) || s->ready);  // nobody waits unwoken
  }
  ASSERT(session_find(b, session_client_id(s)) == s);
  return refs;
}

void broker_check(const struct broker *b) {
  u64 refs = b->stats.retained;
  u32 sessions = 0;
  u32 connected = 0;
  u32 entries = 0;
  u32 controls = 0;
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] == 0) {
      continue;
    }
    const struct session *s = session_at(b, i);
    sessions++;
    connected += s->user != NULL ? 1 : 0;
    refs += check_session(b, s, &entries, &controls);
  }
  ASSERT(sessions == b->stats.clients_total);
  ASSERT(connected == b->stats.clients_connected);
  ASSERT(entries == pool_taken(&b->entries));
  ASSERT(controls == pool_taken(&b->controls));
  ASSERT(b->route_head == NONE);
  ASSERT(b->route_shared == NONE);
  u64 held = 0;  // what the messages themselves count
  for (u32 i = 0; i < b->rnodes.count; i++) {
    held += b->rnodes.state[i] != 0 && rnode_at(b, i)->message != NULL ? 1 : 0;
  }
  ASSERT(held == b->stats.retained);
  ASSERT(refs >= b->stats.messages_stored);
  ASSERT(refs > 0 || b->stats.messages_stored == 0);
  tree_check(b);
  retained_check(b);
  blocks_check(&b->blocks);
}
