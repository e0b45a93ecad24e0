// SPDX-License-Identifier: Apache-2.0
// The kernel's parts as start.c puts them together; see metal.h for what drivers may use.
#pragma once
#include "base/fmt.h"
#include "plat/metal/metal.h"
#include "plat/plat.h"

extern const struct boot_info *metal_boot;  // read-only after boot

// --- memory.c
void frames_init(const struct boot_info *info);
void frames_divide(void);
void frames_describe(struct writer *w);

// --- acpi.c: static tables only, no AML.
struct acpi {
  bool found;
  u32 cpu_count;  // enabled in the MADT; 1 when there is none
  u64 ioapic_phys;
  u32 ioapic_gsi_base;
  struct acpi_line {  // where an ISA interrupt arrives
    u32 gsi;
    bool low_active;
    bool level;
  } isa[16];
  u64 hpet_phys;
  u32 ecam_count;
  struct metal_ecam ecam[4];
  u16 pm_timer_port;  // 0 = none
  bool pm_timer_32;
  u16 pm1a_control;
  u16 pm1b_control;
  u8 sleep_type_a;  // for S5; 0 when not found
  u8 sleep_type_b;
  u8 century_reg;
  bool reset_in_io;
  u64 reset_address;  // 0 = none
  u8 reset_value;
};
extern struct acpi metal_acpi;
void acpi_read(const struct boot_info *info);
void acpi_describe(struct writer *w);

// --- clock.c
void clock_init(void);
u64 clock_tsc_of(u64 ns);  // the TSC value at which plat_now_ns() reaches ns
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
void random_stir(struct bytes from);
void random_describe(struct writer *w);

// --- idle.c
void idle_init(void);
void idle_for_ns(u64 ns);  // halts for that long; interrupts only
void idle_describe(struct writer *w);

// --- Programs chosen by a word of the command line; both end the machine.
bool metal_command_word(const char *word);
NORETURN void selftest_main(void);
NORETURN void diagnostics_main(void);
