// SPDX-License-Identifier: Apache-2.0
// Life of a connection: table, timers, the owner's calls (RFC 9293 3.9, 3.10).
//
// I1  A connection is in the hash table from tcp_new until tcp_free, whatever its state.
// I2  A TIME-WAIT lives in its own small record; when those run out the oldest gives way.
// I3  Every state but ESTABLISHED and CLOSE-WAIT with nothing in flight has a deadline: no
//     connection that its owner has left stays for ever.
#include "net/tcp_flight.h"
#include "net/tcp_half.h"

#define RTO_START_MS 1000u
#define SYN_RETRIES 4u
#define RETRIES_MAX 15u
#define USER_TIMEOUT_S 60u  // RFC 5482: data unacknowledged without progress
#define FIN_WAIT_2_NS (20000 * TCP_MS)
#define TIME_WAIT_NS (60000 * TCP_MS)

static struct span take(struct carve *carve, usize len) {
  return carve_take(carve, len, 64);
}

enum err tcp_init(struct net *net, struct carve *carve, const struct net_limits *l) {
  u32 buckets = 1024;
  while (buckets < l->tcp_conns) {
    buckets *= 2;
  }
  struct span conns = take(carve, pool_bytes(sizeof(struct tcp_conn), l->tcp_conns));
  struct span waits = take(carve, pool_bytes(sizeof(struct time_wait), l->tcp_time_wait));
  u32 wait_buckets = 1024;
  while (wait_buckets < l->tcp_time_wait) {
    wait_buckets *= 2;
  }
  struct span hash = take(carve, buckets * sizeof(u32));
  struct span wait_hash = take(carve, wait_buckets * sizeof(u32));
  if (conns.ptr == NULL || waits.ptr == NULL || hash.ptr == NULL || wait_hash.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  pool_init(&net->conns, "tcp connections", conns, sizeof(struct tcp_conn), l->tcp_conns);
  if (l->tcp_flights > 0) {
    struct span flights = take(carve, pool_bytes(sizeof(struct tcp_flight), l->tcp_flights));
    if (flights.ptr == NULL) {
      return ERR_NO_MEMORY;
    }
    pool_init(&net->flights, "tcp flights", flights, sizeof(struct tcp_flight), l->tcp_flights);
  }
  pool_init(&net->waits, "tcp time-wait", waits, sizeof(struct time_wait), l->tcp_time_wait);
  net->hash = (u32 *)(void *)hash.ptr;
  net->wait_hash = (u32 *)(void *)wait_hash.ptr;
  net->hash_mask = buckets - 1;
  net->wait_mask = wait_buckets - 1;
  list_init(&net->touched);
  list_init(&net->dead);
  list_init(&net->wait_list);
  return tcp_half_init(net, carve, l);
}

u32 tcp_clock(const struct net *net) {
  return (u32)(net->core->now_ns >> 20) + 1;
}

u16 tcp_second(const struct net *net) {
  u16 s = (u16)(net->core->now_ns / TCP_S);
  return s != 0 ? s : 1;
}

u64 tcp_flow_hash(const struct net *net, const struct tcp_flow *f) {
  u32 ports = (u32)f->local_port << 16 | f->remote_port;
  if (ip_is4(f->remote)) {
    u32 key[3] = {(u32)f->local.lo, (u32)f->remote.lo, ports};
    return siphash(&net->core->hash_key, bytes_of(key, sizeof key));
  }
  u64 key[5] = {f->local.hi, f->local.lo, f->remote.hi, f->remote.lo, ports};
  return siphash(&net->core->hash_key, bytes_of(key, sizeof key));
}
static bool same_flow(const struct tcp_flow *f, struct ip_addr local, struct ip_addr remote,
                      u16 local_port, u16 remote_port) {
  return f->remote_port == remote_port && ip_equal(f->remote, remote) &&
         f->local_port == local_port && ip_equal(f->local, local);
}
static u64 conn_hash(const struct net *net, const struct tcp_conn *c) {
  struct tcp_flow f = tcp_flow_of(c);
  return tcp_flow_hash(net, &f);
}

static struct tcp_conn *conn_at(const struct net *net, u32 link) {
  return link == 0 ? NULL : pool_at(&net->conns, link - 1);
}
static struct time_wait *wait_at(const struct net *net, u32 link) {
  return link == 0 ? NULL : pool_at(&net->waits, link - 1);
}

struct tcp_conn *tcp_lookup(struct net *net, const struct tcp_flow *flow) {
  struct tcp_conn *c = conn_at(net, net->hash[tcp_flow_hash(net, flow) & net->hash_mask]);
  while (c != NULL && !same_flow(flow, c->local, c->remote, c->local_port, c->remote_port)) {
    c = conn_at(net, c->hash_next);
  }
  return c;
}

struct time_wait *tcp_wait_lookup(struct net *net, const struct tcp_flow *flow) {
  struct time_wait *w = wait_at(net, net->wait_hash[tcp_flow_hash(net, flow) & net->wait_mask]);
  while (w != NULL && !same_flow(flow, w->local, w->remote, w->local_port, w->remote_port)) {
    w = wait_at(net, w->hash_next);
  }
  if (w != NULL && w->end_ns <= net->core->now_ns) {
    tcp_wait_free(net, w);
    return NULL;
  }
  return w;
}

// RFC 6528: a 4 µs clock plus a keyed hash of the addresses.
u32 tcp_isn(const struct net *net, const struct tcp_flow *flow) {
  return (u32)(net->core->now_ns / 4000) + (u32)(tcp_flow_hash(net, flow) >> 32);
}

struct tcp_conn *tcp_new(struct net *net, const struct tcp_flow *flow) {
  struct tcp_conn *c = pool_take(&net->conns);
  if (c == NULL) {
    return NULL;
  }
  c->timer = wheel_take(&net->core->wheel, TIMER_TCP, c);
  if (c->timer == WHEEL_NONE) {
    pool_put(&net->conns, c);
    return NULL;
  }
  u64 h = tcp_flow_hash(net, flow);
  c->net = net;
  c->state = TCP_SYN_RCVD;
  c->local = flow->local;
  c->local_port = flow->local_port;
  c->remote = flow->remote;
  c->remote_port = flow->remote_port;
  c->hash_next = net->hash[h & net->hash_mask];
  net->hash[h & net->hash_mask] = pool_index(&net->conns, c) + 1;
  u32 isn = tcp_isn(net, flow);
  c->snd_una = c->snd_nxt = c->snd_end = c->snd_max = c->recover = isn + 1;
  c->ssthresh = U32_MAX;
  c->rto_ms = RTO_START_MS;
  c->rtx_ns = c->ack_ns = c->end_ns = U64_MAX;
  list_init(&c->queue);
  list_init(&c->touch);
  net->stats.tcp_open++;
  return c;
}

static void unhash(struct net *net, struct tcp_conn *c) {
  u64 h = conn_hash(net, c);
  u32 *at = &net->hash[h & net->hash_mask];
  while (conn_at(net, *at) != c) {
    ASSERT(*at != 0);
    at = &conn_at(net, *at)->hash_next;
  }
  *at = c->hash_next;
}

void tcp_free(struct net *net, struct tcp_conn *c) {
  ASSERT(c->state != TCP_CLOSED);
  tcp_admission_end(c);
  unhash(net, c);
  tcp_flight_drop(net, c);
  c->state = TCP_CLOSED;
  c->ops = NULL;
  wheel_put(&net->core->wheel, c->timer);
  net->rx_held -= (u32)c->rx_bufs + c->ooo_bufs;
  if (c->rx != NULL) {
    plat_rx_release(net->core->id, c->rx);
  }
  if (c->ooo != NULL) {
    plat_rx_release(net->core->id, c->ooo);
  }
  c->rx = c->rx_last = c->ooo = NULL;  // callers up the stack may still look
  c->rx_len = c->rx_bufs = c->ooo_bufs = 0;
  for (struct link *l = list_pop(&c->queue); l != NULL; l = list_pop(&c->queue)) {
    txbuf_unref(net, CONTAINER_OF(l, struct txbuf, link));
  }
  c->unsent = NULL;
  list_remove(&c->touch);
  list_push(&net->dead, &c->touch);  // I2 of stack.h: callers up the stack may still look at it
  net->stats.tcp_open--;
}

void tcp_die(struct net *net, struct tcp_conn *c, enum tcp_end why) {
  const struct tcp_listener_ops *ops = c->ops;
  if (ops != NULL) {
    c->ops = NULL;
    ops->ended(c->user, c, why);
  }
  if (c->state != TCP_CLOSED) {
    tcp_free(net, c);
  }
}

void tcp_wait_free(struct net *net, struct time_wait *w) {
  struct tcp_flow f = {w->local, w->remote, w->local_port, w->remote_port};
  u64 h = tcp_flow_hash(net, &f);
  u32 *at = &net->wait_hash[h & net->wait_mask];
  while (wait_at(net, *at) != w) {
    ASSERT(*at != 0);
    at = &wait_at(net, *at)->hash_next;
  }
  *at = w->hash_next;
  list_remove(&w->link);
  pool_put(&net->waits, w);
}

void tcp_to_time_wait(struct net *net, struct tcp_conn *c) {
  struct time_wait *w = pool_take(&net->waits);
  if (w == NULL) {  // the oldest gives way
    tcp_wait_free(net, CONTAINER_OF(net->wait_list.next, struct time_wait, link));
    w = pool_take(&net->waits);
  }
  ASSERT(w != NULL);
  u64 h = conn_hash(net, c);
  w->local = c->local;
  w->local_port = c->local_port;
  w->remote = c->remote;
  w->remote_port = c->remote_port;
  w->snd_nxt = c->snd_end + 1;
  w->rcv_nxt = c->rcv_nxt;
  w->ts_ok = c->ts_ok;
  w->ts_recent = c->ts_recent;
  w->nic = c->nic;
  w->end_ns = net->core->now_ns + TIME_WAIT_NS;
  w->hash_next = net->wait_hash[h & net->wait_mask];
  net->wait_hash[h & net->wait_mask] = pool_index(&net->waits, w) + 1;
  list_init(&w->link);
  list_push(&net->wait_list, &w->link);
  tcp_free(net, c);
}

// --- turn and timers

void tcp_touch(struct net *net, struct tcp_conn *c) {
  if (!list_linked(&c->touch) && c->state != TCP_CLOSED) {
    list_push(&net->touched, &c->touch);
  }
}

bool tcp_work_waits(const struct net *net) {
  return !list_empty(&net->touched);
}

void tcp_flush_all(struct net *net) {
  struct link again;
  list_init(&again);
  for (struct link *l = list_pop(&net->touched); l != NULL; l = list_pop(&net->touched)) {
    struct tcp_conn *c = CONTAINER_OF(l, struct tcp_conn, touch);
    struct nic *nic = &net->nic[c->nic];
    if (tx_room(nic) == 0) {
      tx_flush(nic);
    }
    if (tx_room(nic) == 0) {  // the device is full: this connection goes on in a later turn
      list_push(&again, l);
      continue;
    }
    tcp_output(net, c);
  }
  for (struct link *l = list_pop(&again); l != NULL; l = list_pop(&again)) {
    list_push(&net->touched, l);
  }
  for (struct link *l = list_pop(&net->dead); l != NULL; l = list_pop(&net->dead)) {
    pool_put(&net->conns, CONTAINER_OF(l, struct tcp_conn, touch));
  }
}

void tcp_rearm(struct net *net, struct tcp_conn *c) {
  u64 next_ns = MIN(MIN(c->rtx_ns, c->ack_ns), c->end_ns);
  u32 tick = tcp_tick(next_ns);
  if (next_ns == U64_MAX) {
    return;
  }
  if (c->armed == 0 || (i32)(tick - c->armed) < 0) {  // a later one is found when the wheel fires
    c->armed = tick;
    wheel_arm(&net->core->wheel, c->timer, next_ns);
  }
}

static bool give_up(const struct net *net, const struct tcp_conn *c) {
  if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RCVD) {
    return c->retries > SYN_RETRIES;
  }
  return c->retries > RETRIES_MAX ||
         (c->stuck_s != 0 && (u16)(tcp_second(net) - c->stuck_s) > USER_TIMEOUT_S);
}

static void on_rtx(struct net *net, struct tcp_conn *c) {
  if (c->flight != NULL && tcp_flight_on_timer(net, c)) {
    return;
  }
  c->retries++;
  if (give_up(net, c)) {
    tcp_die(net, c, TCP_END_TIMEOUT);
    return;
  }
  c->rto_ms = (u16)MIN(c->rto_ms * 2u, 60000u);
  c->rtx_ns = net->core->now_ns + c->rto_ms * TCP_MS;
  c->timing = false;
  if (c->state == TCP_SYN_RCVD || c->state == TCP_SYN_SENT) {
    tcp_send_syn(net, c);
    return;
  }
  if (c->snd_wnd == 0 && c->snd_end != c->snd_una) {
    tcp_probe(net, c);  // a peer that answers may keep its window shut: take_ack counts anew
    return;
  }
  net->stats.tcp_timeouts++;
  tcp_black_hole(c);
  if (c->flight != NULL) {
    tcp_flight_timeout(net, c);
    return;
  }
  u32 flight = c->snd_max - c->snd_una;
  c->ssthresh = c->retries == 1 ? MAX(flight / 2, 2u * c->mss) : c->ssthresh;  // RFC 5681 (4)
  c->cwnd = c->mss;
  c->fast_dup = false;
  c->dup_acks = 0;
  c->recover = c->snd_max;
  c->force = true;  // also what silly window avoidance holds back (RFC 9293 3.8.6.2.1)
  tcp_rewind(c);
  net->stats.tcp_retransmits++;
  tcp_touch(net, c);
}

void tcp_on_timer(struct core *core, u32 timer, void *owner) {
  struct tcp_conn *c = owner;
  struct net *net = core->net;
  (void)timer;
  ASSERT(c->state != TCP_CLOSED);
  c->armed = 0;
  if (core->now_ns >= c->end_ns && !tcp_keep_probe(net, c)) {
    tcp_die(net, c, TCP_END_TIMEOUT);
    return;
  }
  if (core->now_ns >= c->ack_ns) {
    c->ack_ns = U64_MAX;
    c->ack_now = c->ack_later;
    tcp_touch(net, c);
  }
  if (core->now_ns >= c->rtx_ns) {
    on_rtx(net, c);
  }
  if (c->state != TCP_CLOSED) {
    tcp_rearm(net, c);
  }
}

// --- the owner's calls

enum err tcp_listen(struct net *net, u16 port, const struct tcp_listener_ops *ops,
                    void *listener_user) {
  for (u32 i = 0; i < net->listener_count; i++) {
    if (net->listener[i].port == port) {
      return ERR_EXISTS;
    }
  }
  if (net->listener_count == LISTENERS_MAX) {
    return ERR_LIMIT;
  }
  net->listener[net->listener_count++] = (struct listener){port, ops, listener_user};
  return ERR_OK;
}

void tcp_set_owner(struct tcp_conn *c, const struct tcp_listener_ops *ops, void *user) {
  ASSERT(c->state != TCP_CLOSED);
  c->ops = ops;
  c->user = user;
}

struct span tcp_peek(struct tcp_conn *c) {
  return c->rx == NULL ? span_of(NULL, 0) : span_of(c->rx->data, c->rx->len);
}

u32 tcp_peek_copy(struct tcp_conn *c, u32 skip, struct span out) {
  u32 got = 0;
  for (const struct rxbuf *b = c->rx; b != NULL && got < out.len; b = b->next) {
    if (skip >= b->len) {
      skip -= b->len;
      continue;
    }
    u32 n = (u32)MIN((usize)b->len - skip, out.len - got);
    memcpy(out.ptr + got, b->data + skip, n);
    got += n;
    skip = 0;
  }
  return got;
}

u32 tcp_readable(const struct tcp_conn *c) {
  return c->rx_len;
}

bool tcp_stuffed(const struct tcp_conn *c) {
  return c->rx_bufs >= TCP_RX_BUFS;
}

void tcp_consume(struct tcp_conn *c, u32 len) {
  ASSERT(len <= c->rx_len);
  c->rx_len -= len;
  struct rxbuf *done = NULL;
  struct rxbuf *last = NULL;
  while (c->rx != NULL && c->rx->len <= len) {
    len -= c->rx->len;
    last = c->rx;
    done = done == NULL ? c->rx : done;
    c->rx = c->rx->next;
    c->rx_bufs--;
    c->net->rx_held--;
  }
  if (last != NULL) {
    last->next = NULL;
    plat_rx_release(c->net->core->id, done);
  }
  if (c->rx == NULL) {
    ASSERT(len == 0);
    c->rx_last = NULL;
  } else {
    c->rx->data += len;
    c->rx->len -= len;
  }
  tcp_touch(c->net, c);  // the window may have opened
}

u32 tcp_room(struct tcp_conn *c) {
  u32 unsent = c->snd_end - c->snd_nxt;
  u32 window = MIN(MIN(c->cwnd, c->snd_wnd), TCP_UNSENT_MAX);
  u32 room = window > unsent ? window - unsent : 0;
  if (room < TCP_ROOM_LOW) {
    c->room_wanted = true;
  }
  return room;
}

void tcp_send(struct tcp_conn *c, struct txbuf *b) {
  ASSERT(c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT);
  ASSERT(!c->fin_queued);
  ASSERT(b->len > 0);
  list_push(&c->queue, &b->link);
  c->snd_end += b->len;
  if (c->unsent == NULL) {
    c->unsent = b;
    c->unsent_off = 0;
  }
  tcp_touch(c->net, c);
}

struct txbuf *tcp_tail(struct tcp_conn *c) {
  if (list_empty(&c->queue) || c->fin_queued) {
    return NULL;
  }
  struct txbuf *b = CONTAINER_OF(c->queue.prev, struct txbuf, link);
  return (u32)b->off + b->len < b->cap ? b : NULL;
}

void tcp_tail_commit(struct tcp_conn *c, u32 len) {
  struct txbuf *b = tcp_tail(c);
  ASSERT(b != NULL);
  ASSERT((u32)b->off + b->len + len <= b->cap);
  b->len = (u16)(b->len + len);
  c->snd_end += len;
  tcp_touch(c->net, c);
}

void tcp_close(struct tcp_conn *c) {
  if (c->state == TCP_CLOSED) {
    return;
  }
  ASSERT(c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT);
  c->ops = NULL;
  c->state = c->state == TCP_ESTABLISHED ? TCP_FIN_WAIT_1 : TCP_LAST_ACK;
  c->fin_queued = true;
  c->end_ns = c->net->core->now_ns + FIN_WAIT_2_NS;
  tcp_consume(c, c->rx_len);
  tcp_touch(c->net, c);
  tcp_rearm(c->net, c);
}

void tcp_abort(struct tcp_conn *c) {
  if (c->state == TCP_CLOSED) {
    return;
  }
  struct bare b = {.flow = tcp_flow_of(c),
                   .seq = tcp_ack_seq(c),
                   .ack = c->rcv_nxt,
                   .flags = TCPF_RST | TCPF_ACK,
                   .nic = c->nic};
  c->ops = NULL;
  if (c->state != TCP_SYN_SENT) {  // there the peer knows of nothing
    tcp_send_bare(c->net, &b);
  }
  tcp_free(c->net, c);
}

void tcp_peer(const struct tcp_conn *c, struct tcp_peer *out) {
  *out = (struct tcp_peer){c->remote, c->local, c->remote_port, c->local_port};
}

u32 tcp_unacked(const struct tcp_conn *c) {
  return c->snd_end - c->snd_una;
}
