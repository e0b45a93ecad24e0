// SPDX-License-Identifier: Apache-2.0
// The menu's third entry: what hardware is there, as text on both consoles. Reads only.
#include "arch/x86_64/cpu.h"
#include "plat/metal/parts.h"

static void describe_cpu(struct writer *w) {
  char brand[49] = {0};
  if (cpu_id(0x80000000u, 0).eax >= 0x80000004u) {
    for (u32 i = 0; i < 3; i++) {
      struct cpuid r = cpu_id(0x80000002u + i, 0);
      memcpy(brand + 16 * i, &r, 16);
    }
  }
  struct cpuid one = cpu_id(1, 0);
  struct cpuid seven = cpu_id(0, 0).eax >= 7 ? cpu_id(7, 0) : (struct cpuid){0};
  write_str(w, "cpu: ");
  fmt_escaped(w, bytes_str(brand));
  fmt(w, "\ncpu: AES %s, AVX2 %s, RDRAND %s, SMEP %s, SMAP %s, hypervisor %s\n",
      (one.ecx >> 25 & 1) != 0 ? "yes" : "no", (seven.ebx >> 5 & 1) != 0 ? "yes" : "no",
      (one.ecx >> 30 & 1) != 0 ? "yes" : "no", (seven.ebx >> 7 & 1) != 0 ? "yes" : "no",
      (seven.ebx >> 20 & 1) != 0 ? "yes" : "no", (one.ecx >> 31 & 1) != 0 ? "yes" : "no");
}

void diagnostics_main(void) {
  static char text[16384];
  struct writer w = writer_init(span_of(text, sizeof text));
  write_str(&w, "\nDiagnostics\n");
  describe_cpu(&w);
  for (u32 i = 0; i < metal_boot->usable_count; i++) {
    const struct boot_range *r = &metal_boot->usable[i];
    fmt(&w, "memory: 0x%lx to 0x%lx, %lu KiB\n", r->start, r->end, (r->end - r->start) >> 10);
  }
  for (u32 i = 0; i < metal_boot->module_count; i++) {
    fmt(&w, "module: %s, %lu bytes\n", metal_boot->modules[i].name, metal_boot->modules[i].len);
  }
  acpi_describe(&w);
  metal_nic_describe(&w);
  write_str(&w, "Nothing was written to any disk. Diagnostics end here.\n");
  plat_console(writer_bytes(&w));
  plat_end(metal_command_word("off") ? END_POWER_OFF : END_STOP);
}
