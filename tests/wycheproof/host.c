// SPDX-License-Identifier: Apache-2.0
// The vectors' runner as a Linux process: wycheproof FILE. It links the very objects that go into
// the kernel, relocating as the kernel does. Prints a line a set and "N passed, N failed".
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/assert.h"
#include "tls/tls.h"
#include "vectors.h"

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "assertion failed at %s: %s\n", where, what);
  abort();
}

static void random_bytes(struct span out) {
  for (usize pos = 0; pos < out.len;) {
    ssize_t n = getrandom(out.ptr + pos, out.len - pos, 0);
    pos += n > 0 ? (usize)n : 0;
  }
}

static void report(const char *set, u32 test_case, const char *what) {
  printf("FAILED %s tcId %u: %s\n", set, test_case, what);
}

static void ignore(const char *set, u32 test_case, const char *what) {
  (void)set, (void)test_case, (void)what;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: wycheproof FILE\n");
    return 2;
  }
  FILE *f = fopen(argv[1], "rb");
  usize cap = 16u << 20;
  u8 *data = malloc(cap);
  if (f == NULL || data == NULL) {
    fprintf(stderr, "wycheproof: cannot read %s\n", argv[1]);
    return 1;
  }
  struct bytes file = bytes_of(data, fread(data, 1, cap, f));
  fclose(f);
  tls_init(span_of(aligned_alloc(64, 1u << 20), 1u << 20), random_bytes);
  printf("wycheproof: %s\n", tls_describe_cpu());
  struct vector_result result;
  vectors_run(file, &result, report);
  u32 passed = 0;
  u32 failed = result.malformed ? 1 : 0;
  for (u32 set = 1; set < VECTOR_SETS; set++) {
    printf("  %-18s %4u passed, %u failed\n", vectors_set_name(set), result.passed[set],
           result.failed[set]);
    passed += result.passed[set];
    failed += result.failed[set] + (result.passed[set] == 0 ? 1 : 0);
  }
  // A runner that cannot fail proves nothing: with the first vector's verdict turned, one must fail.
  data[9] ^= 1;
  struct vector_result control;
  vectors_run(file, &control, ignore);
  if (control.failed[1] != result.failed[1] + 1) {
    printf("FAILED control: a wrong verdict went unnoticed\n");
    failed++;
  }
  printf("%u passed, %u failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
