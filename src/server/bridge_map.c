// SPDX-License-Identifier: Apache-2.0
// Topics across a bridge: `topic PATTERN DIRECTION QOS LOCAL REMOTE` takes LOCAL off the front of a
// topic and puts REMOTE there, or the other way. The first line that matches counts.
#include "mqtt/topic.h"
#include "server/bridge_inner.h"

// `topic` without `from` and with `to` in front. 0: it does not fit.
static u32 swap_prefix(struct bytes topic, struct bytes from, struct bytes to, struct span out) {
  struct writer w = writer_init(out);
  ASSERT(
      bytes_starts_with(topic, from));  // the filter begins with the prefix, which has no wildcard
  write_bytes(&w, to);
  write_bytes(&w, bytes_skip(topic, from.len));
  return w.err == ERR_OK && w.pos <= U16_MAX ? w.pos : 0;
}

u32 bridge_map_out(const struct bridge *b, struct bytes topic, struct span out) {
  for (u32 i = 0; i < b->rule_count; i++) {
    const struct bridge_rule *r = &b->rules[i];
    if ((r->direction & BRIDGE_TOPIC_OUT) != 0 && topic_matches(r->local, topic)) {
      return swap_prefix(topic, r->local_prefix, r->remote_prefix, out);
    }
  }
  return 0;
}

u32 bridge_map_in(const struct bridge *b, struct bytes topic, struct span out) {
  for (u32 i = 0; i < b->rule_count; i++) {
    const struct bridge_rule *r = &b->rules[i];
    if ((r->direction & BRIDGE_TOPIC_IN) != 0 && topic_matches(r->remote, topic)) {
      return swap_prefix(topic, r->remote_prefix, r->local_prefix, out);
    }
  }
  return 0;
}
