// SPDX-License-Identifier: Apache-2.0
// IPv6 messages to and from the stack on the simulated link: what nd_test.c, ra_test.c and
// ip6_fuzz.c share. Included by one .c file each.
#pragma once
#include "net/net_sim_test_support.h"

#define SIM_OTHER6 ((struct ip_addr){0x20010db8ull << 32, 0x77})
#define SIM_ROUTER6 ((struct ip_addr){0xfe80ull << 48, 0x99})

static struct {
  u8 from_mac[6];
  u8 hop;  // of ND's messages to the stack
  // What nd6_sent found.
  struct ip_addr source, target;
  u8 hop_limit;
  const u8 *body;
  u32 body_len;
  // Frames of the last turns.
  u8 frame[64][2048];
  u32 frame_len[64], count;
} nd6;

// Runs the stack for `ms`, a tick of its timer at a time; frames it sent in that time are kept.
static UNUSED void nd6_turn(u32 ms) {
  nd6.count = 0;
  for (u32 left = ms + 1; left > 0;) {
    u32 step = MIN(left, 50u);
    left -= step;
    unit_now_ns += (step - (left == 0 ? 1 : 0)) * SIM_MS;
    loop_turn(&sim.core);
    loop_turn(&sim.core);
    for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
      if (nd6.count < ARRAY_COUNT(nd6.frame) && p.len <= sizeof nd6.frame[0]) {
        memcpy(nd6.frame[nd6.count], p.data, p.len);
        nd6.frame_len[nd6.count++] = p.len;
      }
      free(p.data);
    }
  }
}

// The last ICMPv6 message of `type` that the stack sent in the last nd6_turn.
static UNUSED bool nd6_sent(u8 type) {
  for (u32 i = nd6.count; i > 0; i--) {
    const u8 *f = nd6.frame[i - 1];
    u32 off = f[20] == 0 ? 62 : 54;  // behind a router alert
    if (load_be16(f + 12) == ETH_IP6 && nd6.frame_len[i - 1] > off && f[off] == type &&
        (f[20] == IP_ICMP6 || f[54] == IP_ICMP6)) {
      nd6.source = ip_load6(f + 22);
      nd6.target = ip_load6(f + 38);
      nd6.hop_limit = f[21];
      nd6.body = f + off;
      nd6.body_len = nd6.frame_len[i - 1] - off;
      return true;
    }
  }
  return false;
}

static UNUSED void nd6_frame(struct ip_addr source, struct ip_addr target, u8 protocol, u8 hop,
                             const u8 *body, u32 len) {
  static u8 f[2048];
  u32 all = sim_ip_frame6(f, source, target, protocol, len);
  memcpy(f + 6, nd6.from_mac, 6);
  if (ip_is_multicast6(target)) {
    f[0] = f[1] = 0x33;
    store_be32(f + 2, (u32)target.lo);
  }
  f[21] = hop;
  memcpy(f + 54, body, len);
  u32 at = protocol == IP_ICMP6 ? 2 : protocol == IP_UDP ? 6 : 0;
  if (at != 0 && len >= 8) {
    store_be16(f + 54 + at, 0);
    store_be16(f + 54 + at, (u16)~sim_sum(sim_pseudo(f + 14, len), f + 54, len));
  }
  sim_put(&sim.to_stack, f, all, unit_now_ns);
}

static UNUSED void nd6_solicit(struct ip_addr source, struct ip_addr to, struct ip_addr target,
                               bool option) {
  u8 m[32] = {ICMP6_NS};
  ip_store6(m + 8, target);
  m[24] = m[25] = 1;
  memcpy(m + 26, nd6.from_mac, 6);
  nd6_frame(source, to, IP_ICMP6, nd6.hop, m, option ? 32 : 24);
}

static UNUSED void nd6_advertise(struct ip_addr source, struct ip_addr to, struct ip_addr target,
                                 u8 flags, const u8 mac[6]) {
  u8 m[32] = {ICMP6_NA, 0, 0, 0, flags};
  ip_store6(m + 8, target);
  m[24] = 2;
  m[25] = 1;
  memcpy(m + 26, mac, 6);
  nd6_frame(source, to, IP_ICMP6, nd6.hop, m, 32);
}

static UNUSED void nd6_start(enum net_ip6_mode mode) {
  static const struct net_limits limits = {.tcp_conns = 4,
                                           .tcp_time_wait = 2,
                                           .txbuf_small = 16,
                                           .txbuf_small_reserve = 2,
                                           .txbuf_large = 16,
                                           .tx_slots = 64};
  sim_start(1, &limits, 1000 * SIM_MS);
  struct net_if_config config = {.ip6 = {.mode = mode, .address = SIM_LOCAL6, .prefix_len = 64}};
  SIM_CHECK(net_configure(sim.net, 0, &config) == ERR_OK);
  memcpy(nd6.from_mac, sim_peer_mac, 6);
  nd6.hop = 255;
  loop_stage(&sim.core, "flush", net_flush, sim.net);
}

// With all addresses past duplicate detection.
static UNUSED void nd6_ready(enum net_ip6_mode mode) {
  nd6_start(mode);
  nd6_turn(3000);
}
