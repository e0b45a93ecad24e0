// SPDX-License-Identifier: Apache-2.0
// Proves: questions are written as RFC 1035 4 wants them; answers are believed only for the
// question that was asked, along its aliases; no cut and no pointer makes a reader leave the
// message; servers are asked in turn and a question ends once, whatever comes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_sim_test_support.h"

#define NAME "mqtt.example.org"

static u8 message[1024];
static u32 message_len;

static void put(const void *bytes, u32 len) {
  memcpy(message + message_len, bytes, len);
  message_len += len;
}
static void put_record(const void *owner, u32 owner_len, u16 type, u32 ttl, const void *data,
                       u16 len) {
  u8 fixed[10];
  store_be16(fixed, type);
  store_be16(fixed + 2, 1);
  store_be32(fixed + 4, ttl);
  store_be16(fixed + 8, len);
  put(owner, owner_len);
  put(fixed, sizeof fixed);
  put(data, len);
}
static void begin(u16 id, u16 flags, u16 answers) {
  struct writer w = writer_init(span_of(message, sizeof message));
  dns_query_write(&w, id, BYTES_LIT(NAME), DNS_A);
  message_len = w.pos;
  store_be16(message + 2, flags);
  store_be16(message + 6, answers);
}

static enum dns_result read_answer(struct dns_answer *out) {
  u8 *copy = malloc(message_len > 0 ? message_len : 1);
  memcpy(copy, message, message_len);
  enum dns_result r = dns_answer_read(bytes_of(copy, message_len), 7, BYTES_LIT(NAME), DNS_A, out);
  free(copy);
  return r;
}

static void a_question(void **state) {
  (void)state;
  begin(7, 0x0100, 0);
  static const u8 wire[] = "\0\7\1\0\0\1\0\0\0\0\0\0\4mqtt\7example\3org\0\0\1\0\1";
  assert_int_equal(message_len, sizeof wire - 1);
  assert_memory_equal(message, wire, message_len);
}

static void names(void **state) {
  (void)state;
  static const char *const good[] = {"a", "a.b", "a.b.", "x_y-1.Z"};
  static const char *const bad[] = {"", ".", "a..b", ".a", "a b", "a.b..", "ä"};
  for (u32 i = 0; i < ARRAY_COUNT(good); i++) {
    assert_true(dns_name_valid(bytes_str(good[i])));
  }
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    assert_false(dns_name_valid(bytes_str(bad[i])));
  }
  u8 long_name[260];
  memset(long_name, 'a', sizeof long_name);
  assert_true(dns_name_valid(bytes_of(long_name, 63)));
  assert_false(dns_name_valid(bytes_of(long_name, 64)));
  for (u32 i = 60; i < 260; i += 60) {
    long_name[i] = '.';
  }
  assert_true(dns_name_valid(bytes_of(long_name, 253)));
  assert_false(dns_name_valid(bytes_of(long_name, 254)));
}

static void make_chain(void) {
  begin(7, 0x8180, 4);
  u32 alias = message_len + 12;  // where the CNAME's data begin
  put_record("\xc0\x0c", 2, 5, 300, "\4edge\xc0\x11", 7);
  u8 owner[2] = {0xc0, (u8)alias};
  put_record(owner, 2, 1, 60, "\xc0\0\2\1", 4);
  put_record(owner, 2, 1, 90, "\xc0\0\2\2", 4);
  put_record("\4evil\3org\0", 10, 1, 1, "\x06\6\6\6", 4);  // nobody asked
}

static void an_answer_with_an_alias(void **state) {
  (void)state;
  struct dns_answer a;
  make_chain();
  assert_int_equal(read_answer(&a), DNS_FOUND);
  assert_int_equal(a.count, 2);
  assert_int_equal(ip_to4(a.address[0]), IP4(192, 0, 2, 1));
  assert_int_equal(ip_to4(a.address[1]), IP4(192, 0, 2, 2));
  assert_int_equal(a.ttl_s, 60);
  u32 whole = message_len;
  for (message_len = 0; message_len < whole; message_len++) {  // cut: never more than is there
    enum dns_result r = read_answer(&a);
    assert_true(r == DNS_NOT_OURS || r == DNS_FAILED || (r == DNS_FOUND && a.count <= 2));
  }
}

static void not_ours(void **state) {
  (void)state;
  struct dns_answer a;
  static const u32 places[] = {0, 1, 2, 5, 13, 20, 28, 31};  // id, flags, count, name, type, class
  for (u32 i = 0; i < ARRAY_COUNT(places); i++) {
    make_chain();
    message[places[i]] ^= places[i] == 2 ? 0x80 : 1;
    assert_int_equal(read_answer(&a), DNS_NOT_OURS);
  }
  make_chain();
  message[13] ^= 0x20;  // upper and lower case are the same
  assert_int_equal(read_answer(&a), DNS_FOUND);
}

static void refusals(void **state) {
  (void)state;
  struct dns_answer a;
  begin(7, 0x8183, 0);
  assert_int_equal(read_answer(&a), DNS_NO_NAME);
  begin(7, 0x8182, 0);
  assert_int_equal(read_answer(&a), DNS_FAILED);
  begin(7, 0x8180, 0);
  assert_int_equal(read_answer(&a), DNS_NO_ADDRESS);
  begin(7, 0x8180, 1);
  put_record("\xc0\x0c", 2, 28, 60, "0123456789abcdef", 16);  // AAAA only
  assert_int_equal(read_answer(&a), DNS_NO_ADDRESS);
}

static void pointers_that_lead_nowhere(void **state) {
  (void)state;
  struct dns_answer a;
  for (u32 target = 0; target < 256; target++) {  // also to itself and forward
    begin(7, 0x8180, 1);
    u8 owner[2] = {0xc0, (u8)target};
    put_record(owner, 2, 1, 60, "\1\2\3\4", 4);
    enum dns_result r = read_answer(&a);
    assert_int_equal(r, target == 12 ? DNS_FOUND : DNS_NO_ADDRESS);
  }
  begin(7, 0x8180, 1);
  put_record("\x80\x0c", 2, 1, 60, "\1\2\3\4", 4);
  assert_int_equal(read_answer(&a), DNS_FAILED);
}

// --- the resolver

static u32 calls;
static enum dns_result last;
static struct dns_answer got;

static void on_result(void *user, enum dns_result r, const struct dns_answer *answer) {
  assert_ptr_equal(user, &calls);
  calls++;
  last = r;
  got = *answer;
}

static const struct net_limits small = {.tcp_conns = 8,
                                        .tcp_time_wait = 4,
                                        .txbuf_small = 16,
                                        .txbuf_small_reserve = 2,
                                        .txbuf_large = 8,
                                        .tx_slots = 80};
static u8 asked[300];
static u32 asked_len, questions;
static u16 asked_port;

static void turn(u32 ms) {
  unit_now_ns += ms * SIM_MS;
  for (u32 i = 0; i < 3; i++) {
    loop_turn(&sim.core);
  }
  for (struct sim_packet p = sim_get(&sim.to_peer); p.data != NULL; p = sim_get(&sim.to_peer)) {
    if (p.len > 42 && p.data[23] == IP_UDP) {
      asked_port = load_be16(p.data + 34);
      assert_int_equal(load_be16(p.data + 36), 53);
      asked_len = p.len - 42;
      memcpy(asked, p.data + 42, asked_len);
      questions++;
    }
    free(p.data);
  }
}

static void start(void) {
  sim_start(1, &small, 5000 * SIM_MS);
  sim_static_address();
  loop_stage(&sim.core, "flush", net_flush, sim.net);
  arp_learn(&sim.net->nic[0], SIM_PEER, sim_peer_mac, true);
  calls = questions = 0;
  turn(1);
}

static void reply(u16 from, u16 to) {
  static u8 frame[2048];
  u32 len = sim_ip_frame(frame, IP_UDP, 8 + message_len);
  store_be16(frame + 34, from);
  store_be16(frame + 36, to);
  store_be16(frame + 38, (u16)(8 + message_len));
  store_be16(frame + 40, 0);
  memcpy(frame + 42, message, message_len);
  sim_put(&sim.to_stack, frame, len, 0);
  turn(1);
}

static void ask(void) {
  struct ip_addr server = ip_of4(SIM_PEER);
  dns_set_servers(sim.net, &server, 1);
  assert_int_equal(dns_ask(sim.net, BYTES_LIT(NAME), on_result, &calls), ERR_OK);
  turn(1);
  assert_int_equal(questions, 1);
}

static void a_name_is_found(void **state) {
  (void)state;
  start();
  ask();
  make_chain();
  memcpy(message, asked, 2);
  reply(54, asked_port);  // not from the server's port
  assert_int_equal(calls, 0);
  message[1] ^= 1;  // another id
  reply(53, asked_port);
  assert_int_equal(calls, 0);
  message[1] ^= 1;
  reply(53, asked_port);
  assert_int_equal(calls, 1);
  assert_int_equal(last, DNS_FOUND);
  assert_int_equal(got.count, 2);
  assert_int_equal(sim.net->udp_count, 0);
  reply(53, asked_port);  // once is enough
  assert_int_equal(calls, 1);
}

static u16 asked_type(void) {
  return load_be16(asked + asked_len - 4);
}
// The answer to what was asked: one record of these bytes.
static void answer_with(const u8 *data, u16 len) {
  memcpy(message, asked, asked_len);
  message[2] = 0x81;
  message[3] = 0x80;
  store_be16(message + 6, len == 0 ? 0 : 1);
  u8 *rec = message + asked_len;
  memcpy(rec, "\xc0\x0c", 2);
  store_be16(rec + 2, asked_type());
  memcpy(rec + 4, "\0\1\0\0\0\x3c", 6);
  store_be16(rec + 10, len);
  memcpy(rec + 12, data, len);
  message_len = asked_len + (len == 0 ? 0 : 12 + len);
  reply(53, asked_port);
}

// With a way out over IPv6 its addresses are asked for first (RFC 3596), then IPv4's.
static void both_families(void **state) {
  (void)state;
  static const u8 v6[16] = {0x20, 1, 0xd, 0xb8, [15] = 7};
  for (u32 way = 0; way < 3; way++) {  // both; no IPv6 address; no answer to the first question
    start();
    sim_static_address6();
    sim.net->nic[0].address = SIM_LOCAL;
    arp_learn(&sim.net->nic[0], SIM_PEER, sim_peer_mac, true);
    ask();
    assert_int_equal(asked_type(), DNS_AAAA);
    if (way == 2) {
      turn(1000);
      assert_int_equal(asked_type(), DNS_AAAA);
      turn(2300);
    } else {
      answer_with(v6, way == 0 ? 16 : 0);
    }
    turn(1);
    assert_int_equal(calls, 0);
    assert_int_equal(asked_type(), DNS_A);
    answer_with((const u8 *)"\xc0\0\2\1", 4);
    assert_true(calls == 1 && last == DNS_FOUND);
    assert_int_equal(got.count, way == 0 ? 2 : 1);
    assert_true(way != 0 || ip_equal(got.address[0], ip_load6(v6)));
    assert_int_equal(ip_to4(got.address[got.count - 1]), 0xc0000201);
    assert_int_equal(sim.net->udp_count, 0);
  }
}

static void nobody_answers(void **state) {
  (void)state;
  start();
  ask();
  for (u32 i = 0; i < 200 && calls == 0; i++) {
    turn(100);
  }
  assert_int_equal(questions, 4);
  assert_int_equal(last, DNS_NO_ANSWER);
  assert_int_equal(sim.net->udp_count, 0);
}

static void questions_are_bounded_and_forgotten(void **state) {
  (void)state;
  start();
  assert_int_equal(dns_ask(sim.net, BYTES_LIT(NAME), on_result, &calls), ERR_NOT_FOUND);
  struct ip_addr server = ip_of4(SIM_PEER);
  dns_set_servers(sim.net, &server, 1);
  assert_int_equal(dns_ask(sim.net, BYTES_LIT("a..b"), on_result, &calls), ERR_INVALID);
  for (u32 i = 0; i < DNS_QUERIES_MAX; i++) {
    assert_int_equal(dns_ask(sim.net, BYTES_LIT(NAME), on_result, &calls), ERR_OK);
  }
  assert_int_equal(dns_ask(sim.net, BYTES_LIT(NAME), on_result, &calls), ERR_LIMIT);
  dns_cancel(sim.net, &calls);
  assert_int_equal(sim.net->udp_count, 0);
  turn(20000);
  assert_int_equal(calls, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_question),
      cmocka_unit_test(names),
      cmocka_unit_test(an_answer_with_an_alias),
      cmocka_unit_test(not_ours),
      cmocka_unit_test(refusals),
      cmocka_unit_test(pointers_that_lead_nowhere),
      cmocka_unit_test(a_name_is_found),
      cmocka_unit_test(both_families),
      cmocka_unit_test(nobody_answers),
      cmocka_unit_test(questions_are_bounded_and_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
