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


void machine_cpu_facts(struct json_out *o) {
  u64 midr = CPU_READ("midr_el1");
  u64 crypto = CPU_READ("id_aa64isar0_el1");
  char name[48];
  u32 n = fmt_z(name, sizeof name, "implementer 0x%02x, part 0x%03x, revision %u.%u",
                (u32)(midr >> 24 & 0xff), (u32)(midr >> 4 & 0xfff), (u32)(midr >> 20 & 15),
                (u32)(midr & 15));
  json_key(o, "cpu");
  json_open(o, '{');
  json_field_string(o, "architecture", BYTES_LIT("aarch64"));
  json_field_string(o, "name", bytes_of(name, n));
  json_key(o, "features");
  json_open(o, '{');
  json_field_bool(o, "aes", cpu_field(crypto, 4) != 0);
  json_field_bool(o, "pmull", cpu_field(crypto, 4) >= 2);
  json_field_bool(o, "sha", cpu_field(crypto, 12) != 0);
  json_field_bool(o, "rndr", cpu_field(crypto, 60) != 0);
  json_field_bool(o, "pan", cpu_field(CPU_READ("id_aa64mmfr1_el1"), 20) != 0);
  json_field_bool(o, "pauth", (CPU_READ("id_aa64isar1_el1") & 0xff0) != 0);
  json_field_bool(o, "bti", cpu_field(CPU_READ("id_aa64pfr1_el1"), 0) != 0);
  json_close(o, '}');
  json_close(o, '}');
}
