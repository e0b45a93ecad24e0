// SPDX-License-Identifier: Apache-2.0
// Proves: a bulk transfer through a bottleneck with a queue gets through random loss, bursts, tail
// loss and reordering with the scoreboard (RFC 6675, 8985, 9438, 9937), at a multiple of what
// NewReno makes of the same losses; D-SACKs undo what was no loss (RFC 2883); a lost tail costs a
// probe and not a timeout; a peer that takes back what it told loses nothing (RFC 2018 8).
// With an argument it prints the table of goodputs (tcp_recovery_test table).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"
#include "net/tcp_flight.h"

#define BYTES (4u << 20)
#define QUEUE_MAX 4096u

static const struct net_limits limits = {.tcp_conns = 4,
                                         .tcp_time_wait = 2,
                                         .tcp_flights = 2,
                                         .txbuf_small = 64,
                                         .txbuf_small_reserve = 4,
                                         .txbuf_large = 1000,
                                         .tx_slots = 200};

struct path {
  u32 loss;     // of 1000
  u32 reorder;  // of 1000, by reorder_ns
  u64 reorder_ns;
  u64 delay_ns;       // one way
  u32 rate_kbyte_ms;  // bottleneck, bytes a microsecond * 1000; 0 = none
  u32 queue_bytes;
  u32 lose_from, lose_to;  // the first copy of these bytes is lost
  bool renege_at_end;      // the receiver forgets what came early, once
  bool no_flight;
};

static struct {
  struct path path;
  struct tcp_conn *conn;
  u32 sent, want;
  bool done;
} app;

// --- the receiver: in-order point, what came early, acknowledgements
static struct {
  bool open;
  u32 iss, irs, rcv, latest;
  u8 got[BYTES + 1];
  u32 seen;
  u32 unacked, dup_begin, dup_end, top;
  bool has_dup, reneged;
  u64 ack_at, link_free_ns;
  u32 dropped, duplicates, early;
} peer;

static bool on_accept(void *user, struct tcp_conn *c, void **owner) {
  (void)user;
  *owner = &app;
  app.conn = c;
  return true;
}
static void on_readable(void *user, struct tcp_conn *c) {
  (void)user;
  tcp_consume(c, tcp_readable(c));
}
static void on_writable(void *user, struct tcp_conn *c) {
  (void)user, (void)c;
}
static void on_ended(void *user, struct tcp_conn *c, enum tcp_end why) {
  (void)user, (void)c, (void)why;
  app.conn = NULL;
}
static const struct tcp_listener_ops ops = {.eager = true,
                                            .accept = on_accept,
                                            .readable = on_readable,
                                            .writable = on_writable,
                                            .ended = on_ended};

static bool app_stage(struct core *core, void *ctx) {
  (void)core, (void)ctx;
  while (app.conn != NULL && app.sent < app.want) {
    u32 n = MIN(MIN(tcp_room(app.conn), app.want - app.sent), TXBUF_LARGE);
    struct txbuf *b = n == 0 ? NULL : txbuf_take(sim.net, n, TXBUF_DATA);
    if (b == NULL) {
      break;
    }
    b->len = (u16)MIN(n, (u32)b->cap);
    for (u32 i = 0; i < b->len; i++) {
      b->data[i] = (u8)((app.sent + i) * 2654435761u >> 13);
    }
    app.sent += b->len;
    tcp_send(app.conn, b);
  }
  return false;
}

static u32 put_block(u8 *o, u32 n, u32 begin, u32 end) {
  store_be32(o + n, begin);
  store_be32(o + n + 4, end);
  return n + 8;
}

// The block around the byte at offset `at`.
static u32 block_around(u8 *o, u32 n, u32 at) {
  u32 begin = at;
  u32 end = at;
  while (begin > 0 && peer.got[begin - 1]) {
    begin--;
  }
  while (end < app.want && peer.got[end]) {
    end++;
  }
  return put_block(o, n, peer.irs + 1 + begin, peer.irs + 1 + end);
}

static void peer_ack(u8 flags) {
  u8 frame[200];
  u8 o[40] = {1, 1, 8, 10};
  u32 n = 12;
  u32 done = peer.rcv - peer.irs - 1;
  store_be32(o + 4, 1);
  if (flags == TCPF_SYN) {
    memcpy(o, "\x02\x04\x05\xb4\x01\x01\x04\x02\x01\x03\x03\x07", 12);
  } else {
    n = 4;
    n = peer.has_dup ? put_block(o, n, peer.dup_begin, peer.dup_end) : n;
    if (peer.latest > done && peer.got[peer.latest]) {
      n = block_around(o, n, peer.latest);
    }
    for (u32 at = done, blocks = 0; at < MIN(peer.top, app.want) && blocks < 2 && n < 36; at++) {
      if (peer.got[at]) {
        n = block_around(o, n, at);
        blocks++;
        while (peer.got[at]) {
          at++;
        }
      }
    }
    memcpy(o, "\x01\x01\x05", 3);
    o[3] = (u8)(n - 2);
    n = n == 4 ? 0 : n;
  }
  struct sim_seg s = {.seq = flags == TCPF_SYN ? peer.iss : peer.iss + 1,
                      .ack = peer.rcv,
                      .window = 65535,
                      .port = 5000,
                      .flags = flags,
                      .options = o,
                      .options_len = n};
  sim_send(&sim.to_stack, frame, sim_tcp_frame(frame, &s));
  peer.unacked = 0;
  peer.has_dup = false;
  peer.ack_at = U64_MAX;
}

static void peer_data(u32 at, u32 len, const u8 *payload) {
  u32 done = peer.rcv - peer.irs - 1;
  SIM_CHECK(at + len <= app.want);
  if (peer.got[at] && peer.got[at + len - 1]) {
    peer.has_dup = true;
    peer.dup_begin = peer.irs + 1 + at;
    peer.dup_end = peer.dup_begin + len;
    peer.duplicates++;
  }
  for (u32 i = 0; i < len; i++) {
    SIM_CHECK(payload[i] == (u8)((at + i) * 2654435761u >> 13));
    peer.got[at + i] = 1;
  }
  peer.top = MAX(peer.top, at + len);
  peer.latest = at;
  bool in_order = at == done;
  while (done < app.want && peer.got[done]) {
    done++;
  }
  peer.early += !in_order;
  peer.rcv = peer.irs + 1 + done;
  peer.unacked++;
  if (app.path.renege_at_end && !peer.reneged && peer.top == app.want && done < app.want) {
    memset(peer.got + done, 0, app.want - done);
    peer.reneged = true;
  }
  if (!in_order || peer.unacked >= 2 || peer.top > done) {
    peer_ack(TCPF_ACK);
  } else if (peer.ack_at == U64_MAX) {
    peer.ack_at = unit_now_ns + 40 * SIM_MS;
  }
}

static void peer_input(const struct sim_packet *p) {
  struct segment s;
  const u8 *payload;
  if (!sim_read(p, &s, &payload)) {
    return;
  }
  if ((s.flags & TCPF_SYN) != 0) {
    peer.irs = s.seq;
    peer.rcv = s.seq + 1;
    peer.open = true;
    peer_ack(TCPF_ACK);
  } else if (s.len > 0) {
    peer_data(s.seq - peer.irs - 1, s.len, payload);
  }
}

// What left the stack goes through the bottleneck into `wire`, which delivers later.
static struct sim_link wire;

static void through_the_path(const struct sim_packet *p) {
  const struct path *w = &app.path;
  struct segment s;
  const u8 *payload;
  bool data = sim_read(p, &s, &payload) && s.len > 0;
  u32 at = data ? s.seq - peer.irs - 1 : 0;
  bool first = data && at + s.len > peer.seen;
  peer.seen = first ? at + s.len : peer.seen;
  if (first && at >= w->lose_from && at < w->lose_to) {
    peer.dropped++;
    return;
  }
  u64 start = MAX(peer.link_free_ns, unit_now_ns);
  u64 took = w->rate_kbyte_ms == 0 ? 0 : (u64)p->len * 1000000 / w->rate_kbyte_ms;
  bool full = (start - unit_now_ns) * w->rate_kbyte_ms / 1000000 > w->queue_bytes;
  if (data && (full || sim_chance(w->loss))) {
    peer.dropped++;
    return;
  }
  peer.link_free_ns = start + took;
  u64 extra = data && sim_chance(w->reorder) ? w->reorder_ns : 0;
  sim_put(&wire, p->data, p->len, start + took + w->delay_ns + extra);
}

// Runs the transfer; milliseconds it took.
static u32 transfer(const struct path *path, u32 want) {
  struct net_limits l = limits;
  l.tcp_flights = path->no_flight ? 0 : 2;
  sim_drop_all(&wire);
  sim_start(7, &l, 5000 * SIM_MS);
  sim_static_address();
  memset(&app, 0, sizeof app);
  memset(&peer, 0, sizeof peer);
  app.path = *path;
  app.want = want;
  peer.iss = 77;
  peer.ack_at = U64_MAX;
  sim.delay_ns = path->delay_ns;
  assert_int_equal(tcp_listen(sim.net, SIM_PORT, &ops, NULL), ERR_OK);
  loop_stage(&sim.core, "app", app_stage, NULL);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  u64 start = unit_now_ns;
  peer_ack(TCPF_SYN);
  while (peer.rcv - peer.irs - 1 != want || !peer.open) {
    u64 delay = sim.delay_ns;
    arp_learn(&sim.net->nic[0], SIM_PEER, sim_peer_mac, true);  // it answers questions for itself
    loop_turn(&sim.core);
    sim.delay_ns = 0;
    for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
      through_the_path(&p);
      free(p.data);
    }
    sim.delay_ns = delay;
    for (struct sim_packet p = sim_get(&wire); p.data != NULL; p = sim_get(&wire)) {
      peer_input(&p);
      free(p.data);
    }
    if (unit_now_ns >= peer.ack_at) {
      peer_ack(TCPF_ACK);
    }
    if (app.conn != NULL) {
      flight_check(app.conn);
    }
    u64 next = MIN(MIN(sim_next_ns(), sim_link_next(&wire)), peer.ack_at);
    unit_now_ns = MAX(unit_now_ns + 20000, MIN(next, unit_now_ns + 10 * SIM_MS));
    SIM_CHECK(app.conn != NULL || !peer.open || app.sent == 0);
    SIM_CHECK(unit_now_ns - start < 2000000 * SIM_MS);
  }
  u32 ms = (u32)((unit_now_ns - start) / SIM_MS);
  tcp_abort(app.conn);
  sim_drop_all(&sim.to_stack);
  for (u32 i = 0; i < 5; i++) {
    unit_now_ns += SIM_MS;
    loop_turn(&sim.core);
  }
  assert_int_equal(sim.net->nic_count, 1);
  return ms;
}

#define MBIT_100 12500u  // bytes a millisecond
static const struct path clean = {
    .delay_ns = 20 * SIM_MS, .rate_kbyte_ms = MBIT_100, .queue_bytes = 250000};

static u32 goodput(struct path p, u32 loss, u32 reorder, bool flight) {
  p.loss = loss;
  p.reorder = reorder;
  p.reorder_ns = 8 * SIM_MS;
  p.no_flight = !flight;
  return (u32)((u64)BYTES * 8 / 1000 / transfer(&p, BYTES));
}

static void table(void) {
  static const u32 losses[] = {0, 10, 30, 100};
  printf("4 MiB, 100 Mbit/s, 40 ms round trip, queue 250 kB: Mbit/s (NewReno, with scoreboard)\n");
  for (u32 i = 0; i < ARRAY_COUNT(losses); i++) {
    u32 before = goodput(clean, losses[i], 0, false);
    u64 timeouts_before = sim.net->stats.tcp_timeouts;
    u32 after = goodput(clean, losses[i], 0, true);
    printf("loss %u %%: %u %u (timeouts %llu %llu, sent again %llu, lost %u, duplicates %u)\n",
           losses[i] / 10, before, after, (unsigned long long)timeouts_before,
           (unsigned long long)sim.net->stats.tcp_timeouts,
           (unsigned long long)sim.net->stats.tcp_retransmits, peer.dropped, peer.duplicates);
  }
  u32 before = goodput(clean, 0, 50, false);
  u32 after = goodput(clean, 0, 50, true);
  printf("5 %% overtaken by 8 ms: %u %u (duplicates %u)\n", before, after, peer.duplicates);
  before = goodput(clean, 10, 50, false);
  after = goodput(clean, 10, 50, true);
  printf("both, loss 1 %%: %u %u (duplicates %u)\n", before, after, peer.duplicates);
}

static void loss_costs_less(void **state) {
  (void)state;
  static const u32 losses[] = {10, 30, 100};
  for (u32 i = 0; i < ARRAY_COUNT(losses); i++) {
    u32 before = goodput(clean, losses[i], 0, false);
    u32 after = goodput(clean, losses[i], 0, true);
    assert_true(after * 2 >= before * 3);
    assert_true(sim.net->stats.tcp_retransmits >= peer.dropped);
    assert_true(sim.net->stats.tcp_retransmits <= peer.dropped * 5 / 4 + 20);
  }
}

static void reordering_is_no_loss(void **state) {
  (void)state;
  u32 good = goodput(clean, 0, 0, true);
  u32 after = goodput(clean, 0, 50, true);
  assert_true(peer.early > 100);
  assert_true(after * 4 >= good * 3);
}

// RFC 8985 7: the last segments are lost; a probe fetches the acknowledgement that tells of it.
static void tail_loss(void **state) {
  (void)state;
  struct path p = clean;
  u32 whole = transfer(&p, 100000);
  p.lose_from = 100000 - 1448;
  p.lose_to = 100000;
  u32 last = transfer(&p, 100000);
  assert_int_equal(peer.dropped, 1);
  assert_int_equal(sim.net->stats.tcp_timeouts, 0);
  assert_true(last <= whole + 300);  // one segment: the peer may delay its acknowledgement
  p.lose_from = 100000 - 5 * 1448;
  last = transfer(&p, 100000);
  assert_true(peer.dropped >= 4);
  assert_int_equal(sim.net->stats.tcp_timeouts, 0);
  assert_true(last <= whole + 10 * 40);
}

// RFC 6675: many holes in one window are filled in about one round trip each way, not one a hole.
static void burst_loss(void **state) {
  (void)state;
  struct path p = clean;
  u32 whole = transfer(&p, 400000);
  p.lose_from = 60000;
  p.lose_to = 60000 + 30 * 1448;
  u32 burst = transfer(&p, 400000);
  assert_true(peer.dropped >= 25);
  assert_int_equal(sim.net->stats.tcp_timeouts, 0);
  assert_true(burst <= whole + 10 * 40);
}

static void reneging(void **state) {
  (void)state;
  struct path p = clean;
  p.lose_from = 60000;
  p.lose_to = 62000;
  p.renege_at_end = true;
  (void)transfer(&p, 100000);
  assert_true(peer.reneged);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    table();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loss_costs_less), cmocka_unit_test(reordering_is_no_loss),
      cmocka_unit_test(tail_loss),       cmocka_unit_test(burst_loss),
      cmocka_unit_test(reneging),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
