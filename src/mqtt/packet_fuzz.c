// SPDX-License-Identifier: Apache-2.0
// Fuzzes every decoder. The first byte chooses the version and whether the remaining length is put
// right (so that inputs get behind the fixed header). What a decoder accepts has its parts inside
// the packet; lists are walked to their end; a PUBLISH's properties are copied and must be the
// same; and every packet is written again by the encoders.
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

// --- Written again by the encoders, a packet is the same, or shorter where it had a longer form.

#define LIST_MAX 64u

// The decoded block as a list to write; false when it is too long for that.
static bool to_list(struct bytes packet, struct part all, struct mqtt_prop_out *list) {
  struct reader r = {.base = packet.ptr, .pos = all.off, .end = all.off + all.len};
  u32 n = 0;
  while (reader_left(&r) > 0 && n < LIST_MAX - 1) {
    struct mqtt_prop_out *p = &list[n++];
    *p = (struct mqtt_prop_out){.id = (u8)mqtt_read_varint(&r)};
    switch (p->id) {
    case 1:
    case 23:
    case 25:
    case 36:
    case 37:
    case 40:
    case 41:
    case 42: p->number = read_u8(&r); break;
    case 19:
    case 33:
    case 34:
    case 35: p->number = read_be16(&r); break;
    case 2:
    case 17:
    case 24:
    case 39: p->number = read_be32(&r); break;
    case 11: p->number = mqtt_read_varint(&r); break;
    default:
      p->text = reader_bytes(&r, mqtt_read_binary(&r));
      if (p->id == MQTT_P_USER_PROPERTY) {
        p->value = reader_bytes(&r, mqtt_read_binary(&r));
      }
      break;
    }
  }
  list[n].id = 0;
  check(r.err == ERR_OK);
  return reader_left(&r) == 0;
}

static struct mqtt_prop_out list[LIST_MAX], will_list[LIST_MAX];
static u8 again_bytes[1u << 17];

static struct writer again(void) {
  return writer_init(span_of(again_bytes, sizeof again_bytes));
}

static void same(struct bytes packet, const struct writer *w) {
  check(w->err == ERR_OK && w->pos <= packet.len);
  check(w->pos < packet.len || bytes_equal(writer_bytes(w), packet));
}

static void connect_again(struct bytes packet, const struct mqtt_connect *c) {
  struct writer w = again();
  struct mqtt_connect_out x = {.version = c->version,
                               .clean_start = c->clean_start,
                               .has_will = c->has_will,
                               .will_retain = c->will_retain,
                               .has_username = c->has_username,
                               .has_password = c->has_password,
                               .will_qos = c->will_qos,
                               .keep_alive_s = c->keep_alive_s,
                               .client_id = bytes_part(packet, c->client_id),
                               .will_topic = bytes_part(packet, c->will_topic),
                               .will_payload = bytes_part(packet, c->will_payload),
                               .username = bytes_part(packet, c->username),
                               .password = bytes_part(packet, c->password),
                               .props = list,
                               .will_props = will_list};
  // 3.1 has flags it does not reserve, and bridges set a bit of the level: they are not written.
  if (c->version != MQTT_V3 && !c->bridge && to_list(packet, c->props.all, list) &&
      to_list(packet, c->will_props.all, will_list)) {
    mqtt_encode_connect(&w, &x);
    same(packet, &w);
  }
}

static void list_again(enum mqtt_version v, struct bytes packet, const struct mqtt_subscribe *s,
                       bool subscribe) {
  static struct mqtt_entry_out x[LIST_MAX];
  struct writer w = again();
  struct mqtt_entry e;
  u32 pos = s->entries.off;
  u32 n = 0;
  while (n < LIST_MAX &&
         (subscribe ? mqtt_subscribe_entry : mqtt_unsubscribe_entry)(packet, s, &pos, &e)) {
    x[n++] = (struct mqtt_entry_out){
        bytes_part(packet, e.filter),
        (u8)(e.qos | e.no_local << 2 | e.retain_as_published << 3 | e.retain_handling << 4)};
  }
  if (n == s->entry_count && to_list(packet, s->props.all, list)) {
    (subscribe ? mqtt_encode_subscribe : mqtt_encode_unsubscribe)(&w, v, s->packet_id, list, x, n);
    same(packet, &w);
  }
}

static void one_answer(enum mqtt_version v, struct bytes packet, u8 type) {
  struct mqtt_ack ack;
  struct mqtt_disconnect ending;
  struct writer w = again();
  switch (type) {
  case MQTT_DISCONNECT:
    if (mqtt_decode_disconnect(v, packet, &ending) == MQTT_SUCCESS &&
        to_list(packet, ending.props.all, list)) {
      mqtt_encode_disconnect(&w, v, ending.reason, list);
      same(packet, &w);
    }
    break;
  case MQTT_AUTH:
    if (mqtt_decode_auth(packet, &ending) == MQTT_SUCCESS &&
        to_list(packet, ending.props.all, list)) {
      mqtt_encode_auth(&w, ending.reason, list);
      same(packet, &w);
    }
    break;
  default:
    if (mqtt_decode_ack(v, packet, &ack) == MQTT_SUCCESS && to_list(packet, ack.props.all, list)) {
      mqtt_encode_ack(&w, v, (enum mqtt_type)type, ack.packet_id, ack.reason, list);
      same(packet, &w);
    }
    break;
  }
}

static void one_packet(enum mqtt_version v, struct bytes packet, u8 type) {
  struct mqtt_connect connect;
  struct mqtt_connack connack;
  struct mqtt_subscribe subscribe;
  struct mqtt_suback suback;
  struct writer w = again();
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
      connect_again(packet, &connect);
    }
    break;
  case MQTT_CONNACK:
    if (mqtt_decode_connack(v, packet, &connack) == MQTT_SUCCESS && v == MQTT_V5 &&
        to_list(packet, connack.props.all, list)) {  // 3.1.1's codes are fewer than those given
      mqtt_encode_connack(&w, v, connack.session_present, (enum mqtt_reason)connack.code, list);
      same(packet, &w);
    }
    break;
  case MQTT_PUBLISH: one_publish(v, packet); break;
  case MQTT_SUBSCRIBE:
    if (mqtt_decode_subscribe(v, packet, &subscribe) == MQTT_SUCCESS) {
      walk_list(packet, &subscribe, true);
      list_again(v, packet, &subscribe, true);
    }
    break;
  case MQTT_UNSUBSCRIBE:
    if (mqtt_decode_unsubscribe(v, packet, &subscribe) == MQTT_SUCCESS) {
      walk_list(packet, &subscribe, false);
      list_again(v, packet, &subscribe, false);
    }
    break;
  case MQTT_SUBACK:
  case MQTT_UNSUBACK:
    if (mqtt_decode_suback(v, packet, &suback) == MQTT_SUCCESS) {
      inside(packet, suback.codes);
      if (to_list(packet, suback.props.all, list)) {
        mqtt_encode_suback(&w, v, (enum mqtt_type)type, suback.packet_id,
                           bytes_part(packet, suback.codes), list);
        same(packet, &w);
      }
    }
    break;
  case MQTT_PINGREQ:
  case MQTT_PINGRESP: (void)mqtt_decode_ping(packet); break;
  default: one_answer(v, packet, type); break;
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
