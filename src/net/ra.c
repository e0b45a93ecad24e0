// SPDX-License-Identifier: Apache-2.0
// Router advertisements (RFC 4861 6.3, RFC 4862 5.5, RFC 8106) and asking for them (RFC 4861 6.3.7,
// RFC 7559). Nothing proves that a router is one, so what a lie can do is bounded:
//
// R1  Tables are small and fixed; what is full takes no more. RA_RATE are read a second.
// R2  The router in use stays in use as long as it lives and answers: another one's promises do not
//     matter. When it says that it leaves, it is asked again at once.
// R3  An address that is in use is not taken away sooner than in two hours (RFC 4862 5.5.3 e).
// R4  The MTU is at least 1280 and at most the device's; the hop limit at least 32.
// R5  With a configured gateway no advertisement changes the way out.
#include "net/stack.h"

#define RA_RATE 10u
#define TWO_HOURS_NS (7200 * SECOND_NS)
#define RS_WAIT_NS (4 * SECOND_NS)
#define RS_WAIT_MAX_NS (3600 * SECOND_NS)
#define BY_PREFIX_MAX 4u
#define HOP_LIMIT_MIN 32u
#define INFINITE_S U32_MAX

static u64 now_of(const struct nic *nic) {
  return nic->net->core->now_ns;
}
static u64 until(const struct nic *nic, u32 seconds) {
  return seconds == INFINITE_S ? U64_MAX : now_of(nic) + seconds * SECOND_NS;
}

// --- routers

static bool lives(const struct nic *nic, const struct ip6_router *r) {
  return r->until_ns > now_of(nic);
}

// The one in use (R2), then one that has not failed, then the one whose failure is longest ago.
static u64 rank(const struct ip6_nic *v6, u32 i) {
  return v6->router[i].failed_ns == 0 && i == v6->router_now ? 0 : v6->router[i].failed_ns + 1;
}

static u32 choose(const struct nic *nic) {
  const struct ip6_nic *v6 = &nic->ip6;
  u32 best = IP6_ROUTERS_MAX;
  for (u32 i = 0; i < IP6_ROUTERS_MAX; i++) {
    if (lives(nic, &v6->router[i]) && (best == IP6_ROUTERS_MAX || rank(v6, i) < rank(v6, best))) {
      best = i;
    }
  }
  return best;
}

struct ip_addr ra_router(const struct nic *nic) {
  u32 i = choose(nic);
  return i == IP6_ROUTERS_MAX ? IP_NONE : nic->ip6.router[i].address;
}

static struct ip6_router *find_router(struct nic *nic, struct ip_addr address) {
  for (u32 i = 0; i < IP6_ROUTERS_MAX; i++) {
    struct ip6_router *r = &nic->ip6.router[i];
    if (lives(nic, r) && ip_equal(r->address, address)) {
      return r;
    }
  }
  return NULL;
}

void ra_router_failed(struct nic *nic, struct ip_addr address) {
  struct ip6_router *r = find_router(nic, address);
  if (r != NULL) {
    r->failed_ns = now_of(nic);
    nic->ip6.router_now = choose(nic);
  }
}

void ra_router_gone(struct nic *nic, struct ip_addr address) {
  struct ip6_router *r = find_router(nic, address);
  if (r != NULL) {
    *r = (struct ip6_router){.until_ns = 0};
    rs_now(nic);
  }
}

static void take_router(struct nic *nic, struct ip_addr address, u16 lifetime_s) {
  struct ip6_router *r = find_router(nic, address);
  if (lifetime_s == 0) {
    ra_router_gone(nic, address);
    return;
  }
  for (u32 i = 0; r == NULL && i < IP6_ROUTERS_MAX; i++) {
    if (!lives(nic, &nic->ip6.router[i])) {
      r = &nic->ip6.router[i];
      *r = (struct ip6_router){.address = address};
    }
  }
  if (r != NULL) {
    nic->ip6.router_now = choose(nic);  // before this one counts: the one in use stays
    r->until_ns = until(nic, lifetime_s);
    r->failed_ns = 0;
  }
}

// --- prefixes

static void take_on_link(struct nic *nic, const struct ra_prefix *p) {
  struct ip6_nic *v6 = &nic->ip6;
  struct ip6_prefix *place = NULL;
  for (u32 i = 1; i < IP6_PREFIXES_MAX; i++) {  // [0] is the configuration's
    struct ip6_prefix *q = &v6->prefix[i];
    if (q->len == p->len && ip_equal(q->prefix, p->prefix)) {
      place = q;
      break;
    }
    if (place == NULL && (q->len == 0 || q->until_ns <= now_of(nic))) {
      place = q;
    }
  }
  if (place == NULL || p->len == 0) {
    return;
  }
  *place =
      (struct ip6_prefix){.prefix = p->prefix, .len = p->len, .until_ns = until(nic, p->valid_s)};
}

// RFC 4862 5.5.3 e, R3.
static void renew(struct nic *nic, struct ip6_address *a, const struct ra_prefix *p) {
  u64 left = a->valid_ns == U64_MAX ? U64_MAX : a->valid_ns - MIN(a->valid_ns, now_of(nic));
  u64 told = p->valid_s == INFINITE_S ? U64_MAX : p->valid_s * SECOND_NS;
  a->preferred_ns = until(nic, p->preferred_s);
  if (told > TWO_HOURS_NS || told > left) {
    a->valid_ns = until(nic, p->valid_s);
  } else if (left > TWO_HOURS_NS) {
    a->valid_ns = now_of(nic) + TWO_HOURS_NS;
  }
}

static void take_autonomous(struct nic *nic, const struct ra_prefix *p) {
  if (p->len != 64 || p->preferred_s > p->valid_s) {
    return;
  }
  struct ip_addr address = {p->prefix.hi, ip6_interface_id(nic->info.mac)};
  struct ip6_address *a = ip6_find(nic, address);
  if (a != NULL) {
    if (a->origin == IP6_BY_PREFIX) {
      renew(nic, a, p);
    }
    return;
  }
  u32 count = 0;
  for (u32 i = 0; i < nic->ip6.address_count; i++) {
    const struct ip6_address *b = &nic->ip6.address[i];
    count += b->state != IP6_FREE && b->origin == IP6_BY_PREFIX ? 1 : 0;
  }
  if (p->valid_s != 0 && count < BY_PREFIX_MAX) {
    (void)ip6_add(nic, address, IP6_BY_PREFIX, until(nic, p->preferred_s), until(nic, p->valid_s));
  }
}

static void take_dns(struct nic *nic, struct ip_addr address, u32 lifetime_s) {
  struct ip6_nic *v6 = &nic->ip6;
  u32 place = IP6_DNS_MAX;
  for (u32 i = 0; i < IP6_DNS_MAX; i++) {
    bool gone = ip_is_none(v6->dns[i].address) || v6->dns[i].until_ns <= now_of(nic);
    if (ip_equal(v6->dns[i].address, address)) {
      place = i;
      break;
    }
    place = gone && place == IP6_DNS_MAX ? i : place;
  }
  if (place < IP6_DNS_MAX && !ip_is_multicast6(address) && !ip_is4(address)) {
    v6->dns[place].address = lifetime_s == 0 ? IP_NONE : address;
    v6->dns[place].until_ns = until(nic, lifetime_s);
  }
}

static void take_numbers(struct ip6_nic *v6, const struct nic *nic, const struct ra_message *m) {
  if (m->hop_limit >= HOP_LIMIT_MIN) {
    v6->hop_limit = m->hop_limit;
  }
  if (m->mtu >= IP6_MTU_MIN && m->mtu <= nic->info.mtu) {
    v6->mtu = (u16)m->mtu;
  }
  if (m->reachable_ms >= 1000 && m->reachable_ms <= 3600000) {  // RFC 4861 6.2.1: at most an hour
    v6->reachable_ms = m->reachable_ms;
  }
  if (m->retrans_ms >= 100 && m->retrans_ms <= 10000) {
    v6->retrans_ms = m->retrans_ms;
  }
}

void ra_input(struct nic *nic, struct ip_addr source, struct bytes in) {
  struct ra_message m;
  struct ip6_nic *v6 = &nic->ip6;
  if (!ip_is_link_local6(source) || !ra_message_parse(in, &m)) {  // RFC 4861 6.1.2
    net_drop(nic->net, DROP_SHORT);
    return;
  }
  if (!bucket_take(&v6->ra_bucket, now_of(nic), RA_RATE)) {
    net_drop(nic->net, DROP_RATE);
    return;
  }
  if (m.has_source) {
    nd_learn(nic, source, m.source_mac, true);
  }
  take_numbers(v6, nic, &m);
  if (v6->use_routers) {
    take_router(nic, source, m.lifetime_s);
  }
  for (u32 i = 0; i < m.prefix_count; i++) {
    const struct ra_prefix *p = &m.prefix[i];
    if (ip_is_link_local6(p->prefix) || ip_is_multicast6(p->prefix) || ip_is4(p->prefix)) {
      continue;
    }
    if (p->on_link && v6->use_routers) {
      take_on_link(nic, p);
    }
    if (p->autonomous && v6->use_prefixes) {
      take_autonomous(nic, p);
    }
  }
  for (u32 i = 0; i < m.dns_count; i++) {
    take_dns(nic, m.dns[i], m.dns_lifetime_s);
  }
}

// --- asking

void rs_now(struct nic *nic) {
  nic->ip6.rs_count = 0;
  nic->ip6.rs_ns =
      MAX(nic->ip6.rs_sent_ns + (nic->ip6.rs_sent_ns != 0 ? RS_WAIT_NS : 0), now_of(nic));
}

void rs_tick(struct nic *nic) {
  struct ip6_nic *v6 = &nic->ip6;
  const struct ip6_address *link = &v6->address[0];
  bool wanted = v6->use_routers && ip_is_none(ra_router(nic));
  if (!wanted || link->state != IP6_VALID || !nic->info.link_up || now_of(nic) < v6->rs_ns) {
    return;
  }
  u8 body[16] = {ICMP6_RS};
  body[8] = body[9] = 1;
  memcpy(body + 10, nic->info.mac, 6);
  struct icmp6_out m = {.source = link->address,
                        .target = IP6_ALL_ROUTERS,
                        .hop_limit = 255,
                        .body = bytes_of(body, sizeof body)};
  icmp6_send(nic, &m);
  u64 wait = RS_WAIT_NS << MIN(v6->rs_count / 3, 10u);
  v6->rs_count++;
  v6->rs_sent_ns = now_of(nic);
  v6->rs_ns = now_of(nic) + MIN(wait, RS_WAIT_MAX_NS);
}
