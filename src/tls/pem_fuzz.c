// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a user's files bring: the four PEM texts of a configuration, the first byte says
// which one is the fuzzer's; the others are good. Nothing may be left on the heap.
#include "tls/tls_test_support.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  test_start();
  if (len < 1) {
    return 0;
  }
  struct tls_config config = {.certificate = test_file("server-p256-p256.crt"),
                              .key = test_file("server-p256-p256.key"),
                              .ca = test_file("ca-p256.crt"),
                              .crl = test_file("revoked.crl"),
                              .require_certificate = true};
  u8 *copy = malloc(len - 1);
  memcpy(copy, data + 1, len - 1);
  struct bytes text = bytes_of(copy, len - 1);
  switch (data[0] % 4) {
  case 0: config.certificate = text; break;
  case 1: config.key = text; break;
  case 2: config.ca = text; break;
  default: config.crl = text; break;
  }
  struct tls_problem problem;
  u64 before = tls_heap_used();
  struct tls_context *context = tls_context_new(&config, &test_now, &problem);
  if (context != NULL) {
    tls_context_unref(context);
  } else if (problem.input == TLS_INPUT_NONE || problem.reason[0] == 0) {
    abort();
  }
  if (tls_heap_used() != before) {
    abort();
  }
  free(copy);
  return 0;
}
