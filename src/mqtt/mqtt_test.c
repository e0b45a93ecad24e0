// SPDX-License-Identifier: Apache-2.0
// Proves: every packet type decodes what its encoder wrote, over random structures; each valid
// packet cut at every byte, and with every byte changed, is refused or decoded inside its bounds
// (exact-size blocks under ASan); a table of malformed packets gives the reason the standard asks
// for; topic matching equals a slow matcher.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mqtt/encode.h"
#include "mqtt/topic.h"

static u64 seed = 11;
static u32 draw(u32 below) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % below;
}

// Decodes by type with both versions; the result's reason.
static enum mqtt_reason decode_any(enum mqtt_version v, struct bytes p) {
  union {
    struct mqtt_connect connect;
    struct mqtt_connack connack;
    struct mqtt_publish publish;
    struct mqtt_ack ack;
    struct mqtt_subscribe subscribe;
    struct mqtt_suback suback;
    struct mqtt_disconnect disconnect;
  } u;
  struct mqtt_header h;
  if (mqtt_fixed_header(p, &h) != ERR_OK) {
    return MQTT_MALFORMED_PACKET;
  }
  switch (h.type) {
  case MQTT_CONNECT: return mqtt_decode_connect(p, &u.connect);
  case MQTT_CONNACK: return mqtt_decode_connack(v, p, &u.connack);
  case MQTT_PUBLISH: return mqtt_decode_publish(v, p, &u.publish);
  case MQTT_PUBACK:
  case MQTT_PUBREC:
  case MQTT_PUBREL:
  case MQTT_PUBCOMP: return mqtt_decode_ack(v, p, &u.ack);
  case MQTT_SUBSCRIBE: return mqtt_decode_subscribe(v, p, &u.subscribe);
  case MQTT_UNSUBSCRIBE: return mqtt_decode_unsubscribe(v, p, &u.subscribe);
  case MQTT_SUBACK:
  case MQTT_UNSUBACK: return mqtt_decode_suback(v, p, &u.suback);
  case MQTT_PINGREQ:
  case MQTT_PINGRESP: return mqtt_decode_ping(p);
  case MQTT_DISCONNECT: return mqtt_decode_disconnect(v, p, &u.disconnect);
  case MQTT_AUTH: return mqtt_decode_auth(p, &u.disconnect);
  default: return MQTT_MALFORMED_PACKET;
  }
}

// In a block of exactly its size, so that a byte too many is seen.
static enum mqtt_reason decode_exact(enum mqtt_version v, const u8 *p, u32 len) {
  u8 *block = malloc(len + (len == 0));
  memcpy(block, p, len);
  enum mqtt_reason r = decode_any(v, bytes_of(block, len));
  free(block);
  return r;
}

static const struct mqtt_prop_out user_prop = {
    .id = MQTT_P_USER_PROPERTY, .text = {(const u8 *)"k", 1}, .value = {(const u8 *)"vv", 2}};

// One valid packet of each kind into buf; returns its length, 0 beyond the last.
static u32 sample(u32 n, enum mqtt_version v, u8 *buf, u32 cap) {
  struct writer w = writer_init(span_of(buf, cap));
  bool v5 = v == MQTT_V5;
  struct mqtt_prop_out message[] = {{.id = MQTT_P_PAYLOAD_FORMAT, .number = 1},
                                    {.id = MQTT_P_MESSAGE_EXPIRY, .number = 77},
                                    {.id = MQTT_P_CONTENT_TYPE, .text = BYTES_LIT("text")},
                                    {.id = MQTT_P_RESPONSE_TOPIC, .text = BYTES_LIT("r/t")},
                                    {.id = MQTT_P_CORRELATION_DATA, .text = BYTES_LIT("\0\1")},
                                    user_prop,
                                    user_prop,
                                    {0}};
  struct mqtt_prop_out connect[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = 100},
                                    {.id = MQTT_P_RECEIVE_MAXIMUM, .number = 9},
                                    {.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = 500},
                                    {.id = MQTT_P_TOPIC_ALIAS_MAXIMUM, .number = 3},
                                    {.id = MQTT_P_REQUEST_PROBLEM, .number = 0},
                                    user_prop,
                                    {0}};
  struct mqtt_prop_out connack[] = {{.id = MQTT_P_RECEIVE_MAXIMUM, .number = 9},
                                    {.id = MQTT_P_MAXIMUM_QOS, .number = 1},
                                    {.id = MQTT_P_ASSIGNED_CLIENT_ID, .text = BYTES_LIT("c")},
                                    {.id = MQTT_P_SERVER_KEEP_ALIVE, .number = 5},
                                    {.id = MQTT_P_SHARED_AVAILABLE, .number = 0},
                                    user_prop,
                                    {0}};
  struct mqtt_prop_out reason[] = {
      {.id = MQTT_P_REASON_STRING, .text = BYTES_LIT("why")}, user_prop, {0}};
  struct mqtt_prop_out id[] = {{.id = MQTT_P_SUBSCRIPTION_ID, .number = 300}, user_prop, {0}};
  struct mqtt_entry_out entries[] = {
      {BYTES_LIT("a/+/c"), 1}, {BYTES_LIT("#"), 2}, {BYTES_LIT("x"), 0}};
  switch (n) {
  case 0:
    mqtt_encode_connect(&w, &(struct mqtt_connect_out){.version = v,
                                                       .clean_start = true,
                                                       .has_will = true,
                                                       .will_qos = 1,
                                                       .has_username = true,
                                                       .has_password = true,
                                                       .keep_alive_s = 60,
                                                       .client_id = BYTES_LIT("client"),
                                                       .will_topic = BYTES_LIT("will/t"),
                                                       .will_payload = BYTES_LIT("gone"),
                                                       .username = BYTES_LIT("user"),
                                                       .password = BYTES_LIT("pass"),
                                                       .props = connect,
                                                       .will_props = message});
    break;
  case 1: mqtt_encode_connack(&w, v, true, MQTT_SUCCESS, v5 ? connack : NULL); break;
  case 2:
  case 3:
    mqtt_encode_publish_head(&w, v,
                             &(struct mqtt_publish_out){.qos = n == 2 ? 0 : 2,
                                                        .packet_id = n == 2 ? 0 : 7,
                                                        .topic = BYTES_LIT("a/b"),
                                                        .props = message,
                                                        .payload_len = 3});
    write_bytes(&w, BYTES_LIT("xyz"));
    break;
  case 4: mqtt_encode_ack(&w, v, MQTT_PUBACK, 9, MQTT_NO_MATCHING_SUBSCRIBERS, reason); break;
  case 5: mqtt_encode_ack(&w, v, MQTT_PUBREC, 9, MQTT_SUCCESS, NULL); break;
  case 6: mqtt_encode_ack(&w, v, MQTT_PUBREL, 9, MQTT_PACKET_ID_NOT_FOUND, NULL); break;
  case 7: mqtt_encode_ack(&w, v, MQTT_PUBCOMP, 9, MQTT_SUCCESS, reason); break;
  case 8: mqtt_encode_subscribe(&w, v, 5, id, entries, 3); break;
  case 9: mqtt_encode_suback(&w, v, MQTT_SUBACK, 5, BYTES_LIT("\0\1\2\x80"), reason); break;
  case 10: mqtt_encode_unsubscribe(&w, v, 6, id + 1, entries, 3); break;
  case 11: mqtt_encode_suback(&w, v, MQTT_UNSUBACK, 5, BYTES_LIT("\0\x11"), reason); break;
  case 12: mqtt_encode_ping(&w, MQTT_PINGREQ); break;
  case 13: mqtt_encode_ping(&w, MQTT_PINGRESP); break;
  case 14: mqtt_encode_disconnect(&w, v, MQTT_QUOTA_EXCEEDED, reason); break;
  case 15:
    mqtt_encode_auth(&w, MQTT_CONTINUE_AUTHENTICATION,
                     (struct mqtt_prop_out[]){{.id = MQTT_P_AUTH_METHOD, .text = BYTES_LIT("m")},
                                              {.id = MQTT_P_AUTH_DATA, .text = BYTES_LIT("d")},
                                              {0}});
    break;
  default: return 0;
  }
  assert_int_equal(w.err, ERR_OK);
  return w.pos;
}

static void samples_decode(void **state) {
  (void)state;
  u8 buf[512];
  for (u32 k = 0; k < 2; k++) {
    enum mqtt_version v = k ? MQTT_V5 : MQTT_V4;
    u32 len = 0;
    for (u32 n = 0; (len = sample(n, v, buf, sizeof buf)) > 0; n++) {
      enum mqtt_reason r = decode_exact(v, buf, len);
      if (r != MQTT_SUCCESS && !(v == MQTT_V4 && n == 15)) {
        fail_msg("sample %u version %u: 0x%02x", n, v, r);
      }
    }
  }
}

// Cut at every byte: as sent (length says more), and with the length set to what is left.
static void truncation_is_refused(void **state) {
  (void)state;
  u8 buf[512];
  u8 cut[512];
  for (u32 k = 0; k < 2; k++) {
    enum mqtt_version v = k ? MQTT_V5 : MQTT_V4;
    u32 len = 0;
    for (u32 n = 0; (len = sample(n, v, buf, sizeof buf)) > 0; n++) {
      struct mqtt_header h;
      assert_int_equal(mqtt_fixed_header(bytes_of(buf, len), &h), ERR_OK);
      for (u32 keep = 0; keep < len; keep++) {
        assert_int_not_equal(decode_exact(v, buf, keep), MQTT_SUCCESS);
      }
      u32 body = len - h.header_len;
      for (u32 keep = 0; keep < body && keep < 128; keep++) {
        cut[0] = buf[0];
        cut[1] = (u8)keep;
        memcpy(cut + 2, buf + h.header_len, keep);
        enum mqtt_reason r = decode_exact(v, cut, keep + 2);
        bool may = n == 15 || n == 2 || n == 3 || n == 8 || n == 9 || n == 10 ||
                   n == 11 ||  // shorter ones are valid
                   (v == MQTT_V5 && (n == 4 || n == 6 || n == 7 || n == 14));
        if (r == MQTT_SUCCESS && !may) {
          fail_msg("sample %u version %u cut to %u is accepted", n, v, keep);
        }
      }
    }
  }
}

static void changed_bytes_stay_inside(void **state) {
  (void)state;
  u8 buf[512];
  u8 copy[512];
  for (u32 k = 0; k < 2; k++) {
    enum mqtt_version v = k ? MQTT_V5 : MQTT_V4;
    u32 len = 0;
    for (u32 n = 0; (len = sample(n, v, buf, sizeof buf)) > 0; n++) {
      for (u32 at = 0; at < len; at++) {
        for (u32 value = 0; value < 256; value++) {
          memcpy(copy, buf, len);
          copy[at] = (u8)value;
          (void)decode_exact(v, copy, len);
        }
      }
    }
  }
}

static void malformed_gives_the_reason(void **state) {
  (void)state;
  static const struct {
    enum mqtt_version v;
    enum mqtt_reason want;
    u8 len;
    u8 p[40];
  } table[] = {
      {MQTT_V5, MQTT_MALFORMED_PACKET, 2, {0x00, 0}},                             // type 0
      {MQTT_V5, MQTT_MALFORMED_PACKET, 2, {0xc1, 0}},                             // PINGREQ flags
      {MQTT_V4, MQTT_MALFORMED_PACKET, 7, {0x36, 5, 0, 1, 'a', 0, 1}},            // QoS 3
      {MQTT_V4, MQTT_MALFORMED_PACKET, 5, {0x38, 3, 0, 1, 'a'}},                  // DUP, QoS 0
      {MQTT_V4, MQTT_MALFORMED_PACKET, 7, {0x32, 5, 0, 1, 'a', 0, 0}},            // identifier 0
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 8, {0x32, 6, 0, 1, 'a', 0, 0, 0}},           // the same in 5.0
      {MQTT_V4, MQTT_TOPIC_NAME_INVALID, 5, {0x30, 3, 0, 1, '+'}},                // wildcard
      {MQTT_V4, MQTT_PROTOCOL_ERROR, 4, {0x30, 2, 0, 0}},                         // empty topic
      {MQTT_V5, MQTT_TOPIC_ALIAS_INVALID, 9, {0x30, 7, 0, 1, 'a', 3, 35, 0, 0}},  // alias 0
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 10, {0x30, 8, 0, 1, 'a', 4, 1, 0, 1, 0}},    // twice
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 8, {0x30, 6, 0, 1, 'a', 2, 1, 2}},           // value 2
      {MQTT_V5, MQTT_MALFORMED_PACKET, 11, {0x30, 9, 0, 1, 'a', 5, 17, 0, 0, 0, 1}},  // not here
      {MQTT_V5, MQTT_MALFORMED_PACKET, 8, {0x30, 6, 0, 1, 'a', 2, 0x80, 0}},          // not minimal
      {MQTT_V4, MQTT_MALFORMED_PACKET, 4, {0x82, 2, 0, 1}},                           // no filter
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 5, {0x82, 3, 0, 1, 0}},                          // the same
      {MQTT_V4, MQTT_MALFORMED_PACKET, 8, {0x82, 6, 0, 1, 0, 1, 'a', 3}},             // QoS 3
      {MQTT_V4, MQTT_MALFORMED_PACKET, 8, {0x82, 6, 0, 1, 0, 1, 'a', 4}},             // reserved
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 9, {0x82, 7, 0, 1, 0, 0, 1, 'a', 0x30}},         // handling 3
      {MQTT_V4, MQTT_TOPIC_FILTER_INVALID, 10, {0x82, 8, 0, 1, 0, 3, '#', '/', 'a', 0}},
      {MQTT_V5,
       MQTT_TOPIC_FILTER_INVALID,
       17,
       {0x82, 15, 0, 1, 0, 0, 9, '$', 's', 'h', 'a', 'r', 'e', '/', '+', '/', 0}},
      {MQTT_V5,
       MQTT_PROTOCOL_ERROR,
       18,
       {0x82, 16, 0, 1, 0, 0, 10, '$', 's', 'h', 'a', 'r', 'e', '/', 'g', '/', 'a', 4}},
      {MQTT_V4, MQTT_MALFORMED_PACKET, 7, {0x30, 5, 0, 3, 0xed, 0xa0, 0x80}},  // surrogate
      {MQTT_V4, MQTT_MALFORMED_PACKET, 5, {0x30, 3, 0, 1, 0}},                 // U+0000
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 5, {0x40, 3, 0, 1, 0x01}},                // reason
      {MQTT_V5, MQTT_PROTOCOL_ERROR, 3, {0xe0, 1, 0x02}},                      // reason
      {MQTT_V4, MQTT_MALFORMED_PACKET, 3, {0xe0, 1, 0x00}},                    // body
      {MQTT_V4,
       MQTT_UNSUPPORTED_VERSION,
       14,
       {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 6, 2, 0, 0, 0, 0}},
      {MQTT_V4, MQTT_MALFORMED_PACKET, 14, {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 3, 0, 0, 0, 0}},
      {MQTT_V4,
       MQTT_MALFORMED_PACKET,
       14,
       {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 0x42, 0, 0, 0, 0}},
      {MQTT_V4,
       MQTT_MALFORMED_PACKET,
       14,
       {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 0x0a, 0, 0, 0, 0}},
      {MQTT_V4, MQTT_MALFORMED_PACKET, 14, {0x10, 12, 0, 4, 'M', 'Q', 'T', 'X', 4, 2, 0, 0, 0, 0}},
      {MQTT_V5,
       MQTT_PROTOCOL_ERROR,
       18,
       {0x10, 16, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 3, 33, 0, 0, 0, 0}},  // receive maximum 0
      {MQTT_V5,
       MQTT_PROTOCOL_ERROR,
       18,
       {0x10, 16, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 3, 22, 0, 0, 0, 0}},  // data, no method
  };
  for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
    enum mqtt_reason got = decode_exact(table[i].v, table[i].p, table[i].len);
    if (got != table[i].want) {
      fail_msg("row %u: got 0x%02x, want 0x%02x", i, got, table[i].want);
    }
  }
}

static void lengths_are_minimal_and_bounded(void **state) {
  (void)state;
  struct mqtt_header h;
  assert_int_equal(mqtt_fixed_header(BYTES_LIT("\x30\xff\xff\xff\x7f"), &h), ERR_OK);
  assert_int_equal(h.remaining_len, MQTT_REMAINING_MAX);
  assert_int_equal(mqtt_fixed_header(BYTES_LIT("\x30\xff\xff\xff\xff\x01"), &h), ERR_MALFORMED);
  assert_int_equal(mqtt_fixed_header(BYTES_LIT("\x30\x80\x00"), &h), ERR_MALFORMED);
  assert_int_equal(mqtt_fixed_header(BYTES_LIT("\x30\x80"), &h), ERR_SHORT);
  assert_int_equal(mqtt_fixed_header(BYTES_LIT(""), &h), ERR_SHORT);
}

static void random_publishes_come_back(void **state) {
  (void)state;
  u8 buf[2048];
  u8 load[1024];
  for (u32 i = 0; i < 20000; i++) {
    enum mqtt_version v = draw(2) ? MQTT_V5 : MQTT_V4;
    char topic[64];
    u32 topic_len = (u32)snprintf(topic, sizeof topic, "t/%u/%.*s", draw(1000), (int)draw(30),
                                  "abcdefghijklmnopqrstuvwxyzabcdefg");
    struct mqtt_prop_out props[4] = {0};
    u32 n = 0;
    if (draw(2)) {
      props[n++] = (struct mqtt_prop_out){.id = MQTT_P_MESSAGE_EXPIRY, .number = draw(1u << 30)};
    }
    if (draw(2)) {
      props[n++] = (struct mqtt_prop_out){.id = MQTT_P_TOPIC_ALIAS, .number = 1 + draw(65535)};
    }
    struct mqtt_publish_out out = {.qos = (u8)draw(3),
                                   .retain = draw(2) != 0,
                                   .topic = bytes_of(topic, topic_len),
                                   .props = props,
                                   .payload_len = draw(1000)};
    out.packet_id = out.qos > 0 ? (u16)(1 + draw(65535)) : 0;
    out.dup = out.qos > 0 && draw(2);
    struct writer w = writer_init(span_of(buf, sizeof buf));
    mqtt_encode_publish_head(&w, v, &out);
    write_bytes(&w, bytes_of(load, out.payload_len));
    assert_int_equal(w.err, ERR_OK);
    assert_int_equal(w.pos, mqtt_publish_size(v, &out));
    struct mqtt_publish in;
    assert_int_equal(mqtt_decode_publish(v, writer_bytes(&w), &in), MQTT_SUCCESS);
    assert_int_equal(in.qos, out.qos);
    assert_int_equal(in.dup, out.dup);
    assert_int_equal(in.retain, out.retain);
    assert_int_equal(in.packet_id, out.packet_id);
    assert_int_equal(in.payload.len, out.payload_len);
    assert_true(bytes_equal(bytes_part(writer_bytes(&w), in.topic), out.topic));
    for (u32 k = 0; v == MQTT_V5 && k < n; k++) {
      bool expiry = props[k].id == MQTT_P_MESSAGE_EXPIRY;
      assert_int_equal(expiry ? in.props.message_expiry_s : in.props.topic_alias, props[k].number);
    }
  }
}

static void user_properties_are_walked_and_copied(void **state) {
  (void)state;
  u8 buf[512];
  u8 copy[512];
  u32 len = sample(3, MQTT_V5, buf, sizeof buf);
  struct mqtt_publish p;
  assert_int_equal(mqtt_decode_publish(MQTT_V5, bytes_of(buf, len), &p), MQTT_SUCCESS);
  u32 pos = p.props.all.off;
  struct part name, value;
  u32 n = 0;
  while (mqtt_user_property(bytes_of(buf, len), &p.props, &pos, &name, &value)) {
    assert_true(bytes_equal_str(bytes_part(bytes_of(buf, len), value), "vv"));
    n++;
  }
  assert_int_equal(n, 2);
  assert_int_equal(p.props.user_count, 2);
  struct writer w = writer_init(span_of(copy, sizeof copy));
  mqtt_copy_props(bytes_of(buf, len), &p.props, 1ull << MQTT_P_MESSAGE_EXPIRY, &w);
  assert_int_equal(w.pos, p.props.all.len - 5);  // the expiry's identifier and four bytes
}

static void entries_are_walked(void **state) {
  (void)state;
  u8 buf[512];
  u32 len = sample(8, MQTT_V5, buf, sizeof buf);
  struct mqtt_subscribe s;
  assert_int_equal(mqtt_decode_subscribe(MQTT_V5, bytes_of(buf, len), &s), MQTT_SUCCESS);
  assert_int_equal(s.entry_count, 3);
  assert_int_equal(s.props.subscription_id[0], 300);
  u32 pos = s.entries.off;
  struct mqtt_entry e;
  static const u8 qos[] = {1, 2, 0};
  for (u32 i = 0; i < 3; i++) {
    assert_true(mqtt_subscribe_entry(bytes_of(buf, len), &s, &pos, &e));
    assert_int_equal(e.qos, qos[i]);
  }
  assert_false(mqtt_subscribe_entry(bytes_of(buf, len), &s, &pos, &e));
}

// Level by level on copies, with an array of levels.
static bool slow_match(const char *filter, const char *name) {
  char f[64], n[64];
  char *fl[32], *nl[32];
  u32 fc = 0, nc = 0;
  strcpy(f, filter);
  strcpy(n, name);
  for (char *p = f;; p++) {
    fl[fc++] = p;
    p = strchr(p, '/');
    if (!p) {
      break;
    }
    *p = 0;
  }
  for (char *p = n;; p++) {
    nl[nc++] = p;
    p = strchr(p, '/');
    if (!p) {
      break;
    }
    *p = 0;
  }
  if (name[0] == '$' && (filter[0] == '+' || filter[0] == '#')) {
    return false;
  }
  for (u32 i = 0;; i++) {
    if (i < fc && strcmp(fl[i], "#") == 0) {
      return true;
    }
    if (i == fc || i == nc) {
      return i == fc && i == nc;
    }
    if (strcmp(fl[i], "+") != 0 && strcmp(fl[i], nl[i]) != 0) {
      return false;
    }
  }
}

static void topics_match_like_the_slow_matcher(void **state) {
  (void)state;
  static const char *const levels[] = {"a", "b", "", "+", "#", "$x", "ab"};
  u32 valid = 0;
  for (u32 i = 0; i < 300000; i++) {
    char filter[64] = "", name[64] = "";
    u32 fl = 1 + draw(4), nl = 1 + draw(4);
    for (u32 k = 0; k < fl; k++) {
      strcat(strcat(filter, k ? "/" : ""), levels[draw(7)]);
    }
    for (u32 k = 0; k < nl; k++) {
      static const char *const plain[] = {"a", "b", "", "$x", "ab"};
      strcat(strcat(name, k ? "/" : ""), plain[draw(5)]);
    }
    if (!topic_filter_valid(bytes_str(filter)) || !topic_name_valid(bytes_str(name))) {
      continue;
    }
    valid++;
    if (topic_matches(bytes_str(filter), bytes_str(name)) != slow_match(filter, name)) {
      fail_msg("filter \"%s\" name \"%s\"", filter, name);
    }
  }
  assert_true(valid > 50000);
}

static void filters_are_judged(void **state) {
  (void)state;
  static const char *const good[] = {"#",      "+", "/", "a/#", "+/a/+", "a//b", "$share/g/a/#",
                                     "$SYS/#", "/+"};
  static const char *const bad[] = {"",     "a#",       "#/a",       "a+",         "+a",
                                    "a/+b", "$share/g", "$share//a", "$share/+/a", "$share/g/"};
  for (u32 i = 0; i < ARRAY_COUNT(good); i++) {
    assert_true(topic_filter_valid(bytes_str(good[i])));
  }
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    if (topic_filter_valid(bytes_str(bad[i]))) {
      fail_msg("\"%s\"", bad[i]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_decode),
      cmocka_unit_test(truncation_is_refused),
      cmocka_unit_test(changed_bytes_stay_inside),
      cmocka_unit_test(malformed_gives_the_reason),
      cmocka_unit_test(lengths_are_minimal_and_bounded),
      cmocka_unit_test(random_publishes_come_back),
      cmocka_unit_test(user_properties_are_walked_and_copied),
      cmocka_unit_test(entries_are_walked),
      cmocka_unit_test(topics_match_like_the_slow_matcher),
      cmocka_unit_test(filters_are_judged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
