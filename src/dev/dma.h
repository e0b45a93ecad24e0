// SPDX-License-Identifier: Apache-2.0
// What a driver needs from whoever runs it: memory that a device may use, and its addresses. The
// kernel gives its own; tests give plain memory and a device that lives in it.
#pragma once
#include "base/bytes.h"

struct dma_ops {
  struct span (*alloc)(usize len);         // zeroed, contiguous, page-aligned; empty when none
  u64 (*phys_of)(const void *at);          // of memory from alloc or plat_memory
  void *(*map_mmio)(u64 phys, usize len);  // NULL when it cannot
  u64 (*now_ns)(void);                     // for the bound of a wait while starting
};

#define DMA_TOUCH_MAX (1u << 21)

// The address of memory that a device will read or write: touched here, at both ends, as the kernel
// zeroes 2 MiB pages when they are first touched, which must not happen after the device wrote.
static inline u64 dma_touched(const struct dma_ops *ops, const void *at, usize len) {
  ASSERT(len != 0);
  ASSERT(len <= DMA_TOUCH_MAX);
  (void)*(const volatile u8 *)at;
  (void)((const volatile u8 *)at)[len - 1];
  return ops->phys_of(at);
}
