// SPDX-License-Identifier: Apache-2.0
// Proves: an MQTT session lives inside a WebSocket behind a PROXY header however the bytes are cut;
// PING is answered, CLOSE ends it with CLOSE, text frames and foreign origins are refused with the
// right answer; packets may span frames; MQTT's DISCONNECT comes before the CLOSE.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/server_test_support.h"

#define PROXY "PROXY TCP4 192.0.2.7 198.51.100.1 40000 9001\r\n"
#define UPGRADE                                                                    \
  "GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"   \
  "Sec-WebSocket-Protocol: mqtt\r\n"
static const u8 mqtt[] = {0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 60, 0, 0, 1, 't', 0xc0, 0};

static u8 text[2048];
static u32 text_len;

static void add(const void *bytes, u32 len) {
  memcpy(text + text_len, bytes, len);
  text_len += len;
}
static void add_frame(u8 first, const void *payload, u32 len) {
  u8 head[6] = {first, (u8)(0x80 | len), 9, 8, 7, 6};
  assert_true(len < 126);
  add(head, sizeof head);
  for (u32 i = 0; i < len; i++) {
    text[text_len++] = ((const u8 *)payload)[i] ^ head[2 + (i & 3)];
  }
}
static void add_start(void) {
  text_len = 0;
  add(PROXY UPGRADE "\r\n", (u32)strlen(PROXY UPGRADE "\r\n"));
}

// Where the answer to the upgrade ends in what came out.
static u32 after_switch(const struct tcp_conn *c) {
  static const char first[] = "HTTP/1.1 101 ";
  assert_true(c->out_len > 60);
  assert_memory_equal(c->out, first, sizeof first - 1);
  for (u32 i = 4; i <= c->out_len; i++) {
    if (memcmp(c->out + i - 4, "\r\n\r\n", 4) == 0) {
      return i;
    }
  }
  fail();
  return 0;
}

static struct tcp_conn *sent(const u8 *bytes, u32 len) {
  struct tcp_conn *c = open_conn();
  feed(c, bytes, len);
  turns(4);
  return c;
}

static void a_session_however_cut(void **state) {
  (void)state;
  add_start();
  add_frame(0x02, mqtt, 7);  // CONNECT in two frames, a ping between them, PINGREQ with its end
  add_frame(0x89, "hi", 2);
  add_frame(0x80, mqtt + 7, sizeof mqtt - 7);
  u8 whole[512];
  u32 whole_len = 0;
  for (u32 cut = 0; cut <= text_len; cut++) {
    struct tcp_conn *c = open_conn();
    feed(c, text, cut);
    turns(2);
    feed(c, text + cut, text_len - cut);
    turns(4);
    assert_false(c->closed);
    u32 at = after_switch(c);
    if (whole_len == 0) {
      whole_len = c->out_len - at;
      memcpy(whole, c->out + at, whole_len);
      assert_memory_equal(whole, "\x8a\2hi\x82", 5);  // PONG, then a frame with CONNACK
      assert_int_equal(whole[6], 0x20);
      assert_memory_equal(whole + whole_len - 2, "\xd0\0", 2);  // PINGRESP
    }
    // The pieces' turns may put CONNACK and PINGRESP into one frame or two: same bytes in them.
    assert_memory_equal(c->out + c->out_len - 2, "\xd0\0", 2);
    assert_memory_equal(c->out + at, whole, 5);
    drop_conn(c);
  }
  assert_int_equal(server_stats(core.server)->connections, 0);
}

static void close_is_answered(void **state) {
  (void)state;
  add_start();
  add_frame(0x82, mqtt, 16);
  add_frame(0x88, "\x03\xe8", 2);
  struct tcp_conn *c = sent(text, text_len);
  assert_true(c->closed);
  assert_memory_equal(c->out + c->out_len - 4, "\x88\2\x03\xe8", 4);
  drop_conn(c);
}

static void disconnect_comes_before_close(void **state) {
  (void)state;
  add_start();
  add_frame(0x82, mqtt, 16);
  add_frame(0x82, "\x20\2\0\0", 4);  // a CONNACK: protocol error
  struct tcp_conn *c = sent(text, text_len);
  assert_true(c->closed);
  static const u8 end[] = {0x88, 2, 0x03, 0xea};
  assert_memory_equal(c->out + c->out_len - sizeof end, end, sizeof end);
  // The frame before it holds a DISCONNECT, with a text.
  static const char why[] = "protocol error";
  u32 len = 2 + 1 + 1 + 3 + sizeof why - 1;
  const u8 *frame = c->out + c->out_len - sizeof end - 2 - len;
  const u8 head[] = {0x82, (u8)len, 0xe0, (u8)(len - 2), MQTT_PROTOCOL_ERROR};
  assert_memory_equal(frame, head, sizeof head);
  drop_conn(c);
}

static void text_frames_are_refused(void **state) {
  (void)state;
  add_start();
  add_frame(0x81, mqtt, 16);
  struct tcp_conn *c = sent(text, text_len);
  assert_true(c->closed);
  assert_memory_equal(c->out + c->out_len - 4, "\x88\2\x03\xeb", 4);
  drop_conn(c);
}

static void starts_with(const struct tcp_conn *c, const char *line) {
  assert_true(c->closed);
  assert_true(c->out_len > strlen(line));
  assert_memory_equal(c->out, line, strlen(line));
}

static void refusals_say_why(void **state) {
  (void)state;
  text_len = 0;
  add(PROXY UPGRADE "Origin: https://evil.example\r\n\r\n",
      (u32)strlen(PROXY UPGRADE "Origin: https://evil.example\r\n\r\n"));
  struct tcp_conn *c = sent(text, text_len);
  starts_with(c, "HTTP/1.1 403 Forbidden\r\n");
  drop_conn(c);
  text_len = 0;
  add(PROXY "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      (u32)strlen(PROXY "GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  c = sent(text, text_len);
  starts_with(c, "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\n");
  drop_conn(c);
  u8 *big = malloc(10000);
  memset(big, 'a', 10000);
  memcpy(big, PROXY, strlen(PROXY));
  c = sent(big, 10000);
  starts_with(c, "HTTP/1.1 431 ");
  drop_conn(c);
  free(big);
  c = sent(mqtt, sizeof mqtt);  // no PROXY header: closed without a word
  assert_true(c->closed);
  assert_int_equal(c->out_len, 0);
  drop_conn(c);
  assert_int_equal(core.server->fronts.free_count, 64);
}

static void half_a_request_times_out(void **state) {
  (void)state;
  for (u32 len = 10; len < 200; len += 100) {
    add_start();
    struct tcp_conn *c = sent(text, len);
    unit_now_ns += 11 * SEC_NS;
    turns(2);
    assert_true(c->closed);
    drop_conn(c);
  }
}

static void big_output_in_frames(void **state) {
  (void)state;
  static const u8 subscribe[] = {0x82, 7, 0, 1, 0, 0, 1, 'a', 0};
  static const u8 publish[] = {0x30, 104, 0, 1, 'a', 0};
  add_start();
  add_frame(0x82, mqtt, 16);
  add_frame(0x82, subscribe, sizeof subscribe);
  u8 packet[106] = {0};
  memcpy(packet, publish, sizeof publish);
  struct tcp_conn *c = sent(text, text_len);
  text_len = 0;
  for (u32 i = 0; i < 10; i++) {
    add_frame(0x82, packet, sizeof packet);
  }
  c->out_len = 0;
  feed(c, text, text_len);
  turns(4);
  u32 at = 0;
  u32 bytes = 0;
  while (at < c->out_len) {  // every frame is whole and binary
    assert_int_equal(c->out[at], 0x82);
    u32 n = c->out[at + 1] < 126 ? c->out[at + 1] : load_be16(c->out + at + 2);
    at += (c->out[at + 1] < 126 ? 2 : 4) + n;
    bytes += n;
  }
  assert_int_equal(at, c->out_len);
  assert_int_equal(bytes, 10 * sizeof packet);
  drop_conn(c);
}

int main(void) {
  test_listener.websockets = true;
  test_listener.proxy = 1;
  test_listener.origins[0] = BYTES_LIT("https://good.example");
  test_listener.origin_count = 1;
  start_server(32u << 20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_however_cut),
      cmocka_unit_test(close_is_answered),
      cmocka_unit_test(disconnect_comes_before_close),
      cmocka_unit_test(text_frames_are_refused),
      cmocka_unit_test(refusals_say_why),
      cmocka_unit_test(half_a_request_times_out),
      cmocka_unit_test(big_output_in_frames),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
