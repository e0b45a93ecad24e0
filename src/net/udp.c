// SPDX-License-Identifier: Apache-2.0
// UDP (RFC 768; over IPv6 RFC 8200 8.1).
#include "net/stack.h"

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
  if (len + ip_header_len(p->target) > ip_mtu(nic, p->target)) {
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
  u32 start = ETH_LEN + ip_header_len(p->target);
  struct ip_addr source = ip_is4(p->target) ? ip_of4(nic->address) : ip_source(nic, p->target);
  u8 *h = f.slot->headers + start;
  memcpy(b->data, p->payload.ptr, p->payload.len);
  store_be16(h, p->source_port);
  store_be16(h + 2, p->target_port);
  store_be16(h + 4, (u16)len);
  store_be16(h + 6, 0);
  struct csum c = {0};
  ip_pseudo(&c, source, p->target, IP_UDP, len);
  csum_add(&c, bytes_of(h, UDP_LEN));
  csum_add(&c, p->payload);
  u16 sum = csum_finish(&c);
  store_be16(h + 6, sum == 0 ? 0xffff : sum);
  enum err e = ip_header(nic, f.slot->headers, source, p->target, IP_UDP, len);
  if (e != ERR_OK) {
    tx_cancel(nic, &f);
  } else {
    if (p->payload.len > 0) {
      tx_ref(&f, b, 0, (u32)p->payload.len);
    }
    tx_commit(nic, &f, start + UDP_LEN);
  }
  txbuf_unref(net, b);
  return e;
}

enum err udp_send_to(struct net *net, const struct udp_packet *p) {
  const struct nic *nic = ip_route(net, p->target);
  return nic == NULL ? ERR_NOT_FOUND : udp_send(net, nic->index, p);
}

void udp_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame) {
  u32 off = ip->off;
  u32 len = ip->len;
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
  bool none = load_be16(u + 6) == 0;
  if (none && !ip_is4(ip->target)) {  // RFC 8200 8.1: there has to be one
    net_drop(nic->net, DROP_CHECKSUM);
    return;
  }
  if (!none && frame->frame_csum != RX_CSUM_GOOD) {
    struct csum c = {0};
    ip_pseudo(&c, ip->source, ip->target, IP_UDP, udp_len);
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
  ip_port_unreachable(nic, ip, frame);
}
