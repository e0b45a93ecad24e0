// SPDX-License-Identifier: Apache-2.0
#include "dev/virtqueue.h"

#include "arch/cpu.h"

#define DESC_NEXT 1u
#define DESC_WRITE 2u
#define DESC_INDIRECT 4u
#define AVAIL_NO_INTERRUPT 1u
#define USED_NO_NOTIFY 1u
#define AVAIL_FLAGS 0u
#define AVAIL_IDX 1u
#define AVAIL_RING 2u
#define USED_FLAGS 0u
#define USED_IDX 1u
#define DIRECT_MAX 2u  // longer chains go into an indirect table, so that the ring holds more

usize vq_avail_offset(u16 size) {
  return sizeof(struct vq_desc) * size;
}

usize vq_used_offset(u16 size) {
  return ALIGN_UP(vq_avail_offset(size) + 2u * (3u + size), (usize)VQ_PAGE);
}

usize vq_memory_len(u16 size) {
  return vq_used_offset(size) + ALIGN_UP((usize)(2 * 3 + 8 * size), (usize)VQ_PAGE);
}

void vq_init(struct vq *q, u16 size, void *memory, struct vq_desc *indirect, u64 indirect_phys,
             bool event_idx) {
  ASSERT(IS_POWER_OF_TWO(size));
  ASSERT(size <= VQ_SIZE_MAX);
  u8 *p = memory;
  *q = (struct vq){.desc = memory,
                   .avail = (volatile u16 *)(void *)(p + vq_avail_offset(size)),
                   .used16 = (volatile u16 *)(void *)(p + vq_used_offset(size)),
                   .used_ring = (volatile u32 *)(void *)(p + vq_used_offset(size) + 4),
                   .indirect = indirect,
                   .indirect_phys = indirect_phys,
                   .size = size,
                   .free_count = size,
                   .event_idx = event_idx};
  for (u16 i = 0; i < size; i++) {
    q->next[i] = (u16)(i + 1);
  }
}

u16 vq_next_head(const struct vq *q) {
  ASSERT(q->free_count != 0);
  return q->free_head;
}

static u32 descriptors_for(const struct vq *q, u32 parts) {
  return q->indirect != NULL && parts > DIRECT_MAX ? 1 : parts;
}

bool vq_has_room(const struct vq *q, u32 parts) {
  return !q->broken && descriptors_for(q, parts) <= q->free_count;
}

static u16 flags_of(const struct vq_part *p, bool more) {
  return (u16)((p->device_writes ? DESC_WRITE : 0) | (more ? DESC_NEXT : 0));
}

static void fill_indirect(struct vq *q, u16 head, const struct vq_part *parts, u32 count) {
  ASSERT(count <= VQ_PARTS_MAX);
  struct vq_desc *table = q->indirect + (usize)head * VQ_PARTS_MAX;
  for (u32 i = 0; i < count; i++) {
    table[i] = (struct vq_desc){parts[i].phys, parts[i].len, flags_of(&parts[i], i + 1 < count),
                                (u16)(i + 1)};
  }
  volatile struct vq_desc *d = &q->desc[head];
  d->phys = q->indirect_phys + (u64)head * VQ_PARTS_MAX * sizeof(struct vq_desc);
  d->len = count * (u32)sizeof(struct vq_desc);
  d->flags = DESC_INDIRECT;
}

bool vq_add(struct vq *q, const struct vq_part *parts, u32 count, void *token) {
  ASSERT(count != 0);
  ASSERT(count <= VQ_PARTS_MAX);
  if (!vq_has_room(q, count)) {
    return false;
  }
  u16 head = q->free_head;
  u32 need = descriptors_for(q, count);
  ASSERT(head < q->size);
  ASSERT(q->chain[head] == 0);
  u16 at = head;
  for (u32 i = 0; i < need; i++) {
    u16 next = q->next[at];
    if (need == count) {
      q->desc[at].phys = parts[i].phys;
      q->desc[at].len = parts[i].len;
      q->desc[at].flags = flags_of(&parts[i], i + 1 < count);
      q->desc[at].next = next;
    } else {
      fill_indirect(q, head, parts, count);
    }
    at = next;
  }
  q->free_head = at;
  q->free_count = (u16)(q->free_count - need);
  q->chain[head] = (u16)need;
  q->token[head] = token;
  q->avail[AVAIL_RING + (q->avail_idx & (q->size - 1u))] = head;
  q->avail_idx++;
  return true;
}

// Has the index `event` been passed by going from `before` to `now`? (2.7.10.1, 16-bit wrap)
static bool passed(u16 event, u16 now, u16 before) {
  return (u16)(now - event - 1) < (u16)(now - before);
}

bool vq_publish(struct vq *q) {
  if (q->published_idx == q->avail_idx || q->broken) {
    return false;
  }
  cpu_wmb();  // the ring entries before the index that covers them; the device's pair is its rmb
  q->avail[AVAIL_IDX] = q->avail_idx;
  q->published_idx = q->avail_idx;
  cpu_mb();  // the index before the device's wish is read: else both sides wait (2.7.13.4.1)
  bool tell;
  if (q->event_idx) {
    u16 event = q->used16[2 + 4 * q->size];
    tell = passed(event, q->avail_idx, q->kicked_idx);
  } else {
    tell = (q->used16[USED_FLAGS] & USED_NO_NOTIFY) == 0;
  }
  q->kicked_idx = q->avail_idx;
  return tell;
}

u16 vq_pending(const struct vq *q) {
  return q->broken ? 0 : (u16)(q->used16[USED_IDX] - q->used_idx);
}

u16 vq_outstanding(const struct vq *q) {
  return (u16)(q->size - q->free_count);
}

static void release(struct vq *q, u16 head) {
  u16 last = head;
  for (u32 i = 1; i < q->chain[head]; i++) {
    last = q->next[last];
    ASSERT(last < q->size);
  }
  q->next[last] = q->free_head;
  q->free_head = head;
  q->free_count = (u16)(q->free_count + q->chain[head]);
  q->chain[head] = 0;
  ASSERT(q->free_count <= q->size);
}

bool vq_take(struct vq *q, void **token, u32 *len) {
  u16 pending = vq_pending(q);
  if (pending == 0) {
    return false;
  }
  if (pending > q->size) {
    q->broken = true;  // more than can be outstanding: the device has lost its place
    return false;
  }
  cpu_rmb();  // the index before the element; pairs with the device's write barrier
  u32 slot = q->used_idx & (q->size - 1u);
  u32 id = q->used_ring[2 * slot];
  if (id >= q->size || q->chain[id] == 0) {
    q->broken = true;
    return false;
  }
  *len = q->used_ring[2 * slot + 1];
  *token = q->token[id];
  q->token[id] = NULL;
  release(q, (u16)id);
  q->used_idx++;
  return true;
}

bool vq_reclaim(struct vq *q, void **token) {
  ASSERT(q->broken);
  for (u16 head = 0; head < q->size && q->free_count != q->size; head++) {
    if (q->chain[head] != 0) {
      *token = q->token[head];
      q->token[head] = NULL;
      release(q, head);
      return true;
    }
  }
  return false;
}

void vq_interrupts(struct vq *q, bool want) {
  if (q->event_idx) {
    // Behind by half the range: never passed before the next call.
    q->avail[AVAIL_RING + q->size] = want ? q->used_idx : (u16)(q->used_idx - 0x8000u);
  } else {
    q->avail[AVAIL_FLAGS] = (u16)(want ? 0 : AVAIL_NO_INTERRUPT);
  }
  cpu_mb();  // the wish before the caller looks at the used index again
}
