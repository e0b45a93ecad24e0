// SPDX-License-Identifier: Apache-2.0
// Fuzzes: the WebSocket upgrade request and the PROXY header (its version is the first byte's
// lowest bit): parts lie inside the input, and a header's length too.
#include <stdlib.h>
#include <string.h>

#include "server/proxy.h"
#include "server/ws_request.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

static void request(struct bytes b) {
  struct ws_request r;
  const char *why = NULL;
  u32 whole = ws_request_len(b);
  check(whole <= b.len);
  enum ws_answer a = ws_request_parse(bytes_sub(b, 0, whole > 0 ? whole : b.len), &r, &why);
  check((a == WS_ANSWER_SWITCH) == (why == NULL));
  if (a == WS_ANSWER_SWITCH) {
    check(whole > 0 && r.key.len == 24 && r.protocol != WS_PROTOCOL_NONE);
    check(r.key.off + r.key.len <= whole && r.origin.off + r.origin.len <= whole);
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  if (len < 1 || len > WS_REQUEST_MAX) {
    return 0;
  }
  u8 *copy = malloc(len > 1 ? len - 1 : 1);
  memcpy(copy, data + 1, len - 1);
  struct bytes b = bytes_of(copy, len - 1);
  struct proxy_peer p;
  u32 used = 0;
  request(b);
  enum err e = proxy_parse(b, 1 + (data[0] & 1), &p, &used);
  if (e == ERR_OK) {
    check(used > 0 && used <= b.len && p.name.off + p.name.len <= used);
  }
  free(copy);
  return 0;
}
