// SPDX-License-Identifier: Apache-2.0
// Every decoder on arbitrary bytes, in a block of exactly its size: the first byte chooses the
// version, the fixed header's length is repaired half of the time so that bodies are reached. What
// decodes is walked and its properties are copied.
#include <stdlib.h>
#include <string.h>

#include "mqtt/packet.h"

static void walk(enum mqtt_version v, struct bytes p, u8 type) {
  struct mqtt_publish publish;
  struct mqtt_subscribe s;
  struct mqtt_entry e;
  u8 out[4096];
  if (type == MQTT_PUBLISH && mqtt_decode_publish(v, p, &publish) == MQTT_SUCCESS) {
    struct writer w = writer_init(span_of(out, sizeof out));
    struct part name, value;
    u32 pos = publish.props.all.off;
    mqtt_copy_props(p, &publish.props, 0, &w);
    while (mqtt_user_property(p, &publish.props, &pos, &name, &value)) {
      (void)bytes_part(p, value);
    }
    (void)bytes_part(p, publish.payload);
  }
  if (type == MQTT_SUBSCRIBE && mqtt_decode_subscribe(v, p, &s) == MQTT_SUCCESS) {
    u32 pos = s.entries.off, n = 0;
    while (mqtt_subscribe_entry(p, &s, &pos, &e)) {
      n++;
    }
    ASSERT(n == s.entry_count);
  }
  if (type == MQTT_UNSUBSCRIBE && mqtt_decode_unsubscribe(v, p, &s) == MQTT_SUCCESS) {
    u32 pos = s.entries.off, n = 0;
    while (mqtt_unsubscribe_entry(p, &s, &pos, &e)) {
      n++;
    }
    ASSERT(n == s.entry_count);
  }
}

static void decode(enum mqtt_version v, struct bytes p, u8 type) {
  struct mqtt_connect connect;
  struct mqtt_connack connack;
  struct mqtt_ack ack;
  struct mqtt_suback suback;
  struct mqtt_disconnect disconnect;
  switch (type) {
  case MQTT_CONNECT: (void)mqtt_decode_connect(p, &connect); break;
  case MQTT_CONNACK: (void)mqtt_decode_connack(v, p, &connack); break;
  case MQTT_PUBACK:
  case MQTT_PUBREC:
  case MQTT_PUBREL:
  case MQTT_PUBCOMP: (void)mqtt_decode_ack(v, p, &ack); break;
  case MQTT_SUBACK:
  case MQTT_UNSUBACK: (void)mqtt_decode_suback(v, p, &suback); break;
  case MQTT_DISCONNECT: (void)mqtt_decode_disconnect(v, p, &disconnect); break;
  case MQTT_AUTH: (void)mqtt_decode_auth(p, &disconnect); break;
  default: walk(v, p, type); break;
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize size) {
  struct mqtt_header h;
  if (size < 3 || size > 4096) {
    return 0;
  }
  enum mqtt_version v = data[0] & 1 ? MQTT_V5 : MQTT_V4;
  u8 *block = malloc(size - 1);
  memcpy(block, data + 1, size - 1);
  struct bytes p = bytes_of(block, size - 1);
  if ((data[0] & 2) != 0 && size - 3 < 128) {
    block[1] = (u8)(size - 3);
  }
  if (mqtt_fixed_header(p, &h) == ERR_OK) {
    decode(v, p, h.type);
  }
  free(block);
  return 0;
}
