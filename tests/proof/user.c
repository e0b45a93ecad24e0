// SPDX-License-Identifier: Apache-2.0
// What walks over properties that the decoder has let through takes the same steps as the decoder:
// user_step says so for one property anywhere in 24 bytes; so the walks meet every property
// that was decoded, once, in order, and their assertions hold. user_walk: the walk itself
// stays inside and ends.
#include "contracts.h"
#include "mqtt/wire.c"  // skip_value is proved by itself

#ifndef STEP_MAX
#define STEP_MAX \
  24u  // two strings of a pair, of every length to 8; numbers have four bytes at most
#endif

// From any place: where the decoder's step ends, a walk's step ends.
void proof_user_step(void) {
  struct reader r = any_reader(STEP_MAX);
  struct mqtt_props out;
  struct reader walk = r;
  out.present = 0;
  out.subscription_id_count = 0;
  if (mqtt_read_property(&r, nondet_u32(), &out) == MQTT_SUCCESS) {
    u32 id = mqtt_read_varint(&walk);
    PROVE(walk.err == ERR_OK && id < ARRAY_COUNT(rules));
    skip_value(&walk, rules[id].kind);
    PROVE(walk.err == ERR_OK && walk.pos == r.pos);
    if (id == MQTT_P_USER_PROPERTY) {
      PROOF_REACHED();
    }
  }
}

void proof_user_walk(void) {
  struct bytes packet = any_bytes(STEP_MAX);
  struct mqtt_props p;
  struct part name;
  struct part value;
  u32 pos = nondet_u32();
  __CPROVER_assume(p.all.off <= packet.len && p.all.len <= packet.len - p.all.off);
  u32 end = p.all.off + p.all.len;
  __CPROVER_assume(pos >= p.all.off && pos <= end);
  u32 before = pos;
  if (mqtt_user_property(packet, &p, &pos, &name, &value)) {
    PROVE(pos > before && pos <= end && name.off >= before);
    PROVE(name.off + name.len <= value.off && value.off + value.len == pos);
    if (name.len > 6) {
      PROOF_REACHED();
    }
  } else {
    PROVE(pos >= before && pos <= end);
  }
}
