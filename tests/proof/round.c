// SPDX-License-Identifier: Apache-2.0
// The head of a PUBLISH without properties is read back with its flags and lengths, for every
// announced payload. Whole packets: packet_round.c.
#include "mqtt/encode.h"
#include "proof.h"

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
