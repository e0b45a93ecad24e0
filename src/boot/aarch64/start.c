// SPDX-License-Identifier: Apache-2.0
// The C side of entry.S: canary, the loader's words, the keys of this boot.
#include "arch/cpu.h"
#include "boot/aarch64/loaders.h"

#define EFI_LOAD_ERROR (1ull << 63 | 1)

static struct boot_info the_info;
u64 boot_sign_key[2];

// There is no console yet, and no device whose place is known for certain.
void boot_die(const char *text) {
  (void)text;
  cpu_halt_forever();
}

u64 boot_runs_for(u64 image_phys) {
  return image_phys;
}

// The rest (PAN, WXN, landing pads) is switched on by boot_enter, with the tables.
void boot_protect(void) {
  boot_sign_key[0] = boot_random();
  boot_sign_key[1] = boot_random();
}

static void new_canary(void) {
  boot_seed(&the_info);
  __stack_chk_guard = boot_random() & ~0xffull;  // a zero byte first: no string copy passes it
}

static NORETURN void continue_tree(u64 tree_phys, u64 image_phys) {
  if (!boot_parse_tree(&the_info, tree_phys, true)) {
    boot_die("urMQTT E013: started without a device tree and not by UEFI. ");
  }
  the_info.path = BOOT_DEVICE_TREE;
  boot_copy_text(the_info.loader, sizeof the_info.loader, "arm64 Image");
  new_canary();
  boot_go(&the_info, image_phys);
}

NO_STACK_PROTECTOR void boot_start_tree(u64 tree_phys, u64 image_phys) {
  boot_relocate(image_phys, CPU_LINK_BASE, image_phys);
  the_info.cycles_at_entry = cpu_cycles();
  continue_tree(tree_phys, image_phys);
}

NO_STACK_PROTECTOR u64 boot_start_efi(void *image_handle, void *system_table, u64 image_phys) {
  boot_relocate(image_phys, CPU_LINK_BASE, image_phys);
  the_info.cycles_at_entry = cpu_cycles();
  the_info.path = BOOT_EFI;
  if (!boot_parse_efi(&the_info, image_handle, system_table)) {
    return EFI_LOAD_ERROR;
  }
  new_canary();
  boot_go(&the_info, image_phys);
}
