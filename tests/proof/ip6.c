// SPDX-License-Identifier: Apache-2.0
// IPv6: one extension header of any packet at any place (the walk is steps one after the other,
// each further on, at most IP6_EXTENSIONS_MAX: ip6_step counts), and one option of neighbour
// discovery.
#include "net/ip6_walk.h"
#include "net/stack.h"
#include "proof.h"

void proof_ip6_step(void) {
  struct bytes packet = any_bytes(48);
  struct ip6_walk w = {
      .off = nondet_u32(), .protocol = nondet_u8(), .count = nondet_u8(), .atomic = nondet_bool()};
  __CPROVER_assume(w.off <= packet.len);
  __CPROVER_assume(w.count <= IP6_EXTENSIONS_MAX);
  struct ip6_walk before = w;
  enum ip6_verdict v = ip6_step(packet, nondet_bool(), &w);
  PROVE(w.off <= packet.len);
  PROVE(w.count <= IP6_EXTENSIONS_MAX);
  if (v == IP6_MORE) {
    PROVE(w.off >= before.off + 8);
    PROVE(w.count == before.count + 1);
    PROOF_REACHED();
  } else {
    PROVE(w.off == before.off);
    PROVE(w.count == before.count);
  }
  if (v == IP6_PROBLEM) {
    PROVE(w.problem_at < packet.len);
  }
}

void proof_nd_option(void) {
  struct bytes m = any_bytes(PROOF_MAX);
  u32 at = nondet_u32();
  __CPROVER_assume(at <= m.len);
  u32 before = at;
  struct part p;
  enum err e = nd_option(m, &at, &p);
  if (e == ERR_OK) {
    PROVE(p.off == before && p.len >= 8 && p.len % 8 == 0);
    PROVE(at == before + p.len && at <= m.len);
    PROOF_REACHED();
  } else {
    PROVE(at == before);
    PROVE((e == ERR_NOT_FOUND) == (before == m.len));
  }
}
