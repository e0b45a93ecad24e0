// SPDX-License-Identifier: Apache-2.0
// What every loader's structures are reduced to: texts that are cut, memory ranges that are sorted,
// page-aligned and free of what must stay (I2 of boot_info.h).
#include "boot/boot.h"

#define MIB (1ull << 20)
#define LOW_END 0xa0000ull

void boot_copy_text(char *to, u32 cap, const char *from) {
  u32 n = 0;
  while (n + 1 < cap && from[n] != 0) {
    to[n] = from[n];
    n++;
  }
  to[n] = 0;
}

// --- Ranges (I2 of boot_info.h)

void boot_add_usable(struct boot_info *info, u64 start, u64 end) {
  if (end > start) {
    info->ram_bytes += end - start;
  }
  u64 low = ALIGN_DOWN(MIN(end, LOW_END), 4096ull);  // where a PC's other processors begin
  if (low >= ALIGN_UP(MAX(start, 4096ull), 4096ull) + 4096) {
    info->low_page = MAX(info->low_page, low - 4096);
  }
  start = ALIGN_UP(MAX(start, MIB), 4096ull);
  end = ALIGN_DOWN(end, 4096ull);
  if (start < end && info->usable_count < BOOT_RANGE_MAX) {
    info->usable[info->usable_count++] = (struct boot_range){start, end};
  }
}

void boot_sort(struct boot_info *info) {
  struct boot_range *r = info->usable;
  for (u32 i = 1; i < info->usable_count; i++) {
    for (u32 k = i; k > 0 && r[k].start < r[k - 1].start; k--) {
      struct boot_range t = r[k];
      r[k] = r[k - 1];
      r[k - 1] = t;
    }
  }
  u32 n = 0;
  for (u32 i = 0; i < info->usable_count; i++) {
    if (n > 0 && r[i].start <= r[n - 1].end) {
      r[n - 1].end = MAX(r[n - 1].end, r[i].end);
    } else {
      r[n++] = r[i];
    }
  }
  info->usable_count = n;
}

// Takes [start, end) out of the usable memory; ranges need not be sorted. A range that would have
// to be split with no place left keeps its larger part.
void boot_remove(struct boot_info *info, u64 start, u64 end) {
  start = ALIGN_DOWN(start, 4096ull);
  end = ALIGN_UP(end, 4096ull);
  u32 count = info->usable_count;
  for (u32 i = 0; i < count; i++) {
    struct boot_range *r = &info->usable[i];
    if (end <= r->start || start >= r->end) {
      continue;
    }
    struct boot_range low = {r->start, MAX(start, r->start)};
    struct boot_range high = {MIN(end, r->end), r->end};
    bool low_larger = low.end - low.start >= high.end - high.start;
    *r = low_larger ? low : high;
    struct boot_range rest = low_larger ? high : low;
    if (rest.start < rest.end && info->usable_count < BOOT_RANGE_MAX) {
      info->usable[info->usable_count++] = rest;
    }
  }
}

void boot_add_module(struct boot_info *info, u64 phys, u64 len, const char *name) {
  if (info->module_count == BOOT_MODULE_MAX) {
    info->modules_lost++;
    return;
  }
  struct boot_module *m = &info->modules[info->module_count++];
  m->phys = phys;
  m->len = len;
  boot_copy_text(m->name, sizeof m->name, name);
}

void boot_keep_rsdp(struct boot_info *info, const void *from, u32 len) {
  info->rsdp_len = MIN(len, (u32)sizeof info->rsdp);
  memcpy(info->rsdp, from, info->rsdp_len);
}
