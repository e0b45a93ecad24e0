// SPDX-License-Identifier: Apache-2.0
// An Internet address as one value, whichever the family: an IPv6 address, or an IPv4 address as
// ::ffff:a.b.c.d (RFC 4291 2.5.5.2). Numbers in host order, so that prefixes are masks; big-endian
// only on the wire. All zeros is "no address" and "every address". That form never comes from the
// wire: an IPv6 packet with a mapped address is thrown away (RFC 4942 2.2).
#pragma once
#include "base/bytes.h"

// IPv4 addresses where nothing else can stand are host-order u32.
#define IP4(a, b, c, d) ((u32)(a) << 24 | (u32)(b) << 16 | (u32)(c) << 8 | (u32)(d))

struct ip_addr {
  u64 hi, lo;
};
#define IP_NONE ((struct ip_addr){0, 0})
#define IP_TEXT_MAX 48u  // "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"

static inline struct ip_addr ip_of4(u32 v4) {
  return (struct ip_addr){0, 0xffff00000000ull | v4};
}
static inline bool ip_is4(struct ip_addr a) {
  return a.hi == 0 && a.lo >> 32 == 0xffff;
}
static inline u32 ip_to4(struct ip_addr a) {
  ASSERT(ip_is4(a));
  return (u32)a.lo;
}
static inline bool ip_equal(struct ip_addr a, struct ip_addr b) {
  return ((a.hi ^ b.hi) | (a.lo ^ b.lo)) == 0;
}
static inline bool ip_is_none(struct ip_addr a) {
  return (a.hi | a.lo) == 0;
}
// 16 bytes of an IPv6 header.
static inline struct ip_addr ip_load6(const u8 *p) {
  return (struct ip_addr){load_be64(p), load_be64(p + 8)};
}
static inline void ip_store6(u8 *p, struct ip_addr a) {
  store_be64(p, a.hi);
  store_be64(p + 8, a.lo);
}
static inline bool ip_is_multicast6(struct ip_addr a) {  // RFC 4291 2.7
  return a.hi >> 56 == 0xff;
}
static inline bool ip_is_link_local6(struct ip_addr a) {  // RFC 4291 2.5.6
  return a.hi >> 54 == 0xfe80 >> 6;
}
// The first `len` (0..128) bits of `a`, the rest zero.
static inline struct ip_addr ip_prefix(struct ip_addr a, u32 len) {
  ASSERT(len <= 128);
  u64 hi = len == 0 ? 0 : len >= 64 ? a.hi : a.hi & ~0ull << (64 - len);
  u64 lo = len <= 64 ? 0 : a.lo & ~0ull << (128 - len);
  return (struct ip_addr){hi, lo};
}
// Whether the first `len` (0..128) bits are the same.
static inline bool ip_same_prefix(struct ip_addr a, struct ip_addr b, u32 len) {
  return ip_is_none(ip_prefix((struct ip_addr){a.hi ^ b.hi, a.lo ^ b.lo}, len));
}

// Those who are one for the sake of fairness: who has one address of a network has all of it, and
// providers give out /64 to /56 (RFC 6177).
static inline struct ip_addr ip_network(struct ip_addr a) {
  return ip_prefix(a, ip_is4(a) ? 96 + 24 : 56);
}

// Text: four decimal numbers, or one of RFC 4291 2.2's three forms; no brackets, no zone.
bool ip_parse(struct bytes text, struct ip_addr *out);
bool ip_parse4(struct bytes text, u32 *out);
bool ip_parse6(struct bytes text, struct ip_addr *out);
// RFC 5952 4; IPv4 with dots. At most IP_TEXT_MAX bytes, also with the port: 192.0.2.1:1883,
// [2001:db8::1]:1883.
void ip_write(struct writer *w, struct ip_addr a);
void ip_write_port(struct writer *w, struct ip_addr a, u16 port);
