// SPDX-License-Identifier: Apache-2.0
// The walks over lists in records: they touch nothing outside and end.
#include "proof.h"

#include "store/record.c"

static bool within(struct bytes part, struct bytes whole) {
  return part.len == 0 || (part.ptr >= whole.ptr && (usize)(part.ptr - whole.ptr) <= whole.len &&
                           part.len <= whole.len - (usize)(part.ptr - whole.ptr));
}

// The loop that judges references: any bytes, any length.
void proof_record_refs(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  if (judge_refs(b) == ERR_OK && b.len > 100) {
    PROOF_REACHED();
  }
}

// One step of the walk from any place: further on, inside, or the end.
void proof_record_ref(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  struct record_ref ref;
  u32 pos = nondet_u32();
  __CPROVER_assume(pos <= b.len);
  u32 before = pos;
  if (record_ref_next(b, &pos, &ref)) {
    PROVE(pos >= before + RECORD_REF_LEN && pos <= b.len);
    PROVE(ref.qos <= 2 && ref.id_count <= RECORD_IDS_MAX && within(ref.ids, b));
    PROVE(ref.ids.len == (usize)ref.id_count * 4);
    PROOF_REACHED();
  }
}

void proof_record_remove(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  u32 pos = nondet_u32();
  u64 session;
  u32 seq;
  __CPROVER_assume(pos <= b.len);
  u32 before = pos;
  if (record_remove_next(b, &pos, &session, &seq)) {
    PROVE(pos == before + 12 && pos <= b.len);
    PROOF_REACHED();
  }
}
