// SPDX-License-Identifier: Apache-2.0
// Halting until there is something to do. Whatever arrived since the caller last looked is pending
// in the interrupt controller and ends the halt at once, so that no wake-up is lost and nothing
// polls.
#include "plat/metal/machine.h"

#define CONSOLE_RETRY_NS 1000000ull  // a slow serial port takes 16 bytes each 1.4 ms

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
  u64 longest = MIN(metal_nic_arm(true), metal_disk_arm(true));
  if (longest != 0) {
    deadline_ns = longest == U64_MAX ? deadline_ns : MIN(deadline_ns, now + longest);
    machine_timer_arm(deadline_ns);
    machine_wait();
  }
  metal_nic_arm(false);
  metal_disk_arm(false);
}

void idle_for_ns(u64 ns) {
  u64 until = plat_now_ns() + ns;
  while (plat_now_ns() < until) {
    machine_timer_arm(until);
    machine_wait();
  }
}

void plat_wake(u32 core) {
  ASSERT(core == 0);
  machine_wake();
}

u32 plat_core_count(void) {
  return 1;
}

void plat_cores_start(void) {}
