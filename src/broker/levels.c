// SPDX-License-Identifier: Apache-2.0
// Topic levels: split once a message, each level hashed once with the core's key, so that a walk
// through a tree costs one table look-up a level and a peer cannot choose collisions.
#include "broker/state.h"

// [MQTT-4.7.3-4]
void levels_split(struct broker *b, struct bytes topic, struct levels *out) {
  ASSERT(topic.len > 0);
  ASSERT(topic.len <= U16_MAX);
  out->topic = topic;
  out->count = 0;
  u32 start = 0;
  u32 len = (u32)topic.len;
  while (start <= len && out->count < LEVELS_MAX + 1) {
    u32 end = start;
    while (end < len && topic.ptr[end] != '/') {
      end++;
    }
    struct level *l = &out->level[out->count++];
    l->off = start;
    l->len = end - start;
    l->hash = (u32)siphash(&b->core->hash_key, bytes_of(topic.ptr + start, l->len));
    start = end + 1;
  }
  out->more = start <= len;
}

bool level_text_set(struct blocks *a, struct level_text *t, struct bytes text, u32 hash) {
  ASSERT(text.len <= U16_MAX);
  t->hash = hash;
  t->len = (u16)text.len;
  u8 *to = t->text;
  if (text.len > LEVEL_INLINE) {
    t->block = blocks_take(a, text.len);
    if (t->block == NULL) {
      t->len = 0;
      return false;
    }
    to = t->block;
  }
  if (text.len > 0) {
    memcpy(to, text.ptr, text.len);
  }
  return true;
}

void level_text_clear(struct blocks *a, struct level_text *t) {
  if (t->len > LEVEL_INLINE) {
    blocks_put(a, t->block);
  }
  t->len = 0;
}
