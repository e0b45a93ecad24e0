// SPDX-License-Identifier: Apache-2.0
// Sessions: made by CONNECT, kept until their expiry, taken over by the next CONNECT of their name.
#include "base/fmt.h"
#include "broker/state.h"

struct session *session_find(struct broker *b, struct bytes client_id) {
  u64 key = siphash(&b->core->hash_key, client_id);
  struct session *s = b->session_hash[key & b->session_mask];
  while (s != NULL && !bytes_equal(session_client_id(s), client_id)) {
    s = s->hash_next;
  }
  return s;
}

static struct session **slot_of(struct broker *b, struct bytes client_id) {
  return &b->session_hash[siphash(&b->core->hash_key, client_id) & b->session_mask];
}

static struct session *session_new(struct broker *b, struct bytes client_id) {
  struct session *s = pool_take(&b->sessions);
  u8 *name = s == NULL ? NULL : blob_take(b, client_id.len);
  u32 timer = name == NULL ? WHEEL_NONE : wheel_take(&b->core->wheel, TIMER_SESSION, s);
  if (timer == WHEEL_NONE) {
    if (name != NULL) {
      blob_put(b, name, client_id.len);
    }
    if (s != NULL) {
      pool_put(&b->sessions, s);
    }
    return NULL;
  }
  memcpy(name, client_id.ptr, client_id.len);
  s->broker = b;
  s->client_id = name;
  s->client_id_len = (u16)client_id.len;
  s->timer = timer;
  s->serial = ++b->serial;
  s->will_ns = s->expiry_ns = NEVER;
  struct session **slot = slot_of(b, client_id);
  s->hash_next = *slot;
  *slot = s;
  b->stats.clients_total++;
  b->stats.clients_maximum = MAX(b->stats.clients_maximum, b->stats.clients_total);
  return s;
}

static void drop_aliases(struct session *s) {
  if (s->alias == NULL) {
    return;
  }
  for (u32 i = 0; i < ALIAS_MAX; i++) {
    if (s->alias[i].len > 0) {
      blob_put(s->broker, (u8 *)(uptr)s->alias[i].ptr, s->alias[i].len);
    }
  }
  blob_put(s->broker, s->alias, ALIAS_MAX * sizeof *s->alias);
  s->alias = NULL;
}

static void drop_will(struct session *s) {
  if (s->will != NULL) {
    message_unref(s->broker, s->will);
    s->will = NULL;
  }
  s->will_ns = NEVER;
}

static void publish_will(struct session *s) {  // [MQTT-3.1.2-8]
  struct broker *b = s->broker;
  struct message *m = s->will;
  u32 refused = 0;
  s->will = NULL;
  s->will_ns = NEVER;
  if (s->will_retain && m->payload_len == 0) {
    retained_clear(b, message_topic(m));
  } else if (s->will_retain) {
    (void)retained_set(b, m, s->will_qos);
  }
  (void)route(b, m, s->will_qos, s->will_retain, NULL, &refused);
  message_unref(b, m);
}

void session_end(struct session *s, u64 now_ns) {
  struct broker *b = s->broker;
  (void)now_ns;
  ASSERT(s->user == NULL);
  if (s->will != NULL) {  // [MQTT-3.1.3-9]: at the session's end at the latest
    publish_will(s);
  }
  tree_remove_all(b, s);
  replay_drop(b, s);
  session_drop_queues(s);
  drop_aliases(s);
  struct session **at = slot_of(b, session_client_id(s));
  while (*at != s) {
    at = &(*at)->hash_next;
  }
  *at = s->hash_next;
  wheel_put(&b->core->wheel, s->timer);
  blob_put(b, s->client_id, s->client_id_len);
  pool_put(&b->sessions, s);
  b->stats.clients_total--;
}

static void rearm(struct session *s) {
  u64 next = MIN(s->will_ns, s->expiry_ns);
  if (next == NEVER) {
    wheel_cancel(&s->broker->core->wheel, s->timer);
  } else {
    wheel_arm(&s->broker->core->wheel, s->timer, next);
  }
}

void session_timer(struct core *core, u32 timer, void *owner) {
  struct session *s = owner;
  (void)timer;
  ASSERT(s->user == NULL);
  if (s->will_ns <= core->now_ns) {
    publish_will(s);
  }
  if (s->expiry_ns <= core->now_ns) {
    session_end(s, core->now_ns);
    return;
  }
  rearm(s);
}

// The connection is gone; `will_due` unless the client said goodbye.
static void leave(struct session *s, bool will_due, u64 now_ns) {
  struct broker *b = s->broker;
  ASSERT(s->user != NULL);
  s->user = NULL;
  s->awake = false;
  s->pulling = NULL;
  b->stats.clients_connected--;
  drop_aliases(s);
  if (!will_due) {
    drop_will(s);
  }
  if (s->session_expiry_s == 0) {
    session_end(s, now_ns);
    return;
  }
  s->expiry_ns = s->session_expiry_s == U32_MAX ? NEVER : now_ns + s->session_expiry_s * SECOND_NS;
  if (s->will != NULL) {
    if (s->will_delay_s == 0) {
      publish_will(s);
    } else {
      s->will_ns = now_ns + s->will_delay_s * SECOND_NS;
    }
  }
  session_requeue_inflight(s);
  rearm(s);
}

void broker_detach(struct session *s, u64 now_ns) {
  if (s->user != NULL) {
    leave(s, true, now_ns);
  }
}

enum mqtt_reason broker_on_disconnect(struct session *s, const struct mqtt_disconnect *d,
                                      struct bytes packet, u64 now_ns) {
  (void)packet;
  if (mqtt_has(&d->props, MQTT_P_SESSION_EXPIRY)) {
    if (s->session_expiry_s == 0 && d->props.session_expiry_s != 0) {
      return MQTT_PROTOCOL_ERROR;  // 3.14.2.2.2
    }
    s->session_expiry_s = d->props.session_expiry_s;
  }
  leave(s, d->reason == MQTT_DISCONNECT_WITH_WILL, now_ns);  // [MQTT-3.14.4-3]
  return MQTT_SUCCESS;
}

// --- CONNECT

// [MQTT-3.1.3-6]: a name of our making, unpredictable.
static struct bytes make_client_id(struct broker *b, char buf[40]) {
  u64 random[2];
  (void)plat_random(span_of(random, sizeof random));
  (void)b;
  u32 len = fmt_z(buf, 40, "auto-%016llx%08llx", (unsigned long long)random[0],
                  (unsigned long long)(random[1] & U32_MAX));
  return bytes_of(buf, len);
}

static enum mqtt_reason take_will(struct session *s, const struct mqtt_connect *c,
                                  struct bytes packet, u64 now_ns) {
  struct broker *b = s->broker;
  if (!c->has_will) {
    return MQTT_SUCCESS;
  }
  if (c->will_qos > b->limits.qos_max) {
    return MQTT_QOS_NOT_SUPPORTED;  // [MQTT-3.2.2-12]
  }
  if (c->will_retain && !b->limits.retain_available) {
    return MQTT_RETAIN_NOT_SUPPORTED;  // [MQTT-3.2.2-13]
  }
  struct message *m =
      message_new(b, bytes_part(packet, c->will_topic), c->will_props.all.len, c->will_payload.len);
  if (m == NULL) {
    return MQTT_QUOTA_EXCEEDED;
  }
  struct writer w = writer_init(span_of(m->data + m->topic_len, c->will_props.all.len));
  mqtt_copy_props(packet, &c->will_props, 1ull << MQTT_P_WILL_DELAY | 1ull << MQTT_P_MESSAGE_EXPIRY,
                  &w);
  m->props_len = w.pos;
  struct bytes payload = bytes_part(packet, c->will_payload);
  if (payload.len > 0) {
    memcpy(m->data + m->topic_len + m->props_len, payload.ptr, payload.len);
  }
  if (mqtt_has(&c->will_props, MQTT_P_MESSAGE_EXPIRY)) {
    m->expires_ns = now_ns + c->will_props.message_expiry_s * SECOND_NS;
  }
  s->will = m;
  s->will_delay_s = c->will_props.will_delay_s;
  s->will_qos = c->will_qos;
  s->will_retain = c->will_retain;
  return MQTT_SUCCESS;
}

static bool queue_connack(struct session *s, bool present, bool assigned, u16 keep_alive_s,
                          bool changed) {
  const struct broker_limits *l = &s->broker->limits;
  struct mqtt_prop_out p[12];
  u8 buf[256];
  u32 n = 0;
  p[n++] = (struct mqtt_prop_out){.id = MQTT_P_RECEIVE_MAXIMUM, .number = RECEIVE_MAXIMUM};
  p[n++] = (struct mqtt_prop_out){.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = l->packet_size_max};
  if (l->qos_max < 2) {
    p[n++] = (struct mqtt_prop_out){.id = MQTT_P_MAXIMUM_QOS, .number = l->qos_max};
  }
  if (!l->retain_available) {
    p[n++] = (struct mqtt_prop_out){.id = MQTT_P_RETAIN_AVAILABLE, .number = 0};
  }
  if (assigned) {  // [MQTT-3.2.2-16]
    p[n++] = (struct mqtt_prop_out){.id = MQTT_P_ASSIGNED_CLIENT_ID, .text = session_client_id(s)};
  }
  if (changed) {  // [MQTT-3.2.2-21]
    p[n++] = (struct mqtt_prop_out){.id = MQTT_P_SERVER_KEEP_ALIVE, .number = keep_alive_s};
  }
  p[n++] = (struct mqtt_prop_out){.id = MQTT_P_TOPIC_ALIAS_MAXIMUM,
                                  .number = MIN(l->topic_alias_max, ALIAS_MAX)};
  p[n] = (struct mqtt_prop_out){0};
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_connack(&w, (enum mqtt_version)s->version, present, MQTT_SUCCESS, p);
  ASSERT(w.err == ERR_OK);
  return session_raw(s, writer_bytes(&w));
}

// What the new connection brings to the session.
static void set_options(struct session *s, const struct mqtt_connect *c) {
  const struct broker_limits *l = &s->broker->limits;
  bool v5 = c->version == MQTT_V5;
  u32 expiry = v5 ? c->props.session_expiry_s : c->clean_start ? 0 : l->v4_expiry_s;
  s->version = (u8)c->version;
  s->session_expiry_s = expiry;
  u32 theirs = v5 ? c->props.receive_maximum : U16_MAX;
  s->receive_maximum = (u16)MIN(theirs, MIN(l->session_inflight_max, U16_MAX));
  s->max_packet =
      mqtt_has(&c->props, MQTT_P_MAXIMUM_PACKET_SIZE) ? c->props.maximum_packet_size : U32_MAX;
  s->request_problem = c->props.request_problem != 0;
}

// The session of this name that goes on, ended or detached from its old connection (I1 of
// broker.h).
static struct session *take_over(struct broker *b, struct bytes id, bool clean, u64 now_ns) {
  struct session *s = session_find(b, id);
  if (s != NULL && s->user != NULL) {  // [MQTT-3.1.4-3]
    void *old = s->user;
    u64 serial = s->serial;
    leave(s, true, now_ns);
    b->ops.kick(old, MQTT_SESSION_TAKEN_OVER);
    s = session_find(b, id);
    ASSERT(s == NULL || s->serial == serial);
  }
  if (s != NULL && clean) {  // [MQTT-3.1.2-4]
    session_end(s, now_ns);
    s = NULL;
  }
  return s;
}

static void resume(struct session *s) {
  drop_will(s);  // [MQTT-3.1.3-9]: a new connection before the delay is over
  s->expiry_ns = NEVER;
  wheel_cancel(&s->broker->core->wheel, s->timer);
}

// PUBRELs that were not answered go out again after the CONNACK.
static void resend_releases(struct session *s) {
  for (struct delivery *d = s->inflight.first; d != NULL; d = d->next) {
    (void)session_control(s, MQTT_PUBREL, d->pid, MQTT_SUCCESS);
  }
}

enum mqtt_reason broker_on_connect(struct broker *b, void *user, const struct mqtt_connect *c,
                                   struct bytes packet, const struct broker_identity *id,
                                   u64 now_ns, struct session **out, u16 *keep_alive_s) {
  char made[40];
  struct bytes name = bytes_part(packet, c->client_id);
  bool assigned = name.len == 0;
  (void)id;
  if (assigned && c->version == MQTT_V4 && !c->clean_start) {
    return MQTT_CLIENT_ID_NOT_VALID;  // 3.1.1 [MQTT-3.1.3-8]
  }
  if (mqtt_has(&c->props, MQTT_P_AUTH_METHOD)) {
    return MQTT_BAD_AUTH_METHOD;  // [MQTT-4.12.0-1]: enhanced authentication is not offered
  }
  name = assigned ? make_client_id(b, made) : name;
  struct session *s = take_over(b, name, c->clean_start, now_ns);
  bool present = s != NULL;
  if (present) {
    resume(s);
  } else {
    s = session_new(b, name);
    if (s == NULL) {
      return MQTT_QUOTA_EXCEEDED;
    }
  }
  set_options(s, c);
  u16 most = b->limits.keep_alive_max;
  bool changed = most != 0 && (c->keep_alive_s == 0 || c->keep_alive_s > most);
  *keep_alive_s = changed ? most : c->keep_alive_s;
  s->user = user;
  b->stats.clients_connected++;
  enum mqtt_reason reason = take_will(s, c, packet, now_ns);
  if (reason == MQTT_SUCCESS && !queue_connack(s, present, assigned, *keep_alive_s, changed)) {
    reason = MQTT_SERVER_BUSY;
  }
  if (reason != MQTT_SUCCESS) {
    leave(s, false, now_ns);
    return reason;
  }
  resend_releases(s);
  if (broker_has_output(s)) {
    session_wake(s);
  }
  *out = s;
  return MQTT_SUCCESS;
}

struct bytes session_client_id(const struct session *s) {
  return bytes_of(s->client_id, s->client_id_len);
}

enum mqtt_version session_version(const struct session *s) {
  return (enum mqtt_version)s->version;
}

void broker_on_ping(struct session *s) {
  (void)session_control(s, MQTT_PINGRESP, 0, MQTT_SUCCESS);
}
