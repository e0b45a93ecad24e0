// SPDX-License-Identifier: Apache-2.0
// What each family of machines supplies to the kernel: plat/metal/x86_64 and plat/metal/aarch64,
// the same file names in both; the build chooses the folder. Called by the files of plat/metal
// only.
#pragma once
#include "base/assert.h"
#include "dev/screen.h"
#include "dev/uart.h"
#include "plat/metal/parts.h"

// --- cpu.c
void machine_cpu_start(void);  // the vector registers that the cryptography uses
void machine_cpu_facts(struct json_out *o);
void machine_touch(void);                // one slow access to a device: its time varies
const char *machine_entropy_good(void);  // lines for the console
const char *machine_entropy_weak(void);

// --- tables.c: what the firmware says is there; before the console.
void machine_tables_read(const struct boot_info *info);
void machine_tables_facts(struct json_out *o);

// --- clock.c
void machine_clock_start(void);  // ends in plat_crash when there is none
u64 machine_clock_ns(void);      // since boot; may go back a little
u64 machine_clock_hz(void);
const char *machine_clock_source(void);
u64 machine_wall_battery_s(void);  // Unix time; 0 = there is no battery clock
u64 machine_wall_host_ns(void);    // Unix time; 0 = no host tells

// --- console.c
void machine_serial_start(struct uart *u);  // leaves it UART_NONE when there is none
const char *machine_serial_name(void);
void *machine_text_screen(void);  // 80 x 25 cells, or NULL
bool machine_key(u8 *out);        // a key typed on the machine's own keyboard

// --- interrupts.c: everything only ends a halt (arch/trap.h I1).
void machine_interrupts_start(void);
void machine_interrupts_describe(struct writer *w);
void machine_timer_arm(u64 deadline_ns);  // U64_MAX: none
void machine_wait(void);      // halts until an interrupt; one that is pending ends it at once
void machine_wake(u32 core);  // an interrupt to this core or another

// --- cores.c: processors by the firmware's list, this one first
u32 machine_core_list(void);  // how many may be used
// Makes the nth listed one (from 1 on) begin as core `core` at metal_core_main. False: it cannot.
bool machine_core_begin(u32 nth, u32 core, u64 stack_top);
void machine_core_forget(u32 nth);   // it did not come: it is stopped
void machine_core_all_begun(void);   // what only beginning needed goes
void machine_core_arrive(u32 core);  // on the new core: registers, clock, interrupts
// Core `core`'s counter is so many ticks ahead of core 0's.
void machine_clock_correct(u32 core, i64 ahead);
void machine_clock_settle(void);  // on the new core, after it

// --- power.c; aarch64: end.c
bool machine_button(void);  // was the power button pressed since the last look? An exit to the host

// --- end.c
void machine_power_off(void);  // both return when the machine does not
void machine_restart(void);
void machine_emergency_text(const char *text);  // before the console is up
