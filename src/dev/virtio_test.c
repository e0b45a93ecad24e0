// SPDX-License-Identifier: Apache-2.0
// Proves: the driver starts every kind of virtio-net device (modern, transitional, legacy; any set
// of features, any queue size) by the letter of virtio 1.2 3.1; over hundreds of thousands of
// operations against a device that completes in any order, lies about lengths of sent frames and
// acts at every barrier, each frame arrives once, whole and in order, each token comes back once,
// no notification and no interrupt is lost; a device that breaks the rules costs a frame or itself,
// never the program. tests/dev/mutants proves that the test notices.
#include "dev/fake_virtio_test_support.h"

#define BUFS 600u
#define FRAMES_MAX 4096u
#define TSO (NET_F(7) | NET_F(8))

static struct pci machine;
static struct virtio_net net;
static u32 free_bufs[BUFS];
static u32 free_count;

static enum err plug(bool by_memory) {
  struct pci_dev found[4];
  build();
  pci_init(&machine, &fake_ops, by_memory ? ECAM_AT : 0, 0, 255);
  u32 count = pci_scan(&machine, false, found, 4);
  assert_int_equal(count, F.behind_bridge ? 2 : 1);
  const struct pci_dev *d = &found[count - 1];
  assert_true(virtio_net_is(d));
  struct span memory = arena_alloc((usize)BUFS * VIRTIO_NET_BUF);
  enum err e = virtio_net_open(&net, d, &fake_ops, memory.ptr, 0xfee00000, 0x41);
  for (free_count = 0; free_count < BUFS; free_count++) {
    free_bufs[free_count] = free_count;
  }
  return e;
}

static void refill(void) {
  while (free_count != 0 && virtio_net_rx_give(&net, free_bufs[free_count - 1])) {
    free_count--;
  }
  virtio_net_rx_kick(&net);
}

// Nothing may lie unseen before a device that sleeps and was not told (2.7.13.4.1).
static void no_lost_kick(void) {
  act();
  act();
  drain();
  for (u32 i = 0; i < 2; i++) {
    struct fake_queue *q = &F.q[i];
    if (q->asleep && !q->told && q->seen != q->avail_idx) {
      fail_msg("queue %u: the device sleeps before %u chains", i, (u16)(q->avail_idx - q->seen));
    }
  }
}

// --- Traffic

struct traffic {
  u32 expected_len[FRAMES_MAX];
  u8 expected_base[FRAMES_MAX];
  u32 first, end;  // frames received by the device and not yet taken
  u32 tx_next;
  u32 tx_out;
  u8 out[1 << 18];  // tokens with the device
  u8 *pattern;
  u64 pattern_phys;
};
static struct traffic T;

static void traffic_start(void) {
  memset(&T, 0, sizeof T);
  struct span s = arena_alloc(65536);
  T.pattern = s.ptr;
  T.pattern_phys = arena_phys(s.ptr);
  for (u32 i = 0; i < 65536; i++) {
    T.pattern[i] = (u8)(i * 7 + (i >> 8));
  }
  refill();
  no_lost_kick();
  assert_true(F.q[0].notified >= 1);  // once after DRIVER_OK
}

static void send_frames(u32 batch) {
  for (u32 k = 0; k < batch; k++) {
    struct vq_part parts[VIRTIO_NET_PARTS + 1];
    u32 count = 1 + rnd(VIRTIO_NET_PARTS);
    for (u32 i = 0; i < count; i++) {
      u32 len = 1 + rnd(300);
      parts[i + 1] = (struct vq_part){T.pattern_phys + rnd(65000), len, false};
    }
    u32 token = T.tx_next;
    struct virtio_net_tx t = {.parts = parts, .count = count, .token = (void *)(uptr)(token + 1)};
    if (net.tx_csum && rnd(2) != 0) {
      t.csum_start = 34;
      t.csum_offset = 16;
      t.gso = net.tx_tso4 && rnd(2) != 0 ? 1 : 0;
      t.gso_size = 1460;
    }
    if (!virtio_net_tx_add(&net, &t)) {
      break;
    }
    T.out[token] = 1;
    T.tx_next++;
    T.tx_out++;
  }
  virtio_net_tx_kick(&net);
  no_lost_kick();
}

static void check_sent(void) {
  u32 hdr = header_len();
  assert_true(F.sent_len > hdr);
  assert_true(F.sent[0] <= 1 && (F.sent[1] == 0 || F.sent[1] == 1));
  assert_true(F.sent[1] == 0 || F.sent[0] == 1);  // GSO needs NEEDS_CSUM (5.1.6.2.1)
  assert_true((F.sent[1] == 0) == (load_le16(F.sent + 4) == 0));
  assert_int_equal(load_le16(F.sent + 6), F.sent[0] != 0 ? 34 : 0);
  if (hdr == 12) {
    assert_int_equal(load_le16(F.sent + 10), 0);
  }
}

static void reap(void) {
  void *token = NULL;
  while (virtio_net_tx_done(&net, &token)) {
    u32 id = (u32)(uptr)token - 1;
    assert_true(id < T.tx_next);
    assert_int_equal(T.out[id], 1);  // exactly once
    T.out[id] = 2;
    T.tx_out--;
  }
}

static void device_receives(void) {
  u32 len = rnd(8) == 0 && net.mergeable ? 60 + rnd(60000) : 60 + rnd(1455);
  u8 base = (u8)rnd(256);
  u8 header[12] = {(u8)rnd(3), 0};
  if ((F.accepted & NET_F(7)) != 0 && len > 1514) {
    header[0] = 1;
    header[1] = (u8)(1 | (rnd(2) << 7));  // the ECN bit is not part of the kind
    store_le16(header + 4, 1460);
  }
  if (T.end - T.first < FRAMES_MAX && receive(len, base, header, FAULT_NONE)) {
    T.expected_len[T.end % FRAMES_MAX] = len;
    T.expected_base[T.end % FRAMES_MAX] = base;
    T.end++;
  }
}

static void take_frames(u32 max) {
  struct virtio_net_rx f;
  u32 drop = 0;
  for (u32 k = 0; k < max && virtio_net_rx_take(&net, &f, &drop); k++) {
    assert_int_equal(drop, 0);
    assert_true(T.first != T.end);
    u32 len = T.expected_len[T.first % FRAMES_MAX];
    u8 base = T.expected_base[T.first % FRAMES_MAX];
    u32 at = 0;
    for (u32 i = 0; i < f.count; i++) {
      const u8 *p = net.rx_memory + (usize)f.buf[i] * VIRTIO_NET_BUF + (i == 0 ? f.first_off : 0);
      for (u32 j = 0; j < f.len[i]; j++) {
        if (p[j] != (u8)(base + at + j)) {
          fail_msg("byte %u of a frame is not the one received", at + j);
        }
      }
      at += f.len[i];
      free_bufs[free_count++] = f.buf[i];
    }
    assert_int_equal(at, len);
    assert_int_equal(f.gso_size, (F.accepted & NET_F(7)) != 0 && len > 1514 ? 1460 : 0);
    T.first++;
  }
}

// The program wants to halt. If it may, whatever completes next must interrupt it.
static void sleep_and_wake(void) {
  if (!virtio_net_arm(&net, true)) {
    assert_true(T.first == T.end);
    for (u32 i = 0; i < 2; i++) {
      u32 before = F.q[i].interrupts;
      u32 ended = F.q[i].used;
      fetch(&F.q[i]);
      if (i == 0) {
        device_receives();
      } else if (send_one(FAULT_NONE)) {
        check_sent();
      }
      if (F.q[i].used != ended && F.q[i].interrupts == before) {
        fail_msg("queue %u: a completion in the sleep interrupts nobody", i);
      }
    }
    no_lost_kick();
  }
  (void)virtio_net_arm(&net, false);
}

static void traffic(u32 turns) {
  for (u32 turn = 0; turn < turns; turn++) {
    switch (rnd(7)) {
    case 0: send_frames(1 + rnd(8)); break;
    case 1: fetch(&F.q[rnd(2)]); break;
    case 2:
      for (u32 i = rnd(12); i-- > 0 && send_one(FAULT_NONE);) {
        check_sent();
      }
      break;
    case 3:
      for (u32 i = rnd(12); i-- > 0;) {
        device_receives();
      }
      break;
    case 4:
      take_frames(1 + rnd(20));
      refill();
      no_lost_kick();
      break;
    case 5: reap(); break;
    default: sleep_and_wake(); break;
    }
    assert_false(net.dead);
  }
  // Everything comes to its end.
  for (u32 i = 0; i < 4; i++) {
    drain();
    F.q[1].told = true;
    fetch(&F.q[1]);
    while (send_one(FAULT_NONE)) {
    }
    reap();
    take_frames(U32_MAX);
    refill();
  }
  assert_int_equal(T.tx_out, 0);
  assert_true(T.first == T.end);
  assert_int_equal(vq_outstanding(&net.tx), 0);
  assert_int_equal(net.rx_bad, 0);
  assert_true(F.q[0].needless <= 1 && F.q[1].needless == 0);  // the first kick is always given
}

static void kind(u32 k) {
  F.has_modern = k != 2;
  F.has_legacy = k != 1;
  if (k == 2) {
    F.offered &= U32_MAX;
  }
}

static void every_device(void **state) {
  (void)state;
  static const u64 removable[] = {VIRTIO_F_EVENT_IDX, NET_F(15), VIRTIO_F_INDIRECT,
                                  VIRTIO_F_ANY_LAYOUT};
  for (u32 k = 0; k < 3; k++) {
    for (u32 without = 0; without < 16; without++) {
      fake_default(1000 + 16 * k + without);
      kind(k);
      for (u32 i = 0; i < 4; i++) {
        F.offered &= (without >> i & 1) != 0 ? ~removable[i] : U64_MAX;
      }
      assert_int_equal(plug(k != 2), ERR_OK);
      assert_int_equal(net.virtio.legacy, k == 2);
      assert_true(net.virtio.interrupts);
      assert_int_equal(net.header_len, k == 2 && (without & 2) != 0 ? 10 : 12);
      assert_true((without & 2) == 0 || (F.accepted & TSO) == 0);
      assert_memory_equal(net.mac, "\2\0\0\0\0\2", 6);
      traffic_start();
      traffic(2500);
    }
  }
}

static void wraps(void **state) {
  (void)state;
  for (u32 event = 0; event < 2; event++) {
    fake_default(77 + event);
    F.offered &= event != 0 ? U64_MAX : ~VIRTIO_F_EVENT_IDX;
    F.queue_size[0] = 64;
    F.queue_size[1] = 32;
    assert_int_equal(plug(true), ERR_OK);
    traffic_start();
    u32 rx = 0;
    u32 tx = 0;
    for (u32 part = 0; part < 100 && (rx < 70000 || tx < 70000); part++) {
      traffic(4000);
      rx = T.end;
      tx = T.tx_next;
    }
    assert_true(rx > 66000 && tx > 66000);  // every 16-bit index has wrapped
  }
}

static void queue_sizes(void **state) {
  (void)state;
  static const u16 sizes[] = {2, 4, 32, 33, 100, 512, 1024, 4096};
  for (u32 k = 0; k < 3; k++) {
    for (u32 i = 0; i < ARRAY_COUNT(sizes); i++) {
      fake_default(300 + i);
      kind(k);
      F.queue_size[0] = sizes[i];
      F.queue_size[1] = MAX(sizes[i], (u16)32);
      if (k == 2 && !IS_POWER_OF_TWO(sizes[i])) {
        assert_int_equal(plug(true), ERR_UNSUPPORTED);
        assert_int_equal(F.failed, 1);
        continue;
      }
      F.offered &= sizes[i] < 32 ? ~TSO & ~NET_F(15) : U64_MAX;
      assert_int_equal(plug(true), ERR_OK);
      assert_true(net.rx.size <= sizes[i] && net.rx.size * 2 > MIN(sizes[i], (u16)256));
      traffic_start();
      traffic(300);
    }
  }
}

static void refused_and_failed(void **state) {
  (void)state;
  fake_default(1);
  F.refuses = true;
  assert_int_equal(plug(true), ERR_UNSUPPORTED);
  assert_int_equal(F.failed, 1);

  fake_default(1);
  F.queue_size[1] = 16;  // shorter than the longest chain
  assert_int_equal(plug(true), ERR_UNSUPPORTED);
  fake_default(1);
  F.queue_size[1] = 0;
  assert_int_equal(plug(true), ERR_UNSUPPORTED);
  fake_default(1);
  F.offered &= ~VIRTIO_F_VERSION_1;
  assert_int_equal(plug(true), ERR_UNSUPPORTED);
  fake_default(1);
  kind(2);
  F.all_ones = true;
  assert_int_equal(plug(true), ERR_IO);
  fake_default(1);
  F.reset_looks = U32_MAX;
  assert_int_equal(plug(true), ERR_TIMEOUT);

  fake_default(1);  // 0x10000 * 0xffff overflows nothing and is outside
  F.notify_multiplier = 0x80000000u;
  F.notify_off[1] = 2;
  assert_int_equal(plug(true), ERR_UNSUPPORTED);
  fake_default(1);
  F.notify_multiplier = 0;
  assert_int_equal(plug(true), ERR_OK);
  traffic_start();
  traffic(200);
}

static void slow_reset_of_a_live_device(void **state) {
  (void)state;
  fake_default(5);
  assert_int_equal(plug(true), ERR_OK);
  refill();
  fetch(&F.q[0]);
  F.reset_looks = 100000;  // about 100 ms of looks; it goes on writing meanwhile
  struct virtio_net old = net;
  free_count = 0;
  struct pci_dev d = old.virtio.pci;
  struct span memory = arena_alloc((usize)BUFS * VIRTIO_NET_BUF);
  assert_int_equal(virtio_net_open(&net, &d, &fake_ops, memory.ptr, 0xfee00000, 0x41), ERR_OK);
  assert_int_equal(F.resets, 2);
  for (free_count = 0; free_count < BUFS; free_count++) {
    free_bufs[free_count] = free_count;
  }
  traffic_start();
  traffic(500);
}

static void vectors(void **state) {
  (void)state;
  for (u32 k = 1; k < 3; k++) {
    for (u32 msix = 0; msix < 2; msix++) {
      fake_default(9);
      kind(k);
      F.msix = msix != 0;
      F.no_vectors = true;
      assert_int_equal(plug(false), ERR_OK);
      assert_false(net.virtio.interrupts);
      assert_memory_equal(net.mac, "\2\0\0\0\0\2", 6);  // legacy registers move with MSI-X
      assert_true(virtio_net_link(&net));
      traffic_start();
      traffic(200);
    }
  }
}

static void configuration(void **state) {
  (void)state;
  static const u16 mtus[][2] = {{0, 1500},    {67, 1500},   {68, 576},
                                {1400, 1400}, {1460, 1460}, {9000, 9000}};
  for (u32 i = 0; i < ARRAY_COUNT(mtus); i++) {
    fake_default(11);
    store_le16(F.config + 10, mtus[i][0]);
    assert_int_equal(plug(true), ERR_OK);
    assert_int_equal(net.mtu, mtus[i][1]);
  }
  fake_default(11);
  F.offered &= ~NET_F(3);
  store_le16(F.config + 10, 1400);
  assert_int_equal(plug(true), ERR_OK);
  assert_int_equal(net.mtu, 1500);
  store_le16(F.config + 6, 0);
  assert_false(virtio_net_link(&net));
  for (u32 seed = 0; seed < 50; seed++) {  // fields that belong together (2.5.1)
    fake_default(seed);
    F.moving_config = true;
    assert_int_equal(plug(true), ERR_OK);
    assert_true(net.mac[0] == net.mac[5]);
  }
  fake_default(11);
  F.offered &= ~NET_F(0) & ~NET_F(1);  // what needs them goes with them (5.1.3.1)
  assert_int_equal(plug(true), ERR_OK);
  assert_int_equal(F.accepted & (NET_F(0) | NET_F(1) | TSO | NET_F(11) | NET_F(12)), 0);
}

static void no_memory(void **state) {
  (void)state;
  struct pci_dev found[2];
  fake_default(1);
  build();
  pci_init(&machine, &fake_ops, ECAM_AT, 0, 255);
  assert_int_equal(pci_scan(&machine, false, found, 2), 1);
  struct span memory = arena_alloc((usize)BUFS * VIRTIO_NET_BUF);
  arena_refuses = true;
  assert_int_equal(virtio_net_open(&net, found, &fake_ops, memory.ptr, 0, 0), ERR_NO_MEMORY);
  assert_int_equal(F.failed, 1);
}

static void broken_receiver(void **state) {
  (void)state;
  static const enum fault faults[] = {FAULT_ID_TOO_BIG,  FAULT_ID_NOT_HELD, FAULT_ID_TWICE,
                                      FAULT_INDEX_JUMP,  FAULT_LEN_LONG,    FAULT_LEN_SHORT,
                                      FAULT_MANY_BUFFERS};
  for (u32 k = 0; k < 3; k++) {
    for (u32 i = 0; i < ARRAY_COUNT(faults); i++) {
      fake_default(40 + i);
      kind(k);
      F.offered &= faults[i] == FAULT_MANY_BUFFERS ? U64_MAX : ~NET_F(15);
      assert_int_equal(plug(true), ERR_OK);
      traffic_start();
      traffic(100);
      send_frames(5);
      F.q[0].told = true;
      fetch(&F.q[0]);
      u8 header[12] = {0};
      assert_true(receive(100, 0, header, faults[i]));
      u32 more = faults[i] == FAULT_MANY_BUFFERS ? 30 : 0;
      for (u32 m = 0; m < more; m++) {
        assert_true(receive(100, 0, header, FAULT_NONE));
      }
      struct virtio_net_rx f;
      u32 drop = 0;
      u32 good = 0;
      while (virtio_net_rx_take(&net, &f, &drop)) {
        good += f.count != 0;
        for (u32 b = 0; b < f.count + drop; b++) {
          free_bufs[free_count++] = f.buf[b];
        }
      }
      bool fatal = i < 4;
      assert_int_equal(good, more + (faults[i] == FAULT_ID_TWICE));
      assert_int_equal(net.dead, fatal);
      assert_int_equal(net.rx_bad, fatal ? 0 : 1);
      assert_int_equal(virtio_net_link(&net), !fatal);
      if (fatal) {
        u32 resets = F.resets;
        reap();  // the frames of a dead device come back, after its reset
        assert_int_equal(T.tx_out, 0);
        assert_int_equal(F.resets, resets + 1);
        assert_int_equal(F.status, 0);
        refill();
        send_frames(1);
        assert_int_equal(T.tx_out, 0);
        assert_false(virtio_net_arm(&net, true));
      } else {
        refill();
        net.rx_bad = 0;
        traffic(50);
      }
    }
  }
}

static void broken_sender(void **state) {
  (void)state;
  static const enum fault faults[] = {FAULT_ID_TOO_BIG, FAULT_ID_NOT_HELD, FAULT_ID_TWICE};
  for (u32 i = 0; i < ARRAY_COUNT(faults); i++) {
    for (u32 silent = 0; silent < 2; silent++) {
      fake_default(60 + i);
      assert_int_equal(plug(true), ERR_OK);
      traffic_start();
      send_frames(6);
      fetch(&F.q[1]);
      assert_true(send_one(faults[i]));
      F.reset_looks = silent != 0 ? 1000 : U32_MAX;
      reap();
      assert_true(net.dead);
      // A device that does not finish its reset may still read: its frames stay where they are.
      assert_int_equal(T.tx_out != 0, silent == 0);
      reap();
    }
  }
}

// The device writes over the descriptors, which are the driver's: the driver keeps its own links.
static void descriptors_overwritten(void **state) {
  (void)state;
  fake_default(70);
  F.offered &= ~VIRTIO_F_INDIRECT;
  assert_int_equal(plug(true), ERR_OK);
  traffic_start();
  for (u32 i = 0; i < 200; i++) {
    send_frames(3);
    F.q[1].told = true;
    fetch(&F.q[1]);
    while (send_one(FAULT_NONE)) {
    }
    memset(arena_at(F.q[1].desc_at, 16u * F.q[1].size), 0xff, 16u * F.q[1].size);
    reap();
    assert_int_equal(T.tx_out, 0);
  }
}

static void capabilities(void **state) {
  (void)state;
  fake_default(80);
  F.caps_loop = true;
  assert_int_equal(plug(true), ERR_OK);
  fake_default(80);
  kind(2);
  F.caps_loop = true;
  F.msix = false;
  assert_int_equal(plug(false), ERR_OK);
  fake_default(80);
  kind(1);
  F.behind_bridge = true;
  assert_int_equal(plug(true), ERR_OK);
  assert_int_equal(net.virtio.pci.bus, 3);
  fake_default(80);
  F.behind_bridge = true;
  assert_int_equal(plug(false), ERR_OK);
  struct pci_dev found[4];
  F.cfg[0][0x19] = 0;  // nobody leads to bus 3: it is a root of its own
  for (u32 by_memory = 0; by_memory < 2; by_memory++) {
    pci_init(&machine, &fake_ops, by_memory != 0 ? ECAM_AT : 0, 0, 255);
    assert_int_equal(pci_scan(&machine, false, found, 4), 1);
    assert_int_equal(pci_scan(&machine, true, found, 4), 2);
    assert_int_equal(found[1].bus, 3);
  }
  F.cfg[0][0x19] = 3;  // with every bus asked for, no function is listed twice
  assert_int_equal(pci_scan(&machine, true, found, 4), 2);
  F.cfg[0][0x19] = 0;
  F.cfg[1][0x0e] = 1;  // a bridge that leads to its own bus
  F.cfg[1][0x19] = 3;
  assert_int_equal(pci_scan(&machine, true, found, 4), 2);
}

// Any bytes at all in a device's configuration space: a scan ends, a start ends, nothing crashes.
static void any_configuration_space(void **state) {
  (void)state;
  for (u32 seed = 0; seed < 3000; seed++) {
    fake_default(seed);
    build();
    u32 changes = 1 + rnd(6);
    for (u32 i = 0; i < changes; i++) {
      F.cfg[1][0x34 + rnd(0x90)] = (u8)rnd(256);
    }
    struct pci_dev found[4];
    pci_init(&machine, &fake_ops, ECAM_AT, 0, 255);
    assert_true(pci_scan(&machine, false, found, 4) <= 4);
    for (u32 id = 0; id < 256; id++) {
      u32 at = pci_capability(found, (u8)id, 0);
      assert_true(at == 0 || (at >= 0x40 && at < 256));
    }
  }
}

// Registers that are noise, and a device that scribbles over all of its rings: whatever the driver
// makes of it, it ends, stays within its memory and keeps its own books.
static void noise_everywhere(void **state) {
  (void)state;
  u32 opened = 0;
  for (u32 seed = 0; seed < 2000; seed++) {
    fake_default(seed);
    kind(seed % 3);
    build();
    F.loose = true;
    for (u32 i = rnd(4); i-- > 0;) {
      F.cfg[1][0x10 + rnd(0xb4)] = (u8)rnd(256);
    }
    struct pci_dev found[2];
    pci_init(&machine, &fake_ops, ECAM_AT, 0, 255);
    assert_int_equal(pci_scan(&machine, false, found, 2), 1);
    struct span memory = arena_alloc((usize)BUFS * VIRTIO_NET_BUF);
    if (virtio_net_open(&net, found, &fake_ops, memory.ptr, 0, 0) != ERR_OK) {
      continue;
    }
    opened++;
    for (free_count = 0; free_count < BUFS; free_count++) {
      free_bufs[free_count] = free_count;
    }
    memset(&T, 0, sizeof T);
    T.pattern_phys = arena_phys(memory.ptr);
    for (u32 turn = 0; turn < 40 && !net.dead; turn++) {
      struct vq *q = rnd(2) != 0 ? &net.rx : &net.tx;
      u8 *ring = (u8 *)(uptr)q->desc;
      for (u32 i = rnd(30); i-- > 0;) {
        ring[rnd((u32)vq_memory_len(q->size))] = (u8)rnd(256);
      }
      *(volatile u16 *)(void *)(ring + vq_used_offset(q->size) + 2) = (u16)(q->used_idx + rnd(3));
      refill();
      send_frames(3);
      struct virtio_net_rx f;
      u32 drop = 0;
      while (virtio_net_rx_take(&net, &f, &drop)) {
        for (u32 b = 0; b < f.count + drop; b++) {
          free_bufs[free_count++] = f.buf[b];
        }
      }
      reap();
      (void)virtio_net_arm(&net, rnd(2) != 0);
      assert_true(net.dead ||
                  free_count + vq_outstanding(&net.rx) / (net.header_apart ? 2 : 1) == BUFS);
    }
  }
  assert_true(opened > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_device),
      cmocka_unit_test(wraps),
      cmocka_unit_test(queue_sizes),
      cmocka_unit_test(refused_and_failed),
      cmocka_unit_test(slow_reset_of_a_live_device),
      cmocka_unit_test(vectors),
      cmocka_unit_test(configuration),
      cmocka_unit_test(no_memory),
      cmocka_unit_test(broken_receiver),
      cmocka_unit_test(broken_sender),
      cmocka_unit_test(descriptors_overwritten),
      cmocka_unit_test(capabilities),
      cmocka_unit_test(any_configuration_space),
      cmocka_unit_test(noise_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
