// SPDX-License-Identifier: Apache-2.0
// What the firmware says about an aarch64 machine, whether by ACPI or by a device tree.
#pragma once
#include "dev/pci_assign.h"
#include "plat/metal/parts.h"

#define BOARD_REDIST_MAX 64u
#define BOARD_CPUS_MAX 64u
#define BOARD_MAP_MAX 8u

struct board {
  const char *source;          // "ACPI", "device tree", "nothing"
  u32 cpu_count;               // enabled ones; 0 = not told
  u64 cpu_id[BOARD_CPUS_MAX];  // MPIDR's affinity of the first of them
  u64 uart_phys;               // a PL011; 0 = none
  bool uart_32;                // its registers are accessed by 32 bits
  u32 uart_irq;                // 0 = none
  u32 gic_version;             // 0 = none
  u64 dist_phys;
  u64 cpu_phys;  // GICv2's interface of a core
  u32 redist_count;
  struct boot_range redist[BOARD_REDIST_MAX];
  u64 v2m_phys;   // GICv2m: 0 = none
  u32 v2m_first;  // 0 = the frame itself says
  u32 v2m_count;
  u64 its_phys;  // 0 = none
  u32 timer_irq;
  bool has_psci;
  bool psci_by_smc;
  u64 rtc_phys;     // a PL031; 0 = none
  u64 button_phys;  // a PL061 with the power button; 0 = none
  u32 button_pin;
  u32 button_irq;
  u32 ecam_count;
  struct metal_ecam ecam[4];
  struct pci_windows windows;  // device tree only: else the firmware has placed the devices
  u64 io_phys;                 // PCI's I/O space; 0 = none
  u64 io_len;
  u32 map_count;  // how an ITS sees requesters; none: as they are
  struct board_map {
    u32 first;
    u32 count;
    u32 device;
  } map[BOARD_MAP_MAX];
};
extern struct board metal_board;  // filled by machine_tables_read

// False: the tables say nothing about the interrupt controller, so they are not the description.
bool board_from_acpi(struct board *b);
bool board_from_tree(struct board *b, const struct boot_info *info);
void board_add_cpu(struct board *b, u64 affinity);
// The interrupt controller's part of another core: looked for by core 0 before it starts, switched
// on by itself. False: there is none.
bool board_core_find(u32 core, u64 affinity);
bool board_core_interrupts(u32 core);
// A call of the firmware (Arm DEN 0022); what it answers, -1 without one.
i64 board_psci(u32 function, u64 a, u64 b, u64 c);
void board_button_start(void);  // its interrupt wakes from now on
u32 board_device_of(const struct board *b, u32 requester);
