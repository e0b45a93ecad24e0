// SPDX-License-Identifier: Apache-2.0
// Boot-time division of plat_memory() among pools. Nothing allocates after start; what each part
// got is printed.
#pragma once
#include "base/bytes.h"
#include "plat/plat.h"

struct carve {
  struct span region[PLAT_REGION_MAX];
  u32 region_count;
  u64 total_len;  // all regions at start
};

void carve_init(struct carve *c);
u64 carve_left(const struct carve *c);
// `len` zeroed bytes aligned to `align` (power of two); an empty span when no region has so much
// left.
struct span carve_take(struct carve *c, usize len, usize align);
