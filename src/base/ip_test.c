// SPDX-License-Identifier: Apache-2.0
// Proves: addresses of both families are read, written (RFC 5952) and compared as one value; what
// is not an address is refused, also when it is cut off at every byte.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/ip.h"

static const char *text_of(struct ip_addr a) {
  static char out[IP_TEXT_MAX + 1];
  struct writer w = writer_init(span_of(out, IP_TEXT_MAX));
  ip_write(&w, a);
  assert_int_equal(w.err, ERR_OK);
  out[w.pos] = 0;
  return out;
}

static bool parse(const char *text, u32 len, struct ip_addr *out) {
  char *copy = malloc(len == 0 ? 1 : len);  // of exact size: a read beyond it is reported
  memcpy(copy, text, len);
  bool good = ip_parse(bytes_of(copy, len), out);
  free(copy);
  return good;
}

static void read_and_written(void **state) {
  (void)state;
  static const struct {
    const char *in;
    u64 hi, lo;
    const char *out;
  } table[] = {
      {"192.0.2.1", 0, 0xffffc0000201, "192.0.2.1"},
      {"0.0.0.0", 0, 0xffff00000000, "0.0.0.0"},
      {"::", 0, 0, "::"},
      {"::1", 0, 1, "::1"},
      {"fe80::1", 0xfe80ull << 48, 1, "fe80::1"},
      {"2001:DB8::", 0x20010db8ull << 32, 0, "2001:db8::"},
      {"2001:0db8:0:0:1:0:0:1", 0x20010db8ull << 32, 0x0001000000000001, "2001:db8::1:0:0:1"},
      {"2001:db8:0:1:1:1:1:1", 0x20010db800000001, 0x0001000100010001, "2001:db8:0:1:1:1:1:1"},
      {"2001:0:0:1:0:0:0:1", 0x2001000000000001, 1, "2001:0:0:1::1"},
      {"1:2:3:4:5:6:7::", 0x0001000200030004, 0x0005000600070000, "1:2:3:4:5:6:7:0"},
      {"::2:3:4:5:6:7:8", 0x0000000200030004, 0x0005000600070008, "0:2:3:4:5:6:7:8"},
      {"::ffff:192.0.2.1", 0, 0xffffc0000201, "192.0.2.1"},
      {"64:ff9b::192.0.2.33", 0x0064ff9bull << 32, 0xc0000221, "64:ff9b::c000:221"},
      {"1:2:3:4:5:6:1.2.3.4", 0x0001000200030004, 0x0005000601020304, "1:2:3:4:5:6:102:304"},
  };
  for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
    struct ip_addr a;
    struct ip_addr again;
    assert_true(parse(table[i].in, (u32)strlen(table[i].in), &a));
    assert_true(a.hi == table[i].hi && a.lo == table[i].lo);
    assert_string_equal(text_of(a), table[i].out);
    assert_true(parse(table[i].out, (u32)strlen(table[i].out), &again) && ip_equal(a, again));
    u8 wire[16];
    ip_store6(wire, a);
    assert_true(ip_equal(ip_load6(wire), a));
  }
}

static void refused(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "1.2.3",
      "1.2.3.4.5",
      "1.2.3.256",
      "01.2.3.4",
      "1.2.3.",
      ":",
      ":::",
      "1:2:3:4:5:6:7",
      "1:2:3:4:5:6:7:8:9",
      "1::2::3",
      ":1",
      "1:",
      "12345::",
      "g::",
      "1:2:3:4:5:6:7:8::",
      "[::1]",
      "fe80::1%1",
      "1.2.3.4:: ",
      "::1.2.3",
      "1:2:3:4:5:6:7:1.2.3.4",
      "::1.2.3.4:5",
      "1.2.3.4 ",
      "1:2:3:4:5:6:1.2.3.400",
  };
  for (u32 i = 0; i < ARRAY_COUNT(texts); i++) {
    struct ip_addr a;
    assert_false(parse(texts[i], (u32)strlen(texts[i]), &a));
  }
  static const char whole[] = "2001:db8:1:2:3:4:192.0.2.254";
  for (u32 n = 0; n < sizeof whole - 1; n++) {
    struct ip_addr a = IP_NONE;
    bool good = parse(whole, n, &a);
    // Whole addresses are those that end in the last number.
    assert_int_equal(good, n >= 26);
  }
}

static void prefixes(void **state) {
  (void)state;
  struct ip_addr a;
  struct ip_addr b;
  assert_true(ip_parse(BYTES_LIT("2001:db8:0:1:ffff::1"), &a));
  assert_true(ip_parse(BYTES_LIT("2001:db8:0:1:7fff::1"), &b));
  assert_true(ip_same_prefix(a, b, 0) && ip_same_prefix(a, b, 64));
  assert_false(ip_same_prefix(a, b, 65));
  assert_true(ip_same_prefix(a, a, 128));
  assert_string_equal(text_of(ip_prefix(a, 64)), "2001:db8:0:1::");
  assert_string_equal(text_of(ip_prefix(a, 66)), "2001:db8:0:1:c000::");
  assert_string_equal(text_of(ip_prefix(a, 63)), "2001:db8::");
  assert_true(ip_is4(ip_of4(0)) && !ip_is_none(ip_of4(0)) && !ip_is4(IP_NONE));
  assert_true(ip_parse(BYTES_LIT("febf::1"), &a) && ip_is_link_local6(a));
  assert_true(ip_parse(BYTES_LIT("fec0::1"), &a) && !ip_is_link_local6(a));
  assert_true(ip_parse(BYTES_LIT("ff02::1"), &a) && ip_is_multicast6(a));
}

static void with_port(void **state) {
  (void)state;
  char out[IP_TEXT_MAX + 1] = {0};
  struct writer w = writer_init(span_of(out, IP_TEXT_MAX));
  ip_write_port(&w, (struct ip_addr){0x20010db8ull << 32, 1}, 1883);
  assert_string_equal(out, "[2001:db8::1]:1883");
  w = writer_init(span_of(out, IP_TEXT_MAX));
  ip_write_port(&w, (struct ip_addr){~0ull, ~0ull}, 65535);
  assert_int_equal(w.err, ERR_OK);
  assert_int_equal(w.pos, strlen("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"));
  memset(out, 0, sizeof out);
  w = writer_init(span_of(out, IP_TEXT_MAX));
  ip_write_port(&w, ip_of4(IP4(192, 0, 2, 1)), 80);
  assert_string_equal(out, "192.0.2.1:80");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(read_and_written),
      cmocka_unit_test(refused),
      cmocka_unit_test(prefixes),
      cmocka_unit_test(with_port),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
