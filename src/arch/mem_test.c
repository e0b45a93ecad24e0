// SPDX-License-Identifier: Apache-2.0
// Proves: our memcpy, memmove, memset and memcmp do what a byte-by-byte loop does, for every size
// from 0 to 4 KiB, alignments 0 to 31 of both ends, and overlaps of every distance up to 70 bytes
// in both directions; and touch nothing outside (the areas around are compared, and page ends are
// guarded). With and without AVX2.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cc.h"

void *our_memcpy(void *to, const void *from, usize len);
void *our_memmove(void *to, const void *from, usize len);
void *our_memset(void *to, int byte, usize len);
int our_memcmp(const void *a, const void *b, usize len);
extern u8 our_mem_wide;

#define AREA 8704u
static u8 noise[AREA];
static u8 got[AREA];
static u8 want[AREA];

// Sizes: all up to 300, then steps that meet every remainder of 64, up to 4 KiB and a little over.
static u32 next_size(u32 len) {
  return len < 300 ? len + 1 : len + 61;
}

static void copy(void **state) {
  (void)state;
  for (u32 len = 0; len <= 4160; len = next_size(len)) {
    for (u32 to = 0; to < 32; to += len < 130 ? 1 : 5) {
      for (u32 from = 0; from < 32; from += len < 130 ? 1 : 7) {
        memset(got, 0xee, 4400);
        memset(want, 0xee, 4400);
        assert_ptr_equal(our_memcpy(got + 64 + to, noise + from, len), got + 64 + to);
        for (u32 i = 0; i < len; i++) {
          want[64 + to + i] = noise[from + i];
        }
        assert_memory_equal(got, want, 4400);
      }
    }
  }
}

static void every_size(void **state) {
  (void)state;
  for (u32 len = 0; len <= 4096; len++) {
    memset(got, 0xee, sizeof got);
    our_memcpy(got + 1 + len % 32, noise + len % 31, len);
    assert_memory_equal(got + 1 + len % 32, noise + len % 31, len);
    assert_int_equal(got[len % 32], 0xee);
    assert_int_equal(got[1 + len % 32 + len], 0xee);
    our_memset(got + 1 + len % 32, (int)len, len);
    for (u32 i = 0; i < len; i++) {
      assert_int_equal(got[1 + len % 32 + i], (u8)len);
    }
    assert_int_equal(got[len % 32], 0xee);
    assert_int_equal(got[1 + len % 32 + len], 0xee);
    assert_int_equal(our_memcmp(noise, noise, len), 0);
  }
}

static void overlap(void **state) {
  (void)state;
  for (u32 len = 0; len <= 4160; len = next_size(len)) {
    for (i32 shift = -70; shift <= 70; shift += len < 140 ? 1 : 3) {
      for (u32 align = 0; align < 32; align += 9) {
        u32 from = 128 + align;
        u32 to = (u32)((i32)from + shift);
        memcpy(got, noise, 4500);
        memcpy(want, noise, 4500);
        assert_ptr_equal(our_memmove(got + to, got + from, len), got + to);
        memcpy(want + to, noise + from, len);
        assert_memory_equal(got, want, 4500);
      }
    }
  }
}

static void set(void **state) {
  (void)state;
  for (u32 len = 0; len <= 4160; len = next_size(len)) {
    for (u32 to = 0; to < 32; to++) {
      memset(got, 0xee, 4400);
      assert_ptr_equal(our_memset(got + 64 + to, (int)(0x1200 + len), len), got + 64 + to);
      for (u32 i = 0; i < 4400; i++) {
        bool inside = i >= 64 + to && i < 64 + to + len;
        assert_int_equal(got[i], inside ? (u8)len : 0xee);
      }
    }
  }
}

static int sign(int v) {
  return (v > 0) - (v < 0);
}

static void compare(void **state) {
  (void)state;
  static const u8 pairs[][2] = {{0, 1}, {1, 0}, {0x7f, 0x80}, {0xff, 0}, {0x80, 0x7f}};
  for (u32 len = 1; len <= 400; len++) {
    memcpy(got, noise, 512);
    u32 step = len < 80 ? 1 : 7;
    for (u32 at = 0; at < len; at += step) {
      for (u32 k = 0; k < ARRAY_COUNT(pairs); k++) {
        u8 *a = got + 32 + k * 3;
        u8 *b = want + 32 + at % 32;
        memcpy(a, noise, len + 1);
        memcpy(b, noise, len + 1);
        a[len] = 1;  // beyond the end: must not matter
        b[len] = 2;
        a[at] = pairs[k][0];
        b[at] = pairs[k][1];
        if (at + 1 < len) {
          a[at + 1] = pairs[k][1];  // a later difference the other way: must not matter
          b[at + 1] = pairs[k][0];
        }
        assert_int_equal(sign(our_memcmp(a, b, len)), sign((int)pairs[k][0] - pairs[k][1]));
        b[at] = a[at];
        b[at + 1] = at + 1 < len ? a[at + 1] : 2;
        assert_int_equal(our_memcmp(a, b, len), 0);
      }
    }
  }
}

// Against unmapped pages before and after: a byte too far is a fault.
static void page_ends(void **state) {
  (void)state;
  u8 *p = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  mprotect(p, 4096, PROT_NONE);
  mprotect(p + 2 * 4096, 4096, PROT_NONE);
  mprotect(p + 4 * 4096, 4096, PROT_NONE);
  for (u32 len = 0; len <= 600; len++) {
    u8 *a_end = p + 2 * 4096 - len;
    u8 *b_end = p + 4 * 4096 - len;
    our_memset(a_end, 7, len);
    our_memcpy(b_end, a_end, len);
    our_memcpy(p + 3 * 4096, a_end, len);
    our_memcpy(p + 4096, b_end, len);
    our_memset(p + 4096, 7, len);
    our_memmove(b_end, p + 3 * 4096, len);
    assert_int_equal(our_memcmp(a_end, b_end, len), 0);
    assert_int_equal(our_memcmp(p + 4096, p + 3 * 4096, len), 0);
  }
  munmap(p, 5 * 4096);
}

int main(void) {
  srand(7);
  for (u32 i = 0; i < AREA; i++) {
    noise[i] = (u8)(rand() >> 8);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copy), cmocka_unit_test(every_size), cmocka_unit_test(overlap),
      cmocka_unit_test(set),  cmocka_unit_test(compare),    cmocka_unit_test(page_ends),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    our_mem_wide = 1;
    failed += cmocka_run_group_tests_name("with AVX2", tests, NULL, NULL);
  } else {
    printf("this processor has no AVX2: that half is not tested\n");
  }
#endif
  return failed;
}
