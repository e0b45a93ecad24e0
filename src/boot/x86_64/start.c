// SPDX-License-Identifier: Apache-2.0
// The C side of entry.S: which loader it was, the processor's protections, and the words of a
// machine that has no console yet.
#include "arch/cpu.h"
#include "boot/x86_64/loaders.h"

#define MULTIBOOT2_MAGIC 0x36d76289u
#define PVH_MAGIC 0x336ec578u
#define CR4_SMEP (1ull << 20)
#define CR4_SMAP (1ull << 21)
#define CR4_UMIP (1ull << 11)
#define CR4_PGE (1ull << 7)
#define LEAF7_EBX_SMEP (1u << 7)
#define LEAF7_EBX_SMAP (1u << 20)
#define LEAF7_ECX_UMIP (1u << 2)

static struct boot_info the_info;

void boot_die(const char *text) {
  u16 *screen = boot_at(0xb8000);
  for (u32 i = 0; text[i] != 0; i++) {
    cpu_out8(0x3f8, (u8)text[i]);
    screen[i] = (u16)(0x0f00 | (u8)text[i]);
  }
  cpu_halt_forever();
}

// Before there is a platform to crash on. metal_start's platform replaces this after boot: see
// plat/metal/end.c, whose assert_fail calls boot_die as long as its console is not up.

u64 boot_runs_for(u64 image_phys) {
  (void)image_phys;
  return CPU_LINK_BASE;
}

void boot_protect(void) {
  u64 cr4 = cpu_read_cr4() | CR4_PGE;
  struct cpuid top = cpu_id(0, 0);
  struct cpuid f = {0};
  if (top.eax >= 7) {
    f = cpu_id(7, 0);
  }
  cr4 |= (f.ebx & LEAF7_EBX_SMEP) != 0 ? CR4_SMEP : 0;
  cr4 |= (f.ebx & LEAF7_EBX_SMAP) != 0 ? CR4_SMAP : 0;
  cr4 |= (f.ecx & LEAF7_ECX_UMIP) != 0 ? CR4_UMIP : 0;
  cpu_write_cr4(cr4);
}

static NORETURN void boot_continue(u32 magic, u64 info_phys, u64 image_phys) {
  struct boot_info *info = &the_info;
  if (magic == MULTIBOOT2_MAGIC) {
    boot_parse_multiboot2(info, info_phys);
  } else if (load_le32(boot_at(info_phys)) == PVH_MAGIC) {
    boot_parse_pvh(info, info_phys);
  } else {
    boot_die("urMQTT E013: started by a loader that is neither multiboot2 nor PVH. ");
  }
  boot_go(info, image_phys);
}

NO_STACK_PROTECTOR void boot_start(u32 magic, u64 info_phys, u64 image_phys) {
  the_info.cycles_at_entry = cpu_cycles();
  boot_seed(&the_info);
  __stack_chk_guard = boot_random() & ~0xffull;  // a zero byte first: no string copy passes it
  boot_continue(magic, info_phys, image_phys);
}
