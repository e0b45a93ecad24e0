// SPDX-License-Identifier: Apache-2.0
// Proves: lines are split as mosquitto splits them, whatever ends them; line numbers count every
// line; a text cut at any byte gives parts within it and ends.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "admin/conf.h"

static void lines(void **state) {
  (void)state;
  static const char text[] =
      "# comment\n\nlistener 1883\r\n  max_qos\t 2  \n#x\nalone\nname two  "
      "words \nlast value";
  static const struct {
    u32 number;
    const char *keyword;
    const char *value;
  } want[] = {{3, "listener", "1883"},
              {4, "max_qos", "2"},
              {6, "alone", ""},
              {7, "name", "two  words"},
              {8, "last", "value"}};
  struct bytes t = bytes_str(text);
  struct conf_line l;
  u32 pos = 0;
  u32 number = 0;
  for (u32 i = 0; i < ARRAY_COUNT(want); i++) {
    assert_true(conf_next(t, &pos, &number, &l));
    assert_int_equal(l.number, want[i].number);
    assert_true(bytes_equal_str(bytes_part(t, l.keyword), want[i].keyword));
    assert_true(bytes_equal_str(bytes_part(t, l.value), want[i].value));
  }
  assert_false(conf_next(t, &pos, &number, &l));
  assert_int_equal(pos, t.len);
}

static void cut_anywhere(void **state) {
  (void)state;
  static const char text[] = "a b\r\n \t \n# c\nkeyword  value \r\n\r\n x\n";
  for (u32 len = 0; len < sizeof text; len++) {
    u8 *exact = malloc(len == 0 ? 1 : len);
    memcpy(exact, text, len);
    struct bytes t = bytes_of(exact, len);
    struct conf_line l;
    u32 pos = 0;
    u32 number = 0;
    u32 before = 0;
    while (conf_next(t, &pos, &number, &l)) {
      assert_true(pos > before && pos <= len);
      assert_true(l.keyword.len > 0 && l.keyword.off + l.keyword.len <= pos);
      assert_true(l.value.off + l.value.len <= pos);
      before = pos;
    }
    free(exact);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(cut_anywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
