// SPDX-License-Identifier: Apache-2.0
// DHCPv4 client (RFC 2131, 2132; 3442 for gateways outside the subnet). One lease a NIC, renewed at
// T1, rebound at T2, given up at expiry.
#include "net/stack.h"

#define CLIENT_PORT 68u
#define SERVER_PORT 67u
#define COOKIE 0x63825363u
#define BODY_LEN 236u
#define SECOND 1000000000ull

enum option {
  OPT_MASK = 1,
  OPT_ROUTER = 3,
  OPT_DNS = 6,
  OPT_MTU = 26,
  OPT_REQUESTED = 50,
  OPT_LEASE = 51,
  OPT_TYPE = 53,
  OPT_SERVER = 54,
  OPT_PARAMETERS = 55,
  OPT_T1 = 58,
  OPT_T2 = 59,
  OPT_CLIENT_ID = 61,
  OPT_ROUTES = 121,
  OPT_END = 255,
};
enum { DISCOVER = 1, OFFER = 2, REQUEST = 3, ACK = 5, NAK = 6 };

struct reply {
  u32 address, mask, router, dns[2], server, lease_s, t1_s, t2_s;
  u16 mtu;
  u8 type;
};

static u32 number_at(struct bytes v) {
  return v.len >= 4 ? load_be32(v.ptr) : 0;
}

// RFC 3442: only the default route matters to a host with one gateway; it wins over option 3.
static u32 default_route(struct bytes v) {
  struct reader r = reader_init(v);
  while (reader_left(&r) > 0 && r.err == ERR_OK) {
    u8 width = read_u8(&r);
    if (width > 32) {
      return 0;
    }
    (void)read_part(&r, (width + 7u) / 8);
    u32 gateway = read_be32(&r);
    if (r.err == ERR_OK && width == 0) {
      return gateway;
    }
  }
  return 0;
}

static void take_option(struct reply *out, u8 code, struct bytes v) {
  switch (code) {
  case OPT_MASK: out->mask = number_at(v); break;
  case OPT_ROUTER: out->router = out->router != 0 ? out->router : number_at(v); break;
  case OPT_DNS:
    out->dns[0] = number_at(v);
    out->dns[1] = v.len >= 8 ? load_be32(v.ptr + 4) : 0;
    break;
  case OPT_MTU: out->mtu = v.len >= 2 ? load_be16(v.ptr) : 0; break;
  case OPT_LEASE: out->lease_s = number_at(v); break;
  case OPT_TYPE: out->type = v.len >= 1 ? v.ptr[0] : 0; break;
  case OPT_SERVER: out->server = number_at(v); break;
  case OPT_T1: out->t1_s = number_at(v); break;
  case OPT_T2: out->t2_s = number_at(v); break;
  case OPT_ROUTES: {
    u32 gateway = default_route(v);
    out->router = gateway != 0 ? gateway : out->router;
    break;
  }
  default: break;
  }
}

// True when `in` is a BOOTREPLY for this NIC's current exchange; fills `out`.
static bool parse(const struct nic *nic, struct bytes in, struct reply *out) {
  *out = (struct reply){0};
  if (in.len < BODY_LEN + 4 || in.ptr[0] != 2 || load_be32(in.ptr + 4) != nic->dhcp.xid ||
      memcmp(in.ptr + 28, nic->info.mac, 6) != 0 || load_be32(in.ptr + BODY_LEN) != COOKIE) {
    return false;
  }
  out->address = load_be32(in.ptr + 16);
  struct reader r = reader_init(in);
  r.pos = BODY_LEN + 4;
  while (reader_left(&r) > 0 && r.err == ERR_OK) {
    u8 code = read_u8(&r);
    if (code == OPT_END) {
      break;
    }
    if (code != 0) {
      struct part v = read_part(&r, read_u8(&r));
      if (r.err == ERR_OK) {
        take_option(out, code, reader_bytes(&r, v));
      }
    }
  }
  return out->type != 0;
}

// Unicast, and not loopback: what a host may be given.
static bool usable(u32 address) {
  return address >> 24 != 0 && address >> 24 != 127 && address >> 28 < 14;
}

static void send(struct nic *nic, u8 type) {
  u8 buf[300];
  struct dhcp *d = &nic->dhcp;
  bool renewing = d->state == DHCP_BOUND;
  memset(buf, 0, sizeof buf);
  buf[0] = buf[1] = 1;
  buf[2] = 6;
  store_be32(buf + 4, d->xid);
  store_be16(buf + 10, renewing ? 0 : 0x8000);  // answer by broadcast: we have no address yet
  store_be32(buf + 12, renewing ? nic->address : 0);
  memcpy(buf + 28, nic->info.mac, 6);
  struct writer w = writer_init(span_of(buf + BODY_LEN, sizeof buf - BODY_LEN));
  write_be32(&w, COOKIE);
  write_bytes(&w, bytes_of((u8[]){OPT_TYPE, 1, type, OPT_CLIENT_ID, 7, 1}, 6));
  write_bytes(&w, bytes_of(nic->info.mac, 6));
  if (type == REQUEST && !renewing) {
    write_be16(&w, OPT_REQUESTED << 8 | 4);
    write_be32(&w, d->offered);
    write_be16(&w, OPT_SERVER << 8 | 4);
    write_be32(&w, d->server);
  }
  write_bytes(&w, bytes_of((u8[]){OPT_PARAMETERS, 6, OPT_MASK, OPT_ROUTES, OPT_ROUTER, OPT_DNS,
                                  OPT_MTU, OPT_LEASE, OPT_END},
                           9));
  ASSERT(w.err == ERR_OK);
  bool rebinding = renewing && nic->net->core->now_ns >= d->rebind_ns;
  struct udp_packet p = {.target = ip_of4(renewing && !rebinding ? d->server : U32_MAX),
                         .source_port = CLIENT_PORT,
                         .target_port = SERVER_PORT,
                         .payload = bytes_of(buf, sizeof buf)};
  (void)udp_send(nic->net, nic->index, &p);  // lost or not: the timer repeats it
}

// RFC 2131 4.1: 4, 8, 16 .. 64 s, each with a random second either way.
static void arm(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  u64 now = nic->net->core->now_ns;
  u64 wait = 4 * SECOND << MIN(d->tries, 4u);
  u64 spread = siphash(&nic->net->core->hash_key, bytes_of(&now, 8)) % (2 * SECOND);
  d->next_ns = now + (d->tries == 0 ? SECOND : wait - SECOND + spread);
  d->tries++;
}

static void discover(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  d->state = DHCP_SELECTING;
  if (d->tries == 0) {  // a repeated question keeps its number: the first answer may be slow
    d->xid =
        (u32)siphash(&nic->net->core->hash_key, bytes_of(&nic->net->core->now_ns, 8)) ^ nic->index;
  }
  send(nic, DISCOVER);
  arm(nic);
}

static void bind(struct nic *nic, const struct reply *r) {
  struct dhcp *d = &nic->dhcp;
  u64 now = nic->net->core->now_ns;
  bool changed = nic->address != r->address;
  u32 lease = r->lease_s < 60 ? 60 : r->lease_s;
  nic->address = r->address;
  nic->prefix_len = r->mask == 0 || r->mask == U32_MAX ? 32 : (u8)__builtin_clz(~r->mask);
  nic->mask = nic->prefix_len == 0 ? 0 : U32_MAX << (32 - nic->prefix_len);  // contiguous
  nic->gateway = r->router;
  nic->dns[0] = r->dns[0];
  nic->dns[1] = r->dns[1];
  nic->mtu = r->mtu >= 576 && r->mtu < nic->info.mtu ? r->mtu : nic->info.mtu;
  d->server = r->server != 0 ? r->server : d->server;
  d->state = DHCP_BOUND;
  d->tries = 0;
  d->renew_ns = now + (r->t1_s != 0 && r->t1_s < lease ? r->t1_s : lease / 2) * SECOND;
  d->rebind_ns = now + (r->t2_s != 0 && r->t2_s < lease ? r->t2_s : lease / 8 * 7) * SECOND;
  d->expire_ns = lease == U32_MAX ? U64_MAX : now + lease * SECOND;
  d->next_ns = d->renew_ns;
  if (changed) {
    arp_announce(nic);
  }
}

static void on_packet(struct net *net, void *user, const struct udp_packet *p) {
  (void)user;
  struct nic *nic = &net->nic[p->nic];
  struct dhcp *d = &nic->dhcp;
  struct reply r;
  if (d->state == DHCP_OFF || p->source_port != SERVER_PORT || !ip_is4(p->source) ||
      !parse(nic, p->payload, &r)) {
    return;
  }
  if (d->state == DHCP_SELECTING && r.type == OFFER && usable(r.address)) {
    d->offered = r.address;
    d->server = r.server;
    d->state = DHCP_REQUESTING;
    d->tries = 0;
    send(nic, REQUEST);
    arm(nic);
  } else if ((d->state == DHCP_REQUESTING || d->state == DHCP_BOUND) && r.type == ACK &&
             usable(r.address)) {
    bind(nic, &r);
  } else if (d->state != DHCP_SELECTING && r.type == NAK) {
    nic->address = 0;
    d->tries = 0;
    discover(nic);
  }
}

void dhcp_start(struct nic *nic) {
  (void)udp_bind(nic->net, CLIENT_PORT, on_packet, NULL);  // ERR_EXISTS for the second NIC
  nic->address = 0;
  nic->mask = U32_MAX;
  nic->dhcp = (struct dhcp){.state = DHCP_INIT, .next_ns = nic->net->core->now_ns};
}

void dhcp_tick(struct nic *nic) {
  struct dhcp *d = &nic->dhcp;
  u64 now = nic->net->core->now_ns;
  if (d->state == DHCP_OFF || now < d->next_ns) {
    return;
  }
  if (d->state == DHCP_BOUND && now < d->expire_ns) {
    send(nic, REQUEST);
    u64 limit = now < d->rebind_ns ? d->rebind_ns : d->expire_ns;
    d->next_ns = now + MAX((limit - now) / 2, 60 * SECOND);  // RFC 2131 4.4.5
    return;
  }
  if (d->state == DHCP_REQUESTING && d->tries < 4) {
    send(nic, REQUEST);
    arm(nic);
    return;
  }
  if (d->state == DHCP_BOUND || d->state == DHCP_REQUESTING) {
    nic->address = 0;
    d->tries = 0;
  }
  discover(nic);
}
