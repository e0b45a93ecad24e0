// SPDX-License-Identifier: Apache-2.0
// The menu's third entry: what hardware is there, as text on both consoles. Reads only.
#include "plat/metal/machine.h"

void diagnostics_main(void) {
  static char text[16384];
  struct writer w = writer_init(span_of(text, sizeof text));
  write_str(&w, "\nDiagnostics\n");
  machine_cpu_describe(&w);
  for (u32 i = 0; i < metal_boot->usable_count; i++) {
    const struct boot_range *r = &metal_boot->usable[i];
    fmt(&w, "memory: 0x%lx to 0x%lx, %lu KiB\n", r->start, r->end, (r->end - r->start) >> 10);
  }
  for (u32 i = 0; i < metal_boot->module_count; i++) {
    fmt(&w, "module: %s, %lu bytes\n", metal_boot->modules[i].name, metal_boot->modules[i].len);
  }
  machine_tables_describe(&w);
  metal_pci_describe(&w);
  metal_nic_describe(&w);
  metal_disk_describe(&w);
  write_str(&w, "Nothing was written to any disk. Diagnostics end here.\n");
  plat_console(writer_bytes(&w));
  plat_end(metal_command_word("off") ? END_POWER_OFF : END_STOP);
}
