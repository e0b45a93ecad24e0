// SPDX-License-Identifier: Apache-2.0
// What an acknowledgement and a timer mean for a connection with a flight: the scoreboard is told,
// RACK decides what is lost, and here an episode begins and ends, during which the window follows
// proportional rate reduction (RFC 9937); without one it grows (tcp_cubic.c).
//
// E1  One episode reduces the window once, however much it loses (RFC 6675 5).
// E2  When D-SACKs have told of every byte sent again, nothing was lost: the reduction is undone.
// E3  A retransmission timeout starts again with one segment and what RACK takes for lost.
#include "net/tcp_flight.h"

#define CWND_MAX (4u << 20)

static void reduce(struct tcp_conn *c, struct tcp_flight *f) {
  f->undo_cwnd = c->cwnd;
  f->undo_ssthresh = c->ssthresh;
  f->undo_left = 0;
  f->can_undo = true;
  c->ssthresh = cubic_reduce(&f->cubic, &c->w_max, c->cwnd, c->mss);
}

static void enter_recovery(struct tcp_conn *c, struct tcp_flight *f) {
  reduce(c, f);
  f->episode = EPISODE_RECOVERY;
  f->recover = c->snd_max;
  f->prr_delivered = f->prr_out = 0;
  f->prr_flight = MAX(c->snd_max - c->snd_una - f->sacked, c->mss);
  f->pto_ns = U64_MAX;
  f->tlp_out = false;
}

// RFC 9937 6.2: as much may leave as arrives, down to ssthresh; then as much as slow start would.
static void prr(struct tcp_conn *c, struct tcp_flight *f, u32 arrived, bool progress) {
  u32 pipe = flight_pipe(c, f);
  u32 more = 0;
  f->prr_delivered += arrived;
  if (pipe > c->ssthresh) {
    u64 share = ((u64)f->prr_delivered * c->ssthresh + f->prr_flight - 1) / f->prr_flight;
    more = share > f->prr_out ? (u32)MIN(share - f->prr_out, (u64)CWND_MAX) : 0;
  } else {
    u32 owed = f->prr_delivered > f->prr_out ? f->prr_delivered - f->prr_out : 0;
    more = MIN(c->ssthresh - pipe, progress ? MAX(owed, arrived) + c->mss : owed);
  }
  if (f->prr_out == 0 || pipe == 0) {  // the first retransmission is never held back
    more = MAX(more, c->mss);
  }
  c->cwnd = MIN(pipe + more, CWND_MAX);
}

static void grow(const struct net *net, struct tcp_conn *c, u32 pipe_before,
                 const struct delivered *d) {
  struct tcp_flight *f = c->flight;
  bool slow = c->cwnd < c->ssthresh;
  if (pipe_before < (slow ? c->cwnd / 2 : c->cwnd / 4 * 3)) {
    return;  // RFC 9438 4.2: a window that was not used says nothing about the path
  }
  if (slow) {
    struct slow_start s = {.acked = d->bytes,
                           .mss = c->mss,
                           .rtt_us = d->rtt_us,
                           .ack = c->snd_una,
                           .snd_nxt = c->snd_nxt};
    c->cwnd = hystart_grow(&f->hystart, c->cwnd, &c->ssthresh, &s);
  } else {
    struct cubic_time t = {(u32)(net->core->now_ns / TCP_MS), c->srtt_us / 1000};
    c->cwnd = cubic_grow(&f->cubic, &c->w_max, c->cwnd, d->bytes, c->mss, t);
  }
  c->cwnd = MIN(c->cwnd, CWND_MAX);
}

static void take_dsack(struct tcp_conn *c, struct tcp_flight *f, const struct delivered *d) {
  u32 len = d->dsack_end - d->dsack_begin;
  rack_on_dsack(c);
  if (!f->can_undo || f->undo_left == 0) {
    return;
  }
  c->reordering = true;  // what was sent again had only been overtaken
  f->undo_left -= MIN(len, f->undo_left);
  if (f->undo_left > 0 || f->lost > 0) {
    return;
  }
  f->can_undo = false;  // E2
  c->cwnd = MAX(c->cwnd, f->undo_cwnd);
  c->ssthresh = MAX(c->ssthresh, f->undo_ssthresh);
  c->w_max = MAX(c->w_max, f->undo_cwnd);
  f->episode = EPISODE_NONE;
  f->cubic.running = false;
}

static void end_episode(struct tcp_conn *c, struct tcp_flight *f) {
  if (f->episode == EPISODE_RECOVERY) {
    c->cwnd = c->ssthresh;
    rack_recovered(c);
  }
  f->episode = EPISODE_NONE;
}

static void progress(struct net *net, struct tcp_conn *c, const struct segment *s) {
  struct tcp_flight *f = c->flight;
  tcp_acked(net, c, s->ack);
  if (f->hint != NULL && seq_lt(f->hint_seq, c->snd_una)) {
    f->hint = NULL;
  }
  c->retries = 0;
  c->dup_acks = 0;
  c->stuck_s = tcp_second(net);
  f->rto_from_ns = net->core->now_ns;
}

static void take_times(struct net *net, struct tcp_conn *c, const struct segment *s,
                       const struct delivered *d) {
  if (d->rtt_us != 0) {
    tcp_rtt_sample(c, d->rtt_us);
  } else {
    tcp_take_rtt(net, c, s);
  }
  c->timing = false;
  c->reordering = c->reordering || d->reordered;
}

void tcp_flight_on_ack(struct net *net, struct tcp_conn *c, const struct segment *s) {
  struct tcp_flight *f = c->flight;
  bool advanced = seq_lt(c->snd_una, s->ack);
  bool all = s->ack == c->snd_max;
  u32 now_us = tcp_now_us(net);
  u32 pipe_before = flight_pipe(c, f);
  u32 lost_before = f->lost;
  struct delivered d = {.fack_before = f->fack};
  if (advanced) {
    flight_acked(f, s->ack, now_us, &d);
    take_times(net, c, s, &d);
    progress(net, c, s);
  }
  flight_take_sack(f, s, now_us, &d);
  c->dup_acks = (u8)MIN(c->dup_acks + (!advanced && d.bytes > 0 ? 1u : 0u), 255u);
  bool repaired = tlp_take_ack(c, s, &d);
  rack_detect(net, c);
  if (d.dsack) {
    take_dsack(c, f, &d);
  }
  if (f->episode != EPISODE_NONE && seq_le(f->recover, s->ack)) {
    end_episode(c, f);
  }
  if (f->episode == EPISODE_NONE && f->lost > 0) {
    enter_recovery(c, f);
  } else if (f->episode == EPISODE_NONE && repaired) {  // RFC 8985 7.4.2
    reduce(c, f);
    c->cwnd = c->ssthresh;
  }
  if (f->episode == EPISODE_RECOVERY) {
    prr(c, f, d.bytes, advanced && f->lost <= lost_before);
  } else if (advanced) {
    grow(net, c, pipe_before, &d);
  }
  if (all) {
    tcp_flight_drop(net, c);
    c->rtx_ns = U64_MAX;
    c->stuck_s = 0;
  } else {
    if (advanced || d.bytes > 0) {
      tlp_schedule(net, c);
    }
    rack_arm(net, c);
  }
  tcp_touch(net, c);
}

bool tcp_flight_on_timer(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  u64 now = net->core->now_ns;
  if (now >= f->rto_from_ns + c->rto_ms * TCP_MS && now < f->pto_ns) {
    return false;
  }
  if (now >= f->reo_ns) {
    rack_detect(net, c);
    if (f->lost > 0 && f->episode == EPISODE_NONE) {
      enter_recovery(c, f);
    }
    if (f->lost > 0 && f->episode == EPISODE_RECOVERY) {
      prr(c, f, 0, false);
    }
    tcp_touch(net, c);
  } else if (now >= f->pto_ns) {  // also instead of the timeout (RFC 8985 7.2)
    tlp_send(net, c);
  }
  rack_arm(net, c);
  return true;
}

// RFC 6298 5, RFC 8985 6.3; on_rtx has doubled the timeout and counted.
void tcp_flight_timeout(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  if (c->retries > 1 || (f->range[0].stamp & RANGE_SACKED) != 0) {
    flight_forget_sack(f);
  }
  if (c->retries == 1) {
    reduce(c, f);
  }
  c->cwnd = c->mss;
  c->dup_acks = 0;
  f->episode = EPISODE_TIMEOUT;
  f->recover = c->snd_max;
  f->tlp_out = false;
  f->reo_ns = f->pto_ns = U64_MAX;
  f->rto_from_ns = net->core->now_ns;
  rack_mark_on_timeout(net, c);
  c->force = true;
  rack_arm(net, c);
  tcp_touch(net, c);
}

// RFC 1191 6.5: sent again in smaller pieces, and not a sign of congestion.
void tcp_flight_mss(struct net *net, struct tcp_conn *c) {
  struct tcp_flight *f = c->flight;
  for (u32 i = 0; i < f->count; i++) {
    flight_mark_lost(f, i);
  }
  f->episode = EPISODE_TIMEOUT;
  f->recover = c->snd_max;
  f->reo_ns = f->pto_ns = U64_MAX;
  rack_arm(net, c);
}

u32 tcp_flight_again(const struct tcp_conn *c, u32 begin, u32 end) {
  u32 pipe = flight_pipe(c, c->flight);
  u32 room = c->cwnd > pipe ? c->cwnd - pipe : 0;
  u32 edge = c->snd_una + c->snd_wnd;
  if (begin == c->snd_end) {
    return 1;  // the FIN
  }
  if (!seq_lt(begin, edge)) {
    return 0;
  }
  u32 len = (seq_lt(edge, end) ? edge : end) - begin;
  room = c->force ? MAX(room, c->mss) : room;
  return len <= room ? len : room / c->mss * c->mss;
}
