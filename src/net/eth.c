// SPDX-License-Identifier: Apache-2.0
// Ethernet II and ARP (RFC 826, 5227). A gateway outside the subnet is asked for like any neighbour
// (on-link). Addresses are learned from ARP, and from received IP frames only while nothing better
// is known, so that the first SYN-ACK need not wait for a question.
#include "net/stack.h"

#define ARP_LEN 28u
#define ARP_FRESH_NS 60000000000ull  // then it is asked for again, still usable
#define ARP_ASK_NS 1000000000ull
#define ARP_TRIES 3u
#define ARP_DEFEND_NS 10000000000ull  // RFC 5227 1.1: DEFEND_INTERVAL

static const u8 broadcast_mac[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

void eth_write(const struct nic *nic, u8 *h, const u8 to[6], u16 type) {
  memcpy(h, to, 6);
  memcpy(h + 6, nic->info.mac, 6);
  store_be16(h + 12, type);
}

static struct arp_entry *arp_find(struct nic *nic, u32 address) {
  u32 set = (address * 2654435761u) >> 28 & (ARP_ENTRIES / ARP_WAYS - 1);
  for (u32 i = 0; i < ARP_WAYS; i++) {
    struct arp_entry *e = &nic->arp[set * ARP_WAYS + i];
    if (e->state != ARP_FREE && e->address == address) {
      return e;
    }
  }
  return NULL;
}

// A place for `address`: free, or the one that was not used for longest.
static struct arp_entry *arp_place(struct nic *nic, u32 address) {
  u32 set = (address * 2654435761u) >> 28 & (ARP_ENTRIES / ARP_WAYS - 1);
  struct arp_entry *best = &nic->arp[set * ARP_WAYS];
  for (u32 i = 0; i < ARP_WAYS; i++) {
    struct arp_entry *e = &nic->arp[set * ARP_WAYS + i];
    if (e->state == ARP_FREE) {
      best = e;
      break;
    }
    if (e->used_ns < best->used_ns) {
      best = e;
    }
  }
  *best = (struct arp_entry){.address = address, .used_ns = nic->net->core->now_ns};
  return best;
}

static void arp_send(struct nic *nic, u16 operation, const u8 to[6], u32 target,
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
  write_be32(&w, nic->address);
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
  arp_send(nic, 1, broadcast_mac, e->address, nobody);
}

void arp_announce(struct nic *nic) {  // RFC 5227 2.3
  static const u8 nobody[6];
  arp_send(nic, 1, broadcast_mac, nic->address, nobody);
}

void arp_learn(struct nic *nic, u32 address, const u8 mac[6], bool confirmed) {
  struct arp_entry *e = arp_find(nic, address);
  if (e != NULL && e->state == ARP_KNOWN && !confirmed) {
    return;
  }
  if (e == NULL) {
    e = arp_place(nic, address);
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
  u32 hop = (target & nic->mask) == (nic->address & nic->mask) || nic->gateway == 0 ? target
                                                                                    : nic->gateway;
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
    e = arp_place(nic, hop);
    e->state = ARP_ASKED;
    e->due = nic->arp_due = true;
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
    arp_announce(nic);
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
  if (nic->address == 0 || sender == 0 || (from[0] & 1) != 0) {
    return;
  }
  if (sender == nic->address) {
    if (memcmp(from, nic->info.mac, 6) != 0) {
      arp_conflict(nic);
    }
    return;
  }
  bool to_us = target == nic->address;
  if (to_us || arp_find(nic, sender) != NULL) {  // RFC 826: merge; add only when we are asked
    arp_learn(nic, sender, from, true);
  }
  if (to_us && operation == 1) {
    arp_send(nic, 2, from, sender, from);
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
