// SPDX-License-Identifier: Apache-2.0
// Proves: frames give the same stream however they and the bytes are cut; control frames in between
// are seen and change nothing; every malformed head is refused; what was unmasked but not used
// stays as it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/ws_frame.h"

static u8 wire[4096];
static u32 wire_len;

static void put(u8 first, const void *payload, u32 len) {
  static const u8 mask[4] = {0x12, 0xa4, 0x5f, 0x01};
  wire[wire_len++] = first;
  if (len < 126) {
    wire[wire_len++] = (u8)(0x80 | len);
  } else {
    wire[wire_len++] = 0xfe;
    store_be16(wire + wire_len, (u16)len);
    wire_len += 2;
  }
  memcpy(wire + wire_len, mask, 4);
  wire_len += 4;
  for (u32 i = 0; i < len; i++) {
    wire[wire_len++] = ((const u8 *)payload)[i] ^ mask[i & 3];
  }
}

struct run {
  struct ws ws;
  u8 out[2048];
  u32 out_len;
  u32 pings;
  enum ws_take last;
};

// Feeds one piece in a block of its own; takes at most `bite` bytes of data at once.
static void run_piece(struct run *r, const u8 *bytes, u32 len, u32 bite) {
  u8 *copy = malloc(len > 0 ? len : 1);
  memcpy(copy, bytes, len);
  u32 at = 0;
  for (u32 turn = 0; turn < 10000; turn++) {
    u32 used = 0;
    struct span data;
    r->last = ws_take(&r->ws, span_of(copy + at, len - at), &used, &data);
    at += used;
    if (r->last == WS_TAKE_DATA) {
      assert_ptr_equal(data.ptr, copy + at);
      u32 n = (u32)MIN(data.len, (usize)bite);
      memcpy(r->out + r->out_len, data.ptr, n);
      r->out_len += n;
      ws_used(&r->ws, n);
      at += n;
    } else if (r->last == WS_TAKE_PING) {
      assert_int_equal(r->ws.control_len, 3);
      assert_memory_equal(r->ws.control, "abc", 3);
      r->pings++;
    } else {
      break;
    }
  }
  free(copy);
}

static void make_stream(void) {
  wire_len = 0;
  put(0x82, "hello, ", 7);
  put(0x02, "wo", 2);
  put(0x89, "abc", 3);
  put(0x00, "", 0);
  put(0x8a, "unasked", 7);
  put(0x80, "rld", 3);
  put(0x82, "", 0);
  u8 big[300];
  memset(big, 'x', sizeof big);
  put(0x82, big, sizeof big);
}

// [MQTT-6.0.0-2]
static void the_stream_is_the_same_however_cut(void **state) {
  (void)state;
  make_stream();
  for (u32 a = 0; a <= wire_len; a++) {
    for (u32 bite = 1; bite <= 400; bite = bite * 3 + 1) {
      struct run r = {.out_len = 0};
      run_piece(&r, wire, a, bite);
      run_piece(&r, wire + a, wire_len - a, bite);
      assert_int_equal(r.last, WS_TAKE_MORE);
      assert_int_equal(r.out_len, 312);
      assert_memory_equal(r.out, "hello, worldxxxx", 16);
      assert_int_equal(r.out[311], 'x');
      assert_int_equal(r.pings, 1);
    }
  }
}

static void byte_by_byte(void **state) {
  (void)state;
  make_stream();
  struct run r = {.out_len = 0};
  for (u32 i = 0; i < wire_len; i++) {
    run_piece(&r, wire + i, 1, 1);
  }
  assert_int_equal(r.out_len, 312);
  assert_memory_equal(r.out, "hello, world", 12);
}

static void data_not_used_stays_clear(void **state) {
  (void)state;
  wire_len = 0;
  put(0x82, "abcdefghij", 10);
  struct ws ws = {.left = 0};
  u32 used = 0;
  struct span data;
  assert_int_equal(ws_take(&ws, span_of(wire, 10), &used, &data), WS_TAKE_DATA);
  assert_int_equal(used, 6);
  assert_int_equal(data.len, 4);
  for (u32 i = 0; i < 3; i++) {  // offered again with more behind it: unmasked once only
    assert_int_equal(ws_take(&ws, span_of(wire + 6, 5 + i), &used, &data), WS_TAKE_DATA);
    assert_int_equal(used, 0);
    assert_memory_equal(data.ptr, "abcdefghij", data.len);
  }
  ws_used(&ws, 3);
  assert_int_equal(ws_take(&ws, span_of(wire + 9, 7), &used, &data), WS_TAKE_DATA);
  assert_memory_equal(data.ptr, "defghij", 7);
}

static enum ws_code code_after(const void *bytes, u32 len) {
  struct run r = {.out_len = 0};
  run_piece(&r, bytes, len, 1000);
  return r.last == WS_TAKE_FAILED ? (enum ws_code)r.ws.code : WS_CODE_NONE;
}

static void malformed_frames_are_refused(void **state) {
  (void)state;
  static const struct {
    u8 bytes[16];
    u32 len;
    enum ws_code code;
    const char *what;
  } cases[] = {
      {{0x82, 0x01}, 2, WS_CODE_PROTOCOL, "not masked"},
      {{0xc2, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "RSV1"},
      {{0xa2, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "RSV2"},
      {{0x92, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "RSV3"},
      {{0x83, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "opcode 3"},
      {{0x8b, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "opcode 11"},
      {{0x81, 0x80, 1, 2, 3, 4}, 6, WS_CODE_UNSUPPORTED, "text [MQTT-6.0.0-1]"},
      {{0x80, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "continues nothing"},
      {{0x02, 0x80, 1, 2, 3, 4, 0x82, 0x80, 1, 2, 3, 4}, 12, WS_CODE_PROTOCOL, "unfinished"},
      {{0x09, 0x80, 1, 2, 3, 4}, 6, WS_CODE_PROTOCOL, "a ping in pieces"},
      {{0x89, 0xfe, 0, 126, 1, 2, 3, 4}, 8, WS_CODE_PROTOCOL, "a long ping"},
      {{0x82, 0xfe, 0, 125, 1, 2, 3, 4}, 8, WS_CODE_PROTOCOL, "16 bits for 125"},
      {{0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4}, 14, WS_CODE_PROTOCOL, "64 bits"},
      {{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, 14, WS_CODE_PROTOCOL, "bit 63"},
      {{0x88, 0x81, 1, 2, 3, 4, 5}, 7, WS_CODE_PROTOCOL, "half a code"},
      {{0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4}, 14, WS_CODE_NONE, "64 KiB"},
      {{0x82, 0xfe, 0, 126, 1, 2, 3, 4}, 8, WS_CODE_NONE, "126"},
  };
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    if (code_after(cases[i].bytes, cases[i].len) != cases[i].code) {
      fail_msg("%s: %d", cases[i].what, code_after(cases[i].bytes, cases[i].len));
    }
    for (u32 cut = 0; cut < cases[i].len; cut++) {  // a part of it never crashes
      (void)code_after(cases[i].bytes, cut);
    }
  }
}

static void close_codes(void **state) {
  (void)state;
  static const struct {
    u16 code;
    enum ws_code answer;
  } cases[] = {{1000, WS_CODE_NORMAL},   {1001, WS_CODE_NORMAL},  {1005, WS_CODE_PROTOCOL},
               {1006, WS_CODE_PROTOCOL}, {999, WS_CODE_PROTOCOL}, {1016, WS_CODE_PROTOCOL},
               {3000, WS_CODE_NORMAL},   {4999, WS_CODE_NORMAL},  {5000, WS_CODE_PROTOCOL}};
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    u8 payload[4] = {(u8)(cases[i].code >> 8), (u8)cases[i].code, 'o', 'k'};
    wire_len = 0;
    put(0x88, payload, 4);
    struct run r = {.out_len = 0};
    run_piece(&r, wire, wire_len, 10);
    assert_int_equal(r.last, WS_TAKE_CLOSED);
    assert_int_equal(ws_close_code(&r.ws), cases[i].answer);
  }
  wire_len = 0;
  put(0x88, "", 0);
  struct run r = {.out_len = 0};
  run_piece(&r, wire, wire_len, 10);
  assert_int_equal(r.last, WS_TAKE_CLOSED);
  assert_int_equal(ws_close_code(&r.ws), WS_CODE_NORMAL);
}

static void our_heads(void **state) {
  (void)state;
  u8 head[WS_OUT_HEAD_MAX];
  for (u32 len = 0; len <= U16_MAX; len++) {
    u32 n = ws_head_write(head, WS_BINARY, len);
    assert_int_equal(n, ws_head_len(len));
    assert_int_equal(head[0], 0x82);
    assert_int_equal(n == 2 ? head[1] : load_be16(head + 2), len);
    assert_int_equal(n == 4, len >= 126);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_stream_is_the_same_however_cut),
      cmocka_unit_test(byte_by_byte),
      cmocka_unit_test(data_not_used_stays_clear),
      cmocka_unit_test(malformed_frames_are_refused),
      cmocka_unit_test(close_codes),
      cmocka_unit_test(our_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
