// SPDX-License-Identifier: Apache-2.0
// One walk in depth: a bridge gets the next bus number and everything behind it is placed before
// its neighbours, so that what a bridge must forward is one piece of each window.
//
// I1  Cursors only move forward; what does not fit stays unplaced (base 0), which drivers refuse.
// I2  Only bases on the first bus may lie above 4 GiB: a bridge's plain window does not reach
//     there.
#include "dev/pci_assign.h"

#define REG_COMMAND 0x04u
#define REG_HEADER 0x0eu
#define REG_BAR0 0x10u
#define REG_BUSES 0x18u
#define REG_IO_RANGE 0x1cu
#define REG_MEMORY_RANGE 0x20u
#define REG_PREFETCH_RANGE 0x24u
#define COMMAND_ALL 0x7u
#define BAR_IO 1u
#define BAR_64 4u
#define RANGE_NONE 0x0000fff0u  // base above limit
#define BRIDGE_MEMORY_STEP 0x100000ull
#define BRIDGE_IO_STEP 0x1000ull
#define FUNCTIONS 256u

struct cursor {
  u64 next;
  u64 end;
};

struct level {
  struct pci_dev bridge;  // whose secondary bus this is; unused on the first
  u8 bus;
  u32 next_fn;
  u64 memory_from;
  u64 io_from;
};

struct walk {
  struct pci *pci;
  struct cursor memory;
  struct cursor memory_64;
  struct cursor io;
  u32 depth;
  u8 last_bus;
  struct level level[PCI_DEPTH_MAX];
};

static struct cursor cursor_of(const struct pci_window *w) {
  return (struct cursor){w->bus, w->bus + w->len};
}

// `len` bytes, aligned to len, a power of two; 0 when they do not fit.
static u64 take(struct cursor *c, u64 len) {
  u64 at = ALIGN_UP(c->next, len);
  if (at < c->next || at > c->end || len > c->end - at) {
    return 0;
  }
  c->next = at + len;
  return at;
}

static void align(struct cursor *c, u64 step) {
  c->next = MIN(ALIGN_UP(c->next, step), c->end);
}

// Places one base register; returns how many of them it takes up.
static u32 place(struct walk *w, const struct pci_dev *d, u32 idx) {
  u32 off = REG_BAR0 + 4 * idx;
  pci_write32(d, off, U32_MAX);
  u32 low = pci_read32(d, off);
  if ((low & BAR_IO) != 0) {
    u32 len = (~(low & ~3u) + 1) & 0xffff;
    pci_write32(d, off, len == 0 ? 0 : (u32)take(&w->io, len));
    return 1;
  }
  bool wide = (low & 6) == BAR_64;
  u64 mask = low & ~15u;
  if (wide) {
    pci_write32(d, off + 4, U32_MAX);
    mask |= (u64)pci_read32(d, off + 4) << 32;
  } else {
    mask |= mask == 0 ? 0 : 0xffffffffull << 32;
  }
  u64 len = mask == 0 ? 0 : ~mask + 1;
  u64 at = 0;
  if (IS_POWER_OF_TWO(len)) {
    at = take(&w->memory, len);
    if (at == 0 && wide && w->depth == 0) {
      at = take(&w->memory_64, len);
    }
  }
  pci_write32(d, off, (u32)at);
  if (wide) {
    pci_write32(d, off + 4, (u32)(at >> 32));
  }
  return wide ? 2 : 1;
}

static void place_all(struct walk *w, const struct pci_dev *d, u32 count) {
  for (u32 i = 0; i < count;) {
    i += place(w, d, i);
  }
}

// Opens the way to the bus behind a bridge, for now up to the last bus there can be.
static void descend(struct walk *w, const struct pci_dev *bridge) {
  struct level *l = &w->level[++w->depth];
  w->last_bus++;
  align(&w->memory, BRIDGE_MEMORY_STEP);
  align(&w->io, BRIDGE_IO_STEP);
  *l = (struct level){
      .bridge = *bridge, .bus = w->last_bus, .memory_from = w->memory.next, .io_from = w->io.next};
  pci_write32(bridge, REG_BUSES, bridge->bus | (u32)w->last_bus << 8 | (u32)w->pci->bus_last << 16);
}

static void ascend(struct walk *w) {
  struct level *l = &w->level[w->depth--];
  const struct pci_dev *b = &l->bridge;
  align(&w->memory, BRIDGE_MEMORY_STEP);
  align(&w->io, BRIDGE_IO_STEP);
  u32 memory = RANGE_NONE;
  if (w->memory.next > l->memory_from) {
    memory = (u32)(l->memory_from >> 16 & 0xfff0) | (u32)((w->memory.next - 1) >> 16 & 0xfff0)
                                                        << 16;
  }
  u16 io = 0x00f0;
  if (w->io.next > l->io_from) {
    io = (u16)((l->io_from >> 8 & 0xf0) | ((w->io.next - 1) & 0xf000));
  }
  pci_write32(b, REG_BUSES, b->bus | (u32)l->bus << 8 | (u32)w->last_bus << 16);
  pci_write32(b, REG_MEMORY_RANGE, memory);
  pci_write32(b, REG_PREFETCH_RANGE, RANGE_NONE);
  pci_write16(b, REG_IO_RANGE, io);
  pci_write16(b, REG_COMMAND, COMMAND_ALL);
}

// Has somebody placed registers on the first bus?
static bool is_placed(struct pci *p) {
  for (u32 i = 0; i < FUNCTIONS; i++) {
    struct pci_dev d = {.pci = p, .bus = p->bus_first, .dev = (u8)(i / 8), .fn = (u8)(i % 8)};
    bool is_io = false;
    for (u32 k = 0; pci_identify(&d) && (pci_read8(&d, REG_HEADER) & 0x7f) == 0 && k < 6; k++) {
      if (pci_bar(&d, k, &is_io) != 0) {
        return true;
      }
    }
  }
  return false;
}

static void visit(struct walk *w, struct level *l) {
  u32 i = l->next_fn++;
  struct pci_dev d = {.pci = w->pci, .bus = l->bus, .dev = (u8)(i / 8), .fn = (u8)(i % 8)};
  if (!pci_identify(&d)) {
    l->next_fn += d.fn == 0 ? 7 : 0;  // without function 0 there is no device
    return;
  }
  u8 header = pci_read8(&d, REG_HEADER);
  l->next_fn += d.fn == 0 && (header & 0x80) == 0 ? 7 : 0;
  if ((header & 0x7f) == 0) {
    place_all(w, &d, 6);
  } else if ((header & 0x7f) == 1) {
    place_all(w, &d, 2);
    if (w->depth + 1 < PCI_DEPTH_MAX && w->last_bus < w->pci->bus_last) {
      descend(w, &d);
    }
  }
}

bool pci_assign(struct pci *p, const struct pci_windows *w) {
  if (is_placed(p)) {
    return false;
  }
  static const struct pci_window none;
  struct walk k = {
      .pci = p,
      .memory = cursor_of(w->memory.bus == w->memory.phys ? &w->memory : &none),
      .memory_64 = cursor_of(w->memory_64.bus == w->memory_64.phys ? &w->memory_64 : &none),
      .io = cursor_of(&w->io),
      .last_bus = p->bus_first};
  k.level[0].bus = p->bus_first;
  align(&k.io, BRIDGE_IO_STEP);
  if (k.io.next == 0) {
    k.io.next = MIN(BRIDGE_IO_STEP, k.io.end);  // port 0 would say "not placed"
  }
  for (;;) {
    struct level *l = &k.level[k.depth];
    if (l->next_fn < FUNCTIONS) {
      visit(&k, l);
    } else if (k.depth > 0) {
      ascend(&k);
    } else {
      return true;
    }
  }
}
