// SPDX-License-Identifier: Apache-2.0
// Sequences of frames from a hostile link: the input is a list of records {kind, length, bytes}.
// Raw frames reach Ethernet, ARP, IPv4, ICMP and UDP as they are; DHCP
// answers carry the transaction that the stack asked in; TCP records carry header
// fields relative to what the stack sent last, so that the fuzzer gets into established
// connections without guessing 32-bit numbers. After each input everything must be released.
#include "net/net_sim_test_support.h"
#include "net/tcp_flight.h"

static struct tcp_conn *conns[8];

static bool on_accept(void *user, struct tcp_conn *c, void **owner) {
  (void)user;
  for (u32 i = 0; i < ARRAY_COUNT(conns); i++) {
    if (conns[i] == NULL) {
      conns[i] = c;
      *owner = &conns[i];
      return true;
    }
  }
  return false;
}
static void on_readable(void *user, struct tcp_conn *c) {
  (void)user;
  u32 n = tcp_readable(c);
  tcp_consume(c, n > 100 ? n : n / 2);
}
static void on_writable(void *user, struct tcp_conn *c) {
  (void)user, (void)c;
}
static void on_ended(void *user, struct tcp_conn *c, enum tcp_end why) {
  (void)c;
  if (why != TCP_END_FIN) {
    *(struct tcp_conn **)user = NULL;
  }
}
static const struct tcp_listener_ops ops = {.eager = true,
                                            .accept = on_accept,
                                            .readable = on_readable,
                                            .writable = on_writable,
                                            .ended = on_ended};

static u32 stack_seq, stack_ack;  // of the last segment seen
static u32 dhcp_xid;              // of the last request seen

// A DHCP request's transaction, when the frame is one.
static void note_dhcp(const u8 *f, u32 len) {
  if (len >= 50 && load_be16(f + 12) == ETH_IP4 && f[23] == IP_UDP && load_be16(f + 36) == 67) {
    dhcp_xid = load_be32(f + 46);
  }
}

static void turn(u64 step_ns) {
  unit_now_ns += step_ns;
  loop_turn(&sim.core);
  for (u32 i = 0; i < ARRAY_COUNT(conns); i++) {
    if (conns[i] != NULL) {
      flight_check(conns[i]);
    }
  }
  for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
    struct segment s;
    const u8 *payload;
    note_dhcp(p.data, p.len);
    if (sim_read(&p, &s, &payload)) {
      stack_seq = s.seq + s.len + ((s.flags & (TCPF_SYN | TCPF_FIN)) != 0 ? 1 : 0);
      stack_ack = s.ack;
    }
    free(p.data);
  }
}

static void owner_acts(u8 what) {
  struct tcp_conn **c = &conns[what % ARRAY_COUNT(conns)];
  if (*c == NULL) {
    return;
  }
  if (what < 32) {
    tcp_close(*c);
    *c = NULL;
  } else if (what < 48) {
    tcp_abort(*c);
    *c = NULL;
  } else {
    struct txbuf *b = txbuf_take(sim.net, 1 + what * 7u, TXBUF_DATA);
    if (b != NULL) {
      b->len = (u16)MIN(1 + what * 7u, (u32)b->cap);
      memset(b->data, what, b->len);
      tcp_send(*c, b);
    }
  }
}

// Fixes lengths and checksums of a raw IPv4 frame, so that mutations get past them.
static void mend(u8 *f, u32 len) {
  if (len < 34 || load_be16(f + 12) != ETH_IP4) {
    return;
  }
  memcpy(f, sim_mac, 6);
  store_be16(f + 16, (u16)(len - 14));
  f[14] = 0x45;
  store_be16(f + 24, 0);
  store_be16(f + 24, (u16)~sim_sum(0, f + 14, 20));
  if (f[23] == IP_ICMP && len >= 42) {
    store_be16(f + 36, 0);
    store_be16(f + 36, (u16)~sim_sum(0, f + 34, len - 34));
  } else if (f[23] == IP_UDP && len >= 42) {
    store_be16(f + 38, (u16)(len - 34));
    store_be16(f + 40, 0);
  }
}

// An answer of the DHCP server to the last request: {last byte of the address, options}.
static u32 dhcp_answer(u8 *f, const u8 *p, u32 len) {
  u8 *body = f + 42;
  memset(f, 0, 42 + 240);
  store_be16(f + 12, ETH_IP4);
  f[22] = 64;
  f[23] = IP_UDP;
  store_be32(f + 26, 0x0a000001);
  store_be32(f + 30, U32_MAX);
  store_be16(f + 34, 67);
  store_be16(f + 36, 68);
  body[0] = 2;
  body[1] = 1;
  body[2] = 6;
  store_be32(body + 4, dhcp_xid);
  store_be32(body + 16, 0x0a000000 | p[0]);
  memcpy(body + 28, sim_mac, 6);
  store_be32(body + 236, 0x63825363);
  memcpy(body + 240, p + 1, MIN(len - 1, 1000u));
  u32 all = 42 + 240 + MIN(len - 1, 1000u);
  mend(f, all);
  return all;
}

// SACK blocks near what the stack sent: each number's low half counts back from there.
static const u8 *near_sack(const u8 *options, u32 len) {
  static u8 out[40];
  memcpy(out, options, len);
  for (u32 i = 4; len >= 12 && load_be32(options) >> 8 == 0x010105 && i + 4 <= len; i += 4) {
    store_be32(out + i, stack_seq - load_be16(options + i + 2) % 8192);
  }
  return out;
}

static void record(u8 kind, const u8 *p, u32 len) {
  static u8 frame[SIM_FRAME];
  if (kind >= 56 && kind < 64 && len > 0) {
    sim_put(&sim.to_stack, frame, dhcp_answer(frame, p, len), 0);
  } else if (kind < 64 || len < 6) {
    memcpy(frame, p, len);
    if (kind < 48) {
      mend(frame, len);
    }
    sim_put(&sim.to_stack, frame, len, 0);
  } else if (kind < 224) {
    u32 options = len > 6 && kind < 128 ? MIN(p[5] & 60u, (len - 6) & ~3u) : 0;
    options = MIN(options, 40u);
    struct sim_seg s = {.seq = stack_ack + (u32)(i8)p[1] * (p[2] & 1 ? 1000 : 1),
                        .ack = stack_seq + (u32)(i8)p[3] * (p[2] & 2 ? 1000 : 1),
                        .window = p[4] << 8,
                        .port = (u16)(100 + (p[2] >> 6)),
                        .flags = p[0],
                        .options = near_sack(p + 6, options),
                        .options_len = options,
                        .data = p + 6 + options,
                        .len = len - 6 - options};
    sim_put(&sim.to_stack, frame, sim_tcp_frame(frame, &s), 0);
  } else if (kind < 240) {
    owner_acts(p[0]);
  } else {
    turn((u64)p[0] * p[1] * SIM_MS);
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize size) {
  static const struct net_limits limits = {.tcp_conns = 6,
                                           .tcp_time_wait = 2,
                                           .tcp_flights = 2,
                                           .txbuf_small = 8,
                                           .txbuf_small_reserve = 2,
                                           .txbuf_large = 8,
                                           .tx_slots = 24};
  sim_start(1, &limits, 5000 * SIM_MS);
  sim_static_address();
  memset(conns, 0, sizeof conns);
  stack_seq = stack_ack = 1;
  dhcp_xid = 0;
  if (size > 0 && (data[0] & 1) != 0) {
    struct net_if_config config = {.dhcp = true};
    SIM_CHECK(net_configure(sim.net, 0, &config) == ERR_OK);
  }
  sim.held_max = size > 1 && (data[1] & 1) != 0 ? 2 : SIM_HELD;
  SIM_CHECK(tcp_listen(sim.net, SIM_PORT, &ops, NULL) == ERR_OK);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  for (usize at = 2; at + 3 <= size;) {
    u8 kind = data[at];
    u32 len = (u32)MIN((usize)(data[at + 1] | (data[at + 2] & 7u) << 8), size - at - 3);
    record(kind, data + at + 3, len);
    at += 3 + len;
    turn(SIM_MS);
  }
  for (u32 i = 0; i < ARRAY_COUNT(conns); i++) {
    if (conns[i] != NULL) {
      tcp_abort(conns[i]);
      conns[i] = NULL;
    }
  }
  for (u32 i = 0; i < 150 && sim.net->stats.tcp_open > 0; i++) {
    turn(2000 * SIM_MS);
  }
  for (u32 i = 0; i < 70; i++) {  // a device that takes two frames at a time
    turn(SIM_MS / 64);
  }
  SIM_CHECK(sim.net->stats.tcp_open == 0);
  SIM_CHECK(sim.rxbufs == 0 && sim.net->rx_held == 0);
  SIM_CHECK(pool_taken(&sim.net->small) == 0 && pool_taken(&sim.net->large) == 0);
  SIM_CHECK(pool_taken(&sim.net->conns) == 0 && pool_taken(&sim.net->flights) == 0);
  return 0;
}
