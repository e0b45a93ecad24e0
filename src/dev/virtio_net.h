// SPDX-License-Identifier: Apache-2.0
// virtio-net (virtio 1.2, 5.1), one queue pair, modern and legacy. Frames come and go as buffers by
// number and parts by address; whoever uses it keeps the buffers (plat/metal/nic.c).
//
// I1  Lengths from the device are cut to what was given to it; a frame that does not fit its
//     announced buffers is dropped whole.
// I2  Offloads are used only when accepted, and their prerequisites with them (5.1.3.1).
#pragma once
#include "dev/virtio_pci.h"

#define VIRTIO_NET_BUF 4096u  // bytes of a receive buffer, header included
#define VIRTIO_NET_PARTS 22u  // of a frame to send, without the header
#define VIRTIO_NET_CHAIN 20u  // buffers of a received frame, at most

struct virtio_net_rx {
  u32 count;
  u32 buf[VIRTIO_NET_CHAIN];
  u32 len[VIRTIO_NET_CHAIN];  // bytes of the frame in each
  u32 first_off;              // where the frame begins in the first buffer
  u16 gso_size;               // 0, or the frame is a super-segment
  bool csum_good;
};

struct virtio_net_tx {
  struct vq_part
      *parts;  // count + 1; the first is the driver's, for its header; device_writes false
  u32 count;   // the caller's parts
  u16 csum_start;
  u16 csum_offset;  // both 0: no offload
  u16 gso_size;
  u8 gso;  // 0 none, 1 TCP over IPv4, 4 TCP over IPv6 (5.1.6)
  void *token;
};

struct virtio_net {
  struct virtio virtio;
  struct vq rx;
  struct vq tx;
  u8 *rx_memory;  // buffers, VIRTIO_NET_BUF each
  u64 rx_phys;
  u8 *tx_headers;
  u64 tx_headers_phys;
  u32 header_len;
  bool mergeable;
  bool header_apart;  // legacy without ANY_LAYOUT: the header has its own descriptor
  bool tx_csum;
  bool tx_tso4;
  bool tx_tso6;
  bool has_status;
  bool rx_kicked;
  bool dead;     // the device broke its side; nothing is given or taken any more
  bool stopped;  // and was reset,
  bool silent;   // which it finished
  u16 mtu;
  u8 mac[6];
  u64 rx_bad;  // frames dropped because the device's numbers did not fit
};

// rx_memory: rx_count buffers of VIRTIO_NET_BUF in one block from ops->alloc.
enum err virtio_net_open(struct virtio_net *n, const struct pci_dev *d, const struct dma_ops *ops,
                         u8 *rx_memory, u64 msi_address, u32 msi_data);
bool virtio_net_is(const struct pci_dev *d);
bool virtio_net_link(const struct virtio_net *n);

// Gives buffer `buf` to the device; false when the ring is full. virtio_net_rx_kick shows them.
bool virtio_net_rx_give(struct virtio_net *n, u32 buf);
void virtio_net_rx_kick(struct virtio_net *n);
// Takes the next frame. False: none complete. A frame with count 0 was unusable: its buffers are in
// buf[0..drop) and go back by virtio_net_rx_give.
bool virtio_net_rx_take(struct virtio_net *n, struct virtio_net_rx *out, u32 *drop);
// Queues a frame; false when there is no room.
bool virtio_net_tx_add(struct virtio_net *n, const struct virtio_net_tx *t);
void virtio_net_tx_kick(struct virtio_net *n);
// Tokens of frames that the device has read; of a dead device all that it held, after its reset.
bool virtio_net_tx_done(struct virtio_net *n, void **token);
// Before a halt (true): asks for interrupts, and returns whether there is work already. After it
// (false): none wanted.
bool virtio_net_arm(struct virtio_net *n, bool want);
