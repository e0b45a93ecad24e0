// SPDX-License-Identifier: Apache-2.0
// A block device: what drivers (dev), platforms (plat) and the store agree on. Devices stack: a
// recorder or a fault injector is a block device over another.
//
// Who may call: the one core that owns the device. Nothing blocks. A batch is submitted, each
// operation completes once, in any order.
//
// B1  What is written is on the medium once a FLUSH has completed that was submitted after the
//     WRITE's (or ZERO's) completion had been taken. A FLUSH covers nothing else: never pipeline
//     it with what it must cover (virtio 1.2 5.2.6.2).
// B2  Memory belongs to the device from submit to completion. It lies in a region of plat_memory.
// B3  BLOCK_LOST says: not known whether it happened. After ERROR or LOST of a WRITE or FLUSH
//     nothing that was not flushed before may be relied on.
// B4  What was discarded reads as anything. What was zeroed reads as zeros if the device tells the
//     truth, which is tried once before it is relied on (store/trial.h).
#pragma once
#include "base/bytes.h"

#define BLOCK_INFLIGHT_MAX 64u         // operations a device may hold
#define BLOCK_TRANSFER_MAX (1u << 20)  // bytes of one READ or WRITE, at most
#define BLOCK_NAME_MAX 32u
#define BLOCK_TEXT_MAX 32u  // of what a device says of itself

enum block_kind { BLOCK_READ, BLOCK_WRITE, BLOCK_FLUSH, BLOCK_DISCARD, BLOCK_ZERO };

enum block_status {
  BLOCK_OK,
  BLOCK_ERROR,    // the device says that it failed; the blocks hold the old, the new, or neither
  BLOCK_REFUSED,  // outside, misaligned, too long, read-only, or a kind that the device has not
  BLOCK_LOST,     // no answer in time: not known
};

struct block_op {
  u8 kind;       // enum block_kind
  u64 at;        // bytes from the start; READ, WRITE, DISCARD, ZERO: a multiple of block_len
  u64 len;       // bytes, > 0, a multiple of block_len; FLUSH: 0
  void *memory;  // READ, WRITE: physically contiguous (any block of a pool or carve is)
  u64 token;     // comes back
};

struct block_done {
  u64 token;
  u8 status;  // enum block_status
};

struct block_info {
  char name[BLOCK_NAME_MAX];
  char model[BLOCK_TEXT_MAX];   // as the device says; "" when it does not
  char serial[BLOCK_TEXT_MAX];  // the same
  u64 len;           // bytes; may grow
  u32 block_len;     // logical block, bytes; a power of two, 512..65536
  u32 physical_len;  // of the medium's own block, as it says; >= block_len
  u32 optimal_len;   // best size and alignment of a transfer; 0 = it does not say
  u32 transfer_max;  // of one READ or WRITE
  u32 inflight_max;  // operations at once
  u64 discard_max;   // bytes of one DISCARD; 0 = the device has none
  u32 discard_align;
  u64 zero_max;  // bytes of one ZERO; 0 = the device has none
  bool read_only;
  bool removable;    // a CD: nothing of ours but a configuration can be on it
  bool flush;        // false: the device promises nothing about power cuts
  bool write_cache;  // a FLUSH does something
  bool dead;         // gives no more answers; operations it held may never complete
  u32 changes;       // counts changes of len, resets and errors of state: look again
};

struct block {
  void (*info)(struct block *b, struct block_info *out);
  // Takes operations from the front; returns how many. The rest is still the caller's.
  u32 (*submit)(struct block *b, const struct block_op *ops, u32 count);
  // Completions, up to max. now_ns: deadlines and changes are looked at with it.
  u32 (*complete)(struct block *b, u64 now_ns, struct block_done *out, u32 max);
};

static inline void block_info(struct block *b, struct block_info *out) {
  b->info(b, out);
}
static inline u32 block_submit(struct block *b, const struct block_op *ops, u32 count) {
  return b->submit(b, ops, count);
}
static inline u32 block_complete(struct block *b, u64 now_ns, struct block_done *out, u32 max) {
  return b->complete(b, now_ns, out, max);
}
// What a device says of itself, for block_info: printable ASCII without spaces at either end; other
// bytes become '?', a zero ends it.
void block_text(char out[BLOCK_TEXT_MAX], struct bytes said);
// May this operation go to a device with these facts?
bool block_op_fits(const struct block_info *i, const struct block_op *op);
