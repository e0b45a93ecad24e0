// SPDX-License-Identifier: Apache-2.0
// Fuzzes topic filters and names: the first byte says where the input is cut in two. A valid filter
// without wildcards matches itself and nothing else; '#' matches every name without '$' in front.
#include <stdlib.h>
#include <string.h>

#include "mqtt/topic.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  if (len < 1) {
    return 0;
  }
  usize cut = MIN((usize)data[0], len - 1);
  u8 *a = malloc(cut == 0 ? 1 : cut);
  u8 *b = malloc(len - 1 == cut ? 1 : len - 1 - cut);
  memcpy(a, data + 1, cut);
  memcpy(b, data + 1 + cut, len - 1 - cut);
  struct bytes filter = bytes_of(a, cut);
  struct bytes name = bytes_of(b, len - 1 - cut);
  struct bytes group;
  struct bytes inner = filter;
  if (topic_filter_valid(filter) && topic_name_valid(name)) {
    if (topic_shared(filter, &group, &inner)) {
      check(group.len > 0 && inner.len > 0 && group.len + inner.len + 8 == filter.len);
    }
    bool match = topic_matches(inner, name);
    if (!topic_has_wildcard(inner)) {
      check(match == bytes_equal(inner, name));
    }
    check(topic_matches(name, name));
    check(topic_matches(BYTES_LIT("#"), name) == (name.ptr[0] != '$'));
  }
  free(a);
  free(b);
  return 0;
}
