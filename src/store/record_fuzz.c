// SPDX-License-Identifier: Apache-2.0
// Fuzzes records as they come from a journal: what is accepted lies inside its input, its
// references and entries can be walked to the end, and written again it is the same bytes.
// First byte: the kind; its highest bit: RECORD_MORE.
#include <stdlib.h>
#include <string.h>

#include "store/record.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void require(bool good) {
  if (!good) {
    abort();
  }
}

static void walk_refs(struct bytes refs) {
  struct record_ref ref;
  u32 pos = 0;
  u32 before = 0;
  while (record_ref_next(refs, &pos, &ref)) {
    require(pos >= before + RECORD_REF_LEN && ref.qos <= 2 && ref.target != 0);
    for (u32 i = 0; i < ref.id_count; i++) {
      (void)record_ref_id(&ref, i);
    }
    before = pos;
  }
  require(pos == refs.len);
}

static void look(const struct record *r) {
  if (r->kind == RECORD_PUBLISH) {
    const struct record_publish *p = &r->publish;
    walk_refs(p->refs);
    if (p->part.len == record_publish_body_len(p)) {
      struct record_body b = record_publish_body(p, p->part);
      require(b.topic.len > 0 && b.payload.ptr + b.payload.len == p->part.ptr + p->part.len);
    }
  } else if (r->kind == RECORD_QUEUE) {
    walk_refs(r->queue.refs);
  } else if (r->kind == RECORD_REMOVE) {
    u32 pos = 0;
    u64 session;
    u32 seq;
    while (record_remove_next(r->remove, &pos, &session, &seq)) {
    }
    require(pos == r->remove.len);
  }
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static u8 again[1u << 17];
  struct record r;
  if (len < 1 || len > RECORD_MAX) {
    return 0;
  }
  u16 type = (u16)((data[0] & 0x7f) | (data[0] >> 7) << 15);
  u8 *b = malloc(len - 1);
  memcpy(b, data + 1, len - 1);
  if (record_read(type, bytes_of(b, len - 1), &r) == ERR_OK) {
    look(&r);
    struct writer w = writer_init(span_of(again, sizeof again));
    record_write(&r, &w);
    require(w.err == ERR_OK && w.pos == len - 1 && memcmp(again, b, len - 1) == 0);
    require(record_type(&r) == type);
  }
  free(b);
  return 0;
}
