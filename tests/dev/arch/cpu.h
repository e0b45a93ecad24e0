// SPDX-License-Identifier: Apache-2.0
// Stands in the place of src/arch/cpu.h when drivers are compiled for tests: every port,
// every device register and every barrier is a call into the test's device.
#pragma once
#include "base/cc.h"

u32 fake_io_read(u16 port, u32 width);
void fake_io_write(u16 port, u32 width, u32 v);
u32 fake_mmio_read(u64 at, u32 width);
void fake_mmio_write(u64 at, u32 width, u32 v);
void cpu_mb(void);
void cpu_rmb(void);
void cpu_wmb(void);
void cpu_relax(void);

static inline void cpu_out8(u16 port, u8 v) {
  fake_io_write(port, 1, v);
}
static inline void cpu_out16(u16 port, u16 v) {
  fake_io_write(port, 2, v);
}
static inline void cpu_out32(u16 port, u32 v) {
  fake_io_write(port, 4, v);
}
static inline u8 cpu_in8(u16 port) {
  return (u8)fake_io_read(port, 1);
}
static inline u16 cpu_in16(u16 port) {
  return (u16)fake_io_read(port, 2);
}
static inline u32 cpu_in32(u16 port) {
  return fake_io_read(port, 4);
}
static inline u16 cpu_config_select(u32 bus, u32 dev, u32 fn, u32 off) {
  cpu_out32(0xcf8, 0x80000000u | bus << 16 | dev << 11 | fn << 8 | (off & 0xfcu));
  return (u16)(0xcfc + (off & 3));
}
static inline u32 cpu_config_read(u32 bus, u32 dev, u32 fn, u32 off, u32 width) {
  return fake_io_read(cpu_config_select(bus, dev, fn, off), width);
}
static inline void cpu_config_write(u32 bus, u32 dev, u32 fn, u32 off, u32 width, u32 v) {
  fake_io_write(cpu_config_select(bus, dev, fn, off), width, v);
}
static inline u8 cpu_mmio_read8(const volatile u8 *at) {
  return (u8)fake_mmio_read((uptr)at, 1);
}
static inline u16 cpu_mmio_read16(const volatile u8 *at) {
  return (u16)fake_mmio_read((uptr)at, 2);
}
static inline u32 cpu_mmio_read32(const volatile u8 *at) {
  return fake_mmio_read((uptr)at, 4);
}
static inline void cpu_mmio_write8(volatile u8 *at, u8 v) {
  fake_mmio_write((uptr)at, 1, v);
}
static inline void cpu_mmio_write16(volatile u8 *at, u16 v) {
  fake_mmio_write((uptr)at, 2, v);
}
static inline void cpu_mmio_write32(volatile u8 *at, u32 v) {
  fake_mmio_write((uptr)at, 4, v);
}
