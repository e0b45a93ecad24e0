// SPDX-License-Identifier: Apache-2.0
#include "arch/x86_64/start.h"

#include "arch/cpu.h"
#include "base/assert.h"
#include "base/bytes.h"

#pragma GCC visibility push(hidden)
extern const u8 core_begin[];
extern const u8 core_end[];
extern const u8 core_gdt_register[];
extern const u8 core_far32[];
extern const u8 core_far64[];
extern const u8 core_root[];
extern const u8 core_cr4[];
extern const u8 core_stack[];
extern const u8 core_entry[];
extern const u8 core_number[];
#pragma GCC visibility pop

static u8 *at(u8 *page, const u8 *symbol) {
  return page + (symbol - core_begin);
}

// A distance from the page's begin becomes an address.
static void relocate(u8 *word, u32 phys) {
  store_le32(word, load_le32(word) + phys);
}

void core_page_fill(u8 *page, u32 phys, u64 root_phys, u64 stack_top, void (*entry)(u32 core),
                    u32 core) {
  ASSERT(phys != 0 && phys < 1u << 20 && phys % 4096 == 0);
  ASSERT(root_phys <= U32_MAX);
  ASSERT(stack_top % 16 == 0);
  memcpy(page, core_begin, (usize)(core_end - core_begin));
  relocate(at(page, core_gdt_register) + 2, phys);
  relocate(at(page, core_far32), phys);
  relocate(at(page, core_far64), phys);
  store_le64(at(page, core_root), root_phys);
  store_le64(at(page, core_cr4), cpu_read_cr4());
  store_le64(at(page, core_stack), stack_top);
  store_le64(at(page, core_entry), (u64)(uptr)entry);
  store_le64(at(page, core_number), core);
}
