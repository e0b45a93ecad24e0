// SPDX-License-Identifier: Apache-2.0
// The server on a TCP of the test's own: bytes are fed in pieces, what comes out is collected, room
// and buffers are as large as the test says. Defines every function of tcp and txbuf that server/
// calls, so that the real ones are not linked.
#pragma once
#include <stdlib.h>
#include <string.h>

#include "loop/loop.h"
#include "net/dns.h"
#include "server/conn.h"

extern u64 unit_now_ns;

#define WIRE 400000u

struct tcp_conn {
  struct rxbuf piece[512];
  u32 piece_count, piece_at;
  u32 readable;
  u8 *in;  // exact blocks, so that a read beyond is seen
  u8 out[WIRE];
  u32 out_len;
  u32 room;
  struct txbuf *tail;
  bool closed, aborted;
  u32 address;  // 0 = 10.0.0.1
  void *user;
};

static struct core core;
static const struct tcp_listener_ops *ops;
static void *listener;
static bool no_buffers, no_control_buffers;

enum err tcp_listen(struct net *net, u16 port, const struct tcp_listener_ops *o, void *user) {
  (void)net, (void)port;
  ops = o;
  listener = user;
  return ERR_OK;
}
struct span tcp_peek(struct tcp_conn *c) {
  return c->piece_at < c->piece_count
             ? span_of(c->piece[c->piece_at].data, c->piece[c->piece_at].len)
             : span_of(NULL, 0);
}
u32 tcp_peek_copy(struct tcp_conn *c, u32 skip, struct span out) {
  u32 got = 0;
  for (u32 i = c->piece_at; i < c->piece_count && got < out.len; i++) {
    if (skip >= c->piece[i].len) {
      skip -= c->piece[i].len;
      continue;
    }
    u32 n = (u32)MIN((usize)c->piece[i].len - skip, out.len - got);
    memcpy(out.ptr + got, c->piece[i].data + skip, n);
    got += n;
    skip = 0;
  }
  return got;
}
u32 tcp_readable(const struct tcp_conn *c) {
  return c->readable;
}
bool tcp_stuffed(const struct tcp_conn *c) {
  return c->piece_count - c->piece_at >= 96;
}
void tcp_consume(struct tcp_conn *c, u32 len) {
  ASSERT(len <= c->readable);
  c->readable -= len;
  while (c->piece_at < c->piece_count && c->piece[c->piece_at].len <= len) {
    len -= c->piece[c->piece_at].len;
    free(c->piece[c->piece_at++].next);
  }
  if (len > 0) {
    c->piece[c->piece_at].data += len;
    c->piece[c->piece_at].len -= len;
  }
}
u32 tcp_room(struct tcp_conn *c) {
  return c->room;
}
u32 tcp_unacked(const struct tcp_conn *c) {
  (void)c;
  return 1;
}
static void collect(struct tcp_conn *c, const u8 *bytes, u32 len) {
  ASSERT(len <= WIRE - c->out_len);
  memcpy(c->out + c->out_len, bytes, len);
  c->out_len += len;
  c->room -= MIN(c->room, len);
}
void tcp_send(struct tcp_conn *c, struct txbuf *b) {
  ASSERT(!c->closed);
  ASSERT(b->len > 0);
  collect(c, b->data + b->off, b->len);
  free(b->data);
  free(b);
}
struct txbuf *tcp_tail(struct tcp_conn *c) {
  (void)c;
  return NULL;
}
void tcp_tail_commit(struct tcp_conn *c, u32 len) {
  (void)c, (void)len;
  abort();
}
void tcp_close(struct tcp_conn *c) {
  ASSERT(!c->closed);
  c->closed = true;
}
// Admission: what the server tells of the connection that it told last.
static enum { ADMIT_NOTHING, ADMIT_BEGUN, ADMIT_THROUGH } test_admission;
void tcp_begin(struct tcp_conn *conn) {
  (void)conn;
  test_admission = ADMIT_BEGUN;
}
void tcp_waited(struct tcp_conn *conn, u64 delay_ns) {
  (void)conn, (void)delay_ns;
}
void tcp_through(struct tcp_conn *conn) {
  (void)conn;
  test_admission = ADMIT_THROUGH;
}
void tcp_keepalive(struct tcp_conn *c, bool on) {
  (void)c, (void)on;
}
void tcp_abort(struct tcp_conn *c) {
  c->aborted = true;
}
// A connection that a bridge opens: the test calls its ops->opened or ->ended.
static struct tcp_conn *opening;
static struct ip_addr opening_address;
static const struct tcp_listener_ops *opening_ops;
enum err tcp_connect(struct net *net, struct ip_addr address, u16 port,
                     const struct tcp_listener_ops *o, void *user, struct tcp_conn **out) {
  (void)net, (void)port;
  opening = calloc(1, sizeof *opening);
  opening->room = 65536;
  opening->user = user;
  opening_address = address;
  opening_ops = o;
  *out = opening;
  return ERR_OK;
}
void tcp_set_owner(struct tcp_conn *c, const struct tcp_listener_ops *o, void *user) {
  ASSERT(ops == NULL || o == ops);
  ops = o;
  c->user = user;
}
enum err dns_ask(struct net *net, struct bytes name, dns_handler *handler, void *user) {
  (void)net, (void)name, (void)handler, (void)user;
  return ERR_NOT_FOUND;
}
const char *dns_result_text(enum dns_result result) {
  (void)result;
  return "";
}
void tcp_peer(const struct tcp_conn *c, struct tcp_peer *out) {
  *out = (struct tcp_peer){.address = ip_of4(c->address != 0 ? c->address : 0x0a000001),
                           .local = ip_of4(0x0a000002),
                           .port = 1,
                           .local_port = 1883};
}
struct txbuf *txbuf_take(struct net *net, u32 min_len, enum txbuf_use use) {
  (void)net;
  if ((no_buffers && use == TXBUF_DATA) || (no_control_buffers && use == TXBUF_CONTROL)) {
    return NULL;
  }
  struct txbuf *b = calloc(1, sizeof *b);
  b->cap = min_len <= TXBUF_SMALL ? TXBUF_SMALL : TXBUF_LARGE;
  b->data = malloc(b->cap);
  b->refs = 1;
  list_init(&b->link);
  return b;
}
void txbuf_unref(struct net *net, struct txbuf *b) {
  (void)net;
  free(b->data);
  free(b);
}

// The one listener of the server under test: a test may change it before start_server.
static struct listener_config test_listener = {.port = 1883, .allow_anonymous = true, .max_qos = 2};

static u32 test_argon_kib;  // the arena for argon2id

// A server with that listener; `memory` for the broker.
static void start_server(u64 memory) {
  static bool once;
  static struct timer timers[4096];
  static struct carve carve;
  if (once) {
    return;
  }
  once = true;
  struct broker_limits b;
  struct server_limits s = {.connections = 64,
                            .handshakes = 2,
                            .connect_timeout_ms = 10000,
                            .packet_size_max = 200000,
                            .packet_bytes = 4u << 20,
                            .fronts = 64};
  carve_init(&carve);
  if (test_argon_kib > 0) {
    s.argon_arena = carve_take(&carve, test_argon_kib * 1024ul, 64);
  }
  broker_limits_default(&b, memory);
  b.packet_size_max = s.packet_size_max;
  core_init(&core, 0, timers, ARRAY_COUNT(timers));
  core.net = (struct net *)(void *)&core;  // opaque to the server
  if (broker_init(&core, &carve, &b) != ERR_OK) {
    abort();
  }
  loop_stage(&core, "broker", broker_stage, core.broker);
  if (server_init(&core, &carve, &s) != ERR_OK ||
      server_listen(core.server, &test_listener) != ERR_OK) {
    abort();
  }
}

static struct tcp_conn *open_conn(void) {
  struct tcp_conn *c = calloc(1, sizeof *c);
  c->room = 65536;
  if (!ops->accept(listener, c, &c->user)) {
    abort();
  }
  return c;
}
static void turns(u32 n) {
  for (u32 i = 0; i < n; i++) {
    (void)loop_turn(&core);
  }
}
// One piece of the stream, in a block of exactly its size.
static void feed(struct tcp_conn *c, const void *bytes, u32 len) {
  if (len == 0 || c->closed) {
    return;
  }
  ASSERT(c->piece_count < ARRAY_COUNT(c->piece));
  u8 *copy = malloc(len);
  memcpy(copy, bytes, len);
  c->piece[c->piece_count++] =
      (struct rxbuf){.data = copy, .len = len, .next = (struct rxbuf *)(void *)copy};
  c->readable += len;
  ops->readable(c->user, c);
}
// The connection's end as tcp tells it, and the test's memory back.
static void drop_conn(struct tcp_conn *c) {
  if (!c->closed) {
    ops->ended(c->user, c, TCP_END_RESET);
  }
  while (c->piece_at < c->piece_count) {
    free(c->piece[c->piece_at++].next);
  }
  free(c);
}
