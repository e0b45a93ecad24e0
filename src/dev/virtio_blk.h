// SPDX-License-Identifier: Apache-2.0
// virtio-blk (virtio 1.2, 5.2), one queue, modern and legacy, as a block device.
//
// I1  Units of the device's fields are 512 bytes whatever its logical block is (5.2.4).
// I2  A limit that the device does not state is taken as the smallest: without SEG_MAX a transfer
//     is one segment. A discard or write-zeroes limit of 0 means that there is none.
// I3  The used length is not looked at: devices understate it (2.7.8.2) and legacy ones may say
//     anything; whether it worked is said by the status byte alone, which is preset to nonsense.
// I4  After a deadline the device is reset and started again; what it held is LOST. A device that
//     does not finish its reset is dead, and what it held never completes.
#pragma once
#include "dev/requests.h"
#include "dev/virtio_pci.h"

struct virtio_blk {
  struct block block;  // first: what the outside holds
  struct virtio virtio;
  struct vq q;
  struct requests requests;
  struct block_info facts;
  u8 *memory;  // of each slot: header, discard segment, status
  u64 memory_phys;
  u32 segment_max;  // bytes
  u32 segments_max;
  u64 looked_ns;  // at the configuration
  u32 resets;
};

bool virtio_blk_is(const struct pci_dev *d);
// name: for messages, copied. ERR_UNSUPPORTED, ERR_TIMEOUT, ERR_IO, ERR_NO_MEMORY as virtio_open;
// ERR_UNSUPPORTED also for a device whose queue is too short for one request.
enum err virtio_blk_open(struct virtio_blk *b, const struct pci_dev *d, const struct dma_ops *ops,
                         const char *name, u64 msi_address, u32 msi_data);
// Asks for the serial number, for info, and waits for it; right after opening, before anything is
// submitted. A device that does not say it has none; one that does not answer is started again.
void virtio_blk_identify(struct virtio_blk *b);
// Before a halt (true): asks for an interrupt, and returns whether there is work already. After it
// (false): none wanted.
bool virtio_blk_arm(struct virtio_blk *b, bool want);
