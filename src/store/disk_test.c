// SPDX-License-Identifier: Apache-2.0
// Proves, of the disk: what was formatted is found again; any damaged copy is survived and
// repaired; whatever write of format, update, growth or repair is cut, fails, is torn, lost, late
// or goes astray, the old or the new generation is found; what is not known is refused and not
// written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/block_fault.h"
#include "store/block_memory.h"
#include "store/block_record.h"
#include "store/disk_test_support.h"
#include "store/superblock_layout.h"

#define MIB (1ull << 20)
#define EDGE (64u << 10)  // window at either end of a disk
#define LEN_1 (600 * MIB)
#define LEN_2 (1000 * MIB)
#define PARTITION (66 * MIB)
#define IMAGE (3 * EDGE + 4 * SUPERBLOCK_LEN)

static u8 now[IMAGE], stable[IMAGE], before[IMAGE], memory[DISK_MEMORY];
static u32 dirty[IMAGE / 512];
static struct block_memory mem;
static struct block_fault fault;
static struct block_record rec;
static struct record_entry entries[256];
static u8 data[2u << 20], scratch[EDGE];
static struct fold fold;
static struct disk disk;
static u8 seed[DISK_SEED];
static u32 salt;  // of what a cut leaves

// Disk over fold over fault over record over memory, which holds `before`.
static void attach(u32 block_len, u64 len, enum block_fault_kind kind, u32 nth) {
  memcpy(now, before, IMAGE);
  memcpy(stable, before, IMAGE);
  memset(dirty, 0, sizeof dirty);
  block_memory_init(&mem, span_of(now, IMAGE), span_of(stable, IMAGE), dirty, block_len,
                    nth * 77 + salt * 1000 + 5);
  block_record_init(&rec, &mem.block, entries, 256, span_of(data, sizeof data));
  block_fault_init(&fault, &rec.block, kind, nth, span_of(scratch, sizeof scratch));
  fold_init(&fold, &fault.block, len);
  fold_add(&fold, 0, EDGE);
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    fold_add(&fold, PARTITION + SUPERBLOCK_SLOT_AT(i), SUPERBLOCK_LEN);
  }
  fold_add(&fold, LEN_1 - EDGE, EDGE);
  fold_add(&fold, LEN_2 - EDGE, EDGE);
}

static u8 run(void) {
  for (u32 i = 0; i < 5000; i++) {
    if (disk_turn(&disk, 0)) {
      return disk.verdict;
    }
  }
  return DISK_IO;  // silent for ever: the device's own deadline would end it
}
static u8 open_it(void) {
  disk_open_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory));
  return run();
}
// Opens what an image holds, on a disk without faults.
static u8 open_image(const u8 *image, u32 block_len, u64 len) {
  static u8 copy[IMAGE];
  memcpy(copy, image, IMAGE);
  memcpy(before, image, IMAGE);
  attach(block_len, len, BLOCK_FAULT_NONE, 1);
  u8 v = open_it();
  assert_int_equal(mem.writes, 0);  // D1
  assert_memory_equal(now, copy, IMAGE);
  return v;
}
static u8 format(u32 block_len) {
  memset(before, 0, IMAGE);
  attach(block_len, LEN_1, BLOCK_FAULT_NONE, 1);
  for (u32 i = 0; i < DISK_SEED; i++) {
    seed[i] = (u8)(i * 37 + 1);
  }
  disk_format_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory), seed);
  return run();
}
static u8 update(u64 boots) {
  struct superblock s = disk.super;
  s.boots = boots;
  s.roots.wall_s = boots * 10;
  disk_update_start(&disk, &s);
  return run();
}

static void format_and_reread(void **state) {
  (void)state;
  for (u32 n = 512; n <= 4096; n *= 8) {
    assert_int_equal(format(n), DISK_OURS);
    struct superblock made = disk.super;
    assert_int_equal(open_image(now, n, LEN_1), DISK_OURS);
    assert_int_equal(disk.repairs, 0);
    assert_false(disk.grown || disk.rejected);
    assert_int_equal(disk.super.generation, 1);
    assert_int_equal(disk.super.partition_at, PARTITION);
    assert_memory_equal(&disk.super.extents, &made.extents, sizeof made.extents);
    assert_memory_equal(disk.super.uuid, made.uuid, 16);
    for (u64 boots = 1; boots < 9; boots++) {
      assert_int_equal(update(boots), DISK_OURS);
      assert_int_equal(open_it(), DISK_OURS);
      assert_int_equal(disk.super.boots, boots);
      assert_int_equal(disk.super.generation, boots + 1);
      assert_int_equal(disk.super.roots.wall_s, boots * 10);
      assert_int_equal(disk.repairs, 0);
    }
  }
}

// Every 512 bytes of every copy, one at a time: found, named, repaired.
static void each_copy_damaged(void **state) {
  (void)state;
  static u8 good[IMAGE];
  assert_int_equal(format(512), DISK_OURS);
  assert_int_equal(update(1), DISK_OURS);
  memcpy(good, now, IMAGE);
  u32 named = 0;
  for (u32 at = 512; at < IMAGE - EDGE; at += 512) {
    static u8 bad[IMAGE];
    memcpy(bad, good, IMAGE);
    bad[at + at / 512 % 92] ^= 0x10;  // inside a header
    assert_int_equal(open_image(bad, 512, LEN_1), DISK_OURS);
    assert_int_equal(disk.super.boots, 1);
    u8 repairs = disk.repairs;
    bool first = at < GPT_FIRST_LEN(512);
    bool last = at >= IMAGE - EDGE - GPT_LAST_LEN(512);
    bool super = at >= EDGE && at < EDGE + 2 * SUPERBLOCK_LEN;  // generation 2: slots 0 and 1
    u8 want = first   ? DISK_REPAIR_TABLE_FIRST
              : last  ? DISK_REPAIR_TABLE_LAST
              : super ? DISK_REPAIR_SUPERBLOCK
                      : 0;
    assert_int_equal(repairs, want);
    named += repairs != 0;
    disk_repair_start(&disk);
    assert_int_equal(run(), DISK_OURS);
    assert_int_equal(disk.repairs, 0);
    if (want != 0) {
      assert_memory_equal(now, good, IMAGE);
    }
  }
  assert_int_equal(named, 33 + 33 + 16);
}

static void whole_generation_damaged(void **state) {
  (void)state;
  assert_int_equal(format(512), DISK_OURS);
  assert_int_equal(update(1), DISK_OURS);
  assert_int_equal(update(2), DISK_OURS);  // generation 3: slots 2 and 3
  static u8 bad[IMAGE];
  memcpy(bad, now, IMAGE);
  memset(bad + EDGE + 2 * SUPERBLOCK_LEN, 0, 2 * SUPERBLOCK_LEN);
  assert_int_equal(open_image(bad, 512, LEN_1), DISK_OURS);
  assert_int_equal(disk.super.boots, 1);
  memset(bad + EDGE, 0x11, 2 * SUPERBLOCK_LEN);
  assert_int_equal(open_image(bad, 512, LEN_1), DISK_BLANK);
  memcpy(bad + EDGE, SB_MAGIC_TEXT, 16);
  assert_int_equal(open_image(bad, 512, LEN_1), DISK_DAMAGED);
}

// --- Cuts

struct expect {
  bool blank_allowed;  // before a first format
  u64 boots_old;
  u64 boots_new;
  u64 len;
};

static bool as_expected(u8 verdict, const struct expect *x) {
  if (x->blank_allowed && (verdict == DISK_EMPTY || verdict == DISK_FOREIGN)) {
    return true;
  }
  return verdict == DISK_OURS &&
         (disk.super.boots == x->boots_old || disk.super.boots == x->boots_new);
}

// Every state that a cut may have left of what `rec` recorded over `from`. `acked`: entries that
// were complete when the new generation was acknowledged.
static u32 every_cut(const u8 *from, u32 acked, const struct expect *x) {
  static const u32 torn[] = {0, 512, 1024, 2048, 8704};
  static u8 image[IMAGE];
  static struct block_record kept;
  u32 states = 0;
  kept = rec;  // opening records too, into its own entries
  static struct record_entry kept_entries[256];
  static u8 kept_data[sizeof data];
  memcpy(kept_entries, entries, sizeof entries);
  memcpy(kept_data, data, rec.data_len);
  kept.entry = kept_entries;
  kept.data = span_of(kept_data, sizeof kept_data);
  assert_false(kept.full);
  for (u32 n = 0; n <= kept.count; n++) {
    u32 loose[10];
    u32 count = block_record_loose(&kept, n, loose, 10);
    assert_true(count <= 4);
    for (u64 keep = 0; keep < 1ull << count; keep++) {
      for (u32 t = 0; t < ARRAY_COUNT(torn); t++) {
        memcpy(image, from, IMAGE);
        block_record_replay(&kept, n, keep, torn[t], span_of(image, IMAGE));
        u8 v = open_image(image, 512, x->len);
        assert_true(as_expected(v, x));
        assert_true(n < acked || (v == DISK_OURS && disk.super.boots == x->boots_new));
        states++;
      }
    }
  }
  return states;
}

static void cut_format(void **state) {
  (void)state;
  static u8 old[IMAGE];
  assert_int_equal(format(512), DISK_OURS);
  struct expect x = {.blank_allowed = true, .len = LEN_1};
  memset(old, 0, IMAGE);
  u32 states = every_cut(old, rec.count, &x);
  // Over a disk of ours with another seed: never neither.
  for (u64 updates = 1; updates <= 2; updates++) {
    assert_int_equal(format(512), DISK_OURS);
    for (u64 i = 0; i < updates; i++) {
      assert_int_equal(update(7), DISK_OURS);
    }
    memcpy(old, now, IMAGE);
    memcpy(before, now, IMAGE);
    attach(512, LEN_1, BLOCK_FAULT_NONE, 1);
    seed[70]++;
    disk_format_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory), seed);
    assert_int_equal(run(), DISK_OURS);
    x = (struct expect){.boots_old = 7, .boots_new = 0, .len = LEN_1};
    states += every_cut(old, rec.count, &x);
  }
  assert_true(states > 300);
}

static void cut_update(void **state) {
  (void)state;
  static u8 old[IMAGE];
  for (u64 updates = 1; updates <= 2; updates++) {  // either pair
    assert_int_equal(format(512), DISK_OURS);
    for (u64 i = 1; i <= updates; i++) {
      assert_int_equal(update(i), DISK_OURS);
    }
    memcpy(old, now, IMAGE);
    memcpy(before, now, IMAGE);
    attach(512, LEN_1, BLOCK_FAULT_NONE, 1);
    assert_int_equal(open_it(), DISK_OURS);
    assert_int_equal(update(9), DISK_OURS);
    struct expect x = {.boots_old = updates, .boots_new = 9, .len = LEN_1};
    assert_true(every_cut(old, rec.count, &x) >= 30);
  }
}

static u8 grow(void) {
  assert_int_equal(disk_grow_start(&disk), ERR_OK);
  return run();
}

static void growth_at_every_cut(void **state) {
  (void)state;
  static u8 old[IMAGE];
  assert_int_equal(format(512), DISK_OURS);
  assert_int_equal(update(3), DISK_OURS);
  memcpy(old, now, IMAGE);
  assert_int_equal(open_image(old, 512, LEN_2), DISK_OURS);
  assert_true(disk.grown);
  u64 len = disk.super.partition_len;
  u32 count = disk.super.extents.count;
  assert_int_equal(grow(), DISK_OURS);
  assert_true(disk.super.partition_len - len >= 399 * MIB);
  assert_true(disk.super.extents.count > count);
  assert_false(disk.grown);
  struct expect x = {.boots_old = 3, .boots_new = 3, .len = LEN_2};
  assert_true(every_cut(old, rec.count, &x) > 60);
  // From every prefix a second try ends well.
  for (u32 n = 1; n <= 12; n++) {
    memcpy(before, old, IMAGE);
    attach(512, LEN_2, BLOCK_FAULT_ERROR, 6 + n);  // opening takes six
    assert_int_equal(open_it(), DISK_OURS);
    assert_int_equal(grow(), fault.fired ? DISK_WRITE_BAD : DISK_OURS);
    block_memory_cut(&mem);
    assert_int_equal(open_image(now, 512, LEN_2), DISK_OURS);
    if (disk.repairs != 0) {
      disk_repair_start(&disk);
      assert_int_equal(run(), DISK_OURS);
    }
    assert_true(!disk.grown || grow() == DISK_OURS);
    assert_int_equal(open_it(), DISK_OURS);
    assert_int_equal(disk.repairs, 0);
    assert_false(disk.grown);
    assert_true(disk.super.partition_len - len >= 399 * MIB);
  }
  assert_int_equal(disk_grow_start(&disk), ERR_RANGE);
}

// --- Faults: each kind at each operation, then the power is cut.

enum { JOB_FORMAT, JOB_UPDATE, JOB_GROW, JOB_COUNT };

static u8 do_job(u32 job) {
  if (job == JOB_FORMAT) {
    disk_format_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory), seed);
    return run();
  }
  u8 v = open_it();
  if (v == DISK_OURS && disk.repairs != 0) {  // a flipped bit of a read
    disk_repair_start(&disk);
    v = run();
  }
  return v != DISK_OURS ? v : job == JOB_UPDATE ? update(9) : grow();
}

static void faults_everywhere(void **state) {
  (void)state;
  static u8 old[IMAGE];
  u32 fired = 0;
  u32 lost = 0;
  assert_int_equal(format(512), DISK_OURS);
  assert_int_equal(update(3), DISK_OURS);
  memcpy(old, now, IMAGE);
  for (u32 job = 0; job < JOB_COUNT; job++) {
    for (u32 round = 0; round < 4 * BLOCK_FAULT_COUNT; round++) {
      u32 kind = round / 4;
      salt = round % 4;
      bool again = true;
      for (u32 nth = 1; again; nth++) {
        assert_true(nth < 40);
        memcpy(before, old, IMAGE);
        attach(512, job == JOB_GROW ? LEN_2 : LEN_1, kind, nth);
        u8 v = do_job(job);
        again = fault.fired;
        fired += again;
        block_memory_cut(&mem);
        u8 found = open_image(now, 512, job == JOB_GROW ? LEN_2 : LEN_1);
        bool lies = kind == BLOCK_FAULT_LYING_FLUSH;
        assert_true(found == DISK_OURS || lies);
        u64 boots = job == JOB_FORMAT ? 0 : job == JOB_UPDATE ? 9 : 3;
        assert_true(found != DISK_OURS || disk.super.boots == 3 || disk.super.boots == boots);
        bool kept = found == DISK_OURS && disk.super.boots == boots;
        assert_true(v != DISK_OURS || kept || lies);
        lost += v == DISK_OURS && !kept;
      }
    }
  }
  assert_true(fired > 200);
  assert_true(lost > 0);  // the control: a flush that lies is noticed by this test
}

// --- Refusals

static void reseal(u8 *image, u32 slot) {
  u8 *b = image + EDGE + slot * SUPERBLOCK_LEN;
  test_digest(bytes_of(b, SB_DIGEST), b + SB_DIGEST);
}

static void unknown_is_refused(void **state) {
  (void)state;
  static u8 good[IMAGE], bad[IMAGE];
  static const struct {
    u32 at;
    u8 value;
    u8 verdict;
  } cases[] = {{SB_VERSION, 2, DISK_NEWER},
               {SB_VERSION, 0, DISK_OLDER},
               {SB_INCOMPATIBLE + 7, 0x80, DISK_NEWER},
               {SB_READ_ONLY, 1, DISK_OURS_READ_ONLY},
               {SB_COMPATIBLE, 1, DISK_OURS}};
  assert_int_equal(format(512), DISK_OURS);
  assert_int_equal(update(1), DISK_OURS);
  memcpy(good, now, IMAGE);
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    memcpy(bad, good, IMAGE);
    for (u32 slot = 0; slot < 2; slot++) {
      bad[EDGE + slot * SUPERBLOCK_LEN + cases[i].at] = cases[i].value;
      reseal(bad, slot);
    }
    assert_int_equal(open_image(bad, 512, LEN_1), cases[i].verdict);
  }
  for (u32 v = 0; v < DISK_VERDICTS; v++) {
    assert_true(strlen(disk_verdict_text(v)) > 20);
  }
}

static void not_ours(void **state) {
  (void)state;
  static u8 bad[IMAGE];
  memset(bad, 0, IMAGE);
  assert_int_equal(open_image(bad, 512, LEN_1), DISK_EMPTY);
  assert_int_equal(format(512), DISK_OURS);
  memcpy(bad, now, IMAGE);
  // The table says a longer disk than there is.
  assert_int_equal(open_image(bad, 512, LEN_1 - 512), DISK_SHRUNK);
  // Somebody else's old table over the first copy: ours at the end is a leftover.
  memset(bad, 0, GPT_FIRST_LEN(512));
  bad[446 + 4] = 0x83;
  store_le16(bad + 510, 0xaa55);
  assert_int_equal(open_image(bad, 512, LEN_1), DISK_FOREIGN);
  bad[446 + 4] = 0xee;
  assert_int_equal(open_image(bad, 512, LEN_1), DISK_OURS);
  memset(before, 0, IMAGE);
  attach(512, 66 * MIB, BLOCK_FAULT_NONE, 1);
  disk_format_start(&disk, &fold.block, test_digest, span_of(memory, sizeof memory), seed);
  assert_int_equal(run(), DISK_TOO_SMALL);
  assert_int_equal(mem.writes, 0);
}

// A lone copy of generation g whose predecessor is another history is passed over (S4).
static void other_history(void **state) {
  (void)state;
  static u8 mixed[IMAGE], other[IMAGE];
  assert_int_equal(format(512), DISK_OURS);
  memcpy(mixed, now, IMAGE);
  assert_int_equal(update(1), DISK_OURS);
  assert_int_equal(update(2), DISK_OURS);
  memcpy(other, now, IMAGE);
  memcpy(before, mixed, IMAGE);
  attach(512, LEN_1, BLOCK_FAULT_NONE, 1);
  assert_int_equal(open_it(), DISK_OURS);
  assert_int_equal(update(50), DISK_OURS);  // generation 2 of another history
  memcpy(mixed, now, IMAGE);
  memcpy(mixed + EDGE + 2 * SUPERBLOCK_LEN, other + EDGE + 2 * SUPERBLOCK_LEN, SUPERBLOCK_LEN);
  assert_int_equal(open_image(mixed, 512, LEN_1), DISK_OURS);
  assert_int_equal(disk.super.boots, 50);
  assert_true(disk.rejected);
}

static void shares(void **state) {
  (void)state;
  static struct extent_table t;
  static const u64 lens[] = {440 * MIB, 1000 * MIB, 20000 * MIB, 4000000 * MIB};
  for (u32 i = 0; i < ARRAY_COUNT(lens); i++) {
    for (u32 unit = 1u << 20; unit <= 4u << 20; unit *= 4) {
      assert_int_equal(extents_plan(&t, lens[i], unit), ERR_OK);
      assert_true(extents_valid(&t, lens[i], unit));
      assert_true(extents_len(&t, ROLE_JOURNAL) >= MAX(128 * MIB, lens[i] / 10));
      assert_true(extents_len(&t, ROLE_WAL) == 64 * MIB);
      assert_true(i < 2 || extents_len(&t, ROLE_DATABASE) >= lens[i] / 5 - unit);
      u64 len = lens[i];
      u32 times = 0;
      while (extents_grow(&t, len, len + 500 * MIB, unit) == ERR_OK) {
        len += 500 * MIB;
        times++;
        assert_true(extents_valid(&t, len, unit));
        assert_false(extents_valid(&t, len - unit, unit));
      }
      assert_true(times >= 9 && t.count > 64);
      u64 run_len = 0;
      u64 first = extents_len(&t, ROLE_JOURNAL) - 1;
      assert_true(extents_at(&t, ROLE_JOURNAL, first, &run_len) > lens[i] && run_len == 1);
    }
  }
  assert_int_equal(extents_plan(&t, 300 * MIB, 1u << 20), ERR_RANGE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(format_and_reread),
      cmocka_unit_test(each_copy_damaged),
      cmocka_unit_test(whole_generation_damaged),
      cmocka_unit_test(cut_format),
      cmocka_unit_test(cut_update),
      cmocka_unit_test(growth_at_every_cut),
      cmocka_unit_test(faults_everywhere),
      cmocka_unit_test(unknown_is_refused),
      cmocka_unit_test(not_ours),
      cmocka_unit_test(other_history),
      cmocka_unit_test(shares),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
