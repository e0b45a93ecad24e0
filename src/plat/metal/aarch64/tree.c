// SPDX-License-Identifier: Apache-2.0
// The machine by its device tree (Devicetree Specification 0.4 and Linux's bindings): PL011, PL031,
// GIC with v2m or ITS, generic timer, PSCI, PCI host. Buses are taken to translate nothing, as on
// machines that start a kernel with a tree and no firmware.
#include "boot/fdt.h"
#include "plat/metal/aarch64/board.h"

#define INTERRUPT_PRIVATE 1u
#define TIMER_VIRTUAL 2u  // third of the timer's interrupts
#define KEY_POWER 116u
#define SPACE_IO 1u
#define SPACE_MEMORY_32 2u
#define SPACE_MEMORY_64 3u

static u32 cells_or(const struct fdt *f, const struct fdt_node *n, u32 idx) {
  return fdt_u32(f, n, "interrupts", idx, 0);
}

// Number of a GIC interrupt, which has three cells: private or shared, number, flags.
static u32 interrupt(const struct fdt *f, const struct fdt_node *n, u32 idx) {
  u32 number = cells_or(f, n, 3 * idx + 1);
  return cells_or(f, n, 3 * idx) == INTERRUPT_PRIVATE ? number + 16 : number + 32;
}

static bool enabled(const struct fdt *f, const struct fdt_node *n) {
  struct bytes status;
  return !fdt_property(f, n, "status", &status) || fdt_has_string(status, "okay") ||
         fdt_has_string(status, "ok");
}

static void add_redists(struct board *b, const struct fdt *f, const struct fdt_node *n) {
  u32 regions = fdt_u32(f, n, "#redistributor-regions", 0, 1);
  u64 start = 0;
  u64 len = 0;
  for (u32 i = 0; i < regions && b->redist_count < BOARD_REDIST_MAX; i++) {
    if (fdt_reg(f, n, i + 1, &start, &len)) {
      b->redist[b->redist_count++] = (struct boot_range){start, start + len};
    }
  }
}

static void read_bridge(struct board *b, const struct fdt *f, const struct fdt_node *n) {
  u64 start = 0;
  u64 len = 0;
  struct bytes v;
  if (!fdt_reg(f, n, 0, &start, &len) || len < 1u << 20 || b->ecam_count == ARRAY_COUNT(b->ecam)) {
    return;
  }
  u32 first = fdt_u32(f, n, "bus-range", 0, 0);
  u32 last = fdt_u32(f, n, "bus-range", 1, (u32)(len >> 20) - 1);
  b->ecam[b->ecam_count++] =
      (struct metal_ecam){start - ((u64)first << 20), 0, (u8)MIN(first, 255u), (u8)MIN(last, 255u)};
  u32 parent = n->depth > 0 ? n->address_cells[n->depth - 1] : 2;
  u32 step = 4 * (3 + parent + 2);
  if (!fdt_property(f, n, "ranges", &v)) {
    return;
  }
  for (u32 at = 0; at + step <= v.len; at += step) {
    u32 space = load_be32(v.ptr + at) >> 24 & 3;
    struct pci_window w = {fdt_cells(v, at + 4, 2), fdt_cells(v, at + 4 * (3 + parent), 2),
                           fdt_cells(v, at + 12, parent)};
    if (space == SPACE_IO) {
      b->windows.io = w;
      b->io_phys = w.phys;
      b->io_len = w.len;
    } else if (space == SPACE_MEMORY_32) {
      b->windows.memory = w;
    } else if (space == SPACE_MEMORY_64) {
      b->windows.memory_64 = w;
    }
  }
  if (fdt_property(f, n, "msi-map", &v)) {
    for (u32 at = 0; at + 16 <= v.len && b->map_count < BOARD_MAP_MAX; at += 16) {
      b->map[b->map_count++] = (struct board_map){load_be32(v.ptr + at), load_be32(v.ptr + at + 12),
                                                  load_be32(v.ptr + at + 8)};
    }
  }
}

static void read_controller(struct board *b, const struct fdt *f, const struct fdt_node *n,
                            struct bytes is) {
  u64 start = 0;
  u64 len = 0;
  if (!fdt_reg(f, n, 0, &start, &len)) {
    return;
  }
  if (fdt_has_string(is, "arm,gic-v3")) {
    b->gic_version = 3;
    b->dist_phys = start;
    add_redists(b, f, n);
  } else if (fdt_has_string(is, "arm,cortex-a15-gic") || fdt_has_string(is, "arm,gic-400")) {
    b->gic_version = 2;
    b->dist_phys = start;
    b->cpu_phys = fdt_reg(f, n, 1, &start, &len) ? start : 0;
  } else if (fdt_has_string(is, "arm,gic-v2m-frame")) {
    b->v2m_phys = start;
    b->v2m_first = fdt_u32(f, n, "arm,msi-base-spi", 0, 0);
    b->v2m_count = fdt_u32(f, n, "arm,msi-num-spis", 0, 0);
  } else if (fdt_has_string(is, "arm,gic-v3-its")) {
    b->its_phys = start;
  } else if (fdt_has_string(is, "arm,pl031")) {
    b->rtc_phys = start;
  } else if (fdt_has_string(is, "arm,pl061") && b->button_phys == 0) {
    b->button_phys = start;
    b->button_irq = interrupt(f, n, 0);
  } else if (fdt_has_string(is, "arm,pl011") && b->uart_phys == 0) {
    b->uart_phys = start;
    b->uart_32 = fdt_u32(f, n, "reg-io-width", 0, 2) == 4;
    b->uart_irq = interrupt(f, n, 0);
  }
}

// The power key's pin (bindings of gpio-keys); a GPIO block without one is left alone.
static void find_button(struct board *b, const struct fdt *f) {
  struct fdt_node n;
  for (bool there = fdt_root(f, &n); there; there = fdt_next(f, &n)) {
    u32 pin = fdt_u32(f, &n, "gpios", 1, 8);
    if (fdt_u32(f, &n, "linux,code", 0, 0) == KEY_POWER && pin < 8) {
      b->button_pin = pin;
      return;
    }
  }
  b->button_phys = 0;
}

static void read_node(struct board *b, const struct fdt *f, const struct fdt_node *n) {
  struct bytes is;
  struct bytes v;
  if (fdt_property(f, n, "device_type", &v) && fdt_has_string(v, "cpu") && enabled(f, n) &&
      fdt_property(f, n, "reg", &v) && (v.len == 4 || v.len == 8)) {
    board_add_cpu(b, fdt_cells(v, 0, (u32)v.len / 4));
  }
  if (!fdt_property(f, n, "compatible", &is) || !enabled(f, n)) {
    return;
  }
  if (fdt_has_string(is, "arm,armv8-timer")) {
    b->timer_irq = interrupt(f, n, TIMER_VIRTUAL);
  } else if (fdt_has_string(is, "arm,psci-0.2") || fdt_has_string(is, "arm,psci-1.0")) {
    b->has_psci = fdt_property(f, n, "method", &v);
    b->psci_by_smc = b->has_psci && fdt_has_string(v, "smc");
  } else if (fdt_has_string(is, "pci-host-ecam-generic")) {
    read_bridge(b, f, n);
  } else {
    read_controller(b, f, n, is);
  }
}

bool board_from_tree(struct board *b, const struct boot_info *info) {
  struct fdt f;
  const void *blob =
      info->device_tree == 0 ? NULL : metal_map_ro(info->device_tree, info->device_tree_len);
  if (blob == NULL || !fdt_open(&f, bytes_of(blob, info->device_tree_len))) {
    return false;
  }
  struct fdt_node n;
  for (bool there = fdt_root(&f, &n); there; there = fdt_next(&f, &n)) {
    read_node(b, &f, &n);
  }
  find_button(b, &f);
  b->source = "device tree";
  return b->gic_version != 0;
}
