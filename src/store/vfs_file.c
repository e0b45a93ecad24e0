// SPDX-License-Identifier: Apache-2.0
// Files of pages: the database and its backups. Written behind one another without waiting, read
// alone, or by the buffer when the reader goes straight on.
#include "base/hash.h"
#include "store/vfs.h"

#define PAGE_COUNT_AT 28u  // SQLite's file format 1.3: pages of the database

// V1. The tag's own place holds what is hashed with the page meanwhile.
static u64 tag_of(const struct vfs *v, enum vfs_file_kind kind, u64 at, u8 *page) {
  struct siphash_key key = {load_le64(v->place.uuid), load_le64(v->place.uuid + 8)};
  u8 *place = page + VFS_PAGE - VFS_TAG;
  store_le32(place, (u32)(at / VFS_PAGE) + 1);
  store_le32(place + 4, kind);
  return siphash(&key, bytes_of(page, VFS_PAGE));
}

// True: the page is what was written here.
static bool tag_good(const struct vfs *v, enum vfs_file_kind kind, u64 at, u8 *page) {
  u8 *place = page + VFS_PAGE - VFS_TAG;
  u64 tag = load_le64(place);
  bool good = tag == tag_of(v, kind, at, page);
  store_le64(place, tag);
  return good;
}

static void forget(struct vfs *v) {
  v->ahead.len = 0;
}

// The page's bytes as they lie on the disk, in the buffer.
static enum err fetch(struct vfs *v, enum vfs_file_kind kind, u64 at, u8 **page) {
  struct vfs_ahead *a = &v->ahead;
  bool have = v->ahead_kind == kind && at >= a->at && at + VFS_PAGE <= a->at + a->len;
  if (!have) {
    bool on = v->ahead_kind == kind && at == a->next;
    u32 len = (u32)MIN(on ? (u64)VFS_BUFFER : VFS_PAGE, ALIGN_UP(v->size[kind] - at, 4096ull));
    forget(v);
    TRY(vfs_settle(v));
    TRY(vfs_transfer(v, BLOCK_READ, kind, at, a->memory, len));
    a->at = at;
    a->len = len;
    v->ahead_kind = (u8)kind;
  }
  a->next = at + VFS_PAGE;
  *page = a->memory + (at - a->at);
  return ERR_OK;
}

enum err vfs_page_read(struct vfs *v, enum vfs_file_kind kind, u64 at, struct span out) {
  u64 from = ALIGN_DOWN(at, (u64)VFS_PAGE);
  ASSERT(kind < VFS_WAL && at - from + out.len <= VFS_PAGE);
  if (from >= v->size[kind]) {
    memset(out.ptr, 0, out.len);
    return ERR_SHORT;
  }
  u8 *raw = NULL;
  TRY(fetch(v, kind, from, &raw));
  if (!tag_good(v, kind, from, raw)) {
    forget(v);
    memset(out.ptr, 0, out.len);
    if (out.len < VFS_PAGE) {
      return ERR_SHORT;
    }
    v->damaged = true;
    v->damaged_kind = (u8)kind;
    v->damaged_at = from;
    return ERR_CORRUPT;
  }
  memcpy(out.ptr, raw + (at - from), out.len);
  if (out.len == VFS_PAGE) {  // the tag is nobody else's
    memset(out.ptr + VFS_PAGE - VFS_TAG, 0, VFS_TAG);
  }
  return ERR_OK;
}

static enum err put(struct vfs *v, enum vfs_file_kind kind, u64 at, const u8 *content) {
  u8 page[VFS_PAGE];
  memcpy(page, content, VFS_PAGE);
  store_le64(page + VFS_PAGE - VFS_TAG, tag_of(v, kind, at, page));
  return vfs_post(v, kind, at, bytes_of(page, VFS_PAGE));
}

// V5: zeros up to `len`.
static enum err extend(struct vfs *v, enum vfs_file_kind kind, u64 len) {
  static const u8 zeros[VFS_PAGE];
  for (; v->size[kind] < len; v->size[kind] += VFS_PAGE) {
    TRY(put(v, kind, v->size[kind], zeros));
  }
  return ERR_OK;
}

enum err vfs_page_write(struct vfs *v, enum vfs_file_kind kind, u64 at, struct bytes page) {
  ASSERT(kind < VFS_WAL && at % VFS_PAGE == 0 && page.len == VFS_PAGE);
  if (at + VFS_PAGE > vfs_room(v, kind)) {
    return ERR_LIMIT;
  }
  forget(v);
  TRY(extend(v, kind, at));
  // Two writes of one page may not be under way at once: the device may swap them.
  for (u32 i = 0; i < VFS_WRITES; i++) {
    if (v->write[i].busy && v->write[i].kind == kind && v->write[i].at == at) {
      TRY(vfs_settle(v));
    }
  }
  TRY(put(v, kind, at, page.ptr));
  v->size[kind] = MAX(v->size[kind], at + VFS_PAGE);
  return ERR_OK;
}

enum err vfs_resize(struct vfs *v, enum vfs_file_kind kind, u64 len) {
  len = ALIGN_UP(len, (u64)VFS_PAGE);
  if (len > vfs_room(v, kind)) {
    return ERR_LIMIT;
  }
  forget(v);
  TRY(extend(v, kind, len));
  v->size[kind] = len;
  return ERR_OK;
}

// The first page may have been torn by a cut while it was written from the WAL, which has it then;
// its first sector is old or new, and either length will do.
enum err vfs_measure(struct vfs *v, enum vfs_file_kind kind) {
  u8 *raw = NULL;
  v->size[kind] = VFS_PAGE;
  TRY(fetch(v, kind, 0, &raw));
  u64 len = (u64)load_be32(raw + PAGE_COUNT_AT) * VFS_PAGE;
  if (len == 0 || len > vfs_room(v, kind)) {
    return ERR_CORRUPT;
  }
  v->size[kind] = len;
  return ERR_OK;
}
