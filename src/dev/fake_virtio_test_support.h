// SPDX-License-Identifier: Apache-2.0
// A PCI machine with one virtio device (network; fake_disk_test_support.h makes it a disk) that
// keeps to every right a device has and, when told to, breaks every rule: for tests of dev/.
// Registers and ports arrive as calls (tests/dev/arch).
//
// Memory is weak on purpose. What the driver stores becomes visible to the device only at the
// driver's barriers (entries at cpu_wmb, indices and wishes at cpu_mb or when a store would have
// drained), and used elements become visible to the driver only at its cpu_rmb. A missing barrier
// thus fails a test on any machine. At each barrier the device may also act, before and after.
//
// M1  The device checks the driver: order of status bits, features within the offer, no
//     notification before DRIVER_OK, queues laid out right, header sizes, chains within the ring.
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dev/virtio_net.h"

#define ECAM_AT 0xb0000000ull
#define IO_AT 0xc000u
#define MSIX_AT 0x900000000ull    // above 4 GiB, as BARs may be
#define MODERN_AT 0x910000000ull  // common at 0, device configuration at 0x1000, notify at 0x2000
#define NOTIFY_OFF 0x2000u
#define CONFIG_OFF 0x1000u
#define RING_MAX VQ_SIZE_MAX
#define QUEUES 3u
#define NET_F(bit) (1ull << (bit))

enum fault {
  FAULT_NONE,
  FAULT_ID_TOO_BIG,
  FAULT_ID_NOT_HELD,
  FAULT_ID_TWICE,
  FAULT_LEN_LONG,
  FAULT_LEN_SHORT,
  FAULT_INDEX_JUMP,
  FAULT_MANY_BUFFERS,
  FAULT_STATUS,  // a disk's: the status is nonsense
  FAULT_FAILS,   // a disk's: it says that it failed
};

struct fake_queue {
  u16 size;
  bool enabled;
  u16 vector;
  u64 desc_at, avail_at, used_at;
  struct vq_desc desc[RING_MAX];  // as visible to the device
  u16 ring[RING_MAX];
  u16 avail_idx, wish_flags, wish_event;
  u16 seen;  // taken from the available ring
  u16 used;  // published
  u16 used_shown;
  u32 element[RING_MAX][2];  // written; visible to the driver after its cpu_rmb
  u32 element_first, element_end;
  u16 held[RING_MAX];
  u32 held_count;
  bool asleep;
  bool told;  // a notification is on its way
  u32 notified, interrupts;
  u32 kicked_for;  // 1 + the event index of the last notification
  u32 needless;    // notifications for one event index, after the first
};

struct fake {
  // The kind of device
  bool has_modern, has_legacy, msix, no_vectors;
  u64 offered;
  u32 queues;
  u16 device_legacy, device_modern;
  u16 queue_size[QUEUES];
  u32 notify_multiplier;
  u16 notify_off[4];
  u32 reset_looks;  // how often status is read until a reset is done
  bool refuses, all_ones, caps_loop, behind_bridge, moving_config;
  bool random;  // acts at barriers
  bool loose;   // registers are noise and nothing is checked
  // State
  u8 status;
  u32 reset_left;
  u32 select, accept_select;
  u64 accepted;
  u16 queue, config_vector;
  u16 msix_control;
  struct fake_queue q[QUEUES];
  u8 config[64];
  u32 generation;
  u8 cfg[2][256];  // the bridge's, the device's
  // What it saw
  u32 resets, failed;
  u8 sent[1 << 17];  // the last frame, header first
  u32 sent_len;
  u32 sent_count;
  u64 seed;
  void (*on_config)(void);  // before a read of the configuration
  void (*on_relax)(void);   // while the driver waits
};

static struct fake F;
static u8 arena[24u << 20] __attribute__((aligned(4096)));
static usize arena_used;
static bool arena_refuses;

static u32 rnd(u32 below) {
  F.seed = F.seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(F.seed >> 33) % below;
}

void assert_fail(const char *where, const char *what) {
  fail_msg("assertion failed at %s: %s", where, what);
  abort();
}

static struct span arena_alloc(usize len) {
  len = ALIGN_UP(len, (usize)4096);
  if (arena_refuses || len > sizeof arena - arena_used) {
    return span_of(NULL, 0);
  }
  u8 *p = arena + arena_used;
  arena_used += len;
  memset(p, 0, len);
  return span_of(p, len);
}
static u64 arena_phys(const void *at) {
  u64 off = (u64)((const u8 *)at - arena);
  assert_true(off < sizeof arena);
  return 0x100000 + off;  // not the address itself, so that a forgotten translation shows
}
static u8 *arena_at(u64 phys, u64 len) {
  u64 off = phys - 0x100000;
  assert_true(off < sizeof arena && len <= sizeof arena - off);
  return arena + off;
}
static void *map_mmio(u64 phys, usize len) {
  (void)len;
  return (void *)(uptr)phys;
}
static u64 fake_now_ns(void) {
  static u64 now;
  return now += 1000000;
}
static const struct dma_ops fake_ops = {arena_alloc, arena_phys, map_mmio, fake_now_ns};

static volatile u16 *u16_at(u64 phys) {
  return (volatile u16 *)(void *)arena_at(phys, 2);
}
static bool live(void) {
  return (F.status & 4) != 0 && F.reset_left == 0;
}
static bool event_idx(void) {
  return (F.accepted & VIRTIO_F_EVENT_IDX) != 0;
}

// --- Visibility

static void show_entries(struct fake_queue *q) {
  if (q->enabled) {
    memcpy(q->desc, arena_at(q->desc_at, 16u * q->size), 16u * q->size);
    memcpy(q->ring, arena_at(q->avail_at + 4, 2u * q->size), 2u * q->size);
  }
}
static void show_index(struct fake_queue *q) {
  if (q->enabled) {
    q->wish_flags = *u16_at(q->avail_at);
    q->avail_idx = *u16_at(q->avail_at + 2);
    q->wish_event = *u16_at(q->avail_at + 4 + 2u * q->size);
    assert_true(!event_idx() || q->wish_flags == 0);  // 2.7.7.1
  }
}
static void drain(void) {
  for (u32 i = 0; i < F.queues; i++) {
    show_index(&F.q[i]);
  }
}

// --- The device at work

static void put_element(struct fake_queue *q, u32 id, u32 len) {
  q->element[q->element_end % RING_MAX][0] = id;
  q->element[q->element_end % RING_MAX][1] = len;
  q->element_end++;
  q->used++;
}
static void show_elements(struct fake_queue *q) {
  for (; q->element_first != q->element_end; q->element_first++) {
    u32 slot = (u16)(q->used - (q->element_end - q->element_first)) & (q->size - 1u);
    volatile u32 *e = (volatile u32 *)(void *)arena_at(q->used_at + 4 + 8 * slot, 8);
    e[0] = q->element[q->element_first % RING_MAX][0];
    e[1] = q->element[q->element_first % RING_MAX][1];
  }
}

// Shows the used index and interrupts if the driver, as far as visible, wishes so.
static void show_used(struct fake_queue *q) {
  u16 before = q->used_shown;
  *u16_at(q->used_at + 2) = q->used;
  q->used_shown = q->used;
  bool want = event_idx() ? (u16)(q->used - q->wish_event - 1) < (u16)(q->used - before)
                          : (q->wish_flags & 1) == 0;
  q->interrupts += want;
}

// Takes what is visible; then asks to be told, looks once more, and sleeps.
static void fetch(struct fake_queue *q) {
  if (!live() || (q->asleep && !q->told)) {
    return;
  }
  q->told = false;
  q->asleep = false;
  assert_true((u16)(q->avail_idx - q->seen) <= q->size);
  while (q->seen != q->avail_idx) {
    u16 head = q->ring[q->seen & (q->size - 1u)];
    assert_true(head < q->size);
    for (u32 i = 0; i < q->held_count; i++) {
      assert_true(q->held[i] != head);  // given twice
    }
    q->held[q->held_count++] = head;
    q->seen++;
  }
  if (event_idx()) {
    *u16_at(q->used_at + 4 + 8u * q->size) = q->seen;
  } else {
    *u16_at(q->used_at) = 0;
  }
  q->asleep = true;
}
// Awake without being told, as a polling device is: notifications are not wanted meanwhile.
static void wake(struct fake_queue *q) {
  if (live() && !event_idx()) {
    *u16_at(q->used_at) = 1;
  }
  q->asleep = false;
}
static void act(void) {
  for (u32 i = 0; F.random && i < F.queues; i++) {
    u32 what = rnd(8);
    if (what == 0) {
      fetch(&F.q[i]);
    } else if (what == 1 && live()) {
      wake(&F.q[i]);
    }
  }
}

void cpu_wmb(void) {
  act();
  for (u32 i = 0; i < F.queues; i++) {
    show_entries(&F.q[i]);
  }
}
void cpu_mb(void) {
  act();
  drain();
  act();
}
void cpu_rmb(void) {
  for (u32 i = 0; i < F.queues; i++) {
    show_elements(&F.q[i]);
  }
}
void cpu_relax(void) {
  if (F.on_relax != NULL) {
    F.on_relax();
  }
}

// Walks a chain; returns its parts. Checks direction and length (2.7.5.3.1, 2.7.4.2). EITHER: what
// the device reads comes first.
#define EITHER 2
static u32 walk(struct fake_queue *q, u16 head, struct vq_desc *out, int device_writes) {
  const struct vq_desc *table = q->desc;
  u32 limit = q->size;
  u32 at = head;
  u32 count = 0;
  if ((q->desc[head].flags & 4) != 0) {
    assert_true((F.accepted & VIRTIO_F_INDIRECT) != 0);
    assert_int_equal(q->desc[head].flags, 4);
    table = (const struct vq_desc *)(void *)arena_at(q->desc[head].phys, q->desc[head].len);
    limit = q->desc[head].len / 16;
    at = 0;
  }
  for (;;) {
    assert_true(at < limit && count < q->size);
    assert_true((table[at].flags & 4) == 0);
    bool writes = (table[at].flags & 2) != 0;
    assert_true(device_writes == EITHER || writes == device_writes);
    assert_true(writes || count == 0 || (out[count - 1].flags & 2) == 0);
    assert_true(table[at].len != 0);
    out[count++] = table[at];
    if ((table[at].flags & 1) == 0) {
      return count;
    }
    at = table[at].next;
  }
}

static u16 pick_held(struct fake_queue *q) {
  u32 i = rnd(q->held_count);
  u16 head = q->held[i];
  q->held[i] = q->held[--q->held_count];
  return head;
}
static bool legacy_driven(void) {
  return (F.accepted & VIRTIO_F_VERSION_1) == 0;
}
static u32 header_len(void) {
  return legacy_driven() && (F.accepted & NET_F(15)) == 0 ? 10 : 12;
}

// An id that the driver has not given.
static u32 not_held(const struct fake_queue *q, u16 head) {
  for (u32 id = q->size; id-- > 0;) {
    bool held = id == head;
    for (u32 i = 0; i < q->held_count; i++) {
      held = held || q->held[i] == id;
    }
    if (!held) {
      return id;
    }
  }
  return q->size;
}

// Completes one sent frame, any of those held. False: none is held.
static bool send_one(enum fault fault) {
  static struct vq_desc parts[RING_MAX];
  struct fake_queue *q = &F.q[1];
  if (q->held_count == 0) {
    return false;
  }
  u16 head = pick_held(q);
  u32 count = walk(q, head, parts, false);
  F.sent_len = 0;
  for (u32 i = 0; i < count; i++) {
    assert_true(F.sent_len + parts[i].len <= sizeof F.sent);
    memcpy(F.sent + F.sent_len, arena_at(parts[i].phys, parts[i].len), parts[i].len);
    F.sent_len += parts[i].len;
  }
  if (legacy_driven() && (F.accepted & VIRTIO_F_ANY_LAYOUT) == 0) {
    assert_int_equal(parts[0].len, header_len());  // legacy framing (5.1.9 legacy)
  }
  F.sent_count++;
  u32 id = fault == FAULT_ID_TOO_BIG ? q->size + rnd(1u << 20) : head;
  id = fault == FAULT_ID_NOT_HELD ? not_held(q, head) : id;
  put_element(q, id, rnd(1u << 16));
  if (fault == FAULT_ID_TWICE) {
    put_element(q, head, 0);
  }
  show_used(q);
  return true;
}

// Receives a frame of len bytes, each (u8)(base + its offset). False: not enough buffers.
static bool receive(u32 len, u8 base, const u8 header[12], enum fault fault) {
  static struct vq_desc parts[RING_MAX];
  struct fake_queue *q = &F.q[0];
  u32 done = 0;
  u32 wrote_header = 0;
  u32 hdr = header_len();
  bool merge = (F.accepted & NET_F(15)) != 0;
  u32 need = merge ? (len + hdr + 4095) / 4096 : 1;
  if (!live() || q->held_count < need) {
    return false;
  }
  u8 head_bytes[12];
  memcpy(head_bytes, header, 12);
  store_le16(head_bytes + 10, (u16)(fault == FAULT_MANY_BUFFERS ? 21 + rnd(60000) : need));
  for (u32 b = 0; b < need; b++) {
    u16 head = pick_held(q);
    u32 count = walk(q, head, parts, true);
    u32 wrote = 0;
    if (b == 0 && legacy_driven() && !merge && (F.accepted & VIRTIO_F_ANY_LAYOUT) == 0) {
      assert_int_equal(parts[0].len, 10);
    }
    for (u32 p = 0; p < count; p++) {
      u8 *at = arena_at(parts[p].phys, parts[p].len);
      for (u32 i = 0; i < parts[p].len && done < len; i++, wrote++) {
        at[i] = wrote_header < hdr ? head_bytes[wrote_header++] : (u8)(base + done++);
      }
    }
    u32 said = wrote;
    said = fault == FAULT_LEN_LONG ? 4097 + rnd(1u << 30) : said;
    said = fault == FAULT_LEN_SHORT ? rnd(hdr + 14) : said;
    u32 id = head;
    id = fault == FAULT_ID_TOO_BIG ? q->size + rnd(1u << 30) : id;
    id = fault == FAULT_ID_NOT_HELD ? not_held(q, head) : id;
    put_element(q, id, said);
    if (fault == FAULT_ID_TWICE) {
      put_element(q, id, said);
    }
  }
  if (fault == FAULT_INDEX_JUMP) {
    *u16_at(q->used_at + 2) = (u16)(q->used + q->size + 1);
  } else {
    show_used(q);
  }
  return true;
}

// --- Registers

static struct fake_queue *selected(void) {
  return F.queue < F.queues ? &F.q[F.queue] : NULL;
}
static u16 max_size(void) {
  return F.queue < F.queues ? F.queue_size[F.queue] : 0;
}
static void reset_now(void) {
  F.accepted = 0;
  F.queue = 0;
  F.config_vector = 0xffff;
  memset(F.q, 0, sizeof F.q);
  for (u32 i = 0; i < F.queues; i++) {
    F.q[i].vector = 0xffff;
    F.q[i].size = F.queue_size[i];
    F.q[i].asleep = true;
  }
}
static void status_write(u8 v) {
  if (v == 0) {
    F.resets++;
    F.reset_left = F.reset_looks;
    F.status = F.reset_looks == 0 ? 0 : F.status;
    if (F.reset_left == 0) {
      reset_now();
    }
    return;
  }
  assert_int_equal(F.reset_left, 0);         // nothing before the reset is done (2.4.2)
  assert_int_equal(F.status & v, F.status);  // no bit is taken back (2.1.1)
  F.failed += (v & 128) != 0;
  if ((v & 128) == 0) {
    assert_true((v & 2) == 0 || (v & 1) != 0);
    assert_true((v & 8) == 0 || (F.status & 3) == 3);
    assert_true((v & 4) == 0 || legacy_driven() || (F.status & 8) != 0);
  }
  F.status = (v & 8) != 0 && F.refuses ? v & ~8 : v;
}
static u8 status_read(void) {
  if (F.reset_left != 0 && F.reset_left != U32_MAX) {
    // It goes on writing until the reset is done (2.4.1).
    if (F.q[0].enabled && F.q[0].held_count != 0) {
      put_element(&F.q[0], F.q[0].held[0], 64);
      show_elements(&F.q[0]);
      *u16_at(F.q[0].used_at + 2) = F.q[0].used;
    }
    if (--F.reset_left == 0) {
      F.status = 0;
      reset_now();
    }
  }
  return F.reset_left != 0 ? F.status | 1 : F.status;
}
static void accept(u32 word, u32 v) {
  assert_true(word < 2 || v == 0);
  assert_true((F.status & 0xe) == 2);  // after DRIVER, before FEATURES_OK and DRIVER_OK
  u64 f = word < 2 ? (u64)v << (32 * word) : 0;
  assert_true((f & ~F.offered) == 0);  // 2.2.1
  F.accepted |= f;
}
static void enable(struct fake_queue *q) {
  assert_true((F.status & 4) == 0);
  assert_true(legacy_driven() || (F.status & 8) != 0);  // 3.1.1: features first
  assert_true(IS_POWER_OF_TWO(q->size) && q->size <= max_size());
  assert_true(q->desc_at % 16 == 0 && q->avail_at % 2 == 0 && q->used_at % 4 == 0);
  (void)arena_at(q->desc_at, 16u * q->size);
  (void)arena_at(q->avail_at, 6u + 2u * q->size);
  (void)arena_at(q->used_at, 6u + 8u * q->size);
  q->enabled = true;
}
static void notified(u32 idx, u32 v) {
  assert_true(live());  // never before DRIVER_OK (3.1.1)
  assert_true(idx < F.queues);
  assert_int_equal(v, idx);
  drain();
  F.q[idx].notified++;
  if (event_idx()) {
    u32 event = 1u + *u16_at(F.q[idx].used_at + 4 + 8u * F.q[idx].size);
    F.q[idx].needless += event == F.q[idx].kicked_for;
    F.q[idx].kicked_for = event;
  }
  F.q[idx].told = true;
}
static u16 vector_ok(u16 v) {
  return F.no_vectors || (F.msix_control & 0x8000) == 0 ? 0xffff : v;
}
static u32 config_read(u32 off, u32 width) {
  assert_true(off + width <= sizeof F.config);
  if (F.on_config != NULL) {
    F.on_config();
  }
  if (F.moving_config && rnd(3) == 0) {
    F.generation++;
    F.config[0] = (u8)(2 + 4 * rnd(8));
    F.config[5] = F.config[0];
    F.moving_config = rnd(6) != 0;
  }
  u32 v = 0;
  memcpy(&v, F.config + off, width);
  return v;
}

static u32 common_read(u32 off) {
  struct fake_queue *q = selected();
  switch (off) {
  case 0x04: return F.select < 2 ? (u32)(F.offered >> (32 * F.select)) : 0;
  case 0x10: return F.config_vector;
  case 0x14: return status_read();
  case 0x15: return F.generation & 0xff;
  case 0x18: return q == NULL ? 0 : q->size;
  case 0x1a: return q == NULL ? 0xffff : q->vector;
  case 0x1c: return q != NULL && q->enabled;
  case 0x1e: return F.notify_off[F.queue & 3];
  default: fail_msg("read of common register %#x", off); return 0;
  }
}
static void half(u64 *at, u32 v, bool high) {
  *at = high ? (*at & U32_MAX) | (u64)v << 32 : (*at & ~(u64)U32_MAX) | v;
}
static void common_write(u32 off, u32 v) {
  struct fake_queue *q = selected();
  switch (off) {
  case 0x00: F.select = v; return;
  case 0x08: F.accept_select = v; return;
  case 0x0c: accept(F.accept_select, v); return;
  case 0x10: F.config_vector = vector_ok((u16)v); return;
  case 0x14: status_write((u8)v); return;
  case 0x16: F.queue = (u16)v; return;
  default: break;
  }
  assert_non_null(q);
  assert_false(q->enabled);  // all of a queue before its enable (4.1.4.3.2)
  if (off == 0x18) {
    q->size = (u16)v;
  } else if (off == 0x1a) {
    q->vector = vector_ok((u16)v);
  } else if (off == 0x1c) {
    assert_int_equal(v, 1);
    enable(q);
  } else if (off >= 0x20 && off < 0x38) {
    u64 *at[3] = {&q->desc_at, &q->avail_at, &q->used_at};
    half(at[(off - 0x20) / 8], v, (off & 4) != 0);
  } else {
    fail_msg("write of common register %#x", off);
  }
}
static u32 common_width(u32 off) {
  if (off == 0x14 || off == 0x15) {
    return 1;
  }
  return off >= 0x10 && off < 0x20 ? 2 : 4;
}

// --- Configuration space, ports, memory

static u8 *function(u32 bus, u32 devfn) {
  if (F.behind_bridge) {
    return bus == 0 && devfn == 8 ? F.cfg[0] : bus == 3 && devfn == 0 ? F.cfg[1] : NULL;
  }
  return bus == 0 && devfn == 8 ? F.cfg[1] : NULL;
}
static u32 cfg_read(u32 bus, u32 devfn, u32 off, u32 width) {
  u8 *f = function(bus, devfn);
  u32 v = U32_MAX;
  assert_true(off + width <= 256 && off % width == 0);
  if (f != NULL) {
    memcpy(&v, f + off, width);
  }
  return width == 4 ? v : v & ((1u << (8 * width)) - 1);
}
static void cfg_write(u32 bus, u32 devfn, u32 off, u32 width, u32 v) {
  u8 *f = function(bus, devfn);
  assert_non_null(f);
  memcpy(f + off, &v, width);
  if (off == 0xb2) {
    F.msix_control = (u16)v;
  }
}

// A register that means nothing.
static u32 noise(u32 width) {
  u32 v = rnd(1u << 16) << 16 | rnd(1u << 16);
  v = rnd(3) == 0 ? v & 0x113 : v;
  return width == 4 ? v : v & ((1u << (8 * width)) - 1);
}

u32 fake_mmio_read(u64 at, u32 width) {
  bool config = at >= ECAM_AT && at < ECAM_AT + (256u << 20);
  if (F.loose && !config) {
    return at == MODERN_AT + 0x18 && rnd(4) != 0   ? 32u << rnd(4)
           : at == MODERN_AT + 0x1e && rnd(4) != 0 ? rnd(8)
                                                   : noise(width);
  }
  if (config) {
    u32 a = (u32)(at - ECAM_AT);
    return cfg_read(a >> 20, a >> 12 & 0xff, a & 0xfff, width);
  }
  u64 off = at - MODERN_AT;
  assert_true(off < 0x10000);
  if (off >= CONFIG_OFF && off < NOTIFY_OFF) {
    return config_read((u32)off - CONFIG_OFF, width);
  }
  assert_int_equal(width, common_width((u32)off));
  return common_read((u32)off);
}
void fake_mmio_write(u64 at, u32 width, u32 v) {
  bool config = at >= ECAM_AT && at < ECAM_AT + (256u << 20);
  if (F.loose && !config) {
    return;
  }
  if (config) {
    u32 a = (u32)(at - ECAM_AT);
    cfg_write(a >> 20, a >> 12 & 0xff, a & 0xfff, width, v);
    return;
  }
  if (at >= MSIX_AT && at < MSIX_AT + 64) {
    assert_int_equal(width, 4);
    return;
  }
  u64 off = at - MODERN_AT;
  assert_true(off < 0x10000);
  if (off >= NOTIFY_OFF) {
    u32 where = (u32)off - NOTIFY_OFF;
    assert_int_equal(width, 2);
    assert_int_equal(where, F.notify_off[v & 3] * F.notify_multiplier);
    notified(v, v);
    return;
  }
  assert_int_equal(width, common_width((u32)off));
  common_write((u32)off, v);
}

static u32 cf8;
u32 fake_io_read(u16 port, u32 width) {
  if (F.loose) {
    return port == IO_AT + 0x0c && rnd(4) != 0 ? 32u << rnd(4) : noise(width);
  }
  if (port >= 0xcfc && port < 0xd00) {
    return cfg_read(cf8 >> 16 & 0xff, cf8 >> 8 & 0xff, (cf8 & 0xfc) + port - 0xcfcu, width);
  }
  struct fake_queue *q = selected();
  u32 off = (u32)port - IO_AT;
  assert_true(F.has_legacy && off < 128);
  bool msix = (F.msix_control & 0x8000) != 0;
  if (F.all_ones) {
    return U32_MAX;
  }
  switch (off) {
  case 0x00: return (u32)F.offered;
  case 0x0c: return q == NULL ? 0 : q->size;
  case 0x12: return status_read();
  case 0x14: return msix ? F.config_vector : config_read(0, width);
  case 0x16: return msix ? (q == NULL ? 0xffff : q->vector) : config_read(2, width);
  default:
    assert_true(off >= (msix ? 0x18u : 0x14u));
    return config_read(off - (msix ? 0x18u : 0x14u), width);
  }
}
static void legacy_place(struct fake_queue *q, u32 pfn) {
  assert_non_null(q);
  q->desc_at = (u64)pfn << 12;
  q->avail_at = q->desc_at + 16u * q->size;
  q->used_at = ALIGN_UP(q->avail_at + 6u + 2u * q->size, (u64)4096);
  enable(q);
}
void fake_io_write(u16 port, u32 width, u32 v) {
  if (F.loose) {
    return;
  }
  if (port == 0xcf8) {
    cf8 = v;
    return;
  }
  if (port >= 0xcfc && port < 0xd00) {
    cfg_write(cf8 >> 16 & 0xff, cf8 >> 8 & 0xff, (cf8 & 0xfc) + port - 0xcfcu, width, v);
    return;
  }
  u32 off = (u32)port - IO_AT;
  assert_true(F.has_legacy && off < 128);
  struct fake_queue *q = selected();
  if (off == 0x04) {
    accept(0, v);
  } else if (off == 0x08) {
    legacy_place(q, v);
  } else if (off == 0x0e) {
    F.queue = (u16)v;
  } else if (off == 0x10) {
    notified(v, v);
  } else if (off == 0x12) {
    status_write((u8)v);
  } else if (off == 0x14) {
    F.config_vector = vector_ok((u16)v);
  } else if (off == 0x16) {
    assert_non_null(q);
    q->vector = vector_ok((u16)v);
  } else {
    fail_msg("write of legacy register %#x", off);
  }
}

// --- Building the machine

static void put32(u8 *f, u32 off, u32 v) {
  memcpy(f + off, &v, 4);
}
static void add_cap(u32 at, u32 next, u8 kind, u32 off, u32 len) {
  u8 *f = F.cfg[1];
  f[at] = 0x09;
  f[at + 1] = (u8)next;
  f[at + 2] = 20;
  f[at + 3] = kind;
  f[at + 4] = 4;  // BAR 4
  put32(f, at + 8, off);
  put32(f, at + 12, len);
  put32(f, at + 16, F.notify_multiplier);
}
static void build(void) {
  u8 *f = F.cfg[1];
  memset(F.cfg, 0, sizeof F.cfg);
  put32(f, 0, (u32)(F.has_legacy ? F.device_legacy : F.device_modern) << 16 | 0x1af4);
  put32(f, 8, 0x02000000);
  put32(f, 4, 0x10u << 16);
  put32(f, 0x10, F.has_legacy ? IO_AT | 1 : 0);
  put32(f, 0x14, 0);
  put32(f, 0x18, (u32)MSIX_AT | 4);  // BAR 2 and 3
  put32(f, 0x1c, (u32)(MSIX_AT >> 32));
  put32(f, 0x20, (u32)MODERN_AT | 0xc);  // BAR 4 and 5
  put32(f, 0x24, (u32)(MODERN_AT >> 32));
  f[0x34] = F.msix ? 0xb0 : 0x40;
  f[0xb0] = 0x11;
  f[0xb1] = 0x40;
  f[0xb2] = 3;  // four vectors
  put32(f, 0xb4, 2);
  if (F.has_modern) {
    add_cap(0x40, 0x54, 9, 0, 4);  // a kind that nobody knows
    add_cap(0x54, 0x68, 1, 0, 64);
    add_cap(0x68, 0x7c, 2, NOTIFY_OFF, 0x1000);
    add_cap(0x7c, 0x90, 4, CONFIG_OFF, sizeof F.config);
    add_cap(0x90, F.caps_loop ? 0x40 : 0, 1, 0xf000, 64);  // a second one is not to be used
  } else {
    f[0x40] = 0x01;
    f[0x41] = F.caps_loop ? 0x40 : 0;
  }
  u8 *b = F.cfg[0];
  put32(b, 0, 0x000c1b36);
  put32(b, 8, 0x06040000);
  b[0x0e] = 1;
  b[0x19] = 3;
}
// A transitional device as QEMU's; the caller changes it, then calls plug().
static void fake_default(u64 seed) {
  memset(&F, 0, sizeof F);
  F.seed = seed;
  F.has_modern = true;
  F.has_legacy = true;
  F.msix = true;
  F.random = true;
  F.queues = 2;
  F.device_legacy = 0x1000;
  F.device_modern = 0x1041;
  F.queue_size[0] = 256;
  F.queue_size[1] = 256;
  F.notify_multiplier = 4;
  F.notify_off[1] = 1;
  F.notify_off[2] = 2;
  F.reset_looks = 3;
  F.offered = NET_F(0) | NET_F(1) | NET_F(3) | NET_F(5) | NET_F(7) | NET_F(8) | NET_F(11) |
              NET_F(12) | NET_F(15) | NET_F(16) | NET_F(17) | NET_F(22) | VIRTIO_F_ANY_LAYOUT |
              VIRTIO_F_INDIRECT | VIRTIO_F_EVENT_IDX | VIRTIO_F_VERSION_1 | VIRTIO_F_RING_RESET |
              NET_F(50) | NET_F(63);
  static const u8 config[12] = {2, 0, 0, 0, 0, 2, 1, 0, 1, 0, 0xdc, 0x05};
  memcpy(F.config, config, sizeof config);
  arena_used = 0;
  arena_refuses = false;
}
