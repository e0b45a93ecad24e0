// SPDX-License-Identifier: Apache-2.0
// The console devices of an aarch64 machine: the PL011 that the firmware names; the screen comes
// from EFI.
#include "plat/metal/aarch64/board.h"
#include "plat/metal/machine.h"

void machine_serial_start(struct uart *u) {
  const struct board *b = &metal_board;
  volatile u8 *regs = b->uart_phys == 0 ? NULL : metal_map_mmio(b->uart_phys, 4096);
  if (regs != NULL) {
    uart_init_pl011(u, regs, !b->uart_32);
  }
}

const char *machine_serial_name(void) {
  return metal_board.uart_32 ? "PL011 (32 bits)" : "PL011 (16 bits)";
}

void *machine_text_screen(void) {
  return NULL;
}

bool machine_key(u8 *out) {
  (void)out;
  return false;
}
