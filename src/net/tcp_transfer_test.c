// SPDX-License-Identifier: Apache-2.0
// Proves: over a link that loses, repeats, reorders and damages frames, with devices that are late
// or full, every byte arrives once and in order in both directions, both ends close, and the stack
// holds no buffer and no connection afterwards; in bounded virtual time; over IPv4 and, every third
// seed, IPv6; also across the wrap of
// the sequence numbers, through shut and shrinking windows, with and without each option and
// offload. The stack never sends beyond the window it was given.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"
#include "net/tcp_flight.h"

#define STREAM_MAX 200000u

static u8 pattern(u32 i, u32 salt) {
  return (u8)((i * 2654435761u + salt) >> 13 ^ i);
}

// --- the owner on the stack's side
static struct {
  struct tcp_conn *conn;
  u32 received, sent, want_send, want_receive;
  bool fin, ended, closed, lazy;
} app;

static bool on_accept(void *user, struct tcp_conn *conn, void **owner) {
  (void)user;
  app.conn = conn;
  *owner = &app;
  return true;
}
static void app_read(void) {
  while (tcp_readable(app.conn) > 0) {
    struct span in = tcp_peek(app.conn);
    SIM_CHECK(in.len > 0);
    u8 copy[512];
    u32 skip = sim_draw(tcp_readable(app.conn));
    u32 n = tcp_peek_copy(app.conn, skip, span_of(copy, sizeof copy));
    SIM_CHECK(n == MIN(tcp_readable(app.conn) - skip, 512u));
    for (u32 i = 0; i < n; i++) {
      SIM_CHECK(copy[i] == pattern(app.received + skip + i, 7));
    }
    u32 take = 1 + sim_draw(tcp_readable(app.conn));
    for (u32 i = 0; i < MIN(take, in.len); i++) {
      SIM_CHECK(in.ptr[i] == pattern(app.received + i, 7));
      in.ptr[i] = 0;
    }
    tcp_consume(app.conn, take);
    app.received += take;
    if (app.lazy && sim_chance(500)) {
      return;
    }
  }
}
static void on_readable(void *user, struct tcp_conn *conn) {
  (void)user;
  SIM_CHECK(conn == app.conn);
  if (!app.lazy) {
    app_read();
  }
}
static void on_writable(void *user, struct tcp_conn *conn) {
  (void)user, (void)conn;
}
static void on_ended(void *user, struct tcp_conn *conn, enum tcp_end why) {
  (void)user, (void)conn;
  app.fin = app.fin || why == TCP_END_FIN;
  if (why != TCP_END_FIN) {
    app.ended = true;
    app.conn = NULL;
  }
}
static const struct tcp_listener_ops ops = {.eager = true,
                                            .accept = on_accept,
                                            .readable = on_readable,
                                            .writable = on_writable,
                                            .ended = on_ended};

static void app_write(void) {
  while (app.sent < app.want_send) {
    u32 room = tcp_room(app.conn);
    u32 most = 1 + sim_draw(TXBUF_LARGE);
    u32 n = MIN(MIN(room, app.want_send - app.sent), most);
    if (n == 0) {
      return;
    }
    struct txbuf *b = tcp_tail(app.conn);
    if (b != NULL && sim_chance(500)) {
      n = MIN(n, (u32)b->cap - b->off - b->len);
      for (u32 i = 0; i < n; i++) {
        b->data[b->off + b->len + i] = pattern(app.sent + i, 3);
      }
      app.sent += n;
      tcp_tail_commit(app.conn, n);
      continue;
    }
    b = txbuf_take(sim.net, n, TXBUF_DATA);
    if (b == NULL) {
      return;
    }
    n = MIN(n, b->cap);
    for (u32 i = 0; i < n; i++) {
      b->data[i] = pattern(app.sent + i, 3);
    }
    b->len = (u16)n;
    app.sent += n;
    tcp_send(app.conn, b);
  }
}
static bool app_stage(struct core *core, void *ctx) {
  (void)core, (void)ctx;
  if (app.conn == NULL || app.closed) {
    return false;
  }
  if (!app.lazy || sim_chance(300)) {
    app_read();
  }
  app_write();
  if (app.fin && app.received == app.want_receive && app.sent == app.want_send) {
    app.closed = true;
    tcp_close(app.conn);
    app.conn = NULL;
  }
  return false;
}

// --- the peer: a small TCP client, go-back-N
static struct {
  u32 iss, irs, una, nxt, top, rcv;
  bool established, ts, sack, scale, refused;
  bool fin_sent, fin_received, fin_acked;
  u32 mss, wnd, out_wnd, edge, salt_len;
  u64 rto_at, rto;
  u32 ts_recent;
  bool got[STREAM_MAX + 2];
  u32 got_len, fin_at, dup_begin, dup_end;
  bool has_dup;
  bool has_fin;
  u64 shut_until;
} peer;

// SACK blocks of what came early, sometimes after a D-SACK of what came last (RFC 2018, 2883).
static u32 peer_sack(u8 *out, u32 most) {
  u32 n = 4;
  u32 at = peer.rcv - peer.irs - 1;
  if (peer.has_dup) {
    store_be32(out + n, peer.dup_begin);
    store_be32(out + n + 4, peer.dup_end);
    n += 8;
    peer.has_dup = false;
  }
  while (at < app.want_send && n < 4 + 8 * most) {
    u32 begin = at;
    for (; begin < app.want_send && !peer.got[begin]; begin++) {
    }
    for (at = begin; at < app.want_send && peer.got[at]; at++) {
    }
    if (at > begin) {
      store_be32(out + n, peer.irs + 1 + begin);
      store_be32(out + n + 4, peer.irs + 1 + at);
      n += 8;
    }
  }
  if (n == 4) {
    return 0;
  }
  memcpy(out, "\x01\x01\x05", 3);
  out[3] = (u8)(n - 2);
  return n;
}

static void peer_segment(u8 flags, u32 seq, u32 len) {
  static u8 frame[SIM_FRAME], data[SIM_FRAME], options[64];
  for (u32 i = 0; i < len; i++) {
    data[i] = pattern(seq - peer.iss - 1 + i, 7);
  }
  u32 n = 0;
  if ((flags & TCPF_SYN) != 0) {
    memcpy(options, "\x02\x04\x05\xb4", 4);
    store_be16(options + 2, (u16)peer.mss);
    n = 4;
    if (peer.sack) {
      memcpy(options + n, "\x01\x01\x04\x02", 4);
      n += 4;
    }
    if (peer.scale) {
      memcpy(options + n, "\x01\x03\x03\x03", 4);
      n += 4;
    }
  }
  if (peer.ts) {
    memcpy(options + n, "\x01\x01\x08\x0a", 4);
    store_be32(options + n + 4, (u32)(unit_now_ns / SIM_MS) + 0xfffffff0u);
    store_be32(options + n + 8, peer.ts_recent);
    n += 12;
  }
  if (peer.sack && (flags & TCPF_SYN) == 0 && peer.established) {
    n += peer_sack(options + n, peer.ts ? 3 : 4);
  }
  u32 shift = peer.scale && (flags & TCPF_SYN) == 0 ? 3 : 0;
  struct sim_seg s = {.seq = seq,
                      .ack = peer.rcv,
                      .len = len,
                      .window = MIN(peer.wnd >> shift, 65535u),
                      .port = 5000,
                      .flags = flags,
                      .data = data,
                      .options = options,
                      .options_len = n};
  u32 edge = peer.rcv + (s.window << shift);
  peer.edge = seq_lt(peer.edge, edge) ? edge : peer.edge;
  sim_send(&sim.to_stack, frame, sim_tcp_frame(frame, &s));
}

static void peer_input(const struct segment *s, const u8 *payload) {
  SIM_CHECK((s->flags & TCPF_RST) == 0);
  if (s->opt.has_ts) {
    peer.ts_recent = s->opt.ts_value;
  }
  if ((s->flags & TCPF_SYN) != 0) {
    if (!peer.established) {
      SIM_CHECK(s->ack == peer.iss + 1);
      SIM_CHECK(s->opt.has_ts == peer.ts && s->opt.has_shift == peer.scale);
      peer.irs = s->seq;
      peer.rcv = peer.edge = s->seq + 1;
      peer.una = peer.nxt = peer.top = peer.iss + 1;
      peer.established = true;
      peer.out_wnd = s->window;
    }
    peer_segment(TCPF_ACK, peer.nxt, 0);
    return;
  }
  if (!peer.established) {
    return;
  }
  if (s->len == 0 && (s->flags & TCPF_FIN) == 0 && s->seq - peer.rcv > peer.wnd) {
    return;  // RFC 9293 3.10.7.4: an acknowledgement outside the window says nothing
  }
  if (seq_lt(peer.una, s->ack) && seq_le(s->ack, peer.top)) {
    peer.una = s->ack;
    peer.nxt = seq_lt(peer.nxt, peer.una) ? peer.una : peer.nxt;
    peer.rto = 200 * SIM_MS;
    peer.rto_at = unit_now_ns + peer.rto;
    peer.fin_acked = peer.una == peer.iss + 2 + app.want_receive;
  }
  SIM_CHECK(seq_le(s->ack, peer.top));
  if (seq_le(peer.una, s->ack)) {
    peer.out_wnd = s->window << (peer.scale ? TCP_WINDOW_SHIFT : 0);
  }
  u32 at = s->seq - peer.irs - 1;
  bool fin = (s->flags & TCPF_FIN) != 0;
  if (s->len > 0 || fin) {
    SIM_CHECK(at + s->len <= app.want_send);
    SIM_CHECK(s->len == 1 || seq_le(s->seq + s->len, peer.edge));  // one byte: a probe
    bool fits = (i32)(peer.rcv + peer.wnd - s->seq) >= (i32)s->len;
    peer.has_dup = s->len > 0 && fits && peer.got[at] && peer.got[at + s->len - 1];
    peer.dup_begin = s->seq;
    peer.dup_end = s->seq + s->len;
    for (u32 i = 0; i < s->len && fits; i++) {
      SIM_CHECK(payload[i] == pattern(at + i, 3));
      peer.got[at + i] = true;
    }
    if (fin) {
      SIM_CHECK(at + s->len == app.want_send);
      peer.has_fin = fits || peer.has_fin;
    }
    while (peer.rcv - peer.irs - 1 < app.want_send && peer.got[peer.rcv - peer.irs - 1]) {
      peer.rcv++;
    }
    if (peer.has_fin && peer.rcv - peer.irs - 1 == app.want_send) {
      peer.rcv++;
      peer.fin_received = true;
    }
    peer_segment(TCPF_ACK, peer.nxt, 0);
  }
}

static void peer_send(u32 gro) {
  u32 end = peer.iss + 1 + app.want_receive;
  if (unit_now_ns >= peer.rto_at && (peer.una != peer.nxt || peer.out_wnd == 0)) {
    peer.nxt = peer.una;
    peer.rto = MIN(peer.rto * 2, 4000 * SIM_MS);
    peer.rto_at = unit_now_ns + peer.rto;
    if (peer.out_wnd == 0 && seq_lt(peer.nxt, end)) {
      peer_segment(TCPF_ACK, peer.nxt, 1);
      peer.nxt++;
      peer.top = seq_lt(peer.top, peer.nxt) ? peer.nxt : peer.top;
    }
  }
  for (u32 burst = 0; burst < 16; burst++) {
    u32 flight = peer.nxt - peer.una;
    u32 room = peer.out_wnd > flight ? peer.out_wnd - flight : 0;
    u32 left = (i32)(end - peer.nxt) > 0 ? end - peer.nxt : 0;
    u32 most = 1 + sim_draw(gro);
    u32 n = MIN(MIN(room, left), most);
    bool fin = n == left && !peer.fin_acked && peer.nxt - peer.una + n < app.want_receive + 2 &&
               peer.nxt + n == end;
    if (n == 0 && !fin) {
      break;
    }
    peer_segment((u8)(TCPF_ACK | (fin ? TCPF_FIN : 0)), peer.nxt, n);
    if (peer.nxt == peer.una) {
      peer.rto_at = unit_now_ns + peer.rto;
    }
    peer.nxt += n + (fin ? 1 : 0);
    peer.top = seq_lt(peer.top, peer.nxt) ? peer.nxt : peer.top;
    if (fin) {
      break;
    }
  }
}

static void peer_window(bool shrink) {
  if (unit_now_ns < peer.shut_until) {
    return;
  }
  u32 old = peer.wnd;
  peer.wnd = sim_chance(20) ? 0 : sim_chance(100) ? 1 + sim_draw(3000) : 20000 + sim_draw(40000);
  if (!shrink && seq_lt(peer.rcv + peer.wnd, peer.edge)) {
    peer.wnd = peer.edge - peer.rcv;
  }
  peer.wnd = ALIGN_UP(peer.wnd, 8u);
  peer.shut_until = unit_now_ns + sim_draw(400) * SIM_MS;
  if (old < peer.wnd && peer.established) {
    peer_segment(TCPF_ACK, peer.nxt, 0);  // window update; a lost one costs a probe
  }
}

static bool all_done(void) {
  return app.closed && sim.net->stats.tcp_open == 0 && peer.fin_acked && peer.fin_received;
}

static void check_clean(void) {
  u64 until = unit_now_ns + 2000 * SIM_MS;
  // A question about a neighbour or an announcement may go out at any time.
  while (unit_now_ns < until || (sim.held_count > 0 && unit_now_ns < until + 1000 * SIM_MS)) {
    unit_now_ns += 50 * SIM_MS;
    loop_turn(&sim.core);
  }
  SIM_CHECK(sim.held_count == 0);
  SIM_CHECK(pool_taken(&sim.net->slots) == 0);
  SIM_CHECK(pool_taken(&sim.net->small) == 0 && pool_taken(&sim.net->large) == 0);
  SIM_CHECK(pool_taken(&sim.net->conns) == 0 && pool_taken(&sim.net->flights) == 0);
  SIM_CHECK(sim.net->rx_held == 0);
  SIM_CHECK(sim.rxbufs == 0);
}

static void tell(void) {
  struct tcp_conn *c = app.conn;
  fprintf(stderr, "app got %u/%u sent %u/%u fin %d closed %d open %u\n", app.received,
          app.want_receive, app.sent, app.want_send, app.fin, app.closed, sim.net->stats.tcp_open);
  fprintf(stderr, "peer una %u nxt %u top %u rcv %u wnd %u out_wnd %u fin acked %d received %d\n",
          peer.una - peer.iss, peer.nxt - peer.iss, peer.top - peer.iss, peer.rcv - peer.irs,
          peer.wnd, peer.out_wnd, peer.fin_acked, peer.fin_received);
  fprintf(stderr, "loss %u corrupt %u wnd ts %d lazy %d\n", sim.loss, sim.corrupt, peer.ts,
          app.lazy);
  for (u32 i = 0; i < DROP_COUNT; i++) {
    fprintf(stderr, "%s %llu\n", net_drop_name(i),
            (unsigned long long)sim.net->stats.rx_dropped[i]);
  }
  if (c != NULL) {
    fprintf(stderr, "conn state %u una %u nxt %u end %u max %u wnd %u cwnd %u rx %u ooo %u\n",
            c->state, c->snd_una - peer.irs, c->snd_nxt - peer.irs, c->snd_end - peer.irs,
            c->snd_max - peer.irs, c->snd_wnd, c->cwnd, c->rx_len, c->ooo_bufs);
  }
}

static void transfer(u64 seed) {
  struct net_limits limits = {.tcp_conns = 4,
                              .tcp_time_wait = 2,
                              .txbuf_small = 64,
                              .txbuf_small_reserve = 4,
                              .txbuf_large = 48,
                              .tx_slots = 80};
  limits.tcp_flights = seed % 4 == 0 ? 0 : 2;
  sim_start(seed, &limits, sim_draw(2) ? 1000 * SIM_MS : 0xfffff000ull * 4000);
  sim_static_address();
  memset(&app, 0, sizeof app);
  memset(&peer, 0, sizeof peer);
  sim.tx_csum = sim_chance(500);
  sim.tso = sim.tx_csum && sim_chance(500);
  sim.loss = sim_draw(3) * sim_draw(60);
  sim.duplicate = sim_draw(2) * sim_draw(100);
  sim.corrupt = sim_draw(2) * sim_draw(30);
  sim.reorder = sim_draw(2) * sim_draw(300);
  sim.delay_ns = (1 + sim_draw(40)) * SIM_MS;
  sim.device_ns = sim_chance(500) ? 3 * SIM_MS : 0;
  sim.held_max = sim_chance(300) ? 3 : SIM_HELD;
  sim.split = sim_chance(300) ? 100 + sim_draw(1000) : PLAT_RXBUF_SIZE;
  app.lazy = sim_chance(300);
  app.want_send = sim_chance(100) ? 0 : sim_draw(sim_chance(50) ? STREAM_MAX : 20000);
  app.want_receive = sim_chance(100) ? 0 : sim_draw(sim_chance(50) ? STREAM_MAX : 20000);
  peer.iss = sim_chance(300) ? 0u - sim_draw(20000) : sim_draw(U32_MAX);
  peer.ts = sim_chance(600);
  peer.sack = sim_chance(600);
  peer.scale = sim_chance(600);
  peer.mss = sim_chance(200) ? 100 + sim_draw(400) : 1460;
  peer.wnd = 32768;
  peer.rto = 200 * SIM_MS;
  u32 gro = sim_chance(200) ? 20000 : sim_chance(200) ? 40 : 1460 - 12;
  bool shrink = sim_chance(200);
  if (seed % 3 == 0) {
    sim_static_address6();
  } else {
    sim_static_address();
  }
  plat_nic_info(0, &sim.net->nic[0].info);
  SIM_CHECK(tcp_listen(sim.net, SIM_PORT, &ops, NULL) == ERR_OK);
  loop_stage(&sim.core, "app", app_stage, NULL);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  u64 end = unit_now_ns + 3000000 * SIM_MS;
  u64 syn_at = unit_now_ns;
  while (!all_done()) {
    SIM_CHECK(!app.ended);
    if (!peer.established && unit_now_ns >= syn_at) {
      peer_segment(TCPF_SYN, peer.iss, 0);
      syn_at = unit_now_ns + 1000 * SIM_MS;
    }
    for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
      struct segment s;
      const u8 *payload;
      if (sim_read(&p, &s, &payload)) {
        peer_input(&s, payload);
      }
      free(p.data);
    }
    if (peer.established) {
      peer_window(shrink);
      peer_send(gro);
    }
    loop_turn(&sim.core);
    if (app.conn != NULL) {
      flight_check(app.conn);
    }
    u64 next = MIN(sim_next_ns(), peer.established ? peer.rto_at : syn_at);
    unit_now_ns = MAX(unit_now_ns + 100000, MIN(next, unit_now_ns + 50 * SIM_MS));
    if (unit_now_ns >= end) {
      fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
      tell();
    }
    SIM_CHECK(unit_now_ns < end);
  }
  SIM_CHECK(app.received == app.want_receive);
  sim_drop_all(&sim.to_stack);
  sim.loss = 1000;
  check_clean();
}

static u64 first_seed = 1, seeds = 1000;

static void every_byte_once_in_order(void **state) {
  (void)state;
  for (u64 seed = first_seed; seed < first_seed + seeds; seed++) {
    if (isatty(2)) {
      fprintf(stderr, "\rseed %llu ", (unsigned long long)seed);
    }
    transfer(seed);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    first_seed = strtoull(argv[1], NULL, 10);
    seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_once_in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
