// SPDX-License-Identifier: Apache-2.0
// Proves: CUBIC's window follows C (t - K)^3 + W_max of RFC 9438 4.2 within two segments, comes
// back to W_max after K, is never below Reno's, and never grows by more than half in one step; fast
// convergence; HyStart++ (RFC 9406) leaves slow start when the delay of a round grows, only after
// five rounds, and comes back when the delay was not a queue.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tcp_flight.h"

#define MSS 1448u

static void reduces(void **state) {
  (void)state;
  struct cubic q = {0};
  u32 w_max = 0;
  assert_int_equal(cubic_reduce(&q, &w_max, 100 * MSS, MSS), 70 * MSS);
  assert_int_equal(w_max, 100 * MSS);
  assert_int_equal(cubic_reduce(&q, &w_max, 80 * MSS, MSS), 56 * MSS);
  assert_int_equal(w_max, 68 * MSS);  // 4.7: 80 * (1 + 0.7) / 2
  assert_int_equal(cubic_reduce(&q, &w_max, MSS, MSS), 2 * MSS);
}

// A window of 1000 segments and 100 ms: far from Reno. The reference is computed in double.
static double reference(double t, double k, double w_max) {
  double d = t - k;
  return 0.4 * d * d * d + w_max;
}

static void follows_the_cube(void **state) {
  (void)state;
  struct cubic q = {0};
  u32 w_max = 0;
  u32 cwnd = cubic_reduce(&q, &w_max, 1000 * MSS, MSS);
  double k = 9.0856;                         // cbrt(300 / 0.4)
  for (u32 ms = 0; ms <= 20000; ms += 10) {  // acknowledgements of a tenth of the window
    u32 before = cwnd;
    cwnd = cubic_grow(&q, &w_max, cwnd, cwnd / 10, MSS, (struct cubic_time){5000 + ms, 100});
    assert_true(cwnd >= before && cwnd <= before + before / 2);
    double aim = reference(ms / 1000.0 + 0.1, k, 1000.0);
    double low = reference(ms / 1000.0 - 0.1, k, 1000.0);
    if (ms > 500) {
      assert_true(cwnd <= (aim + 2) * MSS);
      assert_true(cwnd >= (low - 2) * MSS);
    }
  }
  assert_true(cwnd > 1300 * MSS);
}

static void never_below_reno(void **state) {
  (void)state;
  struct cubic q = {0};
  u32 w_max = 0;
  u32 cwnd = cubic_reduce(&q, &w_max, 20 * MSS, MSS);
  for (u32 round = 0; round < 40; round++) {  // 1 ms round trips: the cube has no time to grow
    cwnd = cubic_grow(&q, &w_max, cwnd, cwnd, MSS, (struct cubic_time){round, 1});
  }
  // 0.53 a round up to the old window (12 rounds), then one.
  assert_true(cwnd >= 42 * MSS && cwnd <= 52 * MSS);
}

static u32 ack_no;
static u32 round_of(struct hystart *h, u32 cwnd, u32 *ssthresh, u32 rtt_us) {
  u32 next = ack_no + cwnd;
  for (u32 i = 0; i < 10; i++) {
    struct slow_start s = {
        .acked = cwnd / 10, .mss = MSS, .rtt_us = rtt_us, .ack = ack_no, .snd_nxt = next};
    ack_no += cwnd / 10;
    s.ack = ack_no;
    s.snd_nxt = ack_no + cwnd;
    cwnd = hystart_grow(h, cwnd, ssthresh, &s);
  }
  ack_no = next;
  return cwnd;
}

static void slow_start_ends(void **state) {
  (void)state;
  struct hystart h = {0};
  u32 ssthresh = U32_MAX;
  u32 cwnd = 10 * MSS;
  ack_no = 1000;
  for (u32 i = 0; i < 4; i++) {  // no delay: doubles, ssthresh stays
    u32 before = cwnd;
    cwnd = round_of(&h, cwnd, &ssthresh, 40000);
    assert_true(cwnd >= before + before / 2);
  }
  assert_int_equal(ssthresh, U32_MAX);
  u32 rounds = 0;
  for (; ssthresh == U32_MAX && rounds < 20; rounds++) {
    cwnd = round_of(&h, cwnd, &ssthresh, 60000);
  }
  assert_true(rounds >= 5 && rounds <= 9);
  assert_int_equal(ssthresh, cwnd);
}

static void slow_start_resumes(void **state) {
  (void)state;
  struct hystart h = {0};
  u32 ssthresh = U32_MAX;
  u32 cwnd = 10 * MSS;
  ack_no = 1000;
  for (u32 i = 0; i < 3; i++) {
    cwnd = round_of(&h, cwnd, &ssthresh, 40000);
  }
  for (u32 i = 0; i < 3 && !h.css; i++) {
    cwnd = round_of(&h, cwnd, &ssthresh, 60000);
  }
  assert_true(h.css);
  for (u32 i = 0; i < 3; i++) {
    cwnd = round_of(&h, cwnd, &ssthresh, 40000);
  }
  assert_false(h.css);
  assert_int_equal(ssthresh, U32_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reduces),
      cmocka_unit_test(follows_the_cube),
      cmocka_unit_test(never_below_reno),
      cmocka_unit_test(slow_start_ends),
      cmocka_unit_test(slow_start_resumes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
