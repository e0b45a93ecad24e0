// SPDX-License-Identifier: Apache-2.0
#include "dev/virtio_net.h"

#define F_CSUM (1ull << 0)
#define F_GUEST_CSUM (1ull << 1)
#define F_MTU (1ull << 3)
#define F_MAC (1ull << 5)
#define F_GUEST_TSO4 (1ull << 7)
#define F_GUEST_TSO6 (1ull << 8)
#define F_HOST_TSO4 (1ull << 11)
#define F_HOST_TSO6 (1ull << 12)
#define F_MRG_RXBUF (1ull << 15)
#define F_STATUS (1ull << 16)
#define WANTED                                                                         \
  (F_CSUM | F_GUEST_CSUM | F_MTU | F_MAC | F_GUEST_TSO4 | F_GUEST_TSO6 | F_HOST_TSO4 | \
   F_HOST_TSO6 | F_MRG_RXBUF | F_STATUS | VIRTIO_F_INDIRECT | VIRTIO_F_EVENT_IDX |     \
   VIRTIO_F_ACCESS_PLATFORM | VIRTIO_F_ORDER_PLATFORM | VIRTIO_F_RING_RESET)

#define RX_QUEUE 0u
#define TX_QUEUE 1u
#define QUEUE_MAX 256u
#define HEADER_MAX 12u
#define HEADER_LEGACY 10u
#define HEADER_STRIDE 16u
#define FLAG_NEEDS_CSUM 1u
#define FLAG_DATA_VALID 2u
#define GSO_ECN 0x80u
#define CONFIG_MAC 0u
#define CONFIG_STATUS 6u
#define CONFIG_MTU 10u
#define STATUS_LINK_UP 1u
#define ETHERNET_MIN 14u
#define MTU_DEFAULT 1500u
#define MTU_MIN 576u   // plat.h promises it
#define MTU_VALID 68u  // less is no IPv4 link (RFC 791): the field is not set
#define CONFIG_TRIES 16u

bool virtio_net_is(const struct pci_dev *d) {
  return d->vendor == VIRTIO_VENDOR && (d->device == 0x1000 || d->device == 0x1041);
}

// What is offered and wanted, without what lacks its prerequisite (5.1.3.1). Without mergeable
// buffers a super-segment would need one buffer of 64 KiB: then none are asked for.
static u64 choose(u64 offered, bool legacy) {
  u64 f = offered & (legacy ? (WANTED & U32_MAX) | VIRTIO_F_ANY_LAYOUT : WANTED);
  if ((f & F_GUEST_CSUM) == 0 || (f & F_MRG_RXBUF) == 0) {
    f &= ~(F_GUEST_TSO4 | F_GUEST_TSO6);
  }
  if ((f & F_CSUM) == 0) {
    f &= ~(F_HOST_TSO4 | F_HOST_TSO6);
  }
  return f;
}

static void take_features(struct virtio_net *n) {
  u64 f = n->virtio.features;
  n->mergeable = (f & F_MRG_RXBUF) != 0;
  n->header_len = n->virtio.legacy && !n->mergeable ? HEADER_LEGACY : HEADER_MAX;
  n->header_apart = n->virtio.legacy && !n->mergeable && (f & VIRTIO_F_ANY_LAYOUT) == 0;
  n->tx_csum = (f & F_CSUM) != 0;
  n->tx_tso4 = (f & F_HOST_TSO4) != 0;
  n->tx_tso6 = (f & F_HOST_TSO6) != 0;
  n->has_status = (f & F_STATUS) != 0;
}

static void read_config(struct virtio_net *n) {
  u64 f = n->virtio.features;
  n->mtu = MTU_DEFAULT;
  if ((f & F_MTU) != 0) {
    u16 mtu = virtio_config16(&n->virtio, CONFIG_MTU);
    n->mtu = mtu < MTU_VALID ? MTU_DEFAULT : MAX(mtu, (u16)MTU_MIN);
  }
  if (!n->mergeable) {  // a frame must fit one buffer
    n->mtu = MIN(n->mtu, (u16)(VIRTIO_NET_BUF - 64));
  }
  u8 before = 0;
  for (u32 tries = 0; tries < CONFIG_TRIES && (f & F_MAC) != 0; tries++) {
    before = virtio_config_generation(&n->virtio);
    for (u32 i = 0; i < 6; i++) {
      n->mac[i] = virtio_config8(&n->virtio, CONFIG_MAC + i);
    }
    if (virtio_config_generation(&n->virtio) == before) {
      break;
    }
  }
}

static enum err make_queues(struct virtio_net *n, const struct dma_ops *ops) {
  TRY(virtio_queue(&n->virtio, RX_QUEUE, QUEUE_MAX, false, &n->rx));
  TRY(virtio_queue(&n->virtio, TX_QUEUE, QUEUE_MAX, true, &n->tx));
  // A chain may not be longer than its queue (2.7.5.3.1): the longest frame would never leave.
  if (n->tx.size < VIRTIO_NET_PARTS + 1 || n->rx.size < 2) {
    return ERR_UNSUPPORTED;
  }
  struct span headers = ops->alloc((usize)n->tx.size * HEADER_STRIDE);
  if (headers.len == 0) {
    return ERR_NO_MEMORY;
  }
  n->tx_headers = headers.ptr;
  n->tx_headers_phys = ops->phys_of(headers.ptr);
  return ERR_OK;
}

enum err virtio_net_open(struct virtio_net *n, const struct pci_dev *d, const struct dma_ops *ops,
                         u8 *rx_memory, u64 msi_address, u32 msi_data) {
  ASSERT(virtio_net_is(d));
  u64 offered = 0;
  *n = (struct virtio_net){.rx_memory = rx_memory, .rx_phys = ops->phys_of(rx_memory)};
  TRY(virtio_open(&n->virtio, d, ops, &offered));
  TRY(virtio_accept(&n->virtio, choose(offered, n->virtio.legacy), msi_address, msi_data));
  take_features(n);
  enum err e = make_queues(n, ops);
  if (e != ERR_OK) {
    virtio_fail(&n->virtio);
    return e;
  }
  read_config(n);
  virtio_start(&n->virtio);
  vq_interrupts(&n->rx, false);
  vq_interrupts(&n->tx, false);
  return ERR_OK;
}

bool virtio_net_link(const struct virtio_net *n) {
  return !n->dead &&
         (!n->has_status || (virtio_config16(&n->virtio, CONFIG_STATUS) & STATUS_LINK_UP) != 0);
}

// --- Receive

bool virtio_net_rx_give(struct virtio_net *n, u32 buf) {
  u64 phys = n->rx_phys + (u64)buf * VIRTIO_NET_BUF;
  void *token = n->rx_memory + (usize)buf * VIRTIO_NET_BUF;
  struct vq_part parts[2] = {{phys, VIRTIO_NET_BUF, true}, {0, 0, true}};
  if (n->header_apart) {
    parts[0].len = HEADER_LEGACY;
    parts[1] = (struct vq_part){phys + HEADER_STRIDE, VIRTIO_NET_BUF - HEADER_STRIDE, true};
  }
  return vq_add(&n->rx, parts, n->header_apart ? 2 : 1, token);
}

void virtio_net_rx_kick(struct virtio_net *n) {
  bool first = !n->rx_kicked && !n->dead;  // once in any case: some devices wait for it
  n->rx_kicked = true;
  if (vq_publish(&n->rx) || first) {
    virtio_notify(&n->virtio, RX_QUEUE);
  }
}

static u32 take_buffer(struct virtio_net *n, u32 *len) {
  void *token = NULL;
  bool got = vq_take(&n->rx, &token, len);
  if (!got) {
    n->dead = n->dead || n->rx.broken;
    return U32_MAX;
  }
  usize off = (usize)((u8 *)token - n->rx_memory);
  ASSERT(off % VIRTIO_NET_BUF == 0);
  return (u32)(off / VIRTIO_NET_BUF);
}

// The header's fields, as far as they may be believed.
static void read_header(const struct virtio_net *n, const u8 *h, struct virtio_net_rx *out) {
  u64 f = n->virtio.features;
  u8 gso = (u8)(h[1] & ~GSO_ECN);
  bool tso = (gso == 1 && (f & F_GUEST_TSO4) != 0) || (gso == 4 && (f & F_GUEST_TSO6) != 0);
  out->gso_size = tso ? load_le16(h + 4) : 0;
  out->csum_good = (f & F_GUEST_CSUM) != 0 && (h[0] & (FLAG_NEEDS_CSUM | FLAG_DATA_VALID)) != 0;
}

bool virtio_net_rx_take(struct virtio_net *n, struct virtio_net_rx *out, u32 *drop) {
  *drop = 0;
  if (vq_pending(&n->rx) == 0 || n->dead) {
    return false;
  }
  u32 len = 0;
  u32 buf = take_buffer(n, &len);
  if (buf == U32_MAX) {
    return false;
  }
  const u8 *h = n->rx_memory + (usize)buf * VIRTIO_NET_BUF;
  u32 count = n->mergeable ? load_le16(h + 10) : 1;
  u32 room = VIRTIO_NET_BUF - (n->header_apart ? HEADER_STRIDE - HEADER_LEGACY : 0);
  bool good = len >= n->header_len + ETHERNET_MIN && len <= room && count >= 1 &&
              count <= VIRTIO_NET_CHAIN && count - 1 <= vq_pending(&n->rx);
  out->count = 1;  // not the whole struct: most frames are one buffer
  out->first_off = n->header_apart ? HEADER_STRIDE : n->header_len;
  out->buf[0] = buf;
  out->len[0] = len - n->header_len;
  read_header(n, h, out);
  for (u32 i = 1; good && i < count; i++) {
    u32 more = take_buffer(n, &len);
    if (more == U32_MAX) {
      good = false;
      break;
    }
    out->buf[out->count] = more;
    out->len[out->count++] = len;
    good = len != 0 && len <= VIRTIO_NET_BUF;
  }
  if (!good) {
    n->rx_bad++;
    *drop = out->count;
    out->count = 0;
  }
  return true;
}

// --- Transmit

bool virtio_net_tx_add(struct virtio_net *n, const struct virtio_net_tx *t) {
  ASSERT(t->count != 0);
  ASSERT(t->count <= VIRTIO_NET_PARTS);
  if (n->dead || !vq_has_room(&n->tx, t->count + 1)) {
    return false;
  }
  u16 head = vq_next_head(&n->tx);
  u8 *h = n->tx_headers + (usize)head * HEADER_STRIDE;
  bool csum = t->csum_offset != 0;
  ASSERT(!csum || n->tx_csum);
  ASSERT(t->gso == 0 || csum);
  memset(h, 0, HEADER_MAX);
  h[0] = csum ? FLAG_NEEDS_CSUM : 0;
  h[1] = t->gso;
  store_le16(h + 2, t->gso == 0 ? 0 : (u16)MIN(t->parts[1].len, 0xffffu));  // all headers
  store_le16(h + 4, t->gso == 0 ? 0 : t->gso_size);
  store_le16(h + 6, csum ? t->csum_start : 0);
  store_le16(h + 8, csum ? t->csum_offset : 0);
  t->parts[0] =
      (struct vq_part){n->tx_headers_phys + (u64)head * HEADER_STRIDE, n->header_len, false};
  return vq_add(&n->tx, t->parts, t->count + 1, t->token);
}

void virtio_net_tx_kick(struct virtio_net *n) {
  if (vq_publish(&n->tx)) {
    virtio_notify(&n->virtio, TX_QUEUE);
  }
}

// What a dead device still held goes back to its owner, once the device is certain not to read it.
static bool reclaim(struct virtio_net *n, void **token) {
  ASSERT(n->dead);
  if (!n->stopped) {
    n->tx.broken = true;
    n->rx.broken = true;
    n->stopped = true;
    n->silent = virtio_stop(&n->virtio);
  }
  return n->silent && vq_reclaim(&n->tx, token);
}

bool virtio_net_tx_done(struct virtio_net *n, void **token) {
  u32 unused = 0;
  bool got = !n->dead && vq_take(&n->tx, token, &unused);
  n->dead = n->dead || n->tx.broken;
  return got || (n->dead && reclaim(n, token));
}

bool virtio_net_arm(struct virtio_net *n, bool want) {
  if (n->dead) {
    return false;
  }
  vq_interrupts(&n->rx, want);
  vq_interrupts(&n->tx, want && vq_outstanding(&n->tx) != 0);
  return vq_pending(&n->rx) != 0 || vq_pending(&n->tx) != 0;
}
