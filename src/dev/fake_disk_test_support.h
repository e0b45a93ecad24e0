// SPDX-License-Identifier: Apache-2.0
// The machine of fake_virtio_test_support.h with a disk in it, by virtio-blk or virtio-scsi. The
// medium is memory; operations complete in any order, with used lengths that mean nothing.
//
// M2  The disk checks the driver: header and status in descriptors of their own, ranges inside the
//     medium, segments within the stated limits, tags never twice, a flush with nothing else.
#pragma once
#include "dev/fake_virtio_test_support.h"
#include "dev/virtio_blk.h"
#include "dev/virtio_scsi.h"

#define MEDIUM_LEN (8u << 20)
#define BLK_F(bit) (1ull << (bit))
#define SCSI_LUNS 2u

struct disk {
  bool scsi;
  u8 medium[MEDIUM_LEN];
  u64 len;
  u32 block_len;
  u32 seg_max, size_max;  // as stated; 0: not stated
  u32 flushes, served, aborts, lun_resets;
  u32 bad;          // operations that it answered with a failure or with nonsense
  bool silent;      // answers no request
  bool tmf_silent;  // nor the control queue
  bool zero_lies;   // says that it zeroed, and did not
  u32 attentions;   // so many commands get a unit attention first
  u32 busy;         // so many commands get BUSY
  bool no_id;       // has no serial number
  bool no_sync;     // knows no SYNCHRONIZE CACHE
  u64 tags[1u << 16];
  u32 tag_count;
};
static struct disk D;

static void put_status(const struct vq_desc *part, u8 v) {
  *arena_at(part->phys, 1) = v;
}

// Moves data between the medium and the parts; false: outside.
static bool move(const struct vq_desc *parts, u32 count, u64 at, bool to_medium) {
  u64 len = 0;
  for (u32 i = 0; i < count; i++) {
    len += parts[i].len;
  }
  if (at > D.len || len > D.len - at) {
    return false;
  }
  for (u32 i = 0; i < count; i++) {
    u8 *memory = arena_at(parts[i].phys, parts[i].len);
    memcpy(to_medium ? D.medium + at : memory, to_medium ? memory : D.medium + at, parts[i].len);
    at += parts[i].len;
  }
  return true;
}

static bool zero(u64 at, u64 len) {
  if (at > D.len || len > D.len - at) {
    return false;
  }
  if (!D.zero_lies) {
    memset(D.medium + at, 0, len);
  }
  return true;
}

static void scribble(u64 at, u64 len) {
  for (u64 i = 0; i < len; i += 64) {
    D.medium[at + i] = (u8)rnd(256);
  }
}

// Shows a completion as the fault wants it.
static void show_completion(struct fake_queue *q, u16 head, enum fault fault) {
  u32 id = fault == FAULT_ID_TOO_BIG ? q->size + rnd(1u << 20) : head;
  id = fault == FAULT_ID_NOT_HELD ? not_held(q, head) : id;
  put_element(q, id, rnd(1u << 21));
  if (fault == FAULT_ID_TWICE) {
    put_element(q, head, 0);
  }
  if (fault == FAULT_INDEX_JUMP) {
    *u16_at(q->used_at + 2) = (u16)(q->used + q->size + 1);
  } else {
    show_used(q);
  }
}

// --- virtio-blk

static u8 blk_do(const struct vq_desc *parts, u32 count) {
  const u8 *h = arena_at(parts[0].phys, 16);
  u32 type = load_le32(h);
  u64 at = load_le64(h + 8) * 512;
  u32 data = count - 2;
  assert_true(load_le32(h + 4) == 0);
  for (u32 i = 1; i <= data; i++) {
    assert_true(D.size_max == 0 || parts[i].len <= D.size_max);
  }
  switch (type) {
  case 0:
  case 1:
    assert_true(data >= 1 && data <= MAX(D.seg_max, 1u));
    assert_int_equal((parts[1].flags & 2) != 0, type == 0);
    assert_int_equal(at % D.block_len, 0);
    return move(parts + 1, data, at, type == 1) ? 0 : 1;
  case 8:
    assert_true(at == 0 && data == 1 && parts[1].len == 20 && (parts[1].flags & 2) != 0);
    memcpy(arena_at(parts[1].phys, 20), "twenty bytes without", 20);
    return D.no_id ? 2 : 0;
  case 4:
    assert_true(at == 0 && data == 0);
    D.flushes++;
    return 0;
  default: break;
  }
  assert_true(type == 11 || type == 13);
  assert_true(data == 1 && parts[1].len == 16 && (parts[1].flags & 2) == 0);
  const u8 *s = arena_at(parts[1].phys, 16);
  u64 from = load_le64(s) * 512;
  u64 len = (u64)load_le32(s + 8) * 512;
  assert_true(load_le32(s + 12) == 0 && at == 0);
  if (type == 13) {
    return zero(from, len) ? 0 : 1;
  }
  if (from > D.len || len > D.len - from) {
    return 1;
  }
  scribble(from, len);
  return 0;
}

static bool blk_serve(enum fault fault) {
  static struct vq_desc parts[RING_MAX];
  struct fake_queue *q = &F.q[0];
  if (!live() || q->held_count == 0 || D.silent) {
    return false;
  }
  u16 head = pick_held(q);
  u32 count = walk(q, head, parts, EITHER);
  assert_true(count >= 2);
  assert_int_equal(parts[0].len, 16);
  assert_int_equal(parts[0].flags & 2, 0);
  assert_int_equal(parts[0].phys / 4096, (parts[0].phys + 15) / 4096);
  assert_int_equal(parts[count - 1].len, 1);
  assert_true((parts[count - 1].flags & 2) != 0);
  u8 status = fault == FAULT_FAILS ? 1 : blk_do(parts, count);
  if (fault != FAULT_STATUS) {
    put_status(&parts[count - 1], status);
  } else if (rnd(2) != 0) {  // else it is not written at all
    put_status(&parts[count - 1], (u8)(3 + rnd(252)));
  }
  D.bad += fault == FAULT_STATUS || fault == FAULT_FAILS;
  D.served++;
  show_completion(q, head, fault);
  return true;
}

// --- virtio-scsi

struct command {
  const u8 *cdb;
  const struct vq_desc *out, *in;  // data parts, NULL: none
  u8 *answer;                      // sense length, residual, qualifier, status, response, sense
};

static void sense(struct command *c, u8 key, u8 asc) {
  static u32 form;
  u8 *s = c->answer + 12;
  memset(s, 0, 18);
  c->answer[10] = 2;
  store_le32(c->answer, 18);
  if (form++ % 2 == 0) {
    s[0] = 0x70;
    s[2] = key;
    s[12] = asc;
  } else {
    s[0] = 0x72;
    s[1] = key;
    s[2] = asc;
  }
}

static void give(struct command *c, const u8 *p, u32 len) {
  assert_non_null(c->in);
  u32 n = MIN(len, c->in->len);
  memcpy(arena_at(c->in->phys, n), p, n);
  store_le32(c->answer + 4, c->in->len - n);
}

static void scsi_inquire(struct command *c, u32 lun) {
  u8 a[64] = {0};
  if (c->cdb[1] == 0) {
    a[0] = lun < SCSI_LUNS ? 0 : 0x7f;
    a[4] = 31;
    memcpy(a + 8, "maker   a disk          1.0 ", 28);
    give(c, a, 36);
    return;
  }
  a[1] = c->cdb[2];
  if (c->cdb[2] == 0) {
    a[3] = 4;
    a[5] = 0x80;
    a[6] = 0xb0;
    a[7] = 0xb2;
    give(c, a, 8);
  } else if (c->cdb[2] == 0x80) {
    a[3] = 8;
    memcpy(a + 4, " SN\x01 42 ", 8);
    give(c, a, 12);
  } else if (c->cdb[2] == 0xb0) {
    a[3] = 60;
    store_be32(a + 8, D.size_max / D.block_len);
    store_be32(a + 20, 256);
    store_be32(a + 24, 1);
    store_be32(a + 28, 8);
    store_be64(a + 36, 128);
    give(c, a, 64);
  } else if (c->cdb[2] == 0xb2) {
    a[5] = 0x80;
    give(c, a, 8);
  } else {
    sense(c, 5, 0x24);
  }
}

static void scsi_move(struct command *c, bool write) {
  u64 at = load_be64(c->cdb + 2) * D.block_len;
  u32 len = load_be32(c->cdb + 10) * D.block_len;
  const struct vq_desc *part = write ? c->out : c->in;
  assert_non_null(part);
  assert_int_equal(part->len, len);
  if (!move(part, 1, at, write)) {
    sense(c, 5, 0x21);
  }
}

static void scsi_do(struct command *c, u32 lun) {
  u8 a[32] = {0};
  switch (c->cdb[0]) {
  case 0x00: return;
  case 0x12: scsi_inquire(c, lun); return;
  case 0xa0:
    store_be32(a, 8 * SCSI_LUNS);
    a[8 + 8 + 1] = 1;
    give(c, a, 8 + 8 * SCSI_LUNS);
    return;
  case 0x9e:
    store_be64(a, D.len / D.block_len - 1);
    store_be32(a + 8, D.block_len);
    a[13] = 1;
    give(c, a, 32);
    return;
  case 0x1a:
    a[0] = 23;
    a[4] = 0x08;
    a[5] = 18;
    a[6] = 0x04;
    give(c, a, 24);
    return;
  case 0x35:
    if (D.no_sync) {
      sense(c, 5, 0x20);
    }
    D.flushes++;
    return;
  case 0x88: scsi_move(c, false); return;
  case 0x8a: scsi_move(c, true); return;
  case 0x93:
    assert_int_equal(c->out->len, D.block_len);
    for (u32 i = 0; i < c->out->len; i++) {
      assert_int_equal(*arena_at(c->out->phys + i, 1), 0);
    }
    if (!zero(load_be64(c->cdb + 2) * D.block_len, (u64)load_be32(c->cdb + 10) * D.block_len)) {
      sense(c, 5, 0x21);
    }
    return;
  case 0x42: {
    const u8 *list = arena_at(c->out->phys, 24);
    assert_true(c->out->len == 24 && load_be16(c->cdb + 7) == 24 && load_be16(list + 2) == 16);
    scribble(load_be64(list + 8) * D.block_len, (u64)load_be32(list + 16) * D.block_len);
    return;
  }
  default: sense(c, 5, 0x20);
  }
}

static void new_tag(u64 tag) {
  for (u32 i = 0; i < D.tag_count; i++) {
    assert_true(D.tags[i] != tag);
  }
  if (D.tag_count < ARRAY_COUNT(D.tags)) {
    D.tags[D.tag_count++] = tag;
  }
}

// Takes a held command apart. Returns its LUN, U32_MAX: there is none such.
static u32 scsi_parse(u16 head, struct command *c) {
  static struct vq_desc parts[RING_MAX];
  u32 count = walk(&F.q[2], head, parts, EITHER);
  u32 at = 1;
  assert_true(count >= 2 && count <= 4);
  assert_true(parts[0].len == 51 && (parts[0].flags & 2) == 0);
  const u8 *h = arena_at(parts[0].phys, 51);
  *c = (struct command){.cdb = h + 19};
  if ((parts[at].flags & 2) == 0) {
    c->out = &parts[at++];
  }
  assert_int_equal(parts[at].len, 108);
  c->answer = arena_at(parts[at++].phys, 108);
  memset(c->answer, 0, 12);
  if (at < count) {
    c->in = &parts[at];
  }
  assert_true(h[0] == 1 && (h[2] & 0xc0) == 0x40);
  return h[1] != 0 ? U32_MAX : (u32)(h[2] & 0x3f) << 8 | h[3];
}

static bool scsi_serve(enum fault fault) {
  struct fake_queue *q = &F.q[2];
  struct command c;
  if (!live() || q->held_count == 0 || D.silent) {
    return false;
  }
  u16 head = pick_held(q);
  u32 lun = scsi_parse(head, &c);
  new_tag(load_le64(c.cdb - 19 + 8));
  if (lun == U32_MAX) {
    c.answer[11] = 3;
  } else if (fault == FAULT_FAILS) {
    sense(&c, 3, 0x11);
  } else if (fault == FAULT_STATUS) {
    c.answer[10] = 0x40;
  } else if (D.busy != 0) {
    D.busy--;
    c.answer[10] = rnd(2) != 0 ? 8 : 0x28;
    c.answer[11] = rnd(3) == 0 ? 5 : 0;
  } else if (D.attentions != 0 && c.cdb[0] != 0x12) {
    D.attentions--;
    sense(&c, 6, 0x2a);
  } else {
    scsi_do(&c, lun);
    if (fault == FAULT_LEN_SHORT) {  // good, and yet not all of it
      store_le32(c.answer + 4, 512);
    }
  }
  D.served++;
  D.bad += lun != U32_MAX && (fault == FAULT_STATUS || fault == FAULT_FAILS);
  show_completion(q, head, fault);
  return true;
}

static void abort_held(u64 tag, bool all) {
  struct fake_queue *q = &F.q[2];
  for (u32 i = 0; i < q->held_count;) {
    struct command c;
    u16 head = q->held[i];
    (void)scsi_parse(head, &c);
    if (!all && load_le64(c.cdb - 19 + 8) != tag) {
      i++;
      continue;
    }
    q->held[i] = q->held[--q->held_count];
    c.answer[11] = all ? 4 : 2;
    show_completion(q, head, FAULT_NONE);
  }
}

static bool tmf_serve(void) {
  static struct vq_desc parts[RING_MAX];
  struct fake_queue *q = &F.q[0];
  if (!live() || q->held_count == 0 || D.tmf_silent) {
    return false;
  }
  u16 head = pick_held(q);
  assert_int_equal(walk(q, head, parts, EITHER), 2);
  assert_true(parts[0].len == 24 && parts[1].len == 1);
  const u8 *h = arena_at(parts[0].phys, 24);
  u32 kind = load_le32(h + 4);
  assert_true(load_le32(h) == 0 && (kind == 0 || kind == 5));
  D.aborts += kind == 0;
  D.lun_resets += kind == 5;
  abort_held(load_le64(h + 16), kind == 5);
  put_status(&parts[1], kind == 0 ? 0 : 10);
  show_completion(q, head, FAULT_NONE);
  return true;
}

static bool event_serve(u32 event, u32 reason) {
  static struct vq_desc parts[RING_MAX];
  struct fake_queue *q = &F.q[1];
  if (!live() || q->held_count == 0) {
    return false;
  }
  u16 head = pick_held(q);
  assert_int_equal(walk(q, head, parts, true), 1);
  u8 *p = arena_at(parts[0].phys, 16);
  store_le32(p, event);
  store_le32(p + 12, reason);
  show_completion(q, head, FAULT_NONE);
  return true;
}

// --- Building it

static void tell_all(void) {
  for (u32 i = 0; i < F.queues; i++) {
    drain();
    F.q[i].told = true;
    fetch(&F.q[i]);
  }
}

// What a disk does while a driver waits.
static void disk_relax(void) {
  for (u32 i = 0; i < F.queues; i++) {
    fetch(&F.q[i]);
  }
  (void)(D.scsi ? scsi_serve(FAULT_NONE) : blk_serve(FAULT_NONE));
}

static void put_capacity(void) {
  if (!D.scsi) {
    store_le64(F.config, D.len / 512);
  }
}

static void disk_default(u64 seed, bool scsi) {
  fake_default(seed);
  memset(&D, 0, sizeof D);
  D.scsi = scsi;
  D.len = MEDIUM_LEN;
  D.block_len = rnd(2) != 0 ? 512 : 4096;
  D.seg_max = scsi ? 0 : 1 + rnd(30);
  D.size_max = rnd(3) == 0 ? 4096u << rnd(4) : 0;
  F.on_relax = disk_relax;
  F.queues = scsi ? 3 : 1;
  F.device_legacy = scsi ? 0x1004 : 0x1001;
  F.device_modern = scsi ? 0x1048 : 0x1042;
  F.queue_size[2] = 256;
  memset(F.config, 0, sizeof F.config);
  u64 common = VIRTIO_F_INDIRECT | VIRTIO_F_EVENT_IDX | VIRTIO_F_VERSION_1 | VIRTIO_F_ANY_LAYOUT;
  if (scsi) {
    F.offered = common | BLK_F(1) | BLK_F(2) | BLK_F(50);
    store_le32(F.config, 1);
    store_le32(F.config + 4, 126);
    store_le32(F.config + 8, 0xffff);
    store_le32(F.config + 16, 16);
    store_le32(F.config + 20, 96);
    store_le32(F.config + 24, 32);
    store_le16(F.config + 30, 3);
    return;
  }
  F.offered = common | BLK_F(2) | BLK_F(4) | BLK_F(6) | BLK_F(9) | BLK_F(10) | BLK_F(11) |
              BLK_F(12) | BLK_F(13) | BLK_F(14) | BLK_F(40) | (D.size_max != 0 ? BLK_F(1) : 0);
  put_capacity();
  store_le32(F.config + 8, D.size_max);
  store_le32(F.config + 12, D.seg_max);
  store_le32(F.config + 20, D.block_len);
  F.config[24] = 3;
  store_le32(F.config + 28, 16);
  F.config[32] = 1;
  store_le32(F.config + 36, 256);
  store_le32(F.config + 40, 1);
  store_le32(F.config + 48, 512);
  store_le32(F.config + 52, 1);
}
