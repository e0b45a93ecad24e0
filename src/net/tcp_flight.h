// SPDX-License-Identifier: Apache-2.0
// What is on its way: the scoreboard of a connection that has data in flight and a peer with SACK,
// and with it everything that congestion control and loss detection remember only as long. Taken
// from a pool with the first byte sent and given back with the last acknowledged, so that an idle
// connection pays for a pointer. Without one (pool empty, no SACK) a connection falls back to
// NewReno (tcp_in.c).
//
// F1  range[0..count) divides [base, snd_max) without gaps; base = snd_una, a FIN counts as a byte.
// F2  sacked and lost are the sums of the bytes of ranges so marked; no range is both.
// F3  A range remembers when its youngest byte was sent last: merging makes a loss be seen later,
//     never earlier.
// F4  While there is a flight snd_nxt stands behind everything sent: nothing is rewound.
#pragma once
#include "net/tcp_conn.h"

#define FLIGHT_RANGES 480u

enum range_flag {
  RANGE_SACKED = 1,  // the peer has it
  RANGE_LOST = 2,    // taken for lost, not yet sent again
  RANGE_AGAIN = 4,   // sent more than once
};

struct range {
  u32 end;    // sequence number behind it; it begins where the one before ends
  u32 stamp;  // microseconds of the core's clock * 8 + flags, modulo 2^32 (nine minutes)
};
#define RANGE_FLAGS 7u

static inline u32 range_stamp(u32 us, u32 flags) {
  return us << 3 | flags;
}
static inline u32 range_flags(const struct range *r) {
  return r->stamp & RANGE_FLAGS;
}
static inline u32 range_age_us(const struct range *r, u32 now_us) {
  return ((now_us << 3) - (r->stamp & ~RANGE_FLAGS)) >> 3;
}

// RFC 9438, in bytes and milliseconds.
struct cubic {
  u32 cwnd_epoch, cwnd_prior;
  u32 w_est_256;  // bytes * 256
  u32 k_ms, epoch_ms;
  bool running;
};

// RFC 9406.
struct hystart {
  u32 window_end;
  u32 last_us, current_us, baseline_us;  // smallest round-trip times, 0 = none
  u8 samples, css_rounds;
  bool css, started;
};

enum episode { EPISODE_NONE, EPISODE_RECOVERY, EPISODE_TIMEOUT };

struct tcp_flight {
  u32 base, count;
  u32 sacked, lost;
  // RFC 8985 5.2, 6
  u32 rack_stamp, rack_end, rack_rtt_us, min_rtt_us;
  u32 fack;  // highest sequence number the peer is known to have
  u32 dsack_round;
  bool rack_valid, in_dsack_round;
  // the episode of recovery (RFC 6675, 9937)
  u8 episode;
  bool can_undo;
  u32 recover, prr_delivered, prr_out, prr_flight;
  u32 undo_cwnd, undo_ssthresh, undo_left;  // bytes sent again that no D-SACK has told of
  // tail loss probe (RFC 8985 7)
  bool tlp_out, tlp_again;
  u32 tlp_end;
  u64 rto_from_ns, reo_ns, pto_ns;  // U64_MAX = off
  struct cubic cubic;
  struct hystart hystart;
  struct txbuf *hint;  // holds the byte hint_seq first; NULL = none
  u32 hint_seq;
  struct range range[FLIGHT_RANGES];
};
static_assert(sizeof(struct tcp_flight) <= 4096, "admin/limits.c counts it");

// What one acknowledgement told.
struct delivered {
  u32 bytes;   // newly, cumulative and by SACK
  u32 rtt_us;  // of the youngest byte sent once, 0 = none
  bool dsack;
  u32 dsack_begin, dsack_end;
  u32 fack_before;
  bool reordered;
};

static inline u32 flight_begin(const struct tcp_flight *f, u32 i) {
  return i == 0 ? f->base : f->range[i - 1].end;
}
static inline u32 tcp_now_us(const struct net *net) {
  return (u32)(net->core->now_ns / 1000);
}
// Bytes thought to be in the network (RFC 6675 "pipe").
static inline u32 flight_pipe(const struct tcp_conn *c, const struct tcp_flight *f) {
  return c->snd_max - c->snd_una - f->sacked - f->lost;
}

// --- scoreboard (tcp_sack.c)
void tcp_flight_take(struct net *net,
                     struct tcp_conn *c);  // c->flight stays NULL when none is left
void tcp_flight_drop(struct net *net, struct tcp_conn *c);
void flight_sent(struct tcp_flight *f, u32 end, u32 now_us);
// [begin, end) was sent again.
void flight_sent_again(struct tcp_flight *f, u32 begin, u32 end, u32 now_us);
void flight_acked(struct tcp_flight *f, u32 ack, u32 now_us, struct delivered *d);
void flight_take_sack(struct tcp_flight *f, const struct segment *s, u32 now_us,
                      struct delivered *d);
// The first range taken for lost; false: none.
bool flight_first_lost(const struct tcp_flight *f, u32 *begin, u32 *end);
void flight_mark_lost(struct tcp_flight *f, u32 i);
void flight_forget_sack(struct tcp_flight *f);  // RFC 2018 8: a peer may have reneged
void flight_check(const struct tcp_conn *c);

// --- RFC 8985 (tcp_rack.c)
void rack_delivered(struct tcp_flight *f, const struct range *r, u32 now_us, struct delivered *d);
// Takes ranges for lost; arms the reordering timer for those it waits for.
void rack_detect(struct net *net, struct tcp_conn *c);
void rack_on_dsack(struct tcp_conn *c);
void rack_recovered(struct tcp_conn *c);
void rack_mark_on_timeout(struct net *net, struct tcp_conn *c);
void tlp_schedule(struct net *net, struct tcp_conn *c);
void tlp_send(struct net *net, struct tcp_conn *c);
// True: the probe had repaired a loss.
bool tlp_take_ack(struct tcp_conn *c, const struct segment *s, const struct delivered *d);
void rack_arm(struct net *net, struct tcp_conn *c);

// --- RFC 9438, 9406 (tcp_cubic.c)
struct cubic_time {
  u32 now_ms, srtt_ms;
};
// The congestion window after a loss (RFC 9438 4.6, 4.7): *w_max is kept with the connection.
u32 cubic_reduce(struct cubic *q, u32 *w_max, u32 cwnd, u32 mss);
// And after `acked` bytes in congestion avoidance.
u32 cubic_grow(struct cubic *q, u32 *w_max, u32 cwnd, u32 acked, u32 mss, struct cubic_time t);
// Slow start: the window after `acked` bytes with a round-trip time of rtt_us (0 = not measured).
// Sets *ssthresh when slow start is over.
struct slow_start {
  u32 acked, mss, rtt_us, ack, snd_nxt;
};
u32 hystart_grow(struct hystart *h, u32 cwnd, u32 *ssthresh, const struct slow_start *s);

// --- episodes (tcp_recover.c)
void tcp_flight_on_ack(struct net *net, struct tcp_conn *c, const struct segment *s);
// False: it is the retransmission timer, and it has run out.
bool tcp_flight_on_timer(struct net *net, struct tcp_conn *c);
void tcp_flight_timeout(struct net *net, struct tcp_conn *c);
void tcp_flight_mss(struct net *net, struct tcp_conn *c);  // what is out is too large for the path
// Bytes of [begin, end) may be sent again now; 0: the windows are full.
u32 tcp_flight_again(const struct tcp_conn *c, u32 begin, u32 end);
