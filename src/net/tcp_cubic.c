// SPDX-License-Identifier: Apache-2.0
// How the congestion window grows: CUBIC (RFC 9438) after slow start with HyStart++ (RFC 9406), in
// integers: bytes, milliseconds, C = 0.4, beta = 0.7. Nothing here knows a connection.
//
// C1  One acknowledgement never makes the window more than half as large again (RFC 9438 4.4).
// C2  The window grows at least as Reno's with the same average would (4.3).
#include "net/tcp_flight.h"

#define T_MAX_MS 200000u  // |t - K|: beyond it the cube would not fit
#define SS_LIMIT 8u       // RFC 9406 4.3: L, segments an acknowledgement counts without pacing
#define RTT_SAMPLES 8u
#define RTT_THRESH_MIN_US 4000u
#define RTT_THRESH_MAX_US 16000u
#define CSS_ROUNDS 5u
#define CSS_DIVISOR 4u

static u32 cube_root(u64 n) {
  u64 root = 0;
  for (u64 bit = 1u << 20; bit > 0; bit >>= 1) {
    u64 next = root | bit;
    if (next * next * next <= n) {
      root = next;
    }
  }
  return (u32)root;
}

u32 cubic_reduce(struct cubic *q, u32 *w_max, u32 cwnd, u32 mss) {
  // 4.7, fast convergence: a flow that did not come to its old maximum leaves room for new ones.
  *w_max = cwnd < *w_max ? (u32)((u64)cwnd * 17 / 20) : cwnd;
  q->cwnd_prior = cwnd;
  q->running = false;
  return MAX((u32)((u64)cwnd * 7 / 10), 2 * mss);
}

static void start_epoch(struct cubic *q, u32 *w_max, u32 cwnd, u32 mss, u32 now_ms) {
  q->running = true;
  q->epoch_ms = now_ms;
  q->cwnd_epoch = cwnd;
  q->w_est_256 = cwnd << 8;
  q->k_ms = 0;
  if (cwnd < *w_max) {  // K = cbrt((W_max - cwnd) / C), in segments and seconds
    q->k_ms = cube_root((u64)(*w_max - cwnd) * 10 / (4 * mss) * 1000000000ull);
  } else {
    *w_max = cwnd;
  }
}

// W_cubic(t) = C (t - K)^3 + W_max (4.2).
static u32 w_cubic(const struct cubic *q, u32 w_max, u32 t_ms, u32 mss) {
  bool below = t_ms < q->k_ms;
  u64 d = MIN(below ? q->k_ms - t_ms : t_ms - q->k_ms, T_MAX_MS);
  u64 delta = d * d * d / 1000 * (mss * 4 / 10) / 1000000;
  delta = MIN(delta, (u64)1 << 30);
  return below ? (delta < w_max ? w_max - (u32)delta : 0) : (u32)MIN(w_max + delta, 1ull << 30);
}

u32 cubic_grow(struct cubic *q, u32 *w_max, u32 cwnd, u32 acked, u32 mss, struct cubic_time t) {
  ASSERT(cwnd > 0);
  if (!q->running) {
    start_epoch(q, w_max, cwnd, mss, t.now_ms);
  }
  u32 since = t.now_ms - q->epoch_ms;
  u64 alpha = (q->w_est_256 >> 8) < q->cwnd_prior ? 9 : 17;  // of 17: 3 (1 - beta) / (1 + beta)
  q->w_est_256 += (u32)MIN((u64)mss * acked * 256 * alpha / 17 / cwnd, 1ull << 28);
  q->w_est_256 = MIN(q->w_est_256, 1u << 31);
  if (w_cubic(q, *w_max, since, mss) < q->w_est_256 >> 8) {
    return MAX(cwnd, q->w_est_256 >> 8);  // 4.3
  }
  u32 target = w_cubic(q, *w_max, since + t.srtt_ms, mss);
  target = MIN(MAX(target, cwnd), cwnd + cwnd / 2);
  return cwnd + (u32)MIN((u64)(target - cwnd) * acked / cwnd, (u64)cwnd / 2);
}

// --- slow start

static void new_round(struct hystart *h, u32 snd_nxt) {
  h->window_end = snd_nxt;
  h->last_us = h->current_us;
  h->current_us = 0;
  h->samples = 0;
}

static void take_sample(struct hystart *h, u32 rtt_us) {
  h->current_us = h->current_us == 0 ? rtt_us : MIN(h->current_us, rtt_us);
  h->samples = (u8)MIN(h->samples + 1u, 255u);
  if (h->samples < RTT_SAMPLES) {
    return;
  }
  if (h->css) {  // 4.2: the delay has gone again, so it was not a queue of ours
    h->css = h->current_us >= h->baseline_us;
    return;
  }
  u32 thresh = MAX(RTT_THRESH_MIN_US, MIN(h->last_us / 8, RTT_THRESH_MAX_US));
  if (h->last_us != 0 && h->current_us >= h->last_us + thresh) {
    h->css = true;
    h->baseline_us = h->current_us;
    h->css_rounds = 0;
  }
}

u32 hystart_grow(struct hystart *h, u32 cwnd, u32 *ssthresh, const struct slow_start *s) {
  if (!h->started) {
    *h = (struct hystart){.started = true, .window_end = s->snd_nxt};
  }
  u32 step = MIN(s->acked, SS_LIMIT * s->mss);
  if (s->rtt_us != 0) {
    take_sample(h, s->rtt_us);
  }
  cwnd += h->css ? step / CSS_DIVISOR : step;
  if (seq_le(h->window_end, s->ack)) {
    h->css_rounds = (u8)(h->css_rounds + (h->css ? 1 : 0));
    if (h->css && h->css_rounds >= CSS_ROUNDS) {
      *ssthresh = cwnd;
    }
    new_round(h, s->snd_nxt);
  }
  return MIN(cwnd, MAX(*ssthresh, cwnd - step));
}
