// SPDX-License-Identifier: Apache-2.0
// Memory of messages, filters and names: five sizes from pools, larger ones as page runs. What does
// not fit into a used-up size takes the next larger one.
#include "broker/state.h"

static const u32 blob_sizes[5] = {64, 128, 256, 512, 1024};

static struct pool *pool_of(struct broker *b, const void *p) {
  for (u32 i = 0; i < ARRAY_COUNT(b->blob); i++) {
    struct pool *pool = &b->blob[i];
    if ((const u8 *)p >= pool->base &&
        (const u8 *)p < pool->base + (usize)pool->stride * pool->count) {
      return pool;
    }
  }
  return NULL;
}

void *blob_take(struct broker *b, usize len) {
  ASSERT(len > 0);
  for (u32 i = 0; i < ARRAY_COUNT(blob_sizes); i++) {
    if (len <= blob_sizes[i]) {
      void *p = pool_take_raw(&b->blob[i]);
      if (p != NULL) {
        return p;
      }
    }
  }
  return extent_take(&b->extent, len);
}

void blob_put(struct broker *b, void *p, usize len) {
  struct pool *pool = pool_of(b, p);
  if (pool != NULL) {
    pool_put(pool, p);
  } else {
    extent_put(&b->extent, p, len);
  }
}

struct message *message_new(struct broker *b, struct bytes topic, u32 props_max, u32 payload_len) {
  usize size = sizeof(struct message) + topic.len + props_max + payload_len;
  struct message *m = blob_take(b, size);
  if (m == NULL) {
    return NULL;
  }
  *m = (struct message){.refs = 1,
                        .topic_len = (u32)topic.len,
                        .payload_len = payload_len,
                        .expires_ns = NEVER,
                        .size = size};
  if (topic.len > 0) {
    memcpy(m->data, topic.ptr, topic.len);
  }
  b->stats.messages_stored++;
  b->stats.message_bytes_stored += size;
  return m;
}

void message_ref(struct message *m) {
  ASSERT(m->refs > 0);
  ASSERT(m->refs < U32_MAX);
  m->refs++;
}

void message_unref(struct broker *b, struct message *m) {
  ASSERT(m->refs > 0);
  if (--m->refs == 0) {
    b->stats.messages_stored--;
    b->stats.message_bytes_stored -= m->size;
    blob_put(b, m, m->size);
  }
}
