// SPDX-License-Identifier: Apache-2.0
// IPv6 (RFC 8200): what comes in and is ours, and the header of what goes out. Fragments are
// refused and counted, as with IPv4; a fragment header that fragments nothing is passed over (RFC
// 6946).
#include "net/stack.h"

static void put_header(u8 *h, struct ip_addr source, struct ip_addr target, u8 protocol, u32 len,
                       u8 hop_limit) {
  store_be32(h, 6u << 28);
  store_be16(h + 4, (u16)len);
  h[6] = protocol;
  h[7] = hop_limit;
  ip_store6(h + 8, source);
  ip_store6(h + 24, target);
}

static bool multicast_mac(struct ip_addr target, u8 mac[6]) {  // RFC 2464 7
  if (!ip_is_multicast6(target)) {
    return false;
  }
  mac[0] = mac[1] = 0x33;
  store_be32(mac + 2, (u32)target.lo);
  return true;
}

enum err ip6_write(struct nic *nic, u8 *h, struct ip_addr source, struct ip_addr target,
                   u8 protocol, u32 len) {
  u8 mac[6];
  const struct ip6_address *a = ip6_find(nic, source);
  if (a == NULL || a->state != IP6_VALID) {
    return ERR_NOT_FOUND;
  }
  struct ip_addr hop = ip6_next_hop(nic, target);
  if (ip_is_none(hop)) {
    return ERR_NOT_FOUND;
  }
  if (!multicast_mac(target, mac) && !nd_resolve(nic, hop, mac)) {
    return ERR_AGAIN;
  }
  eth_write(nic, h, mac, ETH_IP6);
  put_header(h + ETH_LEN, source, target, protocol, len, nic->ip6.hop_limit);
  return ERR_OK;
}

enum err ip6_write_to(struct nic *nic, u8 *h, const struct icmp6_out *m, u8 protocol, u32 len) {
  u8 mac[6];
  if (m->mac != NULL) {
    memcpy(mac, m->mac, 6);
  } else if (!multicast_mac(m->target, mac)) {
    struct ip_addr hop = ip6_next_hop(nic, m->target);
    if (ip_is_none(hop)) {
      return ERR_NOT_FOUND;
    }
    if (!nd_resolve(nic, hop, mac)) {
      return ERR_AGAIN;
    }
  }
  eth_write(nic, h, mac, ETH_IP6);
  u8 hop_limit = m->hop_limit != 0 ? m->hop_limit : nic->ip6.hop_limit;
  put_header(h + ETH_LEN, m->source, m->target, protocol, len, hop_limit);
  return ERR_OK;
}

// --- in

// Whether a packet to `target` is ours to read.
static bool target_ours(struct nic *nic, struct ip_addr target) {
  if (!ip_is_multicast6(target)) {
    const struct ip6_address *a = ip6_find(nic, target);
    return a != NULL && a->state == IP6_VALID;
  }
  if (ip_equal(target, IP6_ALL_NODES)) {
    return true;
  }
  for (u32 i = 0; i < IP6_ADDRESSES_MAX; i++) {
    const struct ip6_address *a = &nic->ip6.address[i];
    if (a->state != IP6_FREE && ip_equal(target, ip6_solicited(a->address))) {
      return true;
    }
  }
  return false;
}

// RFC 4291 2.7, 2.5.3; RFC 4942 2.2 for mapped addresses, which are IPv4's in here.
// Our own address as a source is somebody else who has it: his advertisements are looked at.
static bool source_sane(struct nic *nic, struct ip_addr source, const u8 *h, u32 have) {
  bool loopback = source.hi == 0 && source.lo == 1;
  bool claims = h[6] == IP_ICMP6 && have > IP6_LEN && h[IP6_LEN] == ICMP6_NA;
  return !ip_is_multicast6(source) && !ip_is4(source) && !loopback &&
         (claims || ip6_find(nic, source) == NULL);
}

// The fixed header's own rules; fills all of `ip` but its payload.
static enum drop parse(struct nic *nic, const struct rxbuf *frame, struct ip_in *ip) {
  const u8 *h = frame->data + ETH_LEN;
  u32 have = frame->len - ETH_LEN;
  if (have < IP6_LEN || h[0] >> 4 != 6 || IP6_LEN + load_be16(h + 4) > frame->frame_len - ETH_LEN) {
    return DROP_SHORT;
  }
  *ip = (struct ip_in){.source = ip_load6(h + 8), .target = ip_load6(h + 24)};
  if (!target_ours(nic, ip->target)) {
    return DROP_NOT_OURS;
  }
  return source_sane(nic, ip->source, h, have) ? DROP_COUNT : DROP_SOURCE;
}

// Finds the payload behind extension headers. Something else than DROP_COUNT: the packet ends here.
static enum drop find_payload(struct nic *nic, const struct rxbuf *frame, struct ip_in *ip) {
  const u8 *h = frame->data + ETH_LEN;
  u32 len = IP6_LEN + load_be16(h + 4);
  struct bytes packet = bytes_of(h, MIN(frame->len - ETH_LEN, len));
  struct ip6_walk w;
  switch (ip6_walk(packet, ip_is_multicast6(ip->target), &w)) {
  case IP6_PAYLOAD: break;
  case IP6_FRAGMENTED: return DROP_FRAGMENT;
  case IP6_PROBLEM: icmp6_error(nic, ip, frame, ICMP6_PROBLEM, w.problem_code, w.problem_at);
  // fall through
  default: return DROP_SHORT;
  }
  ip->off = ETH_LEN + w.off;
  ip->len = len - w.off;
  ip->protocol = w.protocol;
  bool nd = w.protocol == IP_ICMP6 && ip->len > 0 && w.off < packet.len && h[w.off] >= ICMP6_RS &&
            h[w.off] <= ICMP6_NA;
  return w.atomic && nd ? DROP_FRAGMENT : DROP_COUNT;  // RFC 6980
}

void ip6_input(struct nic *nic, struct rxbuf *frame) {
  struct net *net = nic->net;
  struct ip_in ip = {0};
  enum drop why = nic->ip6.on ? parse(nic, frame, &ip) : DROP_PROTOCOL;
  if (why == DROP_COUNT) {
    why = find_payload(nic, frame, &ip);
  }
  bool many = ip_is_multicast6(ip.target);
  if (why == DROP_COUNT && many && ip.protocol != IP_ICMP6) {
    why = DROP_NOT_OURS;
  }
  if (why == DROP_COUNT && ip_is_none(ip.source) && ip.protocol != IP_ICMP6) {
    why = DROP_SOURCE;
  }
  if (why != DROP_COUNT) {
    net_drop(net, why);
    plat_rx_release(net->core->id, frame);
    return;
  }
  ip_trim(frame, ip.off + ip.len, net->core->id);
  if (ip.protocol == IP_TCP) {
    tcp_input(nic, &ip, frame);
    return;
  }
  if (ip.protocol == IP_UDP) {
    udp_input(nic, &ip, frame);
  } else if (ip.protocol == IP_ICMP6) {
    icmp6_input(nic, &ip, frame);
  } else {
    net_drop(net, DROP_PROTOCOL);
    // RFC 8200 4: which byte named it is not kept; the fixed header's field stands for it.
    icmp6_error(nic, &ip, frame, ICMP6_PROBLEM, 1, 6);
  }
  plat_rx_release(net->core->id, frame);
}
