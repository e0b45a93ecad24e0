// SPDX-License-Identifier: Apache-2.0
// The one place that says which operations a device is given. Every implementation asks here, so
// that all refuse the same.
#include "base/block.h"

static bool range_fits(const struct block_info *i, const struct block_op *op, u64 max) {
  ASSERT(IS_POWER_OF_TWO(i->block_len));
  u64 mask = i->block_len - 1;
  return op->len != 0 && op->len <= max && (op->len & mask) == 0 && (op->at & mask) == 0 &&
         op->at <= i->len && op->len <= i->len - op->at;
}

bool block_op_fits(const struct block_info *i, const struct block_op *op) {
  switch (op->kind) {
  case BLOCK_READ: return op->memory != NULL && range_fits(i, op, i->transfer_max);
  case BLOCK_WRITE:
    return op->memory != NULL && !i->read_only && range_fits(i, op, i->transfer_max);
  case BLOCK_FLUSH: return op->len == 0;
  case BLOCK_DISCARD: return !i->read_only && range_fits(i, op, i->discard_max);
  case BLOCK_ZERO: return !i->read_only && range_fits(i, op, i->zero_max);
  default: return false;
  }
}

void block_text(char out[BLOCK_TEXT_MAX], struct bytes said) {
  usize from = 0;
  usize end = bytes_find(said, 0);
  end = MIN(end, said.len);
  while (from < end && said.ptr[from] == ' ') {
    from++;
  }
  while (end > from && said.ptr[end - 1] == ' ') {
    end--;
  }
  u32 n = 0;
  for (; from + n < end && n < BLOCK_TEXT_MAX - 1; n++) {
    u8 c = said.ptr[from + n];
    out[n] = c >= ' ' && c < 127 ? (char)c : '?';
  }
  out[n] = 0;
}
