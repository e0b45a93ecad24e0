// SPDX-License-Identifier: Apache-2.0
// Topic names and filters: nothing outside is read, the loops end, and what is let through has a
// legal length.
#ifdef NEGATIVE
#define OVER 1u
#endif
#include "contracts.h"

void proof_topic_name(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  b.len += OVER;
  (void)topic_name_valid(b);
}

void proof_topic_filter(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  b.len += OVER;
  (void)topic_filter_valid(b);
}
