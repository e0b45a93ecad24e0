// SPDX-License-Identifier: Apache-2.0
// Sessions: found by client id in a hash table, attached to a connection or offline with one timer
// for whichever comes first of will delay and session expiry.
//
// I1  user != NULL exactly while connected; an offline session has no control packets, no stream,
//     no aliases, no parked-out replays.
// I2  A will is published once or discarded: at DISCONNECT 0, or by a connection in time
//     [MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT-3.1.3-9].
// I3  QoS 2 state belongs to the session: neither takeover nor a timer forgets half of it.
#include "broker/cross.h"

#define EXPIRY_NEVER U32_MAX

struct session *session_find(const struct broker *b, struct bytes id) {
  u32 hash = (u32)siphash(&b->core->hash_key, id);
  u32 i = b->session_table.bucket[table_slot(&b->session_table, 0, hash)];
  while (i != NONE) {
    struct session *s = session_at(b, i);
    if (bytes_equal(session_client_id(s), id)) {
      return s;
    }
    i = s->hash_next;
  }
  return NULL;
}

bool names_set(struct broker *b, struct names *out, struct bytes id, struct bytes username) {
  ASSERT(id.len <= U16_MAX);
  ASSERT(username.len <= U16_MAX);
  *out = (struct names){.id_len = (u16)id.len, .username_len = (u16)username.len};
  u8 *to = out->text;
  if (id.len + username.len > NAMES_INLINE) {
    to = out->block = blocks_take(&b->blocks, id.len + username.len);
  }
  if (to == NULL) {
    return false;
  }
  memcpy(to, id.ptr, id.len);
  if (username.len > 0) {
    memcpy(to + id.len, username.ptr, username.len);
  }
  return true;
}

void names_put(struct broker *b, struct names *n) {
  if ((u32)n->id_len + n->username_len > NAMES_INLINE) {
    blocks_put(&b->blocks, n->block);
  }
  *n = (struct names){.id_len = 0};
}

void session_disarm(struct session *s) {
  if (s->timer != WHEEL_NONE) {
    wheel_put(&s->b->core->wheel, s->timer);
    s->timer = WHEEL_NONE;
  }
}

// `names` becomes the session's when there is one.
struct session *session_new(struct broker *b, const struct names *names) {
  struct session *s = pool_take(&b->sessions);
  if (s == NULL) {
    return NULL;
  }
  s->timer = WHEEL_NONE;
  s->names = *names;
  struct bytes id = names_id(names);
  s->b = b;
  s->index = pool_index(&b->sessions, s);
  s->inbound = s->stream = s->subs = s->shared = s->replay = s->route_next = s->route_subs = NONE;
  s->expire_at_ns = s->will_at_ns = NEVER_NS;
  s->requeued_tail = s->held_head = s->held_tail = NONE;
  list_reset(&s->queue);
  list_reset(&s->inflight);
  list_reset(&s->control);
  u32 hash = (u32)siphash(&b->core->hash_key, id);
  u32 *bucket = &b->session_table.bucket[table_slot(&b->session_table, 0, hash)];
  s->hash_next = *bucket;
  *bucket = s->index;
  b->stats.clients_total++;
  b->stats.clients_maximum = MAX(b->stats.clients_maximum, b->stats.clients_total);
  return s;
}

static void drop_sub(struct session *s) {
  struct sub *sub = sub_at(s->b, s->subs);
  retained_cancel(s->b, sub);
  tree_remove(s->b, sub);
}

void session_drop_subs(struct session *s) {
  while (s->subs != NONE) {
    drop_sub(s);
  }
  while (s->shared != NONE) {
    tree_remove(s->b, sub_at(s->b, s->shared));
  }
}

static void drop_aliases(struct session *s) {
  alias_close(s);
  if (s->aliases == NULL) {
    return;
  }
  for (u32 i = 0; i < s->b->limits.topic_alias_max; i++) {
    if (s->aliases[i] != NULL) {
      blocks_put(&s->b->blocks, s->aliases[i]);
    }
  }
  blocks_put(&s->b->blocks, s->aliases);
  s->aliases = NULL;
}

void session_drop_will(struct session *s) {
  if (s->will != NULL) {
    message_unref(s->b, s->will);
    s->will = NULL;
  }
  s->will_at_ns = NEVER_NS;
}

static void publish_will(struct session *s, u64 now_ns) {
  if (s->will == NULL) {
    return;
  }
  struct message *m = s->will;
  s->will = NULL;
  s->will_at_ns = NEVER_NS;
  if (!access_allows(s, ACCESS_WRITE, message_topic(m))) {
    message_unref(s->b, m);
    return;
  }
  // The expiry interval of a will starts when it is published (3.1.3.2.4).
  if (m->expires_ns != NEVER_NS) {
    m->expires_ns += now_ns;
  }
  s->b->durable.will_of = s->number;
  route_message(s->b, m, s, now_ns);
  s->b->durable.will_of = 0;
  message_unref(s->b, m);
}

// [MQTT-3.1.2-23] 3.1.1 [MQTT-3.1.2-7]
void session_free(struct session *s) {
  struct broker *b = s->b;
  ASSERT(s->user == NULL);
  ASSERT(s->will == NULL);
  ASSERT(s->move == 0);
  share_return(s, true);  // [MQTT-4.8.2-5]
  durable_session_end(s);
  session_drop_subs(s);
  ASSERT(s->replay == NONE);
  queue_clear(s);
  while (s->inbound != NONE) {
    (void)inbound_remove(s, control_at(b, s->inbound)->packet_id);
  }
  u32 hash = (u32)siphash(&b->core->hash_key, session_client_id(s));
  u32 *link = &b->session_table.bucket[table_slot(&b->session_table, 0, hash)];
  while (*link != s->index) {
    ASSERT(*link != NONE);
    link = &session_at(b, *link)->hash_next;
  }
  *link = s->hash_next;
  session_disarm(s);
  if (b->cross != NULL) {
    directory_gone(s);
  }
  names_put(b, &s->names);
  pool_put(&b->sessions, s);
  b->stats.clients_total--;
}

// The session ends: its will is due now, whatever its delay [MQTT-3.1.2-8].
void session_end(struct session *s, u64 now_ns) {
  publish_will(s, now_ns);
  session_free(s);
}

// The wheel has a timer for every session (limits.c); a connected one does not hold it.
void session_arm(struct session *s) {
  struct wheel *w = &s->b->core->wheel;
  u64 at = MIN(s->expire_at_ns, s->will_at_ns);
  if (at == NEVER_NS) {
    session_disarm(s);
    return;
  }
  s->timer = s->timer == WHEEL_NONE ? wheel_take(w, TIMER_SESSION, s) : s->timer;
  ASSERT(s->timer != WHEEL_NONE);
  wheel_arm(w, s->timer, at);
}

// Sessions that end by the clock: many had their connections cut in the same moment, so they are
// due in the same moment, too. A turn takes so many, by what they hold; the others come 1 ms later.
#define EXPIRY_WORK 512u
static bool expires_later(struct session *s, struct core *core) {
  struct broker *b = s->b;
  if (b->expiry_turn != core->turns) {
    b->expiry_turn = core->turns;
    b->expiry_work = 0;
  }
  if (b->expiry_work >= EXPIRY_WORK) {
    wheel_arm(&core->wheel, s->timer, core->now_ns + NS / 1000);
    return true;
  }
  b->expiry_work += 4 + s->sub_count + s->queue.count;
  return false;
}

// [MQTT-4.1.0-2]
void session_timer(struct core *core, u32 timer, void *owner) {
  struct session *s = owner;
  ASSERT(s->timer == timer);
  ASSERT(s->user == NULL);
  if (expires_later(s, core)) {
    return;
  }
  if (s->expire_at_ns <= core->now_ns) {
    s->b->stats.clients_expired++;
    session_end(s, core->now_ns);
    return;
  }
  if (s->will_at_ns <= core->now_ns) {
    publish_will(s, core->now_ns);
    durable_offline(s);
  }
  session_arm(s);
}

// Takes the connection off the session. The session stays, whatever its expiry.
static void unplug(struct session *s) {
  struct broker *b = s->b;
  ASSERT(s->user != NULL);
  s->user = NULL;
  s->ready = s->opening = false;
  queue_requeue(s);
  share_offline(s);
  control_clear(s);
  drop_aliases(s);
  retained_park(s);
  session_forget(s);
  ASSERT(b->stats.clients_connected > 0);
  b->stats.clients_connected--;
}

// QoS 0 messages are not kept for who is away (4.1).
static void drop_qos0(struct session *s) {
  u32 prev = NONE;
  for (u32 i = s->queue.head; i != NONE;) {
    const struct entry *e = entry_at(s->b, i);
    u32 next = e->next;
    if (e->qos == 0) {
      durable_done(s, e);
      entry_free(s->b, queue_pop_behind(s, prev));
    } else {
      prev = i;
    }
    i = next;
  }
}

void session_left(struct session *s, u64 now_ns) {
  ASSERT(s->user == NULL);
  ASSERT(s->expiry_s > 0);
  if (!s->b->limits.queue_qos0) {
    drop_qos0(s);
  }
  s->expire_at_ns = s->expiry_s == EXPIRY_NEVER ? NEVER_NS : now_ns + s->expiry_s * NS;
  durable_offline(s);
  session_arm(s);
}

void broker_detach(struct session *s, u64 now_ns) {
  ASSERT(s->user != NULL);
  unplug(s);
  if (s->expiry_s == 0) {
    session_end(s, now_ns);  // [MQTT-3.1.2-23]
    return;
  }
  s->will_at_ns = NEVER_NS;
  if (s->will != NULL && s->will_delay_s == 0) {
    publish_will(s, now_ns);
  } else if (s->will != NULL) {
    s->will_at_ns = now_ns + s->will_delay_s * NS;
  }
  session_left(s, now_ns);
}

void session_kick(struct session *s, enum mqtt_reason reason, u64 now_ns) {
  struct broker *b = s->b;
  void *old = s->user;
  broker_detach(s, now_ns);
  if (b->ops.kick != NULL) {
    b->ops.kick(old, reason);
  }
}

bool broker_kick(struct broker *b, struct bytes client_id, enum mqtt_reason reason, u64 now_ns) {
  struct session *s = session_find(b, client_id);
  if (s == NULL || s->user == NULL) {
    return false;
  }
  session_kick(s, reason, now_ns);
  return true;
}

// Another connection takes the id over [MQTT-3.1.4-3]; the old one is told when the session is
// free.
void session_take_over(struct session *s, u64 now_ns) {
  void *old = s->user;
  unplug(s);
  if (s->will != NULL && s->will_delay_s == 0) {
    publish_will(s, now_ns);
  }
  if (s->b->ops.kick != NULL) {
    s->b->ops.kick(old, MQTT_SESSION_TAKEN_OVER);
  }
}

bool broker_shed(struct session *s) {
  ASSERT(s->user != NULL);
  if (s->expiry_s > 0) {
    return false;
  }
  for (u32 i = 0; i < BROKER_SHED && s->subs != NONE; i++) {
    drop_sub(s);
  }
  return s->subs != NONE;
}

enum mqtt_reason broker_goodbye(struct session *s, const struct mqtt_disconnect *d,
                                struct bytes packet) {
  s->b->stats.messages_received++;
  s->b->stats.bytes_received += packet.len;
  if (mqtt_has(&d->props, MQTT_P_SESSION_EXPIRY)) {
    if (s->connect_expiry_s == 0 && d->props.session_expiry_s != 0) {
      return MQTT_PROTOCOL_ERROR;  // 3.14.2.2.2
    }
    s->expiry_s = d->props.session_expiry_s;
  }
  s->normal_end = d->reason == MQTT_SUCCESS;
  if (s->normal_end) {
    session_drop_will(s);  // [MQTT-3.1.2-10] [MQTT-3.14.4-3]
  }
  return MQTT_SUCCESS;
}

enum mqtt_reason broker_on_disconnect(struct session *s, const struct mqtt_disconnect *d,
                                      struct bytes packet, u64 now_ns) {
  enum mqtt_reason bad = broker_goodbye(s, d, packet);
  if (bad == MQTT_SUCCESS) {
    broker_detach(s, now_ns);
  }
  return bad;
}

void broker_session_info(const struct session *s, struct broker_session_info *out) {
  *out = (struct broker_session_info){.connected = s->user != NULL,
                                      .version = s->version,
                                      .subscriptions = s->sub_count,
                                      .queued = s->queue.count,
                                      .inflight = s->inflight.count,
                                      .inbound_qos2 = s->inbound_count,
                                      .queued_bytes = s->queue.bytes,
                                      .inflight_bytes = s->inflight.bytes,
                                      .expiry_s = s->expiry_s};
  memcpy(out->dropped, s->dropped, sizeof out->dropped);
}

struct bytes session_client_id(const struct session *s) {
  return names_id(&s->names);
}
