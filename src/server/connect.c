// SPDX-License-Identifier: Apache-2.0
// CONNECT: who the client is (certificate, user name with its password, nobody) and whether he may
// come in; the rest of the packet is the broker's.
//
// I1  A password is checked elsewhere and later (login.h): until then the whole CONNECT lies in
//     c->packet, nothing of the connection is read, and the broker knows nothing of it.
// I2  Whoever is refused for his name or password gets the same answer, in 3.1.1 code 5 and in 5.0
//     0x87 as from mosquitto.
#include "server/conn.h"

enum who { WHO_KNOWN, WHO_REFUSED, WHO_TO_CHECK };

// [MQTT-3.1.3-8] [MQTT-3.1.4-6]
void conn_refuse(struct conn *c, enum mqtt_version v, enum mqtt_reason reason, struct bytes who) {
  u8 bytes[CONN_FAREWELL_MAX];
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  struct mqtt_prop_out list[3];
  if (who.ptr != NULL) {
    server_log(c->server, c, mqtt_reason_name(reason), who);
  }
  conn_farewell(c, reason, list);
  mqtt_encode_connack(&w, v, false, reason, list);
  if (w.err != ERR_OK || w.pos > c->packet_max) {  // [MQTT-3.2.2-19]
    w = writer_init(span_of(bytes, sizeof bytes));
    mqtt_encode_connack(&w, v, false, reason, NULL);
  }
  ASSERT(w.err == ERR_OK);
  if (w.pos <= c->packet_max) {
    (void)conn_send(c, writer_bytes(&w));
    c->server->stats.packets_sent[MQTT_CONNACK]++;
  }
  c->server->stats.refused++;
  conn_end(c, MQTT_SUCCESS);  // [MQTT-3.2.2-7]: nothing behind a CONNACK with an error
}

// Of the client's certificate, as we or the load balancer in front verified it; he names nothing
// but the common name.
static struct bytes certificate_name(const struct conn *c) {
  if (c->name != NULL) {
    return bytes_of(c->name->text, c->name->len);
  }
  bool common = c->from->config.certificate_name == CERTIFICATE_COMMON_NAME;
  return common && c->front != NULL ? bytes_of(c->front->name, c->front->name_len)
                                    : bytes_of(NULL, 0);
}

u32 conn_credential(const struct server *s, const struct password_hash *h) {
  return (u32)siphash(&s->core->hash_key, bytes_of(h, sizeof *h)) | 1;
}

bool conn_name_allowed(const struct conn *c) {
  const struct listener_config *l = &c->from->config;
  const struct login_source *source = &c->server->login_source[l->access_set];
  struct password_hash hash = {0};
  u32 credential = 0;
  ASSERT(c->state == CONN_OPEN);
  struct access_who who = broker_who(c->session, &credential);
  if (l->certificate_name != CERTIFICATE_NONE) {
    return c->tls != NULL || c->front != NULL;  // who was named so; tls judges the rest
  }
  if (!c->by_method && (!who.has_username || source->find == NULL)) {
    return l->allow_anonymous;
  }
  bool (*find)(const void *, const struct access_who *, struct password_hash *) =
      c->by_method ? source->find_scram : source->find;
  bool good = find != NULL && find(source->ctx, &who, &hash) &&
              credential == conn_credential(c->server, &hash);
  mem_wipe(&hash, sizeof hash);
  return good;
}

struct broker_identity conn_identity(const struct conn *c) {
  const struct listener_config *l = &c->from->config;
  return (struct broker_identity){.qos_max = l->max_qos,
                                  .access_set = l->access_set,
                                  .relaxed = l->relaxed,
                                  .mount = l->mount,
                                  .id_prefix = l->id_prefix};
}

// Who connects, by this listener's rules. TO_CHECK: *hash is what his password must give.
static enum who identify(const struct conn *c, const struct mqtt_connect *m, struct bytes packet,
                         struct broker_identity *id, struct password_hash *hash, bool *known) {
  const struct listener_config *l = &c->from->config;
  *id = conn_identity(c);
  if (l->certificate_name != CERTIFICATE_NONE) {  // mosquitto: without the name he is refused
    struct bytes name = certificate_name(c);
    id->username = name;
    id->has_username = true;
    id->from_certificate = true;
    return name.len > 0 ? WHO_KNOWN : WHO_REFUSED;
  }
  if (!m->has_username) {
    return l->allow_anonymous ? WHO_KNOWN : WHO_REFUSED;
  }
  id->username = bytes_part(packet, m->username);
  id->has_username = true;
  const struct login_source *source = &c->server->login_source[l->access_set];
  if (source->find == NULL) {
    return l->allow_anonymous ? WHO_KNOWN : WHO_REFUSED;
  }
  struct access_who who = {id->username, bytes_part(packet, m->client_id), true};
  *known = source->find(source->ctx, &who, hash) && m->has_password;
  return WHO_TO_CHECK;
}

// The client id that counts. False: this listener takes none such.
static bool choose_client_id(const struct conn *c, const struct mqtt_connect *m,
                             struct bytes packet, struct broker_identity *id) {
  const struct listener_config *l = &c->from->config;
  struct bytes given = bytes_part(packet, m->client_id);
  if (l->client_prefix.len > 0 && !bytes_starts_with(given, l->client_prefix)) {
    return false;
  }
  if (l->username_as_client_id) {
    id->client_id = id->username;
    return id->username.len > 0;
  }
  return true;
}

// The broker has decided.
static void entered(struct conn *c, struct session *session, enum mqtt_reason bad, u16 keep_alive_s,
                    struct bytes who) {
  struct server *s = c->server;
  enum mqtt_version version = (enum mqtt_version)c->version;
  if (bad != MQTT_SUCCESS) {
    conn_refuse(c, version, bad, who);
    return;
  }
  ASSERT(session != NULL);
  c->session = session;
  c->keep_alive_s = keep_alive_s;
  s->stats.connects++;
  static const char *const texts[] = {[MQTT_V3] = "connected by MQTT 3.1",
                                      [MQTT_V4] = "connected by MQTT 3.1.1",
                                      [MQTT_V5] = "connected by MQTT 5.0"};
  server_log_connection(c, texts[version]);
  trace_entered(c, c->connect_len);
  c->state = CONN_OPEN;
  c->deadline_ns = U64_MAX;
  c->last_in_ns = s->core->now_ns;
  conn_arm(c);
  if (c->name != NULL) {  // the session has its own copy
    conn_send_held(c);
    pool_put(&s->names, c->name);
    c->name = NULL;
  }
  conn_want_output(c);
}

// He may come in: the broker decides the rest.
void conn_enter(struct conn *c, const struct mqtt_connect *m, struct bytes packet,
                struct broker_identity *id) {
  struct server *s = c->server;
  struct session *session = NULL;
  if (!choose_client_id(c, m, packet, id)) {
    conn_refuse(c, m->version, MQTT_NOT_AUTHORIZED, bytes_part(packet, m->client_id));
    return;
  }
  u16 keep_alive_s = 0;
  c->connect_len = (u32)packet.len;
  enum mqtt_reason bad = broker_on_connect(s->core->broker, c, m, packet, id, s->core->now_ns,
                                           &session, &keep_alive_s);
  if (bad == MQTT_SUCCESS && session == NULL) {
    c->state = CONN_CLAIM;
  } else {
    entered(c, session, bad, keep_alive_s, bytes_part(packet, m->client_id));
  }
}

void conn_entered(struct conn *c, struct session *session, enum mqtt_reason bad, u16 keep_alive_s) {
  ASSERT(c->state == CONN_CLAIM);
  c->state = CONN_CONNECT;
  entered(c, session, bad, keep_alive_s, BYTES_LIT("its session was on another core"));
  conn_want_input(c);  // more may have arrived, or the FIN
}

// The packet moves to an extent of its own, where it lies until the verdict. False: no memory.
static bool keep_packet(struct conn *c, struct bytes packet) {
  if (c->packet != NULL) {
    ASSERT(c->packet == packet.ptr);
    return true;
  }
  c->packet = extent_take(&c->server->packets, (u32)packet.len);
  if (c->packet == NULL) {
    return false;
  }
  memcpy(c->packet, packet.ptr, packet.len);
  c->packet_len = c->packet_have = (u32)packet.len;
  return true;
}

static void drop_packet(struct conn *c) {
  mem_wipe(c->packet, c->packet_len);  // a password is in it
  extent_put(&c->server->packets, c->packet, c->packet_len);
  c->packet = NULL;
  c->packet_len = c->packet_have = 0;
  c->head_len = 0;
}

// What the packet alone and the listener say; MQTT_SUCCESS: the client may come in.
static enum mqtt_reason admit(const struct conn *c, const struct mqtt_header *h,
                              const struct mqtt_connect *m) {
  const struct listener_config *l = &c->from->config;
  if (m->version == MQTT_V5 && !h->minimal) {
    return MQTT_MALFORMED_PACKET;  // [MQTT-1.5.5-1]
  }
  if (!listener_takes_version(l, (u8)m->version)) {
    return MQTT_UNSUPPORTED_VERSION;
  }
  return l->redirect;
}

// Of a well-formed CONNECT. False: no memory, nothing was done.
static bool on_identity(struct conn *c, const struct mqtt_connect *m, struct bytes packet) {
  struct broker_identity id;
  struct password_hash hash = {0};
  bool known = false;
  bool done = true;
  switch (identify(c, m, packet, &id, &hash, &known)) {
  case WHO_KNOWN: conn_enter(c, m, packet, &id); break;
  case WHO_REFUSED:
    conn_refuse(c, m->version, MQTT_NOT_AUTHORIZED, bytes_part(packet, m->client_id));
    break;
  case WHO_TO_CHECK:
    done = keep_packet(c, packet);
    if (done && !login_begin(c, &hash, known)) {
      conn_refuse(c, m->version, MQTT_SERVER_BUSY, bytes_part(packet, m->client_id));
    }
    break;
  }
  mem_wipe(&hash, sizeof hash);
  return done;
}

enum packet_use conn_connect(struct conn *c, const struct mqtt_header *h, struct bytes packet) {
  struct mqtt_connect m = {.version = MQTT_V4};
  struct server *s = c->server;
  if (c->state != CONN_CONNECT) {  // [MQTT-3.1.0-2]
    s->stats.protocol_errors++;
    conn_end(c, MQTT_PROTOCOL_ERROR);
    return PACKET_USED;
  }
  tcp_through(c->tcp);
  enum mqtt_reason bad = mqtt_decode_connect(packet, &m);
  bad = bad == MQTT_SUCCESS ? admit(c, h, &m) : bad;
  if (bad != MQTT_SUCCESS && m.version != MQTT_V5 && bad != MQTT_UNSUPPORTED_VERSION &&
      bad != c->from->config.redirect) {  // 3.1.1 [MQTT-3.2.2-6]
    server_log(s, c, "malformed CONNECT", bytes_str(mqtt_reason_name(bad)));
    s->stats.protocol_errors++;
    conn_end(c, bad);
    return PACKET_USED;
  }
  if (mqtt_has(&m.props, MQTT_P_MAXIMUM_PACKET_SIZE)) {
    c->packet_max = (u16)MIN(m.props.maximum_packet_size, U16_MAX);
  }
  if (bad != MQTT_SUCCESS) {  // [MQTT-3.1.2-2] [MQTT-3.1.4-1] [MQTT-3.1.4-2]
    conn_refuse(c, m.version, bad, BYTES_LIT(""));
    return PACKET_USED;
  }
  c->version = (u8)m.version;
  if (mqtt_has(&m.props, MQTT_P_AUTH_METHOD)) {
    return auth_connect(c, &m, packet);
  }
  return on_identity(c, &m, packet) ? PACKET_USED : PACKET_BLOCKED;
}

void conn_login_done(struct conn *c, bool good) {
  struct mqtt_connect m;
  struct broker_identity id;
  struct password_hash hash = {0};
  bool known = false;
  ASSERT(c->state == CONN_LOGIN);
  ASSERT(c->login == NULL);
  struct bytes packet = bytes_of(c->packet, c->packet_len);
  enum mqtt_reason bad = mqtt_decode_connect(packet, &m);
  ASSERT(bad == MQTT_SUCCESS);
  if (good) {
    c->state = CONN_CONNECT;
    // Asked once more: what has been reloaded meanwhile counts.
    enum who who = identify(c, &m, packet, &id, &hash, &known);
    id.credential = who == WHO_TO_CHECK ? conn_credential(c->server, &hash) : 0;
    if (who == WHO_REFUSED || (who == WHO_TO_CHECK && !known)) {
      conn_refuse(c, m.version, MQTT_NOT_AUTHORIZED, bytes_part(packet, m.client_id));
    } else {
      conn_enter(c, &m, packet, &id);
    }
  } else {
    conn_tarpit(c, "not authorised: no such user, or another password",
                bytes_part(packet, m.client_id));
  }
  drop_packet(c);
  conn_want_input(c);  // more may have arrived, or the FIN
}

void conn_tarpit(struct conn *c, const char *text, struct bytes who) {
  server_log(c->server, c, text, who);
  c->state = CONN_TARPIT;
  c->deadline_ns = c->server->core->now_ns + LOGIN_TARPIT_NS;
  conn_arm(c);
}

void conn_tarpit_over(struct conn *c) {
  ASSERT(c->state == CONN_TARPIT);
  conn_refuse(c, (enum mqtt_version)c->version, MQTT_NOT_AUTHORIZED, bytes_of(NULL, 0));
}
