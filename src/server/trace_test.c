// SPDX-License-Identifier: Apache-2.0
// Proves: what a trace tells of a packet is right for each type and version, and of a packet cut at
// every byte it tells only what is there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/trace.h"

// In memory of exactly this length: a byte too far is a fault of the sanitizer.
static bool read_exactly(u8 version, const char *text, usize len, struct server_packet *p) {
  u8 *b = malloc(len + 1);
  assert_non_null(b);
  memcpy(b + 1, text, len);
  bool got = trace_read(version, false, bytes_of(b + 1, len), p);
  if (got) {  // the topic is borrowed
    assert_true(p->topic.len == 0 ||
                (p->topic.ptr > b && p->topic.ptr + p->topic.len <= b + 1 + len));
    p->topic = bytes_of(text + (p->topic.len > 0 ? p->topic.ptr - b - 1 : 0), p->topic.len);
  }
  free(b);
  return got;
}

static void each_type(void **unused) {
  static const struct {
    u8 version;
    const char *bytes;
    usize len;
    u8 type, flags;
    u32 id;
    const char *topic;
    i32 payload;  // -1: none
  } list[] = {
      {5, "\x3b\x0c\0\3a/b\0\7\2\1\1xy", 14, MQTT_PUBLISH, 11, 7, "a/b", 2},
      {4, "\x32\x09\0\3a/b\0\7xy", 11, MQTT_PUBLISH, 2, 7, "a/b", 2},
      {4, "\x30\x05\0\3a/b", 7, MQTT_PUBLISH, 0, 0, "a/b", 0},
      {5, "\x30\x03\0\0\0", 5, MQTT_PUBLISH, 0, 0, "", 0},
      {5, "\x82\x08\0\5\0\0\2a#\1", 10, MQTT_SUBSCRIBE, 2, 5, "a#", -1},
      {5, "\x82\x0a\0\5\2\x0b\1\0\2a#\1", 12, MQTT_SUBSCRIBE, 2, 5, "a#", -1},
      {4, "\xa2\x06\0\5\0\2a#", 8, MQTT_UNSUBSCRIBE, 2, 5, "a#", -1},
      {5, "\x40\x02\1\2", 4, MQTT_PUBACK, 0, 258, "", -1},
      {5, "\x62\x03\1\2\0", 5, MQTT_PUBREL, 2, 258, "", -1},
      {5, "\x10\x05\0\4MQT", 7, MQTT_CONNECT, 0, 0, "", -1},
      {5, "\xe0\x00", 2, MQTT_DISCONNECT, 0, 0, "", -1},
  };
  (void)unused;
  for (u32 i = 0; i < ARRAY_COUNT(list); i++) {
    struct server_packet p;
    assert_true(read_exactly(list[i].version, list[i].bytes, list[i].len, &p));
    assert_int_equal(p.type, list[i].type);
    assert_int_equal(p.flags, list[i].flags);
    assert_int_equal(p.len, list[i].len);
    assert_int_equal(p.id, list[i].id);
    assert_int_equal(p.topic.len, strlen(list[i].topic));
    assert_memory_equal(p.topic.ptr, list[i].topic, p.topic.len);
    assert_int_equal(p.payload_known, list[i].payload >= 0);
    assert_int_equal(p.payload_len, MAX(list[i].payload, 0));
    for (usize cut = 0; cut < list[i].len; cut++) {
      assert_int_equal(read_exactly(list[i].version, list[i].bytes, cut, &p), cut >= 2);
      if (cut >= 2) {
        assert_int_equal(p.len, list[i].len);
        assert_true(p.id == 0 || p.id == list[i].id);
        assert_true(p.topic.len <= strlen(list[i].topic));
        assert_true(!p.payload_known || (i32)p.payload_len == list[i].payload);
      }
    }
  }
}

// Lengths that lie: properties and topics beyond the packet.
static void lies(void **unused) {
  struct server_packet p;
  (void)unused;
  assert_true(read_exactly(5,
                           "\x30\x04\xff\xff"
                           "ab",
                           6, &p) &&
              !p.payload_known);
  assert_true(read_exactly(5, "\x30\x04\0\1a\x7f", 6, &p) && !p.payload_known);
  assert_true(read_exactly(5, "\x30\x07\0\1a\xff\xff\xff\xff", 9, &p) && !p.payload_known);
  assert_true(read_exactly(5, "\x82\x06\0\5\xff\xff\xff\xff", 8, &p) && p.topic.len == 0);
  assert_false(read_exactly(5, "\x30\xff\xff\xff\xff\x01", 6, &p));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_type), cmocka_unit_test(lies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
