// SPDX-License-Identifier: Apache-2.0
// The memory primitives the compiler may call. Kernel images get ours (arch/*/mem.S), hosted builds
// the C library's.
#pragma once
#include "base/cc.h"

void *memcpy(void *restrict to, const void *restrict from, usize len);
void *memmove(void *to, const void *from, usize len);
void *memset(void *to, int byte, usize len);
int memcmp(const void *a, const void *b, usize len);
void *memchr(const void *s, int byte, usize len);
usize strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, usize len);

// Zeroes memory that held a secret; the compiler may not remove it.
static inline void mem_wipe(void *p, usize len) {
  memset(p, 0, len);
  __asm__ volatile("" : : "r"(p) : "memory");
}

// Unaligned loads and stores; be = big-endian, le = little-endian.
static inline u16 load_be16(const u8 *p) {
  return (u16)(p[0] << 8 | p[1]);
}
static inline u32 load_be32(const u8 *p) {
  return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}
static inline u64 load_be64(const u8 *p) {
  return (u64)load_be32(p) << 32 | load_be32(p + 4);
}
static inline u16 load_le16(const u8 *p) {
  return (u16)(p[1] << 8 | p[0]);
}
static inline u32 load_le32(const u8 *p) {
  return (u32)p[3] << 24 | (u32)p[2] << 16 | (u32)p[1] << 8 | p[0];
}
static inline u64 load_le64(const u8 *p) {
  return (u64)load_le32(p + 4) << 32 | load_le32(p);
}
static inline void store_be16(u8 *p, u16 v) {
  p[0] = (u8)(v >> 8);
  p[1] = (u8)v;
}
static inline void store_be32(u8 *p, u32 v) {
  store_be16(p, (u16)(v >> 16));
  store_be16(p + 2, (u16)v);
}
static inline void store_be64(u8 *p, u64 v) {
  store_be32(p, (u32)(v >> 32));
  store_be32(p + 4, (u32)v);
}
static inline void store_le16(u8 *p, u16 v) {
  p[0] = (u8)v;
  p[1] = (u8)(v >> 8);
}
static inline void store_le32(u8 *p, u32 v) {
  store_le16(p, (u16)v);
  store_le16(p + 2, (u16)(v >> 16));
}
static inline void store_le64(u8 *p, u64 v) {
  store_le32(p, (u32)v);
  store_le32(p + 4, (u32)(v >> 32));
}
