// SPDX-License-Identifier: Apache-2.0
// A block allocator inside a span that its caller owns: handshake arenas, and the heap of contexts.
//
// Blocks are contiguous; each begins with an 16-byte head that knows its own and its predecessor's
// size, so freeing merges with both neighbours. Free blocks hang in lists by size class, and a bit
// mask finds the next class that has one: both operations are O(1) but for the walk inside a class.
//
// I1  Every byte of the span belongs to exactly one block; no two free blocks are neighbours.
// I2  A freed block is wiped: what a handshake leaves behind holds no secret.
// I3  Payloads are 16-aligned, sizes a multiple of 16.
// I4  In sanitizer builds the bytes behind a payload, and free blocks beyond their links, are
//     poisoned.
#pragma once
#include "base/bytes.h"

#define ALLOC_CLASS_COUNT 48u

struct alloc_block;
struct alloc {
  u8 *base;
  u32 len;                      // bytes managed
  u32 used;                     // bytes in taken blocks, heads included
  u32 peak;                     // highest `used`
  u32 count;                    // taken blocks
  u32 high;                     // bytes from `base` that were ever taken: alloc_fini wipes these
  u32 refused;                  // requests that got nothing
  u32 fail_after;               // tests: this many more allocations succeed; U32_MAX = no limit
  u64 classes;                  // bit c: list c is not empty
  u32 head[ALLOC_CLASS_COUNT];  // offset of the first free block of a class; 0 = none
};

// Manages all of `memory` (at least 256 B, at most 64 MiB; need not be zeroed) but for the aligned
// edges.
void alloc_init(struct alloc *a, struct span memory);
// NULL when no block is large enough.
void *alloc_take(struct alloc *a, usize len);
void alloc_put(struct alloc *a, void *p CONSUMES);
// What was asked for when this block was taken.
usize alloc_size(const struct alloc *a, const void *p);
bool alloc_owns(const struct alloc *a, const void *p);
// Wipes everything and gives the span back to its owner.
void alloc_fini(struct alloc *a);
// The whole-structure validator of I1 (asserts); for tests.
void alloc_check(const struct alloc *a);
