// SPDX-License-Identifier: Apache-2.0
// Proves: the DHCPv4 client goes through the states of RFC 2131 4.4 at their times, probes an
// address before it uses it (RFC 5227) and declines another's, believes only whom it asked, and
// takes routes (RFC 3442), MTU and times as far as they make sense; replies cut at every byte or
// with options in odd places (RFC 3396, option 52) do what they should.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"

#define SERVER IP4(10, 0, 0, 9)
#define S(x) (x), sizeof(x) - 1

static u8 last[64][600];  // DHCP messages and ARP frames of the last turn
static u32 last_count;

static void turn_ms(u32 ms) {
  last_count = 0;
  for (u32 at = 0; at <= ms; at += 50) {
    loop_turn(&sim.core);
    loop_turn(&sim.core);
    for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
      if (last_count < ARRAY_COUNT(last) && p.len <= sizeof last[0]) {
        memset(last[last_count], 0, sizeof last[0]);
        memcpy(last[last_count++], p.data, p.len);
      }
      free(p.data);
    }
    unit_now_ns += at < ms ? 50 * SIM_MS : 0;
  }
}
static void turn_s(u32 s) {
  for (u32 i = 0; i + 1 < s; i++) {
    turn_ms(1000);
  }
  turn_ms(1000);
}

// The last DHCP message of this type in the last turn; NULL: none.
static const u8 *said(u8 type) {
  for (u32 i = last_count; i > 0; i--) {
    const u8 *f = last[i - 1];
    if (load_be16(f + 12) == ETH_IP4 && f[23] == IP_UDP && load_be16(f + 36) == 67 &&
        f[42 + 242] == type) {
      return f;
    }
  }
  return NULL;
}
// An option's value in a message of ours; 0: not there.
static u32 option_of(const u8 *f, u8 code) {
  for (u32 at = 42 + 240; f[at] != 255; at += 2u + f[at + 1]) {
    if (f[at] == code) {
      return load_be32(f + at + 2);
    }
  }
  return 0;
}
static u32 arps(u32 sender, u32 target) {
  u32 n = 0;
  for (u32 i = 0; i < last_count; i++) {
    const u8 *f = last[i];
    n += load_be16(f + 12) == ETH_ARP && load_be32(f + 28) == sender && load_be32(f + 38) == target;
  }
  return n;
}
static u32 xid;

static const struct net_limits limits = {.tcp_conns = 4,
                                         .tcp_time_wait = 4,
                                         .txbuf_small = 16,
                                         .txbuf_small_reserve = 2,
                                         .txbuf_large = 8,
                                         .tx_slots = 40};
static void start(void) {
  sim_start(3, &limits, 5000 * SIM_MS);
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  struct net_if_config config = {.dhcp = true};
  assert_int_equal(net_configure(sim.net, 0, &config), ERR_OK);
  turn_ms(300);
  assert_non_null(said(DISCOVER));
  xid = load_be32(said(DISCOVER) + 46);
}

// A reply of the server.
static struct {
  u32 address, server, xid;
  u8 type;
  u8 sname[64], file[128];
} r;
static u8 frame[700];
static u32 frame_len;

static void make(u8 type, const char *options, u32 options_len) {
  u8 *body = frame + 42;
  frame_len = sim_ip_frame(frame, IP_UDP, 8 + 240 + 9 + options_len);
  store_be32(frame + 26, SERVER);
  store_be32(frame + 30, U32_MAX);
  store_be16(frame + 24, 0);
  store_be16(frame + 24, (u16)~sim_sum(0, frame + 14, 20));
  store_be16(frame + 34, 67);
  store_be16(frame + 36, 68);
  store_be16(frame + 38, (u16)(frame_len - 34));
  store_be16(frame + 40, 0);
  memset(body, 0, 240);
  body[0] = 2;
  store_be32(body + 4, r.xid != 0 ? r.xid : xid);
  store_be32(body + 16, r.address != 0 ? r.address : SIM_LOCAL);
  memcpy(body + 28, sim_mac, 6);
  memcpy(body + 44, r.sname, sizeof r.sname);
  memcpy(body + 108, r.file, sizeof r.file);
  store_be32(body + 236, 0x63825363);
  memcpy(body + 240, "\x35\x01\x00\x36\x04", 5);
  body[242] = type;
  store_be32(body + 245, r.server != 0 ? r.server : SERVER);
  memcpy(body + 249, options, options_len);
}
static void reply(u8 type, const char *options, u32 len) {
  make(type, options, len);
  sim_put(&sim.to_stack, frame, frame_len, 0);
  turn_ms(0);
}
#define LEASE "\x33\x04\x00\x00\x04\xb0"  // 1200 s: T1 600, T2 1050
#define MASK "\x01\x04\xff\xff\xff\x00"
#define END "\xff"

static struct net_if_state state_now(void) {
  struct net_if_state s = {0};
  net_if_state(sim.net, 0, &s);
  return s;
}
static struct dhcp *d(void) {
  return &sim.net->nic[0].dhcp;
}
static void take_xid(u8 type) {
  assert_non_null(said(type));
  xid = load_be32(said(type) + 46);
}

static void bound(const char *options, u32 len) {
  memset(&r, 0, sizeof r);
  start();
  reply(OFFER, S(LEASE MASK END));
  assert_non_null(said(REQUEST));
  reply(ACK, options, len);
  turn_ms(1000);
  assert_int_equal(state_now().address, SIM_LOCAL);
}

// RFC 2131 4.4.1, 4.4.5; RFC 5227 2.1.1, 2.3.
static void life(void **unused) {
  (void)unused;
  memset(&r, 0, sizeof r);
  start();
  reply(OFFER, S(LEASE MASK END));
  const u8 *m = said(REQUEST);
  assert_int_equal(load_be32(m + 30), U32_MAX);
  assert_int_equal(option_of(m, 50), SIM_LOCAL);
  assert_int_equal(option_of(m, 54), SERVER);
  assert_int_equal(load_be32(m + 42 + 12), 0);
  reply(ACK, S(LEASE MASK "\x03\x04\x0a\x00\x00\x01\x06\x08\x01\x01\x01\x01\x08\x08\x08\x08" END));
  assert_int_equal(state_now().address, 0);
  u32 probes = arps(0, SIM_LOCAL);
  for (u32 i = 0; i < 3; i++) {
    assert_int_equal(state_now().address, 0);
    turn_ms(250);
    probes += arps(0, SIM_LOCAL);
  }
  assert_int_equal(probes, 3);
  turn_ms(250);
  struct net_if_state s = state_now();
  assert_true(s.up && s.address == SIM_LOCAL && s.prefix_len == 24);
  assert_true(s.gateway == IP4(10, 0, 0, 1) && s.dns[1] == IP4(8, 8, 8, 8) && s.mtu == 1500);
  u32 announced = arps(SIM_LOCAL, SIM_LOCAL);
  turn_ms(2500);
  assert_int_equal(announced + arps(SIM_LOCAL, SIM_LOCAL), 2);
  turn_s(590);
  assert_int_equal(d()->state, DHCP_BOUND);
  turn_s(10);  // T1: to the server alone, but its MAC is to be asked for first
  assert_int_equal(d()->state, DHCP_RENEWING);
  arp_learn(&sim.net->nic[0], SERVER, sim_peer_mac, true);
  for (u32 i = 0; i < 300 && said(REQUEST) == NULL; i++) {
    turn_ms(1000);
  }
  m = said(REQUEST);
  assert_non_null(m);
  assert_true(load_be32(m + 30) == SERVER && load_be32(m + 42 + 12) == SIM_LOCAL);
  assert_true(option_of(m, 50) == 0 && option_of(m, 54) == 0);  // RFC 2131 table 4
  take_xid(REQUEST);
  reply(ACK, S(LEASE MASK END));
  assert_int_equal(d()->state, DHCP_BOUND);
  turn_s(1045);  // nobody answers: T2, then all are asked
  assert_int_equal(d()->state, DHCP_RENEWING);
  for (u32 i = 0; i < 10 && d()->state == DHCP_RENEWING; i++) {
    turn_ms(1000);
  }
  assert_int_equal(d()->state, DHCP_REBINDING);
  assert_int_equal(load_be32(said(REQUEST) + 30), U32_MAX);
  assert_int_equal(state_now().address, SIM_LOCAL);
  turn_s(151);  // the lease ends
  assert_int_equal(state_now().address, 0);
  assert_int_equal(d()->state, DHCP_SELECTING);
}

// RFC 2131 3.1.5, 4.4.4: somebody uses the address, or probes it too.
static void declined(void **unused) {
  (void)unused;
  for (u32 way = 0; way < 2; way++) {
    memset(&r, 0, sizeof r);
    start();
    reply(OFFER, S(LEASE MASK END));
    reply(ACK, S(LEASE MASK END));
    turn_ms(250);
    u8 arp[42] = "\xff\xff\xff\xff\xff\xff";
    memcpy(arp + 6, sim_peer_mac, 6);
    memcpy(arp + 12, "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01", 10);
    memcpy(arp + 22, sim_peer_mac, 6);
    store_be32(arp + 28, way == 0 ? SIM_LOCAL : 0);
    store_be32(arp + 38, SIM_LOCAL);
    sim_put(&sim.to_stack, arp, sizeof arp, 0);
    turn_ms(0);
    const u8 *m = said(DECLINE);
    assert_non_null(m);
    assert_true(option_of(m, 50) == SIM_LOCAL && option_of(m, 54) == SERVER);
    turn_ms(9500);
    assert_true(state_now().address == 0 && said(DISCOVER) == NULL);
    turn_ms(1000);
    assert_non_null(said(DISCOVER));
  }
}

// C2: who is not asked is not believed.
static void strangers(void **unused) {
  (void)unused;
  memset(&r, 0, sizeof r);
  start();
  r.xid = xid ^ 1;
  reply(OFFER, S(LEASE MASK END));
  r.xid = 0;
  assert_null(said(REQUEST));
  reply(ACK, S(LEASE MASK END));  // nothing was requested
  reply(NAK, S(END));
  assert_int_equal(d()->state, DHCP_SELECTING);
  static const u32 bad[] = {IP4(127, 0, 0, 1), IP4(224, 0, 0, 1), U32_MAX, IP4(10, 0, 0, 255),
                            IP4(0, 0, 0, 5)};
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    r.address = bad[i];
    reply(OFFER, S(LEASE MASK END));
    assert_int_equal(d()->state, DHCP_SELECTING);
  }
  r.address = 0;
  reply(OFFER, S(LEASE MASK END));
  assert_int_equal(d()->state, DHCP_REQUESTING);
  r.server = IP4(10, 0, 0, 66);
  reply(ACK, S(LEASE MASK END));
  reply(NAK, S(END));
  assert_int_equal(d()->state, DHCP_REQUESTING);
  r.server = 0;
  r.address = SIM_LOCAL + 1;
  reply(ACK, S(LEASE MASK END));
  assert_int_equal(d()->state, DHCP_REQUESTING);
  r.address = 0;
  reply(NAK, S(END));  // RFC 2131 3.1.4: from the start
  assert_int_equal(d()->state, DHCP_SELECTING);
  bound(S(LEASE MASK END));
  u32 old = xid;
  reply(NAK, S(END));  // nothing is asked now
  r.address = SIM_LOCAL + 7;
  reply(ACK, S(LEASE MASK END));
  assert_true(state_now().address == SIM_LOCAL && xid == old);
}

// RFC 3442; systems.md 1.3: gateways outside the subnet, /32.
static void routes(void **unused) {
  (void)unused;
  bound(S(LEASE "\x01\x04\xff\xff\xff\xff\x03\x04\x0a\x00\x00\x01"
                "\x79\x1d\x20\xac\x1f\x01\x01\x00\x00\x00\x00\x00\xac\x1f\x01\x01"
                "\x10\xc0\xa8\x0a\x00\x00\x02\x18\xc0\xa8\x05\x0a\x00\x00\x03" END));
  const struct nic *nic = &sim.net->nic[0];
  assert_int_equal(state_now().prefix_len, 32);
  assert_int_equal(state_now().gateway, IP4(172, 31, 1, 1));  // 121 goes before 3
  assert_int_equal(ip4_hop(nic, IP4(8, 8, 8, 8)), IP4(172, 31, 1, 1));
  assert_int_equal(ip4_hop(nic, IP4(172, 31, 1, 1)), IP4(172, 31, 1, 1));
  assert_int_equal(ip4_hop(nic, IP4(192, 168, 9, 9)), IP4(10, 0, 0, 2));
  assert_int_equal(ip4_hop(nic, IP4(192, 168, 5, 9)), IP4(10, 0, 0, 3));  // the longest prefix
  bound(S(LEASE MASK "\x03\x04\x0a\x00\x00\x01\x79\x05\x21\x0a\x00\x00\x02" END));
  assert_int_equal(state_now().gateway, IP4(10, 0, 0, 1));  // a width of 33: as if it had not come
}

// C4, RFC 2132 5.1: MTU; times.
static void numbers(void **unused) {
  (void)unused;
  bound(S(LEASE MASK "\x1a\x02\x05\x78" END));
  assert_int_equal(state_now().mtu, 1400);
  bound(S(LEASE MASK "\x1a\x02\x00\x44" END));
  assert_int_equal(state_now().mtu, 1500);
  bound(S(MASK "\x33\x04\x00\x00\x00\x01" END));  // a second: a minute
  assert_in_range(d()->expire_ns - unit_now_ns, 55 * 1000 * SIM_MS, 61 * 1000 * SIM_MS);
  bound(S(MASK LEASE "\x3a\x04\x00\x00\x00\x64\x3b\x04\x00\x00\x00\xc8" END));
  assert_in_range(d()->renew_ns - unit_now_ns, 95 * 1000 * SIM_MS, 101 * 1000 * SIM_MS);
  assert_in_range(d()->rebind_ns - unit_now_ns, 195 * 1000 * SIM_MS, 201 * 1000 * SIM_MS);
  bound(S(MASK "\x33\x04\xff\xff\xff\xff" END));  // for ever
  turn_s(10);
  assert_true(d()->state == DHCP_BOUND && d()->expire_ns == U64_MAX);
}

// RFC 2131 3.2: the link was away.
static void reboot(void **unused) {
  (void)unused;
  bound(S(LEASE MASK END));
  dhcp_link_up(&sim.net->nic[0]);
  turn_ms(300);
  take_xid(REQUEST);
  const u8 *m = said(REQUEST);
  assert_true(option_of(m, 50) == SIM_LOCAL && option_of(m, 54) == 0);
  assert_true(load_be32(m + 42 + 12) == 0 && load_be32(m + 30) == U32_MAX);
  assert_int_equal(state_now().address, SIM_LOCAL);
  reply(ACK, S(LEASE MASK END));
  assert_int_equal(d()->state, DHCP_BOUND);
  dhcp_link_up(&sim.net->nic[0]);
  turn_s(30);  // nobody answers: the lease is still ours
  assert_true(d()->state == DHCP_BOUND && state_now().address == SIM_LOCAL);
  dhcp_link_up(&sim.net->nic[0]);
  turn_ms(300);
  take_xid(REQUEST);
  reply(NAK, S(END));  // another network
  assert_true(d()->state == DHCP_SELECTING && state_now().address == 0);
}

// RFC 3396 and option 52: routes in two pieces, the mask in the file's field, the lease in sname's.
static void odd_places(void **unused) {
  (void)unused;
  memset(&r, 0, sizeof r);
  memcpy(r.file, MASK END, 7);
  memcpy(r.sname, LEASE END, 7);
  start();
  reply(OFFER, S("\x34\x01\x03" END));
  reply(ACK, S("\x34\x01\x03\x79\x03\x00\x0a\x00\x79\x02\x00\x07" END));
  turn_ms(1000);
  assert_int_equal(state_now().prefix_len, 24);
  assert_int_equal(state_now().gateway, IP4(10, 0, 0, 7));
  assert_in_range(d()->expire_ns - unit_now_ns, 1195 * 1000 * SIM_MS, 1201 * 1000 * SIM_MS);
}

static void cut_anywhere(void **unused) {
  (void)unused;
  memset(&r, 0, sizeof r);
  xid = 7;
  make(OFFER, S(LEASE MASK "\x79\x05\x00\x0a\x00\x00\x07\x34\x01\x03" END));
  memcpy(frame + 42 + 108, "\x1a\x02\x05\x78\xff", 5);
  memcpy(frame + 42 + 44, "\x06\x04\x01\x01\x01\x01\xff", 7);
  const u8 *body = frame + 42;
  u32 whole = frame_len - 42;
  for (u32 len = 0; len <= whole; len++) {
    u8 *copy = malloc(len == 0 ? 1 : len);
    memcpy(copy, body, len);
    struct dhcp_reply out;
    bool good = dhcp_reply_parse(bytes_of(copy, len), sim_mac, 7, &out);
    assert_true(good || len < whole);
    assert_true(!good || out.type == OFFER);
    assert_true(len < whole || (out.mtu == 1400 && out.dns[0] == IP4(1, 1, 1, 1)));
    free(copy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(life),       cmocka_unit_test(declined),     cmocka_unit_test(strangers),
      cmocka_unit_test(routes),     cmocka_unit_test(numbers),      cmocka_unit_test(reboot),
      cmocka_unit_test(odd_places), cmocka_unit_test(cut_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
