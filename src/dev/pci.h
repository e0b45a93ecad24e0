// SPDX-License-Identifier: Apache-2.0
// PCI configuration space, by memory (ECAM, PCI Express 3.0 7.2.2) or by ports 0xcf8/0xcfc, and a
// walk over every bus behind bridges that firmware has numbered.
#pragma once
#include "base/fmt.h"
#include "dev/dma.h"

#define PCI_DEVICES_MAX 64u
#define PCI_CAPS_MAX 48u  // of one function: 192 bytes, 4 each; a longer list is a loop

struct pci {
  const struct dma_ops *ops;
  u64 ecam_phys;  // 0 = by ports
  u8 bus_first;
  u8 bus_last;
  volatile u8 *ecam[256];  // a MiB a bus, mapped when first needed
};

struct pci_dev {
  struct pci *pci;
  u8 bus;
  u8 dev;
  u8 fn;
  u8 class_code;
  u8 subclass;
  u16 vendor;
  u16 device;
  u16 subsystem;
};

// What the function signs its messages with.
static inline u32 pci_requester(const struct pci_dev *d) {
  return (u32)d->bus << 8 | (u32)d->dev << 3 | d->fn;
}
void pci_init(struct pci *p, const struct dma_ops *ops, u64 ecam_phys, u8 bus_first, u8 bus_last);
u8 pci_read8(const struct pci_dev *d, u32 off);
u16 pci_read16(const struct pci_dev *d, u32 off);
u32 pci_read32(const struct pci_dev *d, u32 off);
void pci_write16(const struct pci_dev *d, u32 off, u16 v);
void pci_write32(const struct pci_dev *d, u32 off, u32 v);
// Is anybody there? Fills in who.
bool pci_identify(struct pci_dev *d);
// Every function found, up to max. Returns how many. From the first bus through bridges, or, which
// is some ten thousand reads, on every bus: a second root bus hangs below none of ours.
u32 pci_scan(struct pci *p, bool every_bus, struct pci_dev *out, u32 max);
// Where base address register idx (0-5) points; 0 when it is unassigned. *is_io: ports.
u64 pci_bar(const struct pci_dev *d, u32 idx, bool *is_io);
// Offset of the next capability `id` after `from` (0 = the first); 0 when there is none. A list may
// loop: whoever asks again from each find stops after PCI_CAPS_MAX.
u32 pci_capability(const struct pci_dev *d, u8 id, u32 from);
// Memory, I/O and bus mastering on, legacy interrupt off.
void pci_enable(const struct pci_dev *d);

// One message for every entry of the MSI-X table, all unmasked. False when there is no MSI-X, or no
// message (address 0).
bool pci_msix_enable(const struct pci_dev *d, u64 address, u32 data);
void pci_describe(const struct pci_dev *d, struct writer *w);
