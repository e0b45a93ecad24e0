// SPDX-License-Identifier: Apache-2.0
#include "mqtt/topic.h"

// [MQTT-4.7.0-1] [MQTT-4.7.3-1]
bool topic_name_valid(struct bytes name) {
  if (name.len == 0 || name.len > U16_MAX) {
    return false;
  }
  u32 i = 0;
  while (i < (u32)name.len)
    LOOP_ASSIGNS(i)
  LOOP_INVARIANT(i <= name.len)
  LOOP_DECREASES(name.len - i)
  {
    u8 c = name.ptr[i];
    if (c == '+' || c == '#' || c == 0) {
      return false;
    }
    i++;
  }
  return true;
}

// [MQTT-4.7.1-1] [MQTT-4.7.1-2] 3.1.1 [MQTT-3.8.3-2]
static bool plain_filter_valid(struct bytes filter) {
  if (filter.len == 0 || filter.len > U16_MAX) {
    return false;
  }
  u32 i = 0;
  u32 len = (u32)filter.len;
  while (i < len)
    LOOP_ASSIGNS(i)
  LOOP_INVARIANT(i <= len)
  LOOP_DECREASES(len - i)
  {
    u8 c = filter.ptr[i];
    bool first = i == 0 || filter.ptr[i - 1] == '/';
    bool last = i + 1 == len;
    if (c == 0 || (c == '#' && (!first || !last)) ||
        (c == '+' && (!first || (!last && filter.ptr[i + 1] != '/')))) {
      return false;
    }
    i++;
  }
  return true;
}

// [MQTT-4.8.2-1] [MQTT-4.8.2-2]
bool topic_shared(struct bytes filter, struct bytes *group, struct bytes *inner) {
  if (!bytes_starts_with(filter, BYTES_LIT("$share/"))) {
    return false;
  }
  struct bytes rest = bytes_skip(filter, 7);
  usize slash = bytes_find(rest, '/');
  *group = bytes_sub(rest, 0, slash);
  *inner = slash < rest.len ? bytes_skip(rest, slash + 1) : bytes_of(rest.ptr, 0);
  return true;
}

bool topic_filter_valid(struct bytes filter) {
  struct bytes group;
  struct bytes inner;
  if (filter.len == 0 || filter.len > U16_MAX) {
    return false;
  }
  if (!topic_shared(filter, &group, &inner)) {
    return plain_filter_valid(filter);
  }
  return topic_name_valid(group) && plain_filter_valid(inner);
}

bool topic_has_wildcard(struct bytes filter) {
  return bytes_find(filter, '+') < filter.len || bytes_find(filter, '#') < filter.len;
}

// End of the level that starts at `from`.
static usize level_end(struct bytes b, usize from) {
  usize i = from;
  while (i < b.len && b.ptr[i] != '/') {
    i++;
  }
  return i;
}

bool topic_matches(struct bytes filter, struct bytes name) {
  if (name.len > 0 && name.ptr[0] == '$' && (filter.ptr[0] == '+' || filter.ptr[0] == '#')) {
    return false;  // [MQTT-4.7.2-1]
  }
  usize f = 0;
  usize n = 0;
  for (;;) {  // one level a turn
    if (f < filter.len && filter.ptr[f] == '#') {
      return true;
    }
    usize fe = level_end(filter, f);
    usize ne = level_end(name, n);
    bool any = fe == f + 1 && filter.ptr[f] == '+';
    if (!any && !bytes_equal(bytes_sub(filter, f, fe - f), bytes_sub(name, n, ne - n))) {
      return false;
    }
    bool name_ends = ne == name.len;
    bool filter_ends = fe == filter.len;
    if (name_ends) {  // "sport/#" also matches "sport"
      return filter_ends || (filter.len - fe == 2 && filter.ptr[fe + 1] == '#');
    }
    if (filter_ends) {
      return false;
    }
    f = fe + 1;
    n = ne + 1;
  }
}
