// SPDX-License-Identifier: Apache-2.0
#include "plat/flow.h"

#define ETH_LEN 14u
#define ETH_IP4 0x0800u
#define ETH_IP6 0x86ddu
#define IP4_LEN 20u
#define IP6_LEN 40u
#define PROTOCOL_ICMP 1u
#define PROTOCOL_TCP 6u
#define PROTOCOL_ICMP6 58u
#define ICMP_LEN 8u
#define PORTS_LEN 4u
#define ICMP_ERRORS (1u << 3 | 1u << 11 | 1u << 12)  // unreachable, time exceeded, parameter
#define ICMP6_ERROR_LAST 4u
#define EXTENSIONS_MAX 6u

// The window of 32 bits of the key that an input bit stands at (virtio 1.2 5.1.6.4.3).
static u32 window(const u8 *key, u32 bit) {
  u64 five = (u64)load_be32(key + bit / 8) << 8 | key[bit / 8 + 4];
  return (u32)(five >> (8 - bit % 8));
}

void flow_init(struct flow_table *t, u32 cores, const u8 *key) {
  ASSERT(cores >= 1);
  static_assert(FLOW_TUPLE_MAX + 4 == FLOW_KEY_LEN, "each window lies in the key");
  *t = (struct flow_table){.cores = cores};
  memcpy(t->key, key, FLOW_KEY_LEN);
  for (u32 n = 0; n < 2 * FLOW_TUPLE_MAX; n++) {
    for (u32 v = 0; v < 16; v++) {
      for (u32 bit = 0; bit < 4; bit++) {
        t->nibble[n][v] ^= (v & (8u >> bit)) != 0 ? window(t->key, 4 * n + bit) : 0;
      }
    }
  }
}

u32 flow_hash(const struct flow_table *t, struct bytes tuple) {
  ASSERT(tuple.len <= FLOW_TUPLE_MAX);
  u32 hash = 0;
  for (u32 i = 0; i < tuple.len; i++) {
    hash ^= t->nibble[2 * i][tuple.ptr[i] >> 4] ^ t->nibble[2 * i + 1][tuple.ptr[i] & 15];
  }
  return hash;
}

// The core of the segment with these addresses (both, of `address_len` together) and ports as it is
// received; `back`: as it was sent, and comes back quoted.
static u32 core_of(const struct flow_table *t, const u8 *addresses, u32 address_len,
                   const u8 *ports, bool back) {
  u8 tuple[FLOW_TUPLE_MAX];
  u32 half = address_len / 2;
  ASSERT(address_len + 4 <= sizeof tuple);
  memcpy(tuple, addresses + (back ? half : 0), half);
  memcpy(tuple + half, addresses + (back ? 0 : half), half);
  memcpy(tuple + address_len, ports + (back ? 2 : 0), 2);
  memcpy(tuple + address_len + 2, ports + (back ? 0 : 2), 2);
  if (load_be16(tuple + address_len + 2) >= FLOW_OWN_PORT_FIRST) {
    return 0;  // I2
  }
  u32 hash = flow_hash(t, bytes_of(tuple, address_len + 4));
  return flow_entry(t, hash % FLOW_SPREAD);
}

// A packet's payload and its protocol; false: none that has ports to look at (a fragment).
static bool open_ip4(struct bytes ip, u8 *protocol, struct bytes *inner) {
  if (ip.len < IP4_LEN || ip.ptr[0] >> 4 != 4) {
    return false;
  }
  u32 header_len = (ip.ptr[0] & 15u) * 4;
  bool fragment = (load_be16(ip.ptr + 6) & 0x3fff) != 0;
  if (header_len < IP4_LEN || fragment || ip.len < header_len + PORTS_LEN) {
    return false;
  }
  *protocol = ip.ptr[9];
  *inner = bytes_skip(ip, header_len);
  return true;
}

// Hop-by-hop options, routing, destination options (RFC 8200 4.3, 4.4, 4.6).
static bool is_extension(u8 protocol) {
  return protocol == 0 || protocol == 43 || protocol == 60;
}

static bool open_ip6(struct bytes ip, u8 *protocol, struct bytes *inner) {
  if (ip.len < IP6_LEN || ip.ptr[0] >> 4 != 6) {
    return false;
  }
  *protocol = ip.ptr[6];
  *inner = bytes_skip(ip, IP6_LEN);
  for (u32 i = 0; i < EXTENSIONS_MAX && is_extension(*protocol); i++) {
    usize len = inner->len < 8 ? 8 : 8 + 8 * (usize)inner->ptr[1];
    if (inner->len < len) {
      return false;
    }
    *protocol = inner->ptr[0];
    *inner = bytes_skip(*inner, len);
  }
  return inner->len >= PORTS_LEN;
}

static bool is_error(bool six, u8 protocol, struct bytes inner) {
  if (inner.len <= ICMP_LEN) {
    return false;
  }
  u8 type = inner.ptr[0];
  return six ? protocol == PROTOCOL_ICMP6 && type >= 1 && type <= ICMP6_ERROR_LAST
             : protocol == PROTOCOL_ICMP && type < 32 && (ICMP_ERRORS >> type & 1) != 0;
}

u32 flow_core(const struct flow_table *t, struct bytes frame) {
  if (t->cores == 1 || frame.len < ETH_LEN) {
    return 0;
  }
  u16 type = load_be16(frame.ptr + 12);
  bool six = type == ETH_IP6;
  struct bytes ip = bytes_skip(frame, ETH_LEN);
  struct bytes inner = bytes_of(NULL, 0);
  u8 protocol = 0;
  if ((!six && type != ETH_IP4) ||
      !(six ? open_ip6(ip, &protocol, &inner) : open_ip4(ip, &protocol, &inner))) {
    return 0;
  }
  bool back = is_error(six, protocol, inner);
  if (back) {
    ip = bytes_skip(inner, ICMP_LEN);
    if (!(six ? open_ip6(ip, &protocol, &inner) : open_ip4(ip, &protocol, &inner))) {
      return 0;
    }
  }
  return protocol != PROTOCOL_TCP ? 0
         : six                    ? core_of(t, ip.ptr + 8, 32, inner.ptr, back)
                                  : core_of(t, ip.ptr + 12, 8, inner.ptr, back);
}
