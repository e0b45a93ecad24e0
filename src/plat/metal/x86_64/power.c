// SPDX-License-Identifier: Apache-2.0
// The power button as ACPI's fixed hardware (ACPI 6.4, 4.8.3): a status bit in the PM1 event
// block. Its interrupt, the SCI, only ends a halt; who asks then reads the bit. Without AML we can
// serve no other event, so every general-purpose event is switched off: nothing else may hold the
// SCI's level.
#include "arch/cpu.h"
#include "plat/metal/machine.h"
#include "plat/metal/x86_64/pc.h"

#define POWER_BUTTON 0x100u  // in PM1 status and PM1 enable
#define SCI_ENABLE 1u        // in PM1 control: events go to us, not to the firmware
#define ACPI_LOOKS 300000u

static bool take_over(const struct pc *a) {
  if (a->pm1a_control == 0 || (cpu_in16(a->pm1a_control) & SCI_ENABLE) != 0) {
    return a->pm1a_control != 0;
  }
  if (a->smi_command == 0 || a->acpi_enable == 0) {
    return false;
  }
  cpu_out8(a->smi_command, a->acpi_enable);
  for (u32 i = 0; i < ACPI_LOOKS; i++) {
    if ((cpu_in16(a->pm1a_control) & SCI_ENABLE) != 0) {
      return true;
    }
  }
  return false;
}

bool pc_power_start(void) {
  const struct pc *a = &metal_pc;
  if (!a->power_button || !take_over(a)) {
    return false;
  }
  for (u32 k = 0; k < 2; k++) {
    for (u32 i = 0; i < a->gpe_len[k] / 2u && a->gpe[k] != 0; i++) {
      cpu_out8((u16)(a->gpe[k] + a->gpe_len[k] / 2u + i), 0);
    }
    if (a->pm1_event[k] != 0) {
      cpu_out16(a->pm1_event[k], POWER_BUTTON);  // an old press
      cpu_out16((u16)(a->pm1_event[k] + a->pm1_event_len / 2u), POWER_BUTTON);
    }
  }
  return true;
}

bool machine_button(void) {
  const struct pc *a = &metal_pc;
  bool pressed = false;
  for (u32 k = 0; k < 2 && a->power_button; k++) {
    if (a->pm1_event[k] != 0 && (cpu_in16(a->pm1_event[k]) & POWER_BUTTON) != 0) {
      cpu_out16(a->pm1_event[k], POWER_BUTTON);
      pressed = true;
    }
  }
  return pressed;
}
