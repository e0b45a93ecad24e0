// SPDX-License-Identifier: Apache-2.0
// The messages of neighbour discovery (RFC 4861 4): options of eight bytes and more, one after the
// other, each with a length that is not zero, so that every walk ends.
#include "net/stack.h"

enum option {
  OPT_SOURCE = 1,
  OPT_TARGET = 2,
  OPT_PREFIX = 3,
  OPT_MTU = 5,
  OPT_DNS = 25,  // RFC 8106 5.1
};

enum err nd_option(struct bytes m, u32 *at, struct part *out) {
  ASSERT(*at <= m.len);
  u32 left = (u32)m.len - *at;
  if (left == 0) {
    return ERR_NOT_FOUND;
  }
  if (left < 8 || m.ptr[*at + 1] == 0 || m.ptr[*at + 1] * 8u > left) {
    return ERR_MALFORMED;
  }
  *out = (struct part){*at, m.ptr[*at + 1] * 8u};
  *at += out->len;
  return ERR_OK;
}

// A link-layer address of Ethernet: eight bytes, and nobody's that stands for many.
static bool take_mac(struct bytes option, u8 mac[6]) {
  if (option.len != 8 || (option.ptr[2] & 1) != 0) {
    return false;
  }
  memcpy(mac, option.ptr + 2, 6);
  return true;
}

bool nd_message_parse(struct bytes m, struct nd_message *out) {
  *out = (struct nd_message){.type = m.len > 0 ? m.ptr[0] : 0};
  u32 at = out->type == ICMP6_RS ? 8 : 24;
  if (m.len < at) {
    return false;
  }
  if (at == 24) {
    out->target = ip_load6(m.ptr + 8);
    out->flags = m.ptr[4];
  }
  struct part p;
  enum err e = nd_option(m, &at, &p);
  for (; e == ERR_OK; e = nd_option(m, &at, &p)) {
    struct bytes option = bytes_part(m, p);
    if (option.ptr[0] == OPT_SOURCE) {
      out->has_source = take_mac(option, out->source_mac);
    } else if (option.ptr[0] == OPT_TARGET) {
      out->has_target = take_mac(option, out->target_mac);
    }
  }
  return e == ERR_NOT_FOUND;
}

static void take_prefix(struct bytes o, struct ra_message *out) {
  if (o.len != 32 || o.ptr[2] > 128 || out->prefix_count == IP6_PREFIXES_MAX) {
    return;
  }
  out->prefix[out->prefix_count++] =
      (struct ra_prefix){.prefix = ip_prefix(ip_load6(o.ptr + 16), o.ptr[2]),
                         .len = o.ptr[2],
                         .on_link = (o.ptr[3] & 0x80) != 0,
                         .autonomous = (o.ptr[3] & 0x40) != 0,
                         .valid_s = load_be32(o.ptr + 4),
                         .preferred_s = load_be32(o.ptr + 8)};
}

static void take_dns(struct bytes o, struct ra_message *out) {
  if (o.len < 24) {
    return;
  }
  out->dns_count = 0;
  out->dns_lifetime_s = load_be32(o.ptr + 4);
  for (u32 at = 8; at + 16 <= o.len && out->dns_count < RA_DNS_MAX; at += 16) {
    out->dns[out->dns_count++] = ip_load6(o.ptr + at);
  }
}

bool ra_message_parse(struct bytes m, struct ra_message *out) {
  u32 at = 16;
  if (m.len < at) {
    return false;
  }
  *out = (struct ra_message){.hop_limit = m.ptr[4],
                             .lifetime_s = load_be16(m.ptr + 6),
                             .reachable_ms = load_be32(m.ptr + 8),
                             .retrans_ms = load_be32(m.ptr + 12)};
  struct part p;
  enum err e = nd_option(m, &at, &p);
  for (; e == ERR_OK; e = nd_option(m, &at, &p)) {
    struct bytes o = bytes_part(m, p);
    switch (o.ptr[0]) {
    case OPT_SOURCE: out->has_source = take_mac(o, out->source_mac); break;
    case OPT_PREFIX: take_prefix(o, out); break;
    case OPT_MTU: out->mtu = o.len == 8 ? load_be32(o.ptr + 4) : out->mtu; break;
    case OPT_DNS: take_dns(o, out); break;
    default: break;
    }
  }
  return e == ERR_NOT_FOUND;
}
