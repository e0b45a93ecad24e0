// SPDX-License-Identifier: Apache-2.0
// What disks do: latency and rate of reads anywhere; of writes and flushes only in a gap between
// partitions, and only after WIPE was typed.
//
// I1  Nothing is written outside the gap that diagnose_find_gap returned.
// I2  What is not understood (a file system without partitions, a table of another kind) has no
//     gap.
#include "admin/diagnose.h"
#include "base/fmt.h"
#include "plat/plat.h"
#include "store/gpt.h"
#include "store/trial.h"

#define MIB (1u << 20)
#define OPERATION_NS 40000000000ull  // a driver gives up after 30 s
#define WIPE_SECONDS 30u

bool diagnose_io(struct block *b, enum block_kind kind, u64 at, u64 len, void *memory) {
  struct block_op op = {.kind = (u8)kind, .at = at, .len = len, .memory = memory, .token = 1};
  struct block_done done;
  u64 start = plat_now_ns();
  while (block_submit(b, &op, 1) == 0) {
    if (plat_now_ns() - start > OPERATION_NS) {
      return false;
    }
  }
  while (block_complete(b, plat_now_ns(), &done, 1) == 0) {
    if (plat_now_ns() - start > OPERATION_NS) {
      return false;
    }
  }
  return done.status == BLOCK_OK;
}

static bool all_zero(struct bytes b) {
  u8 any = 0;
  for (usize i = 0; i < b.len; i++) {
    any |= b.ptr[i];
  }
  return any == 0;
}

// The longest run of whole MiB in [from, to) that no entry of the table touches.
static void longest_run(const u8 *entries, u32 block_len, u64 from, u64 to,
                        struct diagnose_gap *gap) {
  u64 at = ALIGN_UP(from, (u64)MIB);
  while (at < to) {
    u64 end = to;
    u64 next = U64_MAX;  // behind a partition that covers `at`
    for (u32 i = 0; i < GPT_ENTRIES; i++) {
      const u8 *e = entries + i * GPT_ENTRY_LEN;
      if (all_zero(bytes_of(e, GPT_GUID_LEN))) {
        continue;
      }
      u64 first = load_le64(e + 32) * block_len;
      u64 behind = (load_le64(e + 40) + 1) * block_len;
      if (first <= at && at < behind) {
        next = next == U64_MAX ? behind : MAX(next, behind);
      } else if (first > at) {
        end = MIN(end, first);
      }
    }
    if (next != U64_MAX) {
      at = ALIGN_UP(next, (u64)MIB);
      continue;
    }
    u64 len = ALIGN_DOWN(end - at, (u64)MIB);
    if (len > gap->len) {
      *gap = (struct diagnose_gap){at, len};
    }
    at = ALIGN_UP(end + 1, (u64)MIB);
  }
}

bool diagnose_find_gap(struct block *b, struct span scratch, struct diagnose_gap *gap,
                       const char **why) {
  struct block_info i;
  struct gpt g;
  block_info(b, &i);
  *gap = (struct diagnose_gap){0, 0};
  *why = "it is too small";
  if (i.len < 16 * (u64)MIB || i.block_len > GPT_BLOCK_MAX) {
    return false;
  }
  *why = "its first MiB cannot be read";
  if (!diagnose_io(b, BLOCK_READ, 0, MIB, scratch.ptr)) {
    return false;
  }
  if (all_zero(bytes_of(scratch.ptr, MIB))) {
    u64 last = ALIGN_DOWN(i.len, (u64)MIB) - MIB;
    *why = "its last MiB is not empty";
    if (!diagnose_io(b, BLOCK_READ, last, MIB, scratch.ptr) ||
        !all_zero(bytes_of(scratch.ptr, MIB))) {
      return false;
    }
    *gap = (struct diagnose_gap){MIB, last - MIB};
    return true;
  }
  *why = "what is on it is no partition table that urMQTT understands";
  if (gpt_mbr_foreign(bytes_of(scratch.ptr, MIB)) ||
      gpt_read_first(bytes_of(scratch.ptr, GPT_FIRST_LEN(i.block_len)), i.block_len,
                     i.len / i.block_len, &g) != ERR_OK) {
    return false;
  }
  u64 usable_end = (gpt_usable_last(i.block_len, g.blocks) + 1) * i.block_len;
  longest_run(scratch.ptr + 2 * i.block_len, i.block_len,
              gpt_usable_first(i.block_len) * i.block_len, usable_end, gap);
  *why = "its partitions leave no MiB free";
  return gap->len > 0;
}

// --- Measurements

struct figures {
  u64 min_ns, sum_ns, max_ns;
  u32 count, failed;
};
static void note(struct figures *f, u64 ns, bool good) {
  f->failed += good ? 0 : 1;
  f->count++;
  f->sum_ns += ns;
  f->min_ns = MIN(f->min_ns, ns);
  f->max_ns = MAX(f->max_ns, ns);
}
static void put(struct json_out *o, const char *key, const struct figures *f, u64 bytes) {
  json_key(o, key);
  json_open(o, '{');
  json_field_int(o, "operations", f->count);
  json_field_int(o, "failed", f->failed);
  if (f->count > 0) {
    json_field_int(o, "min_us", (i64)(f->min_ns / 1000));
    json_field_int(o, "mean_us", (i64)(f->sum_ns / f->count / 1000));
    json_field_int(o, "max_us", (i64)(f->max_ns / 1000));
  }
  if (bytes > 0) {
    json_field_int(o, "mb_s", (i64)(bytes * f->count * 1000 / MAX(f->sum_ns, 1ull)));
  }
  json_close(o, '}');
}

// `count` operations of `len` bytes from `at` on, `stride` apart.
static struct figures series(struct block *b, enum block_kind kind, u64 at, u64 stride, u64 len,
                             u32 count, void *memory) {
  struct figures f = {.min_ns = U64_MAX};
  for (u32 i = 0; i < count && f.failed == 0; i++) {
    u64 start = plat_now_ns();
    bool good = diagnose_io(b, kind, kind == BLOCK_FLUSH ? 0 : at + i * stride,
                            kind == BLOCK_FLUSH ? 0 : len, kind == BLOCK_FLUSH ? NULL : memory);
    note(&f, plat_now_ns() - start, good);
  }
  return f;
}

static void measure_reads(struct diagnose *d, struct block *b, const struct block_info *i) {
  u64 large = MIN((u64)i->transfer_max, (u64)MIB);
  u32 many = (u32)MIN((u64)d->rounds, i->len / 2 / large);
  u32 scattered = d->rounds;
  u64 stride = ALIGN_DOWN(i->len / 2 / MAX(scattered, 1u), 65536ull);
  struct figures f = series(b, BLOCK_READ, 0, large, large, many, d->work.ptr);
  put(&d->out, "read_in_order", &f, large);
  f = series(b, BLOCK_READ, 0, stride, MAX(4096u, i->block_len), scattered, d->work.ptr);
  put(&d->out, "read_scattered_4k", &f, 0);
}

static void measure_writes(struct diagnose *d, struct block *b, const struct block_info *i,
                           struct diagnose_gap gap) {
  u64 large = MIN((u64)i->transfer_max, (u64)MIB);
  u32 many = (u32)MIN((u64)d->rounds, gap.len / large);
  u64 small = MAX(4096u, i->block_len);
  struct figures f = series(b, BLOCK_WRITE, gap.at, large, large, many, d->work.ptr);
  put(&d->out, "write_in_order", &f, large);
  struct figures w = {.min_ns = U64_MAX};
  for (u32 k = 0; k < d->rounds && i->flush; k++) {
    u64 start = plat_now_ns();
    bool good = diagnose_io(b, BLOCK_WRITE, gap.at + k % 16 * small, small, d->work.ptr) &&
                diagnose_io(b, BLOCK_FLUSH, 0, 0, NULL);
    note(&w, plat_now_ns() - start, good);
  }
  put(&d->out, "write_4k_and_flush", &w, 0);
  u64 len = trial_len(i);
  if (len > 0 && len <= TRIAL_MAX && len <= gap.len) {
    struct trial t;
    trial_start(&t, b, gap.at, span_of(d->work.ptr, len));
    while (!trial_turn(&t, plat_now_ns())) {
    }
    json_field_bool(&d->out, "zero_tells_the_truth", t.io_good && t.zero_good);
    json_field_bool(&d->out, "discard_is_harmless", t.io_good && t.discard_good);
  }
}

static bool wipe_wanted(const struct block_info *i, struct diagnose_gap gap) {
  char line[200];
  u32 n = fmt_z(line, sizeof line,
                "Disk %s has %llu MiB in no partition, from MiB %llu on. To measure writes THERE, "
                "type WIPE within %u s: ",
                i->name, (unsigned long long)gap.len / MIB, (unsigned long long)gap.at / MIB,
                WIPE_SECONDS);
  plat_console(bytes_of(line, n));
  return diagnose_read_line(line, sizeof line, WIPE_SECONDS) && strcmp(line, "WIPE") == 0;
}

static void put_limits(struct json_out *o, const struct block_info *i) {
  json_field_string(o, "name", bytes_str(i->name));
  json_field_int(o, "bytes", (i64)i->len);
  json_field_int(o, "block", i->block_len);
  json_field_int(o, "physical_block", i->physical_len);
  json_field_int(o, "optimal", i->optimal_len);
  json_field_int(o, "transfer_max", i->transfer_max);
  json_field_int(o, "inflight_max", i->inflight_max);
  json_field_int(o, "discard_max", (i64)i->discard_max);
  json_field_int(o, "zero_max", (i64)i->zero_max);
  json_field_bool(o, "read_only", i->read_only);
  json_field_bool(o, "removable", i->removable);
  json_field_bool(o, "flush", i->flush);
  json_field_bool(o, "write_cache", i->write_cache);
}

static void one(struct diagnose *d, struct block *b) {
  struct block_info i;
  struct diagnose_gap gap;
  const char *why;
  struct json_out *o = &d->out;
  block_info(b, &i);
  d->disks += i.read_only || i.removable ? 0 : 1;
  d->disks_flush += !i.read_only && !i.removable && i.flush ? 1 : 0;
  json_open(o, '{');
  put_limits(o, &i);
  if (i.len >= 16 * (u64)MIB) {
    plat_console(BYTES_LIT("Measuring a disk ...\n"));
    measure_reads(d, b, &i);
  }
  if (!i.read_only && !i.removable && diagnose_find_gap(b, d->work, &gap, &why)) {
    json_field_int(o, "free_at", (i64)gap.at);
    json_field_int(o, "free_bytes", (i64)gap.len);
    bool wipe = wipe_wanted(&i, gap);
    json_field_bool(o, "written", wipe);
    if (wipe) {
      measure_writes(d, b, &i, gap);
    }
  } else if (!i.read_only && !i.removable) {
    json_field_string(o, "not_written_because", bytes_str(why));
  }
  json_close(o, '}');
}

void diagnose_disks(struct diagnose *d) {
  json_key(&d->out, "disks");
  json_open(&d->out, '[');
  for (u32 n = 0; plat_disk(n) != NULL; n++) {
    one(d, plat_disk(n));
  }
  json_close(&d->out, ']');
}
