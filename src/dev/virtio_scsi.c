// SPDX-License-Identifier: Apache-2.0
#include "dev/virtio_scsi.h"

#include "arch/cpu.h"

#define F_CHANGE (1ull << 2)
#define WANTED                                                                    \
  (F_CHANGE | VIRTIO_F_INDIRECT | VIRTIO_F_EVENT_IDX | VIRTIO_F_ACCESS_PLATFORM | \
   VIRTIO_F_ORDER_PLATFORM | VIRTIO_F_RING_RESET)

// Configuration (5.6.4)
#define C_MAX_SECTORS 8u
#define C_EVENT_LEN 16u
#define C_SENSE_LEN 20u
#define C_CDB_LEN 24u
#define C_MAX_TARGET 30u
#define SENSE_LEN 96u
#define CDB_LEN 32u
#define TARGETS_MAX 64u  // looked at while starting

#define CONTROL_QUEUE 0u
#define EVENT_QUEUE 1u
#define REQUEST_QUEUE 2u
#define QUEUE_MAX 256u

// A slot: command at 0, answer (response and sense) at 64, UNMAP list or capacity at 192.
#define SLOT 256u
#define COMMAND_LEN (19u + CDB_LEN)
#define SLOT_ANSWER 64u
#define ANSWER_LEN (12u + SENSE_LEN)
#define SLOT_EXTRA 192u
#define CAPACITY_LEN 32u
#define SLOTS_LEN (VIRTIO_SCSI_LUNS * BLOCK_INFLIGHT_MAX * SLOT)
#define EVENTS_AT SLOTS_LEN
#define EVENT_STRIDE 64u
#define TMF_AT (EVENTS_AT + VIRTIO_SCSI_EVENTS * EVENT_STRIDE)
#define PROBE_AT (TMF_AT + 64u)         // a slot, while starting
#define PROBE_ANSWER (PROBE_AT + SLOT)  // SCSI_ANSWER_MAX bytes
#define ZEROS_AT ALIGN_UP(PROBE_ANSWER + 256u, 4096u)
#define ZEROS_LEN 65536u
#define MEMORY_LEN (ZEROS_AT + ZEROS_LEN)

#define R_OK 0u
#define R_ABORTED 2u
#define R_RESET 4u
#define R_BUSY 5u
#define R_UNWRITTEN 0xffu

#define TMF_ABORT_TASK 0u
#define TMF_LUN_RESET 5u
#define EVENT_MISSED 0x80000000u
#define EVENT_PARAM_CHANGE 3u

#define KIND_CAPACITY 200u  // an internal slot's
#define TRIES_MAX 8u        // unit attentions in a row
#define ABORT_NS 5000000000ull
#define PROBE_NS 5000000000ull

bool virtio_scsi_is(const struct pci_dev *d) {
  return d->vendor == VIRTIO_VENDOR && (d->device == 0x1004 || d->device == 0x1048);
}

void virtio_scsi_address(u8 address[8], u32 target, u32 lun) {
  ASSERT(target < 256);
  ASSERT(lun < 16384);
  const u8 made[8] = {1, (u8)target, (u8)(0x40 | lun >> 8), (u8)lun};
  memcpy(address, made, 8);
}

// --- Commands to the adapter

static void fill_command(struct virtio_scsi *h, u8 *at, const u8 address[8],
                         const u8 cdb[SCSI_CDB_LEN], u64 tag) {
  (void)h;
  memset(at, 0, SLOT_EXTRA);
  memcpy(at, address, 8);
  store_le64(at + 8, tag);
  memcpy(at + 19, cdb, SCSI_CDB_LEN);
  memset(at + SLOT_ANSWER, R_UNWRITTEN, ANSWER_LEN);
}

static bool queue_command(struct virtio_scsi *h, u32 off, u64 data_phys, u32 data_len,
                          bool to_device) {
  u64 phys = h->memory_phys + off;
  struct vq_part parts[3];
  u32 n = 0;
  parts[n++] = (struct vq_part){phys, COMMAND_LEN, false};
  if (data_len != 0 && to_device) {
    parts[n++] = (struct vq_part){data_phys, data_len, false};
  }
  parts[n++] = (struct vq_part){phys + SLOT_ANSWER, ANSWER_LEN, true};
  if (data_len != 0 && !to_device) {
    parts[n++] = (struct vq_part){data_phys, data_len, true};
  }
  return vq_add(&h->request, parts, n, h->memory + off);
}

static u32 slot_off(const struct virtio_scsi_lun *l, u32 slot) {
  return (l->idx * BLOCK_INFLIGHT_MAX + slot) * SLOT;
}

// Gives a held slot to the adapter. False: no room now.
static bool give(struct virtio_scsi_lun *l, u32 slot) {
  struct virtio_scsi *h = l->host;
  const struct block_op *op = &l->requests.slot[slot].op;
  u32 off = slot_off(l, slot);
  u8 *at = h->memory + off;
  u64 extra = h->memory_phys + off + SLOT_EXTRA;
  u8 cdb[SCSI_CDB_LEN];
  u64 block = op->at / l->scsi.block_len;
  u32 blocks = (u32)(op->len / l->scsi.block_len);
  u64 phys = 0;
  u32 len = 0;
  bool out = op->kind != BLOCK_READ && op->kind != KIND_CAPACITY;
  if (!vq_has_room(&h->request, 3)) {
    return false;
  }
  switch (op->kind) {
  case BLOCK_READ:
  case BLOCK_WRITE:
    scsi_transfer(cdb, out, l->scsi.type == SCSI_TYPE_DISK, block, blocks);
    phys = dma_touched(h->virtio.ops, op->memory, op->len);
    len = (u32)op->len;
    break;
  case BLOCK_FLUSH: scsi_flush(cdb); break;
  case BLOCK_DISCARD:
    scsi_unmap(cdb, at + SLOT_EXTRA, block, blocks);
    phys = extra;
    len = SCSI_UNMAP_LEN;
    break;
  case BLOCK_ZERO:
    scsi_write_same(cdb, block, blocks);
    phys = h->memory_phys + ZEROS_AT;
    len = l->scsi.block_len;
    break;
  default:
    ASSERT(op->kind == KIND_CAPACITY);
    if (l->scsi.type == SCSI_TYPE_DISK) {
      scsi_capacity16(cdb, CAPACITY_LEN);
    } else {
      scsi_capacity10(cdb);
    }
    phys = extra;
    len = l->scsi.type == SCSI_TYPE_DISK ? CAPACITY_LEN : 8;
    break;
  }
  l->tag[slot] = h->next_tag++;
  fill_command(h, at, l->address, cdb, l->tag[slot]);
  l->again &= ~(1ull << slot);
  return queue_command(h, off, phys, len, out);
}

static void show(struct virtio_scsi *h) {
  if (vq_publish(&h->request)) {
    virtio_notify(&h->virtio, REQUEST_QUEUE);
  }
}

static u32 submit(struct block *block, const struct block_op *ops, u32 count) {
  struct virtio_scsi_lun *l = (struct virtio_scsi_lun *)(void *)block;
  u32 n = 0;
  for (; n < count && !l->host->dead; n++) {
    const struct block_op *op = &ops[n];
    // One slot is kept for the driver's own question.
    if (__builtin_popcountll(l->requests.free) <= 1) {
      break;
    }
    u32 slot = requests_put(&l->requests, op);
    ASSERT(slot != U32_MAX);
    if (!block_op_fits(&l->facts, op)) {
      requests_finish(&l->requests, slot, BLOCK_REFUSED);
    } else if (op->kind == BLOCK_FLUSH && !l->facts.flush) {
      requests_finish(&l->requests, slot, BLOCK_OK);
    } else if (!give(l, slot)) {
      requests_unput(&l->requests, slot);
      break;
    }
  }
  show(l->host);
  return n;
}

// --- Completions

// Does this answer end the command? False: it is given again.
static bool judge(struct virtio_scsi_lun *l, u32 slot, enum block_status *status) {
  struct request *r = &l->requests.slot[slot];
  const u8 *a = l->host->memory + slot_off(l, slot) + SLOT_ANSWER;
  u8 response = a[11];
  u8 said = a[10];
  *status = BLOCK_ERROR;
  if (r->aborting || response == R_ABORTED || response == R_RESET) {
    // Only one that had gone well before the abort reached it is not lost.
    bool well = response == R_OK && said == SCSI_STATUS_GOOD && load_le32(a + 4) == 0;
    *status = well ? BLOCK_OK : BLOCK_LOST;
    return true;
  }
  if (response == R_BUSY ||
      (response == R_OK && (said == SCSI_STATUS_BUSY || said == SCSI_STATUS_FULL))) {
    return false;  // its deadline bounds this
  }
  if (response != R_OK) {
    return true;
  }
  if (said == SCSI_STATUS_GOOD) {
    bool data = r->op.kind == BLOCK_READ || r->op.kind == BLOCK_WRITE;
    *status = data && load_le32(a + 4) != 0 ? BLOCK_ERROR : BLOCK_OK;
    return true;
  }
  enum scsi_sense sense = SENSE_ERROR;
  if (said == SCSI_STATUS_CHECK) {
    sense = scsi_take_sense(bytes_of(a + 12, MIN(load_le32(a), SENSE_LEN)));
  }
  if (sense == SENSE_ATTENTION) {
    l->reread = l->reread || r->op.kind != KIND_CAPACITY;
    return r->tries++ >= TRIES_MAX;
  }
  *status = sense == SENSE_NONE ? BLOCK_OK : sense == SENSE_REFUSED ? BLOCK_REFUSED : BLOCK_ERROR;
  return true;
}

static void take_capacity(struct virtio_scsi_lun *l, u32 slot) {
  struct scsi_facts f = l->scsi;
  const u8 *a = l->host->memory + slot_off(l, slot) + SLOT_EXTRA;
  bool good = f.type == SCSI_TYPE_DISK ? scsi_take_capacity16(bytes_of(a, CAPACITY_LEN), &f)
                                       : scsi_take_capacity10(bytes_of(a, 8), &f);
  l->facts.changes++;  // an attention may also mean a reset, with a lost cache
  if (good && f.block_len == l->scsi.block_len) {
    l->scsi = f;
    virtio_scsi_facts(l);
  }
}

static void finish(struct virtio_scsi *h, u32 off) {
  struct virtio_scsi_lun *l = &h->lun[off / SLOT / BLOCK_INFLIGHT_MAX];
  u32 slot = off / SLOT % BLOCK_INFLIGHT_MAX;
  enum block_status status = BLOCK_ERROR;
  if (!judge(l, slot, &status)) {
    l->again |= 1ull << slot;
    return;
  }
  if (l->requests.slot[slot].op.kind == KIND_CAPACITY) {
    l->reading = false;
    if (status == BLOCK_OK) {
      take_capacity(l, slot);
    }
  }
  requests_finish(&l->requests, slot, status);
}

static void take_events(struct virtio_scsi *h) {
  void *token = NULL;
  u32 unused = 0;
  bool any = false;
  while (vq_take(&h->event, &token, &unused)) {
    u32 what = load_le32(token);
    for (u32 i = 0; i < h->lun_count; i++) {  // which one it names does not matter: reads are cheap
      h->lun[i].reread = h->lun[i].reread || (what & EVENT_MISSED) != 0 ||
                         (what & ~EVENT_MISSED) == EVENT_PARAM_CHANGE;
    }
    struct vq_part part = {h->virtio.ops->phys_of(token), EVENT_STRIDE, true};
    memset(token, 0, EVENT_STRIDE);
    (void)vq_add(&h->event, &part, 1, token);
    any = true;
  }
  if (any && vq_publish(&h->event)) {
    virtio_notify(&h->virtio, EVENT_QUEUE);
  }
}

static void stock_events(struct virtio_scsi *h) {
  for (u32 i = 0; i < VIRTIO_SCSI_EVENTS; i++) {
    u32 off = EVENTS_AT + i * EVENT_STRIDE;
    struct vq_part part = {h->memory_phys + off, EVENT_STRIDE, true};
    (void)vq_add(&h->event, &part, 1, h->memory + off);
  }
}

// --- Deadlines

static bool send_tmf(struct virtio_scsi_lun *l, u32 kind, u64 tag) {
  struct virtio_scsi *h = l->host;
  u8 *at = h->memory + TMF_AT;
  u64 phys = h->memory_phys + TMF_AT;
  struct vq_part parts[2] = {{phys, 24, false}, {phys + 32, 1, true}};
  if (h->tmf_busy || !vq_has_room(&h->control, 2)) {
    return false;
  }
  memset(at, 0, 64);
  store_le32(at + 4, kind);
  memcpy(at + 8, l->address, 8);
  store_le64(at + 16, tag);
  h->tmf_busy = vq_add(&h->control, parts, 2, at);
  h->aborts++;
  if (vq_publish(&h->control)) {
    virtio_notify(&h->virtio, CONTROL_QUEUE);
  }
  return true;
}

static enum err make_queues_again(struct virtio_scsi *h) {
  TRY(virtio_restart(&h->virtio));
  TRY(virtio_queue_again(&h->virtio, CONTROL_QUEUE, &h->control));
  TRY(virtio_queue_again(&h->virtio, EVENT_QUEUE, &h->event));
  return virtio_queue_again(&h->virtio, REQUEST_QUEUE, &h->request);
}

static void die(struct virtio_scsi *h) {
  h->dead = true;
  for (u32 i = 0; i < h->lun_count; i++) {
    h->lun[i].facts.dead = true;
    h->lun[i].facts.changes++;
  }
}

static void start(struct virtio_scsi *h) {
  stock_events(h);
  virtio_start(&h->virtio);
  vq_interrupts(&h->control, false);
  vq_interrupts(&h->event, false);
  vq_interrupts(&h->request, false);
  if (vq_publish(&h->event)) {
    virtio_notify(&h->virtio, EVENT_QUEUE);
  }
}

static void start_again(struct virtio_scsi *h) {
  h->resets++;
  if (!virtio_stop(&h->virtio)) {
    die(h);
    return;
  }
  for (u32 i = 0; i < h->lun_count; i++) {
    struct virtio_scsi_lun *l = &h->lun[i];
    requests_finish_all(&l->requests, BLOCK_LOST);
    l->again = 0;
    l->reading = false;
    l->reread = true;
    l->facts.changes++;
  }
  h->tmf_busy = false;
  if (make_queues_again(h) != ERR_OK) {
    virtio_fail(&h->virtio);
    die(h);
    return;
  }
  start(h);
}

// Each step of I3 has its own time. True: the adapter is to be reset.
static bool deadlines(struct virtio_scsi_lun *l, u64 now_ns) {
  u32 slot = requests_late(&l->requests, now_ns, 0);
  for (; slot != U32_MAX; slot = requests_late(&l->requests, now_ns, slot + 1)) {
    struct request *r = &l->requests.slot[slot];
    if ((l->again & (1ull << slot)) != 0) {  // the adapter does not hold it
      l->again &= ~(1ull << slot);
      l->reading = l->reading && r->op.kind != KIND_CAPACITY;
      requests_finish(&l->requests, slot, BLOCK_ERROR);
      continue;
    }
    if (r->aborting && r->tries > 1) {
      return true;
    }
    u32 kind = r->aborting ? TMF_LUN_RESET : TMF_ABORT_TASK;
    bool sent = send_tmf(l, kind, kind == TMF_ABORT_TASK ? l->tag[slot] : 0);
    r->tries = r->aborting && sent ? 2 : r->aborting ? r->tries : 0;
    if (!sent && r->aborting) {
      return true;  // the control queue answers no more either
    }
    r->aborting = true;
    r->deadline_ns = now_ns + ABORT_NS;
  }
  return false;
}

static void ask_capacity(struct virtio_scsi_lun *l) {
  if (!l->reread || l->reading || l->requests.free == 0) {
    return;
  }
  struct block_op op = {.kind = KIND_CAPACITY};
  u32 slot = requests_put(&l->requests, &op);
  l->requests.slot[slot].internal = true;
  l->again |= 1ull << slot;
  l->reread = false;
  l->reading = true;
}

static void give_again(struct virtio_scsi_lun *l) {
  for (u64 left = l->again; left != 0; left &= left - 1) {
    if (!give(l, (u32)__builtin_ctzll(left))) {
      return;
    }
  }
}

static void turn(struct virtio_scsi *h, u64 now_ns) {
  void *token = NULL;
  u32 unused = 0;
  while (vq_take(&h->request, &token, &unused)) {
    finish(h, (u32)((u8 *)token - h->memory));
  }
  while (vq_take(&h->control, &token, &unused)) {
    h->tmf_busy = false;
  }
  take_events(h);
  bool bad = h->request.broken || h->control.broken || h->event.broken;
  for (u32 i = 0; i < h->lun_count && !bad; i++) {
    bad = deadlines(&h->lun[i], now_ns);
    ask_capacity(&h->lun[i]);
    give_again(&h->lun[i]);
  }
  if (bad) {
    start_again(h);
  }
  if (!h->dead) {
    show(h);
  }
}

static u32 complete(struct block *block, u64 now_ns, struct block_done *out, u32 max) {
  struct virtio_scsi_lun *l = (struct virtio_scsi_lun *)(void *)block;
  if (!l->host->dead) {
    turn(l->host, now_ns);
  }
  return requests_take(&l->requests, out, max);
}

static void info(struct block *block, struct block_info *out) {
  *out = ((struct virtio_scsi_lun *)(void *)block)->facts;
}

bool virtio_scsi_arm(struct virtio_scsi *h, bool want) {
  bool work = false;
  for (u32 i = 0; i < h->lun_count; i++) {
    work = work || h->lun[i].requests.done != 0;
  }
  if (h->dead) {
    return work;
  }
  vq_interrupts(&h->request, want);
  vq_interrupts(&h->control, want);
  vq_interrupts(&h->event, want);
  return work || vq_pending(&h->request) != 0 || vq_pending(&h->control) != 0 ||
         vq_pending(&h->event) != 0;
}

// --- Start

void virtio_scsi_attach(struct virtio_scsi_lun *l) {
  l->block = (struct block){info, submit, complete};
  requests_init(&l->requests, BLOCK_INFLIGHT_MAX);
}

void virtio_scsi_facts(struct virtio_scsi_lun *l) {
  const struct scsi_facts *s = &l->scsi;
  struct block_info *i = &l->facts;
  bool disk = s->type == SCSI_TYPE_DISK;
  u64 transfer = MIN((u64)l->host->sectors_max * 512, (u64)BLOCK_TRANSFER_MAX);
  transfer = s->transfer_max != 0 ? MIN(transfer, s->transfer_max * s->block_len) : transfer;
  i->len = (disk ? s->blocks : MIN(s->blocks, (u64)U32_MAX)) * s->block_len;
  i->block_len = s->block_len;
  i->physical_len = s->physical_len;
  i->optimal_len = (u32)MIN(s->optimal * s->block_len, 1ull << 30);
  i->transfer_max = (u32)MAX(ALIGN_DOWN(transfer, (u64)s->block_len), (u64)s->block_len);
  i->inflight_max = BLOCK_INFLIGHT_MAX - 1;
  i->discard_max = MIN(s->unmap_max, (u64)U32_MAX) * s->block_len;
  i->discard_align = (u32)MIN(s->unmap_align * s->block_len, 1ull << 30);
  i->zero_max = MIN(s->same_max, (u64)U32_MAX) * s->block_len;
  i->read_only = s->read_only;
  i->removable = s->removable || !disk;
  i->write_cache = s->write_cache && i->flush;
}

enum err virtio_scsi_command(struct virtio_scsi *h, const u8 address[8], const u8 cdb[SCSI_CDB_LEN],
                             u32 answer_len, struct bytes *answer, bool *attention) {
  u8 *at = h->memory + PROBE_AT;
  void *token = NULL;
  u32 unused = 0;
  ASSERT(answer_len <= SCSI_ANSWER_MAX);
  fill_command(h, at, address, cdb, h->next_tag++);
  memset(h->memory + PROBE_ANSWER, 0, SCSI_ANSWER_MAX);
  if (!queue_command(h, PROBE_AT, h->memory_phys + PROBE_ANSWER, answer_len, false)) {
    return ERR_IO;
  }
  show(h);
  u64 until = h->virtio.ops->now_ns() + PROBE_NS;
  while (!vq_take(&h->request, &token, &unused)) {
    if (h->request.broken || h->virtio.ops->now_ns() > until) {
      return ERR_TIMEOUT;  // the adapter is given up: it may still write there
    }
    cpu_relax();
  }
  const u8 *a = at + SLOT_ANSWER;
  *attention = false;
  if (a[11] == R_OK && a[10] == SCSI_STATUS_CHECK) {
    *attention = scsi_take_sense(bytes_of(a + 12, MIN(load_le32(a), SENSE_LEN))) == SENSE_ATTENTION;
  }
  u32 residual = MIN(load_le32(a + 4), answer_len);
  *answer = bytes_of(h->memory + PROBE_ANSWER, answer_len - residual);
  return a[11] == R_OK && a[10] == SCSI_STATUS_GOOD ? ERR_OK : ERR_IO;
}

enum err virtio_scsi_open(struct virtio_scsi *h, const struct pci_dev *d, const struct dma_ops *ops,
                          const char *name, u64 msi_address, u32 msi_data) {
  ASSERT(virtio_scsi_is(d));
  u64 offered = 0;
  *h = (struct virtio_scsi){.next_tag = 1};
  TRY(virtio_open(&h->virtio, d, ops, &offered));
  u64 features = offered & WANTED & (h->virtio.legacy ? U32_MAX : U64_MAX);
  TRY(virtio_accept(&h->virtio, features, msi_address, msi_data));
  enum err e = virtio_queue(&h->virtio, CONTROL_QUEUE, QUEUE_MAX, false, &h->control);
  e = e != ERR_OK ? e : virtio_queue(&h->virtio, EVENT_QUEUE, QUEUE_MAX, false, &h->event);
  e = e != ERR_OK ? e : virtio_queue(&h->virtio, REQUEST_QUEUE, QUEUE_MAX, true, &h->request);
  struct span memory = e == ERR_OK ? ops->alloc(MEMORY_LEN) : span_of(NULL, 0);
  if (e == ERR_OK && memory.len == 0) {
    e = ERR_NO_MEMORY;
  }
  // Another size than what this driver lays out, or rings too short for one command.
  if (e == ERR_OK && (h->request.size < 3 || h->control.size < 2 ||
                      virtio_config32(&h->virtio, C_CDB_LEN) != CDB_LEN ||
                      virtio_config32(&h->virtio, C_SENSE_LEN) != SENSE_LEN ||
                      virtio_config32(&h->virtio, C_EVENT_LEN) > EVENT_STRIDE)) {
    e = ERR_UNSUPPORTED;
  }
  if (e != ERR_OK) {
    virtio_fail(&h->virtio);
    return e;
  }
  h->memory = memory.ptr;
  h->memory_phys = ops->phys_of(memory.ptr);
  u32 sectors = virtio_config32(&h->virtio, C_MAX_SECTORS);
  h->sectors_max = sectors == 0 ? U32_MAX : sectors;
  u32 target_max = virtio_config16(&h->virtio, C_MAX_TARGET);
  start(h);
  virtio_scsi_find(h, MIN(target_max, TARGETS_MAX - 1), name);
  if (h->request.broken || h->dead) {
    return ERR_IO;
  }
  return ERR_OK;
}
