// SPDX-License-Identifier: Apache-2.0
// Runs of pages from one region, exact in pages: a buddy allocator that gives the unused tail of
// its block back at once. For packets being assembled and large messages. O(log n) both ways.
//
// I1  Every page belongs to exactly one taken run or one free block; free_pages counts the latter.
// I2  Two free buddies of one order never stand beside each other: they are one block.
#pragma once
#include "base/bytes.h"

#define EXTENT_PAGE 4096u
#define EXTENT_ORDERS 24u

struct extent {
  u8 *base;
  u8 *order; // by page: order + 1 of the free block that begins here, or 0
  u32 *next; // by page: links of the free lists
  u32 *prev;
  u32 page_count;
  u32 free_pages;
  u32 free_low;
  u32 head[EXTENT_ORDERS];
};

usize extent_bytes(u32 pages); // bookkeeping and pages together
void extent_init(struct extent *e, struct span memory, u32 pages);
// `len` bytes rounded up to pages, not zeroed; NULL when no run is long enough.
void *extent_take(struct extent *e, usize len);
// The same len as taken.
void extent_put(struct extent *e, void *run CONSUMES, usize len);
