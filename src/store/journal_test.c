// SPDX-License-Identifier: Apache-2.0
// Proves, of the journal: after any cut every acknowledged record is replayed, in order, with its
// content, and nothing else but a prefix of what was appended; a flush that lies, and one that is
// taken for granted, are found by the same checks; records of an earlier boot or lap never come
// back; a full ring pushes back; records missing in the middle are noticed, not skipped.
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
#include "store/journal.h"

#define SEGMENT (4 * JOURNAL_BLOCK)
#define SEGMENTS 5u
#define LEN (SEGMENTS * SEGMENT)
#define BATCH (3 * JOURNAL_BLOCK)
#define LSNS 4096u

static u8 now[LEN], stable[LEN], image[LEN], buf_a[BATCH], buf_b[BATCH], scan[SEGMENT];
static u32 dirty[LEN / 512];
static struct block_memory mem;
static struct block_fault fault;
static struct block_record rec;
static struct record_entry entries[1024];
static u8 data[8u << 20], scratch[BATCH];
static const struct extent_table table = {.count = 1, .e = {{ROLE_JOURNAL, 0, LEN}}};
static struct journal journal;
static struct journal_place place;

// What was appended: the boot that last wrote an LSN, and which of them were acknowledged.
static u64 boot_of[LSNS];
static u64 acked, appended, released;

static void power_on(u64 seed, enum block_fault_kind kind, u32 nth) {
  block_memory_init(&mem, span_of(now, LEN), span_of(stable, LEN), dirty, 512, seed);
  block_record_init(&rec, &mem.block, entries, 1024, span_of(data, sizeof data));
  block_fault_init(&fault, &rec.block, kind, nth, span_of(scratch, sizeof scratch));
}
static void fresh(u64 seed, enum block_fault_kind kind, u32 nth) {
  memset(now, 0, LEN);
  memset(stable, 0, LEN);
  memset(dirty, 0, sizeof dirty);
  power_on(seed, kind, nth);
  place =
      (struct journal_place){.extents = &table, .segment_len = SEGMENT, .uuid = {7}, .oldest = 1};
  acked = appended = 0;
  released = 1;
}

static u32 payload_of(u64 lsn, u64 boot, u8 *out) {
  u32 len = (u32)((lsn * 7919 + boot * 31) % 3500);
  for (u32 i = 0; i < len; i++) {
    out[i] = (u8)(lsn * 3 + boot * 101 + i);
  }
  return len;
}

// Starts and replays; `first` and `last` LSN found (0: none). Content is that of the boot that
// wrote it last. Returns what ended the replay.
static enum err start(struct block *b, u64 *first, u64 *last) {
  static u8 want[4096];
  struct journal_record r;
  place.block = b;
  place.boot++;
  journal_start(&journal, &place, span_of(buf_a, BATCH), span_of(buf_b, BATCH),
                span_of(scan, SEGMENT), 1);
  *first = *last = 0;
  for (u32 i = 0; i < 100000; i++) {
    enum err e = journal_replay(&journal, 0, &r);
    if (e == ERR_OK) {
      assert_true(*last == 0 || r.lsn == *last + 1);
      *first = *first == 0 ? r.lsn : *first;
      *last = r.lsn;
      assert_true(r.lsn < LSNS);
      u32 len = payload_of(r.lsn, boot_of[r.lsn], want);
      assert_int_equal(r.payload.len, len);
      assert_memory_equal(scan + r.payload.off, want, len);
      assert_int_equal(r.type, r.lsn % 9 + 1);
    } else if (e != ERR_AGAIN) {
      assert_true(*last == 0 || *last == journal.next_lsn - 1);
      *last = journal.next_lsn - 1;  // what was released counts as found
      return e;
    }
  }
  return ERR_TIMEOUT;
}

static enum err append_one(void) {
  static u8 p[4096];
  u64 lsn = 0;
  u64 next = journal.next_lsn;
  u32 len = payload_of(next, place.boot, p);
  enum err e = journal_append(&journal, (u16)(next % 9 + 1), bytes_of(p, len), &lsn);
  if (e == ERR_OK) {
    assert_int_equal(lsn, next);
    boot_of[lsn] = place.boot;
    appended = lsn;
  }
  return e;
}

// When the entry n was complete: acknowledged up to, and oldest segment in use.
static u64 acked_at[1025], released_at[1025];

// Appends `count` records; keeps at most three segments in use. False: the disk failed.
static bool work(u32 count) {
  u32 done = 0;
  for (u32 turn = 0; done < count || journal.durable_lsn < appended; turn++) {
    assert_true(turn < 100000);
    for (u32 k = 0; k < 3 && done < count; k++) {
      enum err e = append_one();
      done += e == ERR_OK;
      if (e == ERR_LIMIT || (e == ERR_OK && journal.sequence > released + 2)) {
        // A superblock that says so would be durable by now; only what is acknowledged may go.
        if (journal.flight.len == 0 || journal.flight.sequence > released) {
          released = MAX(released, journal.sequence - 2);
          journal_release(&journal, released);
        }
      }
    }
    journal_turn(&journal, 0);
    acked = MAX(acked, journal_durable(&journal));
    acked_at[rec.count] = acked;
    released_at[rec.count] = released;
    if (journal_failed(&journal)) {
      return false;
    }
  }
  return true;
}

static void replay_and_wrap(void **state) {
  (void)state;
  u64 first;
  u64 last;
  fresh(1, BLOCK_FAULT_NONE, 1);
  assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
  assert_int_equal(last, 0);
  for (u32 boot = 0; boot < 12; boot++) {
    assert_true(work(40));
    place.oldest = released;
    power_on(boot + 2, BLOCK_FAULT_NONE, 1);
    assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
    assert_int_equal(last, appended);
  }
  assert_true(journal.sequence > 5 * SEGMENTS);  // many laps
  assert_int_equal(last, 480);
}

// Every prefix and every subset of unflushed writes, torn too.
static void every_cut(void **state) {
  (void)state;
  static const u32 torn[] = {0, 512, 4096, 4608};
  static struct record_entry kept_entries[1024];
  static u8 kept_data[sizeof data];
  u64 first;
  u64 last;
  u32 states = 0;
  fresh(3, BLOCK_FAULT_NONE, 1);
  assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
  acked_at[0] = 0;
  released_at[0] = 1;
  memset(acked_at, 0, sizeof acked_at);
  memset(released_at, 0, sizeof released_at);
  assert_true(work(300));
  struct block_record kept = rec;
  assert_false(kept.full);
  memcpy(kept_entries, entries, sizeof entries);
  memcpy(kept_data, data, rec.data_len);
  kept.entry = kept_entries;
  kept.data = span_of(kept_data, sizeof kept_data);
  u64 all = appended;
  u64 promised = 0;
  u64 oldest = 1;
  for (u32 n = 0; n <= kept.count; n++) {
    u32 loose[8];
    u32 count = block_record_loose(&kept, n, loose, 8);
    promised = MAX(promised, acked_at[n]);
    oldest = MAX(oldest, released_at[n]);
    assert_true(count <= 2);  // one batch under way
    for (u64 keep = 0; keep < 1ull << count; keep++) {
      for (u32 t = 0; t < ARRAY_COUNT(torn); t++) {
        memset(now, 0, LEN);
        block_record_replay(&kept, n, keep, torn[t], span_of(now, LEN));
        memcpy(stable, now, LEN);
        power_on(n, BLOCK_FAULT_NONE, 1);
        place.oldest = oldest;
        assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
        assert_true(last >= promised && last <= all);
        assert_true(oldest > 1 || last == 0 || first == 1);
        states++;
      }
    }
  }
  assert_true(states > 900);
}

// Boots with cuts at random times on one disk: nothing acknowledged is lost, nothing of an earlier
// boot comes back in another's place. Returns how often something acknowledged was missing.
static u32 lives(u64 seed, enum block_fault_kind kind) {
  u64 first;
  u64 last;
  fresh(seed, BLOCK_FAULT_NONE, 1);
  for (u32 boot = 0; boot < 8; boot++) {
    power_on(seed * 100 + boot, kind, 1);
    place.oldest = released;
    enum err e = start(&fault.block, &first, &last);
    if (e != ERR_NOT_FOUND || last < acked) {
      return 1;
    }
    appended = last;
    acked = last;
    u32 turns = (u32)(seed * 31 + boot * 17) % 90;
    for (u32 i = 0; i < turns; i++) {
      if (append_one() == ERR_LIMIT || journal.sequence > released + 2) {
        released = MAX(released, journal.sequence - 2);
        if (journal.flight.len != 0 && journal.flight.sequence < released) {
          released = journal.flight.sequence;
        }
        journal_release(&journal, MAX(released, journal.place.oldest));
        released = journal.place.oldest;
      }
      journal_turn(&journal, 0);
      acked = MAX(acked, journal_durable(&journal));
    }
    block_memory_cut(&mem);
  }
  return 0;
}

static void many_lives(void **state) {
  (void)state;
  u32 bad = 0;
  u32 lied = 0;
  for (u64 seed = 1; seed <= 300; seed++) {
    bad += lives(seed, BLOCK_FAULT_NONE);
    lied += lives(seed, BLOCK_FAULT_LYING_FLUSH);
  }
  assert_int_equal(bad, 0);
  assert_true(lied > 30);  // the control
}

// A write or flush that fails: nothing is acknowledged from then on, what was stays.
static void failures_stop(void **state) {
  (void)state;
  u64 first;
  u64 last;
  bool again = true;
  u32 nth = 2;
  for (; again; nth++) {
    fresh(nth, BLOCK_FAULT_NONE, 1);
    assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
    power_on(nth, nth % 2 == 0 ? BLOCK_FAULT_ERROR : BLOCK_FAULT_TORN, nth / 2);
    bool good = work(30);
    again = fault.fired;
    assert_int_equal(good, !again);
    u64 lsn;
    assert_int_equal(journal_append(&journal, 1, BYTES_LIT("x"), &lsn), good ? ERR_OK : ERR_IO);
    block_memory_cut(&mem);
    power_on(nth, BLOCK_FAULT_NONE, 1);
    place.oldest = released;
    assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
    assert_true(last >= acked && last <= appended);
  }
  assert_true(nth > 20);
}

static void full_ring_pushes_back(void **state) {
  (void)state;
  u64 first;
  u64 last;
  enum err e = ERR_OK;
  fresh(9, BLOCK_FAULT_NONE, 1);
  assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
  for (u32 i = 0; i < 10000 && e != ERR_LIMIT; i++) {
    e = append_one();
    assert_true(e == ERR_OK || e == ERR_AGAIN || e == ERR_LIMIT);
    journal_turn(&journal, 0);
  }
  assert_int_equal(e, ERR_LIMIT);
  assert_int_equal(journal.sequence, SEGMENTS);
  for (u32 i = 0; i < 100; i++) {
    journal_turn(&journal, 0);
  }
  assert_int_equal(journal_durable(&journal), appended);
  journal_release(&journal, 2);
  assert_int_equal(append_one(), ERR_OK);
  static u8 large[BATCH];
  u64 lsn;
  assert_int_equal(journal_append(&journal, 1, bytes_of(large, BATCH), &lsn), ERR_RANGE);
}

// One byte wrong in any block but the last segment's: named, never skipped.
static void gaps_are_noticed(void **state) {
  (void)state;
  u64 first;
  u64 last;
  fresh(5, BLOCK_FAULT_NONE, 1);
  assert_int_equal(start(&fault.block, &first, &last), ERR_NOT_FOUND);
  while (journal.sequence < 4) {
    assert_true(work(1));
  }
  released = 1;
  memcpy(image, now, LEN);
  u32 noticed = 0;
  u32 from = (u32)(journal.place.oldest % SEGMENTS) * SEGMENT;
  for (u32 at = from + 10; at < from + SEGMENT; at += 512) {
    memcpy(now, image, LEN);
    bool padding = true;
    for (u32 i = 0; i < 64; i++) {
      padding = padding && now[at - 10 + i] == 0;
    }
    now[at] ^= 1;
    memcpy(stable, now, LEN);
    power_on(at, BLOCK_FAULT_NONE, 1);
    place.oldest = journal.place.oldest;
    enum err e = start(&fault.block, &first, &last);
    assert_true(e == ERR_CORRUPT || (e == ERR_NOT_FOUND && last == appended));
    noticed += e == ERR_CORRUPT;
    assert_true(padding || e == ERR_CORRUPT || at < from + JOURNAL_BLOCK);
  }
  assert_true(noticed > 8);
}

// A batch that leaves less room than a head before the next block: the batch behind it is found.
static void every_padding(void **state) {
  (void)state;
  static u8 p[JOURNAL_BLOCK];
  for (u32 room = 0; room < 2 * JOURNAL_RECORD_HEAD; room++) {
    struct journal_record r;
    u64 lsn = 0;
    u32 found = 0;
    fresh(room + 1, BLOCK_FAULT_NONE, 1);
    for (u32 round = 0; round < 2; round++) {
      place.block = &fault.block;
      place.boot = round + 1;
      journal_start(&journal, &place, span_of(buf_a, BATCH), span_of(buf_b, BATCH),
                    span_of(scan, SEGMENT), 1);
      enum err e = ERR_AGAIN;
      for (u32 i = 0; i < 10000 && (e == ERR_OK || e == ERR_AGAIN); i++) {
        e = journal_replay(&journal, 0, &r);
        found += e == ERR_OK;
      }
      assert_int_equal(e, ERR_NOT_FOUND);
      for (u32 k = 0; k < 2 && round == 0; k++) {
        u32 len = JOURNAL_BLOCK - JOURNAL_RECORD_HEAD - room;
        memset(p, 0xff, sizeof p);
        assert_int_equal(journal_append(&journal, 0xffff, bytes_of(p, len), &lsn), ERR_OK);
        for (u32 i = 0; journal_durable(&journal) < lsn; i++) {
          assert_true(i < 10000);
          journal_turn(&journal, 0);
        }
      }
    }
    assert_int_equal(found, 2);
  }
}

// Truncated at every byte: an answer, nothing outside.
static void truncated_records(void **state) {
  (void)state;
  static u8 seg[600];
  struct journal_record r;
  u32 pos = 0;
  u32 len = journal_record_write(span_of(seg, sizeof seg), 0, 0, 9, 5, 2, BYTES_LIT("payload"));
  for (u32 n = 0; n <= len; n++) {
    u8 *copy = malloc(n + 1);
    memcpy(copy, seg, n);
    pos = 0;
    enum err e = journal_record_read(bytes_of(copy, n), &pos, 9, 5, &r);
    assert_int_equal(e == ERR_OK, n == len);
    free(copy);
  }
  pos = 0;
  assert_int_equal(journal_record_read(bytes_of(seg, len), &pos, 9, 6, &r), ERR_CORRUPT);
  assert_int_equal(journal_record_read(bytes_of(seg, len), &pos, 8, 5, &r), ERR_CORRUPT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replay_and_wrap),
      cmocka_unit_test(every_cut),
      cmocka_unit_test(many_lives),
      cmocka_unit_test(failures_stop),
      cmocka_unit_test(full_ring_pushes_back),
      cmocka_unit_test(gaps_are_noticed),
      cmocka_unit_test(truncated_records),
      cmocka_unit_test(every_padding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
