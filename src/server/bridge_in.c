// SPDX-License-Identifier: Apache-2.0
// From the other broker's packets to our own: its messages are published here under local topics,
// its acknowledgements answer what the local session sent.
#include "server/bridge_inner.h"

static enum packet_use ended(struct conn *c, const char *why) {
  c->server->stats.protocol_errors++;
  bridge_of(c)->last = why;
  conn_end(c, MQTT_SUCCESS);
  return PACKET_USED;
}

static enum mqtt_version version_of(const struct bridge *b) {
  return b->config.version == 5 ? MQTT_V5 : MQTT_V4;
}

// --- PUBLISH

// No rule wants it: it is acknowledged, else it would come for ever.
static enum packet_use refuse(struct bridge *b, const struct mqtt_publish *m) {
  u8 bytes[8];
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  if (m->qos > 0) {
    mqtt_encode_ack(&w, version_of(b), m->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, m->packet_id,
                    MQTT_SUCCESS, NULL);
    if (!bridge_say(b, writer_bytes(&w))) {
      return PACKET_BLOCKED;
    }
  }
  b->dropped++;
  return PACKET_USED;
}

// Publishes topic, properties and payload from one buffer, as broker_on_publish wants them.
static enum mqtt_reason publish(struct bridge *b, struct mqtt_publish *m, struct bytes packet,
                                struct bytes topic) {
  u64 now = b->server->core->now_ns;
  if (bytes_equal(topic, bytes_part(packet, m->topic))) {
    return broker_on_publish(b->session, m, packet, now);
  }
  struct bytes props = bytes_part(packet, m->props.all);
  struct bytes payload = bytes_part(packet, m->payload);
  u32 len = (u32)(topic.len + props.len + payload.len);
  u8 *copy = extent_take(&b->server->packets, len);
  if (copy == NULL) {
    return MQTT_SERVER_BUSY;
  }
  struct writer w = writer_init(span_of(copy, len));
  write_bytes(&w, topic);
  write_bytes(&w, props);
  write_bytes(&w, payload);
  ASSERT(w.err == ERR_OK);
  m->topic = (struct part){0, (u32)topic.len};
  m->props.all = (struct part){(u32)topic.len, (u32)props.len};
  m->payload = (struct part){(u32)(topic.len + props.len), (u32)payload.len};
  enum mqtt_reason r = broker_on_publish(b->session, m, bytes_of(copy, len), now);
  extent_put(&b->server->packets, copy, len);
  return r;
}

static enum packet_use on_publish(struct conn *c, struct bytes packet) {
  struct bridge *b = bridge_of(c);
  struct mqtt_publish m;
  u8 topic[BRIDGE_TOPIC_OUT_MAX];
  if (mqtt_decode_publish(version_of(b), packet, &m) != MQTT_SUCCESS || m.topic.len == 0) {
    return ended(c, "the other broker sent a malformed PUBLISH");  // we allow no topic alias
  }
  u32 len = bridge_map_in(b, bytes_part(packet, m.topic), span_of(topic, sizeof topic));
  if (len == 0) {
    return refuse(b, &m);
  }
  // Subscription identifiers are between the other broker and us.
  m.props.present &= ~(1ull << MQTT_P_SUBSCRIPTION_ID);
  enum mqtt_reason r = publish(b, &m, packet, bytes_of(topic, len));
  if (r == MQTT_SERVER_BUSY) {
    return PACKET_BLOCKED;
  }
  if (r == MQTT_MESSAGE_RATE_TOO_HIGH) {
    return PACKET_PAUSED;
  }
  if (r != MQTT_SUCCESS) {
    return ended(c, mqtt_reason_name(r));
  }
  b->messages_in++;
  return PACKET_USED;
}

// --- the others

static enum packet_use on_ack(struct conn *c, enum mqtt_type type, struct bytes packet) {
  struct bridge *b = bridge_of(c);
  struct mqtt_ack m;
  if (mqtt_decode_ack(version_of(b), packet, &m) != MQTT_SUCCESS) {
    return ended(c, "the other broker sent a malformed acknowledgement");
  }
  enum mqtt_reason r = broker_on_ack(b->session, type, &m, c->server->core->now_ns);
  if (r == MQTT_SERVER_BUSY) {
    return PACKET_BLOCKED;
  }
  return r == MQTT_SUCCESS ? PACKET_USED : ended(c, mqtt_reason_name(r));
}

static enum packet_use on_suback(struct conn *c, struct bytes packet) {
  struct bridge *b = bridge_of(c);
  struct mqtt_suback m;
  if (mqtt_decode_suback(version_of(b), packet, &m) != MQTT_SUCCESS) {
    return ended(c, "the other broker sent a malformed SUBACK");
  }
  struct bytes codes = bytes_part(packet, m.codes);
  for (usize i = 0; i < codes.len; i++) {
    if (codes.ptr[i] >= MQTT_UNSPECIFIED_ERROR) {
      server_log(c->server, c, "bridge: the other broker refuses a subscription", b->config.name);
      break;
    }
  }
  return PACKET_USED;
}

static enum packet_use on_connack(struct conn *c, struct bytes packet) {
  struct bridge *b = bridge_of(c);
  struct mqtt_connack m;
  if (mqtt_decode_connack(version_of(b), packet, &m) != MQTT_SUCCESS) {
    return ended(c, "the other broker sent a malformed CONNACK");
  }
  if (!bridge_connack(b, &m)) {
    conn_end(c, MQTT_SUCCESS);
  }
  return PACKET_USED;
}

enum packet_use bridge_packet(struct conn *c, const struct mqtt_header *h, struct bytes packet) {
  ASSERT(bridge_of(c)->conn == c);
  if (c->state == CONN_CONNECT) {
    return h->type == MQTT_CONNACK ? on_connack(c, packet)
                                   : ended(c, "the other broker did not begin with CONNACK");
  }
  ASSERT(c->session != NULL);
  switch (h->type) {
  case MQTT_PUBLISH: return on_publish(c, packet);
  case MQTT_PUBACK:
  case MQTT_PUBREC:
  case MQTT_PUBREL:
  case MQTT_PUBCOMP: return on_ack(c, (enum mqtt_type)h->type, packet);
  case MQTT_SUBACK: return on_suback(c, packet);
  case MQTT_UNSUBACK:
  case MQTT_PINGRESP: return PACKET_USED;
  case MQTT_DISCONNECT: return ended(c, "the other broker disconnected us");
  default: return ended(c, "the other broker sent a packet that brokers do not send");
  }
}
