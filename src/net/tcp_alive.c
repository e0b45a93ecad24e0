// SPDX-License-Identifier: Apache-2.0
// What tells of a peer or a path when nothing else does: keep-alives (RFC 9293 3.8.4), ICMP errors
// (RFC 5927), and paths that swallow large segments without a word (RFC 2923 2.1, 4821).
//
// A1  A keep-alive is sent only while nothing of ours is on its way; what is on its way has the
//     user timeout instead. Any acceptable segment starts the time anew.
// A2  An ICMP message counts only when it quotes a sequence number in flight (RFC 5927 4), and ends
//     only a connection that is not open yet (6): to an open one it may be a forgery or a moment.
// A3  The segment size only falls, and not below 512 - options, as RFC 4821 7.7 would have it; a
//     path that grows again is not looked for.
#include "net/tcp_flight.h"

#define KEEP_IDLE_NS (7200 * TCP_S)  // "no less than two hours" by default (MUST-28)
#define KEEP_PROBE_NS (75 * TCP_S)
#define KEEP_PROBES 9u
#define MSS_FLOOR 500u

static bool idle(const struct tcp_conn *c) {
  return c->snd_una == c->snd_max && c->snd_end == c->snd_una;
}

void tcp_keepalive(struct tcp_conn *c, bool on) {
  ASSERT(c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT);
  c->keep = on;
  c->end_ns = on ? c->net->core->now_ns + KEEP_IDLE_NS : U64_MAX;
  tcp_rearm(c->net, c);
}

void tcp_keep_heard(const struct net *net, struct tcp_conn *c) {
  if (c->keep && c->ops != NULL) {
    c->end_ns = net->core->now_ns + KEEP_IDLE_NS;
    c->retries = idle(c) ? 0 : c->retries;
  }
}

bool tcp_keep_probe(struct net *net, struct tcp_conn *c) {
  if (!c->keep || c->ops == NULL) {
    return false;
  }
  if (idle(c) && c->retries++ >= KEEP_PROBES) {
    return false;
  }
  c->end_ns = net->core->now_ns + KEEP_PROBE_NS;
  if (idle(c)) {
    struct bare b = {.flow = tcp_flow_of(c),
                     .seq = c->snd_una - 1,  // old, so that it has to be answered
                     .ack = c->rcv_nxt,
                     .flags = TCPF_ACK,
                     .nic = c->nic,
                     .has_ts = c->ts_ok,
                     .ts_value = tcp_clock(net),
                     .ts_echo = c->ts_recent};
    tcp_send_bare(net, &b);
  }
  return true;
}

static void shrink(struct net *net, struct tcp_conn *c, u32 mss) {
  c->mss = (u16)mss;
  if (c->flight != NULL) {
    tcp_flight_mss(net, c);
  } else {
    tcp_rewind(c);
  }
  tcp_touch(net, c);
}

// Twice in a row a full segment was not answered: perhaps it was too large for somebody who does
// not say so. The timeout itself sends everything again.
void tcp_black_hole(struct tcp_conn *c) {
  bool full = c->snd_max - c->snd_una >= c->mss;
  if (full && c->retries >= 2 && c->retries % 2 == 0 && c->mss > MSS_FLOOR) {
    c->mss = (u16)MAX(c->mss / 2u, MSS_FLOOR);
  }
}

void tcp_icmp(struct net *net, struct ip_addr local, struct ip_addr remote, const u8 head[8],
              enum path_error what, u32 next_mtu) {
  struct tcp_flow flow = {local, remote, load_be16(head), load_be16(head + 2)};
  struct tcp_conn *c = tcp_lookup(net, &flow);
  u32 seq = load_be32(head + 4);
  if (c == NULL) {
    return;
  }
  if (c->state == TCP_SYN_SENT) {
    if (seq == c->snd_una - 1 && what == PATH_REFUSED) {
      tcp_die(net, c, TCP_END_RESET);
    }
    return;
  }
  if (seq_lt(seq, c->snd_una) || !seq_lt(seq, c->snd_max)) {
    return;  // A2
  }
  if (what != PATH_TOO_LARGE || next_mtu < 576) {
    return;  // RFC 5927 6.1: what is open waits for its timers
  }
  u32 mss = next_mtu - ip_header_len(remote) - TCP_LEN - (c->ts_ok ? 12 : 0);
  if (mss < c->mss) {
    pmtu_learn(net, remote, next_mtu);
    shrink(net, c, mss);
  }
}
