// SPDX-License-Identifier: Apache-2.0
// Receiving, in the order of RFC 9293 3.10.7.4: sequence, RST, SYN, ACK, then data and FIN
// (tcp_data.c). RFC 5961 decides what a RST or SYN inside the window may do, RFC 7323 throws away
// old duplicates, RFC 6191 lets a new SYN end a TIME-WAIT. Congestion control is NewReno (RFC 5681,
// 6582) with an initial window of ten segments (6928).
//
// I1  Nothing a peer sends makes a connection that it could not make by the table of RFC 9293.
// I2  A refused SYN leaves no state and gets no answer (DESIGN 5).
// I3  Answers to what is not acceptable are limited: per connection for challenges, per core for
//     RST.
#include "net/tcp_flight.h"
#include "net/tcp_half.h"

#define RST_RATE 200u
#define PAWS_IDLE_S (24u * 24 * 3600)  // RFC 7323 5.5
#define RTO_MIN_MS 200u
#define RTO_MAX_MS 60000u

// --- round-trip time (RFC 6298) and congestion window (RFC 5681, 6582, 6928)

void tcp_rtt_sample(struct tcp_conn *c, u32 us) {
  us = MAX(us, 1);
  if (c->srtt_us == 0) {
    c->srtt_us = us;
    c->rttvar_us = us / 2;
  } else {
    u32 diff = us > c->srtt_us ? us - c->srtt_us : c->srtt_us - us;
    c->rttvar_us += diff / 4 - c->rttvar_us / 4;
    c->srtt_us += us / 8 - c->srtt_us / 8;
  }
  u32 rto = (c->srtt_us + MAX(4 * c->rttvar_us, 10000u)) / 1000;
  c->rto_ms = (u16)MIN(MAX(rto, RTO_MIN_MS), RTO_MAX_MS);
}

void tcp_take_rtt(const struct net *net, struct tcp_conn *c, const struct segment *s) {
  if (c->ts_ok && s->opt.has_ts && s->opt.ts_echo != 0) {
    u32 ticks = tcp_clock(net) - s->opt.ts_echo;
    if (ticks < 60000) {
      tcp_rtt_sample(c, ticks * 1049);  // a tick is 2^20 ns
    }
  } else if (c->timing && seq_le(c->rtt_seq, s->ack)) {
    tcp_rtt_sample(c, tcp_now_us(net) - c->rtt_sent_us);
    c->timing = false;
  }
}

// Without a flight: Reno (RFC 5681 3.1, 3465).
static void grow_window(struct tcp_conn *c, u32 acked) {
  if (c->cwnd < c->ssthresh) {
    c->cwnd += MIN(acked, 2u * c->mss);
  } else {
    c->cwnd += MAX((u32)((u64)c->mss * acked / c->cwnd), 1u);
  }
  c->cwnd = MIN(c->cwnd, 4u << 20);
}

static void enter_recovery(struct net *net, struct tcp_conn *c) {
  u32 flight = c->snd_nxt - c->snd_una;
  flight -= MIN(flight, 2u * c->mss);  // RFC 5681 3.2 (2): not what limited transmit has sent
  c->ssthresh = MAX(flight / 2, 2u * c->mss);
  c->recover = c->snd_max;
  c->fast_dup = true;
  c->cwnd = c->ssthresh + 3u * c->mss;
  tcp_retransmit_first(net, c);
}

static void on_duplicate_ack(struct net *net, struct tcp_conn *c) {
  c->dup_acks = (u8)MIN(c->dup_acks + 1u, 255u);
  if (c->fast_dup) {
    c->cwnd += c->mss;  // RFC 5681 3.2: a segment has left the network
    tcp_touch(net, c);
  } else if (c->dup_acks == 3 && seq_lt(c->recover, c->snd_una + 1)) {
    enter_recovery(net, c);
  } else if (c->dup_acks < 3) {
    c->cwnd += c->mss;  // limited transmit (RFC 3042), taken back below
    tcp_touch(net, c);
  }
}

// New data acknowledged.
static void on_new_ack(struct net *net, struct tcp_conn *c, const struct segment *s) {
  u32 acked = s->ack - c->snd_una;
  bool all = s->ack == c->snd_max;
  tcp_take_rtt(net, c, s);
  tcp_acked(net, c, s->ack);
  c->retries = 0;
  if (c->fast_dup && seq_lt(s->ack, c->recover)) {  // RFC 6582: partial acknowledgement
    c->cwnd -= MIN(acked, c->cwnd - c->mss);
    c->cwnd += c->mss;
    tcp_retransmit_first(net, c);
  } else {
    if (c->fast_dup) {
      c->cwnd = MIN(c->ssthresh, MAX(c->snd_nxt - c->snd_una, c->mss) + c->mss);
      c->fast_dup = false;
    } else {
      c->cwnd -= MIN((u32)c->dup_acks * c->mss, c->cwnd - c->mss);
      grow_window(c, acked);
      // Kept near: half the sequence space later it would compare as the future.
      c->recover = seq_lt(c->recover, c->snd_una) ? c->snd_una : c->recover;
    }
    c->dup_acks = 0;
  }
  c->rtx_ns = all ? U64_MAX : net->core->now_ns + c->rto_ms * TCP_MS;
  c->stuck_s = all ? 0 : tcp_second(net);
  tcp_touch(net, c);
}

// --- acknowledgement field

// An acknowledgement that tells a peer (or a forger) where the window is.
static void challenge(struct net *net, struct tcp_conn *c) {
  u16 now = (u16)MAX((u16)tcp_clock(net), 1u);
  if (c->challenge_ms == 0 || (u16)(now - c->challenge_ms) >= TCP_CHALLENGE_MS) {
    c->challenge_ms = now;
    c->ack_now = true;
    tcp_touch(net, c);
  }
}

static bool fin_acked(const struct tcp_conn *c, u32 ack) {
  return c->fin_queued && ack == c->snd_end + 1;
}

static void update_window(struct net *net, struct tcp_conn *c, const struct segment *s) {
  if (seq_lt(s->ack, c->snd_una)) {
    return;  // RFC 9293 3.10.7.4: an old acknowledgement says nothing about today's window
  }
  // The other half of the rule, SND.WL2 =< SEG.ACK, holds: what updated the window before is
  // acknowledged, and s->ack is no older than that. Beyond the rule: what acknowledges something
  // new is newer than what we know, also with old data (sent again); without its window the old one
  // would count from the new SND.UNA, further than the peer offers.
  if (seq_le(c->snd_wl1, s->seq) || seq_lt(c->snd_una, s->ack)) {
    u32 window = s->window << c->snd_shift;
    if (window > c->snd_wnd) {
      tcp_touch(net, c);
    }
    c->snd_wnd = window;
    c->snd_wnd_max = MAX(c->snd_wnd_max, window);
    c->snd_wl1 = seq_lt(c->snd_wl1, s->seq) ? s->seq : c->snd_wl1;
  }
}

// A peer with a window below TCP_ROOM_LOW, or a congestion window that has shrunk below it, must
// not be waited for: then any room counts, once nothing of ours is on its way.
static void tell_room(struct tcp_conn *c) {
  if (!c->room_wanted || c->ops == NULL) {
    return;
  }
  u32 room = tcp_room(c);
  if (room >= TCP_ROOM_LOW || (room > 0 && c->snd_end == c->snd_una)) {
    c->room_wanted = false;
    c->ops->writable(c->user, c);
  }
}

// False: the segment is not acceptable any further (or the connection is gone).
static bool take_ack(struct net *net, struct tcp_conn *c, const struct segment *s) {
  // RFC 5961 5.2: neither what was never sent nor what is older than any window.
  if (seq_lt(c->snd_max, s->ack) || seq_lt(s->ack, c->snd_una - MAX(c->snd_wnd_max, 65535u))) {
    challenge(net, c);
    return false;
  }
  u32 window_before = c->snd_wnd;
  update_window(net, c, s);
  bool fin_done = fin_acked(c, s->ack);
  if (c->flight != NULL) {
    if (seq_le(c->snd_una, s->ack)) {
      tcp_flight_on_ack(net, c, s);
    }
  } else if (seq_lt(c->snd_una, s->ack) &&
             !(fin_done && s->ack == c->snd_una + 1 && c->snd_una == c->snd_end)) {
    on_new_ack(net, c, s);
  } else if (s->ack == c->snd_una && s->len == 0 && c->snd_nxt != c->snd_una &&
             window_before == c->snd_wnd && (s->flags & TCPF_FIN) == 0) {
    on_duplicate_ack(net, c);  // RFC 5681 2
  }
  if (c->snd_wnd == 0) {  // shut, but alive: RFC 9293 3.8.6.1 keeps such a connection
    c->retries = 0;
    c->stuck_s = c->stuck_s == 0 ? 0 : tcp_second(net);
  }
  if (fin_done) {
    c->fin_sent = true;  // also when a timeout had put it back into the queue
    c->rtx_ns = U64_MAX;
    c->stuck_s = 0;
    if (c->state == TCP_FIN_WAIT_1) {
      c->state = TCP_FIN_WAIT_2;
    } else if (c->state == TCP_CLOSING) {
      tcp_to_time_wait(net, c);
      return false;
    } else if (c->state == TCP_LAST_ACK) {
      tcp_free(net, c);
      return false;
    }
  }
  tell_room(c);
  return c->state != TCP_CLOSED;
}

// --- acceptability (RFC 9293 3.10.7.4 first; RFC 5961; RFC 7323 5.3)

static bool in_window(const struct tcp_conn *c, const struct segment *s) {
  u32 window = c->rcv_adv - c->rcv_nxt;
  u32 len = s->len + ((s->flags & TCPF_FIN) ? 1 : 0) + ((s->flags & TCPF_SYN) ? 1 : 0);
  if (len == 0) {
    return window == 0 ? s->seq == c->rcv_nxt : s->seq - c->rcv_nxt < window;
  }
  if (window == 0) {
    return false;
  }
  return s->seq - c->rcv_nxt < window || (s->seq + len - 1) - c->rcv_nxt < window;
}

// Data is answered at once, its sender waits for it; two peers answering each other's bare
// acknowledgements would never end, so those are counted.
static void answer_unacceptable(struct net *net, struct tcp_conn *c, const struct segment *s) {
  if (s->len == 0 && (s->flags & TCPF_FIN) == 0) {
    challenge(net, c);
  } else {
    c->ack_now = true;
    tcp_touch(net, c);
  }
}

static bool acceptable(struct net *net, struct tcp_conn *c, const struct segment *s) {
  if (c->ts_ok && s->opt.has_ts && (s->flags & TCPF_RST) == 0 &&
      seq_lt(s->opt.ts_value, c->ts_recent) &&
      (u32)(net->core->now_ns / TCP_S) - c->ts_recent_s < PAWS_IDLE_S) {
    net_drop(net, DROP_TCP_WINDOW);  // PAWS
    answer_unacceptable(net, c, s);
    return false;
  }
  if (!in_window(c, s)) {
    net_drop(net, DROP_TCP_WINDOW);
    if ((s->flags & TCPF_RST) == 0) {
      answer_unacceptable(net, c, s);
    }
    // With a shut window the acknowledgement still counts (RFC 9293 3.10.7.4).
    return s->seq == c->rcv_nxt && (s->flags & (TCPF_RST | TCPF_SYN | TCPF_ACK)) == TCPF_ACK;
  }
  if ((s->flags & TCPF_RST) != 0) {  // RFC 5961 3.2
    if (s->seq == c->rcv_nxt) {
      tcp_die(net, c, TCP_END_RESET);
    } else {
      challenge(net, c);
    }
    return false;
  }
  if ((s->flags & TCPF_SYN) != 0) {  // RFC 5961 4.2
    challenge(net, c);
    return false;
  }
  return (s->flags & TCPF_ACK) != 0;
}

static void take_timestamp(struct net *net, struct tcp_conn *c, const struct segment *s) {
  bool stale = (u32)(net->core->now_ns / TCP_S) - c->ts_recent_s >= PAWS_IDLE_S;
  if (c->ts_ok && s->opt.has_ts && seq_le(s->seq, c->last_ack_sent) &&
      (stale || seq_le(c->ts_recent, s->opt.ts_value))) {
    c->ts_recent = s->opt.ts_value;
    c->ts_recent_s = (u32)(net->core->now_ns / TCP_S);
  }
}

// --- opening

static void reset(struct net *net, struct nic *nic, const struct tcp_flow *flow,
                  const struct segment *s) {
  if ((s->flags & TCPF_RST) != 0 || !bucket_take(&net->rst_bucket, net->core->now_ns, RST_RATE)) {
    return;
  }
  bool has_ack = (s->flags & TCPF_ACK) != 0;  // RFC 9293 3.10.7.1
  u32 extent = s->len + ((s->flags & TCPF_SYN) ? 1 : 0) + ((s->flags & TCPF_FIN) ? 1 : 0);
  struct bare b = {.flow = *flow,
                   .seq = has_ack ? s->ack : 0,
                   .ack = has_ack ? 0 : s->seq + extent,
                   .flags = has_ack ? TCPF_RST : TCPF_RST | TCPF_ACK,
                   .nic = (u8)nic->index};
  tcp_send_bare(net, &b);
}

const struct listener *tcp_listener_at(const struct net *net, u16 port) {
  for (u32 i = 0; i < net->listener_count; i++) {
    if (net->listener[i].port == port) {
      return &net->listener[i];
    }
  }
  return NULL;
}

// The ACK of our SYN-ACK: the connection is established and has an owner, or is reset.
static bool on_established(struct net *net, struct tcp_conn *c, const struct segment *s) {
  const struct listener *l = tcp_listener_at(net, c->local_port);
  c->state = TCP_ESTABLISHED;
  c->snd_wnd = s->window << c->snd_shift;
  c->snd_wnd_max = c->snd_wnd;
  c->snd_wl1 = s->seq;
  c->rtx_ns = U64_MAX;
  c->end_ns = U64_MAX;
  c->retries = 0;
  if (c->srtt_us == 0) {  // else its SYN-ACK was timed; data comes when its client likes
    tcp_take_rtt(net, c, s);
  }
  if (c->ops != NULL) {  // O2: both ends had opened it at once
    net->stats.tcp_connected++;
    c->ops->opened(c->user, c);
    return c->state != TCP_CLOSED;
  }
  if (l == NULL || !l->ops->accept(l->user, c, &c->user)) {
    net->stats.tcp_refused++;
    tcp_abort(c);
    return false;
  }
  c->ops = l->ops;
  net->stats.tcp_accepted++;
  return c->state != TCP_CLOSED;
}

void tcp_reset_for(struct net *net, const struct tcp_flow *flow, u8 nic, const struct segment *s) {
  struct bare b = {.flow = *flow, .seq = s->ack, .flags = TCPF_RST, .nic = nic};
  net_drop(net, DROP_TCP_STATE);
  if (bucket_take(&net->rst_bucket, net->core->now_ns, RST_RATE)) {
    tcp_send_bare(net, &b);
  }
}

static void on_segment(struct net *net, struct tcp_conn *c, const struct segment *s,
                       struct rxbuf *chain) {
  u32 core = net->core->id;
  if (c->state == TCP_SYN_SENT) {
    tcp_in_syn_sent(net, c, s);
    plat_rx_release(core, chain);
    return;
  }
  if (c->state == TCP_SYN_RCVD && (s->flags & TCPF_SYN) != 0 && s->seq + 1 == c->rcv_nxt) {
    tcp_send_syn(net, c);  // our SYN-ACK was lost
    plat_rx_release(core, chain);
    return;
  }
  if (!acceptable(net, c, s)) {
    plat_rx_release(core, chain);
    return;
  }
  if (c->state == TCP_SYN_RCVD && s->ack != c->snd_una) {
    struct tcp_flow flow = tcp_flow_of(c);
    tcp_reset_for(net, &flow, c->nic, s);  // RFC 9293 3.10.7.4 fifth: not our SYN-ACK
    plat_rx_release(core, chain);
    return;
  }
  take_timestamp(net, c, s);
  tcp_keep_heard(net, c);
  if (c->state == TCP_SYN_RCVD && !on_established(net, c, s)) {
    plat_rx_release(core, chain);
    return;
  }
  bool alive = take_ack(net, c, s);
  bool has_payload = s->len > 0;
  if (!alive || !has_payload) {
    plat_rx_release(core, chain);
    chain = NULL;
  }
  if (alive && (has_payload || (s->flags & TCPF_FIN) != 0)) {
    tcp_take_data(net, c, s, chain);
  }
  if (c->state != TCP_CLOSED) {
    tcp_rearm(net, c);
  }
}

// RFC 9293 3.10.7.4 for TIME-WAIT; RFC 6191: a newer SYN opens the connection anew.
// False: the wait is over, *isn_floor is where the next connection's sequence numbers may begin.
static bool on_time_wait(struct net *net, struct time_wait *w, const struct segment *s,
                         u32 *isn_floor) {
  bool newer = (s->flags & TCPF_SYN) != 0 &&
               (seq_lt(w->rcv_nxt, s->seq) ||
                (w->ts_ok && s->opt.has_ts && seq_lt(w->ts_recent, s->opt.ts_value)));
  if (newer && (s->flags & (TCPF_ACK | TCPF_RST | TCPF_FIN)) == 0) {
    *isn_floor = MAX(w->snd_nxt + 65536u, 1u);
    tcp_wait_free(net, w);
    return false;
  }
  // RFC 1337: a RST does not end it. A bare acknowledgement wants no answer.
  bool wants_answer = s->len > 0 || (s->flags & (TCPF_FIN | TCPF_SYN)) != 0;
  if ((s->flags & TCPF_RST) == 0 && wants_answer) {
    struct bare b = {.flow = {w->local, w->remote, w->local_port, w->remote_port},
                     .seq = w->snd_nxt,
                     .ack = w->rcv_nxt,
                     .flags = TCPF_ACK,
                     .nic = w->nic,
                     .has_ts = w->ts_ok,
                     .ts_value = tcp_clock(net),
                     .ts_echo = w->ts_recent};
    tcp_send_bare(net, &b);
  }
  return true;
}

static bool checksum_good(const struct ip_in *ip, const struct rxbuf *frame) {
  if (frame->frame_csum == RX_CSUM_GOOD) {
    return true;
  }
  struct csum c = {0};
  ip_pseudo(&c, ip->source, ip->target, IP_TCP, ip->len);
  csum_add(&c, bytes_of(frame->data + ip->off, frame->len - ip->off));
  for (const struct rxbuf *b = frame->next; b != NULL; b = b->next) {
    csum_add(&c, bytes_of(b->data, b->len));
  }
  return csum_fold(&c) == 0xffff;
}

// A segment of a flow that has no connection. True: it has one now, in *out.
static bool without_conn(struct net *net, struct nic *nic, const struct tcp_flow *flow,
                         const struct segment *s, struct tcp_conn **out) {
  enum half_result half = tcp_half_input(net, nic, flow, s, out);
  if (half != HALF_UNKNOWN) {
    return half == HALF_OPEN;
  }
  struct time_wait *w = tcp_wait_lookup(net, flow);
  u32 isn_floor = 0;
  if (w != NULL && on_time_wait(net, w, s, &isn_floor)) {
    return false;
  }
  const struct listener *l = tcp_listener_at(net, s->target_port);
  if (l == NULL || (s->flags & (TCPF_SYN | TCPF_ACK | TCPF_RST | TCPF_FIN)) != TCPF_SYN) {
    net_drop(net, l != NULL ? DROP_TCP_STATE : DROP_NO_LISTENER);
    reset(net, nic, flow, s);
  } else if (l->ops->room != NULL && !l->ops->room(l->user)) {
    net->stats.tcp_refused++;  // silence: the peer's own retry is the queue (DESIGN 5)
  } else {
    tcp_half_syn(net, nic, flow, s, isn_floor);
  }
  return false;
}

void tcp_input(struct nic *nic, const struct ip_in *ip, struct rxbuf *frame) {
  struct net *net = nic->net;
  u32 off = ip->off;
  struct segment s;
  enum drop why = DROP_COUNT;
  if ((frame->data[0] & 1) != 0) {
    why = DROP_NOT_OURS;  // RFC 1122 4.2.3.10: never by broadcast
  } else if (frame->len < off ||
             !tcp_header_parse(frame->data + off, frame->len - off, ip->len, &s)) {
    why = DROP_SHORT;
  } else if (!checksum_good(ip, frame)) {
    why = DROP_CHECKSUM;
  }
  if (why != DROP_COUNT) {
    net_drop(net, why);
    plat_rx_release(net->core->id, frame);
    return;
  }
  net->stats.tcp_segments_in++;
  struct tcp_flow flow = {ip->target, ip->source, s.target_port, s.source_port};
  struct tcp_conn *c = tcp_lookup(net, &flow);
  if (c != NULL) {
    frame->data += off + s.header_len;
    frame->len -= off + s.header_len;
    on_segment(net, c, &s, frame);
    return;
  }
  if (without_conn(net, nic, &flow, &s, &c)) {
    frame->data += off + s.header_len;
    frame->len -= off + s.header_len;
    on_segment(net, c, &s, frame);
    return;
  }
  plat_rx_release(net->core->id, frame);
}
