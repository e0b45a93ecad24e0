// SPDX-License-Identifier: Apache-2.0
// What boot wants from a device tree: memory (3.4, 3.5, 5.3 of the specification) and /chosen (3.6,
// with the names that Linux's loaders use). Devices are read later, by plat/metal/aarch64/tree.c.
#include "boot/aarch64/loaders.h"

#define GOOD_SEED_LEN 32u

static void add_memory(struct boot_info *info, const struct fdt *f, const struct fdt_node *n) {
  struct bytes status;
  if (fdt_property(f, n, "status", &status) && !fdt_has_string(status, "okay") &&
      !fdt_has_string(status, "ok")) {
    return;  // memory of another world
  }
  u64 start = 0;
  u64 len = 0;
  for (u32 i = 0; fdt_reg(f, n, i, &start, &len); i++) {
    if (start + len > start) {
      boot_add_usable(info, start, start + len);
    }
  }
}

static void remove_reserved(struct boot_info *info, const struct fdt *f) {
  for (usize at = 0; at + 16 <= f->reserve.len; at += 16) {
    u64 start = load_be64(f->reserve.ptr + at);
    u64 len = load_be64(f->reserve.ptr + at + 8);
    if (len == 0) {
      break;
    }
    boot_remove(info, start, start + len);
  }
  struct fdt_node n;
  bool inside = false;
  for (bool there = fdt_root(f, &n); there; there = fdt_next(f, &n)) {
    if (n.depth <= 1) {
      inside = n.depth == 1 && fdt_is_named(&n, "reserved-memory");
      continue;
    }
    u64 start = 0;
    u64 len = 0;
    for (u32 i = 0; inside && fdt_reg(f, &n, i, &start, &len); i++) {
      boot_remove(info, start, start + len);
    }
  }
}

static void read_chosen(struct boot_info *info, const struct fdt *f, const struct fdt_node *n) {
  struct bytes v;
  if (fdt_property(f, n, "bootargs", &v) && v.len > 0 && v.ptr[v.len - 1] == 0) {
    boot_copy_text(info->command_line, sizeof info->command_line, (const char *)v.ptr);
  }
  struct bytes end;
  if (fdt_property(f, n, "linux,initrd-start", &v) &&
      fdt_property(f, n, "linux,initrd-end", &end)) {
    u64 from = fdt_cells(v, 0, v.len >= 8 ? 2 : 1);
    u64 to = fdt_cells(end, 0, end.len >= 8 ? 2 : 1);
    if (to > from) {
      boot_add_module(info, from, to - from, "initrd");
    }
  }
  if (fdt_property(f, n, "kaslr-seed", &v)) {
    boot_absorb(v);
  }
  if (fdt_property(f, n, "rng-seed", &v)) {
    boot_absorb(v);
    info->seed_good |= v.len >= GOOD_SEED_LEN;
  }
}

bool boot_parse_tree(struct boot_info *info, u64 phys, bool memory) {
  struct fdt f;
  u32 len = phys == 0 || phys % 8 != 0 ? 0 : fdt_total_len(boot_at(phys));
  if (len == 0 || !fdt_open(&f, bytes_of(boot_at(phys), len))) {
    return false;
  }
  info->device_tree = phys;
  info->device_tree_len = len;
  struct fdt_node n;
  for (bool there = fdt_root(&f, &n); there; there = fdt_next(&f, &n)) {
    struct bytes type;
    if (n.depth == 1 && fdt_is_named(&n, "chosen")) {
      read_chosen(info, &f, &n);
    } else if (n.depth == 1 && memory && fdt_property(&f, &n, "device_type", &type) &&
               fdt_has_string(type, "memory")) {
      add_memory(info, &f, &n);
    }
  }
  if (memory) {
    boot_sort(info);
    remove_reserved(info, &f);
  }
  boot_remove(info, phys, phys + len);
  return true;
}
