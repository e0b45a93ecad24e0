// SPDX-License-Identifier: Apache-2.0
// Proves: pci_assign numbers buses in depth, places every base register aligned, inside its window
// and apart from all others, opens each bridge for what is behind it and nothing else, leaves what
// does not fit unplaced, puts large wide ones above 4 GiB on the first bus only, and touches
// nothing that firmware has placed. The functions are modelled by their configuration space.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/cpu.h"
#include "base/assert.h"
#include "dev/pci_assign.h"

#define ECAM 0x4010000000ull
#define NONE 0xffu
#define BAR_IO 1u
#define BAR_32 0u
#define BAR_64 4u

struct bar {
  u64 len;  // 0 = none; the upper half of a wide one stands behind it
  u32 kind;
};

struct function {
  u8 behind;  // index of the bridge, or NONE: on the first bus
  u8 dev;
  bool bridge;
  struct bar bar[6];
  u32 space[16];  // the header
};

static struct function machine[16];
static u32 function_count;

static struct function *find(u32 bus, u32 dev, u32 fn) {
  for (u32 i = 0; i < function_count; i++) {
    struct function *f = &machine[i];
    u32 on = f->behind == NONE ? 0 : machine[f->behind].space[6] >> 8 & 0xff;
    if (fn == 0 && f->dev == dev && on == bus && (f->behind == NONE || bus != 0)) {
      return f;
    }
  }
  return NULL;
}

static u32 bar_value(const struct function *f, u32 i) {
  bool upper = i > 0 && f->bar[i - 1].kind == BAR_64 && f->bar[i - 1].len != 0;
  u64 len = upper ? f->bar[i - 1].len : f->bar[i].len;
  if (len == 0) {
    return 0;
  }
  u64 mask = ~(len - 1);
  return upper ? f->space[4 + i] & (u32)(mask >> 32)
               : (f->space[4 + i] & (u32)mask) | f->bar[i].kind;
}

u32 fake_mmio_read(u64 at, u32 width) {
  u64 off = at - ECAM;
  struct function *f = find((u32)(off >> 20), off >> 15 & 31, off >> 12 & 7);
  if (f == NULL) {
    return U32_MAX >> (32 - 8 * width);
  }
  u32 reg = off & 0xfff;
  assert_true(reg < 64);
  u32 v = f->space[reg / 4];
  if (reg >= 16 && reg < (f->bridge ? 24u : 40u)) {
    v = bar_value(f, reg / 4 - 4);
  }
  return v >> (8 * (reg & 3)) & (U32_MAX >> (32 - 8 * width));
}

void fake_mmio_write(u64 at, u32 width, u32 v) {
  u64 off = at - ECAM;
  struct function *f = find((u32)(off >> 20), off >> 15 & 31, off >> 12 & 7);
  assert_non_null(f);
  u32 shift = 8 * (off & 3);
  u32 mask = (U32_MAX >> (32 - 8 * width)) << shift;
  u32 *word = &f->space[(off & 0xfff) / 4];
  *word = (*word & ~mask) | (v << shift & mask);
}

u32 fake_io_read(u16 port, u32 width) {
  (void)port, (void)width;
  return U32_MAX;
}
void fake_io_write(u16 port, u32 width, u32 v) {
  (void)port, (void)width, (void)v;
}
void cpu_mb(void) {}
void cpu_rmb(void) {}
void cpu_wmb(void) {}
void cpu_relax(void) {}
void assert_fail(const char *where, const char *what) {
  fail_msg("%s: %s", where, what);
  __builtin_unreachable();
}

static u8 add(u8 behind, u8 dev, bool bridge) {
  struct function *f = &machine[function_count];
  *f = (struct function){.behind = behind, .dev = dev, .bridge = bridge};
  f->space[0] = 0x10001af4;
  f->space[3] = bridge ? 1u << 16 : 0;
  return (u8)function_count++;
}

static void give(u8 which, u32 bar, u32 kind, u64 len) {
  machine[which].bar[bar] = (struct bar){len, kind};
}

static void *map(u64 phys, usize len) {
  (void)len;
  return (void *)(uptr)phys;
}

static const struct dma_ops ops = {.map_mmio = map};
static const struct pci_windows usual = {.memory = {0x10000000, 0x2eff0000, 0x10000000},
                                         .memory_64 = {0x8000000000, 0x8000000000, 0x8000000000},
                                         .io = {0, 0x10000, 0x3eff0000}};

static bool assign(const struct pci_windows *w) {
  struct pci p;
  pci_init(&p, &ops, ECAM, 0, 255);
  return pci_assign(&p, w);
}

static u64 place_of(u8 which, u32 bar) {
  const struct function *f = &machine[which];
  u64 at = bar_value(f, bar) & ~(f->bar[bar].kind == BAR_IO ? 3u : 15u);
  return f->bar[bar].kind == BAR_64 ? at | (u64)bar_value(f, bar + 1) << 32 : at;
}

static bool is_behind(u8 which, u8 bridge) {
  for (u8 up = machine[which].behind; up != NONE; up = machine[up].behind) {
    if (up == bridge) {
      return true;
    }
  }
  return false;
}

// No open bridge forwards what is not behind it.
static void check_closed(u8 which, u64 at, u64 len) {
  for (u8 i = 0; i < function_count; i++) {
    const u32 *s = machine[i].space;
    u64 from = (u64)(s[8] & 0xfff0) << 16;
    u64 to = (s[8] & 0xfff00000) | 0xfffff;
    if (machine[i].bridge && from < to && !is_behind(which, i)) {
      assert_true(at > to || at + len <= from);
    }
  }
}

// Everything placed is aligned, in a window, inside every bridge above it, and alone.
static void check_all(const struct pci_windows *w) {
  for (u8 i = 0; i < function_count; i++) {
    for (u32 b = 0; b < 6; b++) {
      u64 len = machine[i].bar[b].len;
      u64 at = place_of(i, b);
      if (len == 0 || at == 0) {
        continue;
      }
      bool io = machine[i].bar[b].kind == BAR_IO;
      const struct pci_window *in = io ? &w->io : at >> 32 != 0 ? &w->memory_64 : &w->memory;
      assert_int_equal(at % len, 0);
      assert_true(at >= in->bus && at + len <= in->bus + in->len);
      for (u8 up = machine[i].behind; up != NONE; up = machine[up].behind) {
        const u32 *s = machine[up].space;
        u64 from = io ? (s[7] & 0xf0) << 8 : (u64)(s[8] & 0xfff0) << 16;
        u64 to = io ? (s[7] & 0xf000) | 0xfff : (s[8] & 0xfff00000) | 0xfffff;
        assert_true(at >= from && at + len - 1 <= to);
      }
      if (!io) {
        check_closed(i, at, len);
      }
      for (u8 k = 0; k < function_count; k++) {
        for (u32 c = 0; c < 6; c++) {
          u64 other = place_of(k, c);
          u64 other_len = machine[k].bar[c].len;
          bool same_space = (machine[k].bar[c].kind == BAR_IO) == io;
          if ((k != i || c != b) && other_len != 0 && other != 0 && same_space) {
            assert_true(at + len <= other || other + other_len <= at);
          }
        }
      }
    }
  }
}

static void flat(void **state) {
  (void)state;
  function_count = 0;
  for (u8 i = 0; i < 4; i++) {
    u8 f = add(NONE, (u8)(3 * i + 1), false);
    give(f, 0, BAR_IO, 32u << i);
    give(f, 1, BAR_32, 4096);
    give(f, 4, BAR_64, 16384);
  }
  assert_true(assign(&usual));
  check_all(&usual);
  for (u8 i = 0; i < 4; i++) {
    assert_true(place_of(i, 0) != 0 && place_of(i, 1) != 0 && place_of(i, 4) != 0);
  }
  u32 before = machine[2].space[5];
  assert_false(assign(&usual));  // it is placed now
  assert_int_equal(machine[2].space[5], before);
}

static void bridges(void **state) {
  (void)state;
  function_count = 0;
  u8 first = add(NONE, 1, true);
  give(first, 0, BAR_64, 4096);
  u8 inner = add(first, 0, true);
  u8 deep = add(inner, 5, false);
  give(deep, 0, BAR_IO, 64);
  give(deep, 4, BAR_64, 0x200000);
  u8 beside = add(first, 3, false);
  give(beside, 1, BAR_32, 8192);
  u8 second = add(NONE, 2, true);
  u8 last = add(second, 0, false);
  give(last, 0, BAR_32, 4096);
  u8 empty = add(NONE, 9, true);
  u8 after = add(NONE, 10, false);
  give(after, 0, BAR_32, 4096);
  assert_true(assign(&usual));
  check_all(&usual);
  assert_true(place_of(deep, 0) != 0 && place_of(deep, 4) != 0 && place_of(beside, 1) != 0);
  assert_true(place_of(last, 0) != 0);
  assert_int_equal(machine[first].space[6] & 0xffffff, 0x020100);
  assert_int_equal(machine[inner].space[6] & 0xffffff, 0x020201);
  assert_int_equal(machine[second].space[6] & 0xffffff, 0x030300);
  assert_int_equal(machine[empty].space[8], 0xfff0);  // base above limit: closed
  assert_int_equal(machine[first].space[1] & 7, 7);
}

static void what_does_not_fit(void **state) {
  (void)state;
  function_count = 0;
  u8 large = add(NONE, 1, false);
  give(large, 0, BAR_64, 1ull << 32);  // only above
  give(large, 2, BAR_32, 1u << 31);    // nowhere
  u8 bridge = add(NONE, 2, true);
  u8 behind = add(bridge, 0, false);
  give(behind, 0, BAR_64, 1ull << 32);  // a bridge's plain window does not reach there
  u8 small = add(NONE, 3, false);
  give(small, 0, BAR_32, 4096);
  assert_true(assign(&usual));
  check_all(&usual);
  assert_true(place_of(large, 0) >= 0x8000000000ull);
  assert_true(place_of(large, 2) == 0 && place_of(behind, 0) == 0);
  assert_true(place_of(small, 0) != 0);
}

static void no_windows(void **state) {
  (void)state;
  function_count = 0;
  u8 f = add(NONE, 1, false);
  give(f, 0, BAR_IO, 32);
  give(f, 1, BAR_32, 4096);
  struct pci_windows moved = {.memory = {0x1000, 0x100000, 0x2000}};  // another address on the bus
  assert_true(assign(&moved));
  assert_true(place_of(f, 0) == 0 && place_of(f, 1) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flat),
      cmocka_unit_test(bridges),
      cmocka_unit_test(what_does_not_fit),
      cmocka_unit_test(no_windows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
