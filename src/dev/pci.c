// SPDX-License-Identifier: Apache-2.0
#include "dev/pci.h"

#include "arch/cpu.h"

#define REG_COMMAND 0x04u
#define REG_STATUS 0x06u
#define REG_CLASS 0x08u
#define REG_HEADER 0x0eu
#define REG_BAR0 0x10u
#define REG_SECONDARY 0x19u
#define REG_SUBSYSTEM 0x2eu
#define REG_CAPABILITIES 0x34u
#define COMMAND_IO_MEMORY_MASTER 0x7u
#define COMMAND_NO_INTX 0x400u
#define STATUS_CAPABILITIES 0x10u
#define HEADER_MANY 0x80u
#define CAP_MSIX 0x11u
#define MSIX_ENABLE 0x8000u
#define MSIX_MASK_ALL 0x4000u

void pci_init(struct pci *p, const struct dma_ops *ops, u64 ecam_phys, u8 bus_first, u8 bus_last) {
  ASSERT(ops != NULL);
  ASSERT(bus_first <= bus_last);
  *p = (struct pci){
      .ops = ops, .ecam_phys = ecam_phys, .bus_first = bus_first, .bus_last = bus_last};
}

// The function's configuration space in memory, or NULL: then by ports.
static volatile u8 *space(const struct pci_dev *d) {
  struct pci *p = d->pci;
  if (p->ecam_phys == 0) {
    return NULL;
  }
  if (p->ecam[d->bus] == NULL) {
    u64 phys = p->ecam_phys + ((u64)d->bus << 20);
    p->ecam[d->bus] = p->ops->map_mmio(phys, 1u << 20);
  }
  volatile u8 *bus = p->ecam[d->bus];
  return bus == NULL ? NULL : bus + ((u32)d->dev << 15) + ((u32)d->fn << 12);
}

static u32 by_ports(const struct pci_dev *d, u32 off, u32 width) {
  ASSERT(off < 256);
  return cpu_config_read(d->bus, d->dev, d->fn, off, width);
}

u8 pci_read8(const struct pci_dev *d, u32 off) {
  volatile u8 *p = space(d);
  return p != NULL ? cpu_mmio_read8(p + off) : (u8)by_ports(d, off, 1);
}

u16 pci_read16(const struct pci_dev *d, u32 off) {
  volatile u8 *p = space(d);
  return p != NULL ? cpu_mmio_read16(p + off) : (u16)by_ports(d, off, 2);
}

u32 pci_read32(const struct pci_dev *d, u32 off) {
  volatile u8 *p = space(d);
  return p != NULL ? cpu_mmio_read32(p + off) : by_ports(d, off, 4);
}

void pci_write16(const struct pci_dev *d, u32 off, u16 v) {
  volatile u8 *p = space(d);
  if (p != NULL) {
    cpu_mmio_write16(p + off, v);
  } else {
    ASSERT(off < 256);
    cpu_config_write(d->bus, d->dev, d->fn, off, 2, v);
  }
}

void pci_write32(const struct pci_dev *d, u32 off, u32 v) {
  volatile u8 *p = space(d);
  if (p != NULL) {
    cpu_mmio_write32(p + off, v);
  } else {
    ASSERT(off < 256);
    cpu_config_write(d->bus, d->dev, d->fn, off, 4, v);
  }
}

bool pci_identify(struct pci_dev *d) {
  u32 id = pci_read32(d, 0);
  if ((id & 0xffff) == 0xffff || (id & 0xffff) == 0) {
    return false;
  }
  u32 class_word = pci_read32(d, REG_CLASS);
  d->vendor = (u16)id;
  d->device = (u16)(id >> 16);
  d->class_code = (u8)(class_word >> 24);
  d->subclass = (u8)(class_word >> 16);
  d->subsystem = pci_read16(d, REG_SUBSYSTEM);
  return true;
}

u32 pci_scan(struct pci *p, bool every_bus, struct pci_dev *out, u32 max) {
  u8 todo[256] = {p->bus_first};  // buses in the order in which they were found
  bool known[256] = {false};
  u32 todo_count = 1;
  u32 found = 0;
  known[p->bus_first] = true;
  for (u32 bus = p->bus_first + 1u; every_bus && bus <= p->bus_last; bus++) {
    known[bus] = true;
    todo[todo_count++] = (u8)bus;
  }
  for (u32 at = 0; at < todo_count; at++) {
    for (u32 i = 0; i < 32 * 8 && found < max; i++) {
      struct pci_dev d = {.pci = p, .bus = todo[at], .dev = (u8)(i / 8), .fn = (u8)(i % 8)};
      if (!pci_identify(&d)) {
        i |= d.fn == 0 ? 7 : 0;  // without function 0 there is no device
        continue;
      }
      u8 header = pci_read8(&d, REG_HEADER);
      out[found++] = d;
      u8 below = (header & 0x7f) == 1 ? pci_read8(&d, REG_SECONDARY) : 0;
      if (below > p->bus_first && below <= p->bus_last && !known[below] && todo_count < 256) {
        known[below] = true;
        todo[todo_count++] = below;
      }
      i |= d.fn == 0 && (header & HEADER_MANY) == 0 ? 7 : 0;
    }
  }
  return found;
}

u64 pci_bar(const struct pci_dev *d, u32 idx, bool *is_io) {
  ASSERT(idx < 6);
  u32 low = pci_read32(d, REG_BAR0 + 4 * idx);
  *is_io = (low & 1) != 0;
  if (*is_io) {
    return low & 0xfffcu;
  }
  u64 at = low & ~15u;
  if ((low >> 1 & 3) == 2 && idx < 5) {
    at |= (u64)pci_read32(d, REG_BAR0 + 4 * idx + 4) << 32;
  }
  return at;
}

u32 pci_capability(const struct pci_dev *d, u8 id, u32 from) {
  if ((pci_read16(d, REG_STATUS) & STATUS_CAPABILITIES) == 0) {
    return 0;
  }
  u32 at = pci_read8(d, from == 0 ? REG_CAPABILITIES : from + 1) & 0xfcu;
  for (u32 i = 0; i < PCI_CAPS_MAX && at >= 0x40; i++) {
    if (pci_read8(d, at) == id) {
      return at;
    }
    at = pci_read8(d, at + 1) & 0xfcu;
  }
  return 0;
}

void pci_enable(const struct pci_dev *d) {
  u16 command = pci_read16(d, REG_COMMAND);
  pci_write16(d, REG_COMMAND, command | COMMAND_IO_MEMORY_MASTER | COMMAND_NO_INTX);
}

bool pci_msix_enable(const struct pci_dev *d, u64 address, u32 data) {
  u32 cap = address == 0 ? 0 : pci_capability(d, CAP_MSIX, 0);
  if (cap == 0) {
    return false;
  }
  u16 control = pci_read16(d, cap + 2);
  u32 where = pci_read32(d, cap + 4);
  u32 entries = (control & 0x7ffu) + 1;
  bool is_io = false;
  u64 bar = (where & 7) < 6 ? pci_bar(d, where & 7, &is_io) : 0;
  if (bar == 0 || is_io) {
    return false;
  }
  volatile u8 *table = d->pci->ops->map_mmio(bar + (where & ~7u), entries * 16);
  if (table == NULL) {
    return false;
  }
  pci_write16(d, cap + 2, (u16)(control | MSIX_ENABLE | MSIX_MASK_ALL));
  for (u32 i = 0; i < entries; i++) {
    volatile u8 *entry = table + 16 * i;
    cpu_mmio_write32(entry, (u32)address);
    cpu_mmio_write32(entry + 4, (u32)(address >> 32));
    cpu_mmio_write32(entry + 8, data);
    cpu_mmio_write32(entry + 12, 0);
  }
  pci_write16(d, cap + 2, (u16)((control | MSIX_ENABLE) & ~MSIX_MASK_ALL));
  return true;
}

void pci_describe(const struct pci_dev *d, struct writer *w) {
  fmt(w, "pci: %02x:%02x.%x %04x:%04x class %02x%02x\n", d->bus, d->dev, d->fn, d->vendor,
      d->device, d->class_code, d->subclass);
}
