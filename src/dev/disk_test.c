// SPDX-License-Identifier: Apache-2.0
// Proves: both disk drivers start every kind of device and, over many thousands of operations that
// complete in any order, give each token back once with the status that the disk gave and the data
// that stands on it; what is outside, misaligned, too long or not known to the device is refused
// without reaching it; a lost notification does not happen; a disk that breaks the rules, fails,
// falls silent or never ends its reset costs operations or itself, never the program, and its
// memory is not used again before its reset is done; a grown disk is noticed.
// tests/dev/mutants proves that the test notices.
#include "dev/fake_disk_test_support.h"

#define AREA (64u << 10)
#define AREAS (MEDIUM_LEN / AREA)
#define SEC 1000000000ull

static struct pci machine;
static struct virtio_blk blk;
static struct virtio_scsi scsi;
static struct block *dev;
static struct block_info facts;
static u64 now;

struct area {
  bool busy;
  bool known;  // shadow holds what stands there
  u8 shadow[AREA];
  u8 *memory;
  struct block_op op;
};
static struct area A[AREAS];
static u32 outstanding, answered[4];
static u64 flush_token, next_token;

static enum err plug(void) {
  struct pci_dev found[4];
  build();
  pci_init(&machine, &fake_ops, ECAM_AT, 0, 255);
  assert_int_equal(pci_scan(&machine, false, found, 4), F.behind_bridge ? 2 : 1);
  const struct pci_dev *d = &found[F.behind_bridge ? 1 : 0];
  assert_true(D.scsi ? virtio_scsi_is(d) && !virtio_blk_is(d) : virtio_blk_is(d));
  enum err e = D.scsi ? virtio_scsi_open(&scsi, d, &fake_ops, "scsi0", 0xfee00000, 0x41)
                      : virtio_blk_open(&blk, d, &fake_ops, "blk0", 0xfee00000, 0x41);
  if (e != ERR_OK) {
    return e;
  }
  dev = D.scsi ? &scsi.lun[0].block : &blk.block;
  if (!D.scsi || scsi.lun_count != 0) {
    block_info(dev, &facts);
  }
  memset(A, 0, sizeof A);
  memset(answered, 0, sizeof answered);
  outstanding = 0;
  for (u32 i = 0; i < AREAS; i++) {
    A[i].memory = arena_alloc(AREA).ptr;
    assert_non_null(A[i].memory);
  }
  return ERR_OK;
}

static bool serve(enum fault fault) {
  return D.scsi ? scsi_serve(fault) : blk_serve(fault);
}

static void no_lost_kick(void) {
  act();
  act();
  drain();
  for (u32 i = 0; i < F.queues; i++) {
    struct fake_queue *q = &F.q[i];
    if (q->asleep && !q->told && q->seen != q->avail_idx) {
      fail_msg("queue %u: the device sleeps before %u chains", i, (u16)(q->avail_idx - q->seen));
    }
  }
}

// --- Operations on areas, of which each has one at a time

static bool make_op(struct area *a, u32 at) {
  struct block_op *op = &a->op;
  u32 kind = rnd(5);
  u32 max = MIN(AREA, facts.transfer_max);
  u32 blocks = 1 + rnd(max / facts.block_len);
  u32 off = rnd(AREA / facts.block_len - blocks + 1);
  *op = (struct block_op){.kind = (u8)kind,
                          .at = (u64)at * AREA + (u64)off * facts.block_len,
                          .len = (u64)blocks * facts.block_len,
                          .memory = a->memory,
                          .token = next_token++ << 16 | at};
  if (kind == BLOCK_FLUSH) {
    return false;
  }
  if ((kind == BLOCK_DISCARD && op->len > facts.discard_max) ||
      (kind == BLOCK_ZERO && op->len > facts.zero_max)) {
    op->kind = BLOCK_WRITE;
  }
  if (op->kind == BLOCK_WRITE) {
    for (u32 i = 0; i < op->len; i += 16) {
      a->memory[i] = (u8)rnd(256);
    }
  }
  return true;
}

static void send(u32 count) {
  struct block_op ops[16];
  u32 n = 0;
  ASSERT(count <= 16);
  for (u32 k = 0; k < count; k++) {
    u32 at = rnd(AREAS);
    if (!A[at].busy && make_op(&A[at], at)) {
      A[at].busy = true;
      ops[n++] = A[at].op;
    } else if (flush_token == 0 && rnd(4) == 0) {
      flush_token = next_token++ << 16 | 0xffff;
      ops[n++] = (struct block_op){.kind = BLOCK_FLUSH, .token = flush_token};
    }
  }
  u32 taken = block_submit(dev, ops, n);
  assert_true(taken <= n);
  outstanding += taken;
  for (u32 k = taken; k < n; k++) {
    if (ops[k].token == flush_token) {
      flush_token = 0;
    } else {
      A[ops[k].token & 0xffff].busy = false;
    }
  }
  no_lost_kick();
}

static void judge(const struct block_done *done) {
  assert_true(outstanding != 0);
  assert_true(done->status <= BLOCK_LOST);
  outstanding--;
  answered[done->status]++;
  if (done->token == flush_token) {
    flush_token = 0;
    return;
  }
  u32 at = done->token & 0xffff;
  assert_true(at < AREAS);
  struct area *a = &A[at];
  assert_true(a->busy && a->op.token == done->token);  // once, and ours
  a->busy = false;
  u64 off = a->op.at - (u64)at * AREA;
  if (done->status != BLOCK_OK) {
    a->known = a->known && a->op.kind == BLOCK_READ;
    return;
  }
  switch (a->op.kind) {
  case BLOCK_READ:
    assert_memory_equal(a->memory, D.medium + a->op.at, a->op.len);
    if (a->known) {
      assert_memory_equal(a->memory, a->shadow + off, a->op.len);
    }
    break;
  case BLOCK_WRITE: memcpy(a->shadow + off, a->memory, a->op.len); break;
  case BLOCK_ZERO: memset(a->shadow + off, 0, a->op.len); break;
  default: a->known = false; return;
  }
  if (!a->known && a->op.kind != BLOCK_READ) {  // learn the rest
    memcpy(a->shadow, D.medium + (u64)at * AREA, AREA);
    a->known = true;
  }
}

static u32 take(void) {
  struct block_done done[7];
  u32 n = block_complete(dev, now, done, 1 + rnd(7));
  for (u32 i = 0; i < n; i++) {
    judge(&done[i]);
  }
  no_lost_kick();
  return n;
}

static bool arm(bool want) {
  return D.scsi ? virtio_scsi_arm(&scsi, want) : virtio_blk_arm(&blk, want);
}

// The program halts: whatever completes from now on must raise an interrupt, or arm says so.
static void halt(void) {
  if (!arm(true)) {
    u32 q = D.scsi ? 2 : 0;
    drain();
    u32 before = F.q[q].interrupts;
    if (serve(FAULT_NONE) && F.q[q].interrupts == before) {
      fail_msg("a completion without the interrupt that was asked for");
    }
  }
  (void)arm(false);
}

static void traffic(u32 turns) {
  for (u32 i = 0; i < turns; i++) {
    switch (rnd(6)) {
    case 0: send(1 + rnd(16)); break;
    case 1: fetch(&F.q[D.scsi ? 2 : 0]); break;
    case 2:
    case 3: (void)serve(FAULT_NONE); break;
    case 4: (void)take(); break;
    default: halt(); break;
    }
    now += 1000;
  }
}

static void settle(void) {
  for (u32 i = 0; i < 20000 && outstanding != 0; i++) {
    tell_all();
    (void)serve(FAULT_NONE);
    (void)take();
  }
  assert_int_equal(outstanding, 0);
}

// --- Tests

static void shape(u32 n) {
  F.has_modern = n % 3 != 0;
  F.has_legacy = n % 3 != 1;
  F.behind_bridge = n % 5 == 0;
  F.reset_looks = rnd(40);
  u16 sizes[] = {4, 8, 16, 128, 256, 1024};
  u32 q = D.scsi ? 2 : 0;
  F.queue_size[q] = sizes[rnd(6)];
  if (rnd(2) != 0) {
    F.offered &= ~(rnd(2) != 0 ? VIRTIO_F_INDIRECT : VIRTIO_F_EVENT_IDX);
  }
  if (!D.scsi) {
    F.offered &= ~((u64)rnd(1u << 16) & (BLK_F(2) | BLK_F(9) | BLK_F(10) | BLK_F(13) | BLK_F(14)));
    D.seg_max = (F.offered & BLK_F(2)) != 0 ? D.seg_max : 1;
    F.offered |= BLK_F(6);
  }
}

static void every_shape(bool by_scsi) {
  for (u32 n = 0; n < 60; n++) {
    disk_default(1000 + n, by_scsi);
    shape(n);
    assert_int_equal(plug(), ERR_OK);
    assert_int_equal(facts.block_len, D.block_len);
    assert_int_equal(facts.len, D.len);
    assert_true(facts.transfer_max >= D.block_len);
    assert_int_equal(facts.flush, by_scsi || (F.offered & BLK_F(9)) != 0);
    traffic(3000);
    settle();
    assert_true(answered[BLOCK_OK] > 100);
    assert_int_equal(answered[BLOCK_ERROR] + answered[BLOCK_REFUSED] + answered[BLOCK_LOST], 0);
    assert_true(D.flushes > 0 || !facts.flush);
  }
}
static void blk_shapes(void **state) {
  (void)state;
  every_shape(false);
}
static void scsi_shapes(void **state) {
  (void)state;
  every_shape(true);
  assert_int_equal(scsi.lun_count, SCSI_LUNS);
}

static u8 one(struct block_op op) {
  struct block_done done;
  op.token = 77;
  assert_int_equal(block_submit(dev, &op, 1), 1);
  for (u32 i = 0; i < 1000; i++) {
    if (block_complete(dev, now, &done, 1) == 1) {
      assert_int_equal(done.token, 77);
      return done.status;
    }
    tell_all();
    (void)serve(FAULT_NONE);
  }
  fail_msg("no answer");
  return 0;
}

static void refused(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    disk_default(7, k != 0);
    D.block_len = 4096;
    store_le32(F.config + (k == 0 ? 20 : 60), 4096);
    assert_int_equal(plug(), ERR_OK);
    u32 served = D.served;
    u8 *m = A[0].memory;
    struct block_op bad[] = {
        {.kind = BLOCK_READ, .at = facts.len, .len = 4096, .memory = m},
        {.kind = BLOCK_READ, .at = facts.len - 4096, .len = 8192, .memory = m},
        {.kind = BLOCK_READ, .at = U64_MAX - 4095, .len = 8192, .memory = m},
        {.kind = BLOCK_WRITE, .at = 512, .len = 4096, .memory = m},
        {.kind = BLOCK_WRITE, .at = 0, .len = 512, .memory = m},
        {.kind = BLOCK_WRITE, .at = 0, .len = 0, .memory = m},
        {.kind = BLOCK_READ, .at = 0, .len = 4096},
        {.kind = BLOCK_READ, .at = 0, .len = (u64)facts.transfer_max + 4096, .memory = m},
        {.kind = BLOCK_DISCARD, .at = 0, .len = facts.discard_max + 4096},
        {.kind = BLOCK_ZERO, .at = 0, .len = facts.zero_max + 4096},
        {.kind = 9, .len = 4096, .memory = m},
    };
    for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
      assert_int_equal(one(bad[i]), BLOCK_REFUSED);
    }
    assert_int_equal(D.served, served);  // none reached the disk
    assert_int_equal(one((struct block_op){.kind = BLOCK_READ, .len = 4096, .memory = m}),
                     BLOCK_OK);
  }
}

static void read_only(void **state) {
  (void)state;
  disk_default(8, false);
  F.offered |= BLK_F(5);
  assert_int_equal(plug(), ERR_OK);
  assert_true(facts.read_only);
  struct block_op w = {.kind = BLOCK_WRITE, .len = facts.block_len, .memory = A[0].memory};
  assert_int_equal(one(w), BLOCK_REFUSED);
}

static void serials(void **state) {
  (void)state;
  disk_default(31, true);
  assert_int_equal(plug(), ERR_OK);
  assert_string_equal(facts.serial, "SN? 42");
  assert_string_equal(facts.model, "a disk");
  for (u32 k = 0; k < 3; k++) {  // one that has it, one that has not, one that says nothing
    disk_default(32 + k, false);
    assert_int_equal(plug(), ERR_OK);
    D.no_id = k == 1;
    D.silent = k == 2;
    virtio_blk_identify(&blk);
    block_info(dev, &facts);
    assert_string_equal(facts.serial, k == 0 ? "twenty bytes without" : "");
    assert_int_equal(blk.resets, k == 2);
    D.silent = false;
    struct block_op r = {.kind = BLOCK_READ, .len = facts.block_len, .memory = A[0].memory};
    assert_int_equal(one(r), BLOCK_OK);
  }
}

// What stands in the configuration is often nonsense or zero.
static void zero_limits(void **state) {
  (void)state;
  disk_default(9, false);
  memset(F.config + 8, 0, sizeof F.config - 8);
  D.seg_max = 1;
  D.size_max = 0;
  F.offered |= BLK_F(1);
  assert_int_equal(plug(), ERR_OK);
  assert_int_equal(facts.block_len, 512);
  assert_true(facts.discard_max == 0 && facts.zero_max == 0 && facts.transfer_max >= 512);
  disk_default(25, false);
  store_le32(F.config + 40, 0);  // sectors, but no segments
  store_le32(F.config + 52, 0);
  assert_int_equal(plug(), ERR_OK);
  assert_true(facts.discard_max == 0 && facts.zero_max == 0);
  disk_default(10, false);
  memset(F.config + 8, 0xff, sizeof F.config - 8);
  D.seg_max = 1u << 30;
  D.size_max = 0;
  F.offered |= BLK_F(1);
  assert_int_equal(plug(), ERR_OK);
  assert_int_equal(facts.block_len, 512);
  assert_int_equal(facts.transfer_max, BLOCK_TRANSFER_MAX);
  assert_true(facts.discard_max % 512 == 0 && facts.discard_max > 0);
  disk_default(11, false);
  F.queue_size[0] = 2;
  assert_int_equal(plug(), ERR_UNSUPPORTED);
}

static void without_flush(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    disk_default(12, k != 0);
    F.offered &= ~BLK_F(9);
    D.no_sync = true;
    assert_int_equal(plug(), ERR_OK);
    assert_false(facts.flush || facts.write_cache);
    u32 served = D.served;
    assert_int_equal(one((struct block_op){.kind = BLOCK_FLUSH}), BLOCK_OK);
    assert_int_equal(D.served, served);
  }
}

static void failing(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    disk_default(13, k != 0);
    assert_int_equal(plug(), ERR_OK);
    for (u32 i = 0; i < 4000; i++) {
      traffic(3);
      (void)serve(rnd(2) != 0 ? FAULT_FAILS : FAULT_STATUS);
    }
    settle();
    assert_true(answered[BLOCK_ERROR] > 200 && answered[BLOCK_OK] > 200);
    assert_int_equal(answered[BLOCK_ERROR], D.bad);
    assert_int_equal(answered[BLOCK_LOST], 0);
  }
}

// A disk that lies about ids is reset; what it held is lost, and then it serves again.
static void broken(void **state) {
  (void)state;
  static const enum fault faults[] = {FAULT_ID_TOO_BIG, FAULT_ID_NOT_HELD, FAULT_ID_TWICE,
                                      FAULT_INDEX_JUMP};
  for (u32 n = 0; n < 48; n++) {
    disk_default(2000 + n, n % 2 != 0);
    shape(n / 2);
    assert_int_equal(plug(), ERR_OK);
    traffic(500);
    u32 resets = F.resets;
    for (u32 i = 0; i < 2000 && F.resets == resets; i++) {
      send(4);
      fetch(&F.q[D.scsi ? 2 : 0]);
      (void)serve(faults[n / 2 % 4]);
      (void)take();
    }
    assert_true(F.resets > resets);
    block_info(dev, &facts);
    assert_false(facts.dead);
    traffic(500);
    settle();
    u32 good = answered[BLOCK_OK];
    assert_true(answered[BLOCK_LOST] > 0 || faults[n / 2 % 4] == FAULT_ID_TWICE);
    traffic(2000);
    settle();
    assert_true(answered[BLOCK_OK] > good);
  }
}

// A command that is said to have gone well, but not in full, failed.
static void residual(void **state) {
  (void)state;
  disk_default(24, true);
  assert_int_equal(plug(), ERR_OK);
  for (u32 i = 0; i < 2000; i++) {
    send(4);
    tell_all();
    (void)serve(FAULT_LEN_SHORT);
    (void)take();
  }
  assert_true(answered[BLOCK_ERROR] > 500);
  assert_true(answered[BLOCK_OK] > 100);  // flushes, discards
}

static void silent_blk(void **state) {
  (void)state;
  disk_default(14, false);
  assert_int_equal(plug(), ERR_OK);
  D.silent = true;
  send(8);
  u32 held = outstanding;
  assert_true(held > 0);
  (void)take();
  now += 29 * SEC;
  (void)take();
  assert_int_equal(outstanding, held);
  u32 resets = F.resets;
  now += 2 * SEC;
  while (outstanding != 0) {
    assert_true(take() > 0);
  }
  assert_true(F.resets > resets && answered[BLOCK_LOST] + answered[BLOCK_OK] == held);
  D.silent = false;
  traffic(500);
  settle();
  assert_true(answered[BLOCK_OK] > 0);
}

// ABORT TASK answers: no reset of anything else.
static void silent_scsi(void **state) {
  (void)state;
  disk_default(15, true);
  assert_int_equal(plug(), ERR_OK);
  D.silent = true;
  send(1);
  while (outstanding == 0) {
    send(1);
  }
  u32 resets = F.resets;
  tell_all();
  (void)take();
  now += 31 * SEC;
  for (u32 i = 0; i < 10 && outstanding != 0; i++) {
    (void)take();
    tell_all();
    (void)tmf_serve();
  }
  assert_true(D.aborts == 1 && D.lun_resets == 0 && F.resets == resets);
  assert_int_equal(answered[BLOCK_LOST], 1);
  D.silent = false;
  traffic(500);
  settle();
}

// Abort, reset of the unit, reset of the adapter: one after the other, each with its own time.
static void silent_at_all_levels(void **state) {
  (void)state;
  disk_default(16, true);
  assert_int_equal(plug(), ERR_OK);
  D.silent = true;
  D.tmf_silent = true;
  while (outstanding == 0) {
    send(1);
  }
  u32 resets = F.resets;
  tell_all();
  for (u32 s = 0; s < 60 && F.resets == resets; s++) {
    (void)take();
    now += SEC;
    assert_true(s > 34 || outstanding != 0);
  }
  assert_true(F.resets > resets);
  while (outstanding != 0) {
    assert_true(take() > 0);
  }
  D.silent = false;
  traffic(500);
  settle();
  assert_true(answered[BLOCK_OK] > 0);
}

// A disk that never ends its reset is dead, and its operations never complete: it may still write.
static void dead(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    disk_default(17, k != 0);
    assert_int_equal(plug(), ERR_OK);
    D.silent = true;
    D.tmf_silent = true;
    while (outstanding == 0) {
      send(1);
    }
    u32 held = outstanding;
    F.reset_looks = U32_MAX;
    for (u32 s = 0; s < 60; s++) {
      (void)take();
      now += SEC;
    }
    block_info(dev, &facts);
    assert_true(facts.dead);
    assert_int_equal(outstanding, held);
    struct block_op op = {.kind = BLOCK_READ, .len = facts.block_len, .memory = A[0].memory};
    assert_int_equal(block_submit(dev, &op, 1), 0);
  }
}

static void grows(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    disk_default(18, k != 0);
    D.len = MEDIUM_LEN / 2;
    put_capacity();
    assert_int_equal(plug(), ERR_OK);
    u32 changes = facts.changes;
    assert_int_equal(facts.len, MEDIUM_LEN / 2);
    D.len = MEDIUM_LEN;
    put_capacity();
    F.generation++;
    if (k != 0) {
      tell_all();
      assert_true(event_serve(rnd(2) != 0 ? 3 : 0x80000000u, 0x2a09));
    }
    for (u32 i = 0; i < 50; i++) {
      now += SEC;
      (void)take();
      tell_all();
      (void)serve(FAULT_NONE);
    }
    block_info(dev, &facts);
    assert_int_equal(facts.len, MEDIUM_LEN);
    assert_true(facts.changes > changes);
  }
}

// Capacity changes while its two halves are read: never a mixture.
static u64 torn[2];
static void tear(void) {
  if (rnd(4) == 0) {
    F.generation++;
    store_le64(F.config, torn[rnd(2)]);
  }
}
static void torn_capacity(void **state) {
  (void)state;
  torn[0] = 0x00000001ffffffffull >> 1;
  torn[1] = 0x0000000200000000ull;
  for (u32 n = 0; n < 300; n++) {
    disk_default(3000 + n, false);
    F.has_legacy = false;
    store_le64(F.config, torn[0]);
    F.on_config = tear;
    assert_int_equal(plug(), ERR_OK);
    F.on_config = NULL;
    assert_true(facts.len == torn[0] * 512 / D.block_len * D.block_len ||
                facts.len == torn[1] * 512);
  }
}

// Unit attentions and BUSY repeat the command, within bounds; the size is read again.
static void attentions(void **state) {
  (void)state;
  disk_default(19, true);
  D.attentions = 3;  // of power-on
  assert_int_equal(plug(), ERR_OK);
  assert_int_equal(scsi.lun_count, SCSI_LUNS);
  u32 changes = facts.changes;
  for (u32 i = 0; i < 200; i++) {
    traffic(30);
    D.attentions = rnd(3);
    D.busy = rnd(5);
  }
  settle();
  block_info(dev, &facts);
  assert_true(facts.changes > changes);
  assert_int_equal(answered[BLOCK_LOST] + answered[BLOCK_REFUSED] + answered[BLOCK_ERROR], 0);
  D.attentions = 1000;
  struct block_op op = {.kind = BLOCK_READ, .len = facts.block_len, .memory = A[0].memory};
  assert_int_equal(one(op), BLOCK_ERROR);
}

static void refuses_features(void **state) {
  (void)state;
  for (u32 k = 0; k < 2; k++) {
    disk_default(20, k != 0);
    F.refuses = true;
    F.has_legacy = false;
    assert_int_equal(plug(), ERR_UNSUPPORTED);
    assert_true(F.failed > 0);
    disk_default(21, k != 0);
    F.reset_looks = U32_MAX;
    assert_int_equal(plug(), ERR_TIMEOUT);
    disk_default(22, k != 0);
    arena_refuses = true;
    assert_int_equal(plug(), ERR_NO_MEMORY);
  }
  disk_default(23, true);
  D.silent = true;
  assert_int_equal(plug(), ERR_IO);  // bounded, and given up
}

static void noise_everywhere(void **state) {
  (void)state;
  for (u32 n = 0; n < 300; n++) {
    disk_default(4000 + n, n % 2 != 0);
    build();
    F.loose = true;
    F.random = false;
    F.on_relax = NULL;
    struct pci_dev found[4];
    pci_init(&machine, &fake_ops, ECAM_AT, 0, 255);
    assert_int_equal(pci_scan(&machine, false, found, 4), 1);
    enum err e = D.scsi ? virtio_scsi_open(&scsi, &found[0], &fake_ops, "s", 0xfee00000, 0x41)
                        : virtio_blk_open(&blk, &found[0], &fake_ops, "b", 0xfee00000, 0x41);
    struct block_done done[4];
    if (e == ERR_OK && !D.scsi) {
      block_info(&blk.block, &facts);
      struct block_op op = {.kind = BLOCK_READ, .len = facts.block_len};
      op.memory = arena_alloc(65536).ptr;
      (void)block_submit(&blk.block, &op, 1);
      (void)block_complete(&blk.block, 1, done, 4);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blk_shapes),
      cmocka_unit_test(scsi_shapes),
      cmocka_unit_test(refused),
      cmocka_unit_test(read_only),
      cmocka_unit_test(serials),
      cmocka_unit_test(zero_limits),
      cmocka_unit_test(without_flush),
      cmocka_unit_test(failing),
      cmocka_unit_test(broken),
      cmocka_unit_test(residual),
      cmocka_unit_test(silent_blk),
      cmocka_unit_test(silent_scsi),
      cmocka_unit_test(dead),
      cmocka_unit_test(silent_at_all_levels),
      cmocka_unit_test(grows),
      cmocka_unit_test(torn_capacity),
      cmocka_unit_test(attentions),
      cmocka_unit_test(refuses_features),
      cmocka_unit_test(noise_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
