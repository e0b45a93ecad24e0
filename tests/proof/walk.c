// SPDX-License-Identifier: Apache-2.0
// The walk over the entries of a decoded SUBSCRIBE or UNSUBSCRIBE: one step, from any place in the
// entries, moves on and stays inside; the last one says so without moving.
#include "contracts.h"

void proof_walk(void) {
  struct bytes packet = any_bytes(PROOF_MAX);
  struct mqtt_subscribe s;
  struct mqtt_entry e;
  u32 pos = nondet_u32();
  __CPROVER_assume(s.entries.off <= packet.len && s.entries.len <= packet.len - s.entries.off);
  u32 end = s.entries.off + s.entries.len;
  __CPROVER_assume(pos >= s.entries.off && pos <= end);
  u32 before = pos;
  bool more = nondet_bool() ? mqtt_subscribe_entry(packet, &s, &pos, &e)
                            : mqtt_unsubscribe_entry(packet, &s, &pos, &e);
  PROVE(pos <= end && (more ? pos > before : pos == before));
  if (more) {
    PROVE(e.filter.off >= before && e.filter.len > 0 && e.filter.len <= pos - e.filter.off);
    if (e.filter.len > 60000) {
      PROOF_REACHED();
    }
  }
}
