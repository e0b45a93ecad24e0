// SPDX-License-Identifier: Apache-2.0
// See tcp_half.h. Segments are judged as RFC 9293 3.10.7.4 says for SYN-RECEIVED and RFC 5961.
#include "net/tcp_half.h"

#define REPEAT_NS (1000 * TCP_MS)
#define LIFE_NS (3000 * TCP_MS)
#define LIFE_QUIET_NS (10000 * TCP_MS)
#define WINDOW 65535u        // that our SYN-ACK offers
#define COOKIES_RATE 50000u  // a second
#define SERVED_A_TURN 64u
#define COOKIES_NS (120 * TCP_S)  // how long after the last one a cookie may come back
#define SLOTS_FLOOR 16u

enum err tcp_half_init(struct net *net, struct carve *carve, const struct net_limits *l) {
  u32 halves = l->tcp_halves != 0 ? l->tcp_halves : MAX(l->tcp_conns / 4, 16u);
  u32 parked = l->tcp_parked != 0 ? l->tcp_parked : halves;
  u32 buckets = 16;
  while (buckets < halves) {
    buckets *= 2;
  }
  struct span pool = carve_take(carve, pool_bytes(sizeof(struct tcp_half), halves), 64);
  struct span hash = carve_take(carve, buckets * sizeof(u32), 64);
  net->half_timer = wheel_take(&net->core->wheel, TIMER_HALF, net);
  if (pool.ptr == NULL || hash.ptr == NULL || net->half_timer == WHEEL_NONE) {
    return ERR_NO_MEMORY;
  }
  pool_init(&net->halves, "tcp half-open", pool, sizeof(struct tcp_half), halves);
  net->half_hash = (u32 *)(void *)hash.ptr;
  net->half_mask = buckets - 1;
  net->half_armed_ns = U64_MAX;
  list_init(&net->half_list);
  return admit_init(&net->admit, carve, parked, SLOTS_FLOOR, MAX(l->tcp_conns, SLOTS_FLOOR));
}

// --- A connection's own admission

void tcp_begin(struct tcp_conn *c) {
  if (c->admission == TCP_EXPECTED) {
    c->admission = TCP_HELD;
    admit_begin(&c->net->admit, c->entered);
  }
}

void tcp_waited(struct tcp_conn *c, u64 delay_ns) {
  if (c->admission == TCP_HELD) {
    admit_delay(&c->net->admit, delay_ns);
  }
}

void tcp_through(struct tcp_conn *c) {
  tcp_begin(c);
  tcp_admission_end(c);
}

void tcp_admission_end(struct tcp_conn *c) {
  if (c->admission == TCP_EXPECTED) {
    admit_end(&c->net->admit, c->entered);
  } else if (c->admission == TCP_HELD) {
    admit_give(&c->net->admit);
  }
  c->admission = TCP_ADMITTED;
}

// --- Halves

static struct tcp_half *half_at(const struct net *net, u32 link) {
  return link == 0 ? NULL : pool_at(&net->halves, link - 1);
}
static struct tcp_flow flow_of(const struct admit_syn *syn) {
  return (struct tcp_flow){syn->local, syn->remote, syn->local_port, syn->remote_port};
}
static u32 now_ms(const struct net *net) {
  return (u32)(net->core->now_ns / TCP_MS);
}

static void arm(struct net *net, u64 at_ns) {
  if (at_ns < net->half_armed_ns) {
    net->half_armed_ns = at_ns;
    wheel_arm(&net->core->wheel, net->half_timer, at_ns);
  }
}

static u32 *bucket_of(struct net *net, const struct tcp_flow *flow) {
  return &net->half_hash[tcp_flow_hash(net, flow) & net->half_mask];
}

struct tcp_half *tcp_half_find(struct net *net, const struct tcp_flow *flow) {
  struct tcp_half *h = half_at(net, *bucket_of(net, flow));
  while (h != NULL) {
    struct tcp_flow f = flow_of(&h->syn);
    if (tcp_flow_equal(&f, flow)) {
      return h;
    }
    h = half_at(net, h->hash_next);
  }
  return NULL;
}

static void forget(struct net *net, struct tcp_half *h) {
  struct tcp_flow flow = flow_of(&h->syn);
  u32 *at = bucket_of(net, &flow);
  while (half_at(net, *at) != h) {
    ASSERT(*at != 0);
    at = &half_at(net, *at)->hash_next;
  }
  *at = h->hash_next;
  list_remove(&h->age);
  pool_put(&net->halves, h);
}

// What a connection knows once it has seen this SYN and sent `isn`.
static void fill(struct net *net, struct tcp_conn *c, const struct admit_syn *syn, u32 isn) {
  struct segment s = {.seq = syn->seq,
                      .opt = {.mss = syn->mss,
                              .shift = syn->shift,
                              .has_shift = syn->has_shift,
                              .has_ts = syn->has_ts,
                              .ts_value = syn->ts_value,
                              .sack_permitted = syn->sack}};
  c->nic = syn->nic;
  c->snd_una = c->snd_nxt = c->snd_end = c->snd_max = c->recover = isn + 1;
  tcp_take_syn_options(net, c, &s);
  c->rcv_adv = c->rcv_nxt + WINDOW;
  c->last_ack_sent = c->rcv_nxt;
}

static void send_syn_ack(struct net *net, const struct admit_syn *syn, u32 isn, u32 ts) {
  struct tcp_conn c = {.net = net,
                       .state = TCP_SYN_RCVD,
                       .local = syn->local,
                       .remote = syn->remote,
                       .local_port = syn->local_port,
                       .remote_port = syn->remote_port};
  fill(net, &c, syn, isn);
  tcp_send_syn_at(net, &c, ts);
}

// --- SYNs

static struct admit_syn syn_of(const struct nic *nic, const struct tcp_flow *flow,
                               const struct segment *s) {
  return (struct admit_syn){.local = flow->local,
                            .remote = flow->remote,
                            .local_port = flow->local_port,
                            .remote_port = flow->remote_port,
                            .seq = s->seq,
                            .ts_value = s->opt.ts_value,
                            .mss = s->opt.mss,
                            .nic = (u8)nic->index,
                            .shift = s->opt.shift & 15u,
                            .has_shift = s->opt.has_shift,
                            .has_ts = s->opt.has_ts,
                            .sack = s->opt.sack_permitted};
}

static void answer(struct net *net, const struct admit_syn *syn, u32 isn_floor) {
  struct tcp_flow flow = flow_of(syn);
  struct tcp_half *h = pool_take(&net->halves);
  ASSERT(h != NULL);
  u32 isn = tcp_isn(net, &flow);
  h->syn = *syn;
  h->isn = isn_floor != 0 && seq_lt(isn, isn_floor) ? isn_floor : isn;  // RFC 6191
  h->born_ns = net->core->now_ns;
  h->entered = admit_enter(&net->admit);
  u32 *bucket = bucket_of(net, &flow);
  h->hash_next = *bucket;
  *bucket = pool_index(&net->halves, h) + 1;
  list_init(&h->age);
  list_push(&net->half_list, &h->age);
  send_syn_ack(net, &h->syn, h->isn, tcp_clock(net));
  arm(net, h->born_ns + REPEAT_NS);
}

// By network, so that one cannot wait in front of all others.
static u32 prefix_of(const struct net *net, struct ip_addr a) {
  struct ip_addr p = ip_network(a);
  return (u32)siphash(&net->core->hash_key, bytes_of(&p, sizeof p));
}

static bool room(const struct net *net) {
  return admit_free(&net->admit) && net->halves.free_count > 0 &&
         net->conns.free_count > pool_taken(&net->halves);
}

static void send_cookie(struct net *net, const struct admit_syn *syn) {
  u32 ts;
  if (!bucket_take(&net->cookie_bucket, net->core->now_ns, COOKIES_RATE)) {
    net_drop(net, DROP_RATE);
    return;
  }
  u32 isn = tcp_cookie_make(net, syn, &ts);
  send_syn_ack(net, syn, isn, ts);
  net->cookies_until_ns = net->core->now_ns + COOKIES_NS;
  net->stats.tcp_cookies_sent++;
}

void tcp_half_syn(struct net *net, const struct nic *nic, const struct tcp_flow *flow,
                  const struct segment *s, u32 isn_floor) {
  struct admit_syn syn = syn_of(nic, flow, s);
  if (net->halves.free_count == 0) {
    send_cookie(net, &syn);
  } else if (net->admit.waiting == 0 && room(net)) {
    answer(net, &syn, isn_floor);
  } else {
    net->stats.tcp_refused++;
    admit_park(&net->admit, &syn, tcp_flow_hash(net, flow) >> 32, prefix_of(net, flow->remote),
               now_ms(net));
  }
}

bool tcp_half_stage(struct net *net) {
  struct admit_syn syn;
  for (u32 i = 0; i < SERVED_A_TURN && net->admit.waiting > 0 && room(net); i++) {
    if (!admit_next(&net->admit, now_ms(net), &syn)) {
      break;
    }
    struct tcp_flow flow = flow_of(&syn);
    if (tcp_half_find(net, &flow) == NULL && tcp_lookup(net, &flow) == NULL) {
      answer(net, &syn, 0);
    }
  }
  return net->admit.waiting > 0 && room(net);
}

// --- Segments of flows that are halves

static void challenge(struct net *net, struct tcp_half *h) {
  u32 now = tcp_clock(net);
  if (h->challenge_ms != 0 && now - h->challenge_ms < TCP_CHALLENGE_MS) {
    return;
  }
  h->challenge_ms = now;
  struct bare b = {.flow = flow_of(&h->syn),
                   .seq = h->isn + 1,
                   .ack = h->syn.seq + 1,
                   .flags = TCPF_ACK,
                   .nic = h->syn.nic,
                   .has_ts = h->syn.has_ts,
                   .ts_value = tcp_clock(net),
                   .ts_echo = h->syn.ts_value};
  tcp_send_bare(net, &b);
}

// The connection a flow has earned; NULL: none is free, its sender will try again.
static struct tcp_conn *open_conn(struct net *net, const struct admit_syn *syn, u32 isn,
                                  u16 entered, u64 born_ns) {
  struct tcp_flow flow = flow_of(syn);
  struct tcp_conn *c = tcp_new(net, &flow);
  if (c == NULL) {
    net_drop(net, DROP_TCP_POOL);
    net->stats.tcp_refused++;
    return NULL;
  }
  fill(net, c, syn, isn);
  c->admission = TCP_EXPECTED;
  c->entered = entered;
  c->end_ns = born_ns + LIFE_QUIET_NS;
  return c;
}

// Acceptable and acknowledging our SYN-ACK?
static bool judge(struct net *net, struct tcp_half *h, const struct segment *s) {
  u32 rcv_nxt = h->syn.seq + 1;
  bool ends = (s->flags & TCPF_RST) != 0;
  if ((s->flags & TCPF_SYN) != 0 && s->seq == h->syn.seq && !ends) {
    send_syn_ack(net, &h->syn, h->isn, tcp_clock(net));  // ours was lost
    h->repeated = true;
    return false;
  }
  bool old = h->syn.has_ts && s->opt.has_ts && seq_lt(s->opt.ts_value, h->syn.ts_value);
  if (s->seq - rcv_nxt >= WINDOW || (old && !ends)) {
    net_drop(net, DROP_TCP_WINDOW);
    if (!ends) {
      challenge(net, h);
    }
    return false;
  }
  if (ends || (s->flags & TCPF_SYN) != 0) {
    if (ends && s->seq == rcv_nxt) {  // RFC 5961 3.2
      admit_end(&net->admit, h->entered);
      forget(net, h);
    } else {
      challenge(net, h);
    }
    return false;
  }
  if ((s->flags & TCPF_ACK) == 0) {
    return false;
  }
  if (s->ack != h->isn + 1) {
    struct tcp_flow flow = flow_of(&h->syn);
    tcp_reset_for(net, &flow, h->syn.nic, s);  // RFC 9293 3.10.7.4 fifth: not our SYN-ACK
    return false;
  }
  return true;
}

// Whether this segment makes a connection of the flow.
static bool wanted(const struct net *net, const struct tcp_flow *flow, const struct segment *s) {
  const struct listener *l = tcp_listener_at(net, flow->local_port);
  return s->len > 0 || (s->flags & TCPF_FIN) != 0 || l == NULL || l->ops->eager;
}

static u32 *spent_at(struct net *net, const struct tcp_flow *flow, u32 isn, u32 *mark) {
  u64 hash = tcp_flow_hash(net, flow) + isn;
  *mark = (u32)(hash >> 32) | 1;
  return &net->spent[hash % TCP_SPENT];
}

static enum half_result by_cookie(struct net *net, const struct nic *nic,
                                  const struct tcp_flow *flow, const struct segment *s,
                                  struct tcp_conn **out) {
  struct admit_syn syn;
  u32 mark;
  if (net->cookies_until_ns <= net->core->now_ns ||
      (s->flags & (TCPF_SYN | TCPF_RST | TCPF_ACK)) != TCPF_ACK ||
      !tcp_cookie_check(net, nic, flow, s, &syn)) {
    return HALF_UNKNOWN;
  }
  u32 *spent = spent_at(net, flow, s->ack, &mark);
  if (*spent == mark) {
    return HALF_UNKNOWN;
  }
  if (!wanted(net, flow, s) || !admit_free(&net->admit)) {
    return HALF_TAKEN;  // silence: it sends its data again
  }
  *out = open_conn(net, &syn, s->ack - 1, 0, net->core->now_ns);
  if (*out == NULL) {
    return HALF_TAKEN;
  }
  (*out)->entered = admit_enter(&net->admit);
  *spent = mark;
  net->stats.tcp_cookies_good++;
  return HALF_OPEN;
}

enum half_result tcp_half_input(struct net *net, const struct nic *nic, const struct tcp_flow *flow,
                                const struct segment *s, struct tcp_conn **out) {
  struct tcp_half *h = tcp_half_find(net, flow);
  if (h == NULL) {
    return by_cookie(net, nic, flow, s, out);
  }
  if (!judge(net, h, s)) {
    return HALF_TAKEN;
  }
  if (!h->acked && !h->repeated) {  // which of two was acknowledged nobody knows (RFC 6298 3)
    h->rtt_us = MAX((u32)((net->core->now_ns - h->born_ns) / 1000), 1u);
  }
  h->acked = true;
  if (!wanted(net, flow, s)) {
    return HALF_TAKEN;
  }
  *out = open_conn(net, &h->syn, h->isn, h->entered, h->born_ns);
  if (*out == NULL) {
    return HALF_TAKEN;
  }
  if (h->rtt_us != 0) {
    tcp_rtt_sample(*out, h->rtt_us);
  }
  forget(net, h);
  return HALF_OPEN;
}

// --- Time

void tcp_half_timer(struct core *core, u32 timer, void *owner) {
  struct net *net = owner;
  u64 now = core->now_ns;
  (void)timer;
  net->half_armed_ns = U64_MAX;
  bool quiet = net->halves.free_count > net->halves.count / 2;
  u64 life = quiet ? LIFE_QUIET_NS : LIFE_NS;
  struct link *next;
  for (struct link *l = net->half_list.next; l != &net->half_list; l = next) {
    struct tcp_half *h = CONTAINER_OF(l, struct tcp_half, age);
    next = l->next;
    if (now - h->born_ns >= life) {
      admit_end(&net->admit, h->entered);
      forget(net, h);
    } else if (now - h->born_ns >= REPEAT_NS) {
      if (!h->acked && !h->repeated) {
        h->repeated = true;
        send_syn_ack(net, &h->syn, h->isn, tcp_clock(net));
      }
    } else {
      break;
    }
  }
  if (!list_empty(&net->half_list)) {
    arm(net, now + REPEAT_NS / 8);
  }
}
