// SPDX-License-Identifier: Apache-2.0
// Instructions of x86_64 that C has no word for: ports, MSRs, CPUID, control registers, cycle
// counter, barriers, device registers. Each function is one instruction; nothing here keeps state.
// Barriers (virtio 1.2 2.7.13): x86 orders loads with loads and stores with stores, so cpu_rmb and
// cpu_wmb only stop the compiler; cpu_mb also orders a store before a later load.
// The names that both families have: arch/cpu.h.
#pragma once
#include "base/cc.h"

#define CPU_LOCAL_LEN 1024u
#define CPU_TRAP_STACKS 4u
#define CPU_TRAP_STACK_LEN 8192u
#define CPU_TRAP_LEN 256u

#define CPU_ELF_RELATIVE 8u  // R_X86_64_RELATIVE
#define CPU_LINK_BASE 0x200000ull
#define CPU_RETURN_BYTES 0xc3u
#define CPU_CONFIG_ADDRESS 0xcf8u
#define CPU_CONFIG_DATA 0xcfcu

static ALWAYS_INLINE void cpu_out8(u16 port, u8 v) {
  __asm__ volatile("outb %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static ALWAYS_INLINE void cpu_out16(u16 port, u16 v) {
  __asm__ volatile("outw %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static ALWAYS_INLINE void cpu_out32(u16 port, u32 v) {
  __asm__ volatile("outl %0, %1" : : "a"(v), "Nd"(port) : "memory");
}
static ALWAYS_INLINE u8 cpu_in8(u16 port) {
  u8 v;
  __asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port) : "memory");
  return v;
}
static ALWAYS_INLINE u16 cpu_in16(u16 port) {
  u16 v;
  __asm__ volatile("inw %1, %0" : "=a"(v) : "Nd"(port) : "memory");
  return v;
}
static ALWAYS_INLINE u32 cpu_in32(u16 port) {
  u32 v;
  __asm__ volatile("inl %1, %0" : "=a"(v) : "Nd"(port) : "memory");
  return v;
}

// mem.S: 1 = memcpy and memset may use AVX2. Set once, before a second core runs.
extern u8 mem_wide;

struct cpuid {
  u32 eax;
  u32 ebx;
  u32 ecx;
  u32 edx;
};
static ALWAYS_INLINE struct cpuid cpu_id(u32 leaf, u32 sub) {
  struct cpuid r;
  __asm__ volatile("cpuid"
                   : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                   : "a"(leaf), "c"(sub));
  return r;
}
// PCI configuration mechanism 1; off < 256.
static ALWAYS_INLINE u16 cpu_config_select(u32 bus, u32 dev, u32 fn, u32 off) {
  cpu_out32(CPU_CONFIG_ADDRESS, 0x80000000u | bus << 16 | dev << 11 | fn << 8 | (off & 0xfcu));
  return (u16)(CPU_CONFIG_DATA + (off & 3));
}
static ALWAYS_INLINE u32 cpu_config_read(u32 bus, u32 dev, u32 fn, u32 off, u32 width) {
  u16 port = cpu_config_select(bus, dev, fn, off);
  return width == 1 ? cpu_in8(port) : width == 2 ? cpu_in16(port) : cpu_in32(port);
}
static ALWAYS_INLINE void cpu_config_write(u32 bus, u32 dev, u32 fn, u32 off, u32 width, u32 v) {
  u16 port = cpu_config_select(bus, dev, fn, off);
  if (width == 2) {
    cpu_out16(port, (u16)v);
  } else {
    cpu_out32(port, v);
  }
}
static ALWAYS_INLINE u64 cpu_rdmsr(u32 msr) {
  u32 lo;
  u32 hi;
  __asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr) : "memory");
  return (u64)hi << 32 | lo;
}
static ALWAYS_INLINE void cpu_wrmsr(u32 msr, u64 v) {
  __asm__ volatile("wrmsr" : : "c"(msr), "a"((u32)v), "d"((u32)(v >> 32)) : "memory");
}
static ALWAYS_INLINE u64 cpu_cycles(void) {  // TSC, may be read early by the pipeline
  u32 lo;
  u32 hi;
  __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
  return (u64)hi << 32 | lo;
}
static ALWAYS_INLINE u64 cpu_cycles_ordered(void) {  // after all earlier loads
  u32 lo;
  u32 hi;
  __asm__ volatile("lfence\n\trdtsc" : "=a"(lo), "=d"(hi) : : "memory");
  return (u64)hi << 32 | lo;
}
// CPUID leaves the guest under a hypervisor and so takes an unforeseeable time.
static ALWAYS_INLINE void cpu_jitter(void) {
  (void)cpu_id(0, 0);
}
static ALWAYS_INLINE bool cpu_random_word(u64 *out) {
  if ((cpu_id(1, 0).ecx & 1u << 30) == 0) {
    return false;  // no RDRAND
  }
  bool ok;
  __asm__ volatile("rdrand %0" : "=r"(*out), "=@ccc"(ok) : : "memory");
  return ok;
}

// a * b / c with a product of 128 bits. The quotient must fit 64 bits (else the processor faults).
static ALWAYS_INLINE u64 cpu_mul_div(u64 a, u64 b, u64 c) {
  u64 quotient;
  u64 rest;
  __asm__("mulq %3\n\tdivq %4" : "=&a"(quotient), "=&d"(rest) : "0"(a), "r"(b), "r"(c) : "cc");
  return quotient;
}

static ALWAYS_INLINE void cpu_mb(void) {
  __asm__ volatile("mfence" : : : "memory");
}
static ALWAYS_INLINE void cpu_rmb(void) {
  __asm__ volatile("" : : : "memory");
}
static ALWAYS_INLINE void cpu_wmb(void) {
  __asm__ volatile("" : : : "memory");
}
// Registers of a device in mapped memory: one access of exactly this width (virtio 1.2 4.1.3.1).
static ALWAYS_INLINE u8 cpu_mmio_read8(const volatile u8 *at) {
  return *at;
}
static ALWAYS_INLINE u16 cpu_mmio_read16(const volatile u8 *at) {
  return *(const volatile u16 *)at;
}
static ALWAYS_INLINE u32 cpu_mmio_read32(const volatile u8 *at) {
  return *(const volatile u32 *)at;
}
static ALWAYS_INLINE void cpu_mmio_write8(volatile u8 *at, u8 v) {
  *at = v;
}
static ALWAYS_INLINE void cpu_mmio_write16(volatile u8 *at, u16 v) {
  *(volatile u16 *)at = v;
}
static ALWAYS_INLINE void cpu_mmio_write32(volatile u8 *at, u32 v) {
  *(volatile u32 *)at = v;
}

// The thread pointer's block ends where FS points, and there stands that address (the psABI's
// local-exec model).
static ALWAYS_INLINE void cpu_set_local(void *block) {
  uptr *end = (uptr *)(void *)((u8 *)block + CPU_LOCAL_LEN - 64);
  *end = (uptr)end;
  cpu_wrmsr(0xc0000100u, (u64)(uptr)end);  // FS base
}

static ALWAYS_INLINE void cpu_call(const void *code) {
  __asm__ volatile("call *%0" : : "r"(code) : "memory");
}

static ALWAYS_INLINE void cpu_relax(void) {
  __asm__ volatile("pause" : : : "memory");
}

// Enables interrupts, halts, disables them again. STI holds interrupts off for one instruction, so
// an interrupt that is already pending ends the HLT at once: no wake-up is lost.
static ALWAYS_INLINE void cpu_wait_for_interrupt(void) {
  __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
}
static ALWAYS_INLINE NORETURN void cpu_halt_forever(void) {
  for (;;) {
    __asm__ volatile("cli\n\thlt" : : : "memory");
  }
}

static ALWAYS_INLINE u64 cpu_read_cr2(void) {
  u64 v;
  __asm__ volatile("movq %%cr2, %0" : "=r"(v));
  return v;
}
static ALWAYS_INLINE u64 cpu_read_cr3(void) {
  u64 v;
  __asm__ volatile("movq %%cr3, %0" : "=r"(v));
  return v;
}
static ALWAYS_INLINE void cpu_write_cr3(u64 v) {
  __asm__ volatile("movq %0, %%cr3" : : "r"(v) : "memory");
}
static ALWAYS_INLINE u64 cpu_read_cr0(void) {
  u64 v;
  __asm__ volatile("movq %%cr0, %0" : "=r"(v));
  return v;
}
static ALWAYS_INLINE void cpu_write_cr0(u64 v) {
  __asm__ volatile("movq %0, %%cr0" : : "r"(v) : "memory");
}
static ALWAYS_INLINE u64 cpu_read_cr4(void) {
  u64 v;
  __asm__ volatile("movq %%cr4, %0" : "=r"(v));
  return v;
}
static ALWAYS_INLINE void cpu_write_cr4(u64 v) {
  __asm__ volatile("movq %0, %%cr4" : : "r"(v) : "memory");
}
static ALWAYS_INLINE void cpu_invlpg(const void *at) {
  __asm__ volatile("invlpg (%0)" : : "r"(at) : "memory");
}
