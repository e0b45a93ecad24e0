// SPDX-License-Identifier: Apache-2.0
// A NIC's IPv6 addresses (RFC 4862) and its choices: which source (RFC 6724), which next hop
// (RFC 4861 5.2). Interface identifiers are made of the MAC (docs/adr/0017): a server wants the
// same address after each start, also where nothing is kept.
#include "net/ip6.h"

#include "net/stack.h"

#define DEFEND_NS (10 * SECOND_NS)

static u64 now_of(const struct nic *nic) {
  return nic->net->core->now_ns;
}

u64 ip6_interface_id(const u8 mac[6]) {  // RFC 4291 appendix A
  u8 id[8] = {mac[0] ^ 2u, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return load_be64(id);
}

struct ip6_address *ip6_find(struct nic *nic, struct ip_addr address) {
  for (u32 i = 0; i < nic->ip6.address_count; i++) {
    struct ip6_address *a = &nic->ip6.address[i];
    if (ip_equal(a->address, address) && a->state != IP6_FREE) {
      return a;
    }
  }
  return NULL;
}

struct ip6_address *ip6_add(struct nic *nic, struct ip_addr address, enum ip6_origin origin,
                            u64 preferred_ns, u64 valid_ns) {
  struct ip6_nic *v6 = &nic->ip6;
  ASSERT(ip6_find(nic, address) == NULL);
  u32 i = 0;
  while (i < IP6_ADDRESSES_MAX && v6->address[i].state != IP6_FREE) {
    i++;
  }
  if (i == IP6_ADDRESSES_MAX) {
    return NULL;
  }
  v6->address_count = MAX(v6->address_count, i + 1);
  v6->address[i] = (struct ip6_address){.address = address,
                                        .state = IP6_TENTATIVE,
                                        .origin = (u8)origin,
                                        .next_ns = now_of(nic),
                                        .preferred_ns = preferred_ns,
                                        .valid_ns = valid_ns};
  mld_changed(nic);
  return &v6->address[i];
}

void ip6_start(struct nic *nic, const struct net_if6_config *config) {
  struct ip6_nic *v6 = &nic->ip6;
  memset(v6, 0, sizeof *v6);
  v6->mtu = nic->info.mtu;
  v6->hop_limit = 64;
  v6->reachable_ms = 30000;
  v6->retrans_ms = 1000;
  v6->on = config->mode != NET_IP6_OFF && v6->mtu >= IP6_MTU_MIN;
  if (!v6->on) {
    return;
  }
  struct ip_addr link = {0xfe80ull << 48, ip6_interface_id(nic->info.mac)};
  (void)ip6_add(nic, link, IP6_BY_LINK, U64_MAX, U64_MAX);
  v6->gateway = config->gateway;
  v6->use_prefixes = config->mode == NET_IP6_AUTO;
  v6->use_routers = ip_is_none(config->gateway);
  if (config->mode == NET_IP6_STATIC && ip6_find(nic, config->address) == NULL) {
    (void)ip6_add(nic, config->address, IP6_BY_CONFIG, U64_MAX, U64_MAX);
  }
  if (config->mode == NET_IP6_STATIC && config->prefix_len < 128) {
    v6->prefix[0] = (struct ip6_prefix){.prefix = ip_prefix(config->address, config->prefix_len),
                                        .len = config->prefix_len,
                                        .until_ns = U64_MAX};
  }
}

void ip6_link_up(struct nic *nic) {
  struct ip6_nic *v6 = &nic->ip6;
  for (u32 i = 0; v6->on && i < v6->address_count; i++) {
    struct ip6_address *a = &v6->address[i];
    if (a->state == IP6_DUPLICATE) {  // another link, perhaps
      a->state = IP6_TENTATIVE;
      a->probes = 0;
      a->next_ns = now_of(nic);
    } else if (a->state == IP6_VALID) {
      nd_advertise(nic, a);
    }
  }
  mld_changed(nic);
  rs_now(nic);
}

void ip6_conflict(struct nic *nic, struct ip6_address *a) {
  u64 now = now_of(nic);
  net_drop(nic->net, DROP_SOURCE);
  if (a->state == IP6_TENTATIVE) {
    a->state = IP6_DUPLICATE;
  } else if (a->state == IP6_VALID && (a->defended_ns == 0 || now - a->defended_ns >= DEFEND_NS)) {
    a->defended_ns = now;
    nd_advertise(nic, a);
  }
}

// RFC 4862 5.4: one probe, and a second of silence.
static void detect(struct nic *nic, struct ip6_address *a) {
  if (now_of(nic) < a->next_ns || !nic->info.link_up) {
    return;
  }
  if (a->probes == 0) {
    a->probes = 1;
    a->next_ns = now_of(nic) + nic->ip6.retrans_ms * MS_NS;
    nd_probe(nic, a->address);
    return;
  }
  a->state = IP6_VALID;
  nd_advertise(nic, a);
  if (a->origin == IP6_BY_LINK) {
    rs_now(nic);
    mld_changed(nic);  // from an address that can be answered to (RFC 3590 4)
  } else if (!ip_is_none(nic->ip6.gateway)) {
    u8 mac[6];
    (void)nd_resolve(nic, nic->ip6.gateway, mac);  // known before the first answer goes there
  }
}

void ip6_tick(struct nic *nic) {
  struct ip6_nic *v6 = &nic->ip6;
  if (!v6->on) {
    return;
  }
  mld_tick(nic);
  for (u32 i = 0; i < v6->address_count; i++) {
    struct ip6_address *a = &v6->address[i];
    if (a->state != IP6_FREE && a->valid_ns <= now_of(nic)) {
      *a = (struct ip6_address){.state = IP6_FREE};
    } else if (a->state == IP6_TENTATIVE) {
      detect(nic, a);
    }
  }
  nd_tick(nic);
  rs_tick(nic);
}

// --- choices

bool ip6_on_link(const struct nic *nic, struct ip_addr target) {
  if (ip_is_link_local6(target) || ip_is_multicast6(target)) {
    return true;
  }
  for (u32 i = 0; i < IP6_PREFIXES_MAX; i++) {
    const struct ip6_prefix *p = &nic->ip6.prefix[i];
    if (p->len != 0 && p->until_ns > now_of(nic) && ip_same_prefix(target, p->prefix, p->len)) {
      return true;
    }
  }
  return false;
}

static u32 common_bits(struct ip_addr a, struct ip_addr b) {
  u64 hi = a.hi ^ b.hi;
  u64 lo = a.lo ^ b.lo;
  return hi != 0 ? (u32)__builtin_clzll(hi) : 64 + (lo != 0 ? (u32)__builtin_clzll(lo) : 64);
}

static bool unique_local(struct ip_addr a) {  // RFC 4193
  return a.hi >> 57 == 0xfc >> 1;
}

// RFC 6724 5, rules 3, 6 and 8; a configured address before one that routers made.
static u32 source_score(const struct nic *nic, const struct ip6_address *a, struct ip_addr target) {
  bool preferred = a->preferred_ns > now_of(nic);
  bool label = unique_local(a->address) == unique_local(target);
  return (preferred ? 1024u : 0) + (label ? 512u : 0) +
         2 * MIN(common_bits(a->address, target), 128u) + (a->origin == IP6_BY_CONFIG ? 1 : 0);
}

struct ip_addr ip6_source(const struct nic *nic, struct ip_addr target) {
  bool near = ip_is_link_local6(target) || ip_is_multicast6(target);
  struct ip_addr best = IP_NONE;
  u32 best_score = 0;
  for (u32 i = 0; i < nic->ip6.address_count; i++) {
    const struct ip6_address *a = &nic->ip6.address[i];
    if (a->state != IP6_VALID || ip_is_link_local6(a->address) != near) {
      continue;  // rule 2: never of a smaller scope, and not of a larger one on the link
    }
    u32 score = source_score(nic, a, target) + 1;
    if (score > best_score) {
      best = a->address;
      best_score = score;
    }
  }
  return best;
}

struct ip_addr ip6_router(const struct nic *nic) {
  return ip_is_none(nic->ip6.gateway) ? ra_router(nic) : nic->ip6.gateway;
}

struct ip_addr ip6_next_hop(const struct nic *nic, struct ip_addr target) {
  return ip6_on_link(nic, target) ? target : ip6_router(nic);
}
