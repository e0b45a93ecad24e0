// SPDX-License-Identifier: Apache-2.0
#include "admin/conf.h"

static bool is_space(u8 c) {
  return c == ' ' || c == '\t';
}

// Splits text[start, end), which holds no newline.
static bool split(struct bytes text, u32 start, u32 end, struct conf_line *out) {
  u32 line_end = end;
  while (end > start && (is_space(text.ptr[end - 1]) || text.ptr[end - 1] == '\r'))
    LOOP_ASSIGNS(end)
  LOOP_INVARIANT(start <= end && end <= line_end)
  LOOP_DECREASES(end)
  { end--; }
  while (start < end && is_space(text.ptr[start]))
    LOOP_ASSIGNS(start)
  LOOP_INVARIANT(start <= end && start >= __CPROVER_loop_entry(start))
  LOOP_DECREASES(end - start)
  { start++; }
  if (start == end || text.ptr[start] == '#') {
    return false;
  }
  u32 word = start;
  while (word < end && !is_space(text.ptr[word]))
    LOOP_ASSIGNS(word)
  LOOP_INVARIANT(start <= word && word <= end)
  LOOP_DECREASES(end - word)
  { word++; }
  u32 value = word;
  while (value < end && is_space(text.ptr[value]))
    LOOP_ASSIGNS(value)
  LOOP_INVARIANT(word <= value && value <= end)
  LOOP_DECREASES(end - value)
  { value++; }
  ASSERT(start < word && end <= line_end);
  out->keyword = (struct part){start, word - start};
  out->value = (struct part){value, end - value};
  return true;
}

bool conf_next(struct bytes text, u32 *pos, u32 *number, struct conf_line *out) {
  ASSERT(text.len <= U32_MAX);
  while (*pos < text.len)
    LOOP_ASSIGNS(*pos, *number, *out)
  LOOP_INVARIANT(*pos <= text.len && *pos >= __CPROVER_loop_entry(*pos))
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
