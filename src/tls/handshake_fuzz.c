// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a peer brings before it is known: the handshake's input, in slices whose length the
// input chooses. The first byte chooses the context: certificate required or not.
#include "tls/tls_test_support.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static struct tls_context *contexts[2];
  static u8 out[TEST_FLIGHT];
  test_start();
  if (contexts[0] == NULL) {
    contexts[0] = test_context((struct test_server){0});
    contexts[1] = test_context((struct test_server){.open = true, .alpn = true});
  }
  if (len < 2) {
    return 0;
  }
  u8 *copy = malloc(len - 2);
  memcpy(copy, data + 2, len - 2);
  u32 slice = data[1] + 1u;
  struct tls_handshake *hs = tls_handshake_begin(
      contexts[data[0] & 1], span_of(test_arena_memory, sizeof test_arena_memory), &test_now);
  u64 pos = 0;
  enum tls_step step = TLS_STEP_WANT_INPUT;
  while (pos < len - 2 && (step == TLS_STEP_WANT_INPUT || step == TLS_STEP_WANT_OUTPUT)) {
    u32 consumed = 0;
    u32 produced = 0;
    u32 give = (u32)MIN((u64)slice, len - 2 - pos);
    step = tls_handshake_step(hs, bytes_of(copy + pos, give), &consumed, span_of(out, 16 + slice),
                              &produced);
    if (consumed > give || produced > 16 + slice ||
        (consumed == 0 && produced == 0 && step == TLS_STEP_WANT_INPUT)) {
      abort();
    }
    pos += consumed;
  }
  if (step == TLS_STEP_DONE) {
    struct tls_record record;
    tls_handshake_finish(hs, &record, NULL);
  } else {
    tls_handshake_abort(hs);
  }
  free(copy);
  return 0;
}
