// SPDX-License-Identifier: Apache-2.0
// Halting until there is something to do. Whatever arrived since the caller last looked is pending
// in the interrupt controller and ends the halt at once, so that no wake-up is lost and nothing
// polls.
#include "plat/metal/machine.h"

#define CONSOLE_RETRY_NS 1000000ull  // a slow serial port takes 16 bytes each 1.4 ms

void plat_idle(u32 core, u64 deadline_ns) {
  bool flushed = core != 0 || console_pump();
  u64 now = plat_now_ns();
  if (deadline_ns <= now) {
    return;
  }
  if (!flushed) {
    deadline_ns = MIN(deadline_ns, now + CONSOLE_RETRY_NS);
  }
  u64 longest = metal_nic_sleep(core);
  u64 disk = core == 0 ? metal_disk_arm(true) : U64_MAX;
  longest = MIN(longest, disk);
  if (longest != 0) {
    deadline_ns = longest == U64_MAX ? deadline_ns : MIN(deadline_ns, now + longest);
    machine_timer_arm(deadline_ns);
    machine_wait();
  }
  metal_nic_awake(core);
  if (core == 0) {
    metal_disk_arm(false);
  }
}

void idle_for_ns(u64 ns) {
  u64 until = plat_now_ns() + ns;
  while (plat_now_ns() < until) {
    machine_timer_arm(until);
    machine_wait();
  }
}

void plat_wake(u32 core) {
  ASSERT(core < plat_core_count());
  machine_wake(core);
}
