// SPDX-License-Identifier: Apache-2.0
// `disk-exercise-and-erase` on the command line: writes over every writable disk of the machine,
// reads back, flushes, zeroes, discards, waits for growth when `disk-grows` stands beside it, and
// tells what it found. For tests in QEMU, whose host compares the image: each 512 bytes written
// begin with their own byte offset, twice.
#include "plat/metal/machine.h"

#define PIECE (64u << 10)
#define PIECES 48u
#define DEPTH 16u
#define WAIT_NS 20000000000ull
#define SECTOR 512u

struct exercise {
  struct block *disk;
  struct block_info info;
  struct span memory;  // DEPTH pieces
  u32 statuses[4];
};

static u64 piece_at(const struct exercise *x, u32 k) {
  u64 stride = ALIGN_DOWN((x->info.len - PIECE) / (PIECES - 1), (u64)x->info.block_len);
  return k + 1 == PIECES ? x->info.len - PIECE : k * stride;  // the last one ends with the disk
}

static void mark(u8 *p, u64 at) {
  for (u32 i = 0; i < PIECE; i += SECTOR) {
    memset(p + i, 0xa5, SECTOR);
    store_le64(p + i, at + i);
    store_le64(p + i + 8, at + i);
  }
}

static bool marked(const u8 *p, u64 at) {
  for (u32 i = 0; i < PIECE; i += SECTOR) {
    if (load_le64(p + i) != at + i || load_le64(p + i + 8) != at + i || p[i + SECTOR - 1] != 0xa5) {
      return false;
    }
  }
  return true;
}

// Submits all of them and waits until they are done. False: not in time.
static bool all(struct exercise *x, const struct block_op *ops, u32 count) {
  u64 until = plat_now_ns() + WAIT_NS;
  u32 sent = 0;
  u32 done = 0;
  while (done < count) {
    struct block_done d[DEPTH];
    sent += block_submit(x->disk, ops + sent, count - sent);
    u64 now = plat_now_ns();
    u32 n = block_complete(x->disk, now, d, DEPTH);
    for (u32 i = 0; i < n; i++) {
      x->statuses[d[i].status & 3]++;
    }
    done += n;
    if (now > until) {
      return false;
    }
    if (n == 0) {
      plat_idle(0, now + 1000000000ull);
    }
  }
  return true;
}

// One piece each, in batches of DEPTH, every piece in as many operations as the disk wants.
static bool pass(struct exercise *x, bool write) {
  u32 step = MIN(PIECE, x->info.transfer_max);
  bool good = true;
  for (u32 k = 0; k < PIECES && good; k += DEPTH) {
    u32 batch = MIN(DEPTH, PIECES - k);
    for (u32 off = 0; off < PIECE; off += step) {
      struct block_op ops[DEPTH];
      for (u32 i = 0; i < batch; i++) {
        u8 *p = x->memory.ptr + (usize)i * PIECE;
        if (write && off == 0) {
          mark(p, piece_at(x, k + i));
        }
        ops[i] = (struct block_op){.kind = write ? BLOCK_WRITE : BLOCK_READ,
                                   .at = piece_at(x, k + i) + off,
                                   .len = MIN(step, PIECE - off),
                                   .memory = p + off,
                                   .token = i};
      }
      good = good && all(x, ops, batch);
    }
    for (u32 i = 0; i < batch && !write; i++) {
      good = good && marked(x->memory.ptr + (usize)i * PIECE, piece_at(x, k + i));
    }
  }
  return good;
}

static bool zero_first(struct exercise *x) {
  struct block_op op = {.kind = BLOCK_ZERO, .at = piece_at(x, 0), .len = PIECE};
  struct block_op back = {.kind = BLOCK_READ, .len = PIECE, .memory = x->memory.ptr};
  back.at = op.at;
  if (x->info.zero_max < PIECE || x->info.transfer_max < PIECE) {
    return true;
  }
  memset(x->memory.ptr, 1, PIECE);
  bool good = all(x, &op, 1) && all(x, &back, 1);
  for (u32 i = 0; i < PIECE; i++) {
    good = good && x->memory.ptr[i] == 0;
  }
  return good;
}

static bool discard_second(struct exercise *x) {
  struct block_op op = {.kind = BLOCK_DISCARD, .at = piece_at(x, 1), .len = PIECE};
  return x->info.discard_max < PIECE || all(x, &op, 1);
}

static void await_growth(struct exercise *x) {
  u64 until = plat_now_ns() + WAIT_NS;
  u64 before = x->info.len;
  console_fmt("disk %s: waits to grow\n", x->info.name);
  while (x->info.len == before && plat_now_ns() < until) {
    struct block_done d;
    (void)block_complete(x->disk, plat_now_ns(), &d, 1);
    block_info(x->disk, &x->info);
    plat_idle(0, plat_now_ns() + 100000000ull);
  }
  console_fmt("disk %s: now %llu bytes\n", x->info.name, (unsigned long long)x->info.len);
}

static void exercise(struct exercise *x) {
  const char *name = x->info.name;
  struct block_op flush = {.kind = BLOCK_FLUSH};
  u64 start = plat_now_ns();
  bool wrote = pass(x, true);
  bool flushed = all(x, &flush, 1);
  bool same = pass(x, false);
  bool zeroed = zero_first(x);
  bool discarded = discard_second(x) && all(x, &flush, 1);
  bool clean = x->statuses[BLOCK_ERROR] + x->statuses[BLOCK_REFUSED] + x->statuses[BLOCK_LOST] == 0;
  console_fmt("disk %s: write %s, flush %s, read %s, zero %s, discard %s, statuses %s, %llu ms\n",
              name, wrote ? "ok" : "FAILED", flushed ? "ok" : "FAILED", same ? "ok" : "FAILED",
              zeroed ? "ok" : "FAILED", discarded ? "ok" : "FAILED", clean ? "ok" : "FAILED",
              (unsigned long long)(plat_now_ns() - start) / 1000000);
}

void selftest_disk_main(void) {
  static char text[4096];
  struct writer w = writer_init(span_of(text, sizeof text));
  struct exercise x = {.memory = metal_dma(DEPTH * PIECE)};
  metal_disk_describe(&w);
  plat_console(writer_bytes(&w));
  for (u32 n = 0; x.memory.len != 0 && plat_disk(n) != NULL; n++) {
    x.disk = plat_disk(n);
    memset(x.statuses, 0, sizeof x.statuses);
    block_info(x.disk, &x.info);
    if (x.info.read_only || x.info.len < (u64)PIECE * PIECES || x.info.transfer_max == 0) {
      console_fmt("disk %s: left alone\n", x.info.name);
      continue;
    }
    exercise(&x);
    if (metal_command_word("disk-grows")) {
      await_growth(&x);
    }
  }
  plat_console(BYTES_LIT("Disks: end of the exercise.\n"));
  plat_end(END_POWER_OFF);
}
