// SPDX-License-Identifier: Apache-2.0
// From the loader's hands to the kernel's own world: read what the loader says, choose random
// places, build the final page tables, relocate, go.
//
// I1  The canary is set before anything else is called that is still running when it is checked;
//     boot_start itself never returns and is not protected.
// I2  Each window (image, direct map, stacks, registers) lies at a random place in a slot of
//     512 GiB of its own in the upper half; the image's place has about 33 bits.
// I3  The image is relocated exactly once: RELR entries add to what is there.
// I4  After boot_enter nothing below the upper half is mapped but the image's own identity, which
//     metal_start removes first thing.
#include "boot/boot.h"
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/paging.h"

#define MULTIBOOT2_MAGIC 0x36d76289u
#define PVH_MAGIC 0x336ec578u
#define SLOT_LEN (1ull << 39)
#define SLOT_FIRST 256u  // the upper half
#define SLOT_COUNT 256u
#define WINDOW_MAX (64ull << 30)  // what a window may need above its begin
#define STACK_LEN (64u << 10)
#define DIRECT_MAX (64ull << 30)
#define CR4_SMEP (1ull << 20)
#define CR4_SMAP (1ull << 21)
#define CR4_UMIP (1ull << 11)
#define CR4_PGE (1ull << 7)
#define LEAF7_EBX_SMEP (1u << 7)
#define LEAF7_EBX_SMAP (1u << 20)
#define LEAF7_ECX_UMIP (1u << 2)

static struct boot_info the_info;
static u8 first_stack[STACK_LEN] ALIGNED(4096);
uptr __stack_chk_guard = 0x595e9fbd94fda700ull;

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

// --- Layout

static u64 slot_base(u64 slot) {
  return 0xffff000000000000ull | slot << 39;
}

// A free slot for each window, by chance; a taken one is drawn again.
void boot_choose_layout(struct boot_info *info) {
  u64 slot[4];
  for (u32 i = 0; i < 4; i++) {
    bool taken = true;
    while (taken) {
      slot[i] = SLOT_FIRST + boot_random() % SLOT_COUNT;
      taken = false;
      for (u32 k = 0; k < i; k++) {
        taken = taken || slot[k] == slot[i];
      }
    }
  }
  struct boot_layout *l = &info->layout;
  u64 pages = (SLOT_LEN - WINDOW_MAX) / PAGE_SIZE;
  l->image = slot_base(slot[0]) + boot_random() % pages * PAGE_SIZE;
  l->direct =
      slot_base(slot[1]) + boot_random() % ((SLOT_LEN - DIRECT_MAX) / PAGE_LARGE) * PAGE_LARGE;
  l->stacks = slot_base(slot[2]) + boot_random() % pages * PAGE_SIZE;
  l->mmio = slot_base(slot[3]) + boot_random() % pages * PAGE_SIZE;
}

// --- Relocation (generic ABI, RELR)

static void relocate_relr(u64 to_place, u64 delta) {
  u64 *where = NULL;
  for (const u64 *e = image_relr; e < image_relr_end; e++) {
    if ((*e & 1) == 0) {
      where = (u64 *)boot_at(*e + to_place);
      *where++ += delta;
      continue;
    }
    for (u32 bit = 0; bit < 63; bit++) {
      if ((*e >> (bit + 1) & 1) != 0) {
        where[bit] += delta;
      }
    }
    where += 63;
  }
}

void boot_relocate(u64 image_phys, u64 image_virt) {
  u64 link_base = 0x200000;
  u64 to_place = image_phys - link_base;
  u64 delta = image_virt - link_base;
  for (const u64 *r = image_rela; r < image_rela_end; r += 3) {
    if ((u32)r[1] != 8) {  // R_X86_64_RELATIVE: the only kind a static PIE of ours has
      boot_die("urMQTT E011: this image cannot relocate itself. ");
    }
    *(u64 *)boot_at(r[0] + to_place) = r[2] + delta;
  }
  relocate_relr(to_place, delta);
}

// --- Final tables

static bool map_image(const struct boot_layout *l) {
  u64 text = (u64)(image_text_end - image_base);
  u64 rodata = (u64)(image_rodata_end - image_base);
  return paging_map(l->image, l->image_phys, text, PAGE_TEXT) &&
         paging_map(l->image + text, l->image_phys + text, rodata - text, PAGE_RODATA) &&
         paging_map(l->image + rodata, l->image_phys + rodata, l->image_len - rodata, PAGE_DATA) &&
         paging_map(l->image_phys, l->image_phys, text, PAGE_TEXT);
}

// Memory that cannot be mapped (beyond 64 GiB, or the pool of tables is used up) is left out.
static void map_direct(struct boot_info *info) {
  u32 kept = 0;
  for (u32 i = 0; i < info->usable_count; i++) {
    struct boot_range r = info->usable[i];
    r.end = MIN(r.end, DIRECT_MAX);
    bool room = paging_tables_used() + 80 < PAGING_POOL;
    if (r.start < r.end && room &&
        paging_map(info->layout.direct + r.start, r.start, r.end - r.start, PAGE_DATA)) {
      info->usable[kept++] = r;
    }
  }
  info->usable_count = kept;
}

static void protect(void) {
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

static NORETURN void go(struct boot_info *info) {
  struct boot_layout *l = &info->layout;
  u64 stack_phys = l->image_phys + (u64)(first_stack - image_base);
  paging_init(l->image_phys + (u64)((const u8 *)paging_pool() - image_base));
  l->stack_low = l->stacks + PAGE_SIZE;  // the page below stays unmapped: the guard
  if (!map_image(l) || !paging_map(l->stack_low, stack_phys, STACK_LEN, PAGE_DATA)) {
    boot_die("urMQTT E012: not enough page tables to map the image. ");
  }
  map_direct(info);
  protect();
  boot_relocate(l->image_phys, l->image);
  u64 to_virt = l->image - l->image_phys;
  boot_enter(paging_root_phys(), l->stack_low + STACK_LEN, (u64)(uptr)metal_start + to_virt,
             (u64)(uptr)info + to_virt);
  cpu_halt_forever();
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
  info->layout.image_phys = image_phys;
  info->layout.image_len = (u64)(image_end - image_base);
  boot_sort(info);
  boot_remove(info, image_phys, image_phys + info->layout.image_len);
  for (u32 i = 0; i < info->module_count; i++) {
    boot_remove(info, info->modules[i].phys, info->modules[i].phys + info->modules[i].len);
  }
  boot_sort(info);
  boot_choose_layout(info);
  go(info);
}

NO_STACK_PROTECTOR void boot_start(u32 magic, u64 info_phys, u64 image_phys) {
  the_info.cycles_at_entry = cpu_cycles();
  boot_seed(&the_info);
  __stack_chk_guard = boot_random() & ~0xffull;  // a zero byte first: no string copy passes it
  boot_continue(magic, info_phys, image_phys);
}
