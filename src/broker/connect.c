// SPDX-License-Identifier: Apache-2.0
// CONNECT: what it asks for, and the CONNACK. Everything that can fail for want of memory is taken
// before anything is changed that cannot be undone.
#include "base/fmt.h"
#include "base/utf8.h"
#include "broker/cross.h"

static enum mqtt_reason check_connect(const struct broker *b, const struct mqtt_connect *c,
                                      struct bytes packet, const struct broker_identity *id) {
  if (mqtt_has(&c->props, MQTT_P_AUTH_METHOD) && id->auth_method.len == 0) {
    return MQTT_BAD_AUTH_METHOD;
  }
  bool may_be_empty = c->version == MQTT_V5 || (c->version == MQTT_V4 && c->clean_start);
  if (c->client_id.len == 0 && !(may_be_empty && b->limits.allow_empty_client_id)) {
    return MQTT_CLIENT_ID_NOT_VALID;  // [MQTT-3.1.3-8]; 3.1.1 [MQTT-3.1.3-8]; 3.1 has no such id
  }
  if (c->has_will && c->will_qos > id->qos_max) {
    return MQTT_QOS_NOT_SUPPORTED;  // [MQTT-3.2.2-12]
  }
  if (c->has_will && c->will_topic.len + id->mount.len > U16_MAX) {
    return MQTT_TOPIC_NAME_INVALID;
  }
  if (c->has_will && c->will_retain && !b->limits.retain_available) {
    return MQTT_RETAIN_NOT_SUPPORTED;  // [MQTT-3.2.2-13]
  }
  if (c->has_will && bytes_starts_with(bytes_part(packet, c->will_topic), BYTES_LIT("$CONTROL/"))) {
    return MQTT_NOT_AUTHORIZED;  // as mosquitto
  }
  if (c->has_will && mqtt_has(&c->will_props, MQTT_P_PAYLOAD_FORMAT) &&
      c->will_props.payload_format == 1 && !utf8_data(bytes_part(packet, c->will_payload))) {
    return MQTT_PAYLOAD_FORMAT_INVALID;
  }
  return MQTT_SUCCESS;
}

// [MQTT-3.1.2-7] [MQTT-3.1.2-14] [MQTT-3.1.2-15] [MQTT-3.1.3-10]
static struct message *make_will(struct broker *b, const struct mqtt_connect *c,
                                 struct bytes packet, const struct access_who *who,
                                 const struct broker_identity *id) {
  struct message_in in = {.topic = mount_in(b, id->mount, bytes_part(packet, c->will_topic)),
                          .props = bytes_part(packet, c->will_props.all),
                          .payload = bytes_part(packet, c->will_payload),
                          .qos = c->will_qos,
                          .retain = c->will_retain,
                          .expires_ns = expiry_deadline(&c->will_props, 0),
                          .origin = who,
                          .origin_set = id->access_set};
  return message_make(b, &in);
}

#define ASSIGNED_MAX 48u
// The prefix and 16 hexadecimal digits that nobody can predict and nobody has [MQTT-3.1.3-6].
static struct bytes assign_id(struct broker *b, struct bytes own_prefix, u8 id[ASSIGNED_MAX]) {
  struct bytes prefix = own_prefix.len > 0 ? own_prefix : b->limits.client_id_prefix;
  prefix.len = MIN(prefix.len, ASSIGNED_MAX - 16);
  struct writer w = {0};
  do {
    u64 n = b->id_counter++;
    u64 hash = siphash(&b->core->hash_key, bytes_of(&n, sizeof n));
    w = writer_init(span_of(id, ASSIGNED_MAX));
    write_bytes(&w, prefix);
    fmt(&w, "%016llx", (unsigned long long)hash);
    ASSERT(w.err == ERR_OK);
  } while (session_find(b, writer_bytes(&w)) != NULL);
  return writer_bytes(&w);
}

// Session expiry that the CONNECT asks for.
static u32 expiry_of(const struct broker_limits *l, const struct mqtt_connect *c) {
  if (mqtt_has(&c->props, MQTT_P_SESSION_EXPIRY)) {
    return c->props.session_expiry_s;
  }
  return c->version == MQTT_V5 || c->clean_start ? 0 : l->v4_expiry_s;
}

// What of CONNECT belongs to the connection.
// [MQTT-4.9.0-1] [MQTT-3.2.2-22]
static void apply_connect(struct session *s, const struct mqtt_connect *c,
                          const struct broker_identity *id) {
  const struct broker_limits *l = &s->b->limits;
  s->version = (u8)c->version;
  s->qos_max = id->qos_max;
  s->credential = id->credential;
  s->mount_index = mount_index(s->b, id->mount);
  s->bridge = c->bridge;
  alias_open(s, mqtt_has(&c->props, MQTT_P_TOPIC_ALIAS_MAXIMUM) ? c->props.topic_alias_maximum : 0);
  s->problem_info = c->props.request_problem != 0;
  s->normal_end = false;
  s->expiry_s = expiry_of(l, c);
  s->relaxed = id->relaxed;
  s->connect_expiry_s = s->expiry_s;
  s->packet_max =
      mqtt_has(&c->props, MQTT_P_MAXIMUM_PACKET_SIZE) ? c->props.maximum_packet_size : U32_MAX;
  u32 window = mqtt_has(&c->props, MQTT_P_RECEIVE_MAXIMUM) ? c->props.receive_maximum : U16_MAX;
  s->send_max = l->session_inflight_max == 0 ? window : MIN(window, l->session_inflight_max);
  s->will_delay_s = mqtt_has(&c->will_props, MQTT_P_WILL_DELAY) ? c->will_props.will_delay_s : 0;
}

// 3.1.1 has no way to tell a client of another value.
static u16 keep_alive_of(const struct broker *b, const struct mqtt_connect *c) {
  u16 most = b->limits.keep_alive_max;
  bool over = most != 0 && (c->keep_alive_s == 0 || c->keep_alive_s > most);
  return over && c->version == MQTT_V5 ? most : c->keep_alive_s;
}

// What the broker wants this client to know.
struct connack {
  u16 keep_alive_s;
  u8 qos_max;
  struct bytes assigned;  // client id; empty: it has its own
  struct bytes auth_method, auth_data;
  u8 *block;  // the packet, made before anything is changed
  u32 len;
};

#define CONNACK_FIXED 64u  // without strings

// Properties of the CONNACK of 5.0; returns how many.
// [MQTT-3.2.2-8]
static u32 connack_props(const struct broker_limits *l, const struct mqtt_connect *c,
                         const struct connack *a, struct mqtt_prop_out list[12]) {
  u32 n = 0;
  list[n++] = (struct mqtt_prop_out){.id = MQTT_P_RECEIVE_MAXIMUM, .number = RECEIVE_MAXIMUM};
  if (a->qos_max < 2) {  // [MQTT-3.2.2-9]
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_MAXIMUM_QOS, .number = a->qos_max};
  }
  if (!l->retain_available) {
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_RETAIN_AVAILABLE, .number = 0};
  }
  list[n++] =
      (struct mqtt_prop_out){.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = l->packet_size_max};
  if (a->assigned.len > 0) {  // [MQTT-3.2.2-16]
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_ASSIGNED_CLIENT_ID, .text = a->assigned};
  }
  if (l->topic_alias_max > 0) {
    list[n++] =
        (struct mqtt_prop_out){.id = MQTT_P_TOPIC_ALIAS_MAXIMUM, .number = l->topic_alias_max};
  }
  if (a->keep_alive_s != c->keep_alive_s) {  // [MQTT-3.2.2-21]
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_SERVER_KEEP_ALIVE, .number = a->keep_alive_s};
  }
  if (mqtt_has(&c->props, MQTT_P_REQUEST_RESPONSE) && c->props.request_response == 1 &&
      l->response_information.len > 0) {  // [MQTT-3.1.2-28]
    list[n++] =
        (struct mqtt_prop_out){.id = MQTT_P_RESPONSE_INFORMATION, .text = l->response_information};
  }
  if (a->auth_method.len > 0) {  // [MQTT-4.12.0-5]
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_AUTH_METHOD, .text = a->auth_method};
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_AUTH_DATA, .text = a->auth_data};
  }
  list[n].id = 0;
  return n;
}

// Makes the packet for a session that is not present; the flag is put in later. False: no memory.
// [MQTT-3.2.2-2] [MQTT-3.2.2-6]
static bool make_connack(struct broker *b, const struct mqtt_connect *c, struct connack *a) {
  struct mqtt_prop_out list[12];
  u32 count = connack_props(&b->limits, c, a, list);
  ASSERT(count < ARRAY_COUNT(list));
  u32 most = CONNACK_FIXED + (u32)(a->assigned.len + b->limits.response_information.len +
                                   a->auth_method.len + a->auth_data.len);
  a->block = blocks_take(&b->blocks, most);
  if (a->block == NULL) {
    return false;
  }
  struct writer w = writer_init(span_of(a->block, most));
  mqtt_encode_connack(&w, c->version, false, MQTT_SUCCESS, list);
  ASSERT(w.err == ERR_OK);
  a->len = w.pos;
  return true;
}

static void connack_set_present(struct connack *a) {
  struct mqtt_header h;
  enum err e = mqtt_fixed_header(bytes_of(a->block, a->len), &h);
  ASSERT(e == ERR_OK);
  a->block[h.header_len] = 1;
}

// The session of this client id, in the state the CONNECT asks for, with `names` as its own; NULL
// when there is no memory.
// [MQTT-3.1.2-6] [MQTT-3.1.3-2] [MQTT-3.1.4-4] [MQTT-4.1.0-1]
static struct session *session_for(struct broker *b, const struct mqtt_connect *c,
                                   const struct names *names, u64 now_ns, bool *present) {
  struct session *s = session_find(b, names_id(names));
  *present = false;
  if (s != NULL && s->user != NULL) {
    session_take_over(s, now_ns);
  }
  if (s != NULL && (c->clean_start || s->expiry_s == 0)) {  // [MQTT-3.1.2-4]
    session_end(s, now_ns);
    s = NULL;
  }
  if (s == NULL && b->limits.clients_max != 0 && b->stats.clients_total >= b->limits.clients_max) {
    return NULL;
  }
  if (s == NULL) {
    return session_new(b, names);
  }
  names_put(b, &s->names);
  s->names = *names;
  *present = true;       // [MQTT-3.1.2-5] [MQTT-3.2.2-3]
  session_drop_will(s);  // [MQTT-3.1.3-9]
  s->expire_at_ns = NEVER_NS;
  session_disarm(s);
  return s;
}

static void give_back(struct broker *b, struct message *will, u8 *connack, struct names *names) {
  if (will != NULL) {
    message_unref(b, will);
  }
  if (connack != NULL) {
    blocks_put(&b->blocks, connack);
  }
  if (names != NULL) {
    names_put(b, names);
  }
}

// [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2]
enum mqtt_reason connect_finish(struct broker *b, void *user, const struct mqtt_connect *c,
                                struct bytes packet, const struct broker_identity *id,
                                bool assigned, u64 now_ns, struct session **out,
                                u16 *keep_alive_s) {
  // Memory first: what follows cannot be undone.
  struct bytes client_id = id->client_id;
  struct connack a = {.qos_max = id->qos_max,
                      .keep_alive_s = keep_alive_of(b, c),
                      .assigned = assigned ? client_id : bytes_of(NULL, 0),
                      .auth_method = id->auth_method,
                      .auth_data = id->auth_data};
  struct access_who who = {id->username, client_id, id->has_username};
  struct message *will = c->has_will ? make_will(b, c, packet, &who, id) : NULL;
  struct control *control = pool_take(&b->controls);
  struct names names;
  bool named = names_set(b, &names, client_id, id->username);
  bool present = false;
  bool room = make_connack(b, c, &a) && control != NULL && named && (will != NULL || !c->has_will);
  bool fits = !mqtt_has(&c->props, MQTT_P_MAXIMUM_PACKET_SIZE) ||
              a.len <= c->props.maximum_packet_size;  // [MQTT-3.1.2-24]
  enum mqtt_reason reason = MQTT_SUCCESS;
  if (room && fits) {
    reason = durable_may_connect(b, &names, will, expiry_of(&b->limits, c) > 0);
  }
  u64 mark = durable_mark(b);
  bool may = room && fits && reason == MQTT_SUCCESS;
  struct session *s = may ? session_for(b, c, &names, now_ns, &present) : NULL;
  if (control != NULL) {
    pool_put(&b->controls, control);  // for control_push below
  }
  if (s == NULL) {
    give_back(b, will, a.block, named ? &names : NULL);
    return reason != MQTT_SUCCESS ? reason : fits ? MQTT_SERVER_BUSY : MQTT_PACKET_TOO_LARGE;
  }
  apply_connect(s, c, id);
  access_identity(s, id);
  *keep_alive_s = a.keep_alive_s;
  if (present && c->version != MQTT_V3) {  // the byte is reserved in 3.1
    connack_set_present(&a);
  }
  s->will = will;
  s->user = user;
  *out = s;
  b->stats.clients_connected++;
  durable_session(s);
  bool pushed = durable_push(s, mark, NONE, MQTT_CONNACK, 0, 0, a.block, a.len);
  ASSERT(pushed);
  s->opening = s->held_head != NONE;
  retained_resume(s);
  share_online(s);
  return MQTT_SUCCESS;
}

// [MQTT-3.1.3-5] [MQTT-3.1.3-7]
enum mqtt_reason broker_on_connect(struct broker *b, void *user, const struct mqtt_connect *c,
                                   struct bytes packet, const struct broker_identity *id,
                                   u64 now_ns, struct session **out, u16 *keep_alive_s) {
  ASSERT(user != NULL);
  ASSERT(id->qos_max <= 2);
  b->stats.messages_received++;
  b->stats.bytes_received += packet.len;
  enum mqtt_reason reason = check_connect(b, c, packet, id);
  if (reason != MQTT_SUCCESS) {
    return reason;
  }
  u8 room[ASSIGNED_MAX];
  struct broker_identity known = *id;
  if (known.client_id.len == 0) {
    known.client_id = bytes_part(packet, c->client_id);
  }
  bool assigned = known.client_id.len == 0;
  if (assigned) {
    known.client_id = assign_id(b, id->id_prefix, room);
  }
  *out = NULL;
  // A bridge's session is of this core alone: nobody else asks for it.
  return b->cross != NULL && id->access_set != BROKER_ACCESS_BRIDGES
             ? claim_begin(b, user, c, packet, &known, known.client_id, assigned)
             : connect_finish(b, user, c, packet, &known, assigned, now_ns, out, keep_alive_s);
}

struct access_who broker_who(const struct session *s, u32 *credential) {
  *credential = s->credential;
  return session_who(s);
}
