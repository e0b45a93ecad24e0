// SPDX-License-Identifier: Apache-2.0
#include "admin/conf.h"

static bool is_space(u8 c) {
  return c == ' ' || c == '\t';
}

// Splits text[start, end), which holds no newline.
static bool split(struct bytes text, u32 start, u32 end, struct conf_line *out) {
  while (end > start && (is_space(text.ptr[end - 1]) || text.ptr[end - 1] == '\r')) {
    end--;
  }
  while (start < end && is_space(text.ptr[start])) {
    start++;
  }
  if (start == end || text.ptr[start] == '#') {
    return false;
  }
  u32 word = start;
  while (word < end && !is_space(text.ptr[word])) {
    word++;
  }
  u32 value = word;
  while (value < end && is_space(text.ptr[value])) {
    value++;
  }
  out->keyword = (struct part){start, word - start};
  out->value = (struct part){value, end - value};
  return true;
}

bool conf_next(struct bytes text, u32 *pos, u32 *number, struct conf_line *out) {
  ASSERT(text.len <= U32_MAX);
  while (*pos < text.len)
    LOOP_ASSIGNS(*pos, *number, *out)
  LOOP_INVARIANT(*pos <= text.len)
  LOOP_DECREASES(text.len - *pos)
  {
    u32 start = *pos;
    u32 end = start + (u32)bytes_find(bytes_skip(text, start), '\n');
    *pos = end < text.len ? end + 1 : end;
    *number += 1;
    if (split(text, start, end, out)) {
      out->number = *number;
      return true;
    }
  }
  return false;
}
