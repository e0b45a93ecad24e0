// SPDX-License-Identifier: Apache-2.0
// Proves: what browsers and MQTT clients send is accepted with the right subprotocol and origin;
// what is not a WebSocket request of version 13 for MQTT gets the answer that says so; no cut of a
// request is taken for a whole one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "server/ws_request.h"
#include "tls/digest.h"

#define START "GET /mqtt HTTP/1.1\r\nHost: broker:9001\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define REST "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
#define MQTT "Sec-WebSocket-Protocol: mqtt\r\n"
#define END "\r\n"

static enum ws_answer parse(const char *text, struct ws_request *out) {
  const char *why = NULL;
  usize len = strlen(text);
  char *copy = malloc(len);  // exact, so that a read beyond is seen
  memcpy(copy, text, len);
  u32 whole = ws_request_len(bytes_of(copy, len));
  assert_true(whole == len || whole == 0);  // 0: a line without CR never ends a request
  enum ws_answer a = ws_request_parse(bytes_of(copy, len), out, &why);
  assert_true((a == WS_ANSWER_SWITCH) == (why == NULL));
  free(copy);
  return a;
}

// [MQTT-6.0.0-4]
static void good_requests(void **state) {
  (void)state;
  struct ws_request r;
  const char *text = START KEY REST MQTT END;
  assert_int_equal(parse(text, &r), WS_ANSWER_SWITCH);
  assert_int_equal(r.protocol, WS_PROTOCOL_MQTT);
  assert_false(r.has_origin);
  assert_memory_equal(text + r.key.off, "dGhlIHNhbXBsZSBub25jZQ==", 24);
  text = START KEY
      "upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
      "SEC-WEBSOCKET-VERSION:13\r\nOrigin:  https://a.example \r\n"
      "Sec-WebSocket-Protocol: mqttv3.1 , mqtt\r\nCookie: x=y; z\r\n" END;
  assert_int_equal(parse(text, &r), WS_ANSWER_SWITCH);
  assert_int_equal(r.protocol, WS_PROTOCOL_MQTT);
  assert_true(r.has_origin);
  assert_memory_equal(text + r.origin.off, "https://a.example", r.origin.len);
  assert_int_equal(parse(START KEY REST "Sec-WebSocket-Protocol: mqttv3.1\r\n" END, &r),
                   WS_ANSWER_SWITCH);
  assert_int_equal(r.protocol, WS_PROTOCOL_MQTTV3_1);
}

static void refused_requests(void **state) {
  (void)state;
  static const struct {
    const char *text;
    enum ws_answer answer;
  } cases[] = {
      {START KEY REST END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST "Sec-WebSocket-Protocol: amqp\r\n" END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST "Sec-WebSocket-Protocol: MQTT\r\n" END, WS_ANSWER_BAD_REQUEST},
      {"GET / HTTP/1.1\r\n" KEY REST MQTT END, WS_ANSWER_BAD_REQUEST},
      {"GET / HTTP/1.0\r\nHost: a\r\n" KEY REST MQTT END, WS_ANSWER_BAD_REQUEST},
      {"POST / HTTP/1.1\r\nHost: a\r\n" KEY REST MQTT END, WS_ANSWER_METHOD},
      {START END, WS_ANSWER_UPGRADE},
      {START KEY
       "Upgrade: websocket\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\n" MQTT END,
       WS_ANSWER_UPGRADE},
      {START KEY
       "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n" MQTT END,
       WS_ANSWER_UPGRADE},
      {START KEY "Upgrade: websocket\r\nConnection: Upgrade\r\n" MQTT END, WS_ANSWER_BAD_REQUEST},
      {START KEY KEY REST MQTT END, WS_ANSWER_BAD_REQUEST},
      {START REST MQTT END, WS_ANSWER_BAD_REQUEST},
      {START "Sec-WebSocket-Key: short==\r\n" REST MQTT END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST MQTT "Folded: a\r\n b\r\n" END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST MQTT "no colon\r\n" END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST MQTT "Sp ace: x\r\n" END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST MQTT "Bare: x\n" END, WS_ANSWER_BAD_REQUEST},
      {START KEY REST MQTT "Bare: \rx\r\n" END, WS_ANSWER_BAD_REQUEST},
  };
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    struct ws_request r;
    if (parse(cases[i].text, &r) != cases[i].answer) {
      fail_msg("%s: %d", cases[i].text, parse(cases[i].text, &r));
    }
  }
}

static void cut_anywhere(void **state) {
  (void)state;
  static const char text[] = START KEY REST MQTT "Origin: null\r\n" END;
  for (usize len = 0; len < sizeof text - 1; len++) {
    char *copy = malloc(len + 1);
    struct ws_request r;
    const char *why = NULL;
    memcpy(copy, text, len);
    assert_int_equal(ws_request_len(bytes_of(copy, len)), 0);
    assert_int_not_equal(ws_request_parse(bytes_of(copy, len), &r, &why), WS_ANSWER_SWITCH);
    free(copy);
  }
}

static void origins(void **state) {
  (void)state;
  static const char text[] = START KEY REST MQTT "Origin: https://a.example\r\n" END;
  struct bytes list[2] = {BYTES_LIT("https://b.example"), BYTES_LIT("https://a.example")};
  struct ws_request r;
  assert_int_equal(parse(text, &r), WS_ANSWER_SWITCH);
  assert_true(ws_origin_allowed(bytes_str(text), &r, list, 2));
  assert_false(ws_origin_allowed(bytes_str(text), &r, list, 1));
  assert_true(ws_origin_allowed(bytes_str(text), &r, list, 0));
  assert_int_equal(parse(START KEY REST MQTT END, &r), WS_ANSWER_SWITCH);
  assert_true(ws_origin_allowed(bytes_str(text), &r, list, 1));  // no browser
}

// RFC 6455 1.3's own example.
static void accept_key(void **state) {
  (void)state;
  u8 digest[TLS_SHA1_BYTES];
  u8 text[28];
  tls_sha1(BYTES_LIT("dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11"), digest);
  assert_int_equal(base64_encode(bytes_of(digest, sizeof digest), span_of(text, sizeof text)), 28);
  assert_memory_equal(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 28);
}

static void base64_vectors(void **state) {  // RFC 4648 10
  (void)state;
  static const char *const cases[][2] = {{"", ""},
                                         {"f", "Zg=="},
                                         {"fo", "Zm8="},
                                         {"foo", "Zm9v"},
                                         {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="},
                                         {"foobar", "Zm9vYmFy"}};
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    u8 out[16];
    u32 n = base64_encode(bytes_str(cases[i][0]), span_of(out, sizeof out));
    assert_int_equal(n, strlen(cases[i][1]));
    assert_memory_equal(out, cases[i][1], n);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_requests), cmocka_unit_test(refused_requests),
      cmocka_unit_test(cut_anywhere),  cmocka_unit_test(origins),
      cmocka_unit_test(accept_key),    cmocka_unit_test(base64_vectors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
