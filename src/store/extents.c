// SPDX-License-Identifier: Apache-2.0
// Shares: what has a smallest size (journal 10 %, at least 128 MiB; WAL 64 MiB; reserve 1 %, at
// least 16 MiB; two configurations) is taken first. Database and each backup get 20 % of the
// partition, on a small one 2/7 of what is left, telemetry gets the rest.
//
// I1  Extents ascend, do not overlap, and are multiples of the unit.
// I2  An extent never moves and never shrinks: growth only adds.
#include "store/extents.h"

#define MIB (1ull << 20)
#define SMALLEST (16 * MIB)  // of database, backups and telemetry

struct shares {
  u64 len[ROLE_COUNT];
};

static bool unit_good(u32 unit) {
  return IS_POWER_OF_TWO(unit) && unit >= EXTENTS_UNIT_MIN && unit <= EXTENTS_UNIT_MAX;
}

static void add(struct extent_table *t, u32 role, u64 *at, u64 len) {
  ASSERT(t->count < EXTENTS_MAX);
  ASSERT(len > 0);
  t->e[t->count++] = (struct disk_extent){role, *at, len};
  *at += len;
}

enum err extents_plan(struct extent_table *t, u64 len, u32 unit) {
  struct shares s = {0};
  ASSERT(unit_good(unit));
  *t = (struct extent_table){0};
  u64 from = ALIGN_UP(EXTENTS_FROM, (u64)unit);
  len = ALIGN_DOWN(len, (u64)unit);
  s.len[ROLE_CONFIG_A] = unit;
  s.len[ROLE_CONFIG_B] = unit;
  s.len[ROLE_JOURNAL] = ALIGN_UP(MAX(len / 10, 128 * MIB), (u64)unit);
  s.len[ROLE_WAL] = ALIGN_UP(64 * MIB, (u64)unit);
  s.len[ROLE_RESERVE] = ALIGN_UP(MAX(len / 100, 16 * MIB), (u64)unit);
  u64 fixed = from;
  for (u32 r = 0; r < ROLE_COUNT; r++) {
    fixed += s.len[r];
  }
  u64 rest = len > fixed ? len - fixed : 0;
  u64 fifth = ALIGN_DOWN(MIN(len / 5, rest / 7 * 2), (u64)unit);
  s.len[ROLE_DATABASE] = fifth;
  s.len[ROLE_BACKUP_A] = fifth;
  s.len[ROLE_BACKUP_B] = fifth;
  s.len[ROLE_TELEMETRY] = rest - 3 * fifth;
  if (fifth < SMALLEST || s.len[ROLE_TELEMETRY] < SMALLEST) {
    return ERR_RANGE;
  }
  for (u32 r = ROLE_CONFIG_A; r < ROLE_COUNT; r++) {
    add(t, r, &from, s.len[r]);
  }
  ASSERT(from == len);
  return ERR_OK;
}

enum err extents_grow(struct extent_table *t, u64 old_len, u64 new_len, u32 unit) {
  static const struct {
    u8 role;
    u8 percent;
  } shares[] = {{ROLE_JOURNAL, 10},
                {ROLE_DATABASE, 20},
                {ROLE_BACKUP_A, 20},
                {ROLE_BACKUP_B, 20},
                {ROLE_RESERVE, 1}};
  ASSERT(unit_good(unit));
  ASSERT(t->count > 0);
  u64 from = ALIGN_UP(old_len, (u64)unit);
  u64 to = ALIGN_DOWN(new_len, (u64)unit);
  if (to <= from || to - from < EXTENTS_GROWTH_MIN) {
    return ERR_RANGE;
  }
  u64 len = to - from;
  if (t->count + ARRAY_COUNT(shares) + 1 > EXTENTS_MAX) {
    return ERR_LIMIT;
  }
  for (u32 i = 0; i < ARRAY_COUNT(shares); i++) {
    u64 part = ALIGN_DOWN(len / 100 * shares[i].percent, (u64)unit);
    if (part != 0) {
      add(t, shares[i].role, &from, part);
    }
  }
  add(t, ROLE_TELEMETRY, &from, to - from);
  ASSERT(from == to);
  return ERR_OK;
}

bool extents_valid(const struct extent_table *t, u64 len, u32 unit) {
  u32 roles = 0;
  u64 end = EXTENTS_FROM;
  if (!unit_good(unit) || t->count > EXTENTS_MAX) {
    return false;
  }
  for (u32 i = 0; i < t->count; i++) {
    const struct disk_extent *e = &t->e[i];
    bool aligned = e->at % unit == 0 && e->len % unit == 0;
    if (e->role == ROLE_NONE || e->role >= ROLE_COUNT || !aligned || e->len == 0) {
      return false;
    }
    if (e->at < end || e->at > len || e->len > len - e->at) {
      return false;
    }
    end = e->at + e->len;
    roles |= 1u << e->role;
  }
  return roles == (1u << ROLE_COUNT) - 2;
}

u64 extents_len(const struct extent_table *t, enum disk_role role) {
  u64 len = 0;
  for (u32 i = 0; i < t->count; i++) {
    len += t->e[i].role == role ? t->e[i].len : 0;
  }
  return len;
}

u64 extents_at(const struct extent_table *t, enum disk_role role, u64 pos, u64 *run) {
  for (u32 i = 0; i < t->count; i++) {
    const struct disk_extent *e = &t->e[i];
    if (e->role != role) {
      continue;
    }
    if (pos < e->len) {
      *run = e->len - pos;
      return e->at + pos;
    }
    pos -= e->len;
  }
  ASSERT(false);
  *run = 0;
  return 0;
}
