// SPDX-License-Identifier: Apache-2.0
// What a driver needs from whoever runs it: memory that a device may use, and its addresses. The
// kernel gives its own; tests give plain memory and a device that lives in it.
#pragma once
#include "base/bytes.h"

struct dma_ops {
  struct span (*alloc)(usize len);         // zeroed, contiguous, page-aligned; empty when none
  u64 (*phys_of)(const void *at);          // of memory from alloc or plat_memory
  void *(*map_mmio)(u64 phys, usize len);  // NULL when it cannot
};
