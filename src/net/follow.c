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

enum what { WHAT_FACE, WHAT_ASK, WHAT_NEIGHBOUR };

struct word {
  u32 what;
  u32 nic;
  struct net_face face;  // WHAT_FACE
  u32 address;           // the others
  u8 mac[6];
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
  return (struct net_face){.address = nic->address,
                           .mask = nic->mask,
                           .gateway = nic->gateway,
                           .mtu = nic->mtu,
                           .prefix_len = nic->prefix_len,
                           .link_up = nic->info.link_up};
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
    bool all = true;
    for (u32 to = 1; to < mailbox_cores(core); to++) {
      all &= send(core, to, &w);
    }
    if (all) {
      nic->face_sent = w.face;
    }
  }
}

void follow_learned(struct nic *nic, u32 address, const u8 mac[6]) {
  struct core *core = nic->net->core;
  if (core->id != 0 || core->mail == NULL) {
    return;
  }
  struct word w = {.what = WHAT_NEIGHBOUR, .nic = nic->index, .address = address};
  memcpy(w.mac, mac, sizeof w.mac);
  for (u32 to = 1; to < mailbox_cores(core); to++) {
    (void)send(core, to, &w);
  }
}

void follow_ask(struct nic *nic, u32 address) {
  struct word w = {.what = WHAT_ASK, .nic = nic->index, .address = address};
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
  nic->mtu = f->mtu;
  nic->prefix_len = f->prefix_len;
  nic->info.link_up = f->link_up;
}

// Of core 0: the answer that is known, at once; else the wire's comes by follow_learned.
static void answer(struct core *core, u32 from, struct nic *nic, struct word *w) {
  if (arp_resolve(nic, w->address, w->mac)) {
    w->what = WHAT_NEIGHBOUR;
    (void)send(core, from, w);
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
  case WHAT_NEIGHBOUR: arp_learn(nic, w.address, w.mac, true); break;
  }
}

void follow_init(struct net *net) {
  if (net->core->mail != NULL) {
    mailbox_on(net->core, MAIL_NET, take, NULL);
  }
}
