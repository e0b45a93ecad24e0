// SPDX-License-Identifier: Apache-2.0
// Proves: headers of both versions say who the client is; every cut of one asks for more bytes;
// what is almost such a header is refused, and never read as the other version.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/proxy.h"

static enum err parse(const void *bytes, usize len, u32 version, struct proxy_peer *out,
                      u32 *used) {
  u8 *copy = malloc(len > 0 ? len : 1);
  memcpy(copy, bytes, len);
  enum err e = proxy_parse(bytes_of(copy, len), version, out, used);
  free(copy);
  return e;
}

// A whole header of `len` bytes; every cut of it is short; what follows is not looked at.
static void good(const void *bytes, u32 len, u32 version, struct proxy_peer *out) {
  u8 more[PROXY_V2_MAX + 8];
  u32 used = 0;
  for (u32 cut = 0; cut < len; cut++) {
    assert_int_equal(parse(bytes, cut, version, out, &used), ERR_SHORT);
  }
  memcpy(more, bytes, len);
  memcpy(more + len, "\x10\x0c\0\4MQTT", 8);
  assert_int_equal(parse(more, len + 8, version, out, &used), ERR_OK);
  assert_int_equal(used, len);
}
static void good1(const char *line, struct proxy_peer *out) {
  good(line, (u32)strlen(line), 1, out);
}

static void version_1(void **state) {
  (void)state;
  struct proxy_peer p;
  good1("PROXY TCP4 192.0.2.7 198.51.100.1 40000 8883\r\n", &p);
  assert_true(p.known && ip_is4(p.address));
  assert_int_equal(p.port, 40000);
  assert_int_equal(ip_to4(p.address), 0xc0000207);
  good1("PROXY UNKNOWN\r\n", &p);
  assert_false(p.known);
  good1("PROXY UNKNOWN ffff::1 whatever else\r\n", &p);
  assert_false(p.known);
  static const struct {
    const char *text;
    u8 bytes[16];
  } v6[] = {
      {"2001:db8::1", {0x20, 1, 0xd, 0xb8, [15] = 1}},
      {"::", {0}},
      {"::1", {[15] = 1}},
      {"fe80::", {0xfe, 0x80}},
      {"1:2:3:4:5:6:7:8", {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8}},
      {"1::7:8", {0, 1, [13] = 7, [15] = 8}},
      {"1:2:3:4:5:6:7::", {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 0}},
  };
  for (u32 i = 0; i < ARRAY_COUNT(v6); i++) {
    char line[128];
    (void)snprintf(line, sizeof line, "PROXY TCP6 %s ::1 1 65535\r\n", v6[i].text);
    good1(line, &p);
    assert_true(p.known && !ip_is4(p.address));
    assert_true(ip_equal(p.address, ip_load6(v6[i].bytes)));
  }
}

static void version_1_refused(void **state) {
  (void)state;
  static const char *const lines[] = {
      "GET / HTTP/1.1\r\n",
      "PROXY\r\n",
      "PROXY TCP4\r\n",
      "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.4.5 1.2.3.4 1 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 02\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
      "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
      "PROXY TCP6 ::1::2 ::1 1 2\r\n",
      "PROXY TCP6 :1 ::1 1 2\r\n",
      "PROXY TCP6 1: ::1 1 2\r\n",
      "PROXY TCP6 1:2:3:4:5:6:7 ::1 1 2\r\n",
      "PROXY TCP6 1:2:3:4:5:6:7:8:9 ::1 1 2\r\n",
      "PROXY TCP6 1:2:3:4:5:6:7:8:: ::1 1 2\r\n",
      "PROXY TCP6 12345::1 ::1 1 2\r\n",
      "PROXY TCP6 g::1 ::1 1 2\r\n",
      "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
  };
  struct proxy_peer p;
  u32 used;
  for (u32 i = 0; i < ARRAY_COUNT(lines); i++) {
    if (parse(lines[i], strlen(lines[i]), 1, &p, &used) != ERR_MALFORMED || p.known) {
      fail_msg("%s", lines[i]);
    }
  }
  u8 longest[PROXY_V1_MAX];
  memset(longest, 'a', sizeof longest);
  memcpy(longest, "PROXY UNKNOWN ", 14);
  assert_int_equal(parse(longest, sizeof longest - 1, 1, &p, &used), ERR_SHORT);
  assert_int_equal(parse(longest, sizeof longest, 1, &p, &used), ERR_MALFORMED);
}

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
static const u8 v2_tls[] = SIGNATURE
    "\x21\x11\0\x20"
    "\xc0\0\2\7\xc6\x33\x64\1\x9c\x40\x22\xb3"  // 192.0.2.7:40000 -> 198.51.100.1:8883
    "\x20\0\x11\7\0\0\0\0\x22\0\4dev7\x21\0\2v1";
#define V2_TLS_LEN ((u32)sizeof v2_tls - 1)

static void version_2(void **state) {
  (void)state;
  struct proxy_peer p;
  good(v2_tls, V2_TLS_LEN, 2, &p);
  assert_true(p.known && ip_is4(p.address) && p.tls && p.verified);
  assert_int_equal(p.port, 40000);
  assert_int_equal(p.name.len, 4);
  assert_memory_equal(v2_tls + p.name.off, "dev7", 4);
  good(SIGNATURE "\x20\0\0\0", 16, 2, &p);  // LOCAL: a health check
  assert_false(p.known);
  static const u8 v6[] = SIGNATURE
      "\x21\x21\0\x24"
      "aaaabbbbccccddddAAAABBBBCCCCDDDD\0\1\0\2";
  good(v6, sizeof v6 - 1, 2, &p);
  assert_true(p.known && !ip_is4(p.address) && !p.tls);
  assert_true(ip_equal(p.address, ip_load6((const u8 *)"aaaabbbbccccdddd")));
  assert_int_equal(p.port, 1);
}

static void version_2_refused(void **state) {
  (void)state;
  struct proxy_peer p;
  u32 used;
  u8 b[sizeof v2_tls];
  for (u32 i = 0; i < 12; i++) {  // each byte of the signature counts
    memcpy(b, v2_tls, V2_TLS_LEN);
    b[i] ^= 1;
    assert_int_equal(parse(b, V2_TLS_LEN, 2, &p, &used), ERR_MALFORMED);
  }
  static const struct {
    u32 at;
    u8 value;
  } changes[] = {
      {12, 0x11}, {12, 0x22}, {13, 0x12}, {13, 0x31}, {13, 0},
      {14, 5},    {15, 11},   {15, 14},   {15, 16},  // the TLV does not fit
      {30, 0x12},                                    // TLV longer than what is left
      {38, 10},                                      // sub-TLV longer than its TLV
  };
  for (u32 i = 0; i < ARRAY_COUNT(changes); i++) {
    memcpy(b, v2_tls, V2_TLS_LEN);
    b[changes[i].at] = changes[i].value;
    if (parse(b, V2_TLS_LEN, 2, &p, &used) != ERR_MALFORMED) {
      fail_msg("byte %u = %u", changes[i].at, changes[i].value);
    }
  }
  memcpy(b, v2_tls, V2_TLS_LEN);
  b[34] = 1;  // verify: 1 is an error
  assert_int_equal(parse(b, V2_TLS_LEN, 2, &p, &used), ERR_OK);
  assert_false(p.verified);
  assert_int_equal(parse(v2_tls, V2_TLS_LEN, 1, &p, &used), ERR_MALFORMED);
  assert_int_equal(parse("PROXY UNKNOWN\r\n", 15, 2, &p, &used), ERR_MALFORMED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(version_1),
      cmocka_unit_test(version_1_refused),
      cmocka_unit_test(version_2),
      cmocka_unit_test(version_2_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
