// SPDX-License-Identifier: Apache-2.0
// The order of an installation; a bar is a flush that has been waited for:
//   block 0: unfinished | both tables zeroed | pieces, slot block, configuration | all read back |
//   superblocks | last table | first table behind block 0 | block 0: urMQTT    (store/disk.c)
// and of an upgrade:
//   layout compared, slot block read, the other slot's pieces | read back, slot block | read back
#include "admin/install.h"

enum {
  STAGE_IDLE,
  STAGE_MARK,
  STAGE_CLEAR,
  STAGE_OPEN,
  STAGE_COMPARE,
  STAGE_LOOK,
  STAGE_WRITE,
  STAGE_FLUSH,
  STAGE_VERIFY,
  STAGE_FORMAT,
  STAGE_SWITCH
};

// The one partition of block 0 while an installation is under way: with a type that is not 0xee
// nobody believes a GPT behind it, neither firmware nor store/disk.c.
#define MBR_TYPE (446u + 4u)
#define MBR_TYPE_UNFINISHED 0x7f

#define TABLE_LEN (GPT_FIRST_LEN(INSTALL_BLOCK) - INSTALL_BLOCK)  // either table without block 0
static_assert(TABLE_LEN == GPT_LAST_LEN(INSTALL_BLOCK), "both are one header and the entries");
static_assert(TABLE_LEN <= INSTALL_CHUNK, "a table fits the buffer");

const char *install_end_text(enum install_end e) {
  static const char *const text[INSTALL_ENDS] = {
      [INSTALL_RUNNING] = "not finished",
      [INSTALL_DONE] = "done",
      [INSTALL_TOO_SMALL] = "the disk is too small: 512 MiB are needed. Nothing was written",
      [INSTALL_BLOCKS] =
          "the disk's blocks are not of 512 bytes, and nothing could start from it: "
          "attach it with blocks of 512. Nothing was written",
      [INSTALL_READ_ONLY] = "the disk is read-only. Nothing was written",
      [INSTALL_NOT_OURS] =
          "there is no urMQTT on the disk that could be upgraded. Nothing was "
          "written",
      [INSTALL_OTHER_LAYOUT] =
          "the EFI partition of the disk is laid out in another way than this "
          "version's. Nothing was written",
      [INSTALL_IO] =
          "the disk reports an error. What is on it may be of no use: install again, on "
          "another disk if it happens again",
      [INSTALL_BAD] = "the disk did not keep what was written: replace it",
  };
  ASSERT(e < INSTALL_ENDS);
  return text[e];
}

bool install_unfinished(struct bytes block) {
  ASSERT(block.len >= INSTALL_BLOCK);
  return load_le16(block.ptr + INSTALL_BLOCK - 2) == 0xaa55 &&
         block.ptr[MBR_TYPE] == MBR_TYPE_UNFINISHED && load_le32(block.ptr + MBR_TYPE + 4) == 1 &&
         load_le32(block.ptr + MBR_TYPE + 8) == 1;
}

// --- The slot block: two lines of GRUB's language, filled up with newlines

#define SLOT_LINE "set slot="
#define VERSION_LINE "\nset version="

void install_slot_write(struct span out, u8 slot, struct bytes version) {
  ASSERT(out.len == INSTALL_BLOCK);
  ASSERT(slot == 'a' || slot == 'b');
  ASSERT(version.len <= INSTALL_VERSION_MAX);
  struct writer w = writer_init(out);
  write_str(&w, SLOT_LINE);
  write_u8(&w, slot);
  write_str(&w, VERSION_LINE);
  write_bytes(&w, version);
  memset(out.ptr + w.pos, '\n', out.len - w.pos);
}

u8 install_slot_read(struct bytes block, struct bytes *version) {
  usize at = sizeof SLOT_LINE - 1;
  usize from = at + 1 + sizeof VERSION_LINE - 1;
  *version = bytes_of(NULL, 0);
  if (block.len < from || memcmp(block.ptr, SLOT_LINE, at) != 0 ||
      memcmp(block.ptr + at + 1, VERSION_LINE, sizeof VERSION_LINE - 1) != 0) {
    return 0;
  }
  struct bytes rest = bytes_sub(block, from, MIN(block.len - from, (usize)INSTALL_VERSION_MAX));
  usize end = bytes_find(rest, '\n');
  *version = bytes_sub(rest, 0, MIN(end, rest.len));
  u8 slot = block.ptr[at];
  return slot == 'a' || slot == 'b' ? slot : 0;
}

// --- What there is to write: the image's pieces, then the slot block and the configuration

struct item {
  u64 at;
  u64 len;  // 0: not to be written
  struct bytes data;
};

static u32 item_count(const struct install *i) {
  return i->image->count + 2;
}

static bool wanted(const struct install *i, u32 kind) {
  if (i->stage == STAGE_COMPARE) {
    return kind == INSTALL_LAYOUT;
  }
  if (i->upgrade) {
    return kind == (i->slot == 'a' ? INSTALL_SLOT_A : INSTALL_SLOT_B);
  }
  return kind != INSTALL_CODE && kind != INSTALL_MARK;
}

static struct item item_of(const struct install *i, u32 idx) {
  ASSERT(idx < item_count(i));
  if (idx < i->image->count) {
    struct install_piece p = install_image_piece(i->image, idx);
    return (struct item){p.at, wanted(i, p.kind) ? p.len : 0, p.data};
  }
  if (i->upgrade) {
    return (struct item){0};
  }
  if (idx == i->image->count) {
    return (struct item){i->image->slot_at, INSTALL_BLOCK, {0}};
  }
  u64 run = 0;
  u64 at = i->config.len > 0 ? extents_at(&i->plan.extents, ROLE_CONFIG_A, 0, &run) : 0;
  ASSERT(i->config.len <= run);
  return (struct item){i->plan.partition_at + at, i->config.len, i->config};
}

static struct bytes piece_of_kind(const struct install *i, u32 kind) {
  for (u32 n = 0; n < i->image->count; n++) {
    struct install_piece p = install_image_piece(i->image, n);
    if (p.kind == kind) {
      return p.data;
    }
  }
  ASSERT(false);
  return bytes_of(NULL, 0);
}

// --- Steps

static bool finish(struct install *i, enum install_end e) {
  i->stage = STAGE_IDLE;
  i->end = (u8)e;
  return true;
}

static void begin(struct install *i, u8 stage) {
  i->stage = stage;
  i->piece = 0;
  i->pos = 0;
  script_init(&i->script, i->block, i->other);
}

static void flush_after(struct install *i) {
  script_add(&i->script, SCRIPT_FLUSH, 0, (struct span){0});
}

static void begin_mark(struct install *i) {
  struct span block = span_of(i->chunk.ptr, INSTALL_BLOCK);
  begin(i, STAGE_MARK);
  memset(block.ptr, 0, block.len);
  memcpy(block.ptr, piece_of_kind(i, INSTALL_MARK).ptr, DISK_BOOT_CODE);
  block.ptr[MBR_TYPE] = MBR_TYPE_UNFINISHED;
  store_le32(block.ptr + MBR_TYPE + 4, 1);
  store_le32(block.ptr + MBR_TYPE + 8, 1);
  store_le16(block.ptr + INSTALL_BLOCK - 2, 0xaa55);
  script_add(&i->script, SCRIPT_WRITE, 0, block);
  flush_after(i);
  script_add(&i->script, SCRIPT_VERIFY, 0, block);
}

// A table that is left would make an old urMQTT of what is half a new one.
static void begin_clear(struct install *i) {
  struct span table = span_of(i->chunk.ptr, TABLE_LEN);
  begin(i, STAGE_CLEAR);
  memset(table.ptr, 0, table.len);
  u64 last = i->info.len - TABLE_LEN;
  script_add(&i->script, SCRIPT_WRITE, INSTALL_BLOCK, table);
  script_add(&i->script, SCRIPT_WRITE, last, table);
  flush_after(i);
  script_add(&i->script, SCRIPT_VERIFY, INSTALL_BLOCK, table);
  script_add(&i->script, SCRIPT_VERIFY, last, table);
}

static void begin_switch(struct install *i) {
  struct span block = span_of(i->chunk.ptr, INSTALL_BLOCK);
  begin(i, STAGE_SWITCH);
  install_slot_write(block, i->slot, i->image->version);
  script_add(&i->script, SCRIPT_WRITE, i->image->slot_at, block);
  flush_after(i);
  script_add(&i->script, SCRIPT_VERIFY, i->image->slot_at, block);
}

static void begin_look(struct install *i) {
  begin(i, STAGE_LOOK);
  script_add(&i->script, SCRIPT_READ, i->image->slot_at, span_of(i->chunk.ptr, INSTALL_BLOCK));
}

static void begin_format(struct install *i) {
  i->stage = STAGE_FORMAT;
  struct bytes code = bytes_sub(piece_of_kind(i, INSTALL_CODE), 0, DISK_BOOT_CODE);
  disk_install_start(&i->disk, i->block, i->digest, i->memory, i->seed, code,
                     i->config.len > 0 ? 1 : 0);
}

// The next chunk of the items, written or compared. False: there is none.
static bool next_chunk(struct install *i) {
  while (i->piece < item_count(i)) {
    struct item it = item_of(i, i->piece);
    if (i->pos == it.len) {
      i->piece++;
      i->pos = 0;
      continue;
    }
    u64 n = MIN(it.len - i->pos, MIN((u64)INSTALL_CHUNK, (u64)i->info.transfer_max));
    struct span s = span_of(i->chunk.ptr, (usize)ALIGN_DOWN(n, (u64)INSTALL_BLOCK));
    if (it.data.len > 0) {
      memcpy(s.ptr, it.data.ptr + i->pos, s.len);
    } else if (i->piece == i->image->count) {
      install_slot_write(s, i->slot, i->image->version);
    } else {
      memset(s.ptr, 0, s.len);
    }
    script_init(&i->script, i->block, i->other);
    script_add(&i->script, i->stage == STAGE_WRITE ? SCRIPT_WRITE : SCRIPT_VERIFY, it.at + i->pos,
               s);
    i->pos += s.len;
    i->done += i->stage == STAGE_COMPARE ? 0 : s.len;
    return true;
  }
  return false;
}

static bool begin_chunks(struct install *i, u8 stage) {
  begin(i, stage);
  return next_chunk(i);
}

static void count_total(struct install *i) {
  for (u32 n = 0; n < item_count(i); n++) {
    i->total += 2 * item_of(i, n).len;
  }
}

static bool look_at_slot(struct install *i) {
  struct bytes version;
  u8 slot = install_slot_read(bytes_of(i->chunk.ptr, INSTALL_BLOCK), &version);
  if (slot == 0 || i->script.unread != 0) {
    return finish(i, slot == 0 ? INSTALL_OTHER_LAYOUT : INSTALL_IO);
  }
  i->slot = slot == 'a' ? 'b' : 'a';
  i->stage = STAGE_WRITE;
  count_total(i);
  return begin_chunks(i, STAGE_WRITE) ? false : finish(i, INSTALL_OTHER_LAYOUT);
}

// The script of a stage is done.
static bool go_on(struct install *i) {
  switch (i->stage) {
  case STAGE_MARK: begin_clear(i); return false;
  case STAGE_CLEAR:
    i->stage = STAGE_WRITE;
    count_total(i);
    (void)begin_chunks(i, STAGE_WRITE);
    return false;
  case STAGE_COMPARE:
    if (!next_chunk(i)) {
      begin_look(i);
    }
    return false;
  case STAGE_LOOK: return look_at_slot(i);
  case STAGE_WRITE:
    if (!next_chunk(i)) {
      begin(i, STAGE_FLUSH);
      flush_after(i);
    }
    return false;
  case STAGE_FLUSH: (void)begin_chunks(i, STAGE_VERIFY); return false;
  case STAGE_VERIFY:
    if (!next_chunk(i)) {
      i->upgrade ? begin_switch(i) : begin_format(i);
    }
    return false;
  default: ASSERT(i->stage == STAGE_SWITCH); return finish(i, INSTALL_DONE);
  }
}

static bool turn_disk(struct install *i, u64 now_ns) {
  if (!disk_turn(&i->disk, now_ns)) {
    return false;
  }
  u8 v = i->disk.verdict;
  if (i->stage == STAGE_FORMAT) {
    return finish(i, v == DISK_OURS            ? INSTALL_DONE
                     : v == DISK_TOO_SMALL     ? INSTALL_TOO_SMALL
                     : i->disk.script.mismatch ? INSTALL_BAD
                                               : INSTALL_IO);
  }
  if (v != DISK_OURS) {
    return finish(i, v == DISK_IO ? INSTALL_IO : INSTALL_NOT_OURS);
  }
  if (!begin_chunks(i, STAGE_COMPARE)) {
    begin_look(i);
  }
  return false;
}

bool install_turn(struct install *i, u64 now_ns) {
  if (i->stage == STAGE_IDLE) {
    return true;
  }
  if (i->stage == STAGE_OPEN || i->stage == STAGE_FORMAT) {
    return turn_disk(i, now_ns);
  }
  enum script_state s = script_turn(&i->script, now_ns);
  if (s == SCRIPT_FAILED) {
    bool other = i->stage == STAGE_COMPARE && i->script.mismatch;
    return finish(i, other ? INSTALL_OTHER_LAYOUT : i->script.mismatch ? INSTALL_BAD : INSTALL_IO);
  }
  return s == SCRIPT_DONE ? go_on(i) : false;
}

// --- Start

static bool prepare(struct install *i, struct block *block, const struct install_image *image,
                    digest_fn *digest, struct span memory) {
  ASSERT(memory.len >= INSTALL_MEMORY);
  *i = (struct install){.block = block, .image = image, .digest = digest, .slot = 'a'};
  i->memory = span_of(memory.ptr, DISK_MEMORY);
  i->chunk = span_of(memory.ptr + DISK_MEMORY, INSTALL_CHUNK);
  i->other = span_of(memory.ptr + DISK_MEMORY + INSTALL_CHUNK, INSTALL_CHUNK);
  block_info(block, &i->info);
  bool blocks = i->info.block_len == INSTALL_BLOCK && i->info.transfer_max >= TABLE_LEN;
  enum install_end e = i->info.read_only                ? INSTALL_READ_ONLY
                       : !blocks                        ? INSTALL_BLOCKS
                       : !disk_plan(&i->info, &i->plan) ? INSTALL_TOO_SMALL
                                                        : INSTALL_RUNNING;
  return e == INSTALL_RUNNING || !finish(i, e);
}

void install_start(struct install *i, struct block *block, const struct install_image *image,
                   digest_fn *digest, struct span memory, const u8 *seed, struct bytes config) {
  if (prepare(i, block, image, digest, memory)) {
    ASSERT(config.len % INSTALL_BLOCK == 0);
    i->seed = seed;
    i->config = config;
    begin_mark(i);
  }
}

void install_upgrade_start(struct install *i, struct block *block,
                           const struct install_image *image, digest_fn *digest,
                           struct span memory) {
  if (prepare(i, block, image, digest, memory)) {
    i->upgrade = true;
    i->stage = STAGE_OPEN;
    disk_open_start(&i->disk, block, digest, i->memory);
  }
}
