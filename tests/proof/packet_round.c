// SPDX-License-Identifier: Apache-2.0
// decode(encode(x)) = x for whole packets of all three versions: any numbers, flags and codes; texts,
// lists and property blocks of eight small shapes (at the end), with any bytes in
// them. What one property of any kind becomes is property_round.c's proof; here stand those that
// show where the block begins and ends. The negative twin flips one bit of the last byte.
#include "mqtt/encode.h"
#include "round.h"

static u8 b[64];
static struct writer w;
static u8 store[8][TEXT_MAX];  // the texts of x
static struct mqtt_prop_out list[3];
static struct mqtt_props props;  // as decoded

static struct bytes text(u32 i, u32 len) {
  return any_text(store[i], len);
}

// `count` properties: a user property, or that behind one with a number or a text.
static const struct mqtt_prop_out *any_props(u8 id, u32 count, u32 len) {
  list[0] = (struct mqtt_prop_out){.id = id, .number = nondet_u32(), .text = text(6, len)};
  list[1] = (struct mqtt_prop_out){
      .id = MQTT_P_USER_PROPERTY, .text = text(5, len), .value = text(7, TEXT_MAX - len)};
  list[2].id = 0;
  if (id == MQTT_P_SUBSCRIPTION_ID) {
    list[0].number = 100;  // any: number_round; its length would be unknown here
  }
  return count == 0 ? NULL : count == 1 ? list + 1 : list;
}

static void begin(void) {
  w = writer_init(span_of(b, sizeof b));
}

// One whole packet stands in b.
static struct bytes written(u8 type, u8 flags) {
  struct mqtt_header h;
  PROVE(w.err == ERR_OK);
  PROVE(mqtt_fixed_header(writer_bytes(&w), &h) == ERR_OK);
  PROVE(h.type == type && h.flags == flags && h.header_len + h.remaining_len == w.pos);
#ifdef NEGATIVE
  b[w.pos - 1] ^= 1;
#endif
  return writer_bytes(&w);
}

static bool holds(struct part p, struct bytes s) {
  return same_text(writer_bytes(&w), p, s);
}

// The decoded block holds the `count` properties of any_props and no others.
static void props_are(enum mqtt_version v, u32 count, struct part p, u32 number, u8 id) {
  count = v == MQTT_V5 ? count : 0;
  u64 bits = (count > 0 ? 1ull << MQTT_P_USER_PROPERTY : 0) | (count > 1 ? 1ull << id : 0);
  PROVE(props.present == bits && props.user_count == (count > 0 ? 1 : 0));
  PROVE(count < 2 || p.len == U32_MAX || holds(p, list[0].text));
  PROVE(count < 2 || p.len != U32_MAX || number == list[0].number);
  if (count > 0) {  // the walk that finds the user property is user_walk's proof
    u32 size = mqtt_props_size(list + 1);
    PROVE(props.all.len >= size && props.all.off <= w.pos);
    PROVE(props.all.len <= w.pos - props.all.off);
    u32 at = props.all.off + props.all.len - size;
    u32 name_len = (u32)list[1].text.len;
    PROVE(b[at] == MQTT_P_USER_PROPERTY && holds((struct part){at + 3, name_len}, list[1].text));
    PROVE(holds((struct part){at + 5 + name_len, (u32)list[1].value.len}, list[1].value));
  }
}

#define NO_PART ((struct part){0, U32_MAX})
#define TEXT_PROP(field) props.field, 0
#define NUMBER_PROP(field) NO_PART, props.field

static u8 one_of(struct bytes codes) {
  u32 i = nondet_u32();
  __CPROVER_assume(i < codes.len);
  return codes.ptr[i];
}

static u16 any_id(void) {
  u16 id = nondet_u16();
  __CPROVER_assume(id != 0);
  return id;
}

// --- one packet of a shape: version, properties, length of texts

static void connect(enum mqtt_version v, u32 count, u32 len) {
  struct mqtt_connect c;
  struct mqtt_connect_out x = {.version = v, .keep_alive_s = nondet_u16()};
  struct mqtt_prop_out will[2] = {{.id = MQTT_P_WILL_DELAY, .number = nondet_u32()}, {.id = 0}};
  x.clean_start = nondet_bool();
  x.has_will = count < 2;
  x.has_username = count != 1;
  x.has_password = count == 0 || (count == 1 && v == MQTT_V5);
  x.will_retain = x.has_will && nondet_bool();
  x.will_qos = x.has_will ? nondet_u8() : 0;
  __CPROVER_assume(x.will_qos <= 2);
  x.client_id = text(0, len);
  x.will_topic = text(1, 1);
  __CPROVER_assume(store[1][0] != '+' && store[1][0] != '#' && store[1][0] != 0);
  x.will_payload = text(2, TEXT_MAX - len);
  x.username = text(3, len);
  x.password = text(4, len);
  x.props = any_props(MQTT_P_SESSION_EXPIRY, count, len);
  x.will_props = count == 1 ? will : NULL;
  begin();
  mqtt_encode_connect(&w, &x);
  PROVE(mqtt_decode_connect(written(MQTT_CONNECT, 0), &c) == MQTT_SUCCESS);
  PROVE(c.version == v && c.keep_alive_s == x.keep_alive_s && c.clean_start == x.clean_start);
  PROVE(c.has_will == x.has_will && c.will_retain == x.will_retain && c.will_qos == x.will_qos);
  PROVE(c.has_username == x.has_username && c.has_password == x.has_password);
  PROVE(holds(c.client_id, x.client_id));
  PROVE(!x.has_will ||
        (holds(c.will_topic, x.will_topic) && holds(c.will_payload, x.will_payload)));
  PROVE(!x.has_username || holds(c.username, x.username));
  PROVE(!x.has_password || holds(c.password, x.password));
  bool delay = v == MQTT_V5 && count == 1;
  PROVE(c.will_props.present == (delay ? 1ull << MQTT_P_WILL_DELAY : 0));
  PROVE(!delay || c.will_props.will_delay_s == will[0].number);
  props = c.props;
  props_are(v, count, NUMBER_PROP(session_expiry_s), MQTT_P_SESSION_EXPIRY);
}

static void connack(enum mqtt_version v, u32 count, u32 len) {
  struct mqtt_connack c;
  u8 code =
      one_of(BYTES_LIT("\x00\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8c\x90\x95\x97\x99"
                       "\x9a\x9b\x9c\x9d\x9f"));
  bool present = code == 0 && nondet_bool();
  begin();
  mqtt_encode_connack(&w, v, present, (enum mqtt_reason)code,
                      any_props(MQTT_P_ASSIGNED_CLIENT_ID, count, len));
  PROVE(mqtt_decode_connack(v, written(MQTT_CONNACK, 0), &c) == MQTT_SUCCESS);
  PROVE(c.session_present == present);
  PROVE(c.code == (v == MQTT_V5 ? code : mqtt_v4_return_code((enum mqtt_reason)code)));
  props = c.props;
  props_are(v, count, TEXT_PROP(assigned_client_id), MQTT_P_ASSIGNED_CLIENT_ID);
}

static void publish_of(enum mqtt_version v, u32 count, u32 len, u8 qos) {
  struct mqtt_publish p;
  struct mqtt_publish_out x = {.qos = qos};
  x.packet_id = x.qos > 0 ? any_id() : 0;
  x.dup = x.qos > 0 && count == 1;  // any flags: publish_head_round
  x.retain = len == 1;
  x.topic = text(0, 1 + (len > 0));
  __CPROVER_assume(store[0][0] != '+' && store[0][0] != '#' && store[0][0] != 0);
  __CPROVER_assume(store[0][1] != '+' && store[0][1] != '#' && store[0][1] != 0);
  x.props = any_props(MQTT_P_MESSAGE_EXPIRY, count, len);
  struct bytes payload = text(1, TEXT_MAX - len);
  x.payload_len = (u32)payload.len;
  begin();
  mqtt_encode_publish_head(&w, v, &x);
  write_bytes(&w, payload);
  PROVE(w.pos == mqtt_publish_size(v, &x));
  u8 flags = (u8)((x.dup ? 8 : 0) | x.qos << 1 | (x.retain ? 1 : 0));
  PROVE(mqtt_decode_publish(v, written(MQTT_PUBLISH, flags), &p) == MQTT_SUCCESS);
  PROVE(p.qos == x.qos && p.dup == x.dup && p.retain == x.retain && p.packet_id == x.packet_id);
  PROVE(holds(p.topic, x.topic) && holds(p.payload, payload));
  props = p.props;
  props_are(v, count, NUMBER_PROP(message_expiry_s), MQTT_P_MESSAGE_EXPIRY);
}

static void publish(enum mqtt_version v, u32 count, u32 len) {
  publish_of(v, count, len, 0);
  publish_of(v, count, len, 1);
  publish_of(v, count, len, 2);
}

static void ack_of(enum mqtt_version v, u32 count, u32 len, u8 type, bool success) {
  struct mqtt_ack a;
  u8 code = success               ? MQTT_SUCCESS
            : type >= MQTT_PUBREL ? MQTT_PACKET_ID_NOT_FOUND
                                  : one_of(BYTES_LIT("\x10\x80\x83\x87\x90\x91\x97\x99"));
  u16 id = any_id();
  begin();
  mqtt_encode_ack(&w, v, (enum mqtt_type)type, id, (enum mqtt_reason)code,
                  any_props(MQTT_P_REASON_STRING, count, len));
  struct bytes packet = written(type, type == MQTT_PUBREL ? 2 : 0);
  PROVE(mqtt_decode_ack(v, packet, &a) == MQTT_SUCCESS);
  PROVE(a.packet_id == id && a.reason == (v == MQTT_V5 ? code : MQTT_SUCCESS));
  props = a.props;
  props_are(v, count, TEXT_PROP(reason_string), MQTT_P_REASON_STRING);
}

static void ack(enum mqtt_version v, u32 count, u32 len) {
  for (u8 type = MQTT_PUBACK; type <= MQTT_PUBCOMP; type++) {
    ack_of(v, count, len, type, (type + count + len) % 2 == 0);
  }
}

static void subscription(enum mqtt_version v, bool subscribe, u32 count, u32 len) {
  struct mqtt_subscribe s;
  struct mqtt_entry e;
  struct mqtt_entry_out x[2];
  u32 entries = 1 + (len & 1);
  u16 id = any_id();
  for (u32 i = 0; i < 2; i++) {
    x[i] = (struct mqtt_entry_out){text(i, 1 + (len > 0 && i == 0)), nondet_u8()};
    for (u32 k = 0; k < TEXT_MAX; k++) {
      __CPROVER_assume(store[i][k] != '+' && store[i][k] != '#' && store[i][k] != 0);
    }
    u8 o = x[i].options;
    __CPROVER_assume((o & 3) != 3 && (o & 0x30) != 0x30 && (o & (v == MQTT_V5 ? 0xc0 : 0xfc)) == 0);
  }
  const struct mqtt_prop_out *p =
      any_props(subscribe ? MQTT_P_SUBSCRIPTION_ID : MQTT_P_USER_PROPERTY,
                subscribe || count == 0 ? count : 1, len);
  begin();
  if (subscribe) {
    mqtt_encode_subscribe(&w, v, id, p, x, entries);
    PROVE(mqtt_decode_subscribe(v, written(MQTT_SUBSCRIBE, 2), &s) == MQTT_SUCCESS);
  } else {
    mqtt_encode_unsubscribe(&w, v, id, p, x, entries);
    PROVE(mqtt_decode_unsubscribe(v, written(MQTT_UNSUBSCRIBE, 2), &s) == MQTT_SUCCESS);
  }
  PROVE(s.packet_id == id && s.entry_count == entries);
  // What is proved to be equal is put in its place: the solver then knows where it is.
  u32 pos = w.pos;
  for (u32 i = 0; i < entries; i++) {
    pos -= 2 + (u32)x[i].filter.len + (subscribe ? 1 : 0);
  }
  PROVE(s.entries.off == pos && s.entries.len == w.pos - pos);
  s.entries = (struct part){pos, w.pos - pos};
  for (u32 i = 0; i < entries; i++) {
    u32 next = pos;
    PROVE(subscribe ? mqtt_subscribe_entry(writer_bytes(&w), &s, &next, &e)
                    : mqtt_unsubscribe_entry(writer_bytes(&w), &s, &next, &e));
    u8 o = subscribe ? x[i].options : 0;
    PROVE(holds(e.filter, x[i].filter) && e.qos == (o & 3) && e.no_local == ((o & 4) != 0));
    PROVE(e.retain_as_published == ((o & 8) != 0) && e.retain_handling == o >> 4);
    pos += 2 + (u32)x[i].filter.len + (subscribe ? 1 : 0);
    PROVE(next == pos);
  }
  PROVE(pos == w.pos);
  props = s.props;
  if (subscribe) {
    props_are(v, count, NUMBER_PROP(subscription_id[0]), MQTT_P_SUBSCRIPTION_ID);
  } else {
    props_are(v, count > 0, NO_PART, 0, 0);
  }
}

static void subscribe(enum mqtt_version v, u32 count, u32 len) {
  subscription(v, true, count, len);
}
static void unsubscribe(enum mqtt_version v, u32 count, u32 len) {
  subscription(v, false, count, len);
}

static void answer_of(enum mqtt_version v, u32 count, u32 len, u8 type) {
  struct mqtt_suback s;
  u8 codes[2];
  u16 id = any_id();
  u32 entries = 1 + (len & 1);
  for (u32 i = 0; i < 2; i++) {
    codes[i] = type == MQTT_UNSUBACK
                   ? one_of(BYTES_LIT("\x00\x11\x80\x83\x87\x8f\x91"))
                   : one_of(BYTES_LIT("\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2"));
  }
  begin();
  mqtt_encode_suback(&w, v, (enum mqtt_type)type, id, bytes_of(codes, entries),
                     any_props(MQTT_P_REASON_STRING, count, len));
  PROVE(mqtt_decode_suback(v, written(type, 0), &s) == MQTT_SUCCESS);
  PROVE(s.packet_id == id);
  PROVE(s.codes.len == (v != MQTT_V5 && type == MQTT_UNSUBACK ? 0 : entries));
  for (u32 i = 0; i < 2; i++) {
    PROVE(i >= s.codes.len ||
          b[s.codes.off + i] == (v != MQTT_V5 && codes[i] >= 0x80 ? 0x80 : codes[i]));
  }
  props = s.props;
  props_are(v, count, TEXT_PROP(reason_string), MQTT_P_REASON_STRING);
}

static void answer(enum mqtt_version v, u32 count, u32 len) {
  answer_of(v, count, len, MQTT_SUBACK);
  answer_of(v, count, len, MQTT_UNSUBACK);
}

static void disconnect_of(enum mqtt_version v, u32 count, u32 len, bool success) {
  struct mqtt_disconnect d;
  u8 code =
      one_of(success ? BYTES_LIT("\x00")
                     : BYTES_LIT("\x04\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96"
                                 "\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2"));
  code = success ? MQTT_SUCCESS : code;
  begin();
  mqtt_encode_disconnect(&w, v, (enum mqtt_reason)code,
                         any_props(MQTT_P_REASON_STRING, count, len));
  PROVE(mqtt_decode_disconnect(v, written(MQTT_DISCONNECT, 0), &d) == MQTT_SUCCESS);
  PROVE(d.reason == (v == MQTT_V5 ? code : 0));
  props = d.props;
  props_are(v, count, TEXT_PROP(reason_string), MQTT_P_REASON_STRING);
}

static void disconnect(enum mqtt_version v, u32 count, u32 len) {
  disconnect_of(v, count, len, true);
  disconnect_of(v, count, len, false);
}

static void auth_of(u32 count, u32 len, bool success) {
  struct mqtt_disconnect d;
  u8 code = success ? MQTT_SUCCESS : one_of(BYTES_LIT("\x18\x19"));
  begin();
  mqtt_encode_auth(&w, (enum mqtt_reason)code, any_props(MQTT_P_AUTH_METHOD, count, len));
  PROVE(mqtt_decode_auth(written(MQTT_AUTH, 0), &d) == MQTT_SUCCESS && d.reason == code);
  props = d.props;
  props_are(MQTT_V5, count, TEXT_PROP(auth_method), MQTT_P_AUTH_METHOD);
}

static void auth(enum mqtt_version v, u32 count, u32 len) {
  auth_of(count, len, true);
  auth_of(count, len, false);
}

static void ping(enum mqtt_version v, u32 count, u32 len) {
  u8 type = nondet_bool() ? MQTT_PINGREQ : MQTT_PINGRESP;
  begin();
  mqtt_encode_ping(&w, (enum mqtt_type)type);
  PROVE(mqtt_decode_ping(written(type, 0)) == MQTT_SUCCESS);
}

// The shapes of PACKET: 3.1 and 3.1.1 (properties are given, and left out), 5.0 with 0 to 2.
void proof_packet_round(void) {
  PACKET(MQTT_V3, 2, 1);
  PACKET(MQTT_V4, 1, 1);
  PACKET(MQTT_V4, 0, 2);
  PACKET(MQTT_V5, 0, 1);
  PACKET(MQTT_V5, 1, 0);
  PACKET(MQTT_V5, 1, 2);
  PACKET(MQTT_V5, 2, 1);
  PACKET(MQTT_V5, 2, 2);
}
