// SPDX-License-Identifier: Apache-2.0
// The ends: power off, restart, stop; and the crash that all our own bugs come to. A crash shows a
// code, the build and a plain sentence on both consoles, nothing about registers or addresses,
// stays readable for 60 s and restarts. Started from a medium that would only start the same again
// (`medium=iso` on the command line), the machine stops instead.
#include "arch/cpu.h"
#include "arch/paging.h"
#include "arch/trap.h"
#include "plat/metal/machine.h"

#define READABLE_NS 60000000000ull
#define LOOK_NS 20000000ull

NORETURN void __stack_chk_fail(void);

void plat_end(enum plat_end how) {
  console_drain();
  if (how == END_POWER_OFF) {
    machine_power_off();
    plat_console(BYTES_LIT("It is now safe to turn off this machine.\n"));
  } else if (how == END_RESTART) {
    machine_restart();
    plat_console(BYTES_LIT("This machine does not restart by itself: reset it.\n"));
  }
  console_drain();
  cpu_halt_forever();
}

// Asked each turn, so the hardware is looked at now and then only; until then its interrupt is
// still up and ends every halt. Once pressed stays pressed.
bool plat_stop_requested(void) {
  static bool pressed;
  static u64 looked_ns;
  u64 now = plat_now_ns();
  if (!pressed && now - looked_ns >= LOOK_NS) {
    looked_ns = now;
    pressed = machine_button();
  }
  return pressed;
}

void plat_crash(const char *code, const char *sentence) {
  if (!console_up() || !metal_crash_begins()) {
    cpu_halt_forever();
  }
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
    machine_emergency_text(where);
    cpu_halt_forever();
  }
  console_fmt("\n%s: %s\n", where, what);
  plat_crash("E001", "The program found its own state to be wrong and stopped before doing harm.");
}

void __stack_chk_fail(void) {
  plat_crash("E002", "A function wrote beyond its own part of the stack.");
}

bool trap_absent(u64 address) {
  return paging_demand(address);
}

void trap_fatal(enum trap_cause cause, u64 address) {
  switch (cause) {
  case TRAP_DIVISION: plat_crash("E030", "The program divided by zero.");
  case TRAP_INSTRUCTION:
    plat_crash("E031", "The program met an instruction that must never be reached.");
  case TRAP_NESTED: plat_crash("E032", "The processor failed while reporting a failure.");
  case TRAP_PROTECTION: plat_crash("E033", "The program broke a protection rule of the processor.");
  case TRAP_MEMORY:
    if (metal_is_stack_guard(address)) {
      plat_crash("E034", "A stack ran into its guard page: the program needed more than it has.");
    }
    plat_crash("E035", "The program touched memory that it may not touch.");
  case TRAP_BROKEN: plat_crash("E036", "The processor reports broken hardware.");
  case TRAP_OTHER: break;
  }
  plat_crash("E037", "The processor raised an exception that nothing here can cause.");
}
