// SPDX-License-Identifier: Apache-2.0
// The local interrupt controller of the boot core, and the I/O APIC's two lines that wake it.
// Interrupts are enabled only inside cpu_wait_for_interrupt (arch/trap.h I1); handlers use a stack
// of their own (IST).
#pragma once
#include "base/cc.h"

#define TRAP_VECTOR_DEVICE 0x40u
#define TRAP_VECTOR_TIMER 0x41u
#define TRAP_VECTOR_CONSOLE 0x42u
#define TRAP_VECTOR_SPURIOUS 0xffu

// --- Local APIC. regs: the mapped register page (ignored when the processor has x2APIC).
bool apic_has_x2(void);
u64 apic_base_phys(void);
void apic_init(void *regs);
u32 apic_id(void);
void apic_wake(u32 id);     // sends TRAP_VECTOR_DEVICE
void apic_init_core(void);  // on another core, after apic_init on the first
// Makes processor `id` wait for apic_begin (INIT, SDM 3A 9.4.4); and begin at page_phys, below 1
// MiB.
void apic_reset(u32 id);
void apic_begin(u32 id, u32 page_phys);
void apic_stop_others(void);  // an NMI to all others
// Timer: one shot. Units: TSC cycles when apic_timer_is_tsc, else the controller's own ticks.
bool apic_timer_is_tsc(void);
void apic_timer_arm(u64 value);  // absolute TSC value, or ticks from now (>= 1)
void apic_timer_stop(void);
u32 apic_timer_left(void);  // ticks left; not for TSC deadlines

// --- I/O APIC: one line, edge or level, to one core's TRAP_VECTOR_CONSOLE.
void ioapic_route(volatile u32 *regs, u32 pin, bool low_active, bool level, u32 apic);
void pic_disable(void);
