// SPDX-License-Identifier: Apache-2.0
// The processor itself: what it calls itself and what it has. Vector registers are on since the
// start.
#include "arch/cpu.h"
#include "plat/metal/machine.h"

void machine_cpu_start(void) {
  // boot/aarch64/entry.S
}

void machine_touch(void) {
  cpu_dsb();
}

const char *machine_entropy_good(void) {
  return "entropy: good (RNDR or the firmware's seed, and timing)\n";
}

const char *machine_entropy_weak(void) {
  return "entropy: WEAK. This processor has no RNDR and the firmware gave no seed; keys and "
         "addresses "
         "come from timing alone\n";
}

static const char *yes(u64 field) {
  return field != 0 ? "yes" : "no";
}

void machine_cpu_describe(struct writer *w) {
  u64 midr = CPU_READ("midr_el1");
  u64 crypto = CPU_READ("id_aa64isar0_el1");
  u64 sign = CPU_READ("id_aa64isar1_el1") & 0xff0;
  u64 memory = CPU_READ("id_aa64mmfr1_el1");
  fmt(w, "cpu: implementer 0x%02x, part 0x%03x, revision %u.%u\n", (u32)(midr >> 24 & 0xff),
      (u32)(midr >> 4 & 0xfff), (u32)(midr >> 20 & 15), (u32)(midr & 15));
  fmt(w, "cpu: AES %s, SHA-2 %s, PMULL %s, RNDR %s, PAN %s, pointer authentication %s, BTI %s\n",
      yes(cpu_field(crypto, 4)), yes(cpu_field(crypto, 12)), yes(cpu_field(crypto, 4) >= 2),
      yes(cpu_field(crypto, 60)), yes(cpu_field(memory, 20)), yes(sign),
      yes(cpu_field(CPU_READ("id_aa64pfr1_el1"), 0)));
}
