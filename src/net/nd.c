// SPDX-License-Identifier: Apache-2.0
// Neighbours (RFC 4861 7): who has which MAC, asked for when needed and again after it was not
// heard of for a while. A packet to a neighbour that is only asked for is dropped, as with ARP: TCP
// sends it again, and whoever speaks to us first has told us where he is.
//
// N1  Who was sent to within ND_KEEP_NS gives way only to a question of ours, and questions take at
//     most ND_ASKED_MAX of the places an address may take: a storm evicts other storms' entries.
// N2  A question of ours goes out when the turn ends: nd_resolve runs while a frame is being made.
#include "net/stack.h"

#define ND_KEEP_NS (60 * SECOND_NS)
#define ND_DELAY_NS (5 * SECOND_NS)  // RFC 4861 10: DELAY_FIRST_PROBE_TIME
#define ND_TRIES 3u                  // MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT
#define ND_RATE 500u                 // advertisements a second in answer to questions

enum { NA_ROUTER = 0x80, NA_SOLICITED = 0x40, NA_OVERRIDE = 0x20 };

static u64 now_of(const struct nic *nic) {
  return nic->net->core->now_ns;
}

static struct nd_entry *set_of(struct nic *nic, struct ip_addr address) {
  u64 h = siphash(&nic->net->core->hash_key, bytes_of(&address, sizeof address));
  return &nic->ip6.nd[h % (ND_ENTRIES / ND_WAYS) * ND_WAYS];
}

static struct nd_entry *find(struct nic *nic, struct ip_addr address) {
  struct nd_entry *set = set_of(nic, address);
  for (u32 i = 0; i < ND_WAYS; i++) {
    if (set[i].state != ND_FREE && ip_equal(set[i].address, address)) {
      return &set[i];
    }
  }
  return NULL;
}

bool nd_known(const struct nic *nic, struct ip_addr address) {
  const struct nd_entry *e = find((struct nic *)nic, address);
  return e != NULL && e->state != ND_INCOMPLETE;
}

// Whether `a` gives way before `b`.
static bool goes_first(const struct nd_entry *a, const struct nd_entry *b) {
  return b == NULL || a->used_ns < b->used_ns;
}

// A place for `address`, N1; NULL: none gives way.
static struct nd_entry *place(struct nic *nic, struct ip_addr address, bool asked) {
  struct nd_entry *set = set_of(nic, address);
  struct nd_entry *unused = NULL;
  struct nd_entry *known = NULL;
  struct nd_entry *oldest_asked = NULL;
  u32 asked_count = 0;
  for (u32 i = 0; i < ND_WAYS; i++) {
    struct nd_entry *e = &set[i];
    if (e->state == ND_FREE) {
      unused = e;
    } else if (e->state == ND_INCOMPLETE) {
      asked_count++;
      oldest_asked = goes_first(e, oldest_asked) ? e : oldest_asked;
    } else {
      known = goes_first(e, known) ? e : known;
    }
  }
  bool idle = known != NULL && (known->used_ns == 0 || now_of(nic) - known->used_ns > ND_KEEP_NS);
  struct nd_entry *e = unused != NULL ? unused : asked || idle ? known : NULL;
  e = asked && asked_count >= ND_ASKED_MAX ? oldest_asked : e;
  if (e != NULL) {
    *e = (struct nd_entry){.address = address};
  }
  return e;
}

// --- out

// A solicitation or advertisement: fixed part, one link-layer option of ours when `option` is not
// 0.
static void send(struct nic *nic, struct icmp6_out *m, u8 type, u8 flags, struct ip_addr target,
                 u8 option) {
  u8 body[32] = {type, 0, 0, 0, flags};
  ip_store6(body + 8, target);
  body[24] = option;
  body[25] = 1;
  memcpy(body + 26, nic->info.mac, 6);
  m->hop_limit = 255;
  m->body = bytes_of(body, option != 0 ? 32 : 24);
  icmp6_send(nic, m);
}

void nd_probe(struct nic *nic, struct ip_addr target) {
  struct icmp6_out m = {.source = IP_NONE, .target = ip6_solicited(target)};
  send(nic, &m, ICMP6_NS, 0, target, 0);
}

void nd_advertise(struct nic *nic, const struct ip6_address *a) {
  struct icmp6_out m = {.source = a->address, .target = IP6_ALL_NODES};
  send(nic, &m, ICMP6_NA, NA_OVERRIDE, a->address, 2);
}

static void ask(struct nic *nic, struct nd_entry *e) {
  bool direct = e->state == ND_PROBE;
  struct icmp6_out m = {.source = ip6_source(nic, e->address),
                        .target = direct ? e->address : ip6_solicited(e->address),
                        .mac = direct ? e->mac : NULL};
  e->due = false;
  e->tries++;
  e->next_ns = now_of(nic) + nic->ip6.retrans_ms * MS_NS;
  if (net_follows(nic->net)) {
    follow_ask(nic, e->address);
    return;
  }
  if (!ip_is_none(m.source)) {
    send(nic, &m, ICMP6_NS, 0, e->address, 1);
  }
}

bool nd_resolve(struct nic *nic, struct ip_addr hop, u8 mac[6]) {
  u64 now = now_of(nic);
  struct nd_entry *e = find(nic, hop);
  if (e == NULL) {
    e = place(nic, hop, true);
    if (e != NULL) {
      e->state = ND_INCOMPLETE;
      e->used_ns = now;
      e->due = nic->ip6.nd_due = true;
    }
    return false;
  }
  e->used_ns = now;
  if (e->state == ND_INCOMPLETE) {
    return false;
  }
  if (e->state == ND_STALE || (e->state == ND_REACHABLE && now >= e->next_ns)) {
    e->state = ND_DELAY;
    e->next_ns = now + ND_DELAY_NS;
  }
  memcpy(mac, e->mac, 6);
  return true;
}

void nd_flush(struct nic *nic) {
  if (!nic->ip6.nd_due) {
    return;
  }
  nic->ip6.nd_due = false;
  for (u32 i = 0; i < ND_ENTRIES; i++) {
    if (nic->ip6.nd[i].due) {
      ask(nic, &nic->ip6.nd[i]);
    }
  }
}

void nd_tick(struct nic *nic) {
  u64 now = now_of(nic);
  for (u32 i = 0; i < ND_ENTRIES; i++) {
    struct nd_entry *e = &nic->ip6.nd[i];
    bool waits = e->state == ND_INCOMPLETE || e->state == ND_DELAY || e->state == ND_PROBE;
    if (!waits || e->due || now < e->next_ns) {
      continue;
    }
    if (e->state == ND_DELAY) {
      e->state = ND_PROBE;
      e->tries = 0;
    }
    if (e->tries >= ND_TRIES) {
      e->state = ND_FREE;
      ra_router_failed(nic, e->address);
    } else {
      ask(nic, e);
    }
  }
}

// --- in

static void reachable(struct nic *nic, struct nd_entry *e) {
  e->state = ND_REACHABLE;
  e->tries = 0;
  e->next_ns = now_of(nic) + nic->ip6.reachable_ms * MS_NS;
  follow_learned(nic, e->address, e->mac);
}

// From core 0.
void nd_told(struct nic *nic, struct ip_addr address, const u8 mac[6]) {
  struct nd_entry *e = find(nic, address);
  e = e == NULL ? place(nic, address, false) : e;
  if (e != NULL) {
    memcpy(e->mac, mac, 6);
    e->due = false;
    reachable(nic, e);
  }
}

void nd_learn(struct nic *nic, struct ip_addr address, const u8 mac[6], bool router) {
  struct nd_entry *e = find(nic, address);
  if (e == NULL) {
    e = place(nic, address, false);
    if (e == NULL) {
      return;
    }
  } else if (e->state != ND_INCOMPLETE && memcmp(e->mac, mac, 6) == 0) {
    e->router |= router;
    return;
  }
  memcpy(e->mac, mac, 6);
  e->state = ND_STALE;
  e->due = false;
  e->router |= router;
}

// RFC 4861 7.2.3, RFC 4862 5.4.3.
static void solicited(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame,
                      const struct nd_message *m) {
  struct ip6_address *a = ip6_find(nic, m->target);
  bool probe = ip_is_none(ip->source);
  bool looped = memcmp(frame->data + 6, nic->info.mac, 6) == 0;
  if (a == NULL || looped || (probe && (m->has_source || !ip_is_multicast6(ip->target)))) {
    return;
  }
  if (probe && a->state == IP6_TENTATIVE) {
    ip6_conflict(nic, a);
    return;
  }
  if (a->state != IP6_VALID || !bucket_take(&nic->ip6.nd_bucket, now_of(nic), ND_RATE)) {
    return;
  }
  if (m->has_source) {
    nd_learn(nic, ip->source, m->source_mac, false);
  }
  struct icmp6_out out = {.source = a->address,
                          .target = probe ? IP6_ALL_NODES : ip->source,
                          .mac = m->has_source ? m->source_mac : NULL};
  send(nic, &out, ICMP6_NA, NA_OVERRIDE | (probe ? 0 : NA_SOLICITED), a->address, 2);
}

// RFC 4861 7.2.5.
static void take_advertisement(struct nic *nic, struct nd_entry *e, const struct nd_message *m) {
  bool differs = m->has_target && memcmp(m->target_mac, e->mac, 6) != 0;
  bool told = (m->flags & NA_SOLICITED) != 0;
  if (e->state == ND_INCOMPLETE) {
    if (!m->has_target) {
      return;
    }
    e->state = ND_STALE;
    e->due = false;
  } else if (differs && (m->flags & NA_OVERRIDE) == 0) {
    e->state = e->state == ND_REACHABLE ? ND_STALE : e->state;
    return;
  } else if (differs && !told) {
    e->state = ND_STALE;
  }
  if (m->has_target) {
    memcpy(e->mac, m->target_mac, 6);
  }
  if (told) {
    reachable(nic, e);
  }
  bool router = (m->flags & NA_ROUTER) != 0;
  if (e->router && !router) {
    ra_router_gone(nic, e->address);
  }
  e->router = router;
}

static void advertised(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame,
                       const struct nd_message *m) {
  if (ip_is_multicast6(ip->target) && (m->flags & NA_SOLICITED) != 0) {
    return;  // 7.1.2
  }
  struct ip6_address *a = ip6_find(nic, m->target);
  struct nd_entry *e = find(nic, m->target);
  if (a != NULL) {
    if (memcmp(frame->data + 6, nic->info.mac, 6) != 0) {
      ip6_conflict(nic, a);
    }
  } else if (e != NULL) {
    take_advertisement(nic, e, m);
  }
}

void nd_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame, struct bytes in) {
  struct nd_message m;
  if (!nd_message_parse(in, &m) || (m.type != ICMP6_RS && ip_is_multicast6(m.target))) {
    net_drop(nic->net, DROP_SHORT);
  } else if (m.type == ICMP6_NS) {
    solicited(nic, ip, frame, &m);
  } else if (m.type == ICMP6_NA) {
    advertised(nic, ip, frame, &m);
  }
}
