// SPDX-License-Identifier: Apache-2.0
// The WAL: 32 bytes of header, then frames of 24 bytes and a page, nothing aligned to blocks. It is
// written from front to back in large pieces out of one buffer, the tail, whose last block stays in
// memory so that the next frame needs no read. SQLite pads a commit to VFS_PAGE (the sector size
// that we tell it), so that what is committed never shares a block with what is written later.
#include "base/hash.h"
#include "store/vfs.h"

static bool tail_dirty(const struct vfs_tail *t) {
  return t->dirty_from < t->len;
}

// --- V2: the checksum of each page

// The frame whose page begins at or before `at`, and how far inside that page `at` is. False: `at`
// is in a header.
static bool in_page(const struct vfs *v, u64 at, u32 *frame, u32 *inside) {
  if (at < VFS_WAL_HEAD) {
    return false;
  }
  u64 idx = (at - VFS_WAL_HEAD) / VFS_FRAME;
  u64 off = (at - VFS_WAL_HEAD) % VFS_FRAME;
  if (off < VFS_FRAME - VFS_PAGE || idx >= v->frames) {
    return false;
  }
  *frame = (u32)idx;
  *inside = (u32)(off - (VFS_FRAME - VFS_PAGE));
  return true;
}

static u32 known(u32 crc) {
  return crc == 0 ? 1 : crc;
}

// A page may come in two pieces, split where a commit is padded.
static void note_write(struct vfs *v, u64 at, struct bytes data) {
  u32 frame = 0;
  u32 inside = 0;
  if (!in_page(v, at, &frame, &inside)) {
    return;  // a header; SQLite writes header and page apart
  }
  ASSERT(inside + data.len <= VFS_PAGE);
  bool goes_on = inside != 0 && v->part_frame == frame && v->part_len == inside;
  v->crc[frame] = 0;
  if (inside == 0 || goes_on) {
    v->part_crc = crc32c(inside == 0 ? 0 : v->part_crc, data);
    v->part_frame = frame;
    v->part_len = inside + (u32)data.len;
    if (v->part_len == VFS_PAGE) {
      v->crc[frame] = known(v->part_crc);
    }
  }
}

// Whole pages only; of a whole frame that nobody knows yet the checksum is learnt: SQLite judges it
// by the WAL's own.
static bool read_good(struct vfs *v, u64 at, struct bytes data) {
  u32 frame = 0;
  u32 inside = 0;
  bool whole = data.len == VFS_FRAME;
  u32 skip = whole ? VFS_FRAME - VFS_PAGE : 0;
  if (data.len - skip != VFS_PAGE || !in_page(v, at + skip, &frame, &inside) || inside != 0) {
    return true;
  }
  u32 crc = known(crc32c(0, bytes_skip(data, skip)));
  if (v->crc[frame] == 0) {
    v->crc[frame] = whole ? crc : 0;
    return true;
  }
  if (v->crc[frame] != crc) {
    v->damaged = true;
    v->damaged_kind = VFS_WAL;
    v->damaged_at = at;
  }
  return v->crc[frame] == crc;
}

// --- Writing

// The tail's last block is not full: what the disk holds behind it goes with it when it counts.
static enum err fill_last_block(struct vfs *v) {
  struct vfs_tail *t = &v->tail;
  u32 whole = ALIGN_UP(t->len, VFS_PAGE);
  if (whole == t->len) {
    return ERR_OK;
  }
  u8 *rest = t->memory + t->len;
  u32 rest_len = whole - t->len;
  if (t->at + t->len >= t->end) {
    memset(rest, 0, rest_len);
    return ERR_OK;
  }
  v->wal_ahead.len = 0;
  u8 *block = v->wal_ahead.memory;
  TRY(vfs_transfer(v, BLOCK_READ, VFS_WAL, t->at + whole - VFS_PAGE, block, VFS_PAGE));
  memcpy(rest, block + VFS_PAGE - rest_len, rest_len);
  return ERR_OK;
}

// Everything dirty goes to the disk; the last block, if not full, stays.
static enum err flush_tail(struct vfs *v) {
  struct vfs_tail *t = &v->tail;
  if (tail_dirty(t)) {
    if (v->failed) {
      return ERR_IO;
    }
    TRY(fill_last_block(v));
    u32 from = ALIGN_DOWN(t->dirty_from, VFS_PAGE);
    u32 to = ALIGN_UP(t->len, VFS_PAGE);
    v->wal_ahead.len = 0;
    TRY(vfs_transfer(v, BLOCK_WRITE, VFS_WAL, t->at + from, t->memory + from, to - from));
  }
  u32 keep = ALIGN_DOWN(t->len, VFS_PAGE);
  memmove(t->memory, t->memory + keep, t->len - keep);
  t->at += keep;
  t->len -= keep;
  t->dirty_from = t->len;
  return ERR_OK;
}

// The tail is somewhere else: begins again at the block of `at`.
static enum err move_tail(struct vfs *v, u64 at) {
  struct vfs_tail *t = &v->tail;
  TRY(flush_tail(v));
  t->at = ALIGN_DOWN(at, (u64)VFS_PAGE);
  t->len = (u32)(at - t->at);
  t->dirty_from = t->len;
  if (t->len != 0) {
    v->wal_ahead.len = 0;
    TRY(vfs_transfer(v, BLOCK_READ, VFS_WAL, t->at, t->memory, VFS_PAGE));
  }
  return ERR_OK;
}

enum err vfs_wal_write(struct vfs *v, u64 at, struct bytes data) {
  struct vfs_tail *t = &v->tail;
  if (at + data.len > ALIGN_DOWN(vfs_room(v, VFS_WAL), (u64)VFS_PAGE)) {
    return ERR_LIMIT;
  }
  if (v->failed) {
    return ERR_IO;
  }
  note_write(v, at, data);
  if (at == 0) {
    t->end = 0;  // a new header: no frame of before counts any more
  }
  while (data.len > 0) {
    if (at < t->at || at > t->at + t->len) {
      TRY(move_tail(v, at));
    } else if (at == t->at + VFS_BUFFER) {
      TRY(flush_tail(v));
    }
    u32 pos = (u32)(at - t->at);
    u32 n = (u32)MIN((u64)data.len, (u64)(VFS_BUFFER - pos));
    ASSERT(n > 0 && pos <= t->len);
    memcpy(t->memory + pos, data.ptr, n);
    t->dirty_from = MIN(t->dirty_from, pos);
    t->len = MAX(t->len, pos + n);
    data = bytes_skip(data, n);
    at += n;
  }
  t->end = MAX(t->end, t->at + t->len);
  return ERR_OK;
}

enum err vfs_wal_erase(struct vfs *v) {
  struct vfs_tail *t = &v->tail;
  t->at = 0;
  t->len = VFS_PAGE;
  t->dirty_from = 0;
  memset(t->memory, 0, VFS_PAGE);
  memset(v->crc, 0, v->frames * sizeof(u32));
  t->end = 0;
  return vfs_sync(v);
}

// --- Reading

enum err vfs_wal_read(struct vfs *v, u64 at, struct span out) {
  struct vfs_ahead *a = &v->wal_ahead;
  u64 from = ALIGN_DOWN(at, (u64)VFS_PAGE);
  u64 room = ALIGN_DOWN(vfs_room(v, VFS_WAL), (u64)VFS_PAGE);
  ASSERT(out.len + VFS_PAGE <= VFS_BUFFER);
  if (at + out.len > room) {
    memset(out.ptr, 0, out.len);
    return ERR_SHORT;
  }
  TRY(flush_tail(v));
  if (at < a->at || at + out.len > a->at + a->len) {
    u64 need = ALIGN_UP(at + out.len, (u64)VFS_PAGE) - from;
    bool on = at - a->next <= VFS_FRAME - VFS_PAGE;  // but for a header
    u64 len = on ? MIN((u64)VFS_BUFFER, room - from) : need;
    a->len = 0;
    TRY(vfs_transfer(v, BLOCK_READ, VFS_WAL, from, a->memory, (u32)len));
    a->at = from;
    a->len = (u32)len;
  }
  a->next = at + out.len;
  memcpy(out.ptr, a->memory + (at - a->at), out.len);
  return read_good(v, at, span_bytes(out)) ? ERR_OK : ERR_CORRUPT;
}

enum err vfs_sync(struct vfs *v) {
  TRY(flush_tail(v));
  if (v->failed) {
    return ERR_IO;
  }
  return vfs_flush(v);
}
