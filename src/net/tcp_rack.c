// SPDX-License-Identifier: Apache-2.0
// RACK-TLP (RFC 8985): what was sent before something that has arrived, and is older than a round
// trip and a window for reordering, is lost; when acknowledgements stop, a probe fetches one.
//
// R1  Nothing is taken for lost unless something sent later is known to have arrived, or the
//     retransmission timer has run out.
// R2  The window for reordering grows with every round in which a D-SACK shows that we were wrong
//     (6.2.4), up to a smoothed round trip, and is zero until reordering was seen.
#include "net/tcp_flight.h"

#define DUP_THRESHOLD 3u
#define REO_MULT_MAX 255u
#define REO_PERSIST 16u
#define PTO_MIN_NS (10 * TCP_MS)           // our timers tick in milliseconds
#define PTO_DELAYED_ACK_NS (200 * TCP_MS)  // 7.2: with one segment out the peer may wait

static bool sent_after(u32 stamp_a, u32 end_a, u32 stamp_b, u32 end_b) {
  u32 a = stamp_a & ~RANGE_FLAGS;
  u32 b = stamp_b & ~RANGE_FLAGS;
  return seq_lt(b, a) || (a == b && seq_lt(end_b, end_a));
}

// 6.2 steps 1 to 3 for a range (or its front) that has arrived.
void rack_delivered(struct tcp_flight *f, const struct range *r, u32 now_us, struct delivered *d) {
  u32 rtt_us = MAX(range_age_us(r, now_us), 1u);
  if ((r->stamp & RANGE_AGAIN) != 0) {
    // Too soon for this copy: the first one has arrived. An eighth is left to queues, for the
    // smallest round-trip time is known only since the flight began.
    if (f->min_rtt_us == 0 || rtt_us < f->min_rtt_us - f->min_rtt_us / 8) {
      return;
    }
  } else {
    f->min_rtt_us = f->min_rtt_us == 0 ? rtt_us : MIN(f->min_rtt_us, rtt_us);
    d->rtt_us = d->rtt_us == 0 ? rtt_us : MIN(d->rtt_us, rtt_us);
    d->reordered = d->reordered || seq_lt(r->end, d->fack_before);
  }
  if (!f->rack_valid || sent_after(r->stamp, r->end, f->rack_stamp, f->rack_end)) {
    f->rack_valid = true;
    f->rack_stamp = r->stamp;
    f->rack_end = r->end;
    f->rack_rtt_us = rtt_us;
  }
}

// 6.2 step 4.
static u32 reorder_window_us(const struct tcp_conn *c, const struct tcp_flight *f) {
  bool enough = c->dup_acks >= DUP_THRESHOLD || f->sacked >= DUP_THRESHOLD * c->mss;
  if (!c->reordering && (f->episode != EPISODE_NONE || enough)) {
    return 0;
  }
  u64 window = (u64)f->min_rtt_us / 4 * (c->reo_mult + 1u);
  return (u32)(c->srtt_us != 0 ? MIN(window, (u64)c->srtt_us) : window);
}

// 6.2 step 5.
void rack_detect(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  f->reo_ns = U64_MAX;
  if (!f->rack_valid || (f->sacked == 0 && f->episode == EPISODE_NONE)) {
    return;
  }
  u32 now_us = tcp_now_us(net);
  u32 age_us = f->rack_rtt_us + reorder_window_us(c, f);
  u32 wait_us = 0;
  for (u32 i = 0; i < f->count; i++) {
    const struct range *r = &f->range[i];
    if ((r->stamp & (RANGE_SACKED | RANGE_LOST)) != 0 ||
        !sent_after(f->rack_stamp, f->rack_end, r->stamp, r->end)) {
      continue;
    }
    u32 remaining = age_us - range_age_us(r, now_us);
    if ((i32)remaining <= 0) {
      flight_mark_lost(f, i);
    } else {
      wait_us = MAX(wait_us, remaining);
    }
  }
  if (wait_us > 0) {
    f->reo_ns = net->core->now_ns + (u64)wait_us * 1000;
  }
}

void rack_on_dsack(struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  if (f->in_dsack_round && seq_lt(c->snd_una, f->dsack_round)) {
    return;  // one step a round trip
  }
  f->in_dsack_round = true;
  f->dsack_round = c->snd_max;
  c->reo_mult = (u8)MIN(c->reo_mult + 1u, REO_MULT_MAX);
  c->reo_persist = REO_PERSIST;
}

void rack_recovered(struct tcp_conn *c) {
  if (c->reo_persist > 0 && --c->reo_persist == 0) {
    c->reo_mult = 0;
  }
}

// 6.3: the first, and what is older than a round trip; the rest may still be on its way.
void rack_mark_on_timeout(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  u32 age_us = f->rack_rtt_us + reorder_window_us(c, f);
  u32 now_us = tcp_now_us(net);
  for (u32 i = 0; i < f->count; i++) {
    u32 remaining = age_us - range_age_us(&f->range[i], now_us);
    if (i == 0 || c->retries > 1 || (i32)remaining <= 0) {
      flight_mark_lost(f, i);
    }
  }
}

// --- tail loss probe

// 7.2: after new data and after progress, while all is well.
void tlp_schedule(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  f->pto_ns = U64_MAX;
  if (f->episode != EPISODE_NONE || f->sacked > 0 || f->lost > 0 || f->tlp_out || c->srtt_us == 0) {
    return;
  }
  u64 pto = MAX(2ull * c->srtt_us * 1000, PTO_MIN_NS);
  pto += c->snd_max - c->snd_una <= c->mss ? PTO_DELAYED_ACK_NS : 0;
  f->pto_ns = MIN(net->core->now_ns + pto, f->rto_from_ns + c->rto_ms * TCP_MS);
}

// 7.3: a new segment if there is one and the peer's window takes it, else the last one again.
void tlp_send(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  u32 edge = c->snd_una + c->snd_wnd;
  u32 top = c->snd_max;
  bool fresh = c->snd_end != c->snd_nxt && seq_lt(c->snd_nxt, edge);
  f->pto_ns = U64_MAX;
  if (fresh) {
    c->force = true;  // beyond the congestion window, by one segment
    tcp_touch(net, c);
  } else {
    u32 begin = top - c->snd_una > c->mss ? top - c->mss : c->snd_una;
    (void)tcp_send_again(net, c, begin, top);
  }
  f->tlp_out = true;
  f->tlp_again = !fresh;
  f->tlp_end = fresh ? top + 1 : top;
  f->rto_from_ns = net->core->now_ns;
}

bool tlp_take_ack(struct tcp_conn *c, const struct segment *s, const struct delivered *d) {
  struct tcp_flight *f = c->flight;
  if (!f->tlp_out || seq_lt(s->ack, f->tlp_end)) {
    return false;
  }
  if (!f->tlp_again || (d->dsack && d->dsack_end == f->tlp_end)) {
    f->tlp_out = false;  // the original has arrived
  } else if (seq_lt(f->tlp_end, s->ack)) {
    f->tlp_out = false;
    return true;
  } else if (d->bytes == 0 && s->opt.sack_count == 0) {
    f->tlp_out = false;  // 7.4.2: the probe's own duplicate acknowledgement
  }
  return false;
}

// One wheel timer: the earliest of the three.
void rack_arm(struct net *net, struct tcp_conn *c) {
  const struct tcp_flight *f = c->flight;
  u64 rto_ns = f->rto_from_ns + c->rto_ms * TCP_MS;
  c->rtx_ns = MIN(MIN(f->reo_ns, f->pto_ns), rto_ns);
  c->stuck_s = c->stuck_s == 0 ? tcp_second(net) : c->stuck_s;
}
