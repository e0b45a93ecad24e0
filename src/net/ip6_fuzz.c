// SPDX-License-Identifier: Apache-2.0
// IPv6 from a hostile link: the input is a list of records {kind, length, bytes}. Packets get right
// lengths and checksums, so that mutations reach extension headers, ICMPv6, neighbour discovery,
// router advertisements, UDP and TCP; others let time pass or make the stack look for neighbours.
// After each input everything must be released and the tables must hold what ip6.h says.
#include "net/nd_sim_test_support.h"

static bool on_accept(void *user, struct tcp_conn *c, void **owner) {
  (void)user, (void)c, (void)owner;
  return false;
}
static const struct tcp_listener_ops ops = {.accept = on_accept};

static struct ip_addr pick(u8 which) {
  const struct ip_addr list[] = {SIM_PEER6,
                                 SIM_LOCAL6,
                                 SIM_ROUTER6,
                                 SIM_OTHER6,
                                 IP_NONE,
                                 IP6_ALL_NODES,
                                 ip6_solicited(SIM_LOCAL6),
                                 {0xfe80ull << 48, ip6_interface_id(sim_mac)}};
  return list[which % ARRAY_COUNT(list)];
}

static void turn(u64 step_ns) {
  unit_now_ns += step_ns;
  loop_turn(&sim.core);
  for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
    free(p.data);
  }
}

// A packet from here to there, its payload's checksum put right; `walks`: behind extension headers.
static void packet(u8 ends, u8 protocol, u8 hop, const u8 *p, u32 len) {
  static u8 f[2048];
  u32 all = sim_ip_frame6(f, pick(ends & 7), pick(ends >> 3), protocol, len);
  f[21] = hop;
  memcpy(f + 54, p, len);
  struct ip6_walk w;
  if (ip6_walk(bytes_of(f + 14, 40 + len), false, &w) == IP6_PAYLOAD) {
    u32 off = 14 + w.off;
    u32 left = all - off;
    u32 at = w.protocol == IP_ICMP6 ? 2 : w.protocol == IP_UDP ? 6 : w.protocol == IP_TCP ? 16 : 0;
    if (at != 0 && left >= at + 2) {
      struct csum c = {0};
      ip_pseudo(&c, ip_load6(f + 22), ip_load6(f + 38), w.protocol, left);
      store_be16(f + off + at, 0);
      csum_add(&c, bytes_of(f + off, left));
      store_be16(f + off + at, csum_finish(&c));
    }
  }
  sim_put(&sim.to_stack, f, all, 0);
}

static void record(u8 kind, const u8 *p, u32 len) {
  if (len < 2) {
    return;
  }
  if (kind < 64) {
    packet(p[0], p[1], 64, p + 2, len - 2);
  } else if (kind < 160) {
    packet(p[0], IP_ICMP6, p[1] == 1 ? 1 : 255, p + 2, len - 2);
  } else if (kind < 176) {  // as it is
    sim_put(&sim.to_stack, p, len, 0);
  } else if (kind < 208) {
    struct udp_packet out = {.target = pick(p[0]), .payload = bytes_of(p, len)};
    (void)udp_send(sim.net, 0, &out);
  } else {
    turn((u64)p[0] * p[1] * 8 * SIM_MS);
  }
}

static void check(const struct ip6_nic *v6) {
  u32 by_prefix = 0;
  for (u32 i = 0; i < v6->address_count; i++) {
    const struct ip6_address *a = &v6->address[i];
    by_prefix += a->state != IP6_FREE && a->origin == IP6_BY_PREFIX ? 1 : 0;
    SIM_CHECK(a->state == IP6_FREE || !ip_is_none(a->address));
  }
  SIM_CHECK(by_prefix <= 4);
  SIM_CHECK(v6->mtu >= IP6_MTU_MIN && v6->mtu <= 1500 && v6->hop_limit >= 32);
  for (u32 set = 0; set < ND_ENTRIES; set += ND_WAYS) {
    u32 asked = 0;
    for (u32 i = set; i < set + ND_WAYS; i++) {
      asked += v6->nd[i].state == ND_INCOMPLETE ? 1 : 0;
    }
    SIM_CHECK(asked <= ND_ASKED_MAX);
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize size) {
  nd6_start(size > 0 && (data[0] & 1) != 0 ? NET_IP6_STATIC : NET_IP6_AUTO);
  SIM_CHECK(tcp_listen(sim.net, SIM_PORT, &ops, NULL) == ERR_OK);
  sim.split = size > 1 && (data[1] & 1) != 0 ? 128 : PLAT_RXBUF_SIZE;
  for (u32 i = 0; size > 0 && (data[0] & 2) != 0 && i < 10; i++) {
    turn(300 * SIM_MS);  // past duplicate detection
  }
  for (usize at = 2; at + 3 <= size;) {
    u8 kind = data[at];
    u32 len = (u32)MIN((usize)(data[at + 1] | (data[at + 2] & 3u) << 8), size - at - 3);
    record(kind, data + at + 3, len);
    at += 3 + len;
    turn(SIM_MS);
    check(&sim.net->nic[0].ip6);
  }
  for (u32 i = 0; i < 150 && sim.net->stats.tcp_open > 0; i++) {
    turn(2000 * SIM_MS);
  }
  for (u32 i = 0; i < 4; i++) {
    turn(SIM_MS);
  }
  SIM_CHECK(sim.net->stats.tcp_open == 0);
  SIM_CHECK(sim.rxbufs == 0 && sim.net->rx_held == 0);
  SIM_CHECK(pool_taken(&sim.net->small) == 0 && pool_taken(&sim.net->large) == 0);
  return 0;
}
