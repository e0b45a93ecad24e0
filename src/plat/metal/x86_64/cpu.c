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

static void put_text(struct json_out *o, const char *key, const u32 *words, u32 count) {
  char text[49] = {0};
  memcpy(text, words, count * sizeof *words);
  u32 len = (u32)strlen(text);
  for (u32 i = 0; i < len; i++) {  // firmware's bytes: JSON wants UTF-8
    text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  }
  json_field_string(o, key, bytes_of(text, len));
}

static void put_features(struct json_out *o) {
  struct cpuid one = cpu_id(1, 0);
  struct cpuid seven = cpu_id(0, 0).eax >= 7 ? cpu_id(7, 0) : (struct cpuid){0};
  struct cpuid power =
      cpu_id(0x80000000u, 0).eax >= 0x80000007u ? cpu_id(0x80000007u, 0) : (struct cpuid){0};
  const struct {
    const char *name;
    u32 word, bit;
  } features[] = {
      {"aes", one.ecx, 25},        {"pclmulqdq", one.ecx, 1},     {"avx2", seven.ebx, 5},
      {"bmi2", seven.ebx, 8},      {"adx", seven.ebx, 19},        {"sha", seven.ebx, 29},
      {"rdrand", one.ecx, 30},     {"rdseed", seven.ebx, 18},     {"smep", seven.ebx, 7},
      {"smap", seven.ebx, 20},     {"umip", seven.ecx, 2},        {"erms", seven.ebx, 9},
      {"x2apic", one.ecx, 21},     {"tsc_deadline", one.ecx, 24}, {"invariant_tsc", power.edx, 8},
      {"hypervisor", one.ecx, 31},
  };
  json_key(o, "features");
  json_open(o, '{');
  for (u32 i = 0; i < ARRAY_COUNT(features); i++) {
    json_field_bool(o, features[i].name, (features[i].word >> features[i].bit & 1) != 0);
  }
  json_close(o, '}');
}

void machine_cpu_facts(struct json_out *o) {
  u32 brand[12] = {0};
  if (cpu_id(0x80000000u, 0).eax >= 0x80000004u) {
    for (u32 i = 0; i < 3; i++) {
      struct cpuid r = cpu_id(0x80000002u + i, 0);
      memcpy(brand + 4 * i, &r, 16);
    }
  }
  json_key(o, "cpu");
  json_open(o, '{');
  json_field_string(o, "architecture", BYTES_LIT("x86_64"));
  put_text(o, "name", brand, 12);
  struct cpuid zero = cpu_id(0, 0);
  put_text(o, "vendor", (u32[]){zero.ebx, zero.edx, zero.ecx}, 3);
  if ((cpu_id(1, 0).ecx >> 31 & 1) != 0) {
    struct cpuid host = cpu_id(0x40000000u, 0);
    put_text(o, "hypervisor", (u32[]){host.ebx, host.ecx, host.edx}, 3);
  }
  put_features(o);
  json_close(o, '}');
}
