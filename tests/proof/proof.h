// SPDX-License-Identifier: Apache-2.0
// What the harnesses share. A harness is one entry function; contracts of the functions it replaces
// or enforces stand before it, as redeclarations. Under NEGATIVE something in it must be false.
#pragma once
#include "base/bytes.h"

#define PROOF_MAX 65535u  // longest input proved, unless the row says otherwise

void *malloc(usize len);
u8 nondet_u8(void);
u16 nondet_u16(void);
u32 nondet_u32(void);
u64 nondet_u64(void);
bool nondet_bool(void);

// `max` bytes or fewer, of any values, in a block of exactly that size.
static inline struct bytes any_bytes(u32 max) {
  u32 len = nondet_u32();
  __CPROVER_assume(len <= max);
  u8 *b = malloc(len);
  __CPROVER_assume(b != NULL);
  return (struct bytes){b, len};
}

// Any reader without an error over any bytes.
static inline struct reader any_reader(u32 max) {
  struct bytes b = any_bytes(max);
  u32 pos = nondet_u32();
  u32 end = nondet_u32();
  __CPROVER_assume(end <= b.len && pos <= end);
  return (struct reader){.base = b.ptr, .pos = pos, .end = end, .err = ERR_OK};
}

// A claim in the words of its condition.
#define PROVE(cond) __CPROVER_assert((cond), #cond)

#ifdef NEGATIVE
#define PROOF_REACHED() __CPROVER_assert(0, "negative twin: the end is reached")
#else
#define PROOF_REACHED() ((void)0)
#endif
