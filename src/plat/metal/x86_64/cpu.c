// SPDX-License-Identifier: Apache-2.0
// The processor itself: vector registers, sources of entropy, what it calls itself.
#include "arch/cpu.h"
#include "plat/metal/machine.h"

#define CR4_OSXSAVE (1ull << 18)
#define CPUID1_ECX_XSAVE (1u << 26)
#define CPUID1_ECX_AVX (1u << 28)
#define CPUID7_EBX_AVX2 (1u << 5)

// The vector registers the cryptography may use are switched on; nothing else saves them, because
// no interrupt handler touches them.
void machine_cpu_start(void) {
  u32 have = cpu_id(1, 0).ecx;
  if ((have & CPUID1_ECX_XSAVE) == 0) {
    return;
  }
  cpu_write_cr4(cpu_read_cr4() | CR4_OSXSAVE);
  u32 mask = (have & CPUID1_ECX_AVX) != 0 ? 7 : 3;
  __asm__ volatile("xsetbv" : : "c"(0), "a"(mask), "d"(0));
  bool avx2 = mask == 7 && cpu_id(0, 0).eax >= 7 && (cpu_id(7, 0).ebx & CPUID7_EBX_AVX2) != 0;
  mem_wide = avx2 ? 1 : 0;
}

void machine_touch(void) {
  (void)cpu_in8(0x61);
}

const char *machine_entropy_good(void) {
  return "entropy: good (RDRAND and timing)\n";
}

const char *machine_entropy_weak(void) {
  return "entropy: WEAK. This processor has no RDRAND; keys and addresses come from timing alone\n";
}

void machine_cpu_describe(struct writer *w) {
  char brand[49] = {0};
  if (cpu_id(0x80000000u, 0).eax >= 0x80000004u) {
    for (u32 i = 0; i < 3; i++) {
      struct cpuid r = cpu_id(0x80000002u + i, 0);
      memcpy(brand + 16 * i, &r, 16);
    }
  }
  struct cpuid one = cpu_id(1, 0);
  struct cpuid seven = cpu_id(0, 0).eax >= 7 ? cpu_id(7, 0) : (struct cpuid){0};
  write_str(w, "cpu: ");
  fmt_escaped(w, bytes_str(brand));
  fmt(w, "\ncpu: AES %s, AVX2 %s, RDRAND %s, SMEP %s, SMAP %s, hypervisor %s\n",
      (one.ecx >> 25 & 1) != 0 ? "yes" : "no", (seven.ebx >> 5 & 1) != 0 ? "yes" : "no",
      (one.ecx >> 30 & 1) != 0 ? "yes" : "no", (seven.ebx >> 7 & 1) != 0 ? "yes" : "no",
      (seven.ebx >> 20 & 1) != 0 ? "yes" : "no", (one.ecx >> 31 & 1) != 0 ? "yes" : "no");
}
