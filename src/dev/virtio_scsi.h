// SPDX-License-Identifier: Apache-2.0
// virtio-scsi (virtio 1.2, 5.6), one request queue: each disk or CD behind it is a block device.
//
// I1  The tag of a command is unique as long as the adapter lives (5.6.6.1).
// I2  A unit attention repeats the command and has the size read again; so has an event of the
//     adapter, a lost one too (5.6.6.3).
// I3  After a deadline: ABORT TASK, then LOGICAL UNIT RESET, then a reset of the adapter; whatever
//     ends so is LOST. An adapter that does not finish its reset is dead, and what it held never
//     completes.
#pragma once
#include "dev/requests.h"
#include "dev/scsi.h"
#include "dev/virtio_pci.h"

#define VIRTIO_SCSI_LUNS 4u  // of one adapter
#define VIRTIO_SCSI_EVENTS 8u

struct virtio_scsi;

struct virtio_scsi_lun {
  struct block block;  // first: what the outside holds
  struct virtio_scsi *host;
  struct scsi_facts scsi;
  struct block_info facts;
  struct requests requests;
  u64 again;  // held slots that are not with the adapter: they are to be given (again)
  u64 tag[BLOCK_INFLIGHT_MAX];
  bool reread;   // the size is to be read
  bool reading;  // it is being read, by a slot of its own
  u32 idx;       // in the adapter's list
  u8 address[8];
};

struct virtio_scsi {
  struct virtio virtio;
  struct vq control;
  struct vq event;
  struct vq request;
  struct virtio_scsi_lun lun[VIRTIO_SCSI_LUNS];
  u32 lun_count;
  u8 *memory;  // of each slot of each LUN, then of events, the control request, the answer, zeros
  u64 memory_phys;
  u64 next_tag;
  bool tmf_busy;
  bool dead;
  u32 sectors_max;  // 512 bytes each, of one transfer
  u32 resets;
  u32 aborts;
};

bool virtio_scsi_is(const struct pci_dev *d);
// Starts the adapter and finds its disks and CDs. name: "scsi0"; a LUN's name adds its target and
// number. Errors as virtio_open. No disk is no error.
enum err virtio_scsi_open(struct virtio_scsi *h, const struct pci_dev *d, const struct dma_ops *ops,
                          const char *name, u64 msi_address, u32 msi_data);
bool virtio_scsi_arm(struct virtio_scsi *h, bool want);

// --- between virtio_scsi.c and virtio_scsi_probe.c

// One command of up to SCSI_ANSWER_MAX bytes of answer, waited for (while starting only). ERR_IO:
// refused or failed; ERR_TIMEOUT; *attention: it is to be repeated.
enum err virtio_scsi_command(struct virtio_scsi *h, const u8 address[8], const u8 cdb[SCSI_CDB_LEN],
                             u32 answer_len, struct bytes *answer, bool *attention);
void virtio_scsi_address(u8 address[8], u32 target, u32 lun);
void virtio_scsi_find(struct virtio_scsi *h, u32 target_max, const char *name);
void virtio_scsi_facts(struct virtio_scsi_lun *l);  // block_info out of scsi_facts
void virtio_scsi_attach(struct virtio_scsi_lun *l);
