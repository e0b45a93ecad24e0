// SPDX-License-Identifier: Apache-2.0
// The vectors' runner as a kernel of its own, in src/main.c's place: the first boot module is the file of vectors. The
// kernel's start, page tables, mem*, CFI and vector registers are the real ones. Says what host.c says and powers off.
#include "base/fmt.h"
#include "loop/carve.h"
#include "plat/plat.h"
#include "tls/tls.h"
#include "vectors.h"

#define HEAP_LEN (4u << 20)

static void say(const char *format, ...) {
  char line[200];
  struct writer w = writer_init(span_of(line, sizeof line));
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(&w, format, args);
  __builtin_va_end(args);
  plat_console(writer_bytes(&w));
}

static void random_bytes(struct span out) {
  (void)plat_random(out);
}

static void report(const char *set, u32 test_case, const char *what) {
  say("FAILED %s tcId %u: %s\n", set, test_case, what);
}

static void ignore(const char *set, u32 test_case, const char *what) {
  (void)set, (void)test_case, (void)what;
}

static void show(const struct vector_result *result, u32 *passed, u32 *failed) {
  for (u32 set = 1; set < VECTOR_SETS; set++) {
    say("  %s: %u passed, %u failed\n", vectors_set_name(set), result->passed[set],
        result->failed[set]);
    *passed += result->passed[set];
    *failed += result->failed[set] + (result->passed[set] == 0 ? 1 : 0);
  }
}

void urmqtt_main(void) {
  static struct vector_result result;
  static struct vector_result control;
  struct carve carve;
  struct plat_bundle bundle;
  carve_init(&carve);
  struct span heap = carve_take(&carve, HEAP_LEN, 64);
  if (plat_bundles(&bundle, 1) != 1 || heap.ptr == NULL) {
    say("wycheproof: no boot module, or no memory: 0 passed, 1 failed\n");
    plat_end(END_STOP);
  }
  struct span file = carve_take(&carve, bundle.tar.len, 64);
  ASSERT(file.ptr != NULL);
  memcpy(file.ptr, bundle.tar.ptr, bundle.tar.len);
  struct bytes vectors = bytes_of(file.ptr, bundle.tar.len);
  tls_init(heap, random_bytes);
  say("wycheproof: %s\n", tls_describe_cpu());
  vectors_run(vectors, &result, report);
  u32 passed = 0;
  u32 failed = result.malformed ? 1 : 0;
  show(&result, &passed, &failed);
  // A runner that cannot fail proves nothing: with the first vector's verdict turned, one must fail.
  file.ptr[9] ^= 1;
  vectors_run(vectors, &control, ignore);
  if (control.failed[1] != result.failed[1] + 1) {
    say("FAILED control: a wrong verdict went unnoticed\n");
    failed++;
  }
  say("%u passed, %u failed\n", passed, failed);
  plat_end(failed == 0 ? END_POWER_OFF : END_STOP);
}
