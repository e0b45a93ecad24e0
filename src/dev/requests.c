// SPDX-License-Identifier: Apache-2.0
#include "dev/requests.h"

void requests_init(struct requests *r, u32 count) {
  ASSERT(count > 0);
  ASSERT(count <= BLOCK_INFLIGHT_MAX);
  *r = (struct requests){.free = count == 64 ? U64_MAX : (1ull << count) - 1};
}

static u32 lowest(u64 mask) {
  ASSERT(mask != 0);
  return (u32)__builtin_ctzll(mask);
}

u32 requests_put(struct requests *r, const struct block_op *op) {
  if (r->free == 0) {
    return U32_MAX;
  }
  u32 i = lowest(r->free);
  r->free &= ~(1ull << i);
  r->held |= 1ull << i;
  r->slot[i] = (struct request){.op = *op};
  return i;
}

void requests_unput(struct requests *r, u32 slot) {
  ASSERT((r->held & (1ull << slot)) != 0);
  r->held &= ~(1ull << slot);
  r->free |= 1ull << slot;
}

void requests_finish(struct requests *r, u32 slot, enum block_status status) {
  ASSERT((r->held & (1ull << slot)) != 0);
  r->held &= ~(1ull << slot);
  if (r->slot[slot].internal) {
    r->free |= 1ull << slot;
    return;
  }
  r->done |= 1ull << slot;
  r->slot[slot].status = (u8)status;
}

u32 requests_take(struct requests *r, struct block_done *out, u32 max) {
  u32 n = 0;
  while (r->done != 0 && n < max) {
    u32 i = lowest(r->done);
    out[n++] = (struct block_done){r->slot[i].op.token, r->slot[i].status};
    r->done &= ~(1ull << i);
    r->free |= 1ull << i;
  }
  ASSERT((r->free & (r->held | r->done)) == 0);
  return n;
}

u32 requests_late(struct requests *r, u64 now_ns, u32 slot) {
  for (; slot < BLOCK_INFLIGHT_MAX; slot++) {
    struct request *q = &r->slot[slot];
    if ((r->held & (1ull << slot)) == 0) {
      continue;
    }
    if (q->deadline_ns == 0) {
      q->deadline_ns = now_ns + REQUEST_TIMEOUT_NS;
    } else if (now_ns >= q->deadline_ns) {
      return slot;
    }
  }
  return U32_MAX;
}

void requests_finish_all(struct requests *r, enum block_status status) {
  while (r->held != 0) {
    requests_finish(r, lowest(r->held), status);
  }
}
