// SPDX-License-Identifier: Apache-2.0
// Halting until there is something to do. Interrupts are enabled nowhere else: whatever arrived
// since the caller last looked is pending in the local APIC and ends the halt at once, so that no
// wake-up is lost and nothing polls.
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/trap.h"
#include "plat/metal/parts.h"

#define CALIBRATE_NS 4000000ull
#define CONSOLE_RETRY_NS 1000000ull  // a slow serial port takes 16 bytes each 1.4 ms
#define IRQ_KEYBOARD 1u
#define IRQ_COM1 4u

static u64 ticks_per_ms;  // of the one-shot timer; 0 with TSC deadlines

static void route(volatile u32 *ioapic, u32 irq) {
  struct acpi_line line = metal_acpi.isa[irq];
  if (line.gsi >= metal_acpi.ioapic_gsi_base && line.gsi - metal_acpi.ioapic_gsi_base < 24) {
    ioapic_route(ioapic, line.gsi - metal_acpi.ioapic_gsi_base, line.low_active, line.level,
                 apic_id());
  }
}

void idle_init(void) {
  pic_disable();
  apic_init(apic_has_x2() ? NULL : metal_map_mmio(apic_base_phys(), 4096));
  if (!apic_timer_is_tsc()) {
    apic_timer_arm(U32_MAX);
    u64 start = plat_now_ns();
    u64 now = start;
    while (now - start < CALIBRATE_NS) {
      now = plat_now_ns();
    }
    ticks_per_ms = (u64)(U32_MAX - apic_timer_left()) * 1000000 / (now - start);
    apic_timer_stop();
    ASSERT(ticks_per_ms != 0);
  }
  volatile u32 *ioapic = NULL;
  if (metal_acpi.ioapic_phys != 0) {
    ioapic = metal_map_mmio(metal_acpi.ioapic_phys, 4096);
  }
  if (ioapic != NULL) {
    route(ioapic, IRQ_COM1);
    route(ioapic, IRQ_KEYBOARD);
  }
}

static void arm(u64 deadline_ns) {
  if (deadline_ns == U64_MAX) {
    apic_timer_stop();
  } else if (apic_timer_is_tsc()) {
    apic_timer_arm(clock_tsc_of(deadline_ns));
  } else {
    u64 now = plat_now_ns();
    u64 left_us = deadline_ns > now ? MIN((deadline_ns - now) / 1000, 3600000000ull) : 0;
    apic_timer_arm(MAX(1ull, left_us * ticks_per_ms / 1000));
  }
}

void plat_idle(u32 core, u64 deadline_ns) {
  ASSERT(core == 0);
  bool flushed = console_pump();
  u64 now = plat_now_ns();
  if (deadline_ns <= now) {
    return;
  }
  if (!flushed) {
    deadline_ns = MIN(deadline_ns, now + CONSOLE_RETRY_NS);
  }
  u64 longest = metal_nic_arm(true);
  if (longest != 0) {
    deadline_ns = longest == U64_MAX ? deadline_ns : MIN(deadline_ns, now + longest);
    arm(deadline_ns);
    cpu_wait_for_interrupt();
  }
  metal_nic_arm(false);
}

void idle_for_ns(u64 ns) {
  u64 until = plat_now_ns() + ns;
  while (plat_now_ns() < until) {
    arm(until);
    cpu_wait_for_interrupt();
  }
}

void plat_wake(u32 core) {
  ASSERT(core == 0);
  apic_wake(apic_id());
}

u32 plat_core_count(void) {
  return 1;
}

struct metal_msi metal_msi(u32 core) {
  ASSERT(core == 0);
  return (struct metal_msi){.address = 0xfee00000ull | (u64)(apic_id() & 0xff) << 12,
                            .data = TRAP_VECTOR_DEVICE};
}

void idle_describe(struct writer *w) {
  fmt(w, "interrupts: %s, timer %s\n", apic_has_x2() ? "x2APIC" : "xAPIC",
      apic_timer_is_tsc() ? "by TSC deadline" : "one-shot");
}
