// SPDX-License-Identifier: Apache-2.0
// Divides physical memory: stacks, device memory, and the rest for plat_memory. Everything is taken
// at start and never given back.
//
// I1  Frames come from the upper end of the highest usable range downwards; the rest belongs to
//     plat_memory, zeroed as it is touched. Once plat_memory has been called, only the stack
//     reserve is left to take from.
// I2  Every stack lies in the stack window with an unmapped page below it.
// I3  Register windows are never mapped twice into each other: the window only grows.
#include "arch/paging.h"
#include "plat/metal/parts.h"

#define WINDOW_LEN (16ull << 30)
#define STACK_RESERVE_MAX (32ull << 20)
#define DIRECT_LEN (64ull << 30)  // what boot maps there at most
#define REGION_MIN (256u << 10)

static struct boot_range range[BOOT_RANGE_MAX];
static u32 range_count;
static u64 direct;
static u64 stack_next;  // next virtual page in the stack window
static u64 stack_end;
static u64 mmio_next;
static u64 mmio_end;
static struct boot_range reserve;  // frames for stacks
static bool handed_out;
static u64 dma_len;

void frames_init(const struct boot_info *info) {
  ASSERT(range_count == 0);
  ASSERT(info->usable_count <= BOOT_RANGE_MAX);
  range_count = info->usable_count;
  memcpy(range, info->usable, sizeof range);
  direct = info->layout.direct;
  stack_next = info->layout.stack_low + (1u << 20);
  stack_end = info->layout.stacks + WINDOW_LEN;
  mmio_next = info->layout.mmio;
  mmio_end = info->layout.mmio + WINDOW_LEN;
  paging_set_kinds();
}

// Once there is a console to complain on.
void frames_divide(void) {
  u64 total = 0;
  for (u32 i = 0; i < range_count; i++) {
    total += range[i].end - range[i].start;
  }
  if (total < (16u << 20)) {
    plat_crash("E020", "This machine has too little memory: urMQTT needs at least 32 MiB.");
  }
  u64 len = ALIGN_DOWN(MIN(total / 16, STACK_RESERVE_MAX), 4096ull);
  struct span s = metal_dma(len);
  ASSERT(s.len >= len);
  reserve.start = metal_phys_of(s.ptr);
  reserve.end = reserve.start + len;
  dma_len = 0;
}

u64 metal_phys_of(const void *at) {
  u64 phys = (u64)(uptr)at - direct;
  if (phys < DIRECT_LEN) {  // the usual case; unmapped holes in it belong to nobody
    return phys;
  }
  bool mapped = paging_lookup((u64)(uptr)at, &phys);
  ASSERT(mapped);
  return phys;
}

// The highest range that is large enough, from its end.
struct span metal_dma(usize len) {
  ASSERT(!handed_out);
  u64 want = ALIGN_UP((u64)len, (u64)PAGE_SIZE);
  for (u32 i = range_count; i > 0; i--) {
    struct boot_range *r = &range[i - 1];
    if (r->end - r->start >= want) {
      r->end -= want;
      dma_len += want;
      void *p = (void *)(uptr)(direct + r->end);
      memset(p, 0, want);
      return span_of(p, want);
    }
  }
  return span_of(NULL, 0);
}

static void *map_window(u64 phys, usize len, enum page_kind kind) {
  if (len == 0 || phys + len < phys) {
    return NULL;
  }
  u64 first = ALIGN_DOWN(phys, (u64)PAGE_SIZE);
  u64 span = ALIGN_UP(phys + len, (u64)PAGE_SIZE) - first;
  u64 at = mmio_next;
  if (span > mmio_end - at || !paging_map(at, first, span, kind)) {
    return NULL;
  }
  mmio_next = at + span + PAGE_SIZE;  // an unmapped page between any two
  return (void *)(uptr)(at + (phys - first));
}

void *metal_map_mmio(u64 phys, usize len) {
  return map_window(phys, len, PAGE_DEVICE);
}

void *metal_map_data(u64 phys, usize len) {
  return map_window(phys, len, PAGE_DATA);
}

const void *metal_map_ro(u64 phys, usize len) {
  return map_window(phys, len, PAGE_RODATA);
}

void *metal_map_wc(u64 phys, usize len) {
  return map_window(phys, len, PAGE_SCREEN);
}

// Now at the ends, on first touch in between.
static void zero(struct span s) {
  u64 first = ALIGN_UP((u64)(uptr)s.ptr, (u64)PAGE_LARGE);
  u64 last = ALIGN_DOWN((u64)(uptr)s.ptr + s.len, (u64)PAGE_LARGE);
  if (first >= last) {
    memset(s.ptr, 0, s.len);
    return;
  }
  memset(s.ptr, 0, first - (u64)(uptr)s.ptr);
  memset((void *)(uptr)last, 0, (u64)(uptr)s.ptr + s.len - last);
  paging_make_demand(first, last - first);
}

u32 plat_memory(struct span regions[PLAT_REGION_MAX]) {
  ASSERT(!handed_out);
  handed_out = true;
  u64 window = ALIGN_UP(mmio_next, (u64)PAGE_LARGE);
  if (!paging_set_window(window)) {
    plat_crash("E012", "There are not enough page tables for this machine's memory.");
  }
  mmio_next = window + 2 * (u64)PAGE_LARGE;
  u32 n = 0;
  for (u32 i = range_count; i > 0 && n < PLAT_REGION_MAX; i--) {
    struct boot_range r = range[i - 1];
    if (r.end - r.start < REGION_MIN) {
      continue;
    }
    regions[n] = span_of((void *)(uptr)(direct + r.start), r.end - r.start);
    zero(regions[n]);
    n++;
  }
  ASSERT(n > 0);
  return n;
}

struct span plat_stack(u32 len) {
  u64 want = ALIGN_UP((u64)len, (u64)PAGE_SIZE);
  if (want == 0 || want > reserve.end - reserve.start ||
      stack_end - stack_next < want + PAGE_SIZE) {
    return span_of(NULL, 0);
  }
  u64 at = stack_next + PAGE_SIZE;
  if (!paging_map(at, reserve.start, want, PAGE_DATA)) {
    return span_of(NULL, 0);
  }
  reserve.start += want;
  stack_next = at + want;
  return span_of((void *)(uptr)at, want);
}

// The guards are what is unmapped in the stack window up to what has been used of it.
bool metal_is_stack_guard(u64 at) {
  u64 phys = 0;
  return at >= metal_boot->layout.stacks && at < stack_next && !paging_lookup(at, &phys);
}

void frames_describe(struct writer *w) {
  u64 left = 0;
  for (u32 i = 0; i < range_count; i++) {
    left += range[i].end - range[i].start;
  }
  fmt(w, "memory: %lu MiB of RAM, %lu MiB for pools, %lu KiB for devices, image %lu KiB\n",
      metal_boot->ram_bytes >> 20, left >> 20, dma_len >> 10, metal_boot->layout.image_len >> 10);
}
