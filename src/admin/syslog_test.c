// SPDX-License-Identifier: Apache-2.0
// Proves: a line becomes the message that RFC 5424 describes, on every day of four centuries and of
// every type; a long one is cut.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "admin/syslog.h"

static const char *written(u8 facility, u32 type, u64 unix_s, const char *text) {
  static char out[SYSLOG_MESSAGE_MAX + 1];
  struct writer w = writer_init(span_of(out, SYSLOG_MESSAGE_MAX));
  syslog_write(&w, &(struct syslog_line){facility, type, unix_s, bytes_str(text)});
  assert_int_equal(w.err, ERR_OK);
  out[w.pos] = 0;
  return out;
}

static void messages(void **state) {
  (void)state;
  assert_string_equal(written(3, LOG_ERROR, 1796083200, "x"),
                      "<27>1 2026-12-01T00:00:00Z - urmqtt - - - x");
  assert_string_equal(written(23, LOG_DEBUG, 0, "a b"), "<191>1 - - urmqtt - - - a b");
  assert_string_equal(written(0, LOG_SUBSCRIBE, 951782399, ""),
                      "<6>1 2000-02-28T23:59:59Z - urmqtt - - - ");
  char big[1000];
  memset(big, 'y', sizeof big - 1);
  big[sizeof big - 1] = 0;
  assert_int_equal(strlen(written(3, LOG_NOTICE, 1, big)), SYSLOG_MESSAGE_MAX);
}

static void every_day(void **state) {
  (void)state;
  for (u64 day = 0; day < 146097; day++) {
    time_t at = (time_t)(day * 86400 + day % 86400);
    struct tm t;
    char expected[64];
    if (at == 0) {
      continue;
    }
    gmtime_r(&at, &t);
    strftime(expected, sizeof expected, "<30>1 %Y-%m-%dT%H:%M:%SZ - urmqtt - - - z", &t);
    assert_string_equal(written(3, LOG_INFORMATION, (u64)at, "z"), expected);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(messages), cmocka_unit_test(every_day)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
