// SPDX-License-Identifier: Apache-2.0
// Encoders. Strings are borrowed bytes that the caller has validated. A writer that is too small
// gets ERR_SPACE and nothing useful in it. Properties are given as a list; those of 3.1.1 are left
// out.
#pragma once
#include "mqtt/packet.h"

// One property to write. Numbers in `number`, strings and data in `text`; a user property's name in
// `text` and value in `value`. A list ends with id 0.
struct mqtt_prop_out {
  u8 id;
  u32 number;
  struct bytes text;
  struct bytes value;
};
u32 mqtt_props_size(
    const struct mqtt_prop_out *list);  // bytes of the properties, without their length
void mqtt_write_varint(struct writer *w, u32 v);
void mqtt_write_utf8(struct writer *w, struct bytes s);  // two length bytes + text, <= 65535
void mqtt_write_props(struct writer *w, const struct mqtt_prop_out *list);  // with their length

struct mqtt_connect_out {
  enum mqtt_version version;
  bool clean_start, has_will, will_retain, has_username, has_password;
  u8 will_qos;
  u16 keep_alive_s;
  struct bytes client_id, will_topic, will_payload, username, password;
  const struct mqtt_prop_out *props, *will_props;  // NULL = none
};
void mqtt_encode_connect(struct writer *w, const struct mqtt_connect_out *c);
// code: reason code; turned into 3.1.1's return code for V4.
void mqtt_encode_connack(struct writer *w, enum mqtt_version v, bool session_present,
                         enum mqtt_reason code, const struct mqtt_prop_out *props);

// Everything of a PUBLISH before its payload: fixed header (for payload_len), topic, packet
// identifier (QoS > 0), properties: `props` then `raw_props` (already encoded property bytes).
struct mqtt_publish_out {
  u8 qos;
  bool dup, retain;
  u16 packet_id;
  struct bytes topic;
  const struct mqtt_prop_out *props;
  struct bytes raw_props;
  u32 payload_len;
};
u32 mqtt_publish_size(enum mqtt_version v, const struct mqtt_publish_out *p);  // whole packet
void mqtt_encode_publish_head(struct writer *w, enum mqtt_version v,
                              const struct mqtt_publish_out *p);

// PUBACK, PUBREC, PUBREL, PUBCOMP; the short form when the reason is success and no properties.
void mqtt_encode_ack(struct writer *w, enum mqtt_version v, enum mqtt_type type, u16 packet_id,
                     enum mqtt_reason reason, const struct mqtt_prop_out *props);
struct mqtt_entry_out {
  struct bytes filter;
  u8 options;  // QoS | no local << 2 | retain as published << 3 | retain handling << 4
};
void mqtt_encode_subscribe(struct writer *w, enum mqtt_version v, u16 packet_id,
                           const struct mqtt_prop_out *props, const struct mqtt_entry_out *e,
                           u32 count);
void mqtt_encode_unsubscribe(struct writer *w, enum mqtt_version v, u16 packet_id,
                             const struct mqtt_prop_out *props, const struct mqtt_entry_out *e,
                             u32 count);
// SUBACK and UNSUBACK; `codes` is left out for a 3.1.1 UNSUBACK, and 5.0 failures become 0x80 in a
// 3.1.1 SUBACK.
void mqtt_encode_suback(struct writer *w, enum mqtt_version v, enum mqtt_type type, u16 packet_id,
                        struct bytes codes, const struct mqtt_prop_out *props);
void mqtt_encode_ping(struct writer *w, enum mqtt_type type);  // PINGREQ or PINGRESP
// DISCONNECT (3.1.1: without a reason) and AUTH.
void mqtt_encode_disconnect(struct writer *w, enum mqtt_version v, enum mqtt_reason reason,
                            const struct mqtt_prop_out *props);
void mqtt_encode_auth(struct writer *w, enum mqtt_reason reason, const struct mqtt_prop_out *props);
