// SPDX-License-Identifier: Apache-2.0
// ICMPv6 (RFC 4443): echo, errors both ways, and the way to ND and MLD. Answers and errors share
// ICMPv4's budget; what ND sends has its own, so that an echo storm does not stop it.
#include "net/stack.h"

#define ICMP_RATE 100u  // answers and errors a second

static u16 checksum(const struct icmp6_out *m) {
  struct csum c = {0};
  ip_pseudo(&c, m->source, m->target, IP_ICMP6, (u32)m->body.len);
  csum_add(&c, m->body);
  return csum_finish(&c);
}

// Router alert in a hop-by-hop header (RFC 2711), 0 = MLD.
static u32 put_alert(u8 *h) {
  static const u8 alert[8] = {IP_ICMP6, 0, 5, 2, 0, 0, 1, 0};
  memcpy(h, alert, sizeof alert);
  return sizeof alert;
}

void icmp6_send(struct nic *nic, const struct icmp6_out *m) {
  struct frame f;
  ASSERT(m->body.len >= 8 && m->body.len <= TXBUF_LARGE);
  u32 alert_len = m->router_alert ? 8 : 0;
  u32 start = ETH_LEN + IP6_LEN + alert_len;
  bool whole = start + m->body.len <= HEADERS_MAX;  // a message of ND fits beside its headers
  struct txbuf *b = whole ? NULL : txbuf_take(nic->net, (u32)m->body.len, TXBUF_CONTROL);
  if (!whole && b == NULL) {
    return;
  }
  if (tx_begin(nic, &f)) {
    u8 *h = f.slot->headers;
    u8 *body = whole ? h + start : b->data;
    memcpy(body, m->body.ptr, m->body.len);
    store_be16(body + 2, checksum(m));
    u8 protocol = m->router_alert ? IP6_HOP_BY_HOP : IP_ICMP6;
    u32 len = alert_len + (u32)m->body.len;
    if (ip6_write_to(nic, h, m, protocol, len) != ERR_OK) {
      tx_cancel(nic, &f);
    } else {
      if (m->router_alert) {
        put_alert(h + ETH_LEN + IP6_LEN);
      }
      if (!whole) {
        tx_ref(&f, b, 0, (u32)m->body.len);
      }
      tx_commit(nic, &f, whole ? start + (u32)m->body.len : start);
    }
  }
  if (b != NULL) {
    txbuf_unref(nic->net, b);
  }
}

static bool answer_allowed(struct nic *nic) {
  return bucket_take(&nic->net->icmp_bucket, nic->net->core->now_ns, ICMP_RATE);
}

// RFC 4443 2.4 (e): never about an error, nor, but for a few, about what went to many.
static bool error_allowed(const struct ip_in *ip, const struct rxbuf *frame, u8 type, u8 code) {
  bool many = ip_is_multicast6(ip->target) || (frame->data[0] & 1) != 0;
  if (ip_is_none(ip->source) || (many && !(type == ICMP6_PROBLEM && code == 2))) {
    return false;
  }
  const u8 *ip6 = frame->data + ETH_LEN;
  u32 at = ip->off != 0 ? ip->off : ETH_LEN + IP6_LEN;  // before the walk: what the header says
  u8 protocol = ip->off != 0 ? ip->protocol : ip6[6];
  return protocol != IP_ICMP6 || (frame->len > at && frame->data[at] >= 128);
}

void icmp6_error(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame, u8 type,
                 u8 code, u32 value) {
  u8 body[IP6_MTU_MIN - IP6_LEN];
  struct icmp6_out m = {.source = ip->target, .target = ip->source};
  if (ip_is_multicast6(ip->target)) {
    m.source = ip6_source(nic, ip->source);
  }
  if (!error_allowed(ip, frame, type, code) || ip_is_none(m.source) || !answer_allowed(nic)) {
    return;
  }
  u32 quoted = MIN(frame->len - ETH_LEN, (u32)sizeof body - 8);
  body[0] = type;
  body[1] = code;
  store_be16(body + 2, 0);
  store_be32(body + 4, value);
  memcpy(body + 8, frame->data + ETH_LEN, quoted);
  m.body = bytes_of(body, 8 + quoted);
  icmp6_send(nic, &m);
}

static void echo(struct nic *nic, const struct ip_in *ip, struct bytes in) {
  u8 body[TXBUF_LARGE];
  bool many = ip_is_multicast6(ip->target);
  struct icmp6_out m = {.source = many ? ip6_source(nic, ip->source) : ip->target,
                        .target = ip->source};
  if (in.len > (usize)nic->ip6.mtu - IP6_LEN || in.len > sizeof body || ip_is_none(m.source) ||
      ip_is_none(ip->source) || !answer_allowed(nic)) {
    return;
  }
  memcpy(body, in.ptr, in.len);
  body[0] = ICMP6_ECHO_REPLY;
  body[1] = 0;
  store_be16(body + 2, 0);
  m.body = bytes_of(body, in.len);
  icmp6_send(nic, &m);
}

// An error about a packet of ours; `in` from the ICMPv6 type on.
static void take_error(struct nic *nic, struct bytes in) {
  struct bytes quoted = bytes_skip(in, 8);
  struct ip6_walk w;
  if (quoted.len < IP6_LEN + 8 || quoted.ptr[0] >> 4 != 6 ||
      ip6_walk(quoted, false, &w) != IP6_PAYLOAD || w.protocol != IP_TCP ||
      quoted.len - w.off < 8) {
    return;
  }
  u8 code = in.ptr[1];
  bool refused = in.ptr[0] == ICMP6_UNREACHABLE && (code == 1 || code == 4);
  enum path_error what = in.ptr[0] == ICMP6_TOO_BIG ? PATH_TOO_LARGE
                         : refused                  ? PATH_REFUSED
                                                    : PATH_OTHER;
  u32 mtu = MAX(load_be32(in.ptr + 4), IP6_MTU_MIN);  // RFC 8201 4
  struct ip_addr local = ip_load6(quoted.ptr + 8);
  struct ip_addr remote = ip_load6(quoted.ptr + 24);
  if (!ip_is4(local) && !ip_is4(remote)) {
    tcp_icmp(nic->net, local, remote, quoted.ptr + w.off, what, mtu);
  }
}

void icmp6_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame) {
  if (ip->len < 8 || frame->len < ip->off + ip->len) {  // one buffer holds any worth reading
    net_drop(nic->net, DROP_SHORT);
    return;
  }
  struct bytes in = bytes_of(frame->data + ip->off, ip->len);
  struct csum c = {0};
  ip_pseudo(&c, ip->source, ip->target, IP_ICMP6, ip->len);
  csum_add(&c, in);
  if (csum_fold(&c) != 0xffff) {
    net_drop(nic->net, DROP_CHECKSUM);
    return;
  }
  u8 type = in.ptr[0];
  u8 hop_limit = frame->data[ETH_LEN + 7];
  if (type >= ICMP6_UNREACHABLE && type <= ICMP6_PROBLEM) {
    take_error(nic, in);
  } else if (type == ICMP6_ECHO) {
    echo(nic, ip, in);
  } else if (type == ICMP6_MLD_QUERY) {
    if (ip_is_link_local6(ip->source) && hop_limit == 1) {  // RFC 3810 5.1.14
      mld_query(nic, in);
    }
  } else if (type >= ICMP6_RS && type <= ICMP6_NA) {
    if (hop_limit != 255 || in.ptr[1] != 0) {  // RFC 4861 6.1, 7.1: from this link
      net_drop(nic->net, DROP_SOURCE);
    } else if (type == ICMP6_RA) {
      ra_input(nic, ip->source, in);
    } else {
      nd_input(nic, ip, frame, in);
    }
  }
}
