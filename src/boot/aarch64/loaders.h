// SPDX-License-Identifier: Apache-2.0
// The two ways in on aarch64: with a device tree (arm64 Image protocol), and as a UEFI application.
#pragma once
#include "boot/boot.h"
#include "boot/fdt.h"

// Command line, initrd, seeds and, when `memory` is wanted, usable memory out of the tree at phys.
// False: there is no sound tree there. The seeds are absorbed.
bool boot_parse_tree(struct boot_info *info, u64 phys, bool memory);
// Everything that the firmware knows; afterwards it has left and its memory is ours. False: it does
// not let us, and goes on to whatever starts next.
bool boot_parse_efi(struct boot_info *info, void *image_handle, void *system_table);

#pragma GCC visibility push(hidden)
// Called by entry.S.
void boot_start_tree(u64 tree_phys, u64 image_phys);
u64 boot_start_efi(void *image_handle, void *system_table, u64 image_phys);
// Read by boot_enter: the keys that sign return addresses, and whether this processor signs.
extern u64 boot_sign_key[2];
#pragma GCC visibility pop
