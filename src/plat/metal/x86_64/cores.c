// SPDX-License-Identifier: Apache-2.0
// The PC's other processors: the MADT lists them, INIT and two SIPIs make them begin (Intel SDM 3A
// 9.4.4) in a page below 1 MiB that boot has found in the memory map.
#include "arch/cpu.h"
#include "arch/paging.h"
#include "arch/x86_64/apic.h"
#include "arch/x86_64/start.h"
#include "plat/metal/machine.h"
#include "plat/metal/x86_64/pc.h"

#define INIT_NS 10000000ull
#define SIPI_NS 200000ull

static u8 *page;
static u32 apic_of_core[PLAT_CORE_MAX];
static u32 listed[PC_CPUS_MAX];  // this one first
static u32 listed_count;
static bool mapped;

u32 pc_apic_of(u32 core) {
  ASSERT(core < PLAT_CORE_MAX);
  return core == 0 && listed_count == 0 ? apic_id() : apic_of_core[core];
}

u32 machine_core_list(void) {
  u32 own = apic_id();
  u32 most = apic_has_x2() ? U32_MAX : 255;  // 255 means all of them to an APIC of eight bits
  apic_of_core[0] = listed[0] = own;
  listed_count = 1;
  for (u32 i = 0; i < MIN(metal_pc.cpu_count, PC_CPUS_MAX); i++) {
    u32 id = metal_pc.cpu_id[i];
    if (id != own && id < most && listed_count < PC_CPUS_MAX) {
      listed[listed_count++] = id;
    }
  }
  return metal_boot->low_page != 0 ? listed_count : 1;
}

static void pause_ns(u64 ns) {
  u64 until = plat_now_ns() + ns;
  while (plat_now_ns() < until) {
    cpu_relax();
  }
}

static bool map_page(void) {
  u64 phys = metal_boot->low_page;
  if (!mapped) {
    page = metal_map_data(phys, PAGE_SIZE);
    mapped = page != NULL && paging_map(phys, phys, PAGE_SIZE, PAGE_TEXT);
  }
  return mapped;
}

bool machine_core_begin(u32 nth, u32 core, u64 stack_top) {
  u32 id = listed[nth];
  u32 phys = (u32)metal_boot->low_page;
  ASSERT(nth > 0 && nth < listed_count);
  if (!map_page() || paging_root_phys() > U32_MAX) {
    return false;
  }
  apic_of_core[core] = id;
  core_page_fill(page, phys, paging_root_phys(), stack_top, metal_core_main, core);
  apic_reset(id);
  pause_ns(INIT_NS);
  for (u32 i = 0; i < 2; i++) {
    apic_begin(id, phys);
    pause_ns(SIPI_NS);
  }
  return true;
}

void machine_core_forget(u32 nth) {
  apic_reset(listed[nth]);  // should it come later: back to waiting
}

void machine_core_all_begun(void) {
  if (mapped) {
    memset(page, 0, PAGE_SIZE);
    paging_drop_identity(metal_boot->low_page);
  }
}

void machine_core_arrive(u32 core) {
  cpu_write_cr3(cpu_read_cr3());
  machine_cpu_start();
  apic_init_core();
  pc_clock_arrive(core);
}
