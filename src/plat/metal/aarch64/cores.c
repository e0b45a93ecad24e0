// SPDX-License-Identifier: Apache-2.0
// The other processors of an aarch64 machine: MADT or device tree lists them, PSCI's CPU_ON (Arm
// DEN 0022 5.1.4) makes them begin at boot_entry_core with the MMU off.
#include "arch/cpu.h"
#include "arch/paging.h"
#include "plat/metal/aarch64/board.h"
#include "plat/metal/machine.h"

#define CPU_ON 0xc4000003u
#define AFFINITY 0xff00ffffffull
#define TCR_EPD0 (1ull << 7)
#define ENTRY_PAGES 2u  // the code may cross one page's end

#pragma GCC visibility push(hidden)
extern const u8 boot_entry_core[];
#pragma GCC visibility pop

struct core_start {  // read by boot_entry_core, past the caches
  u64 mair, tcr, ttbr0, ttbr1, sctlr, stack, entry, number, key[2];
};

static struct core_start *start;
static u64 entry_phys;
static bool mapped;
static u64 listed[BOARD_CPUS_MAX];
static u32 listed_count;

void board_add_cpu(struct board *b, u64 affinity) {
  if (b->cpu_count < BOARD_CPUS_MAX) {
    b->cpu_id[b->cpu_count] = affinity & AFFINITY;
  }
  b->cpu_count++;
}

u32 machine_core_list(void) {
  u64 own = CPU_READ("mpidr_el1") & AFFINITY;
  listed[0] = own;
  listed_count = 1;
  for (u32 i = 0; i < MIN(metal_board.cpu_count, BOARD_CPUS_MAX); i++) {
    if (metal_board.cpu_id[i] != own && listed_count < BOARD_CPUS_MAX) {
      listed[listed_count++] = metal_board.cpu_id[i];
    }
  }
  return metal_board.has_psci ? listed_count : 1;
}

static bool prepare(void) {
  if (start == NULL) {
    struct span s = metal_dma(sizeof *start);
    start = (struct core_start *)(void *)s.ptr;
    entry_phys = metal_phys_of(boot_entry_core);
    u64 page = ALIGN_DOWN(entry_phys, (u64)PAGE_SIZE);
    mapped = start != NULL && paging_map(page, page, ENTRY_PAGES * PAGE_SIZE, PAGE_TEXT);
  }
  return mapped;
}

// The line reaches memory, where a processor without MMU reads.
static void clean(const void *from, usize len) {
  u64 line = 4ull << (CPU_READ("ctr_el0") >> 16 & 15);
  for (u64 at = ALIGN_DOWN((u64)(uptr)from, line); at < (u64)(uptr)from + len; at += line) {
    __asm__ volatile("dc cvac, %0" : : "r"(at) : "memory");
  }
  cpu_dsb();
}

bool machine_core_begin(u32 nth, u32 core, u64 stack_top) {
  ASSERT(nth > 0 && nth < listed_count);
  if (!prepare() || !board_core_find(core, listed[nth])) {
    return false;
  }
  u64 root = paging_root_phys();
  *start = (struct core_start){.mair = CPU_READ("mair_el1"),
                               .tcr = CPU_READ("tcr_el1") & ~TCR_EPD0,
                               .ttbr0 = root + PAGE_SIZE,
                               .ttbr1 = root,
                               .sctlr = CPU_READ("sctlr_el1"),
                               .stack = stack_top,
                               .entry = (u64)(uptr)metal_core_main,
                               .number = core};
  (void)plat_random(span_of(start->key, sizeof start->key));
  clean(start, sizeof *start);
  return board_psci(CPU_ON, listed[nth], entry_phys, metal_phys_of(start)) == 0;
}

// One that was told to begin and did not come cannot be called back: none is started after it in
// the same memory.
void machine_core_forget(u32 nth) {
  (void)nth;
}

void machine_core_all_begun(void) {
  if (mapped) {
    mem_wipe(start->key, sizeof start->key);
    paging_drop_identity(entry_phys);
  }
}

void machine_core_arrive(u32 core) {
  CPU_WRITE("tcr_el1", CPU_READ("tcr_el1") | TCR_EPD0);
  cpu_isb();
  __asm__ volatile("tlbi vmalle1\n\tdsb nsh\n\tisb" : : : "memory");
  if (!board_core_interrupts(core)) {
    cpu_halt_forever();  // core 0 finds that it does not come
  }
}

void machine_clock_correct(u32 core, i64 ahead) {
  (void)core, (void)ahead;  // the architecture has one counter for all
}

void machine_clock_settle(void) {}
