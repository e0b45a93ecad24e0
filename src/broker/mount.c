// SPDX-License-Identifier: Apache-2.0
// Mount points: a listener's clients live below a prefix of the topic tree and do not see it. All
// inside works with whole topics (rules, retained messages, routing); only what comes in from such
// a client is lengthened and what goes out to it is shortened.
#include "broker/state.h"

struct bytes mount_in(struct broker *b, struct bytes mount, struct bytes topic) {
  if (mount.len == 0) {
    return topic;
  }
  if (topic.len > sizeof b->mounted - mount.len) {
    return bytes_of(NULL, 0);
  }
  ASSERT(topic.ptr != b->mounted);
  memcpy(b->mounted, mount.ptr, mount.len);
  memcpy(b->mounted + mount.len, topic.ptr, topic.len);
  return bytes_of(b->mounted, mount.len + topic.len);
}

// A message from elsewhere (of a subscription made by another listener) goes out whole.
u32 mount_out(const struct session *s, const struct message *m) {
  struct bytes mount = session_mount(s);
  bool below =
      mount.len > 0 && m->topic_len > mount.len && bytes_starts_with(message_topic(m), mount);
  return below ? (u32)mount.len : 0;
}

u8 mount_index(struct broker *b, struct bytes mount) {
  if (mount.len == 0) {
    return 0;
  }
  u32 i = 1;
  while (i < MOUNTS_MAX && b->mounts[i].len > 0 && !bytes_equal(b->mounts[i], mount)) {
    i++;
  }
  ASSERT(i < MOUNTS_MAX);  // listeners keep theirs for the program's life
  b->mounts[i] = mount;
  return (u8)i;
}
