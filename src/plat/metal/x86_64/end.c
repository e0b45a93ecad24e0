// SPDX-License-Identifier: Apache-2.0
// The PC's ends: ACPI's power-off and reset registers, then what QEMU, VirtualBox and old machines
// have.
#include "arch/cpu.h"
#include "plat/metal/machine.h"
#include "plat/metal/x86_64/pc.h"

#define SLEEP_ENABLE 0x2000u
#define SLEEP_REG_ENABLE 0x20u  // in the sleep control register (ACPI 6.4, 4.8.3.7)
#define RESET_SPINS 1000000u

static void pause_spins(void) {
  for (u32 i = 0; i < RESET_SPINS; i++) {
    cpu_relax();
  }
}

void machine_power_off(void) {
  const struct pc *a = &metal_pc;
  if (a->pm1a_control != 0) {
    cpu_out16(a->pm1a_control, (u16)(a->sleep_type_a << 10 | SLEEP_ENABLE));
    if (a->pm1b_control != 0) {
      cpu_out16(a->pm1b_control, (u16)(a->sleep_type_b << 10 | SLEEP_ENABLE));
    }
    pause_spins();
  }
  if (a->sleep_register != 0) {
    u8 value = (u8)(a->sleep_type_a << 2 | SLEEP_REG_ENABLE);
    volatile u8 *at = a->sleep_in_io ? NULL : metal_map_mmio(a->sleep_register, 1);
    if (a->sleep_in_io) {
      cpu_out8((u16)a->sleep_register, value);
    } else if (at != NULL) {
      cpu_mmio_write8(at, value);
    }
    pause_spins();
  }
  static const u16 guesses[] = {0x604, 0xb004, 0x4004};  // QEMU q35, pc; VirtualBox
  for (u32 i = 0; i < ARRAY_COUNT(guesses); i++) {
    cpu_out16(guesses[i], SLEEP_ENABLE);
  }
  pause_spins();
}

void machine_restart(void) {
  const struct pc *a = &metal_pc;
  if (a->reset_address != 0 && a->reset_in_io) {
    cpu_out8((u16)a->reset_address, a->reset_value);
    pause_spins();
  }
  cpu_out8(0xcf9, 0x06);
  pause_spins();
  cpu_out8(0x64, 0xfe);  // the keyboard controller's reset line
  pause_spins();
}

void machine_emergency_text(const char *text) {
  for (u32 i = 0; text[i] != 0; i++) {
    cpu_out8(0x3f8, (u8)text[i]);
  }
}
