// SPDX-License-Identifier: Apache-2.0
// The disks of plat.h: every virtio-blk, and every disk and CD behind a virtio-scsi adapter, in the
// order of their places on PCI. Polled by whoever asks for completions; interrupts only end a halt.
#include "dev/virtio_blk.h"
#include "dev/virtio_scsi.h"
#include "plat/metal/parts.h"

#define BLK_MAX 4u
#define SCSI_MAX 2u
#define DISK_MAX (BLK_MAX + SCSI_MAX * VIRTIO_SCSI_LUNS)
#define POLL_NS 1000000ull
#define LOOK_NS 1000000000ull

static struct virtio_blk blks[BLK_MAX];
static struct virtio_scsi scsis[SCSI_MAX];
static u32 blk_count;
static u32 scsi_count;
static struct block *disks[DISK_MAX];
static u32 disk_count;

static void failed(const struct pci_dev *d, enum err e) {
  console_fmt("disk: the device at %02x:%02x.%x does not start: %s\n", d->bus, d->dev, d->fn,
              err_name(e));
}

static void add(struct block *b) {
  struct block_info i;
  block_info(b, &i);
  if (!i.flush && !i.read_only) {
    console_fmt(
        "WARNING: disk %s has no FLUSH: what it acknowledges need not survive a power cut\n",
        i.name);
  }
  disks[disk_count++] = b;
}

static void start_blk(const struct pci_dev *d) {
  struct virtio_blk *b = &blks[blk_count];
  struct metal_msi msi = metal_msi(0, pci_requester(d));
  char name[8];
  fmt_z(name, sizeof name, "blk%u", blk_count);
  enum err e = virtio_blk_open(b, d, &metal_dma_ops, name, msi.address, msi.data);
  if (e != ERR_OK) {
    failed(d, e);
    return;
  }
  blk_count++;
  virtio_blk_identify(b);
  add(&b->block);
}

static void start_scsi(const struct pci_dev *d) {
  struct virtio_scsi *h = &scsis[scsi_count];
  struct metal_msi msi = metal_msi(0, pci_requester(d));
  char name[8];
  fmt_z(name, sizeof name, "scsi%u", scsi_count);
  enum err e = virtio_scsi_open(h, d, &metal_dma_ops, name, msi.address, msi.data);
  if (e != ERR_OK) {
    failed(d, e);
    return;
  }
  scsi_count++;
  for (u32 i = 0; i < h->lun_count; i++) {
    add(&h->lun[i].block);
  }
}

void metal_disk_start(void) {
  for (u32 i = 0; i < metal_pci_count; i++) {
    if (virtio_blk_is(&metal_pci[i]) && blk_count < BLK_MAX) {
      start_blk(&metal_pci[i]);
    } else if (virtio_scsi_is(&metal_pci[i]) && scsi_count < SCSI_MAX) {
      start_scsi(&metal_pci[i]);
    }
  }
}

struct block *plat_disk(u32 nth) {
  return nth < disk_count ? disks[nth] : NULL;
}

// How long a halt may last: what a device holds has a deadline that somebody must look at, and a
// device without interrupts, or one that was busy, is asked again soon.
static u64 longest(bool work, bool soon, bool held) {
  return work ? 0 : soon ? POLL_NS : held ? LOOK_NS : U64_MAX;
}

u64 metal_disk_arm(bool want) {
  u64 all = U64_MAX;
  for (u32 i = 0; i < blk_count; i++) {
    struct virtio_blk *b = &blks[i];
    bool held = vq_outstanding(&b->q) != 0;
    bool work = virtio_blk_arm(b, want);
    all = MIN(all, longest(work, held && !b->virtio.interrupts, held));
  }
  for (u32 i = 0; i < scsi_count; i++) {
    struct virtio_scsi *h = &scsis[i];
    bool held = vq_outstanding(&h->request) != 0;
    bool again = false;
    for (u32 l = 0; l < h->lun_count; l++) {
      again = again || h->lun[l].again != 0;
    }
    bool work = virtio_scsi_arm(h, want);
    all = MIN(all, longest(work, again || (held && !h->virtio.interrupts), held));
  }
  return all;
}

void metal_disk_describe(struct writer *w) {
  for (u32 n = 0; n < disk_count; n++) {
    struct block_info i;
    block_info(disks[n], &i);
    fmt(w, "disk %s: %llu bytes, blocks of %u (medium %u, best %u), transfers up to %u KiB\n",
        i.name, (unsigned long long)i.len, i.block_len, i.physical_len, i.optimal_len,
        i.transfer_max >> 10);
    fmt(w, "disk %s: %s%s, flush %s, write cache %s, discard %llu, zero %llu bytes\n", i.name,
        i.read_only ? "read-only" : "writable", i.removable ? ", removable" : "",
        i.flush ? "yes" : "NO", i.write_cache ? "on" : "off", (unsigned long long)i.discard_max,
        (unsigned long long)i.zero_max);
    fmt(w, "disk %s: model \"%s\", serial \"%s\"\n", i.name, i.model, i.serial);
  }
  for (u32 n = 0; n < blk_count; n++) {
    fmt(w, "disk blk%u: virtio-blk %s, interrupts %s, queue %u\n", n,
        blks[n].virtio.legacy ? "legacy" : "modern",
        blks[n].virtio.interrupts ? "MSI-X" : "none (polled)", blks[n].q.size);
  }
  for (u32 n = 0; n < scsi_count; n++) {
    fmt(w, "disk scsi%u: virtio-scsi %s, interrupts %s, queue %u\n", n,
        scsis[n].virtio.legacy ? "legacy" : "modern",
        scsis[n].virtio.interrupts ? "MSI-X" : "none (polled)", scsis[n].request.size);
  }
}

static void put_driver(struct json_out *o, const char *of, const char *driver, bool legacy,
                       bool interrupts, u32 queue) {
  json_open(o, '{');
  json_field_string(o, "of", bytes_str(of));
  json_field_string(o, "driver", bytes_str(driver));
  json_field_bool(o, "legacy", legacy);
  json_field_bool(o, "interrupts", interrupts);
  json_field_int(o, "queue", queue);
  json_close(o, '}');
}

void metal_disk_facts(struct json_out *o) {
  char name[16];
  for (u32 n = 0; n < blk_count; n++) {
    fmt_z(name, sizeof name, "disk blk%u", n);
    put_driver(o, name, "virtio-blk", blks[n].virtio.legacy, blks[n].virtio.interrupts,
               blks[n].q.size);
  }
  for (u32 n = 0; n < scsi_count; n++) {
    fmt_z(name, sizeof name, "disk scsi%u", n);
    put_driver(o, name, "virtio-scsi", scsis[n].virtio.legacy, scsis[n].virtio.interrupts,
               scsis[n].request.size);
  }
}
