// SPDX-License-Identifier: Apache-2.0
// The network half of plat.h: finds every virtio-net on PCI, keeps the receive buffers, turns
// frames of the driver into those of the contract and back.
//
// I1  A buffer is in exactly one place: the free list, a device's ring, or with the program.
// I2  Nothing here waits: full rings mean "not now", and the program asks again each turn.
// I3  Core 0 has the queues. Frames of other cores' connections are handed to them (plat/steer.h);
//     what they send comes by an outbox each and goes out with core 0's turn, or when it wakes.
#include "base/assert.h"
#include "dev/virtio_net.h"
#include "plat/metal/parts.h"
#include "plat/outbox.h"
#include "plat/steer.h"

#define BUFS_MIN 768u
#define BUFS_MAX 8192u
#define SENT_MAX 256u       // a queue holds no more
#define RAM_SHARE 16u       // receive buffers take at most this part of the memory
#define POLL_NS 1000000ull  // without interrupts: how long a halt may last

struct sent {  // in the device, with several cores
  void *token;
  u32 core;
  struct sent *next;  // free ones
};

struct nic {
  struct virtio_net net;
  struct outbox *outbox;  // of each core but core 0; NULL: one core
  struct sent *free_sent;
  u32 turn;  // whose outbox comes first
  struct rxbuf *bufs;
  struct rxbuf *free;
  u32 buf_count;
};

static struct nic nics[PLAT_NIC_MAX];
static u32 nic_count;

static bool make_buffers(struct nic *n) {
  u64 share = metal_boot->ram_bytes / RAM_SHARE / VIRTIO_NET_BUF;
  n->buf_count = (u32)MIN(MAX(share, (u64)BUFS_MIN), (u64)BUFS_MAX);
  struct span memory = metal_dma((usize)n->buf_count * VIRTIO_NET_BUF);
  struct span heads = metal_dma((usize)n->buf_count * sizeof(struct rxbuf));
  if (memory.len == 0 || heads.len == 0) {
    return false;
  }
  n->net.rx_memory = memory.ptr;
  n->bufs = (struct rxbuf *)(void *)heads.ptr;
  for (u32 i = n->buf_count; i-- > 0;) {
    n->bufs[i].id = i;
    n->bufs[i].next = n->free;
    n->free = &n->bufs[i];
  }
  return true;
}

u32 metal_nic_lend(void) {
  u64 share = metal_boot->ram_bytes / RAM_SHARE / VIRTIO_NET_BUF;
  return (u32)MIN(MAX(share, (u64)BUFS_MIN), (u64)BUFS_MAX) / (2 * plat_core_count());
}

static bool make_outboxes(struct nic *n) {
  u32 cores = plat_core_count();
  if (cores == 1) {
    return true;
  }
  struct span boxes = metal_dma(cores * sizeof(struct outbox));
  struct span sent = metal_dma(SENT_MAX * sizeof(struct sent));
  n->outbox = (struct outbox *)(void *)boxes.ptr;
  struct sent *all = (struct sent *)(void *)sent.ptr;
  for (u32 i = 0; i < SENT_MAX && all != NULL; i++) {
    all[i].next = n->free_sent;
    n->free_sent = &all[i];
  }
  return boxes.ptr != NULL && sent.ptr != NULL;
}

static void refill(struct nic *n) {
  while (n->free != NULL && virtio_net_rx_give(&n->net, n->free->id)) {
    n->free = n->free->next;
  }
  virtio_net_rx_kick(&n->net);
}

static void start_nic(const struct pci_dev *d) {
  struct nic *n = &nics[nic_count];
  *n = (struct nic){0};
  if (!make_buffers(n) || !make_outboxes(n)) {
    plat_console(BYTES_LIT("network: not enough memory for receive buffers\n"));
    return;
  }
  struct metal_msi msi = metal_msi(0, pci_requester(d));
  enum err e = virtio_net_open(&n->net, d, &metal_dma_ops, n->net.rx_memory, msi.address, msi.data);
  if (e != ERR_OK) {
    console_fmt("network: the device at %02x:%02x.%x does not start: %s\n", d->bus, d->dev, d->fn,
                err_name(e));
    return;
  }
  if ((n->net.mac[0] | n->net.mac[1] | n->net.mac[2] | n->net.mac[3] | n->net.mac[4] |
       n->net.mac[5]) == 0) {
    (void)plat_random(span_of(n->net.mac, 6));
    n->net.mac[0] = (u8)((n->net.mac[0] & 0xfc) | 2);  // locally administered, unicast
  }
  nic_count++;
  refill(n);
}

void metal_nic_start(void) {
  for (u32 i = 0; i < metal_pci_count && nic_count < PLAT_NIC_MAX; i++) {
    if (virtio_net_is(&metal_pci[i])) {
      start_nic(&metal_pci[i]);
    }
  }
  if (nic_count == 0) {
    plat_console(BYTES_LIT("network: no virtio-net device found\n"));
  }
}

void metal_nic_facts(struct json_out *o) {
  for (u32 i = 0; i < nic_count; i++) {
    const struct virtio_net *n = &nics[i].net;
    char name[16];
    json_open(o, '{');
    json_field_string(o, "of", bytes_of(name, fmt_z(name, sizeof name, "network %u", i)));
    json_field_string(o, "driver", BYTES_LIT("virtio-net"));
    json_field_bool(o, "legacy", n->virtio.legacy);
    json_field_bool(o, "interrupts", n->virtio.interrupts);
    json_field_int(o, "receive_queue", n->rx.size);
    json_field_int(o, "transmit_queue", n->tx.size);
    json_field_bool(o, "merged_buffers", n->mergeable);
    json_close(o, '}');
  }
}

u32 plat_nic_count(void) {
  return nic_count;
}

void plat_nic_info(u32 nic, struct plat_nic *out) {
  ASSERT(nic < nic_count);
  const struct virtio_net *n = &nics[nic].net;
  *out = (struct plat_nic){.mtu = n->mtu,
                           .link_up = virtio_net_link(n),
                           .tx_csum = n->tx_csum,
                           .tx_tso4 = n->tx_tso4,
                           .tx_tso6 = n->tx_tso6};
  memcpy(out->mac, n->mac, sizeof out->mac);
}

static struct rxbuf *chain_of(struct nic *n, u32 nic, const struct virtio_net_rx *f) {
  u32 frame_len = 0;
  for (u32 i = 0; i < f->count; i++) {
    struct rxbuf *b = &n->bufs[f->buf[i]];
    u32 off = i == 0 ? f->first_off : 0;
    b->next = i + 1 < f->count ? &n->bufs[f->buf[i + 1]] : NULL;
    b->data = n->net.rx_memory + (usize)f->buf[i] * VIRTIO_NET_BUF + off;
    b->len = f->len[i];
    b->nic = (u8)nic;
    frame_len += f->len[i];
  }
  struct rxbuf *first = &n->bufs[f->buf[0]];
  first->frame_len = frame_len;
  first->frame_gso_size = f->gso_size;
  first->frame_csum = f->csum_good ? RX_CSUM_GOOD : RX_CSUM_UNKNOWN;
  return first;
}

static void put_back(struct nic *n, u32 buf) {
  ASSERT(buf < n->buf_count);
  n->bufs[buf].next = n->free;
  n->free = &n->bufs[buf];
}

static void put_chain(struct rxbuf *chain) {
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    ASSERT(chain->nic < nic_count);
    put_back(&nics[chain->nic], chain->id);
    chain = next;
  }
}

// Of core 0, from its own queue: what is other cores' is put aside.
static u32 poll(u32 nic, struct rxbuf *frames[], u32 max) {
  struct nic *n = &nics[nic];
  struct virtio_net_rx f;
  struct rxbuf *dropped = NULL;
  u32 drop = 0;
  u32 got = 0;
  for (u32 i = 0; i < max && got < max && virtio_net_rx_take(&n->net, &f, &drop); i++) {
    for (u32 k = 0; k < drop; k++) {
      put_back(n, f.buf[k]);
    }
    if (f.count != 0) {
      struct rxbuf *frame = chain_of(n, nic, &f);
      if (steer_is_mine(0, frame, &dropped)) {
        frames[got++] = frame;
      } else if (dropped != NULL) {
        put_chain(dropped);
        dropped = NULL;
      }
    }
  }
  return got;
}

static bool add(struct nic *n, struct vq_part *parts, const struct tx_frame *f, void *token) {
  static const u8 gso_of[] = {[GSO_NONE] = 0, [GSO_TCP4] = 1, [GSO_TCP6] = 4};
  ASSERT(f->part_count <= PLAT_TX_PARTS);
  for (u32 i = 0; i < f->part_count; i++) {
    parts[i + 1] = (struct vq_part){metal_phys_of(f->part[i].ptr), (u32)f->part[i].len, false};
  }
  struct virtio_net_tx t = {.parts = parts,
                            .count = f->part_count,
                            .csum_start = f->csum_start,
                            .csum_offset = f->csum_offset,
                            .gso = gso_of[f->gso],
                            .gso_size = f->gso_size,
                            .token = token};
  return virtio_net_tx_add(&n->net, &t);
}

// With several cores the device's token says whose frame it was.
static bool add_of(struct nic *n, struct vq_part *parts, const struct tx_frame *f, u32 core) {
  struct sent *s = n->free_sent;
  if (n->outbox == NULL) {
    return add(n, parts, f, f->token);
  }
  if (s == NULL || !add(n, parts, f, s)) {
    return false;
  }
  n->free_sent = s->next;
  s->token = f->token;
  s->core = core;
  return true;
}

static void send_for_others(struct nic *n) {
  struct vq_part parts[PLAT_TX_PARTS + 1];
  u32 cores = plat_core_count();
  bool room = n->outbox != NULL;
  bool any = false;
  for (u32 i = 0; room && i < cores; i++) {
    u32 core = (n->turn + i) % cores;
    struct outbox *o = &n->outbox[core];
    const struct tx_frame *f = NULL;
    while (room && core != 0 && (f = outbox_next(o)) != NULL) {
      room = add_of(n, parts, f, core);
      if (room) {
        outbox_take(o);
        any = true;
      }
    }
  }
  n->turn++;
  if (any) {
    virtio_net_tx_kick(&n->net);
  }
}

u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  ASSERT(nic < nic_count);
  u32 got = steer_take(core, nic, frames, max);
  if (core == 0) {
    put_chain(steer_back(0));
    got += got < max ? poll(nic, frames + got, max - got) : 0;
    refill(&nics[nic]);
    send_for_others(&nics[nic]);
  }
  steer_send(core);
  return got;
}

void plat_rx_release(u32 core, struct rxbuf *chain) {
  put_chain(steer_release(core, chain));
}

u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count) {
  ASSERT(nic < nic_count);
  struct nic *n = &nics[nic];
  if (core != 0) {
    u32 put = outbox_put(&n->outbox[core], frames, count);
    steer_wake(0);
    return put;
  }
  struct vq_part parts[PLAT_TX_PARTS + 1];  // here, as the compiler clears it: once a batch
  u32 taken = 0;
  while (taken < count && add_of(n, parts, &frames[taken], 0)) {
    taken++;
  }
  virtio_net_tx_kick(&n->net);
  return taken;
}

// The next token of core 0's own; others' go home on the way.
static bool next_done(struct nic *n, void **token) {
  while (virtio_net_tx_done(&n->net, token)) {
    struct sent *s = *token;
    if (n->outbox == NULL) {
      return true;
    }
    *token = s->token;
    s->next = n->free_sent;
    n->free_sent = s;
    if (s->core == 0) {
      return true;
    }
    outbox_return(&n->outbox[s->core], s->token);
  }
  return false;
}

u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max) {
  ASSERT(nic < nic_count);
  if (core != 0) {
    return outbox_done(&nics[nic].outbox[core], tokens, max);
  }
  u32 got = 0;
  while (got < max && next_done(&nics[nic], &tokens[got])) {
    got++;
  }
  return got;
}

static u64 arm(bool want) {
  u64 longest = U64_MAX;
  for (u32 i = 0; i < nic_count; i++) {
    if (want) {
      refill(&nics[i]);
    }
    if (virtio_net_arm(&nics[i].net, want)) {
      longest = 0;
    } else if (!nics[i].net.virtio.interrupts) {
      longest = MIN(longest, POLL_NS);
    }
  }
  return longest;
}

static bool outboxes_wait(void) {
  bool any = false;
  for (u32 i = 0; i < nic_count && nics[i].outbox != NULL; i++) {
    for (u32 k = 1; k < plat_core_count(); k++) {
      any |= outbox_waits(&nics[i].outbox[k]);
    }
  }
  return any;
}

u64 metal_nic_sleep(u32 core) {
  bool starved = false;
  for (u32 i = 0; i < nic_count && core == 0; i++) {
    starved |= nics[i].free == NULL;
  }
  if (!steer_sleep(core, starved)) {
    return 0;
  }
  if (core != 0) {
    return U64_MAX;
  }
  return outboxes_wait() ? 0 : arm(true);
}

void metal_nic_awake(u32 core) {
  steer_awake(core);
  if (core == 0) {
    (void)arm(false);
  }
}
