// SPDX-License-Identifier: Apache-2.0
// Proves: what slot_write puts in, slot_payload takes out; an empty slot, another magic, a cut one
// and one with any flipped bit are told apart; every payload length that fits is accepted.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "admin/slot.h"

static u8 slot[SLOT_SIZE];
static u8 payload[SLOT_PAYLOAD_MAX + 1];

static enum err take(usize len, struct bytes *out) {
  return slot_payload(bytes_of(slot, len), out);
}

static void round_trip(void **state) {
  (void)state;
  static const u32 lens[] = {1, 511, 512, 513, 100000, SLOT_PAYLOAD_MAX - 1, SLOT_PAYLOAD_MAX};
  struct bytes out;
  for (u32 i = 0; i < sizeof payload; i++) {
    payload[i] = (u8)(i * 31 + 7);
  }
  for (u32 i = 0; i < ARRAY_COUNT(lens); i++) {
    memset(slot, 0xee, sizeof slot);
    assert_int_equal(slot_write(span_of(slot, SLOT_SIZE), bytes_of(payload, lens[i])), ERR_OK);
    assert_int_equal(take(SLOT_SIZE, &out), ERR_OK);
    assert_true(bytes_equal(out, bytes_of(payload, lens[i])));
    for (u32 at = SLOT_HEADER + lens[i]; at < SLOT_SIZE; at++) {
      assert_int_equal(slot[at], 0);
    }
  }
  assert_int_equal(slot_write(span_of(slot, SLOT_SIZE), bytes_of(payload, SLOT_PAYLOAD_MAX + 1)),
                   ERR_LIMIT);
}

static void empty(void **state) {
  (void)state;
  struct bytes out;
  assert_int_equal(slot_write(span_of(slot, SLOT_SIZE), bytes_of(NULL, 0)), ERR_OK);
  assert_int_equal(take(SLOT_SIZE, &out), ERR_NOT_FOUND);
  memset(slot, 0, sizeof slot);
  assert_int_equal(take(SLOT_SIZE, &out), ERR_UNSUPPORTED);
}

static void every_flipped_bit(void **state) {
  (void)state;
  struct bytes out;
  assert_int_equal(slot_write(span_of(slot, SLOT_SIZE), bytes_of(payload, 300)), ERR_OK);
  for (u32 bit = 0; bit < (SLOT_HEADER + 300) * 8; bit++) {
    u32 at = bit / 8;
    if (at >= 28 && at < SLOT_HEADER) {
      continue;  // reserved
    }
    slot[at] ^= (u8)(1u << bit % 8);
    enum err e = take(SLOT_SIZE, &out);
    assert_int_equal(e, at < 16 ? ERR_UNSUPPORTED : ERR_CORRUPT);
    slot[at] ^= (u8)(1u << bit % 8);
  }
  assert_int_equal(take(SLOT_SIZE, &out), ERR_OK);
}

static void cut_anywhere(void **state) {
  (void)state;
  struct bytes out;
  assert_int_equal(slot_write(span_of(slot, SLOT_SIZE), bytes_of(payload, 300)), ERR_OK);
  for (u32 len = 0; len < SLOT_HEADER + 300; len++) {
    u8 *exact = malloc(len == 0 ? 1 : len);
    memcpy(exact, slot, len);
    assert_int_equal(slot_payload(bytes_of(exact, len), &out), ERR_SHORT);
    free(exact);
  }
  assert_int_equal(take(SLOT_HEADER + 300, &out), ERR_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(empty),
                                     cmocka_unit_test(every_flipped_bit),
                                     cmocka_unit_test(cut_anywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
