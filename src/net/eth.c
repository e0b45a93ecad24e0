// SPDX-License-Identifier: Apache-2.0
// Ethernet II and ARP (RFC 826, 5227). A gateway outside the subnet is asked for like any neighbour
// (on-link). Addresses are learned from ARP, and from received IP frames only while nothing better
// is known, so that the first SYN-ACK need not wait for a question.
#include "net/stack.h"

#define ARP_LEN 28u
#define ARP_FRESH_NS 60000000000ull  // then it is asked for again, still usable
#define ARP_ASK_NS 1000000000ull
#define ARP_TRIES 3u
#define ARP_KEEP_NS (60 * SECOND_NS)
#define ARP_ASKED_MAX 2u
#define ARP_ANNOUNCE_NS (2 * SECOND_NS)  // RFC 5227 1.1: ANNOUNCE_INTERVAL
#define ARP_DEFEND_NS 10000000000ull     // RFC 5227 1.1: DEFEND_INTERVAL

static const u8 broadcast_mac[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

void eth_write(const struct nic *nic, u8 *h, const u8 to[6], u16 type) {
  memcpy(h, to, 6);
  memcpy(h + 6, nic->info.mac, 6);
  store_be16(h + 12, type);
}

static struct arp_entry *arp_set(struct nic *nic, u32 address) {
  u32 set = (address * 2654435761u) >> 16 & (ARP_ENTRIES / ARP_WAYS - 1);
  return &nic->arp[set * ARP_WAYS];
}

static struct arp_entry *arp_find(struct nic *nic, u32 address) {
  struct arp_entry *set = arp_set(nic, address);
  for (u32 i = 0; i < ARP_WAYS; i++) {
    if (set[i].state != ARP_FREE && set[i].address == address) {
      return &set[i];
    }
  }
  return NULL;
}

static struct arp_entry *older(struct arp_entry *a, struct arp_entry *b) {
  return b == NULL || a->used_ns < b->used_ns ? a : b;
}

// A place for `address`; NULL: none gives way. Who was sent to lately gives way only to a question
// of ours, and questions take at most ARP_ASKED_MAX places: a storm takes nobody's place.
static struct arp_entry *arp_place(struct nic *nic, u32 address, bool asked) {
  struct arp_entry *set = arp_set(nic, address);
  struct arp_entry *unused = NULL;
  struct arp_entry *known = NULL;
  struct arp_entry *question = NULL;
  u32 questions = 0;
  for (u32 i = 0; i < ARP_WAYS; i++) {
    struct arp_entry *e = &set[i];
    if (e->state == ARP_FREE) {
      unused = e;
    } else if (e->state == ARP_ASKED) {
      questions++;
      question = older(e, question);
    } else {
      known = older(e, known);
    }
  }
  u64 now = nic->net->core->now_ns;
  bool idle = known != NULL && (known->used_ns == 0 || now - known->used_ns > ARP_KEEP_NS);
  struct arp_entry *e = unused != NULL ? unused : asked || idle ? known : NULL;
  e = asked && questions >= ARP_ASKED_MAX ? question : e;
  if (e != NULL) {
    *e = (struct arp_entry){.address = address, .used_ns = asked ? now : 0};
  }
  return e;
}

static void arp_send(struct nic *nic, u16 operation, const u8 to[6], u32 sender, u32 target,
                     const u8 target_mac[6]) {
  struct frame f;
  if (!tx_begin(nic, &f)) {
    return;
  }
  u8 *h = f.slot->headers;
  eth_write(nic, h, to, ETH_ARP);
  struct writer w = writer_init(span_of(h + ETH_LEN, ARP_LEN));
  write_be16(&w, 1);  // Ethernet
  write_be16(&w, ETH_IP4);
  write_be16(&w, 0x0604);
  write_be16(&w, operation);
  write_bytes(&w, bytes_of(nic->info.mac, 6));
  write_be32(&w, sender);
  write_bytes(&w, bytes_of(target_mac, 6));
  write_be32(&w, target);
  ASSERT(w.err == ERR_OK);
  tx_commit(nic, &f, ETH_LEN + ARP_LEN);
}

static void arp_ask(struct nic *nic, struct arp_entry *e) {
  static const u8 nobody[6];
  e->since_ns = nic->net->core->now_ns;
  e->due = false;
  e->tries++;
  if (net_follows(nic->net)) {
    follow_ask(nic, ip_of4(e->address));
    return;
  }
  arp_send(nic, 1, broadcast_mac, nic->address, e->address, nobody);
}

static void announce(struct nic *nic) {
  static const u8 nobody[6];
  arp_send(nic, 1, broadcast_mac, nic->address, nic->address, nobody);
}

void arp_announce(struct nic *nic) {
  nic->announce_ns = nic->net->core->now_ns + ARP_ANNOUNCE_NS;
  announce(nic);
}

void arp_probe(struct nic *nic, u32 target) {
  static const u8 nobody[6];
  arp_send(nic, 1, broadcast_mac, 0, target, nobody);
}

void arp_learn(struct nic *nic, u32 address, const u8 mac[6], bool confirmed) {
  struct arp_entry *e = arp_find(nic, address);
  if (e != NULL && e->state == ARP_KNOWN && !confirmed) {
    return;
  }
  if (e == NULL) {
    e = arp_place(nic, address, false);
  }
  if (e == NULL) {
    return;
  }
  memcpy(e->mac, mac, 6);
  e->state = ARP_KNOWN;
  e->tries = 0;
  e->since_ns = nic->net->core->now_ns;
  if (confirmed) {
    follow_learned(nic, ip_of4(address), mac);
  }
}

bool arp_resolve(struct nic *nic, u32 target, u8 mac[6]) {
  if (target == U32_MAX || (nic->prefix_len < 31 && target == (nic->address | ~nic->mask))) {
    memcpy(mac, broadcast_mac, 6);
    return true;
  }
  u32 hop = ip4_hop(nic, target);
  u64 now = nic->net->core->now_ns;
  struct arp_entry *e = arp_find(nic, hop);
  if (e != NULL && e->state == ARP_KNOWN) {
    e->used_ns = now;
    if (now - e->since_ns > ARP_FRESH_NS && e->tries == 0) {
      e->due = nic->arp_due = true;
    }
    memcpy(mac, e->mac, 6);
    return true;
  }
  if (e == NULL) {
    e = arp_place(nic, hop, true);
    if (e != NULL) {
      e->state = ARP_ASKED;
      e->due = nic->arp_due = true;
    }
  }
  return false;
}

// Asks what arp_resolve found missing: that runs while another frame is being made.
void arp_flush(struct nic *nic) {
  if (!nic->arp_due) {
    return;
  }
  nic->arp_due = false;
  for (u32 i = 0; i < ARP_ENTRIES; i++) {
    if (nic->arp[i].due) {
      arp_ask(nic, &nic->arp[i]);
    }
  }
}

void arp_tick(struct nic *nic) {
  u64 now = nic->net->core->now_ns;
  if (nic->announce_ns != 0 && now >= nic->announce_ns) {
    nic->announce_ns = 0;
    if (nic->address != 0) {
      announce(nic);
    }
  }
  for (u32 i = 0; i < ARP_ENTRIES; i++) {
    struct arp_entry *e = &nic->arp[i];
    bool waiting = e->state == ARP_ASKED || (e->state == ARP_KNOWN && e->tries > 0);
    if (!waiting || now - e->since_ns < ARP_ASK_NS) {
      continue;
    }
    if (e->tries >= ARP_TRIES) {
      e->state = ARP_FREE;
    } else {
      arp_ask(nic, e);
    }
  }
}

// RFC 5227 2.4 (b): somebody else uses our address. It is defended by an announcement, at most one
// in ten seconds, so that two hosts that both defend do not fill the network.
static void arp_conflict(struct nic *nic) {
  u64 now = nic->net->core->now_ns;
  net_drop(nic->net, DROP_SOURCE);
  if (nic->defended_ns == 0 || now - nic->defended_ns >= ARP_DEFEND_NS) {
    nic->defended_ns = now;
    announce(nic);
  }
}

static void arp_input(struct nic *nic, struct bytes in) {
  struct reader r = reader_init(in);
  u16 hardware = read_be16(&r);
  u16 protocol = read_be16(&r);
  u16 lengths = read_be16(&r);
  u16 operation = read_be16(&r);
  struct part mac = read_part(&r, 6);
  u32 sender = read_be32(&r);
  (void)read_part(&r, 6);
  u32 target = read_be32(&r);
  if (r.err != ERR_OK || hardware != 1 || protocol != ETH_IP4 || lengths != 0x0604) {
    net_drop(nic->net, DROP_SHORT);
    return;
  }
  const u8 *from = in.ptr + mac.off;
  bool other = memcmp(from, nic->info.mac, 6) != 0;
  if (nic->address == 0 && other) {  // RFC 5227 2.1.1: in use, or probed by another at this time
    dhcp_conflict(nic, sender != 0 ? sender : target);
  }
  if (nic->address == 0 || (from[0] & 1) != 0) {
    return;
  }
  if (sender == 0) {  // a probe: answered like any question, nothing is learned
    if (target == nic->address && operation == 1 && other) {
      arp_send(nic, 2, from, nic->address, 0, from);
    }
    return;
  }
  if (sender == nic->address) {
    if (other) {
      arp_conflict(nic);
    }
    return;
  }
  bool to_us = target == nic->address;
  if (to_us || arp_find(nic, sender) != NULL) {  // RFC 826: merge; add only when we are asked
    arp_learn(nic, sender, from, true);
  }
  if (to_us && operation == 1) {
    arp_send(nic, 2, from, nic->address, sender, from);
  }
}

void eth_input(struct nic *nic, struct rxbuf *frame) {
  struct net *net = nic->net;
  net->stats.rx_frames++;
  net->stats.rx_bytes += frame->frame_len;
  if (frame->len < ETH_LEN) {
    net_drop(net, DROP_SHORT);
    plat_rx_release(net->core->id, frame);
    return;
  }
  bool ours = memcmp(frame->data, nic->info.mac, 6) == 0 || (frame->data[0] & 1) != 0;
  u16 type = load_be16(frame->data + 12);
  if (ours && type == ETH_IP4) {
    ip4_input(nic, frame);
    return;
  }
  if (ours && type == ETH_IP6) {
    ip6_input(nic, frame);
    return;
  }
  if (ours && type == ETH_ARP) {
    arp_input(nic, bytes_of(frame->data + ETH_LEN, frame->len - ETH_LEN));
  } else {
    net_drop(net, ours ? DROP_PROTOCOL : DROP_NOT_OURS);
  }
  plat_rx_release(net->core->id, frame);
}
