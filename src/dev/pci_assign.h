// SPDX-License-Identifier: Apache-2.0
// Numbers the buses and places the registers of every PCI function, where no firmware has done so
// (a kernel started without any, as by QEMU's -kernel on aarch64). PCI Local Bus 3.0 6.2.5,
// PCI-to-PCI Bridge 1.2 3.2.5.
#pragma once
#include "dev/pci.h"

#define PCI_DEPTH_MAX 8u  // bridges behind each other; deeper ones stay closed

struct pci_window {
  u64 bus;   // address on the bus
  u64 len;   // 0 = there is none
  u64 phys;  // the same place as the processor sees it
};

struct pci_windows {
  struct pci_window memory;     // below 4 GiB
  struct pci_window memory_64;  // may be above
  struct pci_window io;
};

// Memory windows must show the same address on both sides (others are not used). False, and nothing
// is changed, when some function of the first bus has its registers placed already.
bool pci_assign(struct pci *p, const struct pci_windows *w);
