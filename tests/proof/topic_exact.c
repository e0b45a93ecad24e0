// SPDX-License-Identifier: Apache-2.0
// Topic names and filters, compared with the standard's sentences (4.7, 4.8.2) spelled out naively:
// the validators accept exactly the legal ones, and a filter matches exactly the names it should.
// Bounded: a rule looks at a character and its neighbours, matching at one level of each side, and
// five characters hold every such combination (a wildcard between two levels, empty levels, the
// end).
#include "mqtt/topic.h"
#include "proof.h"

#ifndef LENGTH
#define LENGTH 5u
#endif

static struct bytes any_text(u8 *store, u32 least) {
  u32 len = nondet_u32();
  __CPROVER_assume(len >= least && len <= LENGTH);
  for (u32 i = 0; i < LENGTH; i++) {
    store[i] = nondet_u8();
  }
  return bytes_of(store, len);
}

// [MQTT-4.7.3-1] at least one character, [MQTT-4.7.3-2] no U+0000, [MQTT-4.7.1-1] no wildcard.
static bool name_legal(struct bytes s) {
  u32 bad = 0;
  for (u32 i = 0; i < LENGTH; i++) {
    bad += i < s.len && (s.ptr[i] == 0 || s.ptr[i] == '+' || s.ptr[i] == '#');
  }
  return s.len > 0 && bad == 0;
}

// The level that holds character i is that character alone.
static bool alone(struct bytes s, u32 i) {
  return (i == 0 || s.ptr[i - 1] == '/') && (i + 1 == s.len || s.ptr[i + 1] == '/');
}

// [MQTT-4.7.1-1] '#' alone in the last level, [MQTT-4.7.1-2] '+' alone in its level.
static bool filter_legal(struct bytes s) {
  u32 bad = 0;
  for (u32 i = 0; i < LENGTH; i++) {
    u8 c = i < s.len ? s.ptr[i] : 'x';
    bad += c == 0 || (c == '+' && !alone(s, i)) || (c == '#' && (!alone(s, i) || i + 1 != s.len));
  }
  return s.len > 0 && bad == 0;
}

void proof_name_exact(void) {
  u8 b[LENGTH];
  struct bytes s = any_text(b, 0);
  bool want = name_legal(s);
#ifdef NEGATIVE
  want = want && s.len < LENGTH;
#endif
  PROVE(topic_name_valid(s) == want);
}

void proof_filter_exact(void) {
  u8 b[LENGTH];
  struct bytes s = any_text(b, 0);
  bool want = filter_legal(s);
#ifdef NEGATIVE
  want = want && s.len < LENGTH;
#endif
  PROVE(topic_filter_valid(s) == want);
}

// $share/GROUP/FILTER: a group of at least one character without '/', '+', '#' [MQTT-4.8.2-1],
// '/' and a legal filter [MQTT-4.8.2-2]. The five characters are those behind "$share/".
void proof_shared_exact(void) {
  u8 b[7 + LENGTH] = {'$', 's', 'h', 'a', 'r', 'e', '/'};
  struct bytes rest = any_text(b + 7, 0);
  u32 slash = (u32)rest.len;
  for (u32 i = LENGTH; i > 0; i--) {
    slash = i - 1 < rest.len && rest.ptr[i - 1] == '/' ? i - 1 : slash;
  }
  bool want = false;
  if (slash < rest.len) {
    want = name_legal(bytes_of(rest.ptr, slash)) &&
           filter_legal(bytes_of(rest.ptr + slash + 1, rest.len - slash - 1));
  }
#ifdef NEGATIVE
  want = want && rest.ptr[0] != 'g';
#endif
  PROVE(topic_filter_valid(bytes_of(b, 7 + rest.len)) == want);
}

// The slow specification: can[f][n] says that the filter from f on matches the name from n on,
// character by character, from the ends backwards.
static bool should_match(struct bytes filter, struct bytes name) {
  bool can[LENGTH + 1][LENGTH + 1];
  u32 fl = (u32)filter.len;
  u32 nl = (u32)name.len;
  for (u32 i = 0; i <= LENGTH; i++) {
    u32 f = LENGTH - i;
    for (u32 j = 0; j <= LENGTH; j++) {
      u32 n = LENGTH - j;
      bool ok = f == fl && n == nl;
      if (f < fl && n <= nl) {
        u8 c = filter.ptr[f];
        bool same = n < nl && name.ptr[n] == c && can[f + 1][n + 1];
        bool parent = n == nl && c == '/' && fl - f == 2 && filter.ptr[f + 1] == '#';  // 4.7.1.2
        bool level = can[f + 1][n] || (n < nl && name.ptr[n] != '/' && can[f][n + 1]);
        ok = c == '#' || (c == '+' ? level : same || parent);
      }
      can[f][n] = ok;
    }
  }
  bool wild = filter.ptr[0] == '+' || filter.ptr[0] == '#';
  return can[0][0] && !(wild && name.ptr[0] == '$');  // [MQTT-4.7.2-1]
}

void proof_matches(void) {
  u8 a[LENGTH];
  u8 b[LENGTH];
  struct bytes filter = any_text(a, 1);
  struct bytes name = any_text(b, 1);
  __CPROVER_assume(filter_legal(filter) && name_legal(name));
  bool want = should_match(filter, name);
#ifdef NEGATIVE
  want = want && !(filter.len == 3 && filter.ptr[1] == '/' && filter.ptr[2] == '#');
#endif
  PROVE(topic_matches(filter, name) == want);
}
