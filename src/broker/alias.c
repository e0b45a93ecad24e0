// SPDX-License-Identifier: Apache-2.0
// Topic aliases of what we send (3.3.2.3.4): the first topics of a connection that are worth it get
// the aliases the client allows and keep them; later ones are sent by name.
//
// I1  A mapping is made when the packet that tells it is begun, never before: the client knows of
//     every alias that is used without a topic.
// I2  Mappings are the connection's: all are forgotten with it [MQTT-3.3.2-7].
#include "broker/state.h"

#define TOPIC_MIN 5u  // a shorter one costs less than its alias

void alias_open(struct session *s, u32 client_max) {
  s->alias_out_max = (u16)MIN(client_max, (u32)s->b->limits.topic_alias_max_out);
  s->alias_out_count = 0;  // [MQTT-3.1.2-26] [MQTT-3.1.2-27]
}

void alias_close(struct session *s) {
  for (u32 i = 0; i < s->alias_out_count; i++) {
    blocks_put(&s->b->blocks, s->aliases_out[i]);
  }
  if (s->aliases_out != NULL) {
    blocks_put(&s->b->blocks, s->aliases_out);
    s->aliases_out = NULL;
  }
  s->alias_out_max = s->alias_out_count = 0;
}

// Sets stream_alias, and stream_alias_new when the packet has to tell it: nothing is remembered
// yet.
void alias_choose(struct session *s, const struct message *m) {
  s->stream_alias = 0;
  s->stream_alias_new = false;
  struct bytes topic = message_topic(m);
  if (s->alias_out_max == 0 || topic.len < TOPIC_MIN) {
    return;
  }
  for (u32 i = 0; i < s->alias_out_count; i++) {
    const u8 *known = s->aliases_out[i];
    if (bytes_equal(bytes_of(known + 2, load_be16(known)), topic)) {
      s->stream_alias = (u16)(i + 1);
      return;
    }
  }
  if (s->alias_out_count < s->alias_out_max) {
    s->stream_alias = (u16)(s->alias_out_count + 1);
    s->stream_alias_new = true;
  }
}

// The packet goes out: a new mapping holds from now on, or there is no memory for it.
void alias_commit(struct session *s, const struct message *m) {
  if (!s->stream_alias_new) {
    return;
  }
  struct blocks *blocks = &s->b->blocks;
  if (s->aliases_out == NULL) {
    s->aliases_out = blocks_take(blocks, s->alias_out_max * sizeof(u8 *));
  }
  u8 *block = s->aliases_out == NULL ? NULL : blocks_take(blocks, m->topic_len + 2);
  if (block == NULL) {
    s->stream_alias = 0;
    s->stream_alias_new = false;
    return;
  }
  memcpy(block, m->data, m->topic_len + 2);
  s->aliases_out[s->alias_out_count++] = block;
  ASSERT(s->alias_out_count == s->stream_alias);
}
