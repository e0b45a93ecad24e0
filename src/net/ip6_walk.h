// SPDX-License-Identifier: Apache-2.0
// What stands between an IPv6 header and its payload (RFC 8200 4). Pure: bytes in, values out.
#pragma once
#include "base/bytes.h"

#define IP6_LEN 40u
#define IP6_EXTENSIONS_MAX 8u  // RFC 8504 5.3 allows limits as these
#define IP6_OPTIONS_MAX 16u    // of one header, padding counted

enum {
  IP6_HOP_BY_HOP = 0,
  IP6_ROUTING = 43,
  IP6_FRAGMENT = 44,
  IP6_NO_NEXT = 59,
  IP6_DESTINATION = 60,
};

enum ip6_verdict {
  IP6_MORE,     // of a step: another header follows
  IP6_PAYLOAD,  // `protocol` begins at `off`
  IP6_DROP,     // without a word
  IP6_FRAGMENTED,
  IP6_PROBLEM,  // ICMPv6 parameter problem `problem_code` at byte `problem_at` of the packet
};

struct ip6_walk {
  u32 off;      // of the header that is next, from the packet's first byte
  u8 protocol;  // of that header
  u8 count;     // headers walked
  bool atomic;  // there is a fragment header that fragments nothing (RFC 6946)
  u8 problem_code;
  u32 problem_at;
};

// One header. `packet` begins with the fixed header and ends with the payload, or where the first
// receive buffer ends; `multicast`: it was sent to many (RFC 8200 4.2: some errors are not told).
// w->off is at most packet.len before and after.
enum ip6_verdict ip6_step(struct bytes packet, bool multicast, struct ip6_walk *w);
// From the fixed header (all of it is there) to the payload or the end; never IP6_MORE.
enum ip6_verdict ip6_walk(struct bytes packet, bool multicast, struct ip6_walk *out);
