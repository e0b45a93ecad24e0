// SPDX-License-Identifier: Apache-2.0
// Harnesses for the device tree: the header of any blob, and one token of any blocks at any place.
// A walk is tokens one after the other, each further on (fdt.h I2).
#include "proof.h"

#include "boot/fdt.c"

static bool inside(struct bytes part, struct bytes whole) {
  return part.ptr >= whole.ptr && (usize)(part.ptr - whole.ptr) <= whole.len &&
         part.len <= whole.len - (usize)(part.ptr - whole.ptr);
}

void proof_fdt_open(void) {
  struct bytes blob = any_bytes(PROOF_MAX);
  struct fdt f;
  if (fdt_open(&f, blob)) {
    PROVE(blob.len >= FDT_HEADER_LEN);
    PROVE(inside(f.nodes, blob));
    PROVE(inside(f.strings, blob));
    PROVE(inside(f.reserve, blob));
    PROOF_REACHED();
  }
}

void proof_fdt_token(void) {
  struct fdt f = {.nodes = any_bytes(PROOF_MAX), .strings = any_bytes(PROOF_MAX)};
  u32 at = nondet_u32();
  struct token t;
  __CPROVER_assume(at <= PROOF_MAX);
  if (token_at(&f, at, &t)) {
    PROVE(t.next > at);
    PROVE(t.next <= ALIGN_UP(f.nodes.len, 4u));
    if (t.kind == TOKEN_BEGIN) {
      PROVE(inside(t.name, f.nodes));
    }
    if (t.kind == TOKEN_PROPERTY) {
      PROVE(inside(t.name, f.strings));
      PROVE(inside(t.value, f.nodes));
    }
    PROOF_REACHED();
  }
}
