// SPDX-License-Identifier: Apache-2.0
// Opening a connection ourselves (RFC 9293 3.10.1, 3.10.7.3): SYN-SENT, simultaneous open, the
// choice of a local port.
//
// O1  A local port is taken by no other connection to the same peer, also not by one in TIME-WAIT
//     (RFC 6056 3.3.3: a keyed hash of the addresses plus a counter, so that a stranger cannot
//     guess it).
// O2  An actively opened connection has its owner (ops) from the start; a passive one gets it from
//     its listener when it is established.
#include "net/tcp_conn.h"

#define PORT_FIRST 49152u
#define PORT_COUNT 16384u
#define PORT_TRIES 64u

// 0: every tried port is taken.
static u16 choose_port(struct net *net, struct tcp_flow flow) {
  struct {
    struct ip_addr local, remote;
    u64 port;
  } key = {flow.local, flow.remote, flow.remote_port};
  u32 offset = (u32)siphash(&net->core->hash_key, bytes_of(&key, sizeof key));
  for (u32 i = 0; i < PORT_TRIES; i++) {
    flow.local_port = (u16)(PORT_FIRST + (offset + net->port_counter++) % PORT_COUNT);
    if (tcp_lookup(net, &flow) == NULL && tcp_wait_lookup(net, &flow) == NULL) {
      return flow.local_port;
    }
  }
  return 0;
}

enum err tcp_connect(struct net *net, struct ip_addr address, u16 port,
                     const struct tcp_listener_ops *ops, void *user, struct tcp_conn **out) {
  ASSERT(ops->opened != NULL);
  struct nic *nic = ip_route(net, address);
  struct tcp_flow flow = {.remote = address, .remote_port = port};
  flow.local = nic == NULL ? IP_NONE : ip_source(nic, address);
  if (ip_is_none(flow.local) || ip_equal(flow.local, address)) {
    return ERR_NOT_FOUND;
  }
  flow.local_port = choose_port(net, flow);
  struct tcp_conn *c = flow.local_port == 0 ? NULL : tcp_new(net, &flow);
  if (c == NULL) {
    return ERR_NO_MEMORY;
  }
  c->state = TCP_SYN_SENT;
  c->nic = (u8)nic->index;
  c->ops = ops;
  c->user = user;
  c->ts_ok = c->sack_ok = true;  // offered: the answer decides
  c->rcv_shift = TCP_WINDOW_SHIFT;
  c->mss = (u16)tcp_mss_of(pmtu_of(nic, address), address);
  tcp_send_syn(net, c);
  c->rtx_ns = net->core->now_ns + c->rto_ms * TCP_MS;
  tcp_rearm(net, c);
  *out = c;
  return ERR_OK;
}

void tcp_take_syn_options(const struct net *net, struct tcp_conn *c, const struct segment *s) {
  c->rcv_nxt = s->seq + 1;
  c->snd_wnd = c->snd_wnd_max = s->window;  // RFC 7323 2.2: not scaled in a SYN
  c->snd_wl1 = s->seq;
  c->ts_ok = s->opt.has_ts;
  if (c->ts_ok) {
    c->ts_recent = s->opt.ts_value;
    c->ts_recent_s = (u32)(net->core->now_ns / TCP_S);
  }
  c->sack_ok = s->opt.sack_permitted;
  c->snd_shift = s->opt.has_shift ? s->opt.shift & 15u : 0u;
  c->rcv_shift = s->opt.has_shift ? TCP_WINDOW_SHIFT : 0u;
  u32 most = tcp_mss_of(pmtu_of(&net->nic[c->nic], c->remote), c->remote);
  u32 told = s->opt.mss != 0 ? s->opt.mss : ip_is4(c->remote) ? 536u : 1220u;  // RFC 9293 3.7.1
  c->mss = (u16)(MAX(MIN(told, most), 88u) - (c->ts_ok ? 12 : 0));
  c->cwnd = 10u * c->mss;  // RFC 6928
}

// Our SYN is acknowledged: the owner hears of it in this call.
static void opened(struct net *net, struct tcp_conn *c, const struct segment *s) {
  c->state = TCP_ESTABLISHED;
  c->rtx_ns = U64_MAX;
  c->end_ns = U64_MAX;
  c->retries = 0;
  c->ack_now = true;
  tcp_take_rtt(net, c, s);
  tcp_touch(net, c);
  tcp_rearm(net, c);
  net->stats.tcp_connected++;
  c->ops->opened(c->user, c);
}

// RFC 9293 3.10.7.3. Data that comes with the SYN is not taken: its sender repeats it.
void tcp_in_syn_sent(struct net *net, struct tcp_conn *c, const struct segment *s) {
  bool has_ack = (s->flags & TCPF_ACK) != 0;
  ASSERT(c->state == TCP_SYN_SENT);
  if (has_ack && s->ack != c->snd_una) {
    if ((s->flags & TCPF_RST) == 0) {
      struct tcp_flow flow = tcp_flow_of(c);
      tcp_reset_for(net, &flow, c->nic, s);
    }
    return;
  }
  if ((s->flags & TCPF_RST) != 0) {
    if (has_ack) {  // a RST without our number is anybody's
      tcp_die(net, c, TCP_END_RESET);
    }
    return;
  }
  if ((s->flags & TCPF_SYN) == 0) {
    return;
  }
  tcp_take_syn_options(net, c, s);
  c->rcv_adv = c->rcv_nxt + MIN(TCP_RX_BYTES, U16_MAX);  // what our SYN announced
  c->last_ack_sent = c->rcv_nxt;
  if (has_ack) {
    opened(net, c, s);
    return;
  }
  c->state = TCP_SYN_RCVD;  // both ends opened at once
  tcp_send_syn(net, c);
}
