// SPDX-License-Identifier: Apache-2.0
// Proves: exactly JSON is read (what jsmn lets through is refused), every cut of a text is an error
// and reads nothing outside, nodes link as json.h says, strings survive writing and reading.
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#include <setjmp.h>

#include <cmocka.h>

static struct json_node nodes[256];
static struct json j;
static struct json_fault fault;

// The text stands at the end of a block of its own: a read behind it is found.
static enum err parse_n(const char *text, usize len) {
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, text, len);
  enum err e = json_parse(bytes_of(copy, len), nodes, 256, &j, &fault);
  j.text = bytes_of(text, len);
  free(copy);
  return e;
}
static enum err parse(const char *text) {
  return parse_n(text, strlen(text));
}

static void valid(void **state) {
  static const char *const good[] = {"null",
                                     " true ",
                                     "0",
                                     "-0",
                                     "-12.5e+3",
                                     "1E9",
                                     "\"\"",
                                     "[]",
                                     "{}",
                                     "[1,2]",
                                     "[[],{}]",
                                     "{\"a\":{\"b\":[1,\"x\",null]}}",
                                     "\"\\u00e4\\ud83d\\ude00\\n\\/\"",
                                     "\"\xc3\xa4\"",
                                     "\t[\r\n1 , 2 ]\n"};
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(good); i++) {
    assert_int_equal(parse(good[i]), ERR_OK);
  }
}

static void invalid(void **state) {
  static const char *const bad[] = {"",
                                    " ",
                                    "[1 2]",
                                    "{\"a\":1 \"b\":2}",
                                    "{\"a\" \"b\"}",
                                    "[\"a\" \"b\"]",
                                    "[1,]",
                                    "[,1]",
                                    "{\"a\":}",
                                    "{\"a\"}",
                                    "{1:2}",
                                    "[01]",
                                    "[1.]",
                                    "[-]",
                                    "[tru]",
                                    "[nul]",
                                    "[1e]",
                                    "[1e+]",
                                    "{\"a\":1,}",
                                    "[\"\\ud800\"]",
                                    "[\"\\ud800\\u0041\"]",
                                    "[\"\\udc00\"]",
                                    "[\"\x80\"]",
                                    "[\"a\nb\"]",
                                    "[] []",
                                    "]",
                                    "[}",
                                    "{]",
                                    "{\"a\":1:2}",
                                    "[1:2]",
                                    "{\"a\",\"b\"}",
                                    "[\"\\x\"]",
                                    "[1]x",
                                    "{:1}",
                                    "[\"\\u0000\"]",
                                    "[\"\\u12g4\"]",
                                    "truex",
                                    "+1",
                                    ".5",
                                    "\"",
                                    "\"\\",
                                    "{\"a",
                                    "[1",
                                    "{\"a\":",
                                    "NaN",
                                    "'a'",
                                    "/**/1"};
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    if (parse(bad[i]) != ERR_MALFORMED) {
      fail_msg("%s was taken", bad[i]);
    }
    assert_int_equal(j.count, 0);
    assert_non_null(fault.what);
  }
}

// A document cut anywhere is none.
static void cut(void **state) {
  static const char text[] =
      "{\"commands\":[{\"command\":\"get\\u00e4\",\"n\":-1.5e3,\"t\":true}]}";
  (void)state;
  assert_int_equal(parse(text), ERR_OK);
  for (usize n = 0; n < sizeof text - 1; n++) {
    assert_int_equal(parse_n(text, n), ERR_MALFORMED);
  }
}

static void limits(void **state) {
  char deep[2 * JSON_DEPTH_MAX + 3];
  (void)state;
  for (u32 depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
    memset(deep, '[', depth);
    memset(deep + depth, ']', depth);
    enum err e = parse_n(deep, 2 * depth);
    assert_int_equal(e, depth <= JSON_DEPTH_MAX ? ERR_OK : ERR_LIMIT);
  }
  for (u32 room = 0; room < 4; room++) {
    enum err e = json_parse(BYTES_LIT("[1,{}]"), nodes, room, &j, &fault);
    assert_int_equal(e, room < 3 ? ERR_LIMIT : ERR_OK);
  }
  assert_int_equal(parse("[1,\n2,\n x]"), ERR_MALFORMED);
  assert_int_equal(fault.line, 3);
  assert_int_equal(fault.off, 8);
}

static void looking(void **state) {
  static const char text[] =
      "{\"a\":[1,[2,3],{\"k\":\"v\"}],\"b\":-7,\"c\":\"x\\ty\",\"d\":false,\"b\":9,\"\\u0065\":1}";
  i64 n = 0;
  bool b = true;
  u8 buf[16];
  struct bytes s;
  (void)state;
  assert_int_equal(parse(text), ERR_OK);
  u32 a = json_member(&j, 0, "a");
  assert_int_equal(json_count(&j, a), 3);
  u32 e = json_first(&j, a);
  assert_true(json_int(&j, e, 0, 5, &n) && n == 1);
  e = json_after(&j, a, e);
  assert_int_equal(json_count(&j, e), 2);
  e = json_after(&j, a, e);
  assert_true(json_is(&j, json_member(&j, e, "k"), "v"));
  assert_int_equal(json_after(&j, a, e), JSON_NONE);
  assert_true(json_int(&j, json_member(&j, 0, "b"), -10, 10, &n) && n == -7);  // the first of two
  assert_false(json_int(&j, json_member(&j, 0, "b"), 0, 10, &n));
  assert_false(json_plain(&j, json_member(&j, 0, "c"), &s));
  assert_true(json_string(&j, json_member(&j, 0, "c"), span_of(buf, 3), &s));
  assert_true(bytes_equal_str(s, "x\ty"));
  assert_false(json_string(&j, json_member(&j, 0, "c"), span_of(buf, 2), &s));
  assert_true(json_bool(&j, json_member(&j, 0, "d"), &b) && !b);
  assert_true(json_int(&j, json_member(&j, 0, "e"), 1, 1, &n));  // its name is escaped
  assert_int_equal(json_count(&j, 0), 6);
  assert_int_equal(json_member(&j, JSON_NONE, "a"), JSON_NONE);
  assert_int_equal(json_member(&j, a, "a"), JSON_NONE);
  assert_int_equal(json_first(&j, json_member(&j, 0, "b")), JSON_NONE);
  assert_false(json_int(&j, JSON_NONE, 0, 1, &n));
}

static void escapes(void **state) {
  u8 buf[32];
  struct bytes s;
  (void)state;
  assert_int_equal(parse("\"\\u00e4\\ud83d\\ude00\\\"\\u20ac\""), ERR_OK);
  assert_true(json_string(&j, 0, span_of(buf, sizeof buf), &s));
  assert_true(bytes_equal_str(s, "\xc3\xa4\xf0\x9f\x98\x80\"\xe2\x82\xac"));
}

static void writing(void **state) {
  char out[128];
  (void)state;
  struct json_out o = json_out_init(span_of(out, sizeof out));
  json_open(&o, '{');
  json_field_string(&o, "a\"", BYTES_LIT("x\\\n\xc3\xa4"));
  json_key(&o, "l");
  json_open(&o, '[');
  json_put_int(&o, -5);
  json_open(&o, '{');
  json_close(&o, '}');
  json_put_null(&o);
  json_put_raw(&o, BYTES_LIT("[1]"));
  json_close(&o, ']');
  json_field_bool(&o, "b", true);
  json_field_int(&o, "n", 7);
  json_close(&o, '}');
  assert_int_equal(o.w.err, ERR_OK);
  out[o.w.pos] = 0;
  assert_string_equal(out,
                      "{\"a\\\"\":\"x\\\\\\u000a\xc3\xa4\",\"l\":[-5,{},null,[1]],\"b\":true,"
                      "\"n\":7}");
  assert_int_equal(parse(out), ERR_OK);
  o = json_out_init(span_of(out, 5));
  json_put_string(&o, BYTES_LIT("long"));
  assert_int_equal(o.w.err, ERR_SPACE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(valid),   cmocka_unit_test(invalid), cmocka_unit_test(cut),
      cmocka_unit_test(limits),  cmocka_unit_test(looking), cmocka_unit_test(escapes),
      cmocka_unit_test(writing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
