// SPDX-License-Identifier: Apache-2.0
// Proves: neighbour discovery does what RFC 4861 7 and RFC 4862 5.4 say, message by message; its
// table is bounded and a storm takes nobody's place who is spoken with; messages that are cut off,
// come from beyond the link or are malformed change nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/nd_sim_test_support.h"

static struct nd_entry *entry(struct ip_addr a) {
  for (u32 i = 0; i < ND_ENTRIES; i++) {
    struct nd_entry *e = &sim.net->nic[0].ip6.nd[i];
    if (e->state != ND_FREE && ip_equal(e->address, a)) {
      return e;
    }
  }
  return NULL;
}

// The peer is known from now on.
static void meet(void) {
  nd6_solicit(SIM_PEER6, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, true);
  nd6_turn(1);
}

// A datagram to the peer: makes the stack look for it.
static enum err speak(struct ip_addr to) {
  struct udp_packet p = {
      .target = to, .source_port = 9, .target_port = 10, .payload = BYTES_LIT("x")};
  enum err e = udp_send(sim.net, 0, &p);
  nd6_turn(0);
  return e;
}

// RFC 4862 5.4: an address is used after a probe and a second of silence; until then nobody is
// answered. The first word is a report of the group (RFC 4862 5.4.2).
static void detection(void **state) {
  (void)state;
  nd6_start(NET_IP6_STATIC);
  struct ip6_address *a = ip6_find(&sim.net->nic[0], SIM_LOCAL6);
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_MLD2_REPORT) && ip_equal(nd6.target, IP6_ALL_MLD2));
  assert_int_equal(nd6.hop_limit, 1);
  assert_int_equal(nd6.body[7], 2);  // link-local and configured
  nd6_turn(300);
  assert_int_equal(a->state, IP6_TENTATIVE);
  for (u32 i = 0; i < 8; i++) {
    nd6_solicit(SIM_PEER6, SIM_LOCAL6, SIM_LOCAL6, true);  // 5.4.3: silently ignored
    nd6_turn(100);
    assert_false(nd6_sent(ICMP6_NA));
  }
  assert_int_equal(a->state, IP6_TENTATIVE);
  nd6_turn(600);
  assert_int_equal(a->state, IP6_VALID);
  assert_true(nd6_sent(ICMP6_NA));
}

// RFC 4862 5.4.3, 5.4.4: the same address on another machine, which probes or has it.
static void duplicates(void **state) {
  (void)state;
  for (u32 way = 0; way < 2; way++) {
    nd6_start(NET_IP6_STATIC);
    nd6_turn(300);
    if (way == 0) {
      nd6_solicit(IP_NONE, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, false);
    } else {
      nd6_advertise(SIM_LOCAL6, IP6_ALL_NODES, SIM_LOCAL6, 0x20, sim_peer_mac);
    }
    nd6_turn(3000);
    assert_int_equal(ip6_find(&sim.net->nic[0], SIM_LOCAL6)->state, IP6_DUPLICATE);
    struct net_if_state s = {0};
    net_if_state(sim.net, 0, &s);
    assert_true(s.ip6_count == 2 && s.ip6[1].duplicate && !s.ip6[1].valid);
    assert_int_equal(speak(SIM_PEER6), ERR_NOT_FOUND);
    nd6_solicit(SIM_PEER6, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, true);
    nd6_turn(1);
    assert_false(nd6_sent(ICMP6_NA));
  }
  nd6_start(NET_IP6_STATIC);  // our own probe that came back is nobody
  nd6_turn(300);
  memcpy(nd6.from_mac, sim_mac, 6);
  nd6_solicit(IP_NONE, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, false);
  memcpy(nd6.from_mac, sim_peer_mac, 6);
  nd6_turn(3000);
  assert_int_equal(ip6_find(&sim.net->nic[0], SIM_LOCAL6)->state, IP6_VALID);
}

// RFC 4861 7.2.4; a valid address is defended, once in ten seconds.
static void answers(void **state) {
  (void)state;
  nd6_ready(NET_IP6_STATIC);
  nd6_solicit(SIM_PEER6, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, true);
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_NA) && ip_equal(nd6.target, SIM_PEER6));
  assert_int_equal(nd6.body[4], 0x60);
  assert_int_equal(nd6.hop_limit, 255);
  assert_memory_equal(nd6.body + 24, "\2\1", 2);
  assert_memory_equal(nd6.body + 26, sim_mac, 6);
  assert_int_equal(entry(SIM_PEER6)->state, ND_STALE);
  nd6_solicit(IP_NONE, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, false);  // somebody probes it
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_NA) && ip_equal(nd6.target, IP6_ALL_NODES));
  assert_int_equal(nd6.body[4], 0x20);
  u32 defences = 0;
  for (u32 i = 0; i < 30; i++) {
    nd6_advertise(SIM_LOCAL6, IP6_ALL_NODES, SIM_LOCAL6, 0x20, sim_peer_mac);
    nd6_turn(500);
    defences += nd6_sent(ICMP6_NA) ? 1 : 0;
  }
  assert_int_equal(defences, 2);
  // Not for us, from beyond the link, malformed: nothing.
  nd6_solicit(SIM_PEER6, ip6_solicited(SIM_LOCAL6), SIM_OTHER6, true);
  nd6_turn(1);
  assert_false(nd6_sent(ICMP6_NA));
  nd6.hop = 254;
  nd6_solicit(SIM_PEER6, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, true);
  nd6.hop = 255;
  nd6_turn(1);
  assert_false(nd6_sent(ICMP6_NA));
  nd6_solicit(IP_NONE, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, true);  // 7.1.1: no option then
  nd6_turn(1);
  assert_false(nd6_sent(ICMP6_NA));
  nd6_solicit(IP_NONE, SIM_LOCAL6, SIM_LOCAL6, false);  // 7.1.1: to the group only
  nd6_turn(1);
  assert_false(nd6_sent(ICMP6_NA));
}

// RFC 4861 7.2.2, 7.3.3: asked three times; known; reachable; stale; used; probed; gone.
static void life_of_a_neighbour(void **state) {
  (void)state;
  nd6_ready(NET_IP6_STATIC);
  assert_int_equal(speak(SIM_OTHER6), ERR_AGAIN);
  assert_true(nd6_sent(ICMP6_NS) && ip_equal(nd6.target, ip6_solicited(SIM_OTHER6)));
  assert_memory_equal(nd6.body + 24, "\1\1", 2);
  u32 asked = 1;
  for (u32 i = 0; i < 20; i++) {
    nd6_turn(250);
    asked += nd6_sent(ICMP6_NS) ? 1 : 0;
  }
  assert_int_equal(asked, 3);
  assert_null(entry(SIM_OTHER6));
  assert_int_equal(speak(SIM_OTHER6), ERR_AGAIN);
  nd6_advertise(SIM_OTHER6, SIM_LOCAL6, SIM_OTHER6, 0x60, sim_peer_mac);
  nd6_turn(1);
  assert_int_equal(entry(SIM_OTHER6)->state, ND_REACHABLE);
  assert_int_equal(speak(SIM_OTHER6), ERR_OK);
  nd6_turn(31000);
  assert_int_equal(speak(SIM_OTHER6), ERR_OK);
  assert_int_equal(entry(SIM_OTHER6)->state, ND_DELAY);
  asked = 0;
  for (u32 i = 0; i < 40; i++) {
    nd6_turn(250);
    asked += nd6_sent(ICMP6_NS) ? 1 : 0;
    assert_true(!nd6_sent(ICMP6_NS) || ip_equal(nd6.target, SIM_OTHER6));
  }
  assert_int_equal(asked, 3);
  assert_null(entry(SIM_OTHER6));
}

// RFC 4861 7.2.5 and appendix C: override, solicited, another MAC.
static void advertisements(void **state) {
  (void)state;
  static const u8 other[6] = {2, 0, 0, 0, 0, 77};
  nd6_ready(NET_IP6_STATIC);
  nd6_advertise(SIM_OTHER6, SIM_LOCAL6, SIM_OTHER6, 0x60, sim_peer_mac);
  nd6_turn(1);
  assert_null(entry(SIM_OTHER6));  // nobody had asked
  (void)speak(SIM_OTHER6);
  nd6_advertise(SIM_OTHER6, IP6_ALL_NODES, SIM_OTHER6, 0x60, other);  // 7.1.2: not to all
  nd6_turn(1);
  assert_int_equal(entry(SIM_OTHER6)->state, ND_INCOMPLETE);
  nd6_advertise(SIM_OTHER6, SIM_LOCAL6, SIM_OTHER6, 0x60, sim_peer_mac);
  nd6_turn(1);
  struct nd_entry *e = entry(SIM_OTHER6);
  nd6_advertise(SIM_OTHER6, SIM_LOCAL6, SIM_OTHER6, 0x40, other);  // no override
  nd6_turn(1);
  assert_int_equal(e->state, ND_STALE);
  assert_memory_equal(e->mac, sim_peer_mac, 6);
  nd6_advertise(SIM_OTHER6, IP6_ALL_NODES, SIM_OTHER6, 0x20, other);  // moved, unsolicited
  nd6_turn(1);
  assert_int_equal(e->state, ND_STALE);
  assert_memory_equal(e->mac, other, 6);
  nd6_advertise(SIM_OTHER6, SIM_LOCAL6, SIM_OTHER6, 0x60, other);
  nd6_turn(1);
  assert_int_equal(e->state, ND_REACHABLE);
}

// N1: 20 000 solicitations from strangers and 20 000 strangers that we must ask for do not drive
// out whom we speak with; answers are limited.
static void storms(void **state) {
  (void)state;
  nd6_ready(NET_IP6_STATIC);
  (void)speak(SIM_OTHER6);
  nd6_advertise(SIM_OTHER6, SIM_LOCAL6, SIM_OTHER6, 0x60, sim_peer_mac);
  nd6_turn(1);
  u32 before = sim.frames_out;
  for (u32 i = 0; i < 20000; i++) {
    struct ip_addr stranger = {0x20010db8ull << 32, 0x10000 + i};
    nd6_solicit(stranger, ip6_solicited(SIM_LOCAL6), SIM_LOCAL6, true);
    if (i % 100 == 99) {
      assert_int_equal(speak(SIM_OTHER6), ERR_OK);
    }
  }
  assert_true(sim.frames_out - before <= 500 + 200 + 10);
  for (u32 i = 0; i < 20000; i++) {
    struct ip_addr stranger = {0x20010db8ull << 32, 0x100000 + i};
    (void)speak(stranger);
    if (i % 100 == 99) {
      assert_int_equal(speak(SIM_OTHER6), ERR_OK);
    }
  }
  u32 asked = 0;
  for (u32 i = 0; i < ND_ENTRIES; i++) {
    asked += sim.net->nic[0].ip6.nd[i].state == ND_INCOMPLETE ? 1 : 0;
  }
  assert_true(asked <= ND_ENTRIES / ND_WAYS * ND_ASKED_MAX);
}

// Messages cut at every byte: each is refused or harmless, and none is read beyond its end.
static void cut_anywhere(void **state) {
  (void)state;
  u8 m[48] = {ICMP6_NS};
  ip_store6(m + 8, SIM_LOCAL6);
  memcpy(m + 24, "\1\1\2\0\0\0\0\5\2\1\2\0\0\0\0\6\x0e\1\0\0\0\0\0\0", 24);
  for (u32 len = 0; len <= sizeof m; len++) {
    u8 *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, m, len);
    struct nd_message out;
    bool good = nd_message_parse(bytes_of(copy, len), &out);
    assert_int_equal(good, len >= 24 && len % 8 == 0);
    assert_int_equal(out.has_source, len >= 32);
    free(copy);
  }
  m[25] = 0;
  struct nd_message out;
  assert_false(nd_message_parse(bytes_of(m, sizeof m), &out));  // RFC 4861 4.6: no length of zero
}

// RFC 4443: echo to us and to all; errors; none about errors.
static void icmp(void **state) {
  (void)state;
  nd6_ready(NET_IP6_STATIC);
  meet();
  u8 ping[64] = {ICMP6_ECHO, 0, 0, 0, 1, 2, 3, 4, 'a', 'b'};
  nd6_frame(SIM_PEER6, SIM_LOCAL6, IP_ICMP6, 64, ping, sizeof ping);
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_ECHO_REPLY) && ip_equal(nd6.source, SIM_LOCAL6));
  assert_memory_equal(nd6.body + 4, ping + 4, 60);
  nd6_frame(SIM_PEER6, SIM_LOCAL6, 200, 64, ping, sizeof ping);  // RFC 4443 3.4: next header
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_PROBLEM) && nd6.body[1] == 1 && nd6.body_len == 8 + 40 + 64);
  u8 udp[8] = {0, 1, 0, 2, 0, 8, 0, 0};
  nd6_frame(SIM_PEER6, SIM_LOCAL6, IP_UDP, 64, udp, sizeof udp);
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_UNREACHABLE) && nd6.body[1] == 4);
  nd6_frame(SIM_PEER6, IP6_ALL_NODES, 200, 64, ping, sizeof ping);  // 2.4 e.3
  nd6_turn(1);
  assert_false(nd6_sent(ICMP6_PROBLEM));
  u8 hop[16] = {IP_ICMP6, 0, 0x9e, 4, 0, 0, 0, 0, ICMP6_UNREACHABLE};
  nd6_frame(SIM_PEER6, SIM_LOCAL6, 60, 64, hop, sizeof hop);  // an unknown option: told
  nd6_turn(1);
  assert_true(nd6_sent(ICMP6_PROBLEM) && nd6.body[1] == 2 && load_be32(nd6.body + 4) == 42);
  u32 answers_sent = 0;
  for (u32 i = 0; i < 300; i++) {
    nd6_frame(SIM_PEER6, SIM_LOCAL6, IP_ICMP6, 64, ping, sizeof ping);
    nd6_turn(1);
    answers_sent += nd6_sent(ICMP6_ECHO_REPLY) ? 1 : 0;
  }
  assert_in_range(answers_sent, 90, 100);
}

// RFC 4291 2.7, 2.5.3; RFC 4942 2.2: what cannot be.
static void impossible_addresses(void **state) {
  (void)state;
  nd6_ready(NET_IP6_STATIC);
  u8 ping[64] = {ICMP6_ECHO};
  static const struct ip_addr bad[] = {
      {0, 1}, {0, 0xffff0a000001}, {0xff02ull << 48, 1}, {0x20010db8ull << 32, 2}, {0, 0}};
  meet();
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    nd6_frame(bad[i], SIM_LOCAL6, IP_ICMP6, 64, ping, sizeof ping);
    nd6_turn(1);
    assert_false(nd6_sent(ICMP6_ECHO_REPLY));
  }
  nd6_frame(SIM_PEER6, (struct ip_addr){0, 1}, IP_ICMP6, 64, ping, sizeof ping);
  nd6_turn(1);
  assert_false(nd6_sent(ICMP6_ECHO_REPLY));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(detection),
      cmocka_unit_test(duplicates),
      cmocka_unit_test(answers),
      cmocka_unit_test(life_of_a_neighbour),
      cmocka_unit_test(advertisements),
      cmocka_unit_test(storms),
      cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(icmp),
      cmocka_unit_test(impossible_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
