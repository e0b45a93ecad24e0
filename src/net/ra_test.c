// SPDX-License-Identifier: Apache-2.0
// Proves: router advertisements make addresses, routes and name servers by the rules of RFC 4861 6,
// RFC 4862 5.5 and RFC 8106, and lies in them change only what they may (ra.c, R1 to R5): who is
// connected stays connected.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/nd_sim_test_support.h"

#define PREFIX ((struct ip_addr){0x20010db800010000, 0})
static const u64 own_id = 0x000000fffe000001;  // of 02:00:00:00:00:01

static u8 ra[1400];
static u32 ra_len;

static void begin(u16 lifetime_s) {
  memset(ra, 0, sizeof ra);
  ra[0] = ICMP6_RA;
  ra[4] = 64;
  store_be16(ra + 6, lifetime_s);
  ra_len = 16;
}
static void option(const void *bytes, u32 len) {
  memcpy(ra + ra_len, bytes, len);
  ra_len += len;
}
static void prefix(struct ip_addr p, u8 len, u8 flags, u32 valid_s, u32 preferred_s) {
  u8 o[32] = {3, 4, len, flags};
  store_be32(o + 4, valid_s);
  store_be32(o + 8, preferred_s);
  ip_store6(o + 16, p);
  option(o, sizeof o);
}
static void send_from(struct ip_addr router) {
  nd6_frame(router, IP6_ALL_NODES, IP_ICMP6, nd6.hop, ra, ra_len);
  nd6_turn(1);
}
static void usual(void) {
  begin(1800);
  option("\1\1\2\0\0\0\0\x99", 8);
  prefix(PREFIX, 64, 0xc0, 86400, 14400);
  send_from(SIM_ROUTER6);
}

static struct ip6_nic *v6(void) {
  return &sim.net->nic[0].ip6;
}
static struct ip6_address *made(struct ip_addr p) {
  return ip6_find(&sim.net->nic[0], (struct ip_addr){p.hi, own_id});
}
static struct ip_addr hop(void) {
  return ip6_next_hop(&sim.net->nic[0], (struct ip_addr){0x20010db8ffff0000, 1});
}

// RFC 4861 6.3.7, RFC 7559: asked at once, then less and less, until a router has answered.
static void solicited(void **state) {
  (void)state;
  nd6_start(NET_IP6_AUTO);
  u64 at[8];
  u32 count = 0;
  for (u32 i = 0; i < 1000 && count < 8; i++) {
    nd6_turn(99);
    if (nd6_sent(ICMP6_RS)) {
      assert_true(ip_equal(nd6.target, IP6_ALL_ROUTERS) && nd6.hop_limit == 255);
      assert_true(ip_is_link_local6(nd6.source) && nd6.body_len == 16);
      at[count++] = unit_now_ns;
    }
  }
  assert_int_equal(count, 8);
  assert_in_range((at[1] - at[0]) / SIM_MS, 3800, 4300);
  assert_in_range((at[4] - at[3]) / SIM_MS, 7800, 8300);
  assert_in_range((at[7] - at[6]) / SIM_MS, 15700, 16400);
  usual();
  nd6_turn(60000);
  assert_false(nd6_sent(ICMP6_RS));
}

// RFC 4862 5.5.3 d: prefix and identifier, after duplicate detection; the router leads out.
static void makes_an_address(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  assert_true(ip_is_none(hop()));
  usual();
  assert_int_equal(made(PREFIX)->state, IP6_TENTATIVE);
  nd6_turn(2000);
  assert_int_equal(made(PREFIX)->state, IP6_VALID);
  assert_true(ip_equal(hop(), SIM_ROUTER6));
  assert_true(nd_known(&sim.net->nic[0], SIM_ROUTER6));
  struct ip_addr near = {PREFIX.hi, 5};
  assert_true(ip_equal(ip6_next_hop(&sim.net->nic[0], near), near));
  assert_true(ip_equal(ip6_source(&sim.net->nic[0], near), made(PREFIX)->address));
  nd6_turn(1801 * 1000);  // the router's lifetime is over, the prefix's is not
  assert_true(ip_is_none(hop()));
  assert_int_equal(made(PREFIX)->state, IP6_VALID);
  nd6_turn(86400 * 1000);
  assert_null(made(PREFIX));
}

// RFC 4862 5.5.3 a, b, c; 5.5.3 d needs 64 bits; RFC 4861 6.1.2.
static void not_taken(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  begin(1800);
  prefix(PREFIX, 64, 0x80, 86400, 14400);                                   // not autonomous
  prefix((struct ip_addr){0xfe80ull << 48, 0}, 64, 0xc0, 86400, 14400);     // link-local
  prefix((struct ip_addr){0x20010db800020000, 0}, 64, 0xc0, 100, 200);      // preferred > valid
  prefix((struct ip_addr){0x20010db800030000, 0}, 63, 0xc0, 86400, 14400);  // length
  prefix((struct ip_addr){0x20010db800040000, 0}, 64, 0xc0, 0, 0);          // over already
  send_from(SIM_ROUTER6);
  assert_int_equal(v6()->address_count, 1);
  assert_true(ip_equal(hop(), SIM_ROUTER6));
  nd6_ready(NET_IP6_AUTO);
  nd6.hop = 64;  // from beyond the link
  usual();
  nd6.hop = 255;
  begin(1800);
  send_from(SIM_OTHER6);  // not a link-local source
  begin(1800);
  option("\3\0\0\0\0\0\0\0", 8);  // a length of zero
  send_from(SIM_ROUTER6);
  begin(1800);
  option("\3\2\0\0\0\0\0\0", 8);  // longer than the message
  send_from(SIM_ROUTER6);
  assert_true(ip_is_none(hop()));
}

// R3: RFC 4862 5.5.3 e.
static void two_hours(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  usual();
  nd6_turn(2000);
  struct ip6_address *a = made(PREFIX);
  begin(1800);
  prefix(PREFIX, 64, 0xc0, 1, 0);
  send_from(SIM_ROUTER6);
  u64 left_s = (a->valid_ns - unit_now_ns) / 1000000000ull;
  assert_in_range(left_s, 7190, 7200);
  assert_true(a->preferred_ns <= unit_now_ns);  // deprecated: not for new connections if others are
  assert_true(ip_equal(ip6_source(&sim.net->nic[0], (struct ip_addr){PREFIX.hi, 5}), a->address));
  nd6_turn(3600 * 1000);
  begin(1800);
  prefix(PREFIX, 64, 0xc0, 1, 0);  // again: less than two hours are left, they stay
  send_from(SIM_ROUTER6);
  left_s = (a->valid_ns - unit_now_ns) / 1000000000ull;
  assert_in_range(left_s, 3580, 3600);
  begin(1800);
  prefix(PREFIX, 64, 0xc0, 3700, 3700);  // more than is left
  send_from(SIM_ROUTER6);
  assert_in_range((a->valid_ns - unit_now_ns) / 1000000000ull, 3690, 3700);
}

// R1, R2, R4: fifty routers with a hundred prefixes each, tiny MTU and hop limit.
static void lies(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  usual();
  nd6_turn(2000);
  for (u32 i = 0; i < 50; i++) {
    begin(9000);
    ra[4] = 1;  // hop limit
    store_be32(ra + 8, 1);
    store_be32(ra + 12, 0xffffffff);
    option("\5\1\0\0\0\0\0\x44", 8);  // MTU 68
    for (u32 k = 0; k < 40; k++) {
      prefix((struct ip_addr){0x20010db900000000 + (u64)i * 65536 * 100 + k, 0}, 64, 0xc0,
             0xffffffff, 0xffffffff);
    }
    send_from((struct ip_addr){0xfe80ull << 48, 0x1000 + i});
    nd6_turn(200);
  }
  assert_true(ip_equal(hop(), SIM_ROUTER6));
  assert_int_equal(made(PREFIX)->state, IP6_VALID);
  assert_true(v6()->mtu == 1500 && v6()->hop_limit == 64);
  assert_true(v6()->reachable_ms == 30000 && v6()->retrans_ms == 1000);
  u32 made_count = 0;
  for (u32 i = 0; i < IP6_ADDRESSES_MAX; i++) {
    made_count += v6()->address[i].state != IP6_FREE && v6()->address[i].origin == IP6_BY_PREFIX;
  }
  assert_int_equal(made_count, 4);
  begin(0);  // "I leave": believed, and the router is asked whether that is so
  send_from(SIM_ROUTER6);
  assert_false(ip_equal(hop(), SIM_ROUTER6));
}

// R2: the router says that it leaves, perhaps not itself.
static void leaving_router(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  usual();
  nd6_turn(5000);
  begin(0);
  send_from(SIM_ROUTER6);
  assert_true(ip_is_none(hop()));
  nd6_turn(300);
  assert_true(nd6_sent(ICMP6_RS));
  usual();
  assert_true(ip_equal(hop(), SIM_ROUTER6));
}

// RFC 4861 6.3.6: a router that does not answer is passed over.
static void silent_router(void **state) {
  (void)state;
  struct ip_addr second = {0xfe80ull << 48, 0x9a};
  nd6_ready(NET_IP6_AUTO);
  usual();
  begin(1800);
  option("\1\1\2\0\0\0\0\x9a", 8);
  send_from(second);
  nd6_turn(2000);
  assert_true(ip_equal(hop(), SIM_ROUTER6));
  struct udp_packet p = {.target = {0x20010db8ffff0000, 1}, .payload = BYTES_LIT("x")};
  assert_int_equal(udp_send(sim.net, 0, &p), ERR_OK);
  nd6_turn(12000);  // delay, three probes, no answer
  assert_true(ip_equal(hop(), second));
}

// R5, and where the way out is configured: /128 and fe80::1 (systems.md 1.3, 17).
static void configured_gateway(void **state) {
  (void)state;
  struct ip_addr gateway = {0xfe80ull << 48, 1};
  nd6_start(NET_IP6_OFF);
  struct net_if_config config = {
      .ip6 = {
          .mode = NET_IP6_STATIC, .address = SIM_LOCAL6, .prefix_len = 128, .gateway = gateway}};
  assert_int_equal(net_configure(sim.net, 0, &config), ERR_OK);
  nd6_turn(1300);
  assert_true(nd6_sent(ICMP6_NS) && ip_equal(nd6.target, ip6_solicited(gateway)));
  nd6_turn(3000);
  assert_false(nd6_sent(ICMP6_RS));
  usual();
  assert_true(ip_equal(hop(), gateway) && made(PREFIX) == NULL);
  assert_true(ip_equal(ip6_next_hop(&sim.net->nic[0], SIM_PEER6), gateway));
  struct net_if_state s = {0};
  net_if_state(sim.net, 0, &s);
  assert_true(ip_equal(s.gateway6, gateway));
  // A gateway that is not link-local, outside of any prefix.
  config.ip6.gateway = (struct ip_addr){0x20010db800990000, 1};
  assert_int_equal(net_configure(sim.net, 0, &config), ERR_OK);
  nd6_turn(2000);
  assert_true(ip_equal(hop(), config.ip6.gateway));
}

// RFC 8106 5.1.
static void name_servers(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  u8 o[40] = {25, 5, 0, 0, 0, 0, 0, 100};
  ip_store6(o + 8, (struct ip_addr){0x20010db8ull << 32, 0x53});
  ip_store6(o + 24, (struct ip_addr){0x20010db8ull << 32, 0x54});
  begin(1800);
  option(o, sizeof o);
  send_from(SIM_ROUTER6);
  assert_true(v6()->dns[0].address.lo == 0x53 && v6()->dns[1].address.lo == 0x54);
  o[7] = 0;
  begin(1800);
  option(o, sizeof o);
  send_from(SIM_ROUTER6);
  assert_true(ip_is_none(v6()->dns[0].address) && ip_is_none(v6()->dns[1].address));
}

static void numbers(void **state) {
  (void)state;
  nd6_ready(NET_IP6_AUTO);
  begin(1800);
  ra[4] = 255;
  store_be32(ra + 8, 60000);
  store_be32(ra + 12, 500);
  option("\5\1\0\0\0\0\5\x14", 8);  // 1300
  send_from(SIM_ROUTER6);
  assert_true(v6()->hop_limit == 255 && v6()->mtu == 1300);
  assert_true(v6()->reachable_ms == 60000 && v6()->retrans_ms == 500);
}

static void cut_anywhere(void **state) {
  (void)state;
  begin(1800);
  option("\1\1\2\0\0\0\0\x99", 8);
  prefix(PREFIX, 64, 0xc0, 86400, 14400);
  option("\5\1\0\0\0\0\5\x14", 8);
  option("\x19\3\0\0\0\0\0\x64\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\x53", 24);
  for (u32 len = 0; len <= ra_len; len++) {
    u8 *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, ra, len);
    struct ra_message m;
    bool whole = len == 16 || len == 24 || len == 56 || len == 64 || len == 88;
    assert_int_equal(ra_message_parse(bytes_of(copy, len), &m), whole);
    assert_true(!whole || m.prefix_count == (len >= 56) + 0u);
    assert_true(!whole || (m.mtu == (len >= 64 ? 1300 : 0) && m.dns_count == (len >= 88) + 0u));
    free(copy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(solicited),     cmocka_unit_test(makes_an_address),
      cmocka_unit_test(not_taken),     cmocka_unit_test(two_hours),
      cmocka_unit_test(lies),          cmocka_unit_test(leaving_router),
      cmocka_unit_test(silent_router), cmocka_unit_test(configured_gateway),
      cmocka_unit_test(name_servers),  cmocka_unit_test(numbers),
      cmocka_unit_test(cut_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
