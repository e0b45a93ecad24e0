// SPDX-License-Identifier: Apache-2.0
// The AUTH exchange (MQTT 5.0, 4.12): CONNECT with client-first-message, AUTH with
// server-first-message, AUTH with client-final-message, CONNACK with server-final-message; on an
// open connection the same with AUTH 0x19 at the beginning and AUTH 0x00 at the end.
//
// I5  A verdict asks for the user's entry once more: what has been reloaded meanwhile counts.
#include "server/auth.h"

#include "base/base64.h"
#include "server/conn.h"

// An AUTH of ours: the head, 14 bytes of properties' heads, method and data.
#define AUTH_OUT_MAX (32u + sizeof AUTH_METHOD + SCRAM_FIRST_MAX)
#define NONCE_BYTES (SCRAM_NONCE_OWN / 4 * 3)

bool auth_init(struct server *s, struct carve *carve) {
  u32 count = MAX(login_places(&s->limits) / 4, 16u);
  struct span memory = carve_take(carve, pool_bytes(sizeof(struct auth), count), 64);
  if (memory.ptr == NULL) {
    return false;
  }
  pool_init(&s->auths.pool, "authentications", memory, sizeof(struct auth), count);
  return true;
}

// --- places

static struct auth *take(struct conn *c) {
  struct auths *all = &c->server->auths;
  u32 flow = login_flow_of(c);
  struct auth *a = all->flow[flow] >= all->pool.count / 4 ? NULL : pool_take(&all->pool);
  if (a == NULL) {
    c->server->stats.logins_refused++;
    return NULL;
  }
  all->flow[flow]++;
  a->conn = c;
  a->flow = flow;
  return a;
}

static void put(struct server *s, struct auth *a) {
  if (a->packet != NULL) {
    mem_wipe(a->packet, a->packet_len);  // a password may be in it too
    extent_put(&s->packets, a->packet, a->packet_len);
  }
  scram_fini(&a->scram);
  ASSERT(s->auths.flow[a->flow] > 0);
  s->auths.flow[a->flow]--;
  pool_put(&s->auths.pool, a);
}

static void attach(struct conn *c, struct auth *a) {
  ASSERT(!c->authing && c->auth == NULL);
  a->deadline_ns = c->server->core->now_ns + AUTH_WAIT_NS;
  c->auth = a;
  c->authing = true;
  conn_arm(c);
}

static struct auth *detach(struct conn *c) {
  struct auth *a = c->auth;
  ASSERT(c->authing && a->conn == c);
  c->auth = NULL;
  c->authing = false;
  return a;
}

void auth_drop(struct conn *c) {
  put(c->server, detach(c));
}

void auth_late(struct conn *c) {
  server_log(c->server, c, "no AUTH in time", bytes_of(NULL, 0));
  c->server->stats.connect_timeouts += c->state == CONN_AUTH ? 1 : 0;
  conn_end(c, MQTT_NOT_AUTHORIZED);
}

// --- both kinds of exchange

// NULL: nobody can come in there by this method.
static const struct login_source *source_of(const struct conn *c) {
  const struct listener_config *l = &c->from->config;
  const struct login_source *source = &c->server->login_source[l->access_set];
  bool there = l->certificate_name == CERTIFICATE_NONE && source->find_scram != NULL;
  return there ? source : NULL;
}

// An AUTH packet into `room`.
// [MQTT-4.12.0-2] [MQTT-3.15.2-2] [MQTT-3.15.2-3]: no reason string, no user property
static struct bytes make_auth(struct span room, enum mqtt_reason reason, struct bytes data) {
  struct writer w = writer_init(room);
  struct mqtt_prop_out list[] = {{.id = MQTT_P_AUTH_METHOD, .text = BYTES_LIT(AUTH_METHOD)},
                                 {.id = MQTT_P_AUTH_DATA, .text = data},
                                 {.id = 0}};
  mqtt_encode_auth(&w, reason, list);
  ASSERT(w.err == ERR_OK);
  return writer_bytes(&w);
}

// Begins with the keys of `who` and makes our first AUTH.
static struct bytes begin(struct auth *a, const struct access_who *who, struct bytes data,
                          const struct scram_first *first, struct span room) {
  u8 text[SCRAM_FIRST_MAX], random[NONCE_BYTES], nonce[SCRAM_NONCE_OWN];
  struct password_hash h = {0};
  const struct login_source *source = source_of(a->conn);
  ASSERT(source != NULL);
  a->known = source->find_scram(source->ctx, who, &h);
  a->credential = conn_credential(a->conn->server, &h);
  ASSERT(h.kind == PASSWORD_SCRAM_SHA256);
  struct scram_keys keys = {.salt = bytes_of(h.salt, h.salt_len),
                            .iterations = h.iterations,
                            .stored = h.hash,
                            .server = h.hash + PASSWORD_SCRAM_KEY_LEN};
  (void)plat_random(span_of(random, sizeof random));
  u32 len = base64_encode(bytes_of(random, sizeof random), span_of(nonce, sizeof nonce));
  struct writer w = writer_init(span_of(text, sizeof text));
  scram_begin(&a->scram, data, first, &keys, bytes_of(nonce, len), &w);
  mem_wipe(&h, sizeof h);
  return make_auth(room, MQTT_CONTINUE_AUTHENTICATION, writer_bytes(&w));
}

// The client's last message. NULL: it is he; server-final-message is in `out`.
static const char *judge(struct conn *c, struct scram *scram, const struct access_who *who,
                         struct bytes data, struct writer *out) {
  struct password_hash h = {0};
  const struct auth *a = c->auth;
  const struct login_source *source = source_of(c);
  const char *bad = scram_final(scram, data, out);
  bool same = source != NULL && source->find_scram(source->ctx, who, &h) && a->known &&
              conn_credential(c->server, &h) == a->credential;
  mem_wipe(&h, sizeof h);
  bad = bad == NULL && !same ? "SCRAM: no such user, or another password" : bad;
  *(bad == NULL ? &c->server->stats.logins_good : &c->server->stats.logins_bad) += 1;
  return bad;
}

// --- CONNECT

static const char *read_connect(const struct mqtt_connect *m, struct bytes packet,
                                struct scram_first *first) {
  struct bytes data = bytes_part(packet, m->props.auth_data);
  const char *bad = scram_first(data, first);
  if (bad == NULL && m->has_username &&
      !scram_name_is(bytes_part(data, first->name), bytes_part(packet, m->username))) {
    bad = "SCRAM: another user than the CONNECT's user name";
  }
  return bad;
}

// The CONNECT moves to the exchange, and the name in it is unescaped there. False: no memory.
static bool keep_connect(struct server *s, struct auth *a, const struct mqtt_connect *m,
                         struct bytes packet, struct part name) {
  a->packet = extent_take(&s->packets, (u32)packet.len);
  if (a->packet == NULL) {
    return false;
  }
  a->packet_len = (u32)packet.len;
  memcpy(a->packet, packet.ptr, packet.len);
  struct part at = {m->props.auth_data.off + name.off, name.len};
  at.len = scram_name(bytes_part(packet, at), a->packet + at.off);
  a->name = at;
  return true;
}

static struct access_who who_connects(const struct auth *a, const struct mqtt_connect *m) {
  struct bytes packet = bytes_of(a->packet, a->packet_len);
  return (struct access_who){bytes_part(packet, a->name), bytes_part(packet, m->client_id), true};
}

enum packet_use auth_connect(struct conn *c, const struct mqtt_connect *m, struct bytes packet) {
  u8 room[AUTH_OUT_MAX];
  struct scram_first first;
  struct bytes client = bytes_part(packet, m->client_id);
  if (source_of(c) == NULL ||
      !bytes_equal_str(bytes_part(packet, m->props.auth_method), AUTH_METHOD)) {
    conn_refuse(c, m->version, MQTT_BAD_AUTH_METHOD, client);  // [MQTT-4.12.0-1]
    return PACKET_USED;
  }
  const char *bad = read_connect(m, packet, &first);
  if (bad != NULL) {
    server_log(c->server, c, bad, client);
    conn_refuse(c, m->version, MQTT_NOT_AUTHORIZED, bytes_of(NULL, 0));
    return PACKET_USED;
  }
  struct auth *a = take(c);
  if (a == NULL) {
    conn_refuse(c, m->version, MQTT_SERVER_BUSY, client);
    return PACKET_USED;
  }
  if (!keep_connect(c->server, a, m, packet, first.name)) {
    put(c->server, a);
    return PACKET_BLOCKED;
  }
  struct access_who who = who_connects(a, m);
  struct bytes out =
      begin(a, &who, bytes_part(packet, m->props.auth_data), &first, span_of(room, sizeof room));
  bool fits = out.len <= c->packet_max;  // [MQTT-3.1.2-24]
  if (!fits || !conn_send(c, out)) {
    put(c->server, a);
    if (!fits) {
      conn_refuse(c, m->version, MQTT_PACKET_TOO_LARGE, client);
    }
    return fits ? PACKET_BLOCKED : PACKET_USED;
  }
  c->server->stats.packets_sent[MQTT_AUTH]++;
  c->state = CONN_AUTH;
  c->deadline_ns = U64_MAX;  // the exchange has its own
  attach(c, a);
  return PACKET_USED;
}

static void end_connect(struct conn *c, struct bytes data) {
  u8 text[SCRAM_FINAL_MAX];
  struct mqtt_connect m;
  struct writer w = writer_init(span_of(text, sizeof text));
  struct bytes packet = bytes_of(c->auth->packet, c->auth->packet_len);
  enum mqtt_reason broken = mqtt_decode_connect(packet, &m);
  ASSERT(broken == MQTT_SUCCESS);
  struct access_who who = who_connects(c->auth, &m);
  const char *bad = judge(c, &c->auth->scram, &who, data, &w);
  struct auth *a = detach(c);
  if (bad != NULL) {
    conn_tarpit(c, bad, who.client_id);  // [MQTT-4.12.0-4]
  } else {
    struct broker_identity id = conn_identity(c);
    id.username = who.username;
    id.has_username = true;
    id.credential = a->credential;
    id.auth_method = BYTES_LIT(AUTH_METHOD);
    id.auth_data = writer_bytes(&w);
    c->state = CONN_CONNECT;
    c->by_method = true;
    conn_enter(c, &m, packet, &id);
  }
  put(c->server, a);
}

// --- an open connection

// [MQTT-4.12.1-2]
static enum packet_use failed(struct conn *c, const char *text, enum mqtt_reason reason) {
  server_log(c->server, c, text, bytes_of(NULL, 0));
  conn_end(c, reason);
  return PACKET_USED;
}

static enum packet_use begin_again(struct conn *c, struct bytes data) {
  u8 room[AUTH_OUT_MAX];
  u32 credential = 0;
  struct scram_first first;
  struct access_who who = broker_who(c->session, &credential);
  const char *bad = source_of(c) == NULL ? "SCRAM: nobody can come in so now" : NULL;
  bad = bad == NULL ? scram_first(data, &first) : bad;
  if (bad == NULL && !scram_name_is(bytes_part(data, first.name), who.username)) {
    bad = "SCRAM: another user than this connection's";
  }
  if (bad != NULL) {
    return failed(c, bad, MQTT_NOT_AUTHORIZED);
  }
  struct auth *a = take(c);
  if (a == NULL) {
    return PACKET_BLOCKED;
  }
  struct bytes out = begin(a, &who, data, &first, span_of(room, sizeof room));
  bool fits = out.len <= c->packet_max;
  if (!fits || !broker_answer(c->session, MQTT_AUTH, out)) {
    put(c->server, a);
    return fits ? PACKET_BLOCKED : failed(c, "AUTH is too large", MQTT_PACKET_TOO_LARGE);
  }
  attach(c, a);
  return PACKET_USED;
}

static enum packet_use end_again(struct conn *c, struct bytes data) {
  u8 room[AUTH_OUT_MAX], text[SCRAM_FINAL_MAX];
  u32 credential = 0;
  struct writer w = writer_init(span_of(text, sizeof text));
  struct access_who who = broker_who(c->session, &credential);
  struct scram copy = c->auth->scram;  // the packet may come once more for want of memory
  const char *bad = judge(c, &copy, &who, data, &w);
  scram_fini(&copy);
  if (bad != NULL) {
    return failed(c, bad, MQTT_NOT_AUTHORIZED);
  }
  struct bytes out = make_auth(span_of(room, sizeof room), MQTT_SUCCESS, writer_bytes(&w));
  if (!broker_answer(c->session, MQTT_AUTH, out)) {
    return PACKET_BLOCKED;
  }
  auth_drop(c);
  return PACKET_USED;
}

// --- AUTH

// What its reason and method say before its data is looked at.
static enum mqtt_reason check(const struct conn *c, const struct mqtt_disconnect *m,
                              struct bytes packet) {
  bool first = c->state == CONN_OPEN && !c->authing;
  bool in_turn = m->reason == (first ? MQTT_REAUTHENTICATE : MQTT_CONTINUE_AUTHENTICATION);
  if (!in_turn || !mqtt_has(&m->props, MQTT_P_AUTH_METHOD)) {
    return MQTT_PROTOCOL_ERROR;  // 4.12, 3.15.2.2.2
  }
  bool same = bytes_equal_str(bytes_part(packet, m->props.auth_method), AUTH_METHOD);
  return same ? MQTT_SUCCESS : MQTT_BAD_AUTH_METHOD;  // [MQTT-4.12.1-1]
}

enum packet_use auth_packet(struct conn *c, struct bytes packet) {
  struct mqtt_disconnect m;
  ASSERT(c->state == CONN_AUTH || c->state == CONN_OPEN);
  // [MQTT-4.12.0-6] [MQTT-4.12.0-7]: CONNECT had no method
  enum mqtt_reason bad =
      c->state == CONN_OPEN && !c->by_method ? MQTT_PROTOCOL_ERROR : mqtt_decode_auth(packet, &m);
  bad = bad == MQTT_SUCCESS ? check(c, &m, packet) : bad;
  if (bad != MQTT_SUCCESS) {
    c->server->stats.protocol_errors++;
    if (c->state == CONN_AUTH) {
      conn_refuse(c, MQTT_V5, bad, BYTES_LIT("AUTH"));
    } else {
      conn_end(c, bad);
    }
    return PACKET_USED;
  }
  struct bytes data = bytes_part(packet, m.props.auth_data);
  if (c->state == CONN_AUTH) {
    end_connect(c, data);
    return PACKET_USED;
  }
  return c->authing ? end_again(c, data) : begin_again(c, data);
}
