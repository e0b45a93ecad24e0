// SPDX-License-Identifier: Apache-2.0
// IPv4 (RFC 791, 1122), ICMP (RFC 792) and UDP (RFC 768). Fragments are refused and counted: every
// peer of a broker does path MTU discovery, and reassembly is memory for strangers.
#include "net/stack.h"

#define TTL 64u
#define DONT_FRAGMENT 0x4000u
#define ICMP_RATE 100u  // answers a second

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

void ip4_pseudo(struct csum *c, u32 source, u32 target, u8 protocol, u32 len) {
  csum_add32(c, source);
  csum_add32(c, target);
  csum_add16(c, protocol);
  csum_add32(c, len);
}

enum err ip4_write(struct nic *nic, u8 *h, u32 source, u32 target, u8 protocol, u32 len) {
  u8 mac[6];
  if (source != nic->address) {
    return ERR_NOT_FOUND;
  }
  if (!arp_resolve(nic, target, mac)) {
    return ERR_AGAIN;
  }
  eth_write(nic, h, mac, ETH_IP4);
  u8 *ip = h + ETH_LEN;
  ip[0] = 0x45;
  ip[1] = 0;
  store_be16(ip + 2, (u16)(IP4_LEN + len));  // of a super-segment: the device writes each one's own
  store_be16(ip + 4, nic->net->ip_id++);
  store_be16(ip + 6, DONT_FRAGMENT);
  ip[8] = TTL;
  ip[9] = protocol;
  store_be16(ip + 10, 0);
  store_be32(ip + 12, source);
  store_be32(ip + 16, target);
  struct csum c = {0};
  csum_add(&c, bytes_of(ip, IP4_LEN));
  store_be16(ip + 10, csum_finish(&c));
  return ERR_OK;
}

// --- ICMP

// Sends an ICMP message of type/code whose body (behind the checksum) is `rest` + `data`.
static void icmp_send(struct nic *nic, u32 target, u16 type_code, u32 rest, struct bytes data) {
  struct txbuf *b = txbuf_take(nic->net, (u32)data.len, TXBUF_CONTROL);
  struct frame f;
  if (b == NULL) {
    return;
  }
  if (!tx_begin(nic, &f)) {
    txbuf_unref(nic->net, b);
    return;
  }
  u8 *h = f.slot->headers + ETH_LEN + IP4_LEN;
  memcpy(b->data, data.ptr, data.len);
  store_be16(h, type_code);
  store_be16(h + 2, 0);
  store_be32(h + 4, rest);
  struct csum c = {0};
  csum_add(&c, bytes_of(h, 8));
  csum_add(&c, data);
  store_be16(h + 2, csum_finish(&c));
  if (ip4_write(nic, f.slot->headers, nic->address, target, IP_ICMP, 8 + (u32)data.len) != ERR_OK) {
    tx_cancel(nic, &f);
  } else {
    if (data.len > 0) {  // a device need not take an empty part
      tx_ref(&f, b, 0, (u32)data.len);
    }
    tx_commit(nic, &f, ETH_LEN + IP4_LEN + 8);
  }
  txbuf_unref(nic->net, b);
}

void icmp_unreachable(struct nic *nic, const struct rxbuf *frame, u8 code) {
  const u8 *ip = frame->data + ETH_LEN;
  u32 quoted = MIN(frame->len - ETH_LEN, IP4_LEN + 8u);  // RFC 792: header and 64 bits
  if ((frame->data[0] & 1) == 0 && load_be32(ip + 12) != 0 &&
      bucket_take(&nic->net->icmp_bucket, nic->net->core->now_ns, ICMP_RATE)) {
    icmp_send(nic, load_be32(ip + 12), (u16)(3u << 8 | code), 0, bytes_of(ip, quoted));
  }
}

static void icmp_input(struct nic *nic, const struct ip4 *ip, const struct rxbuf *frame) {
  u32 off = ETH_LEN + ip->header_len;
  u32 len = (u32)ip->total_len - ip->header_len;
  if (frame->len < off + len || len < 8) {  // one buffer holds any echo worth answering
    net_drop(nic->net, DROP_SHORT);
    return;
  }
  const u8 *m = frame->data + off;
  struct csum c = {0};
  csum_add(&c, bytes_of(m, len));
  if (csum_fold(&c) != 0xffff) {
    net_drop(nic->net, DROP_CHECKSUM);
    return;
  }
  if (m[0] == 8 && ip->target == nic->address && len - 8 <= (u32)nic->mtu - IP4_LEN - 8) {
    if (bucket_take(&nic->net->icmp_bucket, nic->net->core->now_ns, ICMP_RATE)) {
      icmp_send(nic, ip->source, 0, load_be32(m + 4), bytes_of(m + 8, len - 8));
    }
  } else if (m[0] == 3 && len >= 8 + IP4_LEN + 8) {
    tcp_icmp(nic, bytes_of(m + 8, len - 8), m[1], load_be16(m + 6));
  }
}

// --- UDP

enum err udp_bind(struct net *net, u16 port, udp_handler *handler, void *user) {
  for (u32 i = 0; i < net->udp_count; i++) {
    if (net->udp[i].port == port) {
      return ERR_EXISTS;
    }
  }
  if (net->udp_count == UDP_BINDS_MAX) {
    return ERR_LIMIT;
  }
  net->udp[net->udp_count].port = port;
  net->udp[net->udp_count].handler = handler;
  net->udp[net->udp_count++].user = user;
  return ERR_OK;
}

void udp_unbind(struct net *net, u16 port) {
  for (u32 i = 0; i < net->udp_count; i++) {
    if (net->udp[i].port == port) {
      net->udp[i] = net->udp[--net->udp_count];
      return;
    }
  }
}

enum err udp_send(struct net *net, u32 nic_index, const struct udp_packet *p) {
  ASSERT(nic_index < net->nic_count);
  struct nic *nic = &net->nic[nic_index];
  u32 len = UDP_LEN + (u32)p->payload.len;
  if (len + IP4_LEN > nic->mtu) {
    return ERR_LIMIT;
  }
  struct txbuf *b = txbuf_take(net, (u32)p->payload.len, TXBUF_CONTROL);
  struct frame f;
  if (b == NULL) {
    return ERR_NO_MEMORY;
  }
  if (!tx_begin(nic, &f)) {
    txbuf_unref(net, b);
    return ERR_AGAIN;
  }
  u8 *h = f.slot->headers + ETH_LEN + IP4_LEN;
  memcpy(b->data, p->payload.ptr, p->payload.len);
  store_be16(h, p->source_port);
  store_be16(h + 2, p->target_port);
  store_be16(h + 4, (u16)len);
  store_be16(h + 6, 0);
  struct csum c = {0};
  ip4_pseudo(&c, nic->address, p->target, IP_UDP, len);
  csum_add(&c, bytes_of(h, UDP_LEN));
  csum_add(&c, p->payload);
  u16 sum = csum_finish(&c);
  store_be16(h + 6, sum == 0 ? 0xffff : sum);
  enum err e = ip4_write(nic, f.slot->headers, nic->address, p->target, IP_UDP, len);
  if (e != ERR_OK) {
    tx_cancel(nic, &f);
  } else {
    if (p->payload.len > 0) {
      tx_ref(&f, b, 0, (u32)p->payload.len);
    }
    tx_commit(nic, &f, ETH_LEN + IP4_LEN + UDP_LEN);
  }
  txbuf_unref(net, b);
  return e;
}

static void udp_input(struct nic *nic, const struct ip4 *ip, const struct rxbuf *frame) {
  u32 off = ETH_LEN + ip->header_len;
  u32 len = (u32)ip->total_len - ip->header_len;
  if (len < UDP_LEN || frame->len < off + len) {
    net_drop(nic->net, DROP_SHORT);
    return;
  }
  const u8 *u = frame->data + off;
  u32 udp_len = load_be16(u + 4);
  if (udp_len < UDP_LEN || udp_len > len) {
    net_drop(nic->net, DROP_SHORT);
    return;
  }
  if (load_be16(u + 6) != 0 && frame->frame_csum != RX_CSUM_GOOD) {
    struct csum c = {0};
    ip4_pseudo(&c, ip->source, ip->target, IP_UDP, udp_len);
    csum_add(&c, bytes_of(u, udp_len));
    if (csum_fold(&c) != 0xffff) {
      net_drop(nic->net, DROP_CHECKSUM);
      return;
    }
  }
  struct udp_packet p = {.source = ip->source,
                         .target = ip->target,
                         .source_port = load_be16(u),
                         .target_port = load_be16(u + 2),
                         .payload = bytes_of(u + UDP_LEN, udp_len - UDP_LEN),
                         .nic = nic->index};
  for (u32 i = 0; i < nic->net->udp_count; i++) {
    if (nic->net->udp[i].port == p.target_port) {
      nic->net->udp[i].handler(nic->net, nic->net->udp[i].user, &p);
      return;
    }
  }
  net_drop(nic->net, DROP_NO_LISTENER);
  if (ip->target == nic->address) {
    icmp_unreachable(nic, frame, 3);
  }
}

// --- IPv4

// Cuts the frame to its IP packet: Ethernet pads short frames.
static void trim(struct rxbuf *frame, u32 want, u32 core) {
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

static bool address_ours(const struct nic *nic, u32 target, u8 protocol) {
  if (nic->address != 0 && target == nic->address) {
    return true;
  }
  if (protocol != IP_UDP) {
    return false;
  }
  return target == U32_MAX || nic->address == 0 || target == (nic->address | ~nic->mask);
}

// RFC 1122 3.2.1.3: no multicast, broadcast, loopback or own address as a source.
static bool source_sane(const struct nic *nic, const struct ip4 *ip) {
  if (ip->source >> 28 >= 14 || ip->source >> 24 == 127) {
    return false;
  }
  if (ip->source == 0) {
    return ip->protocol == IP_UDP;
  }
  bool directed =
      nic->address != 0 && nic->prefix_len < 31 && ip->source == (nic->address | ~nic->mask);
  return ip->source != nic->address && !directed;
}

// The header's own rules; fills `ip`. The header lies in the first buffer.
static enum drop parse(const struct rxbuf *frame, struct ip4 *ip) {
  const u8 *h = frame->data + ETH_LEN;
  u32 have = frame->len - ETH_LEN;
  if (have < IP4_LEN || h[0] >> 4 != 4 || (h[0] & 15) < 5) {
    return DROP_SHORT;
  }
  ip->header_len = (u8)((h[0] & 15) * 4);
  ip->total_len = load_be16(h + 2);
  if (have < ip->header_len || ip->total_len < ip->header_len ||
      ip->total_len > frame->frame_len - ETH_LEN) {
    return DROP_SHORT;
  }
  struct csum c = {0};
  csum_add(&c, bytes_of(h, ip->header_len));
  if (csum_fold(&c) != 0xffff) {
    return DROP_CHECKSUM;
  }
  if ((load_be16(h + 6) & 0x3fff) != 0) {
    return DROP_FRAGMENT;
  }
  ip->protocol = h[9];
  ip->source = load_be32(h + 12);
  ip->target = load_be32(h + 16);
  return DROP_COUNT;
}

void ip4_input(struct nic *nic, struct rxbuf *frame) {
  struct net *net = nic->net;
  struct ip4 ip = {0};
  enum drop why = parse(frame, &ip);
  if (why == DROP_COUNT && !address_ours(nic, ip.target, ip.protocol)) {
    why = DROP_NOT_OURS;
  }
  if (why == DROP_COUNT && !source_sane(nic, &ip)) {
    why = DROP_SOURCE;
  }
  if (why != DROP_COUNT) {
    net_drop(net, why);
    plat_rx_release(net->core->id, frame);
    return;
  }
  trim(frame, ETH_LEN + (u32)ip.total_len, net->core->id);
  if (nic->address != 0 && (frame->data[6] & 1) == 0 && ip.source != 0) {
    bool near = (ip.source & nic->mask) == (nic->address & nic->mask);
    if (near || nic->gateway == 0) {
      arp_learn(nic, ip.source, frame->data + 6, false);
    } else {
      arp_learn(nic, nic->gateway, frame->data + 6, false);
    }
  }
  if (ip.protocol == IP_TCP) {
    tcp_input(nic, &ip, frame);
    return;
  }
  if (ip.protocol == IP_UDP) {
    udp_input(nic, &ip, frame);
  } else if (ip.protocol == IP_ICMP) {
    icmp_input(nic, &ip, frame);
  } else {
    net_drop(net, DROP_PROTOCOL);
    if (ip.target == nic->address) {
      icmp_unreachable(nic, frame, 2);
    }
  }
  plat_rx_release(net->core->id, frame);
}
