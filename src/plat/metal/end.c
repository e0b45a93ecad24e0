// SPDX-License-Identifier: Apache-2.0
// The ends: power off, restart, stop; and the crash that all our own bugs come to. A crash shows a
// code, the build and a plain sentence on both consoles, nothing about registers or addresses,
// stays readable for 60 s and restarts. Started from a medium that would only start the same again
// (`medium=iso` on the command line), the machine stops instead.
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/paging.h"
#include "arch/x86_64/trap.h"
#include "base/assert.h"
#include "plat/metal/parts.h"

#define READABLE_NS 60000000000ull
#define PAGE_FAULT_PRESENT 1u  // the page was there: a right was missing
#define SLEEP_ENABLE 0x2000u
#define RESET_SPINS 1000000u

NORETURN void __stack_chk_fail(void);
static bool crashing;

static void pause_spins(void) {
  for (u32 i = 0; i < RESET_SPINS; i++) {
    cpu_relax();
  }
}

static void power_off(void) {
  const struct acpi *a = &metal_acpi;
  if (a->pm1a_control != 0) {
    cpu_out16(a->pm1a_control, (u16)(a->sleep_type_a << 10 | SLEEP_ENABLE));
    if (a->pm1b_control != 0) {
      cpu_out16(a->pm1b_control, (u16)(a->sleep_type_b << 10 | SLEEP_ENABLE));
    }
    pause_spins();
  }
  static const u16 guesses[] = {0x604, 0xb004, 0x4004};  // QEMU q35, pc; VirtualBox
  for (u32 i = 0; i < ARRAY_COUNT(guesses); i++) {
    cpu_out16(guesses[i], SLEEP_ENABLE);
  }
  pause_spins();
}

static void restart(void) {
  const struct acpi *a = &metal_acpi;
  if (a->reset_address != 0 && a->reset_in_io) {
    cpu_out8((u16)a->reset_address, a->reset_value);
    pause_spins();
  }
  cpu_out8(0xcf9, 0x06);
  pause_spins();
  cpu_out8(0x64, 0xfe);  // the keyboard controller's reset line
  pause_spins();
}

void plat_end(enum plat_end how) {
  console_drain();
  if (how == END_POWER_OFF) {
    power_off();
    plat_console(BYTES_LIT("It is now safe to turn off this machine.\n"));
  } else if (how == END_RESTART) {
    restart();
    plat_console(BYTES_LIT("This machine does not restart by itself: reset it.\n"));
  }
  console_drain();
  cpu_halt_forever();
}

// Nobody has asked this machine to end.
bool plat_stop_requested(void) {
  return false;
}

void plat_crash(const char *code, const char *sentence) {
  if (crashing || !console_up()) {
    cpu_halt_forever();
  }
  crashing = true;
  bool stop = metal_command_word("medium=iso");
  console_fmt("\nurMQTT has stopped: %s\n%s\n", code, sentence);
  console_fmt("Build %s. docs/operations.md explains the code.\n", URMQTT_BUILD_ID);
  console_fmt(stop ? "This machine was started from read-only media and stays as it is.\n"
                   : "This machine restarts in 60 seconds.\n");
  console_drain();
  if (stop) {
    cpu_halt_forever();
  }
  idle_for_ns(READABLE_NS);
  plat_end(END_RESTART);
}

// `where` names our own source: no secret, and what a bug report needs.
void assert_fail(const char *where, const char *what) {
  if (!console_up()) {
    for (u32 i = 0; where[i] != 0; i++) {
      cpu_out8(0x3f8, (u8)where[i]);
    }
    cpu_halt_forever();
  }
  console_fmt("\n%s: %s\n", where, what);
  plat_crash("E001", "The program found its own state to be wrong and stopped before doing harm.");
}

void __stack_chk_fail(void) {
  plat_crash("E002", "A function wrote beyond its own part of the stack.");
}

bool trap_page_fault(u64 error, u64 address) {
  return (error & PAGE_FAULT_PRESENT) == 0 && paging_demand(address);
}

void trap_fatal(u32 vector, u64 error, u64 address) {
  (void)error;
  switch (vector) {
  case 0: plat_crash("E030", "The program divided by zero.");
  case 6: plat_crash("E031", "The program met an instruction that must never be reached.");
  case 8: plat_crash("E032", "The processor failed while reporting a failure.");
  case 13: plat_crash("E033", "The program broke a protection rule of the processor.");
  case 14:
    if (metal_is_stack_guard(address)) {
      plat_crash("E034", "A stack ran into its guard page: the program needed more than it has.");
    }
    plat_crash("E035", "The program touched memory that it may not touch.");
  case 18: plat_crash("E036", "The processor reports broken hardware.");
  default: plat_crash("E037", "The processor raised an exception that nothing here can cause.");
  }
}
