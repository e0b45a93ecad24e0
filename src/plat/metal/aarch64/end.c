// SPDX-License-Identifier: Apache-2.0
// Power by PSCI (Arm DEN 0022), through the conduit that the firmware names.
#include "arch/cpu.h"
#include "plat/metal/aarch64/board.h"
#include "plat/metal/machine.h"

#define SYSTEM_OFF 0x84000008u
#define SYSTEM_RESET 0x84000009u

i64 board_psci(u32 function, u64 a, u64 b, u64 c) {
  register u64 x0 __asm__("x0") = function;
  register u64 x1 __asm__("x1") = a;
  register u64 x2 __asm__("x2") = b;
  register u64 x3 __asm__("x3") = c;
  if (!metal_board.has_psci) {
    return -1;
  }
  if (metal_board.psci_by_smc) {
    __asm__ volatile("smc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3) : : "memory");
  } else {
    __asm__ volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3) : : "memory");
  }
  return (i64)x0;
}

void machine_power_off(void) {
  (void)board_psci(SYSTEM_OFF, 0, 0, 0);
}

void machine_restart(void) {
  (void)board_psci(SYSTEM_RESET, 0, 0, 0);
}

// The port is known before the console is up, if at all; its data register takes what it can.
void machine_emergency_text(const char *text) {
  if (metal_board.uart_phys == 0) {
    return;
  }
  volatile u8 *regs = metal_map_mmio(metal_board.uart_phys, 4096);
  for (u32 i = 0; text[i] != 0 && regs != NULL; i++) {
    cpu_mmio_write32(regs, (u8)text[i]);
  }
}
