// SPDX-License-Identifier: Apache-2.0
// Reads a flattened device tree (Devicetree Specification 0.4, chapter 5). The blob is the
// firmware's; its lengths and offsets are validated all the same, and whatever is malformed reads
// as the end.
//
// I1  No pointer into the blob is kept but in `struct fdt`; nodes and values are offsets and views.
// I2  Each step moves forward: a walk over n bytes ends after at most n / 4 tokens.
#pragma once
#include "base/bytes.h"

#define FDT_HEADER_LEN 40u
#define FDT_LEN_MAX (4u << 20)
#define FDT_DEPTH_MAX 16u  // deeper nodes are passed over

struct fdt {
  struct bytes nodes;    // structure block
  struct bytes strings;  // names of properties
  struct bytes reserve;  // pairs of 64 bits; a pair of zeros ends
};

// A node while walking in the order of the blob.
struct fdt_node {
  struct bytes name;                     // with its @unit-address
  u32 at;                                // offset of its first property
  u32 depth;                             // root 0
  u32 address_cells[FDT_DEPTH_MAX + 1];  // of the children of the node at that depth
  u32 size_cells[FDT_DEPTH_MAX + 1];
};

// Bytes that the blob at `head` has in all, by its header; 0 when there is none. head:
// FDT_HEADER_LEN.
u32 fdt_total_len(const u8 *head);
// False when the header does not describe blocks inside the blob.
bool fdt_open(struct fdt *f, struct bytes blob);
// The root; false when there is none.
bool fdt_root(const struct fdt *f, struct fdt_node *n);
// The next node; false at the end.
bool fdt_next(const struct fdt *f, struct fdt_node *n);
// The next node after n (with n zeroed: the first) whose `compatible` names it.
bool fdt_next_compatible(const struct fdt *f, struct fdt_node *n, const char *compatible);
// A property of n; false when it has none of that name.
bool fdt_property(const struct fdt *f, const struct fdt_node *n, const char *name,
                  struct bytes *out);
// 32 bits at index idx of a property; `otherwise` when there are not so many.
u32 fdt_u32(const struct fdt *f, const struct fdt_node *n, const char *name, u32 idx,
            u32 otherwise);
// Entry idx of `reg`: address and length by the parent's cells. Addresses of a bus that translates
// are the bus's own.
bool fdt_reg(const struct fdt *f, const struct fdt_node *n, u32 idx, u64 *start, u64 *len);
// Is `text` one of the zero-terminated strings of a value?
bool fdt_has_string(struct bytes value, const char *text);
// `cells` words of 32 bits at offset `at` of a value as one number; 0 beyond its end.
u64 fdt_cells(struct bytes value, u32 at, u32 cells);
// Name without its @unit-address equals `text`.
bool fdt_is_named(const struct fdt_node *n, const char *text);
