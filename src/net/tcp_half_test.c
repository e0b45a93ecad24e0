// SPDX-License-Identifier: Apache-2.0
// Proves: a listener hears of a connection at its client's first byte (a listener that speaks first
// at once), a silent flow is forgotten after 10 s, 3 s when places are short, and its SYN-ACK is
// repeated once; what a stranger sends at a half is answered as RFC 5961 says and no more; SYNs
// without a slot wait and are answered in their turn; with every place taken SYNs get cookies: a
// good one becomes the connection that its SYN described, a wrong or old or used one nothing, and
// without a slot there is silence; segments cut short at every byte change nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"
#include "net/tcp_half.h"

#define ISS 1000u
#define PORT 4000u
#define HALVES 32u

static u32 accepts, readable_bytes;
static bool has_room;
static struct tcp_conn *conn;

static bool on_room(void *user) {
  (void)user;
  return has_room;
}
static bool on_accept(void *user, struct tcp_conn *c, void **owner) {
  (void)user;
  *owner = &conn;
  conn = c;
  accepts++;
  return true;
}
static void on_readable(void *user, struct tcp_conn *c) {
  (void)user;
  readable_bytes += tcp_readable(c);
  tcp_consume(c, tcp_readable(c));
}
static void on_writable(void *user, struct tcp_conn *c) {
  (void)user, (void)c;
}
static void on_ended(void *user, struct tcp_conn *c, enum tcp_end why) {
  (void)user, (void)c, (void)why;
}
static const struct tcp_listener_ops lazy = {.room = on_room,
                                             .accept = on_accept,
                                             .readable = on_readable,
                                             .writable = on_writable,
                                             .ended = on_ended};
static const struct tcp_listener_ops eager = {.eager = true,
                                              .accept = on_accept,
                                              .readable = on_readable,
                                              .writable = on_writable,
                                              .ended = on_ended};
static const struct net_limits small = {.tcp_conns = 100,
                                        .tcp_halves = HALVES,
                                        .tcp_parked = 64,
                                        .tcp_time_wait = 4,
                                        .txbuf_small = 16,
                                        .txbuf_small_reserve = 2,
                                        .txbuf_large = 8,
                                        .tx_slots = 80};

static void start(const struct tcp_listener_ops *ops) {
  sim_start(1, &small, 5000000 * SIM_MS);
  sim_static_address();
  accepts = readable_bytes = 0;
  has_room = true;
  conn = NULL;
  assert_int_equal(tcp_listen(sim.net, SIM_PORT, ops, NULL), ERR_OK);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
}

static struct segment out;  // the last answer
static u32 out_count;

static void turn_ms(u32 ms) {
  out_count = 0;
  unit_now_ns += ms * SIM_MS;
  for (u32 i = 0; i < 3; i++) {
    loop_turn(&sim.core);
  }
  for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
    const u8 *payload;
    out_count += sim_read(&p, &out, &payload) ? 1 : 0;
    free(p.data);
  }
}

static void inject_full(const struct sim_seg *s, u32 cut) {
  static u8 frame[SIM_FRAME], data[SIM_FRAME];
  struct sim_seg copy = *s;
  copy.data = data;
  copy.window = 30000;
  u32 len = sim_tcp_frame(frame, &copy);
  sim_put(&sim.to_stack, frame, MIN(len, cut), 0);
  turn_ms(1);
}
static void inject(u16 port, u8 flags, u32 seq, u32 ack, u32 len) {
  inject_full(&(struct sim_seg){.seq = seq, .ack = ack, .len = len, .port = port, .flags = flags},
              U32_MAX);
}
// A SYN that is answered; our number.
static u32 half(u16 port) {
  inject(port, TCPF_SYN, ISS, 0, 0);
  assert_int_equal(out_count, 1);
  assert_int_equal(out.flags, TCPF_SYN | TCPF_ACK);
  assert_int_equal(out.ack, ISS + 1);
  return out.seq;
}
static bool is_half(u16 port) {
  struct tcp_flow flow = sim_flow(SIM_PORT, port);
  return tcp_half_find(sim.net, &flow) != NULL;
}

static void first_byte(void **state) {
  (void)state;
  start(&lazy);
  u32 irs = half(PORT);
  assert_int_equal(pool_taken(&sim.net->conns), 0);
  turn_ms(19);
  inject(PORT, TCPF_ACK, ISS + 1, irs + 1, 0);
  assert_int_equal(out_count, 0);
  assert_int_equal(accepts, 0);
  turn_ms(500);  // the client's own time: no part of the round trip
  inject(PORT, TCPF_ACK | TCPF_PSH, ISS + 1, irs + 1, 7);
  assert_int_equal(accepts, 1);
  assert_int_equal(readable_bytes, 7);
  assert_int_equal(conn->state, TCP_ESTABLISHED);
  assert_in_range(conn->srtt_us, 20000, 22000);
  assert_false(is_half(PORT));
  assert_int_equal(sim.net->admit.used, 0);
  tcp_begin(conn);
  tcp_begin(conn);
  assert_int_equal(sim.net->admit.used, 1);
  tcp_through(conn);
  assert_int_equal(sim.net->admit.used, 0);
  assert_int_equal(sim.net->admit.expected, 0);
  tcp_abort(conn);
  turn_ms(1);
  // Who closes without a word is heard too, and one that speaks first is there at once.
  irs = half(PORT + 1);
  inject(PORT + 1, TCPF_ACK | TCPF_FIN, ISS + 1, irs + 1, 0);
  assert_int_equal(accepts, 2);
  assert_int_equal(conn->state, TCP_CLOSE_WAIT);
  tcp_abort(conn);
  assert_int_equal(sim.net->admit.expected, 0);
  start(&eager);
  irs = half(PORT);
  inject(PORT, TCPF_ACK, ISS + 1, irs + 1, 0);
  assert_int_equal(accepts, 1);
  tcp_abort(conn);
  turn_ms(1);
}

static void silence(void **state) {
  (void)state;
  start(&lazy);
  u32 irs = half(PORT);
  u32 again = 0;
  for (u32 ms = 0; ms < 9900; ms += 100) {
    turn_ms(100);
    again += out_count;
    assert_true(out_count == 0 || (out.seq == irs && out.flags == (TCPF_SYN | TCPF_ACK)));
    assert_true(is_half(PORT));
  }
  assert_int_equal(again, 1);
  turn_ms(500);
  assert_false(is_half(PORT));
  half(PORT);  // acknowledged, then silent: not repeated
  inject(PORT, TCPF_ACK, ISS + 1, out.seq + 1, 0);
  turn_ms(2000);
  assert_int_equal(out_count, 0);
  for (u16 i = 1; i < HALVES * 3 / 4; i++) {  // many: they get 3 s
    half((u16)(PORT + i));
    turn_ms(1500);
    assert_true(is_half((u16)(PORT + i)));
    unit_now_ns -= 1500 * SIM_MS;
    sim.core.now_ns = unit_now_ns;
    sim.net->admit.all_ms = 1ull << 30;
  }
  turn_ms(3200);
  turn_ms(200);
  assert_int_equal(pool_taken(&sim.net->halves), 0);
}

static void strangers(void **state) {
  (void)state;
  start(&lazy);
  u32 irs = half(PORT);
  inject(PORT, TCPF_SYN, ISS, 0, 0);  // ours was lost
  assert_int_equal(out.flags, TCPF_SYN | TCPF_ACK);
  assert_int_equal(out.seq, irs);
  inject(PORT, TCPF_RST, ISS + 2, 0, 0);  // inside the window, not exact
  assert_int_equal(out.flags, TCPF_ACK);
  inject(PORT, TCPF_SYN, ISS + 5, 0, 0);
  assert_int_equal(out_count, 0);  // a challenge each 500 ms
  inject(PORT, TCPF_RST, ISS + 200000, 0, 0);
  assert_int_equal(out_count, 0);
  turn_ms(500);
  inject(PORT, TCPF_ACK, ISS + 200000, irs + 1, 9);
  assert_int_equal(out.flags, TCPF_ACK);
  assert_int_equal(out.ack, ISS + 1);
  inject(PORT, 0, ISS + 1, 0, 5);
  assert_int_equal(out_count, 0);
  inject(PORT, TCPF_ACK, ISS + 1, irs + 7, 5);
  assert_int_equal(out.flags, TCPF_RST);
  assert_int_equal(out.seq, irs + 7);
  assert_true(is_half(PORT));
  assert_int_equal(accepts, 0);
  inject(PORT, TCPF_RST, ISS + 1, 0, 0);
  assert_int_equal(out_count, 0);
  assert_false(is_half(PORT));
  assert_int_equal(sim.net->admit.expected, 0);
}

static void cut_short(void **state) {
  (void)state;
  start(&lazy);
  struct sim_seg syn = {.seq = ISS, .port = PORT, .flags = TCPF_SYN};
  for (u32 cut = 0; cut < 54; cut++) {
    inject_full(&syn, cut);
    assert_int_equal(out_count, 0);
    assert_int_equal(pool_taken(&sim.net->halves), 0);
  }
  u32 irs = half(PORT);
  struct sim_seg data = {.seq = ISS + 1, .ack = irs + 1, .len = 3, .port = PORT, .flags = TCPF_ACK};
  for (u32 cut = 0; cut < 57; cut++) {
    inject_full(&data, cut);
    assert_int_equal(accepts, 0);
    assert_true(is_half(PORT));
  }
  inject_full(&data, U32_MAX);
  assert_int_equal(accepts, 1);
  tcp_abort(conn);
  turn_ms(1);
}

static void flows_come_to_something(void) {
  sim.net->admit.all_ms = 1ull << 30;
  sim.net->admit.begun_ms = 1ull << 40;
}

static void waiting(void **state) {
  (void)state;
  start(&lazy);
  flows_come_to_something();
  u32 slots = sim.net->admit.slots;
  u32 irs[64];
  for (u16 i = 0; i < slots; i++) {
    irs[i] = half((u16)(PORT + i));
  }
  for (u16 i = 0; i < 10; i++) {
    inject((u16)(5000 + i), TCPF_SYN, ISS, 0, 0);
    inject((u16)(5000 + i), TCPF_SYN, ISS, 0, 0);  // its sender tries again
    assert_int_equal(out_count, 0);
  }
  assert_int_equal(sim.net->admit.waiting, 10);
  for (u16 i = 0; i < 10; i++) {  // one comes in: one may follow
    inject((u16)(PORT + i), TCPF_ACK, ISS + 1, irs[i] + 1, 5);
    tcp_begin(conn);
    assert_int_equal(sim.net->admit.waiting, 10 - i);
    tcp_through(conn);
    turn_ms(1);
    assert_int_equal(out_count, 1);
    assert_int_equal(out.flags, TCPF_SYN | TCPF_ACK);
    assert_true(is_half((u16)(5000 + i)));
    tcp_abort(conn);
    turn_ms(1);
  }
  assert_int_equal(sim.net->stats.tcp_resets_out, 10);
  has_room = false;  // the listener is full: silence, and nobody waits
  inject(6000, TCPF_SYN, ISS, 0, 0);
  assert_int_equal(out_count, 0);
  assert_int_equal(sim.net->admit.waiting, 0);
}

// Every place taken by forged SYNs.
static void flood(void) {
  for (u16 i = 0; pool_taken(&sim.net->halves) < HALVES; i++) {
    inject((u16)(7000 + i), TCPF_SYN, ISS, 0, 0);
    sim.net->admit.all_ms = 1ull << 30;  // as a second of it would have it
  }
}

static void cookies(void **state) {
  (void)state;
  static const u8 options[] = {2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 77, 0, 0, 0, 0, 1, 3, 3, 9};
  start(&lazy);
  flood();
  struct sim_seg syn = {.seq = ISS,
                        .port = PORT,
                        .flags = TCPF_SYN,
                        .options = options,
                        .options_len = sizeof options};
  inject_full(&syn, U32_MAX);
  assert_int_equal(out_count, 1);
  assert_int_equal(out.flags, TCPF_SYN | TCPF_ACK);
  assert_false(is_half(PORT));
  u32 irs = out.seq;
  u32 ts = out.opt.ts_value;
  assert_true(out.opt.has_ts && out.opt.sack_permitted && out.opt.has_shift);
  u8 echo[] = {1, 1, 8, 10, 0, 0, 0, 78, 0, 0, 0, 0};
  store_be32(echo + 8, ts);
  struct sim_seg data = {.seq = ISS + 1,
                         .ack = irs + 1,
                         .len = 11,
                         .port = PORT,
                         .flags = TCPF_ACK,
                         .options = echo,
                         .options_len = sizeof echo};
  struct sim_seg bare = data;
  bare.len = 0;
  inject_full(&bare, U32_MAX);  // nothing said yet: silence
  assert_int_equal(out_count, 0);
  u32 slots = sim.net->admit.slots;
  sim.net->admit.slots = 0;  // no slot: silence, it tries again
  inject_full(&data, U32_MAX);
  assert_int_equal(out_count, 0);
  assert_int_equal(accepts, 0);
  sim.net->admit.slots = slots;
  inject_full(&data, U32_MAX);
  assert_int_equal(accepts, 1);
  assert_int_equal(readable_bytes, 11);
  assert_true(conn->ts_ok && conn->sack_ok);
  assert_int_equal(conn->snd_shift, 9);
  assert_int_equal(conn->mss, 1460 - 12);
  tcp_abort(conn);
  turn_ms(1);
  inject_full(&data, U32_MAX);  // its connection is over: worth nothing
  assert_int_equal(accepts, 1);
  assert_int_equal(out.flags, TCPF_RST);
}

static void wrong_cookies(void **state) {
  (void)state;
  start(&lazy);
  inject(PORT, TCPF_ACK, ISS + 1, 12345, 5);  // nobody made one
  assert_int_equal(out.flags, TCPF_RST);
  flood();
  inject(PORT, TCPF_SYN, ISS, 0, 0);
  u32 irs = out.seq;
  srand(3);
  for (u32 i = 0; i < 20000; i++) {
    u32 guess = (u32)rand() << 8 ^ (u32)rand();
    inject(PORT, TCPF_ACK, ISS + 1, guess, 5);
    unit_now_ns -= SIM_MS;
  }
  assert_int_equal(accepts, 0);
  inject(PORT + 1, TCPF_ACK, ISS + 1, irs + 1, 5);  // another port's
  inject(PORT, TCPF_ACK, ISS + 2, irs + 1, 5);      // another number
  assert_int_equal(accepts, 0);
  turn_ms(119000 + 61000 * 2);  // too old
  inject(PORT, TCPF_ACK, ISS + 1, irs + 1, 5);
  assert_int_equal(accepts, 0);
  flood();
  inject(PORT, TCPF_SYN, ISS, 0, 0);
  turn_ms(59000);  // over the minute
  inject(PORT, TCPF_ACK, ISS + 1, out.seq + 1, 5);
  assert_int_equal(accepts, 1);
  assert_int_equal(conn->mss, 536);
  tcp_abort(conn);
  turn_ms(1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_byte),    cmocka_unit_test(silence), cmocka_unit_test(strangers),
      cmocka_unit_test(cut_short),     cmocka_unit_test(waiting), cmocka_unit_test(cookies),
      cmocka_unit_test(wrong_cookies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
