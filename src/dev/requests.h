// SPDX-License-Identifier: Apache-2.0
// The operations that a disk driver holds: slots with a deadline each, and what has completed and
// was not taken yet. Shared by virtio-blk and virtio-scsi.
//
// R1  A slot is in exactly one state; free, held and done masks do not overlap.
// R2  A slot's memory that the device may write to is used again only once the device gave it back,
//     or its reset is done.
#pragma once
#include "base/block.h"

#define REQUEST_TIMEOUT_NS 30000000000ull

struct request {
  struct block_op op;
  u64 deadline_ns;  // 0: not looked at yet
  u8 status;
  u8 tries;
  bool aborting;
  bool internal;  // the driver's own
};

struct requests {
  struct request slot[BLOCK_INFLIGHT_MAX];
  u64 free;  // a bit a slot
  u64 held;  // with the device
  u64 done;
};

void requests_init(struct requests *r, u32 count);
// A free slot for `op`, or U32_MAX. It is held from now on.
u32 requests_put(struct requests *r, const struct block_op *op);
// The slot just put: the device has no room for it.
void requests_unput(struct requests *r, u32 slot);
void requests_finish(struct requests *r, u32 slot, enum block_status status);
// Takes what is done. Returns how many.
u32 requests_take(struct requests *r, struct block_done *out, u32 max);
// A held slot whose deadline is past, from `slot` on; U32_MAX: none. Gives those without deadline
// theirs.
u32 requests_late(struct requests *r, u64 now_ns, u32 slot);
// Every held slot is done with `status`.
void requests_finish_all(struct requests *r, enum block_status status);
