// SPDX-License-Identifier: Apache-2.0
// What the cores other than 0 know of the network. Core 0 has the addresses (static, DHCP) and asks
// for neighbours; the others are told by mail and ask core 0 where they would ask the wire.
//
// F1  Core 0 sends a NIC's face to every core when it differs from what it sent last.
// F2  What core 0 learns from an answer (not merely from a frame's sender) it tells every core.
// F3  A question or an answer for which there is no room in the mail is dropped: the asking core
//     repeats it, as it would a lost frame.
#include "loop/mailbox.h"
#include "net/stack.h"

enum what { WHAT_FACE, WHAT_FACE6, WHAT_ASK, WHAT_NEIGHBOUR };

struct word {
  u32 what;
  u32 nic;
  union {
    struct net_face face;
    struct net_face6 face6;
    struct {
      struct ip_addr address;
      u8 mac[6];
    } neighbour;  // WHAT_ASK: its MAC is wanted
  };
};

static bool send(struct core *core, u32 to, const struct word *w) {
  struct span body = mailbox_put(core, to, MAIL_DATA, MAIL_NET, sizeof *w, false);
  if (body.ptr == NULL) {
    return false;
  }
  memcpy(body.ptr, w, sizeof *w);
  return true;
}

static struct net_face face_of(const struct nic *nic) {
  struct net_face f = {.address = nic->address,
                       .mask = nic->mask,
                       .gateway = nic->gateway,
                       .mtu = nic->mtu,
                       .prefix_len = nic->prefix_len,
                       .link_up = nic->info.link_up,
                       .route_count = nic->route_count};
  memcpy(f.route, nic->route, nic->route_count * sizeof f.route[0]);
  return f;
}

// To every other core; false: for one there was no room.
static bool tell(struct core *core, const struct word *w) {
  bool all = true;
  for (u32 to = 1; to < mailbox_cores(core); to++) {
    all &= send(core, to, w);
  }
  return all;
}

// What counts now; a later moment's is another face.
static struct net_face6 face6_of(const struct nic *nic) {
  const struct ip6_nic *v6 = &nic->ip6;
  u64 now = nic->net->core->now_ns;
  struct net_face6 f = {.on = v6->on, .hop_limit = v6->hop_limit, .mtu = v6->mtu};
  f.gateway = ip6_router(nic);
  for (u32 i = 0; i < v6->address_count; i++) {
    const struct ip6_address *a = &v6->address[i];
    if (a->state == IP6_VALID) {
      f.deprecated |= a->preferred_ns <= now ? 1u << f.address_count : 0;
      f.address[f.address_count++] = a->address;
    }
  }
  for (u32 i = 0; i < IP6_PREFIXES_MAX; i++) {
    const struct ip6_prefix *p = &v6->prefix[i];
    if (p->len != 0 && p->until_ns > now) {
      f.prefix_len[f.prefix_count] = p->len;
      f.prefix[f.prefix_count++] = p->prefix;
    }
  }
  return f;
}

void follow_tick(struct nic *nic) {
  struct core *core = nic->net->core;
  if (core->id != 0 || core->mail == NULL) {
    return;
  }
  struct word w = {.what = WHAT_FACE6, .nic = nic->index, .face6 = face6_of(nic)};
  if (memcmp(&w.face6, &nic->face6_sent, sizeof w.face6) != 0 && tell(core, &w)) {
    nic->face6_sent = w.face6;
  }
}

void follow_flush(struct net *net) {
  struct core *core = net->core;
  if (core->id != 0 || core->mail == NULL) {
    return;
  }
  for (u32 i = 0; i < net->nic_count; i++) {
    struct nic *nic = &net->nic[i];
    struct word w = {.what = WHAT_FACE, .nic = i, .face = face_of(nic)};
    if (memcmp(&w.face, &nic->face_sent, sizeof w.face) == 0) {
      continue;
    }
    if (tell(core, &w)) {
      nic->face_sent = w.face;
    }
  }
}

void follow_learned(struct nic *nic, struct ip_addr address, const u8 mac[6]) {
  struct core *core = nic->net->core;
  if (core->id != 0 || core->mail == NULL) {
    return;
  }
  struct word w = {.what = WHAT_NEIGHBOUR, .nic = nic->index, .neighbour = {.address = address}};
  memcpy(w.neighbour.mac, mac, sizeof w.neighbour.mac);
  (void)tell(core, &w);
}

void follow_ask(struct nic *nic, struct ip_addr address) {
  struct word w = {.what = WHAT_ASK, .nic = nic->index, .neighbour = {.address = address}};
  ASSERT(net_follows(nic->net));
  (void)send(nic->net->core, 0, &w);
}

static void take_face(struct nic *nic, const struct net_face *f) {
  if (nic->address != f->address) {
    memset(nic->arp, 0, sizeof nic->arp);
  }
  nic->address = f->address;
  nic->mask = f->mask;
  nic->gateway = f->gateway;
  nic->route_count = f->route_count;
  memcpy(nic->route, f->route, sizeof nic->route);
  nic->mtu = f->mtu;
  nic->prefix_len = f->prefix_len;
  nic->info.link_up = f->link_up;
}

static void take_face6(struct nic *nic, const struct net_face6 *f) {
  struct ip6_nic *v6 = &nic->ip6;
  v6->on = f->on;
  v6->hop_limit = f->hop_limit;
  v6->mtu = f->mtu;
  v6->gateway = f->gateway;
  v6->reachable_ms = 30000;
  v6->retrans_ms = 1000;
  memset(v6->address, 0, sizeof v6->address);
  memset(v6->prefix, 0, sizeof v6->prefix);
  v6->address_count = f->address_count;
  for (u32 i = 0; i < f->address_count; i++) {
    u64 preferred_ns = (f->deprecated >> i & 1) != 0 ? 0 : U64_MAX;
    v6->address[i] = (struct ip6_address){.address = f->address[i],
                                          .state = IP6_VALID,
                                          .preferred_ns = preferred_ns,
                                          .valid_ns = U64_MAX};
  }
  for (u32 i = 0; i < f->prefix_count; i++) {
    v6->prefix[i] = (struct ip6_prefix){f->prefix[i], f->prefix_len[i], U64_MAX};
  }
}

// Of core 0: the answer that is known, at once; else the wire's comes by follow_learned.
static void answer(struct core *core, u32 from, struct nic *nic, struct word *w) {
  struct ip_addr a = w->neighbour.address;
  bool known = ip_is4(a) ? arp_resolve(nic, ip_to4(a), w->neighbour.mac)
                         : nd_resolve(nic, a, w->neighbour.mac);
  if (known) {
    w->what = WHAT_NEIGHBOUR;
    (void)send(core, from, w);
  }
}

static void learn(struct nic *nic, struct ip_addr address, const u8 mac[6]) {
  if (ip_is4(address)) {
    arp_learn(nic, ip_to4(address), mac, true);
  } else {
    nd_told(nic, address, mac);
  }
}

static void take(struct core *core, u32 from, struct span body) {
  struct word w;
  ASSERT(body.len == sizeof w);
  memcpy(&w, body.ptr, sizeof w);
  ASSERT(w.nic < core->net->nic_count);
  struct nic *nic = &core->net->nic[w.nic];
  switch ((enum what)w.what) {
  case WHAT_FACE: take_face(nic, &w.face); break;
  case WHAT_ASK: answer(core, from, nic, &w); break;
  case WHAT_FACE6: take_face6(nic, &w.face6); break;
  case WHAT_NEIGHBOUR: learn(nic, w.neighbour.address, w.neighbour.mac); break;
  }
}

void follow_init(struct net *net) {
  if (net->core->mail != NULL) {
    mailbox_on(net->core, MAIL_NET, take, NULL);
  }
}
