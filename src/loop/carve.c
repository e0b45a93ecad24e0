// SPDX-License-Identifier: Apache-2.0
#include "loop/carve.h"

void carve_init(struct carve *c) {
  *c = (struct carve){.region_count = 0};
  c->region_count = plat_memory(c->region);
  ASSERT(c->region_count <= PLAT_REGION_MAX);
  c->total_len = carve_left(c);
}

u64 carve_left(const struct carve *c) {
  u64 left = 0;
  for (u32 i = 0; i < c->region_count; i++) {
    left += c->region[i].len;
  }
  return left;
}

struct span carve_take(struct carve *c, usize len, usize align) {
  ASSERT(IS_POWER_OF_TWO(align));
  ASSERT(len > 0);
  for (u32 i = 0; i < c->region_count; i++) {
    struct span *r = &c->region[i];
    usize skip = (usize)(ALIGN_UP((uptr)r->ptr, (uptr)align) - (uptr)r->ptr);
    if (skip > r->len || len > r->len - skip) {
      continue;
    }
    struct span taken = {r->ptr + skip, len};
    r->ptr += skip + len;
    r->len -= skip + len;
    return taken;
  }
  return (struct span){NULL, 0};
}
