// SPDX-License-Identifier: Apache-2.0
// Looking at sessions from outside, for administrators: who is there, what they have asked for; and
// saying something to one of them alone.
#include "broker/state.h"

const struct session *broker_session(const struct broker *b, struct bytes client_id) {
  return session_find(b, client_id);
}

// The cursor: bucket in the upper half, place in its chain in the lower.
const struct session *broker_next_session(const struct broker *b, u64 *cursor) {
  u32 bucket = (u32)(*cursor >> 32);
  u32 place = (u32)*cursor;
  for (; bucket <= b->session_table.mask; bucket++, place = 0) {
    u32 i = b->session_table.bucket[bucket];
    for (u32 k = 0; i != NONE && k < place; k++) {
      i = session_at(b, i)->hash_next;
    }
    if (i != NONE) {
      *cursor = (u64)bucket << 32 | (place + 1);
      return session_at(b, i);
    }
  }
  *cursor = (u64)bucket << 32;
  return NULL;
}

struct bytes session_username(const struct session *s, bool *has_username) {
  *has_username = s->has_username;
  return names_username(&s->names);
}

void *session_user(const struct session *s) {
  return s->user;
}

bool session_next_subscription(const struct session *s, u32 *cursor, struct span room,
                               struct broker_subscription *out) {
  const struct broker *b = s->b;
  u32 i = *cursor == 0 ? s->subs : *cursor == U32_MAX ? NONE : *cursor - 1;
  bool shared = false;
  if (i == NONE && *cursor == 0) {
    i = s->shared;
  }
  if (i == NONE) {
    return false;
  }
  const struct sub *sub = sub_at(b, i);
  shared = sub->share != NONE;
  *out = (struct broker_subscription){.qos = sub->qos,
                                      .no_local = (sub->flags & SUB_NO_LOCAL) != 0,
                                      .retain_as_published = (sub->flags & SUB_RAP) != 0,
                                      .identifier = sub->identifier};
  if (shared) {
    out->group = level_text_bytes(&share_at(b, sub->share)->name);
  }
  if (!tree_filter(b, sub->node, room, &out->filter)) {
    out->filter = BYTES_LIT("(too long)");
  }
  u32 next = sub->session_next;
  if (next == NONE && !shared) {
    next = s->shared;
  }
  *cursor = next == NONE ? U32_MAX : next + 1;
  return true;
}

bool broker_send(struct broker *b, struct bytes client_id, struct bytes topic, struct bytes payload,
                 u8 qos) {
  struct session *s = session_find(b, client_id);
  if (s == NULL || s->user == NULL) {
    return false;
  }
  struct message_in in = {
      .topic = topic, .props_clean = true, .payload = payload, .qos = qos, .expires_ns = NEVER_NS};
  struct message *m = message_make(b, &in);
  if (m == NULL) {
    return false;
  }
  bool queued = queue_push(s, m, qos, false, NONE, true);
  message_unref(b, m);
  return queued;
}
