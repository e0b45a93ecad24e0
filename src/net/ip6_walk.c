// SPDX-License-Identifier: Apache-2.0
// The walk over extension headers: each step moves on, and there are few.
#include "net/ip6_walk.h"

enum { CODE_FIELD = 0, CODE_NEXT_HEADER = 1, CODE_OPTION = 2 };  // RFC 4443 3.4

static enum ip6_verdict problem(struct ip6_walk *w, u8 code, u32 at) {
  w->problem_code = code;
  w->problem_at = at;
  return IP6_PROBLEM;
}

// RFC 8200 4.2: the two highest bits of an unknown option say what to do with the packet.
static enum ip6_verdict unknown_option(struct ip6_walk *w, u8 type, u32 at, bool multicast) {
  switch (type >> 6) {
  case 0: return IP6_MORE;
  case 1: return IP6_DROP;
  case 2: return problem(w, CODE_OPTION, at);
  default: return multicast ? IP6_DROP : problem(w, CODE_OPTION, at);
  }
}

// The options of a header in [at, end). Known ones are padding and the router alert (RFC 2711),
// which says nothing to us.
static enum ip6_verdict walk_options(struct bytes p, u32 at, u32 end, bool multicast,
                                     struct ip6_walk *w) {
  for (u32 i = 0; i < IP6_OPTIONS_MAX; i++) {
    if (at == end) {
      return IP6_MORE;
    }
    u8 type = p.ptr[at];
    if (type == 0) {  // Pad1
      at++;
      continue;
    }
    if (end - at < 2 || end - at - 2 < p.ptr[at + 1]) {
      return IP6_DROP;
    }
    if (type != 1 && type != 5) {
      enum ip6_verdict v = unknown_option(w, type, at, multicast);
      if (v != IP6_MORE) {
        return v;
      }
    }
    at += 2u + p.ptr[at + 1];
  }
  return at == end ? IP6_MORE : IP6_DROP;
}

// A fragment header of eight bytes at w->off.
static enum ip6_verdict walk_fragment(struct bytes p, struct ip6_walk *w) {
  if ((load_be16(p.ptr + w->off + 2) & 0xfff9) != 0) {  // an offset, or more to come
    return IP6_FRAGMENTED;
  }
  w->atomic = true;
  return IP6_MORE;
}

enum ip6_verdict ip6_step(struct bytes packet, bool multicast, struct ip6_walk *w) {
  u8 kind = w->protocol;
  if (kind == IP6_NO_NEXT) {
    return IP6_DROP;
  }
  if (kind != IP6_HOP_BY_HOP && kind != IP6_ROUTING && kind != IP6_FRAGMENT &&
      kind != IP6_DESTINATION) {
    return IP6_PAYLOAD;
  }
  if (w->count == IP6_EXTENSIONS_MAX || packet.len - w->off < 8) {
    return IP6_DROP;
  }
  if (kind == IP6_HOP_BY_HOP && w->count > 0) {  // RFC 8200 4.1: first or not at all
    return problem(w, CODE_NEXT_HEADER, w->off);
  }
  const u8 *h = packet.ptr + w->off;
  u32 len = kind == IP6_FRAGMENT ? 8 : 8 + h[1] * 8u;
  if (packet.len - w->off < len) {
    return IP6_DROP;
  }
  enum ip6_verdict v = IP6_MORE;
  if (kind == IP6_FRAGMENT) {
    v = walk_fragment(packet, w);
  } else if (kind != IP6_ROUTING) {
    v = walk_options(packet, w->off + 2, w->off + len, multicast, w);
  } else if (h[3] != 0) {  // segments left: we forward nothing (RFC 5095, RFC 8200 4.4)
    v = problem(w, CODE_FIELD, w->off + 2);
  }
  if (v == IP6_MORE) {
    w->protocol = h[0];
    w->off += len;
    w->count++;
  }
  return v;
}

enum ip6_verdict ip6_walk(struct bytes packet, bool multicast, struct ip6_walk *out) {
  ASSERT(packet.len >= IP6_LEN);
  *out = (struct ip6_walk){.off = IP6_LEN, .protocol = packet.ptr[6]};
  enum ip6_verdict v = IP6_MORE;
  while (v == IP6_MORE) {  // ends: ip6_step counts
    v = ip6_step(packet, multicast, out);
  }
  return v;
}
