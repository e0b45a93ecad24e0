// SPDX-License-Identifier: Apache-2.0
// Four-level page tables of 4 KiB pages, the same contract on both families, out of a fixed pool in
// the image. Used twice: by boot, while the pool is seen at its physical address, and later through
// the image's own mapping; only the boot core, at start, ever changes a mapping.
//
// I1  Nothing is ever both writable and executable: enum page_kind has no such member.
// I2  No entry has the user bit; null and the whole lower half are unmapped once boot is over.
// I3  A mapping is never replaced by another: mapping what is mapped is an assertion.
#pragma once
#include "base/cc.h"

#define PAGE_SIZE 4096u
#define PAGE_LARGE 0x200000u
#define PAGING_POOL 256u

enum page_kind {
  PAGE_TEXT,    // read, execute
  PAGE_RODATA,  // read
  PAGE_DATA,    // read, write
  PAGE_DEVICE,  // read, write, uncached
  PAGE_SCREEN,  // read, write, write-combining
};

// Takes the first table. pool_phys: where the pool (paging_pool()) lies physically.
void paging_init(u64 pool_phys);
const void *paging_pool(void);
u64 paging_root_phys(void);
// Maps whole pages; virt, phys and len are multiples of PAGE_SIZE. Memory that is aligned alike
// gets 2 MiB pages. False when the pool is empty (part of the range may be mapped then).
NODISCARD bool paging_map(u64 virt, u64 phys, u64 len, enum page_kind kind);
// Unmaps the lower half, of which only the 512 GiB around virt, the image's place, are in use, and
// flushes the whole TLB.
void paging_drop_identity(u64 virt);
// Physical address behind virt; false when unmapped.
bool paging_lookup(u64 virt, u64 *phys);
// Turns the 2 MiB pages wholly inside [virt, virt+len), mapped as PAGE_DATA, into pages that are
// zeroed when they are first touched: memory nobody needs is never written, so that starting takes
// no longer on a large machine and a host keeps what its guest does not use.
void paging_make_demand(u64 virt, u64 len);
// Once, before it: 2 MiB of address space (aligned alike, nothing there) in which a page is zeroed
// before any core may see it.
NODISCARD bool paging_set_window(u64 virt);
// The page fault's part: true when virt lies in such a page, which is now there and zero, or
// another core has just been here. Uses no vector register, since it runs in the middle of
// anything.
bool paging_demand(u64 virt);
u32 paging_tables_used(void);
// Makes PAGE_SCREEN mean write-combining. Once, before the first such mapping.
void paging_set_kinds(void);
