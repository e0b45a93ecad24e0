// SPDX-License-Identifier: Apache-2.0
// What the encoders write, the decoders read back as the same values; without properties,
// so every loop here is over the bytes of a length.
#include "mqtt/encode.h"
#include "proof.h"

void proof_ack_round(void) {
  u8 b[16];
  u8 type = nondet_u8();
  u16 id = nondet_u16();
  enum mqtt_version v = nondet_bool() ? MQTT_V5 : MQTT_V4;
  __CPROVER_assume(type >= MQTT_PUBACK && type <= MQTT_PUBCOMP && id != 0);
  bool late = type == MQTT_PUBREL || type == MQTT_PUBCOMP;
  enum mqtt_reason reason = nondet_bool() ? MQTT_SUCCESS
                            : late        ? MQTT_PACKET_ID_NOT_FOUND
                                          : MQTT_QUOTA_EXCEEDED;
  struct writer w = writer_init(span_of(b, sizeof b));
  mqtt_encode_ack(&w, v, (enum mqtt_type)type, id, reason, NULL);
  PROVE(w.err == ERR_OK && w.pos <= 5);
  struct mqtt_ack out;
  struct mqtt_header h;
  PROVE(mqtt_fixed_header(writer_bytes(&w), &h) == ERR_OK && h.type == type);
  PROVE(h.header_len + h.remaining_len == w.pos);
  PROVE(mqtt_decode_ack(v, writer_bytes(&w), &out) == MQTT_SUCCESS);
  PROVE(out.packet_id == id && out.reason == (v == MQTT_V5 ? reason : MQTT_SUCCESS));
  if (out.reason != MQTT_SUCCESS && type == MQTT_PUBCOMP) {
    PROOF_REACHED();
  }
}

// The head of a PUBLISH with a topic of 0..8 bytes and an announced payload of any length.
void proof_publish_head_round(void) {
  u8 b[32];
  u8 topic[8];
  struct mqtt_publish_out p = {
      .qos = nondet_u8(), .packet_id = nondet_u16(), .payload_len = nondet_u32()};
  u32 topic_len = nondet_u32();
  enum mqtt_version v = nondet_bool() ? MQTT_V5 : MQTT_V4;
  __CPROVER_assume(p.qos <= 2 && (p.qos > 0) == (p.packet_id != 0) && topic_len <= 8);
  __CPROVER_assume(p.payload_len <= MQTT_REMAINING_MAX - 16);
  p.topic = bytes_of(topic, topic_len);
  p.retain = nondet_bool();
  p.dup = p.qos > 0 && nondet_bool();
  struct writer w = writer_init(span_of(b, sizeof b));
  mqtt_encode_publish_head(&w, v, &p);
  PROVE(w.err == ERR_OK);
  PROVE(w.pos + p.payload_len == mqtt_publish_size(v, &p));
  struct mqtt_header h;
  PROVE(mqtt_fixed_header(writer_bytes(&w), &h) == ERR_OK && h.type == MQTT_PUBLISH);
  PROVE(h.header_len + h.remaining_len == w.pos + p.payload_len);
  PROVE((h.flags >> 1 & 3) == p.qos && (h.flags & 1) == p.retain && h.flags >> 3 == p.dup);
  if (h.header_len == 5 && p.qos == 2) {
    PROOF_REACHED();
  }
}
