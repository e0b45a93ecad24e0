// SPDX-License-Identifier: Apache-2.0
// FAT12, FAT16, FAT32: the root folder and its files. Names come from the long entries where they
// are there and plain ASCII, else from the short ones in small letters.
#include "admin/ustar.h"
#include "admin/volume.h"

enum {
  ENTRY = 32,
  ATTR = 11,
  ATTR_LONG = 15,
  ATTR_LABEL = 8,
  ATTR_DIRECTORY = 16,
  LONG_PARTS = 5,  // 65 letters; longer names are none of ours
  LONG_LETTERS = 13
};

struct fat {
  const struct volume_medium *m;
  u64 fat_at;
  u64 root_at;  // FAT12 and FAT16
  u64 data_at;
  u32 cluster_len;
  u32 clusters;
  u32 bits;
  u32 root_entries;  // FAT12 and FAT16
  u32 root_cluster;  // FAT32
  u8 label[11];      // of the boot sector
};

struct dir {
  u32 cluster;  // of FAT32's chain
  u32 index;    // of the next entry
};

struct long_name {
  char text[LONG_PARTS * LONG_LETTERS];
  u32 missing;  // parts still to come; 0 with len > 0: whole
  u32 len;
  u8 sum;
};

// Parameter block; ERR_NOT_FOUND: this is no FAT.
static enum err mount(const struct volume_medium *m, struct fat *f) {
  u8 b[96];
  u8 sign[2];
  if (m->len < 512 || volume_read(m, 0, span_of(b, sizeof b)) != ERR_OK ||
      volume_read(m, 510, span_of(sign, 2)) != ERR_OK) {
    return ERR_NOT_FOUND;
  }
  u32 sector = load_le16(b + 11);
  u32 per_cluster = b[13];
  u32 reserved = load_le16(b + 14);
  u32 fats = b[16];
  u32 root_entries = load_le16(b + 17);
  u64 total = load_le16(b + 19) != 0 ? load_le16(b + 19) : load_le32(b + 32);
  u64 fat_len = load_le16(b + 22) != 0 ? load_le16(b + 22) : load_le32(b + 36);
  if (sign[0] != 0x55 || sign[1] != 0xaa || !IS_POWER_OF_TWO(sector) || sector < 512 ||
      sector > 4096 || !IS_POWER_OF_TWO(per_cluster) || reserved == 0 || fats == 0 || fats > 2 ||
      fat_len == 0 || total * sector > m->len) {
    return ERR_NOT_FOUND;
  }
  u64 root_sectors = ((u64)root_entries * ENTRY + sector - 1) / sector;
  u64 before = reserved + fats * fat_len + root_sectors;
  if (before >= total) {
    return ERR_NOT_FOUND;
  }
  u32 clusters = (u32)((total - before) / per_cluster);
  *f = (struct fat){.m = m,
                    .fat_at = (u64)reserved * sector,
                    .root_at = (reserved + fats * fat_len) * sector,
                    .data_at = before * sector,
                    .cluster_len = per_cluster * sector,
                    .clusters = clusters,
                    .bits = clusters < 4085    ? 12
                            : clusters < 65525 ? 16
                                               : 32,
                    .root_entries = root_entries,
                    .root_cluster = load_le32(b + 44)};
  memcpy(f->label, b + (f->bits == 32 ? 71 : 43), sizeof f->label);
  return ERR_OK;
}

static bool cluster_good(const struct fat *f, u32 cluster) {
  return cluster >= 2 && cluster - 2 < f->clusters;
}

static u64 cluster_at(const struct fat *f, u32 cluster) {
  ASSERT(cluster_good(f, cluster));
  return f->data_at + (u64)(cluster - 2) * f->cluster_len;
}

// The cluster after *cluster; 0 at the chain's end. ERR_CORRUPT: it leads nowhere.
static enum err cluster_next(const struct fat *f, u32 *cluster) {
  u8 e[4] = {0};
  u32 c = *cluster;
  u64 at = f->bits == 12 ? c + c / 2 : (u64)c * (f->bits / 8);
  enum err r = volume_read(f->m, f->fat_at + at, span_of(e, f->bits == 32 ? 4 : 2));
  u32 v = load_le32(e);
  u32 mask = f->bits == 12 ? 0xfff : f->bits == 16 ? 0xffff : 0x0fffffff;
  if (f->bits == 12 && (c & 1) != 0) {
    v >>= 4;
  }
  v &= mask;
  if (r != ERR_OK) {
    return r;
  }
  *cluster = v >= mask - 7 ? 0 : v;
  return *cluster == 0 || cluster_good(f, v) ? ERR_OK : ERR_CORRUPT;
}

// The next entry of the root folder. ERR_NOT_FOUND: no more.
static enum err dir_next(const struct fat *f, struct dir *d, u8 entry[ENTRY]) {
  u64 at = f->root_at + (u64)d->index * ENTRY;
  if (f->bits != 32 && d->index == f->root_entries) {
    return ERR_NOT_FOUND;
  }
  if (f->bits == 32) {
    u32 within = d->index % (f->cluster_len / ENTRY);
    enum err e = cluster_good(f, d->cluster) ? ERR_OK : ERR_CORRUPT;
    if (e == ERR_OK && d->index > 0 && within == 0) {
      e = cluster_next(f, &d->cluster);
    }
    if (e != ERR_OK || d->cluster == 0) {
      return e != ERR_OK ? e : ERR_NOT_FOUND;
    }
    at = cluster_at(f, d->cluster) + (u64)within * ENTRY;
  }
  d->index++;
  if (d->index > VOLUME_ENTRIES_MAX) {
    return ERR_UNSUPPORTED;
  }
  enum err e = volume_read(f->m, at, span_of(entry, ENTRY));
  return e == ERR_OK && entry[0] == 0 ? ERR_NOT_FOUND : e;
}

static void take_long(struct long_name *l, const u8 *e) {
  static const u8 at[LONG_LETTERS] = {1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30};
  u32 part = e[0] & 0x3f;
  if ((e[0] & 0x40) != 0) {
    *l = (struct long_name){.missing = part, .sum = e[13]};
  }
  if (part == 0 || part > LONG_PARTS || part != l->missing || e[13] != l->sum) {
    *l = (struct long_name){0};
    return;
  }
  for (u32 i = 0; i < LONG_LETTERS; i++) {
    u32 c = load_le16(e + at[i]);
    if (c == 0 || c == 0xffff) {
      break;
    }
    if (c < ' ' || c > '~') {
      *l = (struct long_name){0};
      return;
    }
    u32 place = (part - 1) * LONG_LETTERS + i;
    l->text[place] = (char)c;
    l->len = MAX(l->len, place + 1);
  }
  l->missing--;
}

static u8 short_sum(const u8 *e) {
  u8 sum = 0;
  for (u32 i = 0; i < 11; i++) {
    sum = (u8)((sum >> 1 | sum << 7) + e[i]);
  }
  return sum;
}

static u32 short_name(const u8 *e, char name[12]) {
  u32 n = 0;
  for (u32 i = 0; i < 11; i++) {
    if (e[i] == ' ') {
      continue;
    }
    if (i == 8) {  // the extension
      name[n++] = '.';
    }
    name[n++] = (char)(e[i] >= 'A' && e[i] <= 'Z' ? e[i] + 32 : e[i]);
  }
  return n;
}

static enum err take_file(const struct fat *f, const u8 *e, const struct long_name *l,
                          struct span out, u32 *pos) {
  char brief[12];
  struct span data;
  bool whole = l->len > 0 && l->missing == 0 && l->sum == short_sum(e);
  struct bytes name = whole ? bytes_of(l->text, MIN(l->len, VOLUME_NAME_MAX))
                            : bytes_of(brief, short_name(e, brief));
  enum err r = ustar_add(out, pos, name, load_le32(e + 28), &data);
  u32 cluster = (u32)(f->bits == 32 ? load_le16(e + 20) : 0) << 16 | load_le16(e + 26);
  usize done = 0;
  while (r == ERR_OK && done < data.len) {
    usize n = MIN(data.len - done, (usize)f->cluster_len);
    if (!cluster_good(f, cluster)) {
      return ERR_CORRUPT;
    }
    r = volume_read(f->m, cluster_at(f, cluster), span_of(data.ptr + done, n));
    done += n;
    if (r == ERR_OK && done < data.len) {
      r = cluster_next(f, &cluster);
    }
  }
  return r;
}

static bool labelled(const struct fat *f) {
  u8 e[ENTRY];
  struct dir d = {f->root_cluster, 0};
  while (dir_next(f, &d, e) == ERR_OK) {
    if (e[0] != 0xe5 && e[ATTR] != ATTR_LONG && (e[ATTR] & ATTR_LABEL) != 0) {
      return volume_label_ours(bytes_of(e, 11));
    }
  }
  return volume_label_ours(bytes_of(f->label, sizeof f->label));
}

enum err volume_fat(const struct volume_medium *m, struct span out, u32 *pos) {
  struct fat f;
  u8 e[ENTRY];
  struct long_name l = {.len = 0};
  enum err r = mount(m, &f);
  if (r != ERR_OK || !labelled(&f)) {
    return ERR_NOT_FOUND;
  }
  struct dir d = {f.root_cluster, 0};
  while ((r = dir_next(&f, &d, e)) == ERR_OK) {
    if (e[0] != 0xe5 && e[ATTR] == ATTR_LONG) {
      take_long(&l, e);
      continue;
    }
    if (e[0] != 0xe5 && (e[ATTR] & (ATTR_LABEL | ATTR_DIRECTORY)) == 0) {
      r = take_file(&f, e, &l, out, pos);
      if (r != ERR_OK) {
        return r;
      }
    }
    l = (struct long_name){.len = 0};
  }
  return r == ERR_NOT_FOUND ? ERR_OK : r;
}
