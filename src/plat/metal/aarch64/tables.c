// SPDX-License-Identifier: Apache-2.0
// Which description of the machine is believed: ACPI where it describes an interrupt controller,
// else the device tree.
#include "arch/cpu.h"
#include "plat/metal/aarch64/board.h"
#include "plat/metal/acpi.h"
#include "plat/metal/machine.h"

#define TIMER_USUAL 27u  // the virtual timer's interrupt, by Arm's base system architecture
#define IO_MAX 0x10000u

struct board metal_board;
volatile u8 *cpu_io_window;

void machine_tables_read(const struct boot_info *info) {
  struct board *b = &metal_board;
  ASSERT(b->source == NULL);
  acpi_read(info);
  if (!board_from_acpi(b)) {
    *b = (struct board){0};
    if (!board_from_tree(b, info)) {
      b->source = "nothing";
    }
  }
  if (b->timer_irq < 16 || b->timer_irq > 31) {
    b->timer_irq = TIMER_USUAL;
  }
  if (b->io_phys != 0) {
    cpu_io_window = metal_map_mmio(b->io_phys, MIN(b->io_len, (u64)IO_MAX));
  }
}

u32 board_device_of(const struct board *b, u32 requester) {
  for (u32 i = 0; i < b->map_count; i++) {
    const struct board_map *m = &b->map[i];
    if (requester >= m->first && requester - m->first < m->count) {
      return m->device + (requester - m->first);
    }
  }
  return requester;
}

u32 metal_ecam(struct metal_ecam *out, u32 max) {
  u32 n = MIN(max, metal_board.ecam_count);
  memcpy(out, metal_board.ecam, n * sizeof *out);
  return n;
}

bool metal_pci_windows(struct pci_windows *out) {
  *out = metal_board.windows;
  return out->memory.len != 0;
}

void machine_tables_facts(struct json_out *o) {
  const struct board *b = &metal_board;
  json_key(o, "firmware");
  json_open(o, '{');
  json_field_string(o, "tables", bytes_str(b->source));
  json_field_int(o, "processors", MAX(b->cpu_count, 1u));
  json_field_string(o, "power",
                    bytes_str(!b->has_psci     ? "nobody"
                              : b->psci_by_smc ? "PSCI (SMC)"
                                               : "PSCI (HVC)"));
  json_key(o, "pci_segments");
  json_open(o, '[');
  for (u32 i = 0; i < b->ecam_count; i++) {
    json_put_int(o, b->ecam[i].segment);
  }
  json_close(o, ']');
  json_close(o, '}');
}
