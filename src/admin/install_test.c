// SPDX-License-Identifier: Apache-2.0
// Proves, of the installer: whatever write is cut, fails, is torn, lost, late or goes astray, block
// 0 tells the truth: the old content whole, an unfinished installation, or an urMQTT with every
// byte read back (N1); an upgrade leaves the old or the new version (N2); images that are cut off
// or damaged at any place are refused; unsuitable disks are left alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/install.h"
#include "store/block_fault.h"
#include "store/block_memory.h"
#include "store/block_record.h"
#include "store/disk_test_support.h"

#define MIB (1ull << 20)
#define KIB 1024u
#define EDGE (64u << 10)
#define ESP (256u << 10)
#define LEN (600 * MIB)
#define PARTITION (66 * MIB)
#define CORE_TO EDGE
#define ESP_TO (2 * EDGE)
#define SUPER_TO (ESP_TO + ESP)
#define CONFIG_TO (SUPER_TO + 4 * SUPERBLOCK_LEN)
#define IMAGE (CONFIG_TO + 2 * EDGE)
#define SLOT_AT (2 * MIB + 16 * KIB)
#define KERNEL_A (2 * MIB + 32 * KIB)
#define KERNEL_B (2 * MIB + 112 * KIB)
#define KERNEL_LEN (70 * KIB)  // more than one chunk; the last 4 KiB are zeros
#define KERNEL_DATA (66 * KIB)
#define BLOB (4096 + 8192 + KERNEL_DATA)

static u8 now[IMAGE], stable[IMAGE], before[IMAGE], old[IMAGE], memory[INSTALL_MEMORY];
static u32 dirty[IMAGE / 512];
static struct block_memory mem;
static struct block_fault fault;
static struct block_record rec;
static struct record_entry entries[256];
static u8 data[1u << 20], scratch[EDGE];
static struct fold fold;
static struct install in;
static struct disk disk;
static u8 seed[DISK_SEED];
static u8 config[4096];
static u8 blob[2][BLOB];
static struct install_image image[2];
static u32 salt;

// --- Images

static u32 add_piece(u8 *b, u32 n, u32 kind, u64 at, u64 len, u64 from) {
  u8 *p = b + 512 + n * 32;
  store_le32(p, kind);
  store_le64(p + 8, at);
  store_le64(p + 16, len);
  store_le64(p + 24, from);
  return n + 1;
}

static void seal(u8 *b, u32 count, const char *version) {
  memcpy(b, INSTALL_MAGIC, 16);
  store_le32(b + 16, 1);
  store_le32(b + 20, count);
  store_le64(b + 24, BLOB);
  memcpy(b + 32, version, strlen(version));
  store_le64(b + 64, SLOT_AT);
  SHA256(b + 4096, BLOB - 4096, b + 4032);
  SHA256(b, 4064, b + 4064);
}

static void make_image(u32 v) {
  u8 *b = blob[v];
  memset(b, 0, BLOB);
  for (u32 i = 4096; i < BLOB; i++) {  // the kernels differ, the rest does not
    b[i] = (u8)(i * 7 + i / 251 + (i >= 12288 ? v * 100 : 0));
  }
  u32 n = add_piece(b, 0, INSTALL_CODE, 0, 512, 4096);
  n = add_piece(b, n, INSTALL_MARK, 0, 512, 4608);
  n = add_piece(b, n, INSTALL_LOADER, MIB, 3072, 5120);
  n = add_piece(b, n, INSTALL_LAYOUT, 2 * MIB, 1024, 8192);
  n = add_piece(b, n, INSTALL_LAYOUT, 2 * MIB + 1024, 4096, 0);
  n = add_piece(b, n, INSTALL_SLOT_A, KERNEL_A, KERNEL_DATA, 12288);
  n = add_piece(b, n, INSTALL_SLOT_A, KERNEL_A + KERNEL_DATA, KERNEL_LEN - KERNEL_DATA, 0);
  n = add_piece(b, n, INSTALL_SLOT_B, KERNEL_B, KERNEL_DATA, 12288);
  n = add_piece(b, n, INSTALL_SLOT_B, KERNEL_B + KERNEL_DATA, KERNEL_LEN - KERNEL_DATA, 0);
  seal(b, n, v == 0 ? "1.0" : "1.1");
  assert_int_equal(install_image_read(bytes_of(b, BLOB), test_digest, &image[v]), ERR_OK);
}

// --- The disk

static void attach(enum block_fault_kind kind, u32 nth) {
  memcpy(now, before, IMAGE);
  memcpy(stable, before, IMAGE);
  memset(dirty, 0, sizeof dirty);
  block_memory_init(&mem, span_of(now, IMAGE), span_of(stable, IMAGE), dirty, 512,
                    nth * 77 + salt * 1000 + 5);
  block_record_init(&rec, &mem.block, entries, 256, span_of(data, sizeof data));
  block_fault_init(&fault, &rec.block, kind, nth, span_of(scratch, sizeof scratch));
  fold_init(&fold, &fault.block, LEN);
  fold_add(&fold, 0, EDGE);
  fold_add(&fold, MIB, EDGE);
  fold_add(&fold, 2 * MIB, ESP);
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    fold_add(&fold, PARTITION + SUPERBLOCK_SLOT_AT(i), SUPERBLOCK_LEN);
  }
  fold_add(&fold, PARTITION + EXTENTS_FROM, EDGE);
  fold_add(&fold, LEN - EDGE, EDGE);
}

static u8 run(void) {
  for (u32 i = 0; i < 20000; i++) {
    if (install_turn(&in, 0)) {
      return in.end;
    }
  }
  return INSTALL_IO;  // silent for ever: the driver's own deadline would end it
}
static u8 install(void) {
  install_start(&in, &fold.block, &image[0], test_digest, span_of(memory, sizeof memory), seed,
                bytes_of(config, sizeof config));
  return run();
}
static u8 upgrade(u32 v) {
  install_upgrade_start(&in, &fold.block, &image[v], test_digest, span_of(memory, sizeof memory));
  return run();
}

// What was on the disk before: somebody's MBR and nothing but garbage.
static void foreign(void) {
  for (u32 i = 0; i < IMAGE; i++) {
    before[i] = (u8)(i * 13 + i / 509 + 3);
  }
  memset(before + 446, 0, 64);
  before[450] = 0x83;
  store_le16(before + 510, 0xaa55);
  memcpy(old, before, IMAGE);
}

static u8 verdict(const u8 *img) {
  memcpy(before, img, IMAGE);
  attach(BLOCK_FAULT_NONE, 1);
  disk_open_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory));
  for (u32 i = 0; i < 5000 && !disk_turn(&disk, 0); i++) {
  }
  assert_int_equal(mem.writes, 0);
  return disk.verdict;
}

static bool kernel_is(const u8 *img, u64 at, u32 v) {
  const u8 *k = img + ESP_TO + (at - 2 * MIB);
  u8 tail = 0;
  for (u32 i = KERNEL_DATA; i < KERNEL_LEN; i++) {
    tail |= k[i];
  }
  return memcmp(k, blob[v] + 12288, KERNEL_DATA) == 0 && tail == 0;
}

// The slot that counts, its version's kernel behind it. 0: something is wrong.
static u8 slot_of(const u8 *img) {
  struct bytes version;
  u8 slot =
      install_slot_read(bytes_of(img + ESP_TO + (SLOT_AT - 2 * MIB), INSTALL_BLOCK), &version);
  u32 v = bytes_equal_str(version, "1.1");
  if (slot == 0 || !(v == 1 || bytes_equal_str(version, "1.0"))) {
    return 0;
  }
  return kernel_is(img, slot == 'a' ? KERNEL_A : KERNEL_B, v) ? slot : 0;
}

static bool loader_whole(const u8 *img) {
  return memcmp(img + CORE_TO, blob[0] + 5120, 3072) == 0 &&
         memcmp(img + ESP_TO, blob[0] + 8192, 1024) == 0 && img[ESP_TO + 1024] == 0 &&
         memcmp(img, blob[0] + 4096, 440) == 0;
}

// A whole urMQTT with this configuration.
static bool whole(const u8 *img, u8 repairs_allowed) {
  bool good =
      slot_of(img) != 0 && loader_whole(img) && memcmp(img + CONFIG_TO, config, sizeof config) == 0;
  return verdict(img) == DISK_OURS && good && (disk.repairs & ~repairs_allowed) == 0 &&
         disk.super.roots.config_live == 1;
}

// N1 of what a cut or a fault has left.
static bool truth(const u8 *img) {
  if (memcmp(img, old, 512) == 0) {
    assert_false(install_unfinished(bytes_of(img, 512)));
    return memcmp(img, old, IMAGE) == 0;
  }
  if (memcmp(img, blob[0] + 4608, 440) == 0) {
    return install_unfinished(bytes_of(img, 512)) && verdict(img) == DISK_FOREIGN;
  }
  return whole(img, 0);
}

static void installs(void **state) {
  (void)state;
  foreign();
  attach(BLOCK_FAULT_NONE, 1);
  assert_int_equal(install(), INSTALL_DONE);
  assert_int_equal(in.done, in.total);
  static u8 made[IMAGE];
  memcpy(made, now, IMAGE);
  assert_true(whole(made, 0));
  assert_int_equal(slot_of(made), 'a');
  assert_true(kernel_is(made, KERNEL_B, 0));
  assert_memory_equal(made + EDGE + 3072, old + EDGE + 3072, EDGE - 3072);  // nothing beside
}

// Every state that a cut may have left of what `rec` recorded over `from`, judged.
static u32 every_cut(const u8 *from, bool (*good)(const u8 *img)) {
  static const u32 torn[] = {0, 512, 2048};
  static u8 img[IMAGE];
  static struct block_record kept;
  static struct record_entry kept_entries[256];
  static u8 kept_data[sizeof data];
  kept = rec;
  assert_false(rec.full);
  memcpy(kept_entries, entries, sizeof entries);
  memcpy(kept_data, data, rec.data_len);
  kept.entry = kept_entries;
  kept.data = span_of(kept_data, sizeof kept_data);
  u32 states = 0;
  for (u32 n = 0; n <= kept.count; n++) {
    u32 loose[64];
    u32 count = block_record_loose(&kept, n, loose, 64);
    for (u64 pick = 0; pick < (count < 3 ? 1ull << count : 6); pick++) {
      u64 keep = count < 3 ? pick : pick * 0x9e3779b97f4a7c15ull >> 7;
      for (u32 t = 0; t < (keep == 0 ? 1 : 3); t++) {
        memcpy(img, from, IMAGE);
        block_record_replay(&kept, n, keep, torn[t], span_of(img, IMAGE));
        assert_true(good(img));
        states++;
      }
    }
  }
  return states;
}

static void cut_anywhere(void **state) {
  (void)state;
  foreign();
  attach(BLOCK_FAULT_NONE, 1);
  assert_int_equal(install(), INSTALL_DONE);
  static u8 made[IMAGE];
  memcpy(made, now, IMAGE);
  assert_true(every_cut(old, truth) > 100);
  // Over an urMQTT: the same.
  memcpy(old, made, IMAGE);
  memset(old + EDGE - 512, 0x77, 512);
  memcpy(before, old, IMAGE);
  seed[0] ^= 1;
  attach(BLOCK_FAULT_NONE, 1);
  assert_int_equal(install(), INSTALL_DONE);
  assert_memory_not_equal(now, old, 64 * KIB);
  for (u32 i = 0; i < 440; i++) {  // block 0 shall tell which it is
    old[i] ^= 0x5a;
  }
  assert_true(every_cut(old, truth) > 100);
}

static bool upgraded(const u8 *img) {
  return slot_of(img) != 0 && whole(img, 0);
}

static void upgrade_cut_anywhere(void **state) {
  (void)state;
  foreign();
  attach(BLOCK_FAULT_NONE, 1);
  assert_int_equal(install(), INSTALL_DONE);
  for (u32 round = 0; round < 2; round++) {
    memcpy(old, now, IMAGE);
    memcpy(before, now, IMAGE);
    attach(BLOCK_FAULT_NONE, 1);
    assert_int_equal(upgrade(1 - round), INSTALL_DONE);
    assert_int_equal(in.done, in.total);
    static u8 made[IMAGE];
    memcpy(made, now, IMAGE);
    assert_int_equal(slot_of(made), round == 0 ? 'b' : 'a');
    assert_memory_equal(made, old, ESP_TO);  // nothing but the EFI partition
    assert_memory_equal(made + SUPER_TO, old + SUPER_TO, IMAGE - SUPER_TO);
    assert_true(every_cut(old, upgraded) > 10);
    memcpy(now, made, IMAGE);
  }
}

// Each kind of fault at each operation. A flush that lies and then is believed is beyond anybody.
static void faults_everywhere(void **state) {
  (void)state;
  u32 failed = 0;
  for (u32 kind = BLOCK_FAULT_NONE + 1; kind < BLOCK_FAULT_COUNT; kind++) {
    for (u32 up = 0; up < 2; up++) {
      bool again = true;
      for (u32 nth = 1; again; nth++) {
        foreign();
        attach(BLOCK_FAULT_NONE, 1);
        if (up == 1) {
          assert_int_equal(install(), INSTALL_DONE);
          memcpy(old, now, IMAGE);
          memcpy(before, now, IMAGE);
        }
        attach((enum block_fault_kind)kind, nth);
        u8 end = up == 1 ? upgrade(1) : install();
        again = fault.fired;
        bool done = end == INSTALL_DONE;
        failed += !done;
        static u8 img[IMAGE];
        memcpy(img, now, IMAGE);
        if (kind == BLOCK_FAULT_LYING_FLUSH) {
          assert_true(done);
        }
        if (done) {
          assert_true(whole(img, 0));
          assert_int_equal(slot_of(img), up == 1 ? 'b' : 'a');
        } else if (kind != BLOCK_FAULT_MISDIRECTED) {
          assert_true(up == 1 ? upgraded(img) : truth(img));
        }
      }
    }
  }
  assert_true(failed > 100);
}

static void unsuitable(void **state) {
  (void)state;
  foreign();
  attach(BLOCK_FAULT_NONE, 1);
  assert_int_equal(upgrade(1), INSTALL_NOT_OURS);
  mem.facts.read_only = true;
  assert_int_equal(install(), INSTALL_READ_ONLY);
  mem.facts.read_only = false;
  fold.len = 100 * MIB;
  assert_int_equal(install(), INSTALL_TOO_SMALL);
  fold.len = LEN;
  mem.facts.block_len = 4096;
  assert_int_equal(install(), INSTALL_BLOCKS);
  assert_int_equal(mem.writes, 0);
  // Upgrade of an urMQTT whose EFI partition is another's, and of one without a slot block.
  attach(BLOCK_FAULT_NONE, 1);
  assert_int_equal(install(), INSTALL_DONE);
  u64 writes = mem.writes;
  now[ESP_TO + 1500] ^= 1;
  assert_int_equal(upgrade(1), INSTALL_OTHER_LAYOUT);
  now[ESP_TO + 1500] ^= 1;
  now[ESP_TO + 16 * KIB] ^= 1;
  assert_int_equal(upgrade(1), INSTALL_OTHER_LAYOUT);
  assert_int_equal(mem.writes, writes);
  for (u32 e = 0; e < INSTALL_ENDS; e++) {
    assert_true(strlen(install_end_text((enum install_end)e)) > 3);
  }
}

static void bad_images(void **state) {
  (void)state;
  struct install_image m;
  u8 *copy = malloc(BLOB);
  for (u32 len = 0; len < BLOB; len += len < 4200 ? 1 : 997) {
    u8 *cut = malloc(len == 0 ? 1 : len);
    memcpy(cut, blob[0], len);
    assert_int_equal(install_image_read(bytes_of(cut, len), test_digest, &m), ERR_SHORT);
    free(cut);
  }
  for (u32 at = 0; at < BLOB; at += at < 4096 ? 7 : 499) {
    memcpy(copy, blob[0], BLOB);
    copy[at] ^= 0x20;
    enum err e = install_image_read(bytes_of(copy, BLOB), test_digest, &m);
    assert_int_equal(e, at < 20 ? ERR_UNSUPPORTED : ERR_CORRUPT);
  }
  // Well sealed, and still impossible: field by field.
  static const struct {
    u32 at;
    u64 value;
  } wrong[] = {{512 + 96 + 8, 512},
               {512 + 96 + 8, 66 * MIB},
               {512 + 96 + 8, MIB + 3},
               {512 + 96 + 16, 65 * MIB},
               {512 + 96 + 16, 0},
               {512 + 96 + 24, 1},
               {512 + 96 + 24, U64_MAX},
               {512 + 96 + 24, BLOB - 512},
               {512, 3},
               {512, 2},
               {512 + 96, 7},
               {512 + 8, MIB},
               {64, 0},
               {64, 66 * MIB},
               {24, 100},
               {24, BLOB + 1}};
  for (u32 i = 0; i < ARRAY_COUNT(wrong); i++) {
    memcpy(copy, blob[0], BLOB);
    store_le64(copy + wrong[i].at, wrong[i].value);
    SHA256(copy, 4064, copy + 4064);
    enum err e = install_image_read(bytes_of(copy, BLOB), test_digest, &m);
    assert_int_equal(e, wrong[i].at == 24 ? ERR_SHORT : ERR_MALFORMED);
  }
  free(copy);
}

int main(void) {
  for (u32 i = 0; i < sizeof config; i++) {
    config[i] = (u8)(i * 3 + 1);
  }
  for (u32 i = 0; i < DISK_SEED; i++) {
    seed[i] = (u8)(i * 37 + 1);
  }
  make_image(0);
  make_image(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(installs),
      cmocka_unit_test(cut_anywhere),
      cmocka_unit_test(upgrade_cut_anywhere),
      cmocka_unit_test(faults_everywhere),
      cmocka_unit_test(unsuitable),
      cmocka_unit_test(bad_images),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
