// SPDX-License-Identifier: Apache-2.0
// Proves: keep-alives go out after two hours and only on an idle connection that wants them, any
// answer starts anew, nine without one end it (RFC 9293 3.8.4); an ICMP error counts only with a
// sequence number in flight, ends only what is not open (RFC 5927 4, 6) and lowers the segment size
// (RFC 1191); repeated timeouts of full segments lower it, too (RFC 4821 7.7); urgent data is data
// (RFC 9293 3.8.5); the receive window grows only for an owner that keeps up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"
#include "net/tcp_flight.h"

#define PORT 4000u
#define HOUR (3600000 * SIM_MS)

static struct tcp_conn *conn;
static u32 ended, seq_at, ack_at, out_count, received;
static enum tcp_end why_ended;
static struct segment out;
static bool consume;

static bool on_accept(void *user, struct tcp_conn *c, void **owner) {
  (void)user;
  *owner = &conn;
  conn = c;
  return true;
}
static void on_readable(void *user, struct tcp_conn *c) {
  (void)user;
  if (consume) {
    received += tcp_readable(c);
    tcp_consume(c, tcp_readable(c));
  }
}
static void on_other(void *user, struct tcp_conn *c) {
  (void)user, (void)c;
}
static void on_ended(void *user, struct tcp_conn *c, enum tcp_end why) {
  (void)user, (void)c;
  ended++;
  why_ended = why;
  conn = why == TCP_END_FIN ? conn : NULL;
}
static const struct tcp_listener_ops ops = {.eager = true,
                                            .accept = on_accept,
                                            .readable = on_readable,
                                            .writable = on_other,
                                            .ended = on_ended,
                                            .opened = on_other};

static void turn(u64 step_ns) {
  out_count = 0;
  unit_now_ns += step_ns;
  for (u32 i = 0; i < 3; i++) {
    loop_turn(&sim.core);
  }
  for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
    const u8 *payload;
    out_count += sim_read(&p, &out, &payload) ? 1 : 0;
    free(p.data);
  }
}
static void inject(u8 flags, u32 len, const u8 *options, u32 options_len) {
  static u8 frame[SIM_FRAME], data[SIM_FRAME];
  struct sim_seg s = {.seq = seq_at,
                      .ack = ack_at,
                      .len = len,
                      .window = 60000,
                      .port = PORT,
                      .flags = flags,
                      .data = data,
                      .options = options,
                      .options_len = options_len};
  sim_put(&sim.to_stack, frame, sim_tcp_frame(frame, &s), 0);
  seq_at += len;
  turn(SIM_MS);
}

static void open_one(void) {
  static const struct net_limits limits = {.tcp_conns = 4,
                                           .tcp_time_wait = 2,
                                           .tcp_flights = 2,
                                           .txbuf_small = 16,
                                           .txbuf_small_reserve = 2,
                                           .txbuf_large = 16,
                                           .tx_slots = 64};
  sim_start(1, &limits, 5000 * SIM_MS);
  sim_static_address();
  conn = NULL;
  ended = received = 0;
  consume = true;
  assert_int_equal(tcp_listen(sim.net, SIM_PORT, &ops, NULL), ERR_OK);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  seq_at = 1000;
  inject(TCPF_SYN, 0, (const u8 *)"\x02\x04\x05\xb4\x01\x01\x04\x02\x01\x03\x03\x05", 12);
  seq_at = 1001;
  ack_at = out.seq + 1;
  inject(TCPF_ACK, 0, NULL, 0);
  assert_non_null(conn);
}

static void finish(void) {
  if (conn != NULL) {
    tcp_abort(conn);
    conn = NULL;
  }
  turn(1000 * SIM_MS);
  turn(SIM_MS);
  assert_int_equal(sim.rxbufs, 0);
  assert_int_equal(pool_taken(&sim.net->conns), 0);
}

static void send(u32 len) {
  while (len > 0) {
    struct txbuf *b = txbuf_take(sim.net, MIN(len, TXBUF_LARGE), TXBUF_DATA);
    assert_non_null(b);
    b->len = (u16)MIN(len, (u32)b->cap);
    memset(b->data, 1, b->len);
    len -= b->len;
    tcp_send(conn, b);
  }
}

// The frame of an ICMP destination unreachable that quotes one of ours.
static void icmp(u8 code, u16 mtu, u32 seq, u16 local_port, u16 remote_port) {
  u8 f[100];
  u32 len = sim_ip_frame(f, IP_ICMP, 8 + 28);
  u8 *m = f + 34;
  memset(m, 0, 36);
  m[0] = 3;
  m[1] = code;
  store_be16(m + 6, mtu);
  u8 *ip = m + 8;
  ip[0] = 0x45;
  ip[9] = IP_TCP;
  store_be32(ip + 12, SIM_LOCAL);
  store_be32(ip + 16, SIM_PEER);
  store_be16(ip + 20, local_port);
  store_be16(ip + 22, remote_port);
  store_be32(ip + 24, seq);
  store_be16(m + 2, (u16)~sim_sum(0, m, 36));
  sim_put(&sim.to_stack, f, len, 0);
  turn(SIM_MS);
}

// The peer answers ARP, though nothing else.
static void tell_mac(void) {
  u8 f[60] = {0};
  memcpy(f, sim_mac, 6);
  memcpy(f + 6, sim_peer_mac, 6);
  memcpy(f + 12, "\x08\x06\0\1\x08\0\6\4\0\2", 10);
  memcpy(f + 22, sim_peer_mac, 6);
  store_be32(f + 28, SIM_PEER);
  memcpy(f + 32, sim_mac, 6);
  store_be32(f + 38, SIM_LOCAL);
  sim_put(&sim.to_stack, f, sizeof f, 0);
}

static void keep_alive(void **state) {
  (void)state;
  open_one();
  turn(3 * HOUR);  // off: nothing
  assert_int_equal(out_count, 0);
  tcp_keepalive(conn, true);
  turn(2 * HOUR - 2000 * SIM_MS);
  assert_int_equal(out_count, 0);
  turn(3000 * SIM_MS);
  assert_int_equal(out_count, 1);
  assert_int_equal(out.seq, ack_at - 1);
  assert_int_equal(out.len, 0);
  inject(TCPF_ACK, 0, NULL, 0);  // alive: two hours again
  turn(2 * HOUR - 2000 * SIM_MS);
  assert_int_equal(out_count, 0);
  u32 probes = 0;
  for (u32 i = 0; i < 20 && ended == 0; i++) {
    tell_mac();
    turn(76000 * SIM_MS);
    probes += out_count;
  }
  assert_int_equal(probes, 9);
  assert_int_equal(ended, 1);
  assert_int_equal(why_ended, TCP_END_TIMEOUT);
  finish();
}

static void icmp_is_judged(void **state) {
  (void)state;
  open_one();
  send(4000);
  turn(SIM_MS);
  u32 mss = conn->mss;
  icmp(4, 1000, ack_at - 1, SIM_PORT, PORT);     // acknowledged already
  icmp(4, 1000, ack_at + 4000, SIM_PORT, PORT);  // not sent yet
  icmp(4, 200, ack_at, SIM_PORT, PORT);          // no such path (RFC 791)
  icmp(4, 1000, ack_at, SIM_PORT, PORT + 1);
  assert_int_equal(conn->mss, mss);
  icmp(3, 0, ack_at, SIM_PORT, PORT);  // RFC 5927 6: not the end of an open connection
  icmp(2, 0, ack_at, SIM_PORT, PORT);
  assert_int_equal(ended, 0);
  u32 cwnd = conn->cwnd;
  icmp(4, 1000, ack_at + 1460, SIM_PORT, PORT);
  assert_int_equal(conn->mss, 960);
  assert_int_equal(conn->cwnd, cwnd);  // not a sign of congestion
  assert_true(out_count >= 4);         // all of it again, in smaller pieces
  finish();
}

static void refused_by_icmp(void **state) {
  (void)state;
  open_one();
  struct tcp_conn *c;
  assert_int_equal(tcp_connect(sim.net, ip_of4(SIM_PEER), 80, &ops, &conn, &c), ERR_OK);
  turn(SIM_MS);
  u16 port = c->local_port;
  u32 iss = c->snd_una - 1;
  icmp(3, 0, iss + 1, port, 80);
  icmp(1, 0, iss, port, 80);  // host unreachable: may pass
  assert_int_equal(ended, 0);
  icmp(3, 0, iss, port, 80);
  assert_int_equal(ended, 1);
  assert_int_equal(why_ended, TCP_END_RESET);
  conn = sim_conn(SIM_PORT, PORT);
  finish();
}

static void black_hole(void **state) {
  (void)state;
  open_one();
  send(4000);
  u32 smallest = U32_MAX;
  for (u32 i = 0; i < 40 && ended == 0; i++) {  // whatever is larger than 800 is swallowed
    turn(500 * SIM_MS);
    smallest = out_count > 0 ? MIN(smallest, out.len) : smallest;
  }
  assert_in_range(conn->mss, 500, 730);
  assert_true(smallest <= 730);
  finish();
  open_one();
  send(300);  // small segments say nothing about size
  for (u32 i = 0; i < 40; i++) {
    turn(500 * SIM_MS);
  }
  assert_int_equal(conn->mss, 1460);
  finish();
}

static void urgent_is_data(void **state) {
  (void)state;
  open_one();
  inject(TCPF_ACK | TCPF_PSH | 32, 10, NULL, 0);
  inject(TCPF_ACK | 32, 0, NULL, 0);  // a pointer beyond anything
  inject(TCPF_ACK, 10, NULL, 0);
  assert_int_equal(received, 20);
  assert_int_equal(ended, 0);
  finish();
}

static u32 window_after(bool keeps_up) {
  open_one();
  consume = keeps_up;
  conn->srtt_us = 20000;
  for (u32 i = 0; i < 400; i++) {
    inject(TCPF_ACK, MIN(1460u * 4, conn->rcv_adv - conn->rcv_nxt), NULL, 0);
    if (conn->rcv_adv == conn->rcv_nxt) {
      break;
    }
  }
  u32 grown = TCP_RX_BYTES << conn->rcv_grow;
  assert_true(tcp_window(conn) <= grown);
  finish();
  return grown;
}

static void window_grows(void **state) {
  (void)state;
  assert_true(window_after(true) >= 2 * TCP_RX_BYTES);
  assert_int_equal(window_after(false), TCP_RX_BYTES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keep_alive),      cmocka_unit_test(icmp_is_judged),
      cmocka_unit_test(refused_by_icmp), cmocka_unit_test(black_hole),
      cmocka_unit_test(urgent_is_data),  cmocka_unit_test(window_grows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
