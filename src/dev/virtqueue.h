// SPDX-License-Identifier: Apache-2.0
// A split virtqueue (virtio 1.2, 2.7), driver's side. The memory layout is that of legacy devices
// (2.7.2), which modern ones take as well: descriptors, available ring, and on the next page the
// used ring.
//
// I1  What the device writes is never trusted: an id must be below size and outstanding; anything
//     else marks the queue broken, and a broken queue gives and takes nothing.
// I2  The available index is published only after the entries it covers (write barrier), and the
//     decision to notify is taken only after that is visible (full barrier).
// I3  free_count + descriptors of outstanding chains == size.
#pragma once
#include "base/bytes.h"

#define VQ_SIZE_MAX 4096u  // a legacy device's size is not ours to choose
#define VQ_PARTS_MAX 24u
#define VQ_PAGE 4096u

struct vq_desc {
  u64 phys;
  u32 len;
  u16 flags;
  u16 next;
};
static_assert(sizeof(struct vq_desc) == 16, "virtio 1.2 2.7.5");

struct vq_part {
  u64 phys;
  u32 len;
  bool device_writes;
};

struct vq {
  volatile struct vq_desc *desc;
  volatile u16 *avail;   // flags, idx, ring[size], used_event
  volatile u16 *used16;  // flags, idx; then 8-byte elements; then avail_event
  volatile u32 *used_ring;
  struct vq_desc *indirect;  // size tables of VQ_PARTS_MAX, or NULL
  u64 indirect_phys;
  u16 size;
  u16 free_head;
  u16 free_count;
  u16 avail_idx;      // ours; published by vq_publish
  u16 published_idx;  // what the device was shown
  u16 kicked_idx;     // up to where the device has been told
  u16 used_idx;       // next to take
  bool event_idx;
  bool broken;
  u16 chain[VQ_SIZE_MAX];  // descriptors of the chain that begins here; 0 = not outstanding
  u16 next[VQ_SIZE_MAX];   // of the free list or the chain; ours, as the device could write to desc
  void *token[VQ_SIZE_MAX];
};

usize vq_memory_len(u16 size);
// Offset of the used ring in that memory (the device is told three addresses).
usize vq_used_offset(u16 size);
usize vq_avail_offset(u16 size);
// memory: zeroed, page-aligned, vq_memory_len(size) bytes. size: a power of two <= VQ_SIZE_MAX.
// indirect: size * VQ_PARTS_MAX descriptors at indirect_phys, or NULL (feature not negotiated).
void vq_init(struct vq *q, u16 size, void *memory, struct vq_desc *indirect, u64 indirect_phys,
             bool event_idx);
// Adds a chain; not yet visible. False when there is no room. Parts the device reads come first
// (2.7.4.2). `head` gets the chain's number when not NULL.
bool vq_add(struct vq *q, const struct vq_part *parts, u32 count, void *token);
// The number the next vq_add will use (for memory that belongs to a chain). Only with room.
u16 vq_next_head(const struct vq *q);
bool vq_has_room(const struct vq *q, u32 parts);
// Shows the device what was added. True when it must be notified (2.7.13.4).
bool vq_publish(struct vq *q);
// Takes the next completed chain: its token, and how many bytes the device says it wrote (which
// may be wrong). False when there is none.
bool vq_take(struct vq *q, void **token, u32 *len);
u16 vq_pending(const struct vq *q);  // completed and not taken
// Asks for an interrupt at the next completion (true), or for none. After true the caller must look
// at vq_pending again: what completed in between raised no interrupt (2.7.14).
void vq_interrupts(struct vq *q, bool want);
u16 vq_outstanding(const struct vq *q);
// Takes back the token of a chain that the device will not complete any more. Only on a broken
// queue, after the device's reset (2.4.2). False when none is left.
bool vq_reclaim(struct vq *q, void **token);
