// SPDX-License-Identifier: Apache-2.0
// Fuzzes: WebSocket frames. The first byte cuts the input into pieces; whole and in pieces must
// give the same stream, and no more bytes come out than went in.
#include <stdlib.h>
#include <string.h>

#include "server/ws_frame.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

struct run {
  struct ws ws;
  u8 *out;
  u32 out_len;
  enum ws_take end;
};

static void run_piece(struct run *r, const u8 *bytes, u32 len) {
  u8 *copy = malloc(len > 0 ? len : 1);
  u32 at = 0;
  memcpy(copy, bytes, len);
  do {
    u32 used = 0;
    struct span data;
    r->end = ws_take(&r->ws, span_of(copy + at, len - at), &used, &data);
    check(used <= len - at);
    at += used;
    if (r->end == WS_TAKE_DATA) {
      u32 n = (u32)(data.len + 1) / 2;
      check(data.ptr == copy + at && n > 0);
      memcpy(r->out + r->out_len, data.ptr, n);
      r->out_len += n;
      ws_used(&r->ws, n);
      at += n;
    }
  } while (r->end == WS_TAKE_DATA || r->end == WS_TAKE_PING);
  check(r->end != WS_TAKE_MORE || at == len);
  free(copy);
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  if (len < 2 || len > 65536) {
    return 0;
  }
  struct run whole = {.out = malloc(len)};
  struct run cut = {.out = malloc(len)};
  u32 step = data[0] % 32 + 1;
  run_piece(&whole, data + 1, (u32)len - 1);
  for (u32 at = 1; at < len; at += step) {
    run_piece(&cut, data + at, (u32)MIN((usize)step, len - at));
    if (cut.end == WS_TAKE_FAILED || cut.end == WS_TAKE_CLOSED) {
      break;
    }
  }
  check(whole.out_len < len && whole.end == cut.end && whole.ws.code == cut.ws.code);
  check(whole.out_len == cut.out_len && memcmp(whole.out, cut.out, cut.out_len) == 0);
  free(whole.out);
  free(cut.out);
  return 0;
}
