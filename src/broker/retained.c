// SPDX-License-Identifier: Apache-2.0
// Retained messages: a hash table by topic. A new subscription gets them in slices: an exact filter
// by one look-up, one with wildcards by walking the table's pool a bounded number of places a turn,
// pausing while the client is slow. A replay reads a value when it is sent and never counts against
// the session's queue.
#include "broker/state.h"

#define SLICE 512u        // places looked at in one slice
#define PENDING_MAX 256u  // deliveries a replay leaves waiting in a session

static struct retained **slot_of(struct broker *b, struct bytes topic, u64 *key) {
  *key = siphash(&b->core->hash_key, topic);
  struct retained **at = &b->retained_hash[*key & b->retained_mask];
  while (*at != NULL && ((*at)->key != *key || !bytes_equal(message_topic((*at)->m), topic))) {
    at = &(*at)->hash_next;
  }
  return at;
}

static void remove_at(struct broker *b, struct retained **at) {
  struct retained *r = *at;
  *at = r->hash_next;
  message_unref(b, r->m);
  r->m = NULL;
  pool_put(&b->retained, r);
  b->stats.retained--;
}

bool retained_set(struct broker *b, struct message *m, u8 qos) {
  u64 key = 0;
  struct retained **at = slot_of(b, message_topic(m), &key);
  struct retained *r = *at;
  if (r == NULL) {
    r = pool_take(&b->retained);
    if (r == NULL) {
      return false;
    }
    r->key = key;
    r->hash_next = b->retained_hash[key & b->retained_mask];
    b->retained_hash[key & b->retained_mask] = r;
    b->stats.retained++;
  } else {
    message_unref(b, r->m);
  }
  message_ref(m);
  r->m = m;
  r->qos = qos;
  return true;
}

void retained_clear(struct broker *b, struct bytes topic) {  // [MQTT-3.3.1-6]
  u64 key = 0;
  struct retained **at = slot_of(b, topic, &key);
  if (*at != NULL) {
    remove_at(b, at);
  }
}

static void send_one(struct session *s, const struct retained *r, u8 qos, u32 id) {
  (void)session_deliver(s, r->m, MIN(r->qos, qos), true, &id, id != 0 ? 1 : 0);
}

void retained_replay(struct broker *b, struct session *s, struct bytes filter, u8 qos, u32 id) {
  u64 key = 0;
  if (b->stats.retained == 0) {
    return;
  }
  if (!topic_has_wildcard(filter)) {
    struct retained *r = *slot_of(b, filter, &key);
    if (r != NULL && r->m->expires_ns > b->core->now_ns) {
      send_one(s, r, qos, id);
    }
    return;
  }
  struct replay *job = pool_take(&b->replays);
  u8 *copy = job == NULL ? NULL : blob_take(b, filter.len);
  if (copy ==
      NULL) {  // no room for a job: the subscription stands, its retained messages do not come
    b->stats.publish_dropped++;
    if (job != NULL) {
      pool_put(&b->replays, job);
    }
    return;
  }
  memcpy(copy, filter.ptr, filter.len);
  *job = (struct replay){.session = s,
                         .serial = s->serial,
                         .id = id,
                         .filter = copy,
                         .filter_len = (u32)filter.len,
                         .qos = qos};
  if (b->replay_last != NULL) {
    b->replay_last->next = job;
  } else {
    b->replay_first = job;
  }
  b->replay_last = job;
}

static void finish_first(struct broker *b) {
  struct replay *job = b->replay_first;
  b->replay_first = job->next;
  b->replay_last = b->replay_first == NULL ? NULL : b->replay_last;
  blob_put(b, job->filter, job->filter_len);
  pool_put(&b->replays, job);
}

void replay_drop(struct broker *b, const struct session *s) {
  struct replay **at = &b->replay_first;
  b->replay_last = NULL;
  while (*at != NULL) {
    struct replay *job = *at;
    if (job->session == s) {
      *at = job->next;
      blob_put(b, job->filter, job->filter_len);
      pool_put(&b->replays, job);
    } else {
      b->replay_last = job;
      at = &job->next;
    }
  }
}

// One slice of one job. True: the job has come to its end.
static bool run_slice(struct broker *b, struct replay *job) {
  struct bytes filter = bytes_of(job->filter, job->filter_len);
  for (u32 i = 0; i < SLICE; i++, job->at++) {
    if (job->at >= b->retained.count) {
      return true;
    }
    if (job->session->queued_count >= PENDING_MAX) {
      return false;
    }
    if (b->retained.state[job->at] == 0) {
      continue;
    }
    const struct retained *r = pool_at(&b->retained, job->at);
    if (r->m->expires_ns > b->core->now_ns && topic_matches(filter, message_topic(r->m))) {
      send_one(job->session, r, job->qos, job->id);
    }
  }
  return false;
}

bool broker_stage(struct core *core, void *ctx) {
  struct broker *b = ctx;
  (void)core;
  struct replay *job = b->replay_first;
  if (job == NULL) {
    return false;
  }
  bool waits = job->session->user == NULL || job->session->queued_count >= PENDING_MAX;
  if (!waits && run_slice(b, job)) {
    finish_first(b);
    return true;
  }
  if (job->next != NULL) {  // round robin, so that one slow client delays nobody
    b->replay_first = job->next;
    job->next = NULL;
    b->replay_last->next = job;
    b->replay_last = job;
  }
  return !waits;
}
