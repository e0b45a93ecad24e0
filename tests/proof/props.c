// SPDX-License-Identifier: Apache-2.0
// One property, and the loop over a block: inside the block, always forward, never more
// subscription identifiers than there is room for.
#ifdef NEGATIVE
#define OVER 1u
#endif
#include "contracts.h"

void proof_property(void) {
  struct reader r = any_reader(PROOF_MAX);
  struct mqtt_props out;
  r.end += OVER;
  (void)mqtt_read_property(&r, nondet_u32(), &out);
}

void proof_props(void) {
  struct reader r = any_reader(PROOF_MAX);
  struct mqtt_props out;
  r.err = (enum err)nondet_u8();
  r.end += OVER;
  (void)mqtt_read_props(&r, nondet_u32(), &out);
}
