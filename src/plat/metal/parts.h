// SPDX-License-Identifier: Apache-2.0
// The kernel's parts as start.c puts them together; see metal.h for what drivers may use.
#pragma once
#include "base/fmt.h"
#include "dev/pci.h"
#include "plat/metal/metal.h"
#include "plat/plat.h"

extern const struct boot_info *metal_boot;  // read-only after boot

// --- memory.c
void frames_init(const struct boot_info *info);
void frames_divide(void);
void frames_describe(struct writer *w);

// --- clock.c
void clock_init(void);
void clock_describe(struct writer *w);

// --- console.c
void console_init(const struct boot_info *info);
bool console_up(void);
bool console_pump(void);   // to the devices; true when nothing is left
void console_drain(void);  // before the end: waits, within a bound
void console_fmt(const char *format, ...) PRINTF_LIKE(1, 2);
void console_describe(struct writer *w);

// --- random.c
void random_init(const struct boot_info *info);
void random_core_init(struct bytes seed);  // of another core: from bytes of core 0's
void random_stir(struct bytes from);
void random_describe(struct writer *w);

// --- idle.c
void idle_for_ns(u64 ns);  // halts for that long; interrupts only

// --- cores.c
void metal_cores_start(void);    // those that the command line's cores=N wants
void metal_core_main(u32 core);  // where machine_core_begin makes a core begin; does not return
bool metal_crash_begins(void);   // the others stop; false: another core was first
void metal_crash_look(void);     // stops this core when another has crashed

// --- pci_devices.c
extern const struct dma_ops metal_dma_ops;
extern struct pci_dev metal_pci[PCI_DEVICES_MAX];
extern u32 metal_pci_count;
void metal_pci_start(void);
void metal_pci_facts(struct json_out *o);

// --- disk.c
void metal_disk_start(void);
u64 metal_disk_arm(bool want);  // as metal_nic_sleep (true) and metal_nic_awake
void metal_disk_describe(struct writer *w);
void metal_disk_facts(struct json_out *o);  // of its drivers: elements of an array

// --- Programs chosen by a word of the command line; both end the machine.
bool metal_command_word(const char *word);
u32 metal_command_number(const char *name, u32 otherwise);  // of a word "name=number"
NORETURN void selftest_main(void);
void selftest_core(u32 core);  // what another core does in a selftest
NORETURN void selftest_disk_main(void);
