// SPDX-License-Identifier: Apache-2.0
// Proves: the walk over IPv6's extension headers finds the payload, refuses fragments but not
// atomic ones (RFC 6946), tells the errors that RFC 8200 4 wants and no others, and never reads
// beyond a packet that is cut off at any byte.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/ip6_walk.h"

static u8 packet[2048];
static u32 packet_len;

static void begin(u8 next) {
  memset(packet, 0, sizeof packet);
  packet[0] = 0x60;
  packet[6] = next;
  packet_len = IP6_LEN;
}
// A header of `kind` bytes 2.. as given, padded to eight.
static void header(u8 next, const void *rest, u32 len) {
  u8 *h = packet + packet_len;
  u32 all = ALIGN_UP(len + 2, 8u);
  h[0] = next;
  h[1] = (u8)(all / 8 - 1);
  memcpy(h + 2, rest, len);
  packet_len += all;
}
static void payload(void) {
  memcpy(packet + packet_len, "payload!", 8);
  packet_len += 8;
}

static enum ip6_verdict walk_cut(u32 len, bool multicast, struct ip6_walk *w) {
  u8 *copy = malloc(len);  // of exact size: a read beyond it is reported
  memcpy(copy, packet, len);
  enum ip6_verdict v = ip6_walk(bytes_of(copy, len), multicast, w);
  assert_true(w->off >= IP6_LEN && w->off <= len);
  free(copy);
  return v;
}
static enum ip6_verdict walk(struct ip6_walk *w) {
  return walk_cut(packet_len, false, w);
}

// RFC 8200 4.1: the usual order; RFC 2711: router alert; padding of both kinds.
static void finds_the_payload(void **state) {
  (void)state;
  struct ip6_walk w;
  begin(6);
  payload();
  assert_int_equal(walk(&w), IP6_PAYLOAD);
  assert_true(w.off == IP6_LEN && w.protocol == 6);
  begin(IP6_HOP_BY_HOP);
  header(IP6_ROUTING, "\x05\x02\0\0\1\0", 6);
  header(IP6_DESTINATION, "\4\0\0\0\0\0", 6);
  header(17, "\1\x0c\0\0\0\0\0\0\0\0\0\0\0\0", 14);
  payload();
  assert_int_equal(walk(&w), IP6_PAYLOAD);
  assert_true(w.off == packet_len - 8 && w.protocol == 17 && w.count == 3 && !w.atomic);
}

// RFC 8200 4.5, RFC 6946.
static void fragments(void **state) {
  (void)state;
  struct ip6_walk w;
  static const struct {
    const char *rest;
    enum ip6_verdict verdict;
  } table[] = {
      {"\0\0\1\2\3\4", IP6_PAYLOAD},      {"\0\6\1\2\3\4", IP6_PAYLOAD},  // reserved bits
      {"\0\1\1\2\3\4", IP6_FRAGMENTED},   {"\0\x8\1\2\3\4", IP6_FRAGMENTED},
      {"\x80\0\1\2\3\4", IP6_FRAGMENTED},
  };
  for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
    begin(IP6_FRAGMENT);
    header(58, table[i].rest, 6);
    packet[IP6_LEN + 1] = 200;  // reserved there, not a length
    payload();
    assert_int_equal(walk(&w), table[i].verdict);
    assert_int_equal(w.atomic, table[i].verdict == IP6_PAYLOAD);
  }
}

// RFC 8200 4.2.
static void unknown_options(void **state) {
  (void)state;
  static const struct {
    u8 type;
    enum ip6_verdict one, many;
  } table[] = {{0x1e, IP6_PAYLOAD, IP6_PAYLOAD},
               {0x5e, IP6_DROP, IP6_DROP},
               {0x9e, IP6_PROBLEM, IP6_PROBLEM},
               {0xde, IP6_PROBLEM, IP6_DROP}};
  for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
    struct ip6_walk w;
    u8 rest[6] = {0, table[i].type, 2, 0, 0, 0};
    begin(IP6_DESTINATION);
    header(6, rest, 6);
    payload();
    assert_int_equal(walk(&w), table[i].one);
    if (table[i].one == IP6_PROBLEM) {
      assert_true(w.problem_code == 2 && w.problem_at == IP6_LEN + 3);
    }
    assert_int_equal(walk_cut(packet_len, true, &w), table[i].many);
  }
}

static void refused(void **state) {
  (void)state;
  struct ip6_walk w;
  begin(IP6_NO_NEXT);  // RFC 8200 4.7
  payload();
  assert_int_equal(walk(&w), IP6_DROP);
  begin(IP6_DESTINATION);  // RFC 8200 4.1: hop-by-hop only first
  header(IP6_HOP_BY_HOP, "\1\4\0\0\0\0", 6);
  header(6, "\1\4\0\0\0\0", 6);
  payload();
  assert_int_equal(walk(&w), IP6_PROBLEM);
  assert_true(w.problem_code == 1 && w.problem_at == IP6_LEN + 8);
  begin(IP6_ROUTING);  // RFC 5095: segments left
  header(6, "\0\1\0\0\0\0", 6);
  payload();
  assert_int_equal(walk(&w), IP6_PROBLEM);
  assert_true(w.problem_code == 0 && w.problem_at == IP6_LEN + 2);
  begin(IP6_DESTINATION);  // an option longer than its header
  header(6, "\1\5\0\0\0\0", 6);
  payload();
  assert_int_equal(walk(&w), IP6_DROP);
}

// RFC 8504 5.3: limits.
static void bounded(void **state) {
  (void)state;
  struct ip6_walk w;
  for (u32 n = 0; n < 12; n++) {
    begin(n == 0 ? 6 : IP6_DESTINATION);
    for (u32 i = 0; i < n; i++) {
      header(i + 1 < n ? IP6_DESTINATION : 6, "\1\4\0\0\0\0", 6);
    }
    payload();
    assert_int_equal(walk(&w), n <= IP6_EXTENSIONS_MAX ? IP6_PAYLOAD : IP6_DROP);
  }
  u8 zeros[62] = {0};  // Pad1, one after the other
  for (u32 len = 6; len <= 62; len += 8) {
    begin(IP6_DESTINATION);
    header(6, zeros, len);
    payload();
    assert_int_equal(walk(&w), len <= IP6_OPTIONS_MAX ? IP6_PAYLOAD : IP6_DROP);
  }
}

static void cut_anywhere(void **state) {
  (void)state;
  begin(IP6_HOP_BY_HOP);
  header(IP6_ROUTING, "\x05\x02\0\0\1\0", 6);
  header(IP6_FRAGMENT, "\4\0\0\0\0\0", 6);
  header(IP6_DESTINATION, "\0\0\1\2\3\4", 6);
  header(17, "\1\x0c\0\0\0\0\0\0\0\0\0\0\0\0", 14);
  payload();
  for (u32 len = IP6_LEN; len < packet_len; len++) {
    struct ip6_walk w;
    assert_int_equal(walk_cut(len, false, &w), len >= packet_len - 8 ? IP6_PAYLOAD : IP6_DROP);
    for (u32 at = IP6_LEN; at < packet_len; at++) {  // and any byte anything
      u8 was = packet[at];
      packet[at] = (u8)(at * 37 + len);
      (void)walk_cut(len, len % 2 == 0, &w);
      packet[at] = was;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_payload), cmocka_unit_test(fragments),
      cmocka_unit_test(unknown_options),   cmocka_unit_test(refused),
      cmocka_unit_test(bounded),           cmocka_unit_test(cut_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
