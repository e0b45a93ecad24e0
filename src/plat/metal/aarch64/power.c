// SPDX-License-Identifier: Apache-2.0
// The power button: a key on a PL061 (Arm DDI 0190) that the device tree names. Under ACPI it
// stands in AML only, so there the machine must be told to stop by other means.
#include "arch/cpu.h"
#include "plat/metal/aarch64/board.h"
#include "plat/metal/machine.h"

#define DIRECTION 0x400u
#define LEVEL 0x404u
#define BOTH_EDGES 0x408u
#define RISING 0x40cu
#define ENABLE 0x410u
#define RAW 0x414u
#define CLEAR 0x41cu

static volatile u8 *gpio;
static u8 pin;

static void set(u32 reg, bool on) {
  u8 v = (u8)cpu_mmio_read32(gpio + reg);
  cpu_mmio_write32(gpio + reg, on ? v | pin : v & (u8)~pin);
}

void board_button_start(void) {
  const struct board *b = &metal_board;
  gpio = b->button_phys == 0 ? NULL : metal_map_mmio(b->button_phys, 4096);
  if (gpio == NULL) {
    return;
  }
  pin = (u8)(1u << b->button_pin);
  set(DIRECTION, false);
  set(LEVEL, false);
  set(BOTH_EDGES, false);
  set(RISING, true);
  cpu_mmio_write32(gpio + CLEAR, pin);
  set(ENABLE, true);
}

bool machine_button(void) {
  if (gpio == NULL || (cpu_mmio_read32(gpio + RAW) & pin) == 0) {
    return false;
  }
  cpu_mmio_write32(gpio + CLEAR, pin);
  return true;
}
