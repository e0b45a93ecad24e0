// SPDX-License-Identifier: Apache-2.0
// DHCPv4 client (RFC 2131 4.4), one lease a NIC.
//
// C1  An address is used only after three ARP probes that nobody answered (RFC 2131 2.2, RFC 5227
//     2.1; a quarter of a second each, so that a start takes no longer); one that is somebody's is
//     declined, and asked again in ten seconds.
// C2  A reply counts only while one is waited for, by its number and MAC; an ACK only for the
//     address that was asked for, and of the server that was chosen as long as it is asked alone.
// C3  The lease's end takes the address away, whatever state the conversation is in.
// C4  What a server says is used as far as it makes sense: an address of a host, a gateway, MTU and
//     times within bounds.
#include "net/stack.h"

#define CLIENT_PORT 68u
#define SERVER_PORT 67u
#define PROBES 3u
#define PROBE_NS 250000000ull
#define LEASE_MIN_S 60u
#define RETRY_NS (60 * SECOND_NS)  // RFC 2131 4.4.5: the shortest wait while renewing
#define DECLINED_NS (10 * SECOND_NS)
#define CONFLICTS_MAX 10u  // RFC 5227 2.1.1: then once a minute

static u64 now_of(const struct nic *nic) {
  return nic->net->core->now_ns;
}

static bool has_lease(const struct dhcp *d) {
  return d->state >= DHCP_BOUND;
}

static void send(struct nic *nic, u8 type) {
  u8 buf[DHCP_REQUEST_MAX];
  struct dhcp *d = &nic->dhcp;
  bool direct = d->state == DHCP_RENEWING;
  bool uses = direct || d->state == DHCP_REBINDING;
  struct dhcp_request r = {
      .type = type,
      .xid = d->xid,
      .secs = (u16)MIN((now_of(nic) - d->begun_ns) / SECOND_NS, U16_MAX),
      .address = uses ? nic->address : 0,
      .mac = nic->info.mac,
  };
  if (!uses && type != DISCOVER) {
    r.requested = d->offered;
    r.server = d->state == DHCP_REBOOTING ? 0 : d->server;
  }
  d->asked_ns = now_of(nic);
  u32 len = dhcp_request_write(span_of(buf, sizeof buf), &r);
  struct udp_packet p = {.target = ip_of4(direct ? d->server : U32_MAX),
                         .source_port = CLIENT_PORT,
                         .target_port = SERVER_PORT,
                         .payload = bytes_of(buf, len)};
  (void)udp_send(nic->net, nic->index, &p);  // lost or not: the timer repeats it
}

static u64 random_of(const struct nic *nic, u64 below) {
  u64 seed[2] = {now_of(nic), nic->index};
  return siphash(&nic->net->core->hash_key, bytes_of(seed, sizeof seed)) % below;
}

static void begin(struct nic *nic, enum dhcp_state state) {
  struct dhcp *d = &nic->dhcp;
  d->state = state;
  d->tries = 0;
  d->begun_ns = now_of(nic);
  d->xid = (u32)random_of(nic, 1ull << 32);
}

// RFC 2131 4.1: 4, 8, 16 .. 64 s, each with a random second either way; the first after one.
static void arm(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  u64 wait = 4 * SECOND_NS << MIN(d->tries, 4u);
  u64 spread = random_of(nic, 2 * SECOND_NS);
  d->next_ns = now_of(nic) + (d->tries == 0 ? SECOND_NS : wait - SECOND_NS + spread);
  d->tries++;
}

static void discover(struct nic *nic) {
  if (nic->dhcp.state != DHCP_SELECTING) {  // a repeated question keeps its number
    begin(nic, DHCP_SELECTING);
  }
  send(nic, DISCOVER);
  arm(nic);
}

static void lose_address(struct nic *nic) {
  nic->address = 0;
  nic->mask = U32_MAX;
  nic->gateway = 0;
  nic->route_count = 0;
  nic->dns[0] = nic->dns[1] = 0;
}

// Unicast, and not loopback: what a host may have.
static bool usable(u32 address) {
  return address >> 24 != 0 && address >> 24 != 127 && address >> 28 < 14;
}

static bool host_of(u32 address, u8 prefix_len) {
  u32 host = prefix_len >= 31 ? 1 : address & (U32_MAX >> prefix_len);
  return usable(address) && host != 0 && (prefix_len >= 31 || host != U32_MAX >> prefix_len);
}

static u8 width_of(u32 mask) {
  return mask == 0 || mask == U32_MAX ? 32 : (u8)__builtin_clz(~mask);
}

// What the server says of the network around the address.
static void take_network(struct nic *nic, const struct dhcp_reply *r) {
  nic->prefix_len = width_of(r->mask);
  nic->mask = nic->prefix_len == 0 ? 0 : U32_MAX << (32 - nic->prefix_len);  // contiguous
  nic->gateway = r->has_routes || !usable(r->router) ? 0 : r->router;
  nic->route_count = 0;
  for (u32 i = 0; i < r->route_count; i++) {
    const struct route4 *route = &r->route[i];
    if (route->gateway != 0 && !usable(route->gateway)) {
      continue;
    }
    if (route->mask == 0) {
      nic->gateway = nic->gateway == 0 ? route->gateway : nic->gateway;
    } else {
      nic->route[nic->route_count++] = *route;
    }
  }
  nic->dns[0] = usable(r->dns[0]) ? r->dns[0] : 0;
  nic->dns[1] = usable(r->dns[1]) ? r->dns[1] : 0;
  nic->mtu = r->mtu >= 576 && r->mtu < nic->info.mtu ? r->mtu : nic->info.mtu;
}

static void take_times(struct nic *nic, const struct dhcp_reply *r) {
  struct dhcp *d = &nic->dhcp;
  u64 from = d->asked_ns;  // RFC 2131 4.4.1: when the request was sent
  u32 lease = MAX(r->lease_s, LEASE_MIN_S);
  u32 t2 = r->t2_s != 0 && r->t2_s < lease ? r->t2_s : lease / 8 * 7;
  u32 t1 = r->t1_s != 0 && r->t1_s < t2 ? r->t1_s : MIN(lease / 2, t2);
  d->expire_ns = lease == U32_MAX ? U64_MAX : from + lease * SECOND_NS;
  d->rebind_ns = lease == U32_MAX ? U64_MAX : from + t2 * SECOND_NS;
  d->renew_ns = lease == U32_MAX ? U64_MAX : from + t1 * SECOND_NS;
}

static void bind(struct nic *nic, const struct dhcp_reply *r) {
  struct dhcp *d = &nic->dhcp;
  bool fresh = nic->address != r->address;
  nic->address = r->address;
  take_network(nic, r);
  take_times(nic, r);
  d->server = r->server != 0 ? r->server : d->server;
  d->state = DHCP_BOUND;
  d->next_ns = d->renew_ns;
  if (fresh) {
    memset(nic->arp, 0, sizeof nic->arp);
    arp_announce(nic);
  }
}

static void probe(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  if (d->tries == PROBES) {
    d->conflicts = 0;
    bind(nic, &d->lease);
    return;
  }
  d->tries++;
  d->next_ns = now_of(nic) + PROBE_NS;
  arp_probe(nic, d->lease.address);
}

void dhcp_conflict(struct nic *nic, u32 address) {
  struct dhcp *d = &nic->dhcp;
  if (d->state != DHCP_PROBING || address != d->lease.address) {
    return;
  }
  send(nic, DECLINE);
  d->conflicts++;
  d->state = DHCP_DECLINED;
  d->next_ns = now_of(nic) + (d->conflicts > CONFLICTS_MAX ? RETRY_NS : DECLINED_NS);
}

// An acknowledgement of what was asked for.
static void acknowledged(struct nic *nic, const struct dhcp_reply *r) {
  struct dhcp *d = &nic->dhcp;
  bool alone = d->state == DHCP_REQUESTING || d->state == DHCP_RENEWING;
  if ((alone && r->server != d->server) || r->address != d->offered || r->lease_s == 0) {
    return;  // C2
  }
  if (d->state == DHCP_REQUESTING) {
    d->lease = *r;
    d->state = DHCP_PROBING;
    d->tries = 0;
    probe(nic);
  } else {
    bind(nic, r);
  }
}

static void on_packet(struct net *net, void *user, const struct udp_packet *p) {
  (void)user;
  struct nic *nic = &net->nic[p->nic];
  struct dhcp *d = &nic->dhcp;
  struct dhcp_reply r;
  if (d->state == DHCP_OFF || p->source_port != SERVER_PORT || !ip_is4(p->source) ||
      !dhcp_reply_parse(p->payload, nic->info.mac, d->xid, &r)) {
    return;
  }
  bool waits = d->state == DHCP_REQUESTING || d->state > DHCP_BOUND;
  if (d->state == DHCP_SELECTING && r.type == OFFER && r.server != 0 &&
      host_of(r.address, width_of(r.mask))) {
    d->offered = r.address;
    d->server = r.server;
    d->state = DHCP_REQUESTING;
    d->tries = 0;
    d->begun_ns = now_of(nic);
    send(nic, REQUEST);
    arm(nic);
  } else if (waits && r.type == ACK && host_of(r.address, width_of(r.mask))) {
    acknowledged(nic, &r);
  } else if (waits && r.type == NAK && (d->state != DHCP_REQUESTING || r.server == d->server)) {
    lose_address(nic);
    d->state = DHCP_INIT;
    discover(nic);
  }
}

void dhcp_start(struct nic *nic) {
  (void)udp_bind(nic->net, CLIENT_PORT, on_packet, NULL);  // ERR_EXISTS for the second NIC
  lose_address(nic);
  nic->dhcp = (struct dhcp){.state = DHCP_INIT, .next_ns = now_of(nic)};
}

// Another network, perhaps: the lease is asked for anew (INIT-REBOOT), and kept when nobody answers
// (RFC 2131 3.2).
void dhcp_link_up(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  if (has_lease(d)) {
    begin(nic, DHCP_REBOOTING);
    d->offered = nic->address;
    d->next_ns = now_of(nic);
  } else if (d->state == DHCP_SELECTING || d->state == DHCP_REQUESTING) {
    d->state = DHCP_INIT;
    d->next_ns = now_of(nic);
  }
}

// T1 or later, and nobody has answered yet.
static void renew(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  u64 now = now_of(nic);
  bool late = now >= d->rebind_ns;
  if (d->state == DHCP_BOUND || (late && d->state == DHCP_RENEWING)) {
    begin(nic, late ? DHCP_REBINDING : DHCP_RENEWING);
    d->offered = nic->address;
  }
  send(nic, REQUEST);
  u64 limit = late ? d->expire_ns : d->rebind_ns;
  d->next_ns = MIN(now + MAX((limit - now) / 2, RETRY_NS), limit);
}

static void reboot(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  if (d->tries < 2) {
    send(nic, REQUEST);
    arm(nic);
  } else {
    d->state = DHCP_BOUND;
    d->next_ns = d->renew_ns;
  }
}

void dhcp_tick(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  if (has_lease(d) && now_of(nic) >= d->expire_ns) {  // C3
    lose_address(nic);
    d->state = DHCP_INIT;
    d->next_ns = now_of(nic);
  }
  if (d->state == DHCP_OFF || now_of(nic) < d->next_ns || !nic->info.link_up) {
    return;
  }
  switch (d->state) {
  case DHCP_BOUND:
  case DHCP_RENEWING:
  case DHCP_REBINDING: renew(nic); break;
  case DHCP_REBOOTING: reboot(nic); break;
  case DHCP_PROBING: probe(nic); break;
  case DHCP_REQUESTING:
    if (d->tries < 4) {
      send(nic, REQUEST);
      arm(nic);
      break;
    }
    // fall through
  default: discover(nic); break;
  }
}
