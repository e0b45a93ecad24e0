// SPDX-License-Identifier: Apache-2.0
// Inside src/boot: the steps from the loader's structure to the final page tables. All of it runs
// on the identity map, before the final relocation: no pointer in static data may be followed
// (tables of strings, callbacks), and there is no console yet.
#pragma once
#include "base/bytes.h"
#include "boot/boot_info.h"

// The loader's structures are below 4 GiB and mapped one to one.
static inline void *boot_at(u64 phys) {
  return (void *)(uptr)phys;
}

// --- ranges
void boot_add_usable(struct boot_info *info, u64 start, u64 end);
void boot_remove(struct boot_info *info, u64 start, u64 end);
void boot_sort(struct boot_info *info);
void boot_add_module(struct boot_info *info, u64 phys, u64 len, const char *name);
void boot_copy_text(char *to, u32 cap, const char *from);

void boot_keep_rsdp(struct boot_info *info, const void *from, u32 len);

// --- seed: hardware random words where there are any, timing always. Fills info->seed, and sets
// seed_good, which is set already when the loader's bytes (boot_absorb, before) are good.
void boot_absorb(struct bytes from);
void boot_seed(struct boot_info *info);
u64 boot_random(void);  // a fresh word from the same pool

// --- layout and relocation
void boot_choose_layout(struct boot_info *info);
// image_phys: where the image lies; from, to: the base its pointers are for, before and after.
void boot_relocate(u64 image_phys, u64 from, u64 to);
// The last common step: memory, modules and screen are in `info`; what is to stay untouched has
// been removed from its memory, but the image and the modules. Builds the tables, relocates, and
// goes.
NORETURN void boot_go(struct boot_info *info, u64 image_phys);

// --- Supplied by each family (boot/x86_64, boot/aarch64)
u64 boot_runs_for(u64 image_phys);  // the base its pointers are for while boot runs
void boot_protect(void);  // the processor's own protections, before the tables are in force
// Before there is a console: the text where somebody may read it; stops.
NORETURN void boot_die(const char *text);

// Symbols of the linker script. Hidden: they must be reached relative to the program counter, since
// the global offset table is not relocated yet.
#pragma GCC visibility push(hidden)
extern const u8 image_base[];
extern const u8 image_text_end[];
extern const u8 image_rodata_end[];
extern const u8 image_end[];
extern const u64 image_rela[];
extern const u64 image_rela_end[];
extern const u64 image_relr[];
extern const u64 image_relr_end[];
void boot_enter(u64 root_phys, u64 stack_top, u64 entry, u64 argument);
// The stack protector's canary; set once per boot, before any function that is checked can be on
// the stack.
extern uptr __stack_chk_guard;
// Where the program goes on, on the final tables (plat/metal/start.c).
NORETURN void metal_start(const struct boot_info *info);
#pragma GCC visibility pop
