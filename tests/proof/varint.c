// SPDX-License-Identifier: Apache-2.0
// Variable byte integers: what is written is read back, every true prefix is short, and what is
// accepted is the one encoding that would be written.
#include "mqtt/encode.h"
#include "mqtt/wire.h"
#include "proof.h"

void proof_varint_round_trip(void) {
  u8 b[4];
  u32 v = nondet_u32();
  __CPROVER_assume(v <= MQTT_REMAINING_MAX);
  struct writer w = writer_init(span_of(b, sizeof b));
  mqtt_write_varint(&w, v);
  __CPROVER_assert(w.err == ERR_OK, "four bytes always do");
  __CPROVER_assert(w.pos == mqtt_varint_len(v), "as long as announced");
  u32 cut = nondet_u32();
  __CPROVER_assume(cut <= w.pos);
  struct reader r = reader_init(bytes_of(b, cut));
  u32 got = mqtt_read_varint(&r);
#ifdef NEGATIVE
  __CPROVER_assert(got == v, "wrong for a prefix");
#else
  __CPROVER_assert(cut < w.pos ? r.err == ERR_SHORT : r.err == ERR_OK && got == v,
                   "read back whole, short before");
#endif
}

void proof_varint_unique(void) {
  struct reader r = any_reader(8);
  u32 start = r.pos;
  u32 v = mqtt_read_varint(&r);
  if (r.err == ERR_OK) {
    u8 b[4];
    struct writer w = writer_init(span_of(b, sizeof b));
    mqtt_write_varint(&w, v);
    __CPROVER_assert(w.pos == r.pos - start, "same length");
    u32 i = nondet_u32();
    __CPROVER_assume(i < w.pos);
    __CPROVER_assert(b[i] == r.base[start + i], "same bytes");
    PROOF_REACHED();
  }
}
