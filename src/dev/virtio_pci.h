// SPDX-License-Identifier: Apache-2.0
// virtio over PCI (virtio 1.2, 4.1): modern devices by their capabilities, legacy ones (0.9.5, I/O
// ports) where there are no capabilities. A transitional device is driven as a modern one.
// Order of life: virtio_open → virtio_accept → virtio_queue … → virtio_start.
#pragma once
#include "dev/pci.h"
#include "dev/virtqueue.h"

#define VIRTIO_VENDOR 0x1af4u
#define VIRTIO_F_ANY_LAYOUT (1ull << 27)
#define VIRTIO_F_INDIRECT (1ull << 28)
#define VIRTIO_F_EVENT_IDX (1ull << 29)
#define VIRTIO_F_VERSION_1 (1ull << 32)
#define VIRTIO_F_ACCESS_PLATFORM (1ull << 33)
#define VIRTIO_F_ORDER_PLATFORM (1ull << 36)
#define VIRTIO_F_RING_RESET (1ull << 40)

struct virtio {
  struct pci_dev pci;
  const struct dma_ops *ops;
  bool legacy;
  bool msix;            // MSI-X is on, whether or not its vectors work: legacy registers move
  bool interrupts;      // the queues have a vector; else the driver must look by itself
  u16 io;               // legacy: port of the registers
  volatile u8 *common;  // modern
  volatile u8 *notify;
  volatile u8 *config;
  u32 notify_len;
  u32 config_len;
  u32 notify_multiplier;
  u32 notify_off[4];  // of each queue, bytes
  u64 features;       // accepted
};

// Resets the device and reads what it offers. ERR_UNSUPPORTED: no usable registers; ERR_TIMEOUT: it
// does not finish its reset; ERR_IO: legacy registers read as all ones.
enum err virtio_open(struct virtio *v, const struct pci_dev *d, const struct dma_ops *ops,
                     u64 *offered);
// Accepts features (a subset of what was offered; VERSION_1 is added for modern devices) and turns
// MSI-X on. ERR_UNSUPPORTED: the device refuses (virtio 1.2 3.1.1 step 6).
enum err virtio_accept(struct virtio *v, u64 features, u64 msi_address, u32 msi_data);
// Makes queue idx with at most size_max entries (a legacy device's size is fixed). indirect: give
// it tables when the feature was accepted. ERR_UNSUPPORTED: no such queue; ERR_NO_MEMORY.
enum err virtio_queue(struct virtio *v, u32 idx, u16 size_max, bool indirect, struct vq *out);
void virtio_start(struct virtio *v);
// After a device lost its way: resets it and accepts the same features. Each queue is then made
// again in its old memory, and virtio_start comes last. ERR_TIMEOUT: it does not finish its reset;
// ERR_UNSUPPORTED: it is not the device it was.
enum err virtio_restart(struct virtio *v);
enum err virtio_queue_again(struct virtio *v, u32 idx, struct vq *q);
void virtio_notify(struct virtio *v, u32 idx);
void virtio_fail(struct virtio *v);  // tells the device that it is given up
// Stops the device for good: after true it touches no memory of ours (2.4.2). False: it does not
// finish its reset, and what it was given must stay untouched.
bool virtio_stop(struct virtio *v);
// Device configuration; 0 beyond its end.
u8 virtio_config8(const struct virtio *v, u32 off);
u16 virtio_config16(const struct virtio *v, u32 off);
u32 virtio_config32(const struct virtio *v, u32 off);
// Changes whenever the configuration does: read before and after fields that belong together
// (2.5.1). Legacy devices have none.
u8 virtio_config_generation(const struct virtio *v);
