// SPDX-License-Identifier: Apache-2.0
// From a whole control packet to the broker: decodes it and calls the broker's function of its
// type; who a client is and whether he may come in is decided here.
#include "server/conn.h"

// The reason a decoder or the broker gave, other than success, ends the connection.
static enum packet_use ended_by(struct conn *c, enum mqtt_reason reason) {
  if (reason != MQTT_SUCCESS) {
    c->server->stats.protocol_errors++;
    conn_end(c, reason);
  }
  return PACKET_USED;
}

// --- CONNECT

static void refuse(struct conn *c, enum mqtt_version v, enum mqtt_reason reason, struct bytes who) {
  u8 bytes[CONN_FAREWELL_MAX];
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  struct mqtt_prop_out list[3];
  server_log(c->server, c, mqtt_reason_name(reason), who);
  conn_farewell(c, reason, list);
  mqtt_encode_connack(&w, v, false, reason, list);
  if (w.err != ERR_OK || w.pos > c->packet_max) {  // [MQTT-3.2.2-19]
    w = writer_init(span_of(bytes, sizeof bytes));
    mqtt_encode_connack(&w, v, false, reason, NULL);
  }
  ASSERT(w.err == ERR_OK);
  if (w.pos <= c->packet_max) {
    (void)conn_send(c, writer_bytes(&w));
  }
  c->server->stats.refused++;
  conn_end(c, MQTT_SUCCESS);  // [MQTT-3.2.2-7]: nothing behind a CONNACK with an error
}

// Of the client's certificate, as we or the load balancer in front verified it.
static struct bytes common_name(const struct conn *c) {
  if (c->name != NULL) {
    return bytes_of(c->name->text, c->name->len);
  }
  return c->front != NULL ? bytes_of(c->front->name, c->front->name_len) : bytes_of(NULL, 0);
}

// Who connects; false: not allowed in by this listener's rules.
static bool identify(const struct conn *c, const struct mqtt_connect *m, struct bytes packet,
                     struct broker_identity *id) {
  const struct listener_config *l = &c->from->config;
  *id = (struct broker_identity){.qos_max = l->max_qos};
  if (l->identity_as_username) {  // mosquitto: a certificate without a common name is refused
    struct bytes name = common_name(c);
    if (name.len == 0) {
      return false;
    }
    id->username = name;
    id->from_certificate = true;
    return true;
  }
  if (m->has_username) {
    id->username = bytes_part(packet, m->username);
  }
  return l->allow_anonymous;
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

static enum packet_use on_connect(struct conn *c, const struct mqtt_header *h,
                                  struct bytes packet) {
  struct mqtt_connect m = {.version = MQTT_V4};
  struct server *s = c->server;
  if (c->state != CONN_CONNECT) {
    return ended_by(c, MQTT_PROTOCOL_ERROR);  // [MQTT-3.1.0-2]
  }
  enum mqtt_reason bad = mqtt_decode_connect(packet, &m);
  bad = bad == MQTT_SUCCESS ? admit(c, h, &m) : bad;
  if (bad != MQTT_SUCCESS && m.version != MQTT_V5 && bad != MQTT_UNSUPPORTED_VERSION &&
      bad != c->from->config.redirect) {
    server_log(s, c, "malformed CONNECT", bytes_str(mqtt_reason_name(bad)));
    return ended_by(c, bad);
  }
  if (mqtt_has(&m.props, MQTT_P_MAXIMUM_PACKET_SIZE)) {
    c->packet_max = (u16)MIN(m.props.maximum_packet_size, U16_MAX);
  }
  if (bad != MQTT_SUCCESS) {  // [MQTT-3.1.2-2] [MQTT-3.1.4-1] [MQTT-3.1.4-2]
    refuse(c, m.version, bad, bytes_of(NULL, 0));
    return PACKET_USED;
  }
  struct broker_identity id;
  if (!identify(c, &m, packet, &id)) {
    refuse(c, m.version, MQTT_NOT_AUTHORIZED, bytes_part(packet, m.client_id));
    return PACKET_USED;
  }
  c->version = (u8)m.version;
  struct session *session = NULL;
  bad = broker_on_connect(s->core->broker, c, &m, packet, &id, s->core->now_ns, &session,
                          &c->keep_alive_s);
  if (bad != MQTT_SUCCESS) {
    c->keep_alive_s = 0;
    refuse(c, m.version, bad, bytes_part(packet, m.client_id));
    return PACKET_USED;
  }
  ASSERT(session != NULL);
  c->session = session;
  s->stats.connects++;
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
  return PACKET_USED;
}

// --- the others

static enum packet_use on_publish(struct conn *c, struct bytes packet) {
  struct mqtt_publish m;
  enum mqtt_reason bad = mqtt_decode_publish((enum mqtt_version)c->version, packet, &m);
  if (bad != MQTT_SUCCESS) {
    return ended_by(c, bad);
  }
  bad = broker_on_publish(c->session, &m, packet, c->server->core->now_ns);
  if (bad == MQTT_MESSAGE_RATE_TOO_HIGH) {
    return PACKET_PAUSED;
  }
  return bad == MQTT_SERVER_BUSY ? PACKET_BLOCKED : ended_by(c, bad);
}

static enum packet_use on_ack(struct conn *c, enum mqtt_type type, struct bytes packet) {
  struct mqtt_ack m;
  enum mqtt_reason bad = mqtt_decode_ack((enum mqtt_version)c->version, packet, &m);
  if (bad == MQTT_SUCCESS) {
    bad = broker_on_ack(c->session, type, &m, c->server->core->now_ns);
  }
  return bad == MQTT_SERVER_BUSY ? PACKET_BLOCKED : ended_by(c, bad);
}

static enum packet_use on_subscribe(struct conn *c, bool subscribe, struct bytes packet) {
  struct mqtt_subscribe m;
  enum mqtt_version v = (enum mqtt_version)c->version;
  u64 now = c->server->core->now_ns;
  enum mqtt_reason bad =
      subscribe ? mqtt_decode_subscribe(v, packet, &m) : mqtt_decode_unsubscribe(v, packet, &m);
  if (bad == MQTT_SUCCESS) {
    bad = subscribe ? broker_on_subscribe(c->session, &m, packet, now)
                    : broker_on_unsubscribe(c->session, &m, packet, now);
  }
  return bad == MQTT_SERVER_BUSY ? PACKET_BLOCKED : ended_by(c, bad);
}

static enum packet_use on_ping(struct conn *c, struct bytes packet) {
  enum mqtt_reason bad = mqtt_decode_ping(packet);
  if (bad == MQTT_SUCCESS) {
    broker_on_ping(c->session);
  }
  return ended_by(c, bad);
}

static enum packet_use on_disconnect(struct conn *c, struct bytes packet) {
  struct mqtt_disconnect m;
  enum mqtt_reason bad = mqtt_decode_disconnect((enum mqtt_version)c->version, packet, &m);
  if (bad == MQTT_SUCCESS) {
    bad = broker_on_disconnect(c->session, &m, packet, c->server->core->now_ns);
  }
  if (bad != MQTT_SUCCESS) {
    return ended_by(c, bad);
  }
  c->session = NULL;  // the broker has let go of us [MQTT-3.14.4-3]
  conn_end(c, MQTT_SUCCESS);
  return PACKET_USED;
}

enum packet_use conn_packet(struct conn *c, const struct mqtt_header *h, struct bytes packet) {
  ASSERT(packet.len == (usize)h->header_len + h->remaining_len);
  ASSERT(c->state == CONN_CONNECT || c->session != NULL);
  if (!h->minimal && c->version == MQTT_V5) {
    return ended_by(c, MQTT_MALFORMED_PACKET);  // [MQTT-1.5.5-1]
  }
  switch (h->type) {
  case MQTT_CONNECT: return on_connect(c, h, packet);
  case MQTT_PUBLISH: return on_publish(c, packet);
  case MQTT_PUBACK:
  case MQTT_PUBREC:
  case MQTT_PUBREL:
  case MQTT_PUBCOMP: return on_ack(c, (enum mqtt_type)h->type, packet);
  case MQTT_SUBSCRIBE: return on_subscribe(c, true, packet);
  case MQTT_UNSUBSCRIBE: return on_subscribe(c, false, packet);
  case MQTT_PINGREQ: return on_ping(c, packet);
  case MQTT_DISCONNECT: return on_disconnect(c, packet);
  // CONNACK, SUBACK, UNSUBACK, PINGRESP go the other way; AUTH needs an authentication method,
  // which CONNACK would have refused [MQTT-4.12.0-1]; 3.1.1 has no type 15.
  default: return ended_by(c, MQTT_PROTOCOL_ERROR);
  }
}
