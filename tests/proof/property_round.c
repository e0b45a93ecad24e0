// SPDX-License-Identifier: Apache-2.0
// decode(encode(x)) = x for one property: wherever it may stand (5.0, table 2-4, copied here from
// the standard), behind whatever properties were read before it. What was written is read back,
// nothing else of the decoded properties changes, and the reader stands behind its last byte. By
// induction this holds for lists of any length, as a list is written property by property.
#include "mqtt/encode.h"
#include "mqtt/wire.h"
#include "round.h"

#define IN(t) (1u << MQTT_##t)
#define WILL (1u << 16)
#define ACKS (IN(PUBACK) | IN(PUBREC) | IN(PUBREL) | IN(PUBCOMP) | IN(SUBACK) | IN(UNSUBACK))

enum { BYTE = 1, TWO, FOUR, VARINT, TEXT, PAIR };
struct spec {
  u8 kind;
  u8 least;  // the smallest legal number
  u8 bit;    // 1: only 0 and 1 are legal
  u32 where;
};

static struct spec spec_of(u8 id) {
  u32 c = IN(CONNECT), ca = IN(CONNACK), p = IN(PUBLISH) | WILL;
  switch (id) {
  case 1: return (struct spec){BYTE, 0, 1, p};
  case 2: return (struct spec){FOUR, 0, 0, p};
  case 3: return (struct spec){TEXT, 0, 0, p};
  case 8: return (struct spec){TEXT, 0, 0, p};
  case 9: return (struct spec){TEXT, 0, 0, p};
  case 11: return (struct spec){VARINT, 1, 0, IN(PUBLISH) | IN(SUBSCRIBE)};
  case 17: return (struct spec){FOUR, 0, 0, c | ca | IN(DISCONNECT)};
  case 18: return (struct spec){TEXT, 0, 0, ca};
  case 19: return (struct spec){TWO, 0, 0, ca};
  case 21: return (struct spec){TEXT, 0, 0, c | ca | IN(AUTH)};
  case 22: return (struct spec){TEXT, 0, 0, c | ca | IN(AUTH)};
  case 23: return (struct spec){BYTE, 0, 1, c};
  case 24: return (struct spec){FOUR, 0, 0, WILL};
  case 25: return (struct spec){BYTE, 0, 1, c};
  case 26: return (struct spec){TEXT, 0, 0, ca};
  case 28: return (struct spec){TEXT, 0, 0, ca | IN(DISCONNECT)};
  case 31: return (struct spec){TEXT, 0, 0, ca | ACKS | IN(DISCONNECT) | IN(AUTH)};
  case 33: return (struct spec){TWO, 1, 0, c | ca};
  case 34: return (struct spec){TWO, 0, 0, c | ca};
  case 35: return (struct spec){TWO, 0, 0, IN(PUBLISH)};
  case 36: return (struct spec){BYTE, 0, 1, ca};
  case 37: return (struct spec){BYTE, 0, 1, ca};
  case 38: return (struct spec){PAIR, 0, 0, ~(IN(PINGREQ) | IN(PINGRESP))};
  case 39: return (struct spec){FOUR, 1, 0, c | ca};
  case 40: return (struct spec){BYTE, 0, 1, ca};
  case 41: return (struct spec){BYTE, 0, 1, ca};
  case 42: return (struct spec){BYTE, 0, 1, ca};
  default: return (struct spec){0};
  }
}

// What `want` is after a property was read; text at `text`.
static void set(struct mqtt_props *want, u8 id, u32 v, struct part text) {
  want->present |= 1ull << id;
  switch (id) {
  case 1: want->payload_format = (u8)v; break;
  case 2: want->message_expiry_s = v; break;
  case 3: want->content_type = text; break;
  case 8: want->response_topic = text; break;
  case 9: want->correlation_data = text; break;
  case 11:
    if (want->subscription_id_count < MQTT_SUBSCRIPTION_IDS_MAX) {
      want->subscription_id[want->subscription_id_count++] = v;
    }
    break;
  case 17: want->session_expiry_s = v; break;
  case 18: want->assigned_client_id = text; break;
  case 19: want->server_keep_alive = (u16)v; break;
  case 21: want->auth_method = text; break;
  case 22: want->auth_data = text; break;
  case 23: want->request_problem = (u8)v; break;
  case 24: want->will_delay_s = v; break;
  case 25: want->request_response = (u8)v; break;
  case 26: want->response_information = text; break;
  case 28: want->server_reference = text; break;
  case 31: want->reason_string = text; break;
  case 33: want->receive_maximum = (u16)v; break;
  case 34: want->topic_alias_maximum = (u16)v; break;
  case 35: want->topic_alias = (u16)v; break;
  case 36: want->maximum_qos = (u8)v; break;
  case 37: want->retain_available = (u8)v; break;
  case 38: want->user_count++; break;
  case 39: want->maximum_packet_size = v; break;
  case 40: want->wildcard_available = (u8)v; break;
  case 41: want->subscription_id_available = (u8)v; break;
  default: want->shared_available = (u8)v; break;
  }
}

static void one_property(u8 id, u32 text_len) {
  struct spec spec = spec_of(id);
  u8 b[24];
  u8 text[TEXT_MAX];
  u8 value[TEXT_MAX];
  struct mqtt_prop_out list[2] = {{.id = id}, {.id = 0}};
  list[0].text = any_text(text, text_len);
  list[0].value = any_text(value, TEXT_MAX - text_len);
  u32 v = list[0].number = nondet_u32();
  __CPROVER_assume(spec.kind != BYTE || v <= 255);
  __CPROVER_assume(spec.kind != TWO || v <= U16_MAX);
  __CPROVER_assume(spec.kind != VARINT || v <= MQTT_REMAINING_MAX);
  struct writer w = writer_init(span_of(b, sizeof b));
  mqtt_write_props(&w, list);
  PROVE(w.err == ERR_OK && w.pos == 1 + mqtt_props_size(list) && b[0] == w.pos - 1);
#ifdef NEGATIVE
  b[2] ^= 1;
#endif

  struct mqtt_props before;
  struct mqtt_props out = before;
  u32 type = nondet_u32();
  __CPROVER_assume(type >= 1 && type <= 16 && before.subscription_id_count <= 8);
  bool again = (before.present >> id & 1) != 0;
  struct reader r = {.base = b, .pos = 1, .end = w.pos, .err = ERR_OK};
  enum mqtt_reason got = mqtt_read_property(&r, MQTT_IN(type), &out);
  bool legal = v >= spec.least && (spec.bit == 0 || v <= 1);
  if (spec.kind == 0 || (spec.where >> type & 1) == 0) {
    PROVE(got == MQTT_MALFORMED_PACKET);
  } else if (again && id != 38 && (id != 11 || type != MQTT_PUBLISH)) {
    PROVE(got == MQTT_PROTOCOL_ERROR);
  } else if (spec.kind < TEXT && !legal) {
    PROVE(got == MQTT_PROTOCOL_ERROR);
  } else {
    PROVE(got == MQTT_SUCCESS && r.err == ERR_OK && r.pos == r.end);
    struct mqtt_props want = before;
    struct part at = {4, text_len};
    set(&want, id, v, at);
    PROVE(same_props(&out, &want));
    PROVE(spec.kind != TEXT || same_text(bytes_of(b, w.pos), at, list[0].text));
    struct part at2 = {6 + text_len, TEXT_MAX - text_len};
    PROVE(spec.kind != PAIR || (same_text(bytes_of(b, w.pos), at, list[0].text) &&
                                same_text(bytes_of(b, w.pos), at2, list[0].value)));
  }
}

void proof_number_round(void) {
  u8 id = nondet_u8();
  __CPROVER_assume(id > 0 && id < 64 && spec_of(id).kind < TEXT);
  one_property(id, 0);
}

void proof_text_round(void) {
  u8 id = nondet_u8();
  u32 text_len = nondet_u32();
  __CPROVER_assume(id > 0 && id < 64 && spec_of(id).kind >= TEXT && text_len <= TEXT_MAX);
  one_property(id, text_len);
}
