// SPDX-License-Identifier: Apache-2.0
// Magic, version and the place of the digest are the same in every layout there will be: that is
// how an older program knows that a newer one was here, and leaves it alone.
//
// The choice is free of I/O and small enough to be proven (tests/proof/superblock.c): what counts
// is whole, and nothing whole and newer is passed over but a lone copy of another history (S4).
#include "store/superblock_layout.h"

static void put_extents(const struct extent_table *t, u8 *b) {
  store_le32(b + SB_EXTENT_COUNT, t->count);
  for (u32 i = 0; i < t->count; i++) {
    u8 *e = b + SB_EXTENTS + (usize)i * SBE_END;
    store_le32(e + SBE_ROLE, t->e[i].role);
    store_le64(e + SBE_AT, t->e[i].at);
    store_le64(e + SBE_LEN, t->e[i].len);
  }
}

static void put_roots(const struct disk_roots *r, u8 *b) {
  store_le64(b + SB_JOURNAL_SEQUENCE, r->journal_sequence);
  store_le64(b + SB_DATABASE_LSN, r->database_lsn);
  for (u32 i = 0; i < 2; i++) {
    store_le64(b + SB_BACKUP_LSN + 8 * i, r->backup_lsn[i]);
    memcpy(b + SB_BACKUP_DIGEST + SUPERBLOCK_DIGEST * i, r->backup_digest[i], SUPERBLOCK_DIGEST);
  }
  store_le32(b + SB_DATABASE_STATE, r->database_state);
  store_le32(b + SB_CONFIG_LIVE, r->config_live);
  store_le64(b + SB_WALL, r->wall_s);
}

static void seal(u8 *b, u32 slot, u64 partition_at, digest_fn *digest) {
  store_le32(b + SB_SLOT, slot);
  store_le64(b + SB_SELF, partition_at + SUPERBLOCK_SLOT_AT(slot));
  digest(bytes_of(b, SB_DIGEST), b + SB_DIGEST);
}

void superblock_write(const struct superblock *s, u32 slot, digest_fn *digest, struct span out) {
  ASSERT(out.len == SUPERBLOCK_LEN);
  ASSERT(slot < SUPERBLOCK_SLOTS && slot / 2 == (s->generation & 1));
  ASSERT(s->generation != 0);
  ASSERT(extents_valid(&s->extents, s->partition_len, s->unit));
  u8 *b = out.ptr;
  memset(b, 0, SUPERBLOCK_LEN);
  memcpy(b + SB_MAGIC, SB_MAGIC_TEXT, SB_VERSION - SB_MAGIC);
  store_le32(b + SB_VERSION, SUPERBLOCK_VERSION);
  store_le32(b + SB_UNIT, s->unit);
  store_le64(b + SB_INCOMPATIBLE, s->incompatible);
  store_le64(b + SB_READ_ONLY, s->read_only);
  store_le64(b + SB_COMPATIBLE, s->compatible);
  memcpy(b + SB_UUID, s->uuid, sizeof s->uuid);
  store_le64(b + SB_GENERATION, s->generation);
  memcpy(b + SB_PREVIOUS, s->previous, SUPERBLOCK_DIGEST);
  store_le64(b + SB_BOOTS, s->boots);
  store_le64(b + SB_PARTITION_AT, s->partition_at);
  store_le64(b + SB_PARTITION_LEN, s->partition_len);
  put_roots(&s->roots, b);
  put_extents(&s->extents, b);
  seal(b, slot, s->partition_at, digest);
}

void superblock_copy(struct bytes from, u32 slot, u64 partition_at, digest_fn *digest,
                     struct span out) {
  ASSERT(from.len == SUPERBLOCK_LEN && out.len == SUPERBLOCK_LEN);
  ASSERT(slot < SUPERBLOCK_SLOTS);
  memmove(out.ptr, from.ptr, SUPERBLOCK_LEN);
  seal(out.ptr, slot, partition_at, digest);
}

void superblock_content(struct bytes block, digest_fn *digest, u8 out[SUPERBLOCK_DIGEST]) {
  ASSERT(block.len == SUPERBLOCK_LEN);
  digest(bytes_sub(block, 0, SB_CONTENT_END), out);
}

static bool get_extents(const u8 *b, struct extent_table *t) {
  t->count = load_le32(b + SB_EXTENT_COUNT);
  if (t->count > EXTENTS_MAX) {
    return false;
  }
  for (u32 i = 0; i < t->count; i++) {
    const u8 *e = b + SB_EXTENTS + (usize)i * SBE_END;
    t->e[i] = (struct disk_extent){load_le32(e + SBE_ROLE), load_le64(e + SBE_AT),
                                   load_le64(e + SBE_LEN)};
  }
  return true;
}

static void get_roots(const u8 *b, struct disk_roots *r) {
  r->journal_sequence = load_le64(b + SB_JOURNAL_SEQUENCE);
  r->database_lsn = load_le64(b + SB_DATABASE_LSN);
  for (u32 i = 0; i < 2; i++) {
    r->backup_lsn[i] = load_le64(b + SB_BACKUP_LSN + 8 * i);
    memcpy(r->backup_digest[i], b + SB_BACKUP_DIGEST + SUPERBLOCK_DIGEST * i, SUPERBLOCK_DIGEST);
  }
  r->database_state = load_le32(b + SB_DATABASE_STATE);
  r->config_live = load_le32(b + SB_CONFIG_LIVE);
  r->wall_s = load_le64(b + SB_WALL);
}

static bool get_all(const u8 *b, struct superblock *s) {
  *s = (struct superblock){.incompatible = load_le64(b + SB_INCOMPATIBLE),
                           .read_only = load_le64(b + SB_READ_ONLY),
                           .compatible = load_le64(b + SB_COMPATIBLE),
                           .generation = load_le64(b + SB_GENERATION),
                           .boots = load_le64(b + SB_BOOTS),
                           .partition_at = load_le64(b + SB_PARTITION_AT),
                           .partition_len = load_le64(b + SB_PARTITION_LEN),
                           .unit = load_le32(b + SB_UNIT)};
  memcpy(s->uuid, b + SB_UUID, sizeof s->uuid);
  memcpy(s->previous, b + SB_PREVIOUS, SUPERBLOCK_DIGEST);
  get_roots(b, &s->roots);
  return get_extents(b, &s->extents);
}

static bool digest_right(struct bytes block, digest_fn *digest) {
  u8 want[SUPERBLOCK_DIGEST];
  digest(bytes_sub(block, 0, SB_DIGEST), want);
  return memcmp(want, block.ptr + SB_DIGEST, SUPERBLOCK_DIGEST) == 0;
}

void superblock_read(struct bytes block, u32 slot, u64 partition_at, u64 partition_len,
                     digest_fn *digest, struct slot_view *view, struct superblock *s) {
  ASSERT(block.len == SUPERBLOCK_LEN);
  ASSERT(slot < SUPERBLOCK_SLOTS);
  const u8 *b = block.ptr;
  *view = (struct slot_view){.kind = SLOT_EMPTY};
  if (memcmp(b + SB_MAGIC, SB_MAGIC_TEXT, SB_VERSION - SB_MAGIC) != 0) {
    return;
  }
  view->kind = SLOT_DAMAGED;
  if (!digest_right(block, digest)) {
    return;
  }
  u32 version = load_le32(b + SB_VERSION);
  if (version != SUPERBLOCK_VERSION) {
    view->kind = version < SUPERBLOCK_VERSION ? SLOT_OLDER : SLOT_NEWER;
    return;
  }
  if (load_le32(b + SB_SLOT) != slot ||
      load_le64(b + SB_SELF) != partition_at + SUPERBLOCK_SLOT_AT(slot)) {
    return;  // S3
  }
  if (load_le64(b + SB_INCOMPATIBLE) != 0) {
    view->kind = SLOT_NEWER;
    return;
  }
  bool good = get_all(b, s);
  good = good && s->generation != 0 && slot / 2 == (s->generation & 1);  // S1
  good = good && s->partition_at == partition_at && s->partition_len <= partition_len;
  if (!good || !extents_valid(&s->extents, s->partition_len, s->unit)) {
    return;
  }
  view->kind = s->read_only != 0 ? SLOT_READ_ONLY : SLOT_GOOD;
  view->generation = s->generation;
  memcpy(view->uuid, s->uuid, sizeof view->uuid);
  memcpy(view->previous, s->previous, SUPERBLOCK_DIGEST);
  superblock_content(block, digest, view->content);
}

static bool whole(const struct slot_view *v) {
  return v->kind >= SLOT_READ_ONLY;
}

static bool same_content(const struct slot_view *a, const struct slot_view *b) {
  return whole(a) && whole(b) && a->generation == b->generation &&
         memcmp(a->content, b->content, SUPERBLOCK_DIGEST) == 0;
}

// S4: there is a twin, or no whole predecessor, or one that is what this one says.
static bool believable(const struct slot_view slots[SUPERBLOCK_SLOTS], u32 idx) {
  const struct slot_view *v = &slots[idx];
  bool other_history = false;
  if (same_content(v, &slots[idx ^ 1])) {
    return true;
  }
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    if (!whole(&slots[i]) || slots[i].generation + 1 != v->generation) {
      continue;
    }
    if (memcmp(slots[i].content, v->previous, SUPERBLOCK_DIGEST) == 0) {
      return true;
    }
    other_history = true;
  }
  return !other_history;
}

struct slot_choice superblock_choose(const struct slot_view slots[SUPERBLOCK_SLOTS]) {
  struct slot_choice c = {.idx = SUPERBLOCK_SLOTS, .twin = SUPERBLOCK_SLOTS, .kind = SLOT_EMPTY};
  u8 kind = SLOT_EMPTY;
  u64 highest = 0;
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    const struct slot_view *v = &slots[i];
    if (!whole(v)) {
      kind = MAX(kind, v->kind);
      continue;
    }
    highest = MAX(highest, v->generation);
    bool higher = c.idx == SUPERBLOCK_SLOTS || v->generation > slots[c.idx].generation;
    if (higher && believable(slots, i)) {
      c.idx = i;
    }
  }
  if (kind == SLOT_NEWER || kind == SLOT_OLDER || c.idx == SUPERBLOCK_SLOTS) {
    c.idx = SUPERBLOCK_SLOTS;
    c.kind = kind;
    return c;
  }
  c.twin = c.idx ^ 1;
  c.twin_good = same_content(&slots[c.idx], &slots[c.twin]);
  c.rejected = slots[c.idx].generation != highest;
  c.kind = slots[c.idx].kind;
  return c;
}
