// SPDX-License-Identifier: Apache-2.0
// The two sides a bridge speaks to as a client: CONNECT and SUBSCRIBE towards the other broker, and
// the same towards our own, where they are function calls.
#include "server/bridge_inner.h"

#define PACKET_MAX 3500u  // of CONNECT and one SUBSCRIBE: what one transmit buffer carries
#define NO_LOCAL 4u
#define RETAIN_AS_PUBLISHED 8u

static struct bytes notification_topic(const struct bridge *b, struct span room) {
  if (b->config.notification_topic.len > 0) {
    return b->config.notification_topic;
  }
  struct writer w = writer_init(room);
  write_str(&w, "$SYS/broker/connection/");
  write_bytes(&w, b->config.client_id);
  write_str(&w, "/state");
  return w.err == ERR_OK ? writer_bytes(&w) : bytes_of(NULL, 0);
}

void bridge_notify_local(struct bridge *b, bool up) {
  u8 room[BRIDGE_TEXT_MAX + 64];
  struct bytes topic = notification_topic(b, span_of(room, sizeof room));
  if (b->config.notifications && topic.len > 0) {
    (void)broker_publish(b->server->core->broker, topic, bytes_str(up ? "1" : "0"), 1, true,
                         b->server->core->now_ns);
  }
}

// --- the other broker

static bool announces(const struct bridge *b) {
  return b->config.notifications && !b->config.notifications_local_only;
}

bool bridge_send_connect(struct bridge *b) {
  const struct bridge_config *k = &b->config;
  u8 bytes[PACKET_MAX];
  u8 room[BRIDGE_TEXT_MAX + 64];
  bool v5 = k->version == 5;
  struct mqtt_prop_out props[4];
  u32 n = 0;
  if (!k->clean && k->session_expiry_s > 0) {
    props[n++] = (struct mqtt_prop_out){.id = MQTT_P_SESSION_EXPIRY, .number = k->session_expiry_s};
  }
  if (k->receive_maximum > 0) {
    props[n++] = (struct mqtt_prop_out){.id = MQTT_P_RECEIVE_MAXIMUM, .number = k->receive_maximum};
  }
  if (k->packet_size_max > 0) {
    props[n++] =
        (struct mqtt_prop_out){.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = k->packet_size_max};
  }
  props[n].id = 0;
  struct mqtt_connect_out c = {.version = v5 ? MQTT_V5 : MQTT_V4,
                               .clean_start = k->clean,
                               .has_username = k->username.len > 0,
                               .has_password = k->password.len > 0,
                               .keep_alive_s = k->keep_alive_s,
                               .client_id = k->client_id,
                               .username = k->username,
                               .password = k->password,
                               .props = v5 ? props : NULL};
  if (announces(b)) {
    c.has_will = c.will_retain = true;
    c.will_qos = 1;
    c.will_topic = notification_topic(b, span_of(room, sizeof room));
    c.will_payload = BYTES_LIT("0");
  }
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  mqtt_encode_connect(&w, &c);
  if (w.err != ERR_OK) {
    b->last = "CONNECT does not fit: names and password are too long together";
    return false;
  }
  if (!v5 && k->try_private && !b->private_refused) {
    // mosquitto's mark of a bridge: the highest bit of the protocol level, the byte behind "MQTT".
    struct mqtt_header h;
    enum err e = mqtt_fixed_header(writer_bytes(&w), &h);
    ASSERT(e == ERR_OK);
    bytes[h.header_len + 6] |= 0x80;
  }
  return conn_send(b->conn, writer_bytes(&w));
}

// One SUBSCRIBE a topic line: they are few, and each answer tells of one.
bool bridge_remote_subscribe(struct bridge *b) {
  bool v5 = b->config.version == 5;
  for (u32 i = 0; i < b->rule_count; i++) {
    const struct bridge_rule *r = &b->rules[i];
    if ((r->direction & BRIDGE_TOPIC_IN) == 0) {
      continue;
    }
    u8 bytes[PACKET_MAX];
    struct writer w = writer_init(span_of(bytes, sizeof bytes));
    struct mqtt_entry_out e = {.filter = r->remote,
                               .options = (u8)(r->qos | (v5 ? NO_LOCAL | RETAIN_AS_PUBLISHED : 0))};
    mqtt_encode_subscribe(&w, v5 ? MQTT_V5 : MQTT_V4, (u16)(i + 1), NULL, &e, 1);
    ASSERT(w.err == ERR_OK);
    if (!conn_send(b->conn, writer_bytes(&w))) {
      b->last = "no buffer to subscribe with";
      return false;
    }
  }
  if (!announces(b)) {
    return true;
  }
  u8 room[BRIDGE_TEXT_MAX + 64];
  u8 bytes[BRIDGE_TEXT_MAX + 80];
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  struct mqtt_publish_out up = {
      .retain = true, .topic = notification_topic(b, span_of(room, sizeof room)), .payload_len = 1};
  mqtt_encode_publish_head(&w, v5 ? MQTT_V5 : MQTT_V4, &up);
  write_u8(&w, '1');
  ASSERT(w.err == ERR_OK);
  return conn_send(b->conn, writer_bytes(&w));
}

// --- our own broker

static bool subscribe(struct bridge *b, struct session *s, const struct bridge_rule *r) {
  u8 bytes[PACKET_MAX];
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  struct mqtt_entry_out e = {
      .filter = r->local,
      .options = (u8)(MIN(r->qos, b->qos_max) | NO_LOCAL | RETAIN_AS_PUBLISHED)};
  mqtt_encode_subscribe(&w, MQTT_V5, 1, NULL, &e, 1);
  ASSERT(w.err == ERR_OK);
  struct mqtt_subscribe m;
  enum mqtt_reason bad = mqtt_decode_subscribe(MQTT_V5, writer_bytes(&w), &m);
  ASSERT(bad == MQTT_SUCCESS);
  return broker_on_subscribe(s, &m, writer_bytes(&w), b->server->core->now_ns) == MQTT_SUCCESS;
}

bool bridge_local_open(struct bridge *b, struct conn *c, bool clean) {
  struct broker *broker = b->server->core->broker;
  u64 now = b->server->core->now_ns;
  struct mqtt_connect m = {.version = MQTT_V5, .clean_start = clean};
  struct bytes id = b->config.local_client_id;
  struct broker_identity who = {.username = b->config.local_username,
                                .has_username = b->config.local_username.len > 0,
                                .access_set = BROKER_ACCESS_BRIDGES,
                                .qos_max = 2};
  u16 keep_alive = 0;
  m.client_id = (struct part){0, (u32)id.len};
  m.props.present = 1ull << MQTT_P_RECEIVE_MAXIMUM;
  m.props.receive_maximum = b->remote_receive_max;
  if (b->remote_packet_max > 0) {
    m.props.present |= 1ull << MQTT_P_MAXIMUM_PACKET_SIZE;
    m.props.maximum_packet_size = b->remote_packet_max;
  }
  if (!b->config.local_clean) {
    m.props.present |= 1ull << MQTT_P_SESSION_EXPIRY;
    m.props.session_expiry_s = U32_MAX;
  }
  if (broker_on_connect(broker, c, &m, id, &who, now, &c->session, &keep_alive) != MQTT_SUCCESS) {
    b->last = "no room for a session in our own broker";
    return false;
  }
  for (u32 i = 0; i < b->rule_count; i++) {
    const struct bridge_rule *r = &b->rules[i];
    if ((r->direction & BRIDGE_TOPIC_OUT) != 0 && !subscribe(b, c->session, r)) {
      b->last = "no room for a subscription in our own broker";
      return false;
    }
  }
  return true;
}
