// SPDX-License-Identifier: Apache-2.0
// utf8_valid reads nothing outside and ends, for every string MQTT can carry.
#ifdef NEGATIVE
#define OVER 1u
#endif
#include "contracts.h"

void proof_utf8(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  (void)utf8_valid(b.ptr, (u32)b.len + OVER);
}

void proof_utf8_text(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  (void)utf8_text(b.ptr, (u32)b.len + OVER);
}
