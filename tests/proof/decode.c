// SPDX-License-Identifier: Apache-2.0
// Every packet decoder over any bytes: memory safety, an end, and on success every part inside the
// packet (I1, I2 of packet.h). The property block, UTF-8 and topics are taken by their contracts.
#include "contracts.h"

static bool inside(struct bytes packet, struct part p) {
  return p.off <= packet.len && p.len <= packet.len - p.off;
}

static enum mqtt_version any_version(void) {
  return nondet_bool() ? MQTT_V5 : nondet_bool() ? MQTT_V4 : MQTT_V3;
}

#define INSIDE(p) __CPROVER_assert(inside(packet, (p)), "part inside the packet")

void proof_connect(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_connect c;
  if (mqtt_decode_connect(packet, &c) == MQTT_SUCCESS) {
    INSIDE(c.client_id);
    INSIDE(c.will_topic);
    INSIDE(c.will_payload);
    INSIDE(c.username);
    INSIDE(c.password);
    __CPROVER_assert(c.version >= MQTT_V3 && c.version <= MQTT_V5, "a version");
    __CPROVER_assert(c.will_qos <= 2, "[MQTT-3.1.2-12]");
    __CPROVER_assert(c.has_will || (c.will_qos == 0 && !c.will_retain), "[MQTT-3.1.2-11]");
    __CPROVER_assert(c.version == MQTT_V5 || c.has_username || !c.has_password, "[MQTT-3.1.2-22]");
    PROOF_REACHED();
  }
}

void proof_connack(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_connack c;
  if (mqtt_decode_connack(any_version(), packet, &c) == MQTT_SUCCESS) {
    __CPROVER_assert(!c.session_present || c.code == 0, "[MQTT-3.2.2-6]");
    PROOF_REACHED();
  }
}

void proof_publish(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_publish p;
  if (mqtt_decode_publish(any_version(), packet, &p) == MQTT_SUCCESS) {
    INSIDE(p.topic);
    INSIDE(p.payload);
    __CPROVER_assert(p.payload.off + p.payload.len == packet.len, "the payload is the rest");
    __CPROVER_assert(p.qos <= 2, "[MQTT-3.3.1-4]");
    __CPROVER_assert((p.qos > 0) == (p.packet_id != 0), "[MQTT-2.2.1-3]");
    __CPROVER_assert(p.qos > 0 || !p.dup, "[MQTT-3.3.1-2]");
    __CPROVER_assert(p.topic.len > 0 || mqtt_has(&p.props, MQTT_P_TOPIC_ALIAS), "a topic");
    PROOF_REACHED();
  }
}

void proof_ack(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_ack a;
  if (mqtt_decode_ack(any_version(), packet, &a) == MQTT_SUCCESS) {
    __CPROVER_assert(a.packet_id != 0, "[MQTT-2.2.1-3]");
    PROOF_REACHED();
  }
}

// entry_count * 3 <= entries.len: an entry is at least that long.
void proof_subscribe(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_subscribe s;
  if (mqtt_decode_subscribe(any_version(), packet, &s) == MQTT_SUCCESS) {
    INSIDE(s.entries);
    __CPROVER_assert(s.packet_id != 0 && s.entry_count > 0, "[MQTT-3.8.3-2]");
    __CPROVER_assert(s.entry_count <= packet.len, "no more entries than bytes");
    PROOF_REACHED();
  }
}

void proof_unsubscribe(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_subscribe s;
  if (mqtt_decode_unsubscribe(any_version(), packet, &s) == MQTT_SUCCESS) {
    INSIDE(s.entries);
    __CPROVER_assert(s.packet_id != 0 && s.entry_count > 0, "[MQTT-3.10.3-2]");
    PROOF_REACHED();
  }
}

void proof_suback(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_suback s;
  if (mqtt_decode_suback(any_version(), packet, &s) == MQTT_SUCCESS) {
    INSIDE(s.codes);
    PROOF_REACHED();
  }
}

void proof_ending(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_disconnect d;
  enum mqtt_reason a = mqtt_decode_disconnect(any_version(), packet, &d);
  enum mqtt_reason b = mqtt_decode_auth(packet, &d);
  if (mqtt_decode_ping(packet) == MQTT_SUCCESS && a == MQTT_SUCCESS && b == MQTT_SUCCESS) {
    struct mqtt_header h;
    __CPROVER_assert(mqtt_fixed_header(packet, &h) == ERR_OK && h.remaining_len == 0 &&
                         packet.len == h.header_len && (packet.len == 2) == h.minimal,
                     "a ping is two bytes, or has a length with bytes too many");
    PROOF_REACHED();
  }
}
