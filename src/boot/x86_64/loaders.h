// SPDX-License-Identifier: Apache-2.0
// The two loaders of x86_64. Each fills command line, modules, memory, screen, rsdp.
#pragma once
#include "boot/boot.h"

void boot_parse_multiboot2(struct boot_info *info, u64 phys);
void boot_parse_pvh(struct boot_info *info, u64 phys);

// Called by entry.S.
#pragma GCC visibility push(hidden)
void boot_start(u32 magic, u64 info_phys, u64 image_phys);
#pragma GCC visibility pop
