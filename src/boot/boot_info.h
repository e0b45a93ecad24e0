// SPDX-License-Identifier: Apache-2.0
// What every way of starting (PVH, multiboot2, device tree, UEFI) is reduced to. Filled once,
// before the kernel runs on its own page tables; read-only ever after.
//
// I1  Everything is copied out of the loader's memory except module bytes, which are named by
//     physical address and excluded from `usable` memory, and a device tree, alike.
// I2  usable[] is sorted, page-aligned, free of overlaps and contains neither the image nor a
//     module nor the first MiB.
#pragma once
#include "base/cc.h"

#define BOOT_RANGE_MAX 64u
#define BOOT_MODULE_MAX 33u  // a slot, the installer's, and the files of a configuration volume
#define BOOT_TEXT_MAX 1024u

enum boot_path { BOOT_PVH, BOOT_MULTIBOOT2_BIOS, BOOT_MULTIBOOT2_EFI, BOOT_DEVICE_TREE, BOOT_EFI };

struct boot_range {  // physical, [start, end)
  u64 start;
  u64 end;
};

struct boot_module {
  u64 phys;
  u64 len;
  char name[96];  // its command line, cut
};

struct boot_framebuffer {
  u64 phys;  // 0 = none: VGA text at 0xb8000 is assumed on a PC
  u32 pitch;
  u32 width;
  u32 height;
  u8 bits_per_pixel;
  u8 red_shift;
  u8 green_shift;
  u8 blue_shift;
};

// What the firmware's clock said at the start; year 0 = it was not asked or said nothing.
struct boot_date {
  u16 year;
  u8 month;
  u8 day;
  u8 hour;
  u8 minute;
  u8 second;
  i16 zone_min;  // minutes that local time is behind UTC; BOOT_ZONE_NONE = unknown, taken as UTC
};
#define BOOT_ZONE_NONE 0x7ff

// The virtual places chosen for this boot; every one random and in a slot of 512 GiB of its own.
struct boot_layout {
  u64 image;       // where the image runs
  u64 image_phys;  // where the loader put it
  u64 image_len;   // with .bss, in pages
  u64 direct;      // physical p is at direct + p, for usable memory only
  u64 stacks;      // window of guarded stacks
  u64 mmio;        // window of device registers, firmware tables, modules
  u64 stack_low;   // the boot core's own stack
};

struct boot_info {
  enum boot_path path;
  u32 usable_count;
  u32 module_count;
  u32 modules_lost;  // for which there was no place
  bool seed_good;  // the seed holds hardware randomness, not only timing
  struct boot_range usable[BOOT_RANGE_MAX];
  struct boot_module modules[BOOT_MODULE_MAX];
  u64 ram_bytes;    // what the firmware called usable
  u64 low_page;     // a usable page below 640 KiB, not the first; 0 = none
  u32 rsdp_len;     // 0 = none found
  u8 rsdp[36];      // a copy: multiboot2 hands over no address
  u64 device_tree;  // physical; 0 = none
  u32 device_tree_len;
  struct boot_date date;
  struct boot_framebuffer screen;
  struct boot_layout layout;
  u64 cycles_at_entry;
  u8 seed[64];
  char command_line[BOOT_TEXT_MAX];
  char loader[64];
};
