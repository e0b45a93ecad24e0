// SPDX-License-Identifier: Apache-2.0
// The PC's interrupts: everything arrives at the local APIC and only ends a halt.
#include "arch/x86_64/apic.h"

#include "arch/cpu.h"
#include "plat/metal/machine.h"
#include "plat/metal/x86_64/pc.h"

#define CALIBRATE_NS 4000000ull
#define IRQ_KEYBOARD 1u
#define IRQ_COM1 4u

static u64 ticks_per_ms;  // of the one-shot timer; 0 with TSC deadlines

static void route(volatile u32 *ioapic, struct pc_line line) {
  if (line.gsi >= metal_pc.ioapic_gsi_base && line.gsi - metal_pc.ioapic_gsi_base < 24) {
    ioapic_route(ioapic, line.gsi - metal_pc.ioapic_gsi_base, line.low_active, line.level,
                 apic_id());
  }
}

// Level, and active low unless an entry of the MADT says otherwise (ACPI 6.4, 5.2.9).
static struct pc_line sci_line(void) {
  const struct pc *a = &metal_pc;
  struct pc_line line = a->sci < 16 ? a->isa[a->sci] : (struct pc_line){.gsi = a->sci};
  return line.level ? line : (struct pc_line){line.gsi, .low_active = true, .level = true};
}

void machine_interrupts_start(void) {
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
  if (metal_pc.ioapic_phys != 0) {
    ioapic = metal_map_mmio(metal_pc.ioapic_phys, 4096);
  }
  if (ioapic != NULL) {
    route(ioapic, metal_pc.isa[IRQ_COM1]);
    route(ioapic, metal_pc.isa[IRQ_KEYBOARD]);
  }
  if (pc_power_start() && ioapic != NULL) {
    route(ioapic, sci_line());
  }
}

void machine_timer_arm(u64 deadline_ns) {
  if (deadline_ns == U64_MAX) {
    apic_timer_stop();
  } else if (apic_timer_is_tsc()) {
    apic_timer_arm(pc_tsc_of(deadline_ns));
  } else {
    u64 now = plat_now_ns();
    u64 left_us = deadline_ns > now ? MIN((deadline_ns - now) / 1000, 3600000000ull) : 0;
    apic_timer_arm(MAX(1ull, left_us * ticks_per_ms / 1000));
  }
}

void machine_wait(void) {
  cpu_wait_for_interrupt();
}

void machine_wake(u32 core) {
  apic_wake(pc_apic_of(core));
}

struct metal_msi metal_msi(u32 core, u32 requester) {
  (void)requester;  // every device may write to the local APIC
  u32 id = pc_apic_of(core);
  if (id > 254) {
    return (struct metal_msi){.address = 0};  // the address has eight bits for it
  }
  return (struct metal_msi){.address = 0xfee00000ull | (u64)id << 12, .data = TRAP_VECTOR_DEVICE};
}

void machine_interrupts_describe(struct writer *w) {
  fmt(w, "interrupts: %s, timer %s\n", apic_has_x2() ? "x2APIC" : "xAPIC",
      apic_timer_is_tsc() ? "by TSC deadline" : "one-shot");
}
