// SPDX-License-Identifier: Apache-2.0
// bytes_starts_with keeps the contract that the decoders' proofs take it by: exactly "begins with",
// and nothing outside is read. Prefixes to 8 bytes: memcmp is the library's loop, and every prefix
// in the codec is a literal that is shorter; the other side may have any length.
#include "contracts.h"

void proof_starts_with(void) {
  struct bytes a = any_bytes(PROOF_MAX);
  u8 p[8] = {nondet_u8(), nondet_u8(), nondet_u8(), nondet_u8(),
             nondet_u8(), nondet_u8(), nondet_u8(), nondet_u8()};
  u32 len = nondet_u32();
  __CPROVER_assume(len <= sizeof p);
  bool got = bytes_starts_with(a, bytes_of(p, len));
  u32 i = nondet_u32();
  PROVE(!got || (a.len >= len && (i >= len || a.ptr[i] == p[i])));
  if (got && len == 8) {
    PROOF_REACHED();
  }
}
