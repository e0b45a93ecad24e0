// SPDX-License-Identifier: Apache-2.0
#include "dev/virtio_blk.h"

#include "arch/cpu.h"

#define F_SIZE_MAX (1ull << 1)
#define F_SEG_MAX (1ull << 2)
#define F_RO (1ull << 5)
#define F_BLK_SIZE (1ull << 6)
#define F_FLUSH (1ull << 9)
#define F_TOPOLOGY (1ull << 10)
#define F_CONFIG_WCE (1ull << 11)
#define F_DISCARD (1ull << 13)
#define F_WRITE_ZEROES (1ull << 14)
#define WANTED                                                                                    \
  (F_SIZE_MAX | F_SEG_MAX | F_RO | F_BLK_SIZE | F_FLUSH | F_TOPOLOGY | F_CONFIG_WCE | F_DISCARD | \
   F_WRITE_ZEROES | VIRTIO_F_INDIRECT | VIRTIO_F_EVENT_IDX | VIRTIO_F_ACCESS_PLATFORM |           \
   VIRTIO_F_ORDER_PLATFORM | VIRTIO_F_RING_RESET)

// Configuration (5.2.4)
#define C_CAPACITY 0u
#define C_SIZE_MAX 8u
#define C_SEG_MAX 12u
#define C_BLK_SIZE 20u
#define C_PHYSICAL_EXP 24u
#define C_OPTIMAL 28u
#define C_WRITEBACK 32u
#define C_DISCARD_SECTORS 36u
#define C_DISCARD_SEGMENTS 40u
#define C_DISCARD_ALIGN 44u
#define C_ZERO_SECTORS 48u
#define C_ZERO_SEGMENTS 52u
#define CONFIG_TRIES 16u

#define T_IN 0u
#define T_OUT 1u
#define T_FLUSH 4u
#define T_GET_ID 8u
#define T_DISCARD 11u
#define T_WRITE_ZEROES 13u
#define S_OK 0u
#define S_IOERR 1u
#define S_UNSUPPORTED 2u
#define S_UNWRITTEN 0xffu

#define SECTOR 512u
#define QUEUE 0u
#define QUEUE_MAX 256u
#define SLOT 64u  // bytes: header at 0, segment at 16, status at 32; none crosses a page
#define SLOT_SEGMENT 16u
#define SLOT_STATUS 32u
#define SLOT_ID 40u
#define ID_LEN 20u
#define ID_NS 2000000000ull
#define HEADER_LEN 16u
#define DATA_PARTS_MAX 16u
#define LOOK_NS 1000000000ull

bool virtio_blk_is(const struct pci_dev *d) {
  return d->vendor == VIRTIO_VENDOR && (d->device == 0x1001 || d->device == 0x1042);
}

// --- What the device is

// False: it does not stand still.
static bool read_capacity(const struct virtio *v, u64 *len) {
  for (u32 tries = 0; tries < CONFIG_TRIES; tries++) {  // two halves that belong together (2.5.1)
    u8 before = virtio_config_generation(v);
    u32 low = virtio_config32(v, C_CAPACITY);
    u32 high = virtio_config32(v, C_CAPACITY + 4);
    bool same =
        v->legacy ? virtio_config32(v, C_CAPACITY) == low : virtio_config_generation(v) == before;
    if (same) {
      *len = MIN((u64)high << 32 | low, U64_MAX / SECTOR) * SECTOR;
      return true;
    }
  }
  return false;
}

static bool read_blocks(struct virtio_blk *b) {
  const struct virtio *v = &b->virtio;
  struct block_info *i = &b->facts;
  i->block_len = SECTOR;
  if ((v->features & F_BLK_SIZE) != 0) {
    u32 len = virtio_config32(v, C_BLK_SIZE);
    i->block_len = IS_POWER_OF_TWO(len) && len >= SECTOR && len <= 65536 ? len : SECTOR;
  }
  i->physical_len = i->block_len;
  if ((v->features & F_TOPOLOGY) != 0) {
    u8 exponent = virtio_config8(v, C_PHYSICAL_EXP);
    u64 optimal = (u64)virtio_config32(v, C_OPTIMAL) * i->block_len;
    i->physical_len = i->block_len << MIN(exponent, (u8)8);
    i->optimal_len = optimal <= 1u << 30 ? (u32)optimal : 0;
  }
  u64 len = 0;
  bool good = read_capacity(v, &len);
  i->len = ALIGN_DOWN(len, (u64)i->block_len);
  return good;
}

// A chain is a header, the data and a status; without indirect tables it lies in the ring whole.
static bool read_segments(struct virtio_blk *b) {
  const struct virtio *v = &b->virtio;
  u32 segments = 1;
  u32 size = BLOCK_TRANSFER_MAX;
  if ((v->features & F_SEG_MAX) != 0) {
    segments = MAX(virtio_config32(v, C_SEG_MAX), 1u);
  }
  if ((v->features & F_SIZE_MAX) != 0) {
    u32 max = virtio_config32(v, C_SIZE_MAX);
    size = max >= SECTOR ? MIN(max, size) : size;  // less than a sector means nothing
  }
  if (b->q.size < 3) {
    return false;
  }
  segments = MIN(MIN(segments, DATA_PARTS_MAX), b->q.size - 2u);
  b->segment_max = size;
  b->segments_max = segments;
  u64 all = MIN((u64)size * segments, (u64)BLOCK_TRANSFER_MAX);
  b->facts.transfer_max = (u32)ALIGN_DOWN(all, (u64)b->facts.block_len);
  return b->facts.transfer_max != 0;
}

// Bytes of one discard or write-zeroes operation, 0 = none. One segment an operation.
static u64 range_max(const struct virtio *v, u32 sectors_at, u32 segments_at, u32 block_len) {
  u64 sectors = virtio_config32(v, sectors_at);
  return virtio_config32(v, segments_at) == 0 ? 0 : ALIGN_DOWN(sectors * SECTOR, (u64)block_len);
}

static bool read_facts(struct virtio_blk *b) {
  const struct virtio *v = &b->virtio;
  struct block_info *i = &b->facts;
  u64 f = v->features;
  if (!read_blocks(b)) {
    return false;
  }
  i->read_only = (f & F_RO) != 0;
  i->flush = (f & F_FLUSH) != 0;
  i->write_cache = i->flush && ((f & F_CONFIG_WCE) == 0 || virtio_config8(v, C_WRITEBACK) != 0);
  i->discard_max = 0;
  i->zero_max = 0;
  if ((f & F_DISCARD) != 0) {
    i->discard_max = range_max(v, C_DISCARD_SECTORS, C_DISCARD_SEGMENTS, i->block_len);
    u64 align = (u64)virtio_config32(v, C_DISCARD_ALIGN) * SECTOR;
    i->discard_align = align != 0 && align <= 1u << 30 ? (u32)align : i->block_len;
  }
  if ((f & F_WRITE_ZEROES) != 0) {
    i->zero_max = range_max(v, C_ZERO_SECTORS, C_ZERO_SEGMENTS, i->block_len);
  }
  return read_segments(b);
}

// --- Requests

static u32 slot_of(const struct virtio_blk *b, const void *token) {
  usize off = (usize)((const u8 *)token - b->memory);
  ASSERT(off % SLOT == 0);
  ASSERT(off / SLOT < BLOCK_INFLIGHT_MAX);
  return (u32)(off / SLOT);
}

static void fill_slot(u8 *at, const struct block_op *op) {
  static const u32 types[] = {[BLOCK_READ] = T_IN,
                              [BLOCK_WRITE] = T_OUT,
                              [BLOCK_FLUSH] = T_FLUSH,
                              [BLOCK_DISCARD] = T_DISCARD,
                              [BLOCK_ZERO] = T_WRITE_ZEROES};
  bool range = op->kind == BLOCK_DISCARD || op->kind == BLOCK_ZERO;
  bool data = op->kind == BLOCK_READ || op->kind == BLOCK_WRITE;
  memset(at, 0, SLOT);
  store_le32(at, types[op->kind]);
  store_le64(at + 8, data ? op->at / SECTOR : 0);
  if (range) {
    store_le64(at + SLOT_SEGMENT, op->at / SECTOR);
    store_le32(at + SLOT_SEGMENT + 8, (u32)(op->len / SECTOR));
  }
  at[SLOT_STATUS] = S_UNWRITTEN;
}

// False: no room in the ring now.
static bool give(struct virtio_blk *b, u32 slot) {
  const struct block_op *op = &b->requests.slot[slot].op;
  u8 *at = b->memory + (usize)slot * SLOT;
  u64 at_phys = b->memory_phys + (u64)slot * SLOT;
  struct vq_part parts[DATA_PARTS_MAX + 2];
  u32 n = 0;
  parts[n++] = (struct vq_part){at_phys, HEADER_LEN, false};
  if (op->kind == BLOCK_READ || op->kind == BLOCK_WRITE) {
    u64 phys = dma_touched(b->virtio.ops, op->memory, op->len);
    for (u64 done = 0; done < op->len; done += b->segment_max) {
      ASSERT(n <= b->segments_max);
      u32 len = (u32)MIN(op->len - done, (u64)b->segment_max);
      parts[n++] = (struct vq_part){phys + done, len, op->kind == BLOCK_READ};
    }
  } else if (op->kind != BLOCK_FLUSH) {
    parts[n++] = (struct vq_part){at_phys + SLOT_SEGMENT, 16, false};
  }
  parts[n++] = (struct vq_part){at_phys + SLOT_STATUS, 1, true};
  if (!vq_has_room(&b->q, n)) {
    return false;
  }
  fill_slot(at, op);
  return vq_add(&b->q, parts, n, at);
}

static u32 submit(struct block *block, const struct block_op *ops, u32 count) {
  struct virtio_blk *b = (struct virtio_blk *)(void *)block;
  u32 n = 0;
  for (; n < count && !b->facts.dead; n++) {
    const struct block_op *op = &ops[n];
    u32 slot = requests_put(&b->requests, op);
    if (slot == U32_MAX) {
      break;
    }
    if (!block_op_fits(&b->facts, op)) {
      requests_finish(&b->requests, slot, BLOCK_REFUSED);
    } else if (op->kind == BLOCK_FLUSH && !b->facts.flush) {
      requests_finish(&b->requests, slot, BLOCK_OK);  // all that this device has; info says so
    } else if (!give(b, slot)) {
      requests_unput(&b->requests, slot);
      break;
    }
  }
  if (vq_publish(&b->q)) {
    virtio_notify(&b->virtio, QUEUE);
  }
  return n;
}

static enum block_status status_of(u8 said) {
  return said == S_OK ? BLOCK_OK : said == S_UNSUPPORTED ? BLOCK_REFUSED : BLOCK_ERROR;
}

// The device is reset and starts again; what it held is lost.
static void start_again(struct virtio_blk *b) {
  b->facts.changes++;
  b->resets++;
  if (!virtio_stop(&b->virtio)) {
    b->facts.dead = true;
    return;
  }
  requests_finish_all(&b->requests, BLOCK_LOST);
  if (virtio_restart(&b->virtio) != ERR_OK ||
      virtio_queue_again(&b->virtio, QUEUE, &b->q) != ERR_OK || !read_facts(b)) {
    virtio_fail(&b->virtio);
    b->facts.dead = true;
    return;
  }
  virtio_start(&b->virtio);
  vq_interrupts(&b->q, false);
}

static void look(struct virtio_blk *b, u64 now_ns) {
  if (now_ns - b->looked_ns < LOOK_NS) {
    return;
  }
  b->looked_ns = now_ns;
  u64 len = 0;
  if (!read_capacity(&b->virtio, &len)) {
    return;
  }
  len = ALIGN_DOWN(len, (u64)b->facts.block_len);
  if (len != b->facts.len) {
    b->facts.len = len;
    b->facts.changes++;
  }
}

static u32 complete(struct block *block, u64 now_ns, struct block_done *out, u32 max) {
  struct virtio_blk *b = (struct virtio_blk *)(void *)block;
  void *token = NULL;
  u32 unused = 0;
  while (!b->facts.dead && vq_take(&b->q, &token, &unused)) {
    u32 slot = slot_of(b, token);
    requests_finish(&b->requests, slot, status_of(b->memory[(usize)slot * SLOT + SLOT_STATUS]));
  }
  if (!b->facts.dead) {
    if (b->q.broken || requests_late(&b->requests, now_ns, 0) != U32_MAX) {
      start_again(b);
    }
    look(b, now_ns);
  }
  return requests_take(&b->requests, out, max);
}

static void info(struct block *block, struct block_info *out) {
  *out = ((struct virtio_blk *)(void *)block)->facts;
}

// virtio 1.2 5.2.6: twenty bytes, shorter ones end with a zero. The first slot's memory is used; no
// slot is held.
void virtio_blk_identify(struct virtio_blk *b) {
  ASSERT(b->requests.held == 0);
  ASSERT(vq_outstanding(&b->q) == 0);
  u8 *at = b->memory;
  memset(at, 0, SLOT);
  store_le32(at, T_GET_ID);
  at[SLOT_STATUS] = S_UNWRITTEN;
  struct vq_part parts[3] = {{b->memory_phys, HEADER_LEN, false},
                             {b->memory_phys + SLOT_ID, ID_LEN, true},
                             {b->memory_phys + SLOT_STATUS, 1, true}};
  if (!vq_add(&b->q, parts, ARRAY_COUNT(parts), at)) {
    return;
  }
  if (vq_publish(&b->q)) {
    virtio_notify(&b->virtio, QUEUE);
  }
  void *token = NULL;
  u32 unused = 0;
  u64 until = b->virtio.ops->now_ns() + ID_NS;
  while (!vq_take(&b->q, &token, &unused)) {
    if (b->q.broken || b->virtio.ops->now_ns() > until) {
      start_again(b);
      return;
    }
    cpu_relax();
  }
  if (at[SLOT_STATUS] == S_OK) {
    block_text(b->facts.serial, bytes_of(at + SLOT_ID, ID_LEN));
  }
}

bool virtio_blk_arm(struct virtio_blk *b, bool want) {
  if (b->facts.dead) {
    return b->requests.done != 0;
  }
  vq_interrupts(&b->q, want && vq_outstanding(&b->q) != 0);
  return b->requests.done != 0 || vq_pending(&b->q) != 0;
}

enum err virtio_blk_open(struct virtio_blk *b, const struct pci_dev *d, const struct dma_ops *ops,
                         const char *name, u64 msi_address, u32 msi_data) {
  ASSERT(virtio_blk_is(d));
  u64 offered = 0;
  *b = (struct virtio_blk){.block = {info, submit, complete}};
  memcpy(b->facts.name, name, MIN(strlen(name), sizeof b->facts.name - 1));
  TRY(virtio_open(&b->virtio, d, ops, &offered));
  u64 features = offered & WANTED & (b->virtio.legacy ? U32_MAX : U64_MAX);
  TRY(virtio_accept(&b->virtio, features, msi_address, msi_data));
  enum err e = virtio_queue(&b->virtio, QUEUE, QUEUE_MAX, true, &b->q);
  if (e == ERR_OK && !read_facts(b)) {
    e = ERR_UNSUPPORTED;
  }
  struct span slots = e == ERR_OK ? ops->alloc(BLOCK_INFLIGHT_MAX * SLOT) : span_of(NULL, 0);
  if (e == ERR_OK && slots.len == 0) {
    e = ERR_NO_MEMORY;
  }
  if (e != ERR_OK) {
    virtio_fail(&b->virtio);
    return e;
  }
  b->memory = slots.ptr;
  b->memory_phys = ops->phys_of(slots.ptr);
  b->facts.inflight_max = BLOCK_INFLIGHT_MAX;
  requests_init(&b->requests, BLOCK_INFLIGHT_MAX);
  virtio_start(&b->virtio);
  vq_interrupts(&b->q, false);
  return ERR_OK;
}
