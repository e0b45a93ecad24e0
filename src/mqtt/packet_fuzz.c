// SPDX-License-Identifier: Apache-2.0
// Fuzzes every decoder. The first byte chooses the version and whether the remaining length is put
// right (so that inputs get behind the fixed header). What a decoder accepts has its parts inside
// the packet; lists are walked to their end; a PUBLISH's properties are copied and must be the
// same.
#include <stdlib.h>
#include <string.h>

#include "mqtt/encode.h"
#include "mqtt/wire.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

static void inside(struct bytes packet, struct part p) {
  check(p.off <= packet.len && p.len <= packet.len - p.off);
}

static void walk_user_properties(struct bytes packet, const struct mqtt_props *p) {
  u32 pos = p->all.off;
  u32 count = 0;
  struct part name;
  struct part value;
  while (mqtt_user_property(packet, p, &pos, &name, &value)) {
    inside(packet, name);
    inside(packet, value);
    count++;
  }
  check(count == p->user_count);
}

static void walk_list(struct bytes packet, const struct mqtt_subscribe *s, bool subscribe) {
  u32 pos = s->entries.off;
  u32 count = 0;
  struct mqtt_entry e;
  while ((subscribe ? mqtt_subscribe_entry : mqtt_unsubscribe_entry)(packet, s, &pos, &e)) {
    inside(packet, e.filter);
    count++;
  }
  check(count == s->entry_count && pos == packet.len);
}

static void one_publish(enum mqtt_version v, struct bytes packet) {
  struct mqtt_publish p;
  if (mqtt_decode_publish(v, packet, &p) != MQTT_SUCCESS) {
    return;
  }
  inside(packet, p.topic);
  inside(packet, p.payload);
  walk_user_properties(packet, &p.props);
  // Written again from its parts it is the same packet, byte by byte.
  struct mqtt_publish_out out = {.qos = p.qos,
                                 .dup = p.dup,
                                 .retain = p.retain,
                                 .packet_id = p.packet_id,
                                 .topic = bytes_part(packet, p.topic),
                                 .raw_props = bytes_part(packet, p.props.all),
                                 .payload_len = p.payload.len};
  u8 *again = malloc(packet.len);
  struct writer w = writer_init(span_of(again, packet.len));
  check(mqtt_publish_size(v, &out) == packet.len);
  mqtt_encode_publish_head(&w, v, &out);
  write_bytes(&w, bytes_part(packet, p.payload));
  check(w.err == ERR_OK && bytes_equal(writer_bytes(&w), packet));
  u32 copied = mqtt_copy_props(out.raw_props, 0, again);
  check(bytes_equal(bytes_of(again, copied), out.raw_props));
  u64 without = 1ull << MQTT_P_USER_PROPERTY | 1ull << MQTT_P_MESSAGE_EXPIRY;
  check(mqtt_copy_props(out.raw_props, without, NULL) <= copied);
  free(again);
}

static void one_packet(enum mqtt_version v, struct bytes packet, u8 type) {
  struct mqtt_connect connect;
  struct mqtt_connack connack;
  struct mqtt_ack ack;
  struct mqtt_subscribe list;
  struct mqtt_suback suback;
  struct mqtt_disconnect ending;
  switch (type) {
  case MQTT_CONNECT:
    if (mqtt_decode_connect(packet, &connect) == MQTT_SUCCESS) {
      inside(packet, connect.client_id);
      inside(packet, connect.will_topic);
      inside(packet, connect.will_payload);
      inside(packet, connect.username);
      inside(packet, connect.password);
      walk_user_properties(packet, &connect.props);
      walk_user_properties(packet, &connect.will_props);
    }
    break;
  case MQTT_CONNACK: (void)mqtt_decode_connack(v, packet, &connack); break;
  case MQTT_PUBLISH: one_publish(v, packet); break;
  case MQTT_SUBSCRIBE:
    if (mqtt_decode_subscribe(v, packet, &list) == MQTT_SUCCESS) {
      walk_list(packet, &list, true);
    }
    break;
  case MQTT_UNSUBSCRIBE:
    if (mqtt_decode_unsubscribe(v, packet, &list) == MQTT_SUCCESS) {
      walk_list(packet, &list, false);
    }
    break;
  case MQTT_SUBACK:
  case MQTT_UNSUBACK:
    if (mqtt_decode_suback(v, packet, &suback) == MQTT_SUCCESS) {
      inside(packet, suback.codes);
    }
    break;
  case MQTT_PINGREQ:
  case MQTT_PINGRESP: (void)mqtt_decode_ping(packet); break;
  case MQTT_DISCONNECT: (void)mqtt_decode_disconnect(v, packet, &ending); break;
  case MQTT_AUTH: (void)mqtt_decode_auth(packet, &ending); break;
  default: (void)mqtt_decode_ack(v, packet, &ack); break;
  }
}

// The input with its remaining length put right, in a block of exact size; NULL when it has none.
static u8 *mended(const u8 *data, usize len, usize *out_len) {
  struct reader r = reader_init(bytes_of(data, len));
  u8 first = read_u8(&r);
  (void)mqtt_read_varint(&r);
  if (r.err != ERR_OK) {
    return NULL;
  }
  u32 body = reader_left(&r);
  *out_len = 1 + mqtt_varint_len(body) + body;
  u8 *packet = malloc(*out_len);
  struct writer w = writer_init(span_of(packet, *out_len));
  write_u8(&w, first);
  mqtt_write_varint(&w, body);
  write_bytes(&w, bytes_of(data + r.pos, body));
  check(w.err == ERR_OK && w.pos == *out_len);
  return packet;
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  if (len < 2) {
    return 0;
  }
  enum mqtt_version v = (data[0] & 1) != 0 ? MQTT_V5 : MQTT_V4;
  usize packet_len = len - 1;
  u8 *packet = NULL;
  if ((data[0] & 2) != 0) {
    packet = mended(data + 1, len - 1, &packet_len);
  }
  if (packet == NULL) {
    packet_len = len - 1;
    packet = malloc(packet_len);
    memcpy(packet, data + 1, packet_len);
  }
  struct mqtt_header h;
  if (mqtt_fixed_header(bytes_of(packet, packet_len), &h) == ERR_OK) {
    one_packet(v, bytes_of(packet, packet_len), h.type);
  }
  free(packet);
  return 0;
}
