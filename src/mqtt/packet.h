// SPDX-License-Identifier: Apache-2.0
// MQTT 3.1.1 and 5.0 control packets: decoded structures and the functions that read them. Pure:
// bytes in, offsets and numbers out. All parts are relative to the packet's first byte (the fixed
// header's), so that a decoded packet stays valid when its bytes are copied.
//
// I1  A decoder that returns 0 has checked every rule of the standard that concerns the packet's
//     syntax (but mqtt_header.minimal, which its caller looks at); the broker only sees well-formed
//     packets.
// I2  Every part lies inside the packet. Nothing outside the packet is read.
// I3  A decoder's result other than 0 is the reason code to disconnect with (MQTT 5), from the
//     packet's own kind of fault: 0x81 malformed, 0x82 protocol error, and the more precise ones.
#pragma once
#include "mqtt/reason.h"

enum mqtt_version { MQTT_V3 = 3, MQTT_V4 = 4, MQTT_V5 = 5 };  // 3.1, 3.1.1, 5.0

enum mqtt_type {
  MQTT_RESERVED = 0,
  MQTT_CONNECT = 1,
  MQTT_CONNACK = 2,
  MQTT_PUBLISH = 3,
  MQTT_PUBACK = 4,
  MQTT_PUBREC = 5,
  MQTT_PUBREL = 6,
  MQTT_PUBCOMP = 7,
  MQTT_SUBSCRIBE = 8,
  MQTT_SUBACK = 9,
  MQTT_UNSUBSCRIBE = 10,
  MQTT_UNSUBACK = 11,
  MQTT_PINGREQ = 12,
  MQTT_PINGRESP = 13,
  MQTT_DISCONNECT = 14,
  MQTT_AUTH = 15,
};

#define MQTT_REMAINING_MAX 268435455u  // 2.1.4: four bytes of seven bits
#define MQTT_FIXED_MAX 5u

// Bytes of a variable byte integer: 1..4, v <= MQTT_REMAINING_MAX.
u32 mqtt_varint_len(u32 v);

// --- Fixed header

struct mqtt_header {
  u8 type;
  u8 flags;
  u8 header_len;  // 2..5
  bool minimal;   // the length has no byte too many: 5.0 demands it [MQTT-1.5.5-1]
  u32 remaining_len;
};
// Reads the fixed header at the start of `in`. ERR_SHORT: more bytes needed (at most
// MQTT_FIXED_MAX). ERR_MALFORMED: a fifth length byte, type 0, or flags that 2.1.3 reserves
// [MQTT-2.1.3-1]; those of CONNECT are looked at by its decoder, for 3.1 does not reserve them.
enum err mqtt_fixed_header(struct bytes in, struct mqtt_header *out);

// --- Properties (5.0, 2.2.2)

enum mqtt_property {
  MQTT_P_PAYLOAD_FORMAT = 1,
  MQTT_P_MESSAGE_EXPIRY = 2,
  MQTT_P_CONTENT_TYPE = 3,
  MQTT_P_RESPONSE_TOPIC = 8,
  MQTT_P_CORRELATION_DATA = 9,
  MQTT_P_SUBSCRIPTION_ID = 11,
  MQTT_P_SESSION_EXPIRY = 17,
  MQTT_P_ASSIGNED_CLIENT_ID = 18,
  MQTT_P_SERVER_KEEP_ALIVE = 19,
  MQTT_P_AUTH_METHOD = 21,
  MQTT_P_AUTH_DATA = 22,
  MQTT_P_REQUEST_PROBLEM = 23,
  MQTT_P_WILL_DELAY = 24,
  MQTT_P_REQUEST_RESPONSE = 25,
  MQTT_P_RESPONSE_INFORMATION = 26,
  MQTT_P_SERVER_REFERENCE = 28,
  MQTT_P_REASON_STRING = 31,
  MQTT_P_RECEIVE_MAXIMUM = 33,
  MQTT_P_TOPIC_ALIAS_MAXIMUM = 34,
  MQTT_P_TOPIC_ALIAS = 35,
  MQTT_P_MAXIMUM_QOS = 36,
  MQTT_P_RETAIN_AVAILABLE = 37,
  MQTT_P_USER_PROPERTY = 38,
  MQTT_P_MAXIMUM_PACKET_SIZE = 39,
  MQTT_P_WILDCARD_AVAILABLE = 40,
  MQTT_P_SUBSCRIPTION_ID_AVAILABLE = 41,
  MQTT_P_SHARED_AVAILABLE = 42,
};

#define MQTT_SUBSCRIPTION_IDS_MAX 8u  // remembered of one PUBLISH; more are validated and dropped

struct mqtt_props {
  u64 present;      // bit = property identifier
  struct part all;  // the property bytes without their length: user properties are walked in it
  u32 user_count;
  u32 session_expiry_s;
  u32 message_expiry_s;
  u32 will_delay_s;
  u32 maximum_packet_size;
  u32 subscription_id[MQTT_SUBSCRIPTION_IDS_MAX];
  u32 subscription_id_count;
  u16 receive_maximum;
  u16 topic_alias_maximum;
  u16 topic_alias;
  u16 server_keep_alive;
  u8 payload_format;
  u8 request_problem;
  u8 request_response;
  u8 maximum_qos;
  u8 retain_available;
  u8 wildcard_available;
  u8 subscription_id_available;
  u8 shared_available;
  struct part content_type;
  struct part response_topic;
  struct part correlation_data;
  struct part assigned_client_id;
  struct part auth_method;
  struct part auth_data;
  struct part response_information;
  struct part server_reference;
  struct part reason_string;
};
static inline bool mqtt_has(const struct mqtt_props *p, enum mqtt_property id) {
  return (p->present >> id & 1) != 0;
}
// Walks the user properties of `p`: *pos starts at p->all.off. False at the end.
bool mqtt_user_property(struct bytes packet, const struct mqtt_props *p, u32 *pos,
                        struct part *name, struct part *value);

// Copies validated property bytes (a decoded block, without its length) in their order to `to`,
// less those whose bit is in `without`; NULL only counts. Returns their length, at most props.len.
u32 mqtt_copy_props(struct bytes props, u64 without, u8 *to);

// --- Packets

struct mqtt_connect {
  enum mqtt_version version;
  bool bridge;  // 3.1 and 3.1.1: the highest bit of the level, as bridges of mosquitto set it
  bool clean_start;
  bool has_will, will_retain;
  u8 will_qos;
  bool has_username, has_password;
  u16 keep_alive_s;
  struct part client_id;  // may be empty
  struct part will_topic, will_payload;
  struct part username, password;
  struct mqtt_props props;
  struct mqtt_props will_props;
};
struct mqtt_connack {
  bool session_present;
  u8 code;  // 3.1.1: return code 0..5; 5.0: reason
  struct mqtt_props props;
};
struct mqtt_publish {
  u8 qos;
  bool dup, retain;
  u16 packet_id;      // 0 for QoS 0
  struct part topic;  // empty with a topic alias
  struct part payload;
  struct mqtt_props props;
};
struct mqtt_ack {  // PUBACK, PUBREC, PUBREL, PUBCOMP
  u16 packet_id;
  enum mqtt_reason reason;
  struct mqtt_props props;
};
struct mqtt_subscribe {  // and UNSUBSCRIBE
  u16 packet_id;
  u32 entry_count;
  struct part entries;
  struct mqtt_props props;
};
struct mqtt_entry {
  struct part filter;  // as sent, $share/... included
  u8 qos;
  bool no_local, retain_as_published;
  u8 retain_handling;
};
struct mqtt_suback {  // and UNSUBACK
  u16 packet_id;
  struct part codes;  // one byte an entry; empty for a 3.1.1 UNSUBACK
  struct mqtt_props props;
};
struct mqtt_disconnect {  // and AUTH
  enum mqtt_reason reason;
  struct mqtt_props props;
};

// `packet` is one whole packet, fixed header included; its type has been looked at by the caller.
// Each returns 0 or the reason to disconnect with.
enum mqtt_reason mqtt_decode_connect(struct bytes packet, struct mqtt_connect *out);
enum mqtt_reason mqtt_decode_connack(enum mqtt_version v, struct bytes packet,
                                     struct mqtt_connack *out);
enum mqtt_reason mqtt_decode_publish(enum mqtt_version v, struct bytes packet,
                                     struct mqtt_publish *out);
enum mqtt_reason mqtt_decode_ack(enum mqtt_version v, struct bytes packet, struct mqtt_ack *out);
enum mqtt_reason mqtt_decode_subscribe(enum mqtt_version v, struct bytes packet,
                                       struct mqtt_subscribe *out);
enum mqtt_reason mqtt_decode_unsubscribe(enum mqtt_version v, struct bytes packet,
                                         struct mqtt_subscribe *out);
enum mqtt_reason mqtt_decode_suback(enum mqtt_version v, struct bytes packet,
                                    struct mqtt_suback *out);
enum mqtt_reason mqtt_decode_ping(struct bytes packet);
enum mqtt_reason mqtt_decode_disconnect(enum mqtt_version v, struct bytes packet,
                                        struct mqtt_disconnect *out);
enum mqtt_reason mqtt_decode_auth(struct bytes packet, struct mqtt_disconnect *out);

// Walks the entries of a decoded SUBSCRIBE or UNSUBSCRIBE: *pos starts at entries.off; false at the
// end. Entries are valid: the decoder has checked them.
bool mqtt_subscribe_entry(struct bytes packet, const struct mqtt_subscribe *s, u32 *pos,
                          struct mqtt_entry *out);
bool mqtt_unsubscribe_entry(struct bytes packet, const struct mqtt_subscribe *s, u32 *pos,
                            struct mqtt_entry *out);
