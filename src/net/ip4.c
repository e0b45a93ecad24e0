// SPDX-License-Identifier: Apache-2.0
// IPv4 (RFC 791, 1122) and ICMP (RFC 792). Fragments are refused and counted: every
// peer of a broker does path MTU discovery, and reassembly is memory for strangers.
#include "net/stack.h"

#define TTL 64u
#define DONT_FRAGMENT 0x4000u
#define ICMP_RATE 100u  // answers a second

u32 ip4_hop(const struct nic *nic, u32 target) {
  if ((target & nic->mask) == (nic->address & nic->mask)) {
    return target;
  }
  const struct route4 *best = NULL;
  for (u32 i = 0; i < nic->route_count; i++) {
    const struct route4 *r = &nic->route[i];
    if (((target ^ r->prefix) & r->mask) == 0 && (best == NULL || r->mask > best->mask)) {
      best = r;
    }
  }
  u32 gateway = best != NULL ? best->gateway : nic->gateway;
  return gateway != 0 ? gateway : target;
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
  store_be16(ip + 10, (u16)~csum_words(ip, IP4_LEN / 4));
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

// A destination unreachable; `quoted` has at least IP4_LEN + 8 bytes.
static void take_error(struct nic *nic, struct bytes quoted, u8 code, u16 next_mtu) {
  enum { CODE_PROTOCOL = 2, CODE_PORT = 3, CODE_TOO_LARGE = 4 };
  u32 header_len = (quoted.ptr[0] & 15u) * 4;
  if (header_len < IP4_LEN || quoted.len < header_len + 8 || quoted.ptr[9] != IP_TCP) {
    return;
  }
  enum path_error what = code == CODE_TOO_LARGE                       ? PATH_TOO_LARGE
                         : code == CODE_PROTOCOL || code == CODE_PORT ? PATH_REFUSED
                                                                      : PATH_OTHER;
  tcp_icmp(nic->net, ip_of4(load_be32(quoted.ptr + 12)), ip_of4(load_be32(quoted.ptr + 16)),
           quoted.ptr + header_len, what, next_mtu);
}

static void icmp_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame) {
  u32 off = ip->off;
  u32 len = ip->len;
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
  if (m[0] == 8 && ip_to4(ip->target) == nic->address && len - 8 <= (u32)nic->mtu - IP4_LEN - 8) {
    if (bucket_take(&nic->net->icmp_bucket, nic->net->core->now_ns, ICMP_RATE)) {
      icmp_send(nic, ip_to4(ip->source), 0, load_be32(m + 4), bytes_of(m + 8, len - 8));
    }
  } else if (m[0] == 3 && len >= 8 + IP4_LEN + 8) {
    take_error(nic, bytes_of(m + 8, len - 8), m[1], load_be16(m + 6));
  }
}

// --- IPv4

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
static bool source_sane(const struct nic *nic, u32 source, u8 protocol) {
  if (source >> 28 >= 14 || source >> 24 == 127) {
    return false;
  }
  if (source == 0) {
    return protocol == IP_UDP;
  }
  bool directed =
      nic->address != 0 && nic->prefix_len < 31 && source == (nic->address | ~nic->mask);
  return source != nic->address && !directed;
}

// The header's own rules; fills `ip`. The header lies in the first buffer.
static enum drop parse(const struct rxbuf *frame, struct ip_in *ip) {
  const u8 *h = frame->data + ETH_LEN;
  u32 have = frame->len - ETH_LEN;
  if (have < IP4_LEN || h[0] >> 4 != 4 || (h[0] & 15) < 5) {
    return DROP_SHORT;
  }
  u32 header_len = (h[0] & 15u) * 4;
  u32 total_len = load_be16(h + 2);
  if (have < header_len || total_len < header_len || total_len > frame->frame_len - ETH_LEN) {
    return DROP_SHORT;
  }
  if (csum_words(h, header_len / 4) != 0xffff) {
    return DROP_CHECKSUM;
  }
  if ((load_be16(h + 6) & 0x3fff) != 0) {
    return DROP_FRAGMENT;
  }
  *ip = (struct ip_in){.source = ip_of4(load_be32(h + 12)),
                       .target = ip_of4(load_be32(h + 16)),
                       .off = ETH_LEN + header_len,
                       .len = total_len - header_len,
                       .protocol = h[9]};
  return DROP_COUNT;
}

static void learn_sender(struct nic *nic, u32 source, const u8 mac[6]) {
  if (nic->address == 0 || (mac[0] & 1) != 0 || source == 0) {
    return;
  }
  arp_learn(nic, ip4_hop(nic, source), mac, false);
}

void ip4_input(struct nic *nic, struct rxbuf *frame) {
  struct net *net = nic->net;
  struct ip_in ip = {0};
  enum drop why = parse(frame, &ip);
  if (why == DROP_COUNT && !address_ours(nic, ip_to4(ip.target), ip.protocol)) {
    why = DROP_NOT_OURS;
  }
  if (why == DROP_COUNT && !source_sane(nic, ip_to4(ip.source), ip.protocol)) {
    why = DROP_SOURCE;
  }
  if (why != DROP_COUNT) {
    net_drop(net, why);
    plat_rx_release(net->core->id, frame);
    return;
  }
  ip_trim(frame, ip.off + ip.len, net->core->id);
  learn_sender(nic, ip_to4(ip.source), frame->data + 6);
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
    if (ip_to4(ip.target) == nic->address) {
      icmp_unreachable(nic, frame, 2);
    }
  }
  plat_rx_release(net->core->id, frame);
}
