// SPDX-License-Identifier: Apache-2.0
// ISO 9660 (ECMA-119): the primary volume descriptor, one level of folder. Names come from Rock
// Ridge (NM) where it is there, else from the volume's own, in small letters and without version.
#include "admin/ustar.h"
#include "admin/volume.h"

enum {
  BLOCK = 2048,
  PVD_AT = 16 * BLOCK,
  PVD_LABEL = 40,
  PVD_ROOT = 156,
  PVD_LEN = 190,
  DIR_MAX = 1 << 18,
  REC_EXTENT = 2,
  REC_SIZE = 10,
  REC_FLAGS = 25,
  REC_NAME_LEN = 32,
  REC_NAME = 33,
  FLAG_DIRECTORY = 2,
  FLAG_MORE_EXTENTS = 128
};

// The Rock Ridge name of a record of `len` bytes; empty: there is none.
static struct bytes rock_ridge(const u8 *rec, u32 len) {
  u32 at = REC_NAME + rec[REC_NAME_LEN];
  at += at & 1;  // padded to an even offset
  while (at + 5 <= len) {
    u32 entry = rec[at + 2];
    if (entry < 4 || entry > len - at) {
      break;
    }
    if (rec[at] == 'N' && rec[at + 1] == 'M' && entry > 5 && rec[at + 4] == 0) {
      return bytes_of(rec + at + 5, entry - 5);
    }
    at += entry;
  }
  return bytes_of(NULL, 0);
}

static u32 plain_name(struct bytes from, u8 name[VOLUME_NAME_MAX]) {
  u32 n = 0;
  while (n < from.len && n < VOLUME_NAME_MAX && from.ptr[n] != ';') {
    u8 c = from.ptr[n];
    name[n++] = c >= 'A' && c <= 'Z' ? (u8)(c + 32) : c;
  }
  return n > 0 && name[n - 1] == '.' ? n - 1 : n;  // a name without extension ends in a dot
}

static enum err take_record(const struct volume_medium *m, const u8 *rec, u32 len, struct span out,
                            u32 *pos) {
  u8 lower[VOLUME_NAME_MAX];
  u32 name_len = rec[REC_NAME_LEN];
  if ((rec[REC_FLAGS] & FLAG_DIRECTORY) != 0) {
    return ERR_OK;
  }
  if ((rec[REC_FLAGS] & FLAG_MORE_EXTENTS) != 0) {
    return ERR_UNSUPPORTED;
  }
  struct bytes name = rock_ridge(rec, len);
  if (name.len == 0) {
    name = bytes_of(lower, plain_name(bytes_of(rec + REC_NAME, name_len), lower));
  }
  if (name.len == 0 || name.len > VOLUME_NAME_MAX) {
    return ERR_OK;  // no name that a configuration could use
  }
  struct span data;
  enum err e = ustar_add(out, pos, name, load_le32(rec + REC_SIZE), &data);
  return e != ERR_OK ? e : volume_read(m, (u64)load_le32(rec + REC_EXTENT) * BLOCK, data);
}

static enum err take_root(const struct volume_medium *m, u64 at, u32 len, struct span out,
                          u32 *pos) {
  u8 rec[256];
  u32 o = 0;
  for (u32 n = 0; o < len && n < VOLUME_ENTRIES_MAX; n++) {
    enum err e = volume_read(m, at + o, span_of(rec, 1));
    if (e != ERR_OK) {
      return e;
    }
    u32 rec_len = rec[0];
    if (rec_len == 0) {  // records do not cross blocks
      o = ALIGN_UP(o + 1, (u32)BLOCK);
      continue;
    }
    if (rec_len < REC_NAME + 1 || rec_len > len - o) {
      return ERR_CORRUPT;
    }
    e = volume_read(m, at + o, span_of(rec, rec_len));
    if (e == ERR_OK && (u32)rec[REC_NAME_LEN] + REC_NAME > rec_len) {
      e = ERR_CORRUPT;
    }
    e = e == ERR_OK ? take_record(m, rec, rec_len, out, pos) : e;
    if (e != ERR_OK) {
      return e;
    }
    o += rec_len;
  }
  return o < len ? ERR_UNSUPPORTED : ERR_OK;
}

enum err volume_iso(const struct volume_medium *m, struct span out, u32 *pos) {
  u8 pvd[PVD_LEN];
  if (m->len < PVD_AT + BLOCK) {
    return ERR_NOT_FOUND;
  }
  enum err e = volume_read(m, PVD_AT, span_of(pvd, sizeof pvd));
  if (e != ERR_OK) {
    return e;
  }
  if (memcmp(pvd, "\1CD001", 6) != 0 || !volume_label_ours(bytes_of(pvd + PVD_LABEL, 32))) {
    return ERR_NOT_FOUND;
  }
  u32 len = load_le32(pvd + PVD_ROOT + REC_SIZE);
  if (len > DIR_MAX) {
    return ERR_UNSUPPORTED;
  }
  return take_root(m, (u64)load_le32(pvd + PVD_ROOT + REC_EXTENT) * BLOCK, len, out, pos);
}
