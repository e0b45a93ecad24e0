// SPDX-License-Identifier: Apache-2.0
// Fuzzes both client messages of SCRAM, parted by a line feed: what is taken for a first message
// has its parts inside and a name that compares with itself; no last message proves keys that
// nobody knows, and the same one is judged the same twice.
#include <stdlib.h>
#include <string.h>

#include "server/scram.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

static struct bytes exact(const u8 *from, usize len) {
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, from, len);
  return bytes_of(copy, len);
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const u8 stored[SCRAM_KEY_LEN] = {7}, server[SCRAM_KEY_LEN] = {9};
  struct scram_keys keys = {
      .salt = BYTES_LIT("salt"), .iterations = 4096, .stored = stored, .server = server};
  usize cut = bytes_find(bytes_of(data, len), '\n');
  struct bytes one = exact(data, cut);
  struct bytes two = cut < len ? exact(data + cut + 1, len - cut - 1) : exact(data, 0);
  struct scram_first f;
  if (scram_first(one, &f) == NULL) {
    struct bytes name = bytes_part(one, f.name);
    u8 *plain = malloc(name.len);
    u32 n = scram_name(name, plain);
    check(n > 0 && n <= name.len);
    check(scram_name_is(name, bytes_of(plain, n)));
    check(!scram_name_is(name, bytes_of(plain, n - 1)));
    free(plain);
    check(f.nonce.len > 0 && f.nonce.len <= SCRAM_NONCE_MAX);
    check(f.bare.off + f.bare.len == one.len && f.name.off == f.bare.off + 2);
    u8 text[SCRAM_FIRST_MAX], final[SCRAM_FINAL_MAX];
    struct writer w = writer_init(span_of(text, sizeof text));
    struct scram s, again;
    scram_begin(&s, one, &f, &keys, BYTES_LIT("own"), &w);
    check(w.err == ERR_OK);
    again = s;
    w = writer_init(span_of(final, sizeof final));
    const char *bad = scram_final(&s, two, &w);
    check(bad != NULL && w.pos == 0);
    check(bad == scram_final(&again, two, &w));
  }
  free((void *)(uptr)one.ptr);
  free((void *)(uptr)two.ptr);
  return 0;
}
