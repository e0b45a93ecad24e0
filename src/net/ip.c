// SPDX-License-Identifier: Apache-2.0
// What both families share: the pseudo-header, the way out of the machine, and whose address a
// packet leaves by.
#include "net/stack.h"

bool bucket_take(struct bucket *b, u64 now_ns, u32 rate) {
  if (now_ns - b->since_ns >= 1000000000ull) {
    b->since_ns = now_ns;
    b->left = rate;
  }
  if (b->left == 0) {
    return false;
  }
  b->left--;
  return true;
}

// Words of 32 bits: 2^16 is 1 to the sum.
static u64 address_sum(struct ip_addr a) {
  return (u32)a.lo + (a.lo >> 32) + (u32)a.hi + (a.hi >> 32);
}

void ip_pseudo(struct csum *c, struct ip_addr source, struct ip_addr target, u8 protocol, u32 len) {
  c->sum += address_sum(source) + address_sum(target) + protocol + len;
}

static struct nic *route6(struct net *net, struct ip_addr target) {
  struct nic *by_router = NULL;
  for (u32 i = 0; i < net->nic_count; i++) {
    struct nic *n = &net->nic[i];
    if (!n->ip6.on || !n->info.link_up || ip_is_none(ip6_source(n, target))) {
      continue;
    }
    if (ip6_on_link(n, target)) {
      return n;
    }
    by_router = by_router == NULL && !ip_is_none(ip6_router(n)) ? n : by_router;
  }
  return by_router;
}

static bool by_route(const struct nic *nic, u32 target) {
  for (u32 i = 0; i < nic->route_count; i++) {
    if (((target ^ nic->route[i].prefix) & nic->route[i].mask) == 0) {
      return true;
    }
  }
  return false;
}

struct nic *ip_route(struct net *net, struct ip_addr target) {
  struct nic *by_gateway = NULL;
  if (!ip_is4(target)) {
    return route6(net, target);
  }
  for (u32 i = 0; i < net->nic_count; i++) {
    struct nic *n = &net->nic[i];
    if (n->address == 0 || !n->info.link_up) {
      continue;
    }
    if (((ip_to4(target) ^ n->address) & n->mask) == 0 || by_route(n, ip_to4(target))) {
      return n;
    }
    by_gateway = by_gateway == NULL && n->gateway != 0 ? n : by_gateway;
  }
  return by_gateway;
}

struct ip_addr ip_source(const struct nic *nic, struct ip_addr target) {
  if (!ip_is4(target)) {
    return ip6_source(nic, target);
  }
  return nic->address != 0 ? ip_of4(nic->address) : IP_NONE;
}

void ip_port_unreachable(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame) {
  if (!ip_is4(ip->target)) {
    icmp6_error(nic, ip, frame, ICMP6_UNREACHABLE, 4, 0);
  } else if (ip_to4(ip->target) == nic->address) {
    icmp_unreachable(nic, frame, 3);
  }
}

void ip_trim(struct rxbuf *frame, u32 want, u32 core) {
  u32 left = want;
  for (struct rxbuf *b = frame; b != NULL; b = b->next) {
    if (b->len >= left) {
      b->len = left;
      if (b->next != NULL) {
        plat_rx_release(core, b->next);
        b->next = NULL;
      }
      return;
    }
    left -= b->len;
  }
}
