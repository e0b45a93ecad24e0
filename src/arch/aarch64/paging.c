// SPDX-License-Identifier: Apache-2.0
// Translation tables (Arm DDI 0487 D8): 4 KiB granule, 48 bits, the upper half by TTBR1, the
// identity of the start by TTBR0. See paging.h for the invariants.
#include "arch/paging.h"

#include "arch/cpu.h"
#include "base/assert.h"
#include "base/shared.h"

#define ENTRY_VALID (1ull << 0)
#define ENTRY_TABLE_OR_PAGE (1ull << 1)
#define ENTRY_KIND(n) ((u64)(n) << 2)  // index into MAIR: see boot/aarch64/entry.S
#define ENTRY_READ_ONLY (1ull << 7)
#define ENTRY_INNER_SHAREABLE (3ull << 8)
#define ENTRY_ACCESSED (1ull << 10)
#define ENTRY_GUARDED (1ull << 50)  // indirect branches land on a bti; ignored where there is none
#define ENTRY_NO_EXECUTE (1ull << 53)
#define ENTRY_NO_USER_EXECUTE (1ull << 54)
#define ENTRY_DEMAND (1ull << 55)  // ours: not valid yet, zero at first touch
#define ENTRY_PHYS 0x0000fffffffff000ull
#define KIND_MEMORY 0u
#define KIND_DEVICE 1u
#define KIND_UNCACHED 2u
#define LEVEL_LAST 1u
#define LEVEL_LARGE 2u
#define LEVEL_TOP 4u
#define TCR_EPD0 (1ull << 7)

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
  pool_used = 2;  // pool[0] is the top level of the upper half, pool[1] that of the lower
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

static struct table *root_of(u64 virt) {
  return &pool[virt >> 63 != 0 ? 0 : 1];
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
  u64 all = ENTRY_VALID | ENTRY_ACCESSED | ENTRY_INNER_SHAREABLE | ENTRY_NO_USER_EXECUTE;
  switch (kind) {
  case PAGE_TEXT: return all | ENTRY_READ_ONLY | ENTRY_GUARDED | ENTRY_KIND(KIND_MEMORY);
  case PAGE_RODATA: return all | ENTRY_READ_ONLY | ENTRY_NO_EXECUTE | ENTRY_KIND(KIND_MEMORY);
  case PAGE_DATA: return all | ENTRY_NO_EXECUTE | ENTRY_KIND(KIND_MEMORY);
  case PAGE_DEVICE: return all | ENTRY_NO_EXECUTE | ENTRY_KIND(KIND_DEVICE);
  case PAGE_SCREEN: return all | ENTRY_NO_EXECUTE | ENTRY_KIND(KIND_UNCACHED);
  }
  ASSERT(false);
  return 0;
}

static bool is_table(u64 entry) {
  return (entry & (ENTRY_VALID | ENTRY_TABLE_OR_PAGE)) == (ENTRY_VALID | ENTRY_TABLE_OR_PAGE);
}

// The entry for virt at `level`, with the tables above it made; NULL when the pool is empty.
static u64 *reach(u64 virt, u32 level) {
  struct table *t = root_of(virt);
  for (u32 at = LEVEL_TOP; at > level; at--) {
    u64 *e = entry_of(t, virt, at);
    if (*e == 0) {
      if (pool_used == PAGING_POOL) {
        return NULL;
      }
      *e = (pool_base_phys + (u64)pool_used * PAGE_SIZE) | ENTRY_VALID | ENTRY_TABLE_OR_PAGE;
      pool_used++;
    }
    ASSERT(is_table(*e));
    t = table_at(*e & ENTRY_PHYS);
  }
  return entry_of(t, virt, level);
}

// What was written into the tables is seen by the next access. An entry that was not valid is in no
// TLB.
static void publish(void) {
  __asm__ volatile("dsb ishst\n\tisb" : : : "memory");
}

static void flush_all(void) {
  __asm__ volatile("dsb ishst\n\ttlbi vmalle1\n\tdsb ish\n\tisb" : : : "memory");
}

// The entry of a 2 MiB page; NULL where no table leads to one.
static u64 *entry_of_large(u64 virt) {
  struct table *t = root_of(virt);
  for (u32 level = LEVEL_TOP; level > LEVEL_LARGE; level--) {
    u64 e = *entry_of(t, virt, level);
    if (!is_table(e)) {
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
    *e = p | bits | (large ? 0 : ENTRY_TABLE_OR_PAGE);
    done += large ? PAGE_LARGE : PAGE_SIZE;
  }
  publish();
  return true;
}

void paging_drop_identity(u64 virt) {
  *entry_of(root_of(virt), virt, LEVEL_TOP) = 0;
  CPU_WRITE("tcr_el1", CPU_READ("tcr_el1") | TCR_EPD0);
  cpu_isb();
  flush_all();
}

void paging_make_demand(u64 virt, u64 len) {
  u64 end = ALIGN_DOWN(virt + len, (u64)PAGE_LARGE);
  for (u64 v = ALIGN_UP(virt, (u64)PAGE_LARGE); v < end; v += PAGE_LARGE) {
    u64 *e = reach(v, LEVEL_LARGE);
    ASSERT(e != NULL);
    ASSERT((*e & (ENTRY_VALID | ENTRY_TABLE_OR_PAGE)) == ENTRY_VALID);
    *e = (*e & ~ENTRY_VALID) | ENTRY_DEMAND;
  }
  flush_all();
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
  publish();
  for (u64 at = window; at < window + PAGE_LARGE; at += 64) {
    __asm__ volatile(
        "stp xzr, xzr, [%0]\n\tstp xzr, xzr, [%0, #16]\n\t"
        "stp xzr, xzr, [%0, #32]\n\tstp xzr, xzr, [%0, #48]"
        :
        : "r"(at)
        : "memory");
  }
  *entry_of_large(window) = 0;
  __asm__ volatile("dsb ishst\n\ttlbi vaae1is, %0\n\tdsb ish\n\tisb"
                   :
                   : "r"(window >> 12 & 0xfffffffffffull)
                   : "memory");
}

bool paging_demand(u64 virt) {
  u64 *e = entry_of_large(virt);
  if (e == NULL) {
    return false;
  }
  shared_lock(&window_taken);
  u64 was = *(volatile u64 *)e;
  bool demand = (was & (ENTRY_VALID | ENTRY_DEMAND)) == ENTRY_DEMAND;
  if (demand) {
    was = (was & ~ENTRY_DEMAND) | ENTRY_VALID;
    zero_by_window(was);
    *(volatile u64 *)e = was;
  }
  publish();
  shared_unlock(&window_taken);
  return demand || (was & (ENTRY_VALID | ENTRY_TABLE_OR_PAGE)) == ENTRY_VALID;
}

bool paging_lookup(u64 virt, u64 *phys) {
  struct table *t = root_of(virt);
  for (u32 level = LEVEL_TOP;; level--) {
    u64 e = *entry_of(t, virt, level);
    if ((e & ENTRY_VALID) == 0) {
      return false;
    }
    if (level == LEVEL_LAST || (e & ENTRY_TABLE_OR_PAGE) == 0) {
      u64 mask = (1ull << (12 + 9 * (level - 1))) - 1;
      *phys = (e & ENTRY_PHYS & ~mask) | (virt & mask);
      return true;
    }
    t = table_at(e & ENTRY_PHYS);
  }
}

void paging_set_kinds(void) {
  // boot_enter has set all of them.
}
