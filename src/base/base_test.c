// SPDX-License-Identifier: Apache-2.0
// Proves: cursors are sticky and bounded, numbers and text format exactly, hashes match published
// vectors, UTF-8 accepts exactly what the Unicode table does (all 1-3 byte inputs against an
// independent decoder).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/fmt.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/utf8.h"

static void words_whatever_their_case(void **state) {
  (void)state;
  assert_true(bytes_equal_nocase(BYTES_LIT("ListClients"), "listCLIENTS"));
  assert_true(bytes_equal_nocase(BYTES_LIT(""), ""));
  assert_false(bytes_equal_nocase(BYTES_LIT("a"), "ab"));
  assert_false(
      bytes_equal_nocase(BYTES_LIT("[\x01"), "{\x01"));  // no letters: only equal to themselves
  assert_false(bytes_equal_nocase(BYTES_LIT("@"), "`"));
}

static void reader_is_sticky(void **state) {
  (void)state;
  u8 data[3] = {1, 2, 3};
  struct reader r = reader_init(bytes_of(data, 3));
  assert_int_equal(read_be16(&r), 0x0102);
  assert_int_equal(read_be16(&r), 0);
  assert_int_equal(r.err, ERR_SHORT);
  assert_int_equal(read_u8(&r), 0);  // would fit, but the error is sticky
  assert_int_equal(r.pos, 2);
}

static void writer_is_bounded(void **state) {
  (void)state;
  u8 data[4] = {0};
  struct writer w = writer_init(span_of(data, 3));
  write_be16(&w, 0x0102);
  write_be16(&w, 0x0304);
  assert_int_equal(w.err, ERR_SPACE);
  write_u8(&w, 9);
  assert_int_equal(w.pos, 2);
  assert_int_equal(data[2], 0);
}

static void numbers_parse(void **state) {
  (void)state;
  u64 v = 7;
  assert_int_equal(bytes_to_u64(BYTES_LIT("18446744073709551615"), U64_MAX, &v), ERR_OK);
  assert_true(v == U64_MAX);
  assert_int_equal(bytes_to_u64(BYTES_LIT("18446744073709551616"), U64_MAX, &v), ERR_RANGE);
  assert_int_equal(bytes_to_u64(BYTES_LIT("65536"), 65535, &v), ERR_RANGE);
  assert_int_equal(bytes_to_u64(BYTES_LIT(""), 1, &v), ERR_MALFORMED);
  assert_int_equal(bytes_to_u64(BYTES_LIT("1 "), 1, &v), ERR_MALFORMED);
}

static void text_formats(void **state) {
  (void)state;
  char buf[96];
  char want[96];
  fmt_z(buf, sizeof buf, "%5d|%-6s|%04x|%llu|%.*s|%%|%c", -42, "ab", 0x1fu, 12345678901ull, 2,
        "xyz", 'q');
  snprintf(want, sizeof want, "%5d|%-6s|%04x|%llu|%.*s|%%|%c", -42, "ab", 0x1fu, 12345678901ull, 2,
           "xyz", 'q');
  assert_string_equal(buf, want);
  assert_int_equal(fmt_z(buf, 4, "%d", 12), 2);
  fmt_z(buf, sizeof buf, "%lld", (long long)INT64_MIN);
  assert_string_equal(buf, "-9223372036854775808");
}

// Bit by bit, as the polynomial says.
static u32 crc32c_slow(u32 seed, const u8 *p, usize len) {
  u32 crc = ~seed;
  for (usize i = 0; i < len; i++) {
    crc ^= p[i];
    for (u32 bit = 0; bit < 8; bit++) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
  }
  return ~crc;
}

static void crc32c_every_length(void **state) {
  (void)state;
  u8 data[128];
  for (u32 i = 0; i < sizeof data; i++) {
    data[i] = (u8)(i * 167 + 13);
  }
  for (u32 at = 0; at < 9; at++) {
    for (u32 len = 0; at + len <= sizeof data; len++) {
      u32 want = crc32c_slow(at * 77, data + at, len);
      assert_int_equal(crc32c(at * 77, bytes_of(data + at, len)), want);
    }
  }
  for (u32 byte = 0; byte < 256; byte++) {  // every word of every table
    for (u32 place = 0; place < 8; place++) {
      u8 eight[8] = {0};
      eight[place] = (u8)byte;
      assert_int_equal(crc32c(U32_MAX, bytes_of(eight, 8)), crc32c_slow(U32_MAX, eight, 8));
    }
  }
}

static void hashes_match(void **state) {
  (void)state;
  u8 in[15];
  for (u32 i = 0; i < 15; i++) {
    in[i] = (u8)i;
  }
  struct siphash_key key = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
  assert_true(siphash(&key, bytes_of(in, 15)) == 0xa129ca6149be45e5ull);  // the authors' own vector
  assert_int_equal(crc32c(0, BYTES_LIT("123456789")), 0xe3069283);
  assert_int_equal(crc32c(crc32c(0, BYTES_LIT("1234")), BYTES_LIT("56789")), 0xe3069283);
  assert_int_equal(crc32(0, BYTES_LIT("123456789")), 0xcbf43926);
}

// Decodes one code point the long way: value first, then the rules.
static bool slow_valid(const u8 *b, u32 len) {
  u32 i = 0;
  while (i < len) {
    u32 n = b[i] < 0x80 ? 1 : b[i] >> 5 == 6 ? 2 : b[i] >> 4 == 14 ? 3 : b[i] >> 3 == 30 ? 4 : 0;
    if (n == 0 || i + n > len) {
      return false;
    }
    u32 cp = n == 1 ? b[i] : b[i] & (0xff >> (n + 1));
    for (u32 k = 1; k < n; k++) {
      if (b[i + k] >> 6 != 2) {
        return false;
      }
      cp = cp << 6 | (b[i + k] & 0x3f);
    }
    static const u32 least[5] = {0, 1, 0x80, 0x800, 0x10000};
    if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
      return false;
    }
    i += n;
  }
  return true;
}

// [MQTT-1.5.4-1] [MQTT-1.5.4-2] [MQTT-1.5.4-3] [MQTT-4.7.3-2]
static void utf8_matches_slow_decoder(void **state) {
  (void)state;
  for (u32 v = 0; v < 1u << 24; v += 1) {
    u8 b[3] = {(u8)(v >> 16), (u8)(v >> 8), (u8)v};
    if (utf8_valid(b, 3) != slow_valid(b, 3) ||
        (v < 65536 && utf8_valid(b + 1, 2) != slow_valid(b + 1, 2))) {
      fail_msg("%06x", v);
    }
    if (v < 65536) {
      bool two = b[1] == 0xc2 && b[2] < 0xa0;
      bool ascii = b[1] < 0x20 || b[1] == 0x7f || (b[1] < 0x80 && (b[2] < 0x20 || b[2] == 0x7f));
      assert_int_equal(utf8_text(b + 1, 2), slow_valid(b + 1, 2) && !two && !ascii);
      bool zero = (b[1] == 0 && b[2] < 0x80) || (b[1] < 0x80 && b[2] == 0);
      assert_int_equal(utf8_data(bytes_of(b + 1, 2)), slow_valid(b + 1, 2) || zero);
    }
  }
  for (u32 v = 0; v < 1u << 20; v++) {  // four bytes: every lead f0-f4 and a spread of tails
    u8 b[4] = {(u8)(0xf0 + v % 6), (u8)(v >> 4), (u8)(v >> 12 ^ 0x80), (u8)(v ^ 0x80)};
    if (utf8_valid(b, 4) != slow_valid(b, 4)) {
      fail_msg("%02x%02x%02x%02x", b[0], b[1], b[2], b[3]);
    }
  }
}

static void list_keeps_order(void **state) {
  (void)state;
  struct link head, a, b;
  list_init(&head);
  list_init(&a);
  list_init(&b);
  list_push(&head, &a);
  list_push(&head, &b);
  list_remove(&a);
  list_push(&head, &a);
  assert_ptr_equal(list_pop(&head), &b);
  assert_ptr_equal(list_pop(&head), &a);
  assert_null(list_pop(&head));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_whatever_their_case),
      cmocka_unit_test(crc32c_every_length),
      cmocka_unit_test(reader_is_sticky),
      cmocka_unit_test(writer_is_bounded),
      cmocka_unit_test(numbers_parse),
      cmocka_unit_test(text_formats),
      cmocka_unit_test(hashes_match),
      cmocka_unit_test(utf8_matches_slow_decoder),
      cmocka_unit_test(list_keeps_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
