// SPDX-License-Identifier: Apache-2.0
// From the loader's hands to the kernel's own world: read what the loader says, choose random
// places, build the final page tables, relocate, go.
//
// I1  The canary is set before anything else is called that is still running when it is checked;
//     the function that sets it (each family's own, before boot_go) never returns and is not
//     protected.
// I2  Each window (image, direct map, stacks, registers) lies at a random place in a slot of
//     512 GiB of its own in the upper half; the image's place has about 33 bits.
// I3  RELR entries add to what is there, so each relocation says from where to where. Code of a
//     family whose compiler reaches data by the global offset table is relocated to where it lies
//     before the rest of boot runs; the other runs unrelocated (boot_runs_for).
// I4  After boot_enter nothing below the upper half is mapped but the image's own identity, which
//     metal_start removes first thing.
#include "boot/boot.h"
#include "arch/cpu.h"
#include "arch/paging.h"

#define SLOT_LEN (1ull << 39)
#define SLOT_FIRST 256u  // the upper half
#define SLOT_COUNT 256u
#define WINDOW_MAX (64ull << 30)  // what a window may need above its begin
#define STACK_LEN (64u << 10)
#define DIRECT_MAX (64ull << 30)

static u8 first_stack[STACK_LEN] ALIGNED(4096);
uptr __stack_chk_guard = 0x595e9fbd94fda700ull;

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

static NO_STACK_PROTECTOR void relocate_relr(u64 to_place, u64 delta) {
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

NO_STACK_PROTECTOR void boot_relocate(u64 image_phys, u64 from, u64 to) {
  u64 to_place = image_phys - CPU_LINK_BASE;
  for (const u64 *r = image_rela; r < image_rela_end; r += 3) {
    if ((u32)r[1] != CPU_ELF_RELATIVE) {
      boot_die("urMQTT E011: this image cannot relocate itself. ");
    }
    *(u64 *)boot_at(r[0] + to_place) = r[2] + (to - CPU_LINK_BASE);
  }
  relocate_relr(to_place, to - from);
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

// The image's and the modules' memory is nobody else's.
static void reserve(struct boot_info *info, u64 image_phys) {
  info->layout.image_phys = image_phys;
  info->layout.image_len = (u64)(image_end - image_base);
  boot_sort(info);
  boot_remove(info, image_phys, image_phys + info->layout.image_len);
  for (u32 i = 0; i < info->module_count; i++) {
    if (info->modules[i].len != 0) {
      boot_remove(info, info->modules[i].phys, info->modules[i].phys + info->modules[i].len);
    }
  }
  boot_sort(info);
}

void boot_go(struct boot_info *info, u64 image_phys) {
  struct boot_layout *l = &info->layout;
  reserve(info, image_phys);
  boot_choose_layout(info);
  u64 stack_phys = l->image_phys + (u64)(first_stack - image_base);
  paging_init(l->image_phys + (u64)((const u8 *)paging_pool() - image_base));
  l->stack_low = l->stacks + PAGE_SIZE;  // the page below stays unmapped: the guard
  if (!map_image(l) || !paging_map(l->stack_low, stack_phys, STACK_LEN, PAGE_DATA)) {
    boot_die("urMQTT E012: not enough page tables to map the image. ");
  }
  map_direct(info);
  boot_protect();
  boot_relocate(l->image_phys, boot_runs_for(l->image_phys), l->image);
  u64 to_virt = l->image - l->image_phys;
  boot_enter(paging_root_phys(), l->stack_low + STACK_LEN, (u64)(uptr)metal_start + to_virt,
             (u64)(uptr)info + to_virt);
  cpu_halt_forever();
}
