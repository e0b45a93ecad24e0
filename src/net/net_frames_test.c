// SPDX-License-Identifier: Apache-2.0
// Proves: the checksum against a naive one at every length and split; ARP questions are answered
// and asked, stale neighbours asked again while in use; echo, port unreachable and their limits;
// fragments, foreign, impossible and damaged packets are dropped and counted by reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"

static const struct net_limits limits = {.tcp_conns = 4,
                                         .tcp_time_wait = 4,
                                         .txbuf_small = 16,
                                         .txbuf_small_reserve = 2,
                                         .txbuf_large = 8,
                                         .tx_slots = 40};

static u8 last[2048];
static u32 last_len, sent;

static void turns(u32 count, u64 step_ns) {
  sent = 0;
  for (u32 i = 0; i < count; i++) {
    unit_now_ns += step_ns;
    loop_turn(&sim.core);
    for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
      last_len = MIN(p.len, (u32)sizeof last);
      memcpy(last, p.data, last_len);
      sent++;
      free(p.data);
    }
  }
}
static void start(void) {
  sim_start(3, &limits, 5000 * SIM_MS);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
}
static void put(const u8 *f, u32 len) {
  sim_put(&sim.to_stack, f, len, 0);
  turns(3, SIM_MS / 4);
}
static void done(void) {
  turns(5, SIM_MS);
  assert_int_equal(sim.rxbufs, 0);
  assert_int_equal(pool_taken(&sim.net->slots), 0);
  assert_int_equal(pool_taken(&sim.net->small), 0);
  assert_int_equal(pool_taken(&sim.net->large), 0);
}
static u64 dropped(u32 why) {
  return sim.net->stats.rx_dropped[why];
}

static void checksum_against_naive(void **unused) {
  (void)unused;
  static u8 data[70000];
  for (u32 fill = 0; fill < 3; fill++) {
    for (u32 i = 0; i < sizeof data; i++) {
      data[i] = fill == 0 ? 0xff : fill == 1 ? (u8)sim_draw(256) : 0;
    }
    for (u32 len = 0; len < 300; len++) {
      for (u32 cut = 0; cut <= len; cut += 1 + cut / 3) {
        struct csum c = {0};
        csum_add(&c, bytes_of(data, cut));
        csum_add(&c, bytes_of(data + cut, len - cut));
        u32 want = sim_sum(0, data, len);
        assert_int_equal(csum_fold(&c), want);
      }
    }
    struct csum c = {0};
    csum_add(&c, bytes_of(data, 65535));
    assert_int_equal(csum_fold(&c), sim_sum(0, data, 65535));
  }
}

static u32 arp_frame(u8 *f, u16 operation, u32 sender, u32 target) {
  memcpy(f, "\xff\xff\xff\xff\xff\xff", 6);
  memcpy(f + 6, sim_peer_mac, 6);
  store_be16(f + 12, ETH_ARP);
  memcpy(f + 14, "\x00\x01\x08\x00\x06\x04", 6);
  store_be16(f + 20, operation);
  memcpy(f + 22, sim_peer_mac, 6);
  store_be32(f + 28, sender);
  memset(f + 32, 0, 6);
  store_be32(f + 38, target);
  return 42;
}

static u32 udp_frame(u8 *f, u16 from, u16 to, const u8 *data, u32 len) {
  memcpy(f + 42, data, len);
  u32 total = sim_ip_frame(f, IP_UDP, 8 + len);
  store_be16(f + 34, from);
  store_be16(f + 36, to);
  store_be16(f + 38, (u16)(8 + len));
  store_be16(f + 40, 0);
  u32 sum = sim_sum(sim_pseudo(f + 14, 8 + len), f + 34, 8 + len);
  store_be16(f + 40, (u16)~sum);
  return total;
}

static void arp_answers_and_asks(void **unused) {
  (void)unused;
  u8 f[100];
  start();
  sim_static_address();
  turns(1, 0);
  assert_int_equal(last_len, 42);  // the announcement
  assert_int_equal(load_be32(last + 28), SIM_LOCAL);
  assert_int_equal(load_be32(last + 38), SIM_LOCAL);
  put(f, arp_frame(f, 1, SIM_PEER, SIM_LOCAL));
  assert_int_equal(sent, 1);
  assert_int_equal(load_be16(last + 20), 2);
  assert_memory_equal(last + 22, sim_mac, 6);
  assert_memory_equal(last, sim_peer_mac, 6);
  put(f, arp_frame(f, 1, SIM_PEER, SIM_LOCAL + 1));
  assert_int_equal(sent, 0);
  u32 len = arp_frame(f, 1, SIM_PEER, SIM_LOCAL);
  for (u32 n = 0; n < len; n++) {
    put(f, n);
    assert_int_equal(sent, 0);
  }
  struct udp_packet p = {
      .target = ip_of4(SIM_PEER), .source_port = 9, .target_port = 10, .payload = bytes_of("x", 1)};
  assert_int_equal(udp_send(sim.net, 0, &p), ERR_OK);
  turns(1, 61000 * SIM_MS);
  assert_int_equal(sent, 2);  // and the second announcement (RFC 5227 2.3)
  assert_int_equal(udp_send(sim.net, 0, &p), ERR_OK);  // stale, still used, asked for again
  turns(1, 0);
  assert_int_equal(sent, 2);
  p.target = ip_of4(SIM_PEER + 1);
  assert_int_equal(udp_send(sim.net, 0, &p), ERR_AGAIN);  // unknown
  turns(1, 0);
  assert_int_equal(load_be16(last + 12), ETH_ARP);
  assert_int_equal(load_be32(last + 38), SIM_PEER + 1);
  turns(40, 250 * SIM_MS);  // three questions, then silence
  turns(40, 250 * SIM_MS);
  assert_int_equal(sent, 0);
  done();
}

// RFC 5227 2.4: another user of our address is told, once in ten seconds; our own frame that comes
// back is none.
static void address_is_defended(void **unused) {
  (void)unused;
  u8 f[100];
  start();
  sim_static_address();
  turns(1, 0);
  put(f, arp_frame(f, 1, SIM_LOCAL, SIM_LOCAL));
  assert_int_equal(sent, 1);
  assert_int_equal(load_be32(last + 28), SIM_LOCAL);
  assert_int_equal(load_be32(last + 38), SIM_LOCAL);
  assert_memory_equal(last + 22, sim_mac, 6);
  put(f, arp_frame(f, 2, SIM_LOCAL, SIM_PEER));
  assert_int_equal(sent, 0);
  turns(1, 10000 * SIM_MS);
  put(f, arp_frame(f, 2, SIM_LOCAL, SIM_PEER));
  assert_int_equal(sent, 1);
  assert_int_equal(dropped(DROP_SOURCE), 3);
  turns(1, 10000 * SIM_MS);
  arp_frame(f, 1, SIM_LOCAL, SIM_LOCAL);
  memcpy(f + 22, sim_mac, 6);
  put(f, 42);
  assert_int_equal(sent, 0);
  done();
}

static void gateway_outside_the_subnet(void **unused) {
  (void)unused;
  u8 f[100];
  start();
  struct net_if_config config = {
      .address = SIM_LOCAL, .prefix_len = 32, .gateway = IP4(172, 31, 1, 1)};
  assert_int_equal(net_configure(sim.net, 0, &config), ERR_OK);
  turns(1, 0);
  struct udp_packet p = {.target = ip_of4(IP4(8, 8, 8, 8)), .payload = bytes_of("x", 1)};
  assert_int_equal(udp_send(sim.net, 0, &p), ERR_AGAIN);
  turns(1, 0);
  assert_int_equal(load_be32(last + 38), IP4(172, 31, 1, 1));
  put(f, arp_frame(f, 2, IP4(172, 31, 1, 1), SIM_LOCAL));
  assert_int_equal(udp_send(sim.net, 0, &p), ERR_OK);
  turns(1, 0);
  assert_memory_equal(last, sim_peer_mac, 6);
  assert_int_equal(load_be32(last + 30), IP4(8, 8, 8, 8));
  done();
}

static void ip_rules(void **unused) {
  (void)unused;
  u8 f[200], g[200];
  start();
  sim_static_address();
  turns(1, 0);
  u32 len = udp_frame(f, 1, 99, (const u8 *)"hello", 5);
  put(f, len);  // nobody listens: port unreachable, quoting it
  assert_int_equal(last[23], IP_ICMP);
  assert_int_equal(load_be16(last + 34), 3 << 8 | 3);
  assert_memory_equal(last + 42, f + 14, 28);
  assert_int_equal(dropped(DROP_NO_LISTENER), 1);
  for (u32 n = 0; n < len; n++) {
    put(f, n);
    assert_int_equal(sent, 0);
  }
  memcpy(g, f, len);
  g[44] ^= 1;
  put(g, len);
  assert_int_equal(dropped(DROP_CHECKSUM), 1);
  const struct {
    u32 at;
    u32 value;
    u32 why;
  } cases[] = {
      {20, 0x2000, DROP_FRAGMENT},       {20, 0x0001, DROP_FRAGMENT}, {26, 0xe000, DROP_SOURCE},
      {26, 0x7f00, DROP_SOURCE},         {26, 0xffff, DROP_SOURCE},   {30, 0x0a01, DROP_NOT_OURS},
      {22, 64 << 8 | 99, DROP_PROTOCOL},
  };
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    memcpy(g, f, len);
    store_be16(g + cases[i].at, (u16)cases[i].value);
    store_be16(g + 24, 0);
    store_be16(g + 24, (u16)~sim_sum(0, g + 14, 20));
    u64 before = dropped(cases[i].why);
    put(g, len);
    assert_int_equal(dropped(cases[i].why), before + 1);
  }
  u32 answers = 0;
  for (u32 i = 0; i < 500; i++) {
    put(f, len);
    answers += sent;
  }
  assert_in_range(answers, 50, 210);  // 100 a second
  done();
}

static void echo(void **unused) {
  (void)unused;
  u8 f[1600] = {0};
  start();
  sim_static_address();
  turns(1, 0);
  for (u32 n = 0; n <= 1472; n += 1 + n / 8) {
    memset(f + 34, 0x5a, 8 + n);
    u32 len = sim_ip_frame(f, IP_ICMP, 8 + n);
    memcpy(f + 34, "\x08\x00\x00\x00\x12\x34\x00\x01", 8);
    store_be16(f + 36, (u16)~sim_sum(0, f + 34, 8 + n));
    put(f, len);
    assert_int_equal(sent, 1);
    assert_int_equal(last_len, len);
    assert_int_equal(last[34], 0);
    assert_memory_equal(last + 38, f + 38, 4 + n);
    f[37] ^= 1;
    put(f, len);
    assert_int_equal(sent, 0);
    turns(1, 100 * SIM_MS);
  }
  done();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(checksum_against_naive),
      cmocka_unit_test(arp_answers_and_asks),
      cmocka_unit_test(address_is_defended),
      cmocka_unit_test(gateway_outside_the_subnet),
      cmocka_unit_test(ip_rules),
      cmocka_unit_test(echo),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
