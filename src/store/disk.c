// SPDX-License-Identifier: Apache-2.0
// The orders of writing, each a script:
//   format  superblock generation 1 in its pair | the other pair zeroed | last table | first table:
//           what lies behind block 0 | block 0
//   update  the pair that does not hold the last good generation | read back
//   grow    last table at the new end | first table | update with the new extents
//   repair  the damaged copy from the good one
// A bar is a flush. Cut a script anywhere: what counted before still counts, or what is new does.
// The first table is written last when formatting, and of it block 0, which a disk writes whole or
// not at all: until then the disk is what block 0 says that it was.
#include "store/disk.h"

enum { STAGE_IDLE, STAGE_TABLES, STAGE_SLOTS, STAGE_FORMAT, STAGE_WRITE, STAGE_REPAIR };

#define MIB (1ull << 20)
#define ESP_AT (2 * MIB)
#define DATA_AT (66 * MIB)

const char *disk_verdict_text(enum disk_verdict v) {
  static const char *const text[DISK_VERDICTS] = {
      [DISK_OURS] = "the disk is urMQTT's and in order",
      [DISK_OURS_READ_ONLY] =
          "the disk has features of a newer urMQTT and is only read: start the "
          "newer version to write",
      [DISK_EMPTY] = "the disk has no partition table: choose \"install\" to set it up",
      [DISK_FOREIGN] =
          "the disk belongs to something else and is left alone: choose \"install\" "
          "only if its content may be destroyed",
      [DISK_OLDER] = "the disk has an older layout and is left alone: migrate it with urmqtt-disk",
      [DISK_NEWER] = "the disk was written by a newer urMQTT and is left alone: start that version",
      [DISK_BLANK] =
          "the disk has our partition but nothing in it, a set-up that was not finished: "
          "choose \"install\" again",
      [DISK_DAMAGED] =
          "all superblocks are damaged: write nothing, copy the disk, and look at the "
          "copy with urmqtt-disk",
      [DISK_SHRUNK] = "the disk is shorter than it was and is left alone: give it its size back",
      [DISK_TOO_SMALL] = "the disk is too small: 512 MiB are needed",
      [DISK_BLOCKS] =
          "the disk's blocks are longer than 4096 bytes, which is not supported: attach "
          "it with blocks of 512 or 4096",
      [DISK_WRITE_BAD] =
          "the disk did not keep what was written and is not written any more: "
          "replace it",
      [DISK_IO] = "the disk cannot be read: look at the device",
  };
  ASSERT(v < DISK_VERDICTS);
  return text[v];
}

static bool prepare(struct disk *d, struct block *block, digest_fn *digest, struct span memory) {
  ASSERT(memory.len >= DISK_MEMORY);
  *d = (struct disk){.block = block, .digest = digest};
  block_info(block, &d->info);
  u32 n = d->info.block_len;
  if (n < 512 || n > GPT_BLOCK_MAX) {
    d->verdict = DISK_BLOCKS;
    return false;
  }
  u8 *p = memory.ptr;
  d->first = span_of(p, GPT_FIRST_LEN(n));
  p += GPT_FIRST_LEN(GPT_BLOCK_MAX);
  d->last = span_of(p, GPT_LAST_LEN(n));
  p += GPT_LAST_LEN(GPT_BLOCK_MAX);
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++, p += SUPERBLOCK_LEN) {
    d->slot[i] = span_of(p, SUPERBLOCK_LEN);
  }
  script_init(&d->script, block, span_of(p, GPT_FIRST_LEN(GPT_BLOCK_MAX)));
  ASSERT((usize)(p - memory.ptr) + GPT_FIRST_LEN(GPT_BLOCK_MAX) <= DISK_MEMORY);
  return true;
}

static u64 last_at(const struct disk *d) {
  return (d->gpt.blocks) * d->info.block_len - d->last.len;
}
static u64 slot_at(const struct disk *d, u32 slot) {
  return d->super.partition_at + SUPERBLOCK_SLOT_AT(slot);
}
static struct span first_entries(const struct disk *d) {
  return span_of(d->first.ptr + 2 * (usize)d->info.block_len, GPT_ENTRIES_LEN);
}

static void restart(struct disk *d, u8 stage) {
  script_init(&d->script, d->block, d->script.scratch);
  d->stage = stage;
}

static void finish(struct disk *d, enum disk_verdict v) {
  d->stage = STAGE_IDLE;
  d->verdict = (u8)v;
}

// --- Open

void disk_open_start(struct disk *d, struct block *block, digest_fn *digest, struct span memory) {
  if (!prepare(d, block, digest, memory)) {
    return;
  }
  if (d->info.len < 4 * MIB) {
    finish(d, DISK_TOO_SMALL);
    return;
  }
  d->gpt.blocks = d->info.len / d->info.block_len;
  restart(d, STAGE_TABLES);
  script_add(&d->script, SCRIPT_READ, 0, d->first);
  script_add(&d->script, SCRIPT_READ, last_at(d), d->last);
}

// The table that counts, its entries in `first`. The first copy, if whole; else the last.
static enum disk_verdict judge_tables(struct disk *d) {
  u64 blocks = d->info.len / d->info.block_len;
  struct gpt last;
  enum err e1 = gpt_read_first(span_bytes(d->first), d->info.block_len, blocks, &d->gpt);
  enum err e2 = gpt_read_last(span_bytes(d->last), d->info.block_len, blocks, &last);
  if (gpt_mbr_foreign(span_bytes(d->first))) {
    return DISK_FOREIGN;  // also what an installation that was not finished leaves in block 0
  }
  if (e1 == ERR_RANGE) {
    return DISK_SHRUNK;
  }
  if (e1 != ERR_OK && e2 != ERR_OK) {
    bool none = e1 == ERR_NOT_FOUND && e2 == ERR_NOT_FOUND;
    bool unread = d->script.unread != 0;
    return unread ? DISK_IO : none ? DISK_EMPTY : DISK_FOREIGN;
  }
  struct span entries = first_entries(d);
  if (e1 != ERR_OK) {
    d->gpt = last;
    d->repairs |= DISK_REPAIR_TABLE_FIRST;
    memcpy(entries.ptr, d->last.ptr, GPT_ENTRIES_LEN);
  } else if (d->gpt.blocks < blocks) {
    d->grown = true;
  } else if (e2 != ERR_OK || memcmp(entries.ptr, d->last.ptr, GPT_ENTRIES_LEN) != 0) {
    d->repairs |= DISK_REPAIR_TABLE_LAST;
  }
  enum err found = gpt_find(&d->gpt, span_bytes(entries), gpt_type_urmqtt, &d->part);
  return found == ERR_OK ? DISK_OURS : DISK_FOREIGN;
}

static void open_slots(struct disk *d) {
  d->super.partition_at = d->part.first * d->info.block_len;
  u64 len = (d->part.last - d->part.first + 1) * d->info.block_len;
  if (len < EXTENTS_FROM) {
    finish(d, DISK_FOREIGN);
    return;
  }
  restart(d, STAGE_SLOTS);
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    script_add(&d->script, SCRIPT_READ, slot_at(d, i), d->slot[i]);
  }
}

static enum disk_verdict judge_slots(struct disk *d) {
  struct slot_view view[SUPERBLOCK_SLOTS];
  u64 at = d->super.partition_at;
  u64 len = (d->part.last - d->part.first + 1) * d->info.block_len;
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    superblock_read(span_bytes(d->slot[i]), i, at, len, d->digest, &view[i], &d->next);
  }
  struct slot_choice c = superblock_choose(view);
  d->rejected = c.rejected;
  switch (c.kind) {
  case SLOT_EMPTY: return d->script.unread != 0 ? DISK_IO : DISK_BLANK;
  case SLOT_DAMAGED: return DISK_DAMAGED;
  case SLOT_OLDER: return DISK_OLDER;
  case SLOT_NEWER: return DISK_NEWER;
  default: break;
  }
  superblock_read(span_bytes(d->slot[c.idx]), c.idx, at, len, d->digest, &view[c.idx], &d->super);
  memcpy(d->content, view[c.idx].content, SUPERBLOCK_DIGEST);
  d->slot_idx = c.idx;
  d->repairs |= c.twin_good ? 0 : DISK_REPAIR_SUPERBLOCK;
  d->grown = d->grown || len > d->super.partition_len;
  return c.kind == SLOT_READ_ONLY ? DISK_OURS_READ_ONLY : DISK_OURS;
}

// --- Write

// The pair of a generation, written, flushed and read back.
static void add_pair(struct disk *d, const struct superblock *s) {
  u32 a = superblock_slot(s->generation, 0);
  for (u32 i = a; i < a + 2; i++) {
    superblock_write(s, i, d->digest, d->slot[i]);
    script_add(&d->script, SCRIPT_WRITE, slot_at(d, i), d->slot[i]);
  }
  script_add(&d->script, SCRIPT_FLUSH, 0, (struct span){0});
  for (u32 i = a; i < a + 2; i++) {
    script_add(&d->script, SCRIPT_VERIFY, slot_at(d, i), d->slot[i]);
  }
}

static void add_checked(struct disk *d, u64 at, struct span s) {
  script_add(&d->script, SCRIPT_WRITE, at, s);
  script_add(&d->script, SCRIPT_FLUSH, 0, (struct span){0});
  script_add(&d->script, SCRIPT_VERIFY, at, s);
}

static void add_table(struct disk *d, bool first) {
  u32 n = d->info.block_len;
  if (first) {
    add_checked(d, n, span_of(d->first.ptr + n, d->first.len - n));
    add_checked(d, 0, span_of(d->first.ptr, n));
  } else {
    add_checked(d, last_at(d), d->last);
  }
}

static u32 unit_of(const struct block_info *i) {
  bool good = IS_POWER_OF_TWO(i->optimal_len) && i->optimal_len <= EXTENTS_UNIT_MAX;
  return good ? MAX(EXTENTS_UNIT_MIN, i->optimal_len) : EXTENTS_UNIT_MIN;
}

// A random GUID of version 4, RFC 9562 5.4; GUIDs of tables have their first fields little-endian.
static void guid_from(u8 *out, const u8 *seed) {
  memcpy(out, seed, GPT_GUID_LEN);
  out[7] = (u8)(0x40 | (out[7] & 0x0f));
  out[8] = (u8)(0x80 | (out[8] & 0x3f));
}

static void format_tables(struct disk *d, const u8 *seed) {
  static const char *const name[3] = {"BIOS boot", "EFI system", "urMQTT"};
  const u8 *const type[3] = {gpt_type_bios_boot, gpt_type_esp, gpt_type_urmqtt};
  u64 n = d->info.block_len;
  const u64 at[3] = {MIB, ESP_AT, d->super.partition_at};
  const u64 end[3] = {ESP_AT, DATA_AT, d->super.partition_at + d->super.partition_len};
  struct span entries = first_entries(d);
  memset(d->first.ptr, 0, d->first.len);
  guid_from(d->gpt.guid, seed);
  for (u32 i = 0; i < 3; i++) {
    d->part = (struct gpt_part){i, at[i] / n, end[i] / n - 1, {0}};
    guid_from(d->part.unique, seed + (i + 1) * GPT_GUID_LEN);
    gpt_put_entry(entries, i, type[i], &d->part, name[i]);
  }
  memcpy(d->last.ptr, entries.ptr, GPT_ENTRIES_LEN);
  gpt_seal_first(&d->gpt, d->first);
  gpt_seal_last(&d->gpt, d->last);
}

bool disk_plan(const struct block_info *info, struct superblock *out) {
  u32 n = info->block_len;
  u32 unit = unit_of(info);
  u64 at = ALIGN_UP(DATA_AT, (u64)unit);
  u64 blocks = info->len / n;
  u64 end = blocks * n > at ? (gpt_usable_last(n, blocks) + 1) * n : 0;
  u64 len = end > at ? ALIGN_DOWN(end - at, (u64)unit) : 0;
  *out =
      (struct superblock){.generation = 1, .partition_at = at, .partition_len = len, .unit = unit};
  return extents_plan(&out->extents, len, unit) == ERR_OK;
}

void disk_format_start(struct disk *d, struct block *block, digest_fn *digest, struct span memory,
                       const u8 *seed) {
  disk_install_start(d, block, digest, memory, seed, bytes_of(NULL, 0), 0);
}

void disk_install_start(struct disk *d, struct block *block, digest_fn *digest, struct span memory,
                        const u8 *seed, struct bytes boot_code, u32 config_live) {
  ASSERT(boot_code.len <= DISK_BOOT_CODE);
  ASSERT(config_live <= 2);
  if (!prepare(d, block, digest, memory)) {
    return;
  }
  if (!disk_plan(&d->info, &d->super)) {
    finish(d, DISK_TOO_SMALL);
    return;
  }
  d->gpt = (struct gpt){.block_len = d->info.block_len, .blocks = d->info.len / d->info.block_len};
  d->super.roots.config_live = config_live;
  guid_from(d->super.uuid, seed + 4 * GPT_GUID_LEN);
  format_tables(d, seed);
  if (boot_code.len > 0) {
    memcpy(d->first.ptr, boot_code.ptr, boot_code.len);
  }
  restart(d, STAGE_FORMAT);
  add_pair(d, &d->super);
  superblock_content(span_bytes(d->slot[2]), digest, d->content);
  for (u32 i = 0; i < 2; i++) {
    memset(d->slot[i].ptr, 0, SUPERBLOCK_LEN);
    script_add(&d->script, SCRIPT_WRITE, slot_at(d, i), d->slot[i]);
  }
  script_add(&d->script, SCRIPT_FLUSH, 0, (struct span){0});
  for (u32 i = 0; i < 2; i++) {
    script_add(&d->script, SCRIPT_VERIFY, slot_at(d, i), d->slot[i]);
  }
  add_table(d, false);
  add_table(d, true);
}

static void assert_ready(const struct disk *d) {
  ASSERT(d->stage == STAGE_IDLE);
  ASSERT(d->verdict == DISK_OURS);
}

void disk_repair_start(struct disk *d) {
  assert_ready(d);
  restart(d, STAGE_REPAIR);
  if ((d->repairs & DISK_REPAIR_SUPERBLOCK) != 0) {
    u32 twin = d->slot_idx ^ 1;
    superblock_copy(span_bytes(d->slot[d->slot_idx]), twin, d->super.partition_at, d->digest,
                    d->slot[twin]);
    script_add(&d->script, SCRIPT_WRITE, slot_at(d, twin), d->slot[twin]);
    script_add(&d->script, SCRIPT_FLUSH, 0, (struct span){0});
    script_add(&d->script, SCRIPT_VERIFY, slot_at(d, twin), d->slot[twin]);
  }
  if ((d->repairs & DISK_REPAIR_TABLE_FIRST) != 0) {
    gpt_seal_first(&d->gpt, d->first);
    add_table(d, true);
  }
  if ((d->repairs & DISK_REPAIR_TABLE_LAST) != 0) {
    memcpy(d->last.ptr, first_entries(d).ptr, GPT_ENTRIES_LEN);
    gpt_seal_last(&d->gpt, d->last);
    add_table(d, false);
  }
}

static void start_next(struct disk *d) {
  d->next.generation = d->super.generation + 1;
  memcpy(d->next.previous, d->content, SUPERBLOCK_DIGEST);
  add_pair(d, &d->next);
}

void disk_update_start(struct disk *d, const struct superblock *next) {
  assert_ready(d);
  ASSERT((d->repairs & DISK_REPAIR_SUPERBLOCK) == 0);
  d->next = *next;
  memcpy(d->next.uuid, d->super.uuid, sizeof d->next.uuid);
  d->next.partition_at = d->super.partition_at;
  d->next.partition_len = d->super.partition_len;
  d->next.unit = d->super.unit;
  d->next.extents = d->super.extents;
  restart(d, STAGE_WRITE);
  start_next(d);
}

enum err disk_grow_start(struct disk *d) {
  assert_ready(d);
  ASSERT(d->repairs == 0);
  block_info(d->block, &d->info);
  u32 n = d->info.block_len;
  u64 blocks = d->info.len / n;
  if (blocks < d->gpt.blocks) {
    finish(d, DISK_SHRUNK);
    return ERR_RANGE;
  }
  struct superblock *s = &d->next;
  *s = d->super;
  u64 end = (gpt_usable_last(n, blocks) + 1) * n;
  s->partition_len = ALIGN_DOWN(end - s->partition_at, (u64)s->unit);
  TRY(extents_grow(&s->extents, d->super.partition_len, s->partition_len, s->unit));
  if (gpt_used_behind(span_bytes(first_entries(d)), &d->part)) {
    return ERR_UNSUPPORTED;
  }
  d->gpt.blocks = blocks;
  u64 last = (s->partition_at + s->partition_len) / n - 1;
  gpt_put_last(first_entries(d), &d->part, MAX(last, d->part.last));
  d->part.last = MAX(last, d->part.last);
  memcpy(d->last.ptr, first_entries(d).ptr, GPT_ENTRIES_LEN);
  gpt_seal_last(&d->gpt, d->last);
  gpt_seal_first(&d->gpt, d->first);
  restart(d, STAGE_WRITE);
  add_table(d, false);
  add_table(d, true);
  start_next(d);
  return ERR_OK;
}

static void written(struct disk *d) {
  if (d->stage == STAGE_WRITE) {
    d->super = d->next;
    superblock_content(span_bytes(d->slot[superblock_slot(d->super.generation, 0)]), d->digest,
                       d->content);
    u64 len = (d->part.last - d->part.first + 1) * d->info.block_len;
    d->grown = d->gpt.blocks < d->info.len / d->info.block_len || len > d->super.partition_len;
  }
  if (d->stage == STAGE_REPAIR) {
    d->repairs = 0;
  }
  finish(d, DISK_OURS);
}

bool disk_turn(struct disk *d, u64 now_ns) {
  if (d->stage == STAGE_IDLE) {
    return true;
  }
  enum script_state s = script_turn(&d->script, now_ns);
  if (s == SCRIPT_FAILED) {
    finish(d, d->stage <= STAGE_SLOTS ? DISK_IO : DISK_WRITE_BAD);
  } else if (s == SCRIPT_DONE && d->stage == STAGE_TABLES) {
    enum disk_verdict v = judge_tables(d);
    if (v == DISK_OURS) {
      open_slots(d);
    } else {
      finish(d, v);
    }
  } else if (s == SCRIPT_DONE && d->stage == STAGE_SLOTS) {
    finish(d, judge_slots(d));
  } else if (s == SCRIPT_DONE) {
    written(d);
  }
  return d->stage == STAGE_IDLE;
}
