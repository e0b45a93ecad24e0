// SPDX-License-Identifier: Apache-2.0
// What is known of paths (RFC 1191, RFC 8201): the MTU towards a peer, from errors that TCP has
// found to be about its own segments. A place holds the last peer that hashes to it; after ten
// minutes it is forgotten, so that a path that has grown is used again.
#include "net/stack.h"

#define PMTU_NS (600 * SECOND_NS)

static struct pmtu *place(struct net *net, struct ip_addr target) {
  u64 h = siphash(&net->core->hash_key, bytes_of(&target, sizeof target));
  return &net->pmtu[h % ARRAY_COUNT(net->pmtu)];
}

void pmtu_learn(struct net *net, struct ip_addr target, u32 mtu) {
  ASSERT(mtu <= U16_MAX);
  net->pmtu_used = true;
  *place(net, target) = (struct pmtu){target, (u16)mtu, net->core->now_ns + PMTU_NS};
}

u32 pmtu_of(const struct nic *nic, struct ip_addr target) {
  struct net *net = nic->net;
  u32 mtu = ip_mtu(nic, target);
  if (!net->pmtu_used) {
    return mtu;
  }
  const struct pmtu *p = place(net, target);
  bool known = ip_equal(p->target, target) && p->until_ns > net->core->now_ns;
  return known ? MIN(mtu, (u32)p->mtu) : mtu;
}
