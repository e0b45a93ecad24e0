// SPDX-License-Identifier: Apache-2.0
// Harness for the lines of a configuration: any bytes, any length to 65 535, any position. The loops
// are proven by their contracts, so nothing is bounded. -DNEGATIVE adds a claim that is false.
#include "admin/conf.h"

void *malloc(usize len);

static u32 any_u32(void) {
  u32 v;  // CBMC takes it as any value
  return v;
}

static struct bytes any_bytes(void) {
  u32 len = any_u32();
  __CPROVER_assume(len <= 65535);
  u8 *p = malloc(len);
  __CPROVER_assume(p != NULL);
  return bytes_of(p, len);
}

void prove_conf_next(void) {
  struct bytes text = any_bytes();
  u32 pos = any_u32();
  u32 number = any_u32();
  struct conf_line l;
  __CPROVER_assume(pos <= text.len);
  u32 before = pos;
  if (conf_next(text, &pos, &number, &l)) {
    __CPROVER_assert(pos > before && pos <= text.len, "a line moves on, within the text");
    __CPROVER_assert(l.keyword.len > 0, "a line has a keyword");
    __CPROVER_assert(l.keyword.off >= before, "of this line");
    __CPROVER_assert((u64)l.keyword.off + l.keyword.len <= pos, "keyword within the line");
    __CPROVER_assert((u64)l.value.off + l.value.len <= pos, "value within the line");
    __CPROVER_assert(l.value.off >= l.keyword.off + l.keyword.len, "value behind the keyword");
#ifdef NEGATIVE
    __CPROVER_assert(l.value.len > 0, "false: a value may be empty");
#endif
  } else {
    __CPROVER_assert(pos == text.len, "the end is the end");
  }
}
