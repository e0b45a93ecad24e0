// SPDX-License-Identifier: Apache-2.0
// Proves: what we open ourselves follows RFC 9293 3.10.7.3: options offered and taken, what refuses
// and what cannot, repeats until given up, both ends at once; local ports differ and avoid those in
// TIME-WAIT; nothing leaks whatever ends it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"

#define PEER_PORT 1883u
#define IRS 70000u

static struct tcp_conn *conn;
static u32 opened_calls, ended_calls, readable_bytes;
static enum tcp_end last_end;
static bool abort_at_once;

static void on_readable(void *user, struct tcp_conn *c) {
  (void)user;
  readable_bytes += tcp_readable(c);
  tcp_consume(c, tcp_readable(c));
}
static void on_writable(void *user, struct tcp_conn *c) {
  (void)user, (void)c;
}
static void on_ended(void *user, struct tcp_conn *c, enum tcp_end why) {
  (void)c;
  assert_ptr_equal(user, &conn);
  ended_calls++;
  last_end = why;
  conn = why == TCP_END_FIN ? conn : NULL;
}
static void on_opened(void *user, struct tcp_conn *c) {
  assert_ptr_equal(user, &conn);
  assert_ptr_equal(c, conn);
  opened_calls++;
  if (abort_at_once) {
    tcp_abort(c);
    conn = NULL;
  }
}
static const struct tcp_listener_ops ops = {
    .readable = on_readable, .writable = on_writable, .ended = on_ended, .opened = on_opened};

static const struct net_limits small = {.tcp_conns = 70,
                                        .tcp_time_wait = 4,
                                        .txbuf_small = 16,
                                        .txbuf_small_reserve = 2,
                                        .txbuf_large = 8,
                                        .tx_slots = 80};
static struct segment out;
static u32 out_count;
static u8 out_options[40];

static void turn(u32 ms) {
  out_count = 0;
  unit_now_ns += ms * SIM_MS;
  for (u32 i = 0; i < 3; i++) {
    loop_turn(&sim.core);
  }
  for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
    const u8 *payload;
    if (sim_read(&p, &out, &payload)) {
      memcpy(out_options, p.data + 54, MIN(p.len - 54, (u32)sizeof out_options));
      out_count++;
    }
    free(p.data);
  }
}

// The peer's MAC becomes known, as by an answer to ARP.
static void start(void) {
  sim_start(1, &small, 5000 * SIM_MS);
  sim_static_address();
  conn = NULL;
  opened_calls = ended_calls = readable_bytes = 0;
  abort_at_once = false;
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  arp_learn(&sim.net->nic[0], SIM_PEER, sim_peer_mac, true);
  turn(1);
}

static void begin(void) {
  assert_int_equal(tcp_connect(sim.net, ip_of4(SIM_PEER), PEER_PORT, &ops, &conn, &conn), ERR_OK);
  turn(1);
  assert_int_equal(out_count, 1);
  assert_int_equal(out.flags, TCPF_SYN);
  assert_int_equal(out.target_port, PEER_PORT);
}

static void answer(u8 flags, u32 seq, u32 ack, u32 len) {
  static u8 frame[SIM_FRAME], data[100];
  static const u8 options[] = {2, 4, 5, 0, 1, 3, 3, 7};
  struct sim_seg s = {.seq = seq,
                      .ack = ack,
                      .len = len,
                      .window = 30000,
                      .port = PEER_PORT,
                      .local_port = out.source_port,
                      .flags = flags,
                      .data = data,
                      .options = options,
                      .options_len = (flags & TCPF_SYN) != 0 ? sizeof options : 0};
  sim_put(&sim.to_stack, frame, sim_tcp_frame(frame, &s), 0);
  turn(1);
}

static void finish(u32 open) {
  assert_int_equal(net_stats(sim.net)->tcp_open, open);
  if (conn != NULL) {
    tcp_abort(conn);
    conn = NULL;
  }
  turn(1);
  assert_int_equal(sim.net->conns.free_count, 70);
  assert_int_equal(sim.rxbufs, 0);
}

static void a_connection_opens_and_carries_bytes(void **state) {
  (void)state;
  start();
  begin();
  u32 iss = out.seq;
  assert_int_equal(out.opt.mss, 1460);
  assert_true(out.opt.has_shift && out.opt.has_ts && out.opt.sack_permitted);
  answer(TCPF_SYN | TCPF_ACK, IRS, iss + 1, 0);
  assert_int_equal(opened_calls, 1);
  assert_int_equal(out_count, 1);
  assert_int_equal(out.flags, TCPF_ACK);
  assert_int_equal(out.seq, iss + 1);
  assert_int_equal(out.ack, IRS + 1);
  assert_false(out.opt.has_ts);  // the peer did not want them
  assert_int_equal(conn->snd_shift, 7);
  assert_int_equal(conn->mss, 1280);
  struct txbuf *b = txbuf_take(sim.net, 10, TXBUF_DATA);
  memset(b->data, 'x', 10);
  b->len = 10;
  tcp_send(conn, b);
  turn(1);
  assert_int_equal(out.len, 10);
  answer(TCPF_ACK, IRS + 1, iss + 11, 50);
  assert_int_equal(readable_bytes, 50);
  assert_int_equal(tcp_unacked(conn), 0);
  tcp_close(conn);
  conn = NULL;
  turn(1);
  assert_int_equal(out.flags & TCPF_FIN, TCPF_FIN);
  answer(TCPF_ACK | TCPF_FIN, IRS + 51, iss + 12, 0);
  finish(0);
}

static void refused(void **state) {
  (void)state;
  start();
  begin();
  u32 iss = out.seq;
  answer(TCPF_RST, IRS, 0, 0);  // a blind reset
  assert_int_equal(ended_calls, 0);
  answer(TCPF_RST | TCPF_ACK, IRS, iss, 0);  // of another connection
  assert_int_equal(ended_calls, 0);
  answer(TCPF_ACK, IRS, iss + 1, 0);  // no SYN: nothing
  assert_int_equal(ended_calls + opened_calls + out_count, 0);
  answer(TCPF_SYN | TCPF_ACK, IRS, iss + 2, 0);  // of an old one: reset there, not here
  assert_int_equal(out.flags, TCPF_RST);
  assert_int_equal(out.seq, iss + 2);
  assert_int_equal(opened_calls + ended_calls, 0);
  answer(TCPF_RST | TCPF_ACK, IRS, iss + 1, 0);
  assert_int_equal(ended_calls, 1);
  assert_int_equal(last_end, TCP_END_RESET);
  finish(0);
}

static void nobody_answers(void **state) {
  (void)state;
  start();
  begin();
  u32 iss = out.seq;
  u32 syns = 1;
  for (u32 i = 0; i < 700 && ended_calls == 0; i++) {
    turn(100);
    syns += out_count;
    assert_true(out_count == 0 || (out.flags == TCPF_SYN && out.seq == iss));
  }
  assert_int_equal(syns, 5);
  assert_int_equal(last_end, TCP_END_TIMEOUT);
  assert_int_equal(ended_calls, 1);
  finish(0);
}

static void both_at_once(void **state) {
  (void)state;
  start();
  begin();
  u32 iss = out.seq;
  answer(TCPF_SYN, IRS, 0, 0);
  assert_int_equal(opened_calls, 0);
  assert_int_equal(out.flags, TCPF_SYN | TCPF_ACK);
  assert_int_equal(out.seq, iss);
  assert_int_equal(out.ack, IRS + 1);
  answer(TCPF_SYN | TCPF_ACK, IRS, iss + 1, 0);
  answer(TCPF_ACK, IRS + 1, iss + 1, 0);
  assert_int_equal(opened_calls, 1);
  assert_int_equal(conn->state, TCP_ESTABLISHED);
  finish(1);
}

static void the_owner_may_leave_at_any_time(void **state) {
  (void)state;
  start();
  begin();
  tcp_abort(conn);
  conn = NULL;
  turn(1);
  assert_int_equal(out_count, 0);  // the peer knows of nothing
  finish(0);
  start();
  abort_at_once = true;
  begin();
  answer(TCPF_SYN | TCPF_ACK, IRS, out.seq + 1, 0);
  assert_int_equal(opened_calls, 1);
  finish(0);
}

static void ports_differ(void **state) {
  (void)state;
  start();
  u16 seen[50];
  for (u32 i = 0; i < 50; i++) {
    struct tcp_conn *c;
    assert_int_equal(tcp_connect(sim.net, ip_of4(SIM_PEER), PEER_PORT, &ops, &conn, &c), ERR_OK);
    seen[i] = c->local_port;
    assert_in_range(seen[i], 49152, 65535);
    for (u32 j = 0; j < i; j++) {
      assert_int_not_equal(seen[i], seen[j]);
    }
  }
  u32 more = 0;
  struct tcp_conn *c;
  while (tcp_connect(sim.net, ip_of4(SIM_PEER), PEER_PORT, &ops, &conn, &c) ==
         ERR_OK) {  // to the last timer
    more++;
  }
  assert_true(more > 0 && more < 20);
  for (u32 port = 49152; port < 65536; port++) {
    struct tcp_conn *rest = sim_conn((u16)port, PEER_PORT);
    if (rest != NULL) {
      tcp_abort(rest);
    }
  }
  turn(1);
  finish(0);
}

static void no_way_there(void **state) {
  (void)state;
  start();
  struct tcp_conn *c;
  assert_int_equal(tcp_connect(sim.net, ip_of4(IP4(192, 0, 2, 1)), 1, &ops, &conn, &c),
                   ERR_NOT_FOUND);
  assert_int_equal(tcp_connect(sim.net, ip_of4(SIM_LOCAL), 1, &ops, &conn, &c), ERR_NOT_FOUND);
  finish(0);
}

static void cut_short_anywhere(void **state) {
  (void)state;
  start();
  begin();
  static u8 frame[SIM_FRAME];
  struct sim_seg s = {.seq = IRS,
                      .ack = out.seq + 1,
                      .window = 1,
                      .port = PEER_PORT,
                      .local_port = out.source_port,
                      .flags = TCPF_SYN | TCPF_ACK};
  u32 len = sim_tcp_frame(frame, &s);
  for (u32 cut = 0; cut < len; cut++) {
    sim_put(&sim.to_stack, frame, cut, 0);
    turn(1);
    assert_int_equal(opened_calls, 0);
  }
  finish(1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_connection_opens_and_carries_bytes),
      cmocka_unit_test(refused),
      cmocka_unit_test(nobody_answers),
      cmocka_unit_test(both_at_once),
      cmocka_unit_test(the_owner_may_leave_at_any_time),
      cmocka_unit_test(ports_differ),
      cmocka_unit_test(no_way_there),
      cmocka_unit_test(cut_short_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
