// SPDX-License-Identifier: Apache-2.0
// From a whole control packet to the broker: decodes it and calls the broker's function of its
// type. CONNECT has a file of its own.
#include "server/bridge_inner.h"
#include "server/conn.h"

// The reason a decoder or the broker gave, other than success, ends the connection.
static enum packet_use ended_by(struct conn *c, enum mqtt_reason reason) {
  if (reason != MQTT_SUCCESS) {
    c->server->stats.protocol_errors++;
    conn_end(c, reason);
  }
  return PACKET_USED;
}

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

static void log_filters(const struct conn *c, bool subscribe, const struct mqtt_subscribe *m,
                        struct bytes packet) {
  struct mqtt_entry e;
  u32 pos = m->entries.off;
  while (subscribe ? mqtt_subscribe_entry(packet, m, &pos, &e)
                   : mqtt_unsubscribe_entry(packet, m, &pos, &e)) {
    server_log_filter(c, subscribe, bytes_part(packet, e.filter));
  }
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
  if (bad == MQTT_SUCCESS && server_logs_filters(c->server, subscribe)) {
    log_filters(c, subscribe, &m, packet);
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
    bad = broker_goodbye(c->session, &m, packet);
  }
  if (bad != MQTT_SUCCESS) {
    return ended_by(c, bad);
  }
  conn_end(c, MQTT_SUCCESS);  // [MQTT-3.14.4-3]
  return PACKET_USED;
}

// Between CONNECT and CONNACK a client sends AUTH or DISCONNECT only [MQTT-3.1.2-30].
static enum packet_use before_connack(struct conn *c, const struct mqtt_header *h,
                                      struct bytes packet) {
  struct mqtt_disconnect m;
  if (h->type == MQTT_DISCONNECT && mqtt_decode_disconnect(MQTT_V5, packet, &m) == MQTT_SUCCESS) {
    conn_end(c, MQTT_SUCCESS);
    return PACKET_USED;
  }
  c->server->stats.protocol_errors++;
  conn_refuse(c, MQTT_V5, MQTT_PROTOCOL_ERROR, BYTES_LIT("another packet than AUTH"));
  return PACKET_USED;
}

static enum packet_use take(struct conn *c, const struct mqtt_header *h, struct bytes packet) {
  ASSERT(packet.len == (usize)h->header_len + h->remaining_len);
  ASSERT(c->state == CONN_CONNECT || c->state == CONN_AUTH || c->session != NULL);
  if (bridge_is(c)) {
    return bridge_packet(c, h, packet);
  }
  if (!h->minimal && c->version == MQTT_V5) {
    return ended_by(c, MQTT_MALFORMED_PACKET);  // [MQTT-1.5.5-1]
  }
  if (c->state == CONN_AUTH && h->type != MQTT_AUTH) {
    return before_connack(c, h, packet);
  }
  switch (h->type) {
  case MQTT_CONNECT: return conn_connect(c, h, packet);
  case MQTT_PUBLISH: return on_publish(c, packet);
  case MQTT_PUBACK:
  case MQTT_PUBREC:
  case MQTT_PUBREL:
  case MQTT_PUBCOMP: return on_ack(c, (enum mqtt_type)h->type, packet);
  case MQTT_SUBSCRIBE: return on_subscribe(c, true, packet);
  case MQTT_UNSUBSCRIBE: return on_subscribe(c, false, packet);
  case MQTT_PINGREQ: return on_ping(c, packet);
  case MQTT_DISCONNECT: return on_disconnect(c, packet);
  case MQTT_AUTH:
    return c->version == MQTT_V5 ? auth_packet(c, packet) : ended_by(c, MQTT_PROTOCOL_ERROR);
  // CONNACK, SUBACK, UNSUBACK, PINGRESP go the other way; 3.1.1 has no type 15.
  default: return ended_by(c, MQTT_PROTOCOL_ERROR);
  }
}

enum packet_use conn_packet(struct conn *c, const struct mqtt_header *h, struct bytes packet) {
  struct server *s = c->server;
  struct server_packet p;
  bool traced = c->traced && trace_read(c->version, false, packet, &p);
  enum packet_use use = take(c, h, packet);
  if (traced && use == PACKET_USED) {
    trace_tell(c, &p);
  }
  s->stats.packets_received[h->type & 15] += use == PACKET_USED ? 1 : 0;
  return use;
}
