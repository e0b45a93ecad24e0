// SPDX-License-Identifier: Apache-2.0
// Instructions of aarch64 that C has no word for (Arm DDI 0487). Each function is a few
// instructions; nothing here keeps state but the place of PCI's I/O window. The names that both
// families have: arch/cpu.h. Device registers are accessed by instructions without write-back,
// since a hypervisor can only emulate those.
#pragma once
#include "base/cc.h"

#define CPU_LOCAL_LEN 1024u
#define CPU_TRAP_STACKS 1u
#define CPU_TRAP_STACK_LEN 16384u
#define CPU_TRAP_LEN 64u  // nothing: its stack is all it has

#define CPU_ELF_RELATIVE 1027u  // R_AARCH64_RELATIVE
#define CPU_LINK_BASE 0x40400000ull
#define CPU_RETURN_BYTES 0xd65f03c0u

// name: a system register. Reads may not be moved by the compiler, writes are seen at the next isb.
#define CPU_READ(name)                                                     \
  __extension__({                                                          \
    u64 cpu_read_value;                                                    \
    __asm__ volatile("mrs %0, " name : "=r"(cpu_read_value) : : "memory"); \
    cpu_read_value;                                                        \
  })
#define CPU_WRITE(name, value) __asm__ volatile("msr " name ", %0" : : "r"((u64)(value)) : "memory")

static ALWAYS_INLINE void cpu_isb(void) {
  __asm__ volatile("isb" : : : "memory");
}
static ALWAYS_INLINE void cpu_dsb(void) {
  __asm__ volatile("dsb sy" : : : "memory");
}

// The virtual counter: what a guest is meant to use. A plain read may be done early.
static ALWAYS_INLINE u64 cpu_cycles(void) {
  return CPU_READ("cntvct_el0");
}
static ALWAYS_INLINE u64 cpu_cycles_ordered(void) {
  cpu_isb();
  return CPU_READ("cntvct_el0");
}

// Field of an identification register: 4 bits, unsigned.
static ALWAYS_INLINE u32 cpu_field(u64 reg, u32 shift) {
  return (u32)(reg >> shift) & 15;
}

static ALWAYS_INLINE void cpu_jitter(void) {
  __asm__ volatile("dsb sy\n\tisb" : : : "memory");
}
static ALWAYS_INLINE bool cpu_random_word(u64 *out) {
  if (cpu_field(CPU_READ("id_aa64isar0_el1"), 60) == 0) {
    return false;  // no FEAT_RNG
  }
  u64 v;
  bool ok;
  __asm__ volatile("mrs %0, s3_3_c2_c4_0" : "=r"(v), "=@ccne"(ok) : : "memory");  // RNDR
  *out = v;
  return ok;
}

// Long division by hand: the processor has none of 128 by 64 bits.
static inline u64 cpu_mul_div(u64 a, u64 b, u64 c) {
  unsigned __int128 product = (unsigned __int128)a * b;
  u64 rest = (u64)(product >> 64);
  u64 low = (u64)product;
  for (u32 i = 0; i < 64; i++) {
    bool carry = rest >> 63 != 0;
    rest = rest << 1 | low >> 63;
    low <<= 1;
    if (carry || rest >= c) {
      rest -= c;
      low |= 1;
    }
  }
  return low;
}

// Outer shareable: that covers devices whatever the interconnect calls them.
static ALWAYS_INLINE void cpu_mb(void) {
  __asm__ volatile("dmb osh" : : : "memory");
}
static ALWAYS_INLINE void cpu_rmb(void) {
  __asm__ volatile("dmb oshld" : : : "memory");
}
static ALWAYS_INLINE void cpu_wmb(void) {
  __asm__ volatile("dmb oshst" : : : "memory");
}

// Memory written before a register's write is there for the device that the write starts; memory
// read after a register's read is what the device had written before.
static ALWAYS_INLINE u8 cpu_mmio_read8(const volatile u8 *at) {
  u32 v;
  __asm__ volatile("ldrb %w0, [%1]\n\tdmb oshld" : "=r"(v) : "r"(at) : "memory");
  return (u8)v;
}
static ALWAYS_INLINE u16 cpu_mmio_read16(const volatile u8 *at) {
  u32 v;
  __asm__ volatile("ldrh %w0, [%1]\n\tdmb oshld" : "=r"(v) : "r"(at) : "memory");
  return (u16)v;
}
static ALWAYS_INLINE u32 cpu_mmio_read32(const volatile u8 *at) {
  u32 v;
  __asm__ volatile("ldr %w0, [%1]\n\tdmb oshld" : "=r"(v) : "r"(at) : "memory");
  return v;
}
static ALWAYS_INLINE u64 cpu_mmio_read64(const volatile u8 *at) {
  u64 v;
  __asm__ volatile("ldr %0, [%1]\n\tdmb oshld" : "=r"(v) : "r"(at) : "memory");
  return v;
}
static ALWAYS_INLINE void cpu_mmio_write8(volatile u8 *at, u8 v) {
  __asm__ volatile("dmb oshst\n\tstrb %w0, [%1]" : : "r"(v), "r"(at) : "memory");
}
static ALWAYS_INLINE void cpu_mmio_write16(volatile u8 *at, u16 v) {
  __asm__ volatile("dmb oshst\n\tstrh %w0, [%1]" : : "r"(v), "r"(at) : "memory");
}
static ALWAYS_INLINE void cpu_mmio_write32(volatile u8 *at, u32 v) {
  __asm__ volatile("dmb oshst\n\tstr %w0, [%1]" : : "r"(v), "r"(at) : "memory");
}
static ALWAYS_INLINE void cpu_mmio_write64(volatile u8 *at, u64 v) {
  __asm__ volatile("dmb oshst\n\tstr %0, [%1]" : : "r"(v), "r"(at) : "memory");
}

// PCI's I/O space is a window in memory that the host bridge translates; NULL while none is known:
// then reads give ones and writes go nowhere, as on a bus where nobody answers.
extern volatile u8 *cpu_io_window __attribute__((visibility("hidden")));

static ALWAYS_INLINE void cpu_out8(u16 port, u8 v) {
  if (cpu_io_window != NULL) {
    cpu_mmio_write8(cpu_io_window + port, v);
  }
}
static ALWAYS_INLINE void cpu_out16(u16 port, u16 v) {
  if (cpu_io_window != NULL) {
    cpu_mmio_write16(cpu_io_window + port, v);
  }
}
static ALWAYS_INLINE void cpu_out32(u16 port, u32 v) {
  if (cpu_io_window != NULL) {
    cpu_mmio_write32(cpu_io_window + port, v);
  }
}
static ALWAYS_INLINE u8 cpu_in8(u16 port) {
  return cpu_io_window != NULL ? cpu_mmio_read8(cpu_io_window + port) : 0xff;
}
static ALWAYS_INLINE u16 cpu_in16(u16 port) {
  return cpu_io_window != NULL ? cpu_mmio_read16(cpu_io_window + port) : 0xffff;
}
static ALWAYS_INLINE u32 cpu_in32(u16 port) {
  return cpu_io_window != NULL ? cpu_mmio_read32(cpu_io_window + port) : 0xffffffffu;
}
// There is no configuration by ports here.
static ALWAYS_INLINE u32 cpu_config_read(u32 bus, u32 dev, u32 fn, u32 off, u32 width) {
  (void)bus, (void)dev, (void)fn, (void)off, (void)width;
  return U32_MAX;
}
static ALWAYS_INLINE void cpu_config_write(u32 bus, u32 dev, u32 fn, u32 off, u32 width, u32 v) {
  (void)bus, (void)dev, (void)fn, (void)off, (void)width, (void)v;
}

// The data lie behind two words that the thread pointer points at (local-exec model).
static ALWAYS_INLINE void cpu_set_local(void *block) {
  CPU_WRITE("tpidr_el0", (u64)(uptr)block);
}

static ALWAYS_INLINE void cpu_call(const void *code) {
  __asm__ volatile("blr %0" : : "r"(code) : "memory", "x30");
}
static ALWAYS_INLINE void cpu_relax(void) {
  __asm__ volatile("yield" : : : "memory");
}
static ALWAYS_INLINE NORETURN void cpu_halt_forever(void) {
  for (;;) {
    __asm__ volatile("msr daifset, #15\n\twfi" : : : "memory");
  }
}
