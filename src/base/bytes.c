// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

bool bytes_equal(struct bytes a, struct bytes b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool bytes_equal_str(struct bytes a, const char *s) {
  return bytes_equal(a, bytes_str(s));
}

static u8 lower(u8 c) {
  return c >= 'A' && c <= 'Z' ? (u8)(c | 0x20) : c;
}

bool bytes_equal_nocase(struct bytes a, const char *s) {
  struct bytes b = bytes_str(s);
  if (a.len != b.len) {
    return false;
  }
  for (usize i = 0; i < a.len; i++) {
    if (lower(a.ptr[i]) != lower(b.ptr[i])) {
      return false;
    }
  }
  return true;
}

bool bytes_starts_with(struct bytes a, struct bytes prefix) {
  return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

usize bytes_find(struct bytes b, u8 byte) {
  usize i = 0;
  while (i < b.len && b.ptr[i] != byte)
    LOOP_ASSIGNS(i)
  LOOP_INVARIANT(i <= b.len)
  LOOP_DECREASES(b.len - i)
  { i++; }
  return i;
}

enum err bytes_to_u64(struct bytes b, u64 max, u64 *out) {
  u64 v = 0;
  if (b.len == 0) {
    return ERR_MALFORMED;
  }
  for (usize i = 0; i < b.len; i++) {
    if (b.ptr[i] < '0' || b.ptr[i] > '9') {
      return ERR_MALFORMED;
    }
    u64 digit = (u64)(b.ptr[i] - '0');
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v)) {
      return ERR_RANGE;
    }
  }
  if (v > max) {
    return ERR_RANGE;
  }
  *out = v;
  return ERR_OK;
}

void write_str(struct writer *w, const char *s) {
  write_bytes(w, bytes_str(s));
}
