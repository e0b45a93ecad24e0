// SPDX-License-Identifier: Apache-2.0
// Descriptor tables, exceptions, and the local interrupt controller of the boot core.
//
// I1  Interrupts are enabled only inside cpu_wait_for_interrupt: handlers never run in the middle
//     of anything, acknowledge, and return. They use a stack of their own (IST) and no vector
//     register.
// I2  Every exception is our bug or broken hardware and ends in trap_fatal on a stack of its own,
//     but one: the first touch of a page that is zeroed on demand, which then goes on.
#pragma once
#include "base/cc.h"

#define TRAP_VECTOR_DEVICE 0x40u
#define TRAP_VECTOR_TIMER 0x41u
#define TRAP_VECTOR_CONSOLE 0x42u
#define TRAP_VECTOR_SPURIOUS 0xffu

// Loads our GDT, TSS and IDT. From here on exceptions are reported.
void trap_init(void);
// Supplied by the platform: an exception happened. address is CR2 for a page fault, else 0.
// Also supplied: a page fault. True when the access may be tried again. It runs in the middle of
// anything: no vector registers, no pools.
bool trap_page_fault(u64 error, u64 address);
NORETURN void trap_fatal(u32 vector, u64 error, u64 address);

// --- Local APIC. regs: the mapped register page (ignored when the processor has x2APIC).
bool apic_has_x2(void);
u64 apic_base_phys(void);
void apic_init(void *regs);
u32 apic_id(void);
void apic_wake(u32 id);  // sends TRAP_VECTOR_DEVICE
// Timer: one shot. Units: TSC cycles when apic_timer_is_tsc, else the controller's own ticks.
bool apic_timer_is_tsc(void);
void apic_timer_arm(u64 value);  // absolute TSC value, or ticks from now (>= 1)
void apic_timer_stop(void);
u32 apic_timer_left(void);  // ticks left; not for TSC deadlines

// --- I/O APIC: one line, edge or level, to one core's TRAP_VECTOR_CONSOLE.
void ioapic_route(volatile u32 *regs, u32 pin, bool low_active, bool level, u32 apic);
void pic_disable(void);
