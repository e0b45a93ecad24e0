// SPDX-License-Identifier: Apache-2.0
// Page tables (Intel SDM 3A 4.5). See paging.h for the invariants.
#include "arch/paging.h"

#include "arch/cpu.h"
#include "base/assert.h"
#include "base/shared.h"

#define ENTRY_PRESENT (1ull << 0)
#define ENTRY_WRITE (1ull << 1)
#define ENTRY_WRITE_THROUGH (1ull << 3)
#define ENTRY_UNCACHED (1ull << 4)
#define ENTRY_LARGE (1ull << 7)
#define ENTRY_PAT_SMALL (1ull << 7)
#define ENTRY_DEMAND (1ull << 9)  // ours: not present yet, zero at first touch
#define ENTRY_NO_EXECUTE (1ull << 63)
#define ENTRY_PHYS 0x000ffffffffff000ull
#define LEVEL_LAST 1u
#define LEVEL_LARGE 2u
#define LEVEL_TOP 4u
#define MSR_PAT 0x277u
// 0 write-back, 1 write-through, 2 and 3 uncached as at reset; 4 write-combining.
#define PAT_VALUE 0x0007040100070406ull

struct table {
  u64 entry[512];
};

static struct table pool[PAGING_POOL] ALIGNED(4096);
static u64 pool_base_phys;
static u32 pool_used;

void paging_init(u64 pool_phys) {
  ASSERT(pool_used == 0);
  ASSERT(pool_phys % PAGE_SIZE == 0);
  pool_base_phys = pool_phys;
  pool_used = 1;  // pool[0] is the top level
}

const void *paging_pool(void) {
  return pool;
}

u64 paging_root_phys(void) {
  return pool_base_phys;
}

u32 paging_tables_used(void) {
  return pool_used;
}

static struct table *table_at(u64 phys) {
  ASSERT(phys >= pool_base_phys);
  u64 idx = (phys - pool_base_phys) / PAGE_SIZE;
  ASSERT(idx < pool_used);
  return &pool[idx];
}

static u64 *entry_of(struct table *t, u64 virt, u32 level) {
  return &t->entry[(virt >> (12 + 9 * (level - 1))) & 511];
}

static u64 bits_of(enum page_kind kind) {
  switch (kind) {
  case PAGE_TEXT: return ENTRY_PRESENT;
  case PAGE_RODATA: return ENTRY_PRESENT | ENTRY_NO_EXECUTE;
  case PAGE_DATA: return ENTRY_PRESENT | ENTRY_WRITE | ENTRY_NO_EXECUTE;
  case PAGE_DEVICE:
    return ENTRY_PRESENT | ENTRY_WRITE | ENTRY_NO_EXECUTE | ENTRY_UNCACHED | ENTRY_WRITE_THROUGH;
  case PAGE_SCREEN: return ENTRY_PRESENT | ENTRY_WRITE | ENTRY_NO_EXECUTE | ENTRY_PAT_SMALL;
  }
  ASSERT(false);
  return 0;
}

// The entry for virt at `level`, with the tables above it made; NULL when the pool is empty.
static u64 *reach(u64 virt, u32 level) {
  struct table *t = &pool[0];
  for (u32 at = LEVEL_TOP; at > level; at--) {
    u64 *e = entry_of(t, virt, at);
    if (*e == 0) {
      if (pool_used == PAGING_POOL) {
        return NULL;
      }
      *e = (pool_base_phys + (u64)pool_used * PAGE_SIZE) | ENTRY_PRESENT | ENTRY_WRITE;
      pool_used++;
    }
    ASSERT((*e & ENTRY_LARGE) == 0);
    t = table_at(*e & ENTRY_PHYS);
  }
  return entry_of(t, virt, level);
}

// The entry of a 2 MiB page; NULL where no table leads to one.
static u64 *entry_of_large(u64 virt) {
  struct table *t = &pool[0];
  for (u32 level = LEVEL_TOP; level > LEVEL_LARGE; level--) {
    u64 e = *entry_of(t, virt, level);
    if ((e & ENTRY_PRESENT) == 0) {
      return NULL;
    }
    t = table_at(e & ENTRY_PHYS);
  }
  return entry_of(t, virt, LEVEL_LARGE);
}

bool paging_map(u64 virt, u64 phys, u64 len, enum page_kind kind) {
  ASSERT(pool_used != 0);
  ASSERT((virt | phys | len) % PAGE_SIZE == 0);
  u64 bits = bits_of(kind);
  for (u64 done = 0; done < len;) {
    u64 v = virt + done;
    u64 p = phys + done;
    bool large = kind == PAGE_DATA && (v | p) % PAGE_LARGE == 0 && len - done >= PAGE_LARGE;
    u64 *e = reach(v, large ? LEVEL_LARGE : LEVEL_LAST);
    if (e == NULL) {
      return false;
    }
    ASSERT(*e == 0);
    *e = p | bits | (large ? ENTRY_LARGE : 0);
    done += large ? PAGE_LARGE : PAGE_SIZE;
  }
  return true;
}

void paging_drop_identity(u64 virt) {
  *entry_of(&pool[0], virt, LEVEL_TOP) = 0;
  cpu_write_cr3(cpu_read_cr3());
}

void paging_make_demand(u64 virt, u64 len) {
  u64 end = ALIGN_DOWN(virt + len, (u64)PAGE_LARGE);
  for (u64 v = ALIGN_UP(virt, (u64)PAGE_LARGE); v < end; v += PAGE_LARGE) {
    u64 *e = reach(v, LEVEL_LARGE);
    ASSERT(e != NULL);
    ASSERT((*e & (ENTRY_PRESENT | ENTRY_LARGE)) == (ENTRY_PRESENT | ENTRY_LARGE));
    *e = (*e & ~ENTRY_PRESENT) | ENTRY_DEMAND;
  }
  cpu_write_cr3(cpu_read_cr3());
}

// A page on demand is zeroed behind `window`, where no core looks, and only then appears in its
// place. One core does so at a time: window_taken pairs with itself.
static u64 window;
static u32 window_taken;

bool paging_set_window(u64 virt) {
  ASSERT(window == 0);
  ASSERT(virt % PAGE_LARGE == 0);
  window = virt;
  return reach(virt, LEVEL_LARGE) != NULL;
}

static void zero_by_window(u64 bits) {
  *entry_of_large(window) = bits;
  cpu_invlpg((const void *)(uptr)window);  // what another page was here, as this core saw it
  void *at = (void *)(uptr)window;
  u64 words = PAGE_LARGE / 8;
  __asm__ volatile("rep stosq" : "+D"(at), "+c"(words) : "a"(0ull) : "memory");
  *entry_of_large(window) = 0;
  cpu_invlpg((const void *)(uptr)window);
}

bool paging_demand(u64 virt) {
  u64 *e = entry_of_large(virt);
  if (e == NULL) {
    return false;
  }
  shared_lock(&window_taken);
  u64 was = *(volatile u64 *)e;
  bool demand = (was & (ENTRY_PRESENT | ENTRY_DEMAND)) == ENTRY_DEMAND;
  if (demand) {
    was = (was & ~ENTRY_DEMAND) | ENTRY_PRESENT;
    zero_by_window(was);
    *(volatile u64 *)e = was;
  }
  shared_unlock(&window_taken);
  return demand || (was & (ENTRY_PRESENT | ENTRY_LARGE)) == (ENTRY_PRESENT | ENTRY_LARGE);
}

bool paging_lookup(u64 virt, u64 *phys) {
  struct table *t = &pool[0];
  for (u32 level = LEVEL_TOP;; level--) {
    u64 e = *entry_of(t, virt, level);
    if ((e & ENTRY_PRESENT) == 0) {
      return false;
    }
    if (level == LEVEL_LAST || (e & ENTRY_LARGE) != 0) {
      u64 mask = (1ull << (12 + 9 * (level - 1))) - 1;
      *phys = (e & ENTRY_PHYS & ~mask) | (virt & mask);
      return true;
    }
    t = table_at(e & ENTRY_PHYS);
  }
}

void paging_set_kinds(void) {
  cpu_wrmsr(MSR_PAT, PAT_VALUE);
}
