// SPDX-License-Identifier: Apache-2.0
// What the kernel's own parts (start, memory, console, network glue) offer to each other. Nothing
// outside plat/metal sees it; the rest of the program has plat.h.
//
// Order of life: metal_start (called by boot on the final page tables) brings up memory, console,
// ACPI, interrupts, clock and entropy, then metal_nic_start, then the program's main. metal_dma and
// metal_map_mmio work from the moment metal_nic_start runs; plat_memory hands out what is left, so
// metal_dma answers with nothing after it.
#pragma once
#include "base/bytes.h"
#include "boot/boot_info.h"

// --- Memory

// Physical address of a mapped byte (any address of ours: direct map, image, stacks). Asserts that
// it is mapped. A block from plat_memory or metal_dma is physically contiguous; other memory only
// within a 4 KiB page.
u64 metal_phys_of(const void *at);
// Maps [phys, phys+len) uncached, read-write, not executable, at a random place; also above 4 GiB.
// Not a page boundary? The result points at phys's own byte. NULL when the window is full. There
// is no unmap: devices stay.
void *metal_map_mmio(u64 phys, usize len);
// The same, cached and read-only: firmware tables, boot modules.
const void *metal_map_ro(u64 phys, usize len);
// The same, cached and read-write: memory that is nobody's.
void *metal_map_data(u64 phys, usize len);
// The same, write-combining: a framebuffer.
void *metal_map_wc(u64 phys, usize len);
// `len` bytes of zeroed, physically contiguous, page-aligned memory that devices may read and write
// (cache-coherent). Before plat_memory only. Empty span when there is not that much.
struct span metal_dma(usize len);
bool metal_is_stack_guard(u64 at);  // is it in a guard page (for the sentence after a fault)?

// --- Interrupts: a vector only wakes the halted core. Handlers acknowledge and return; they touch
// no state. A driver looks at its rings after every wake-up and finds out itself.

struct metal_msi {
  u64 address;  // for the MSI-X table entry (or the MSI capability)
  u32 data;
};
// The message by which the PCI function `requester` (bus << 8 | device << 3 | function) wakes
// `core`. Any number of its table entries may share it. address 0: there is no such thing here,
// poll.
struct metal_msi metal_msi(u32 core, u32 requester);

// --- Firmware tables

struct metal_ecam {
  u64 base_phys;  // of bus 0 (add bus << 20 | device << 15 | function << 12)
  u16 segment;
  u8 bus_first;
  u8 bus_last;
};
// The ECAM windows of ACPI's MCFG table or the device tree. 0 when there are none: use ports
// 0xcf8/0xcfc, where the machine has them.
u32 metal_ecam(struct metal_ecam *out, u32 max);

// The host bridge's windows, where no firmware has placed the devices' registers and we are to.
// False: there is firmware, or nothing is known.
struct pci_windows;
bool metal_pci_windows(struct pci_windows *out);

// --- Network glue (nic.c)

void metal_nic_start(void);  // finds and starts the devices; called once before main
u32 metal_nic_lend(void);    // buffers that a core may lend to another (plat/steer.h)
// Before a halt: interrupts on; how long the halt may last: 0 = not at all, work is there. After
// it: interrupts off, since the loop looks by itself.
u64 metal_nic_sleep(u32 core);
void metal_nic_awake(u32 core);
struct json_out;
void metal_nic_facts(struct json_out *o);  // of its drivers: elements of an array

// --- Start (called by boot)

NORETURN void metal_start(const struct boot_info *info);
