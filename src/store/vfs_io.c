// SPDX-License-Identifier: Apache-2.0
// Operations on the device. At most one is waited for at a time; posted writes of pages are under
// way beside it, each from a buffer of its own, and whoever must not overtake them settles first.
#include "plat/plat.h"
#include "store/vfs.h"

#define TOKEN_WAIT VFS_WRITES  // tokens below are posted writes

static enum disk_role role_of(enum vfs_file_kind kind) {
  static const u8 role[VFS_FILES] = {ROLE_DATABASE, ROLE_BACKUP_A, ROLE_BACKUP_B, ROLE_WAL};
  return (enum disk_role)role[kind];
}

u64 vfs_room(const struct vfs *v, enum vfs_file_kind kind) {
  return extents_len(v->place.extents, role_of(kind));
}

u64 vfs_crc_bytes(const struct extent_table *extents) {
  return (extents_len(extents, ROLE_WAL) / VFS_FRAME + 1) * sizeof(u32);
}

void vfs_start(struct vfs *v, const struct vfs_place *place, struct span memory, struct span crc) {
  ASSERT(memory.len >= VFS_MEMORY);
  ASSERT(crc.len >= vfs_crc_bytes(place->extents));
  *v = (struct vfs){.place = *place, .crc = (u32 *)(void *)crc.ptr};
  v->frames = (u32)(crc.len / sizeof(u32));
  v->ahead.memory = memory.ptr;
  v->wal_ahead.memory = memory.ptr + VFS_BUFFER;
  v->tail.memory = memory.ptr + 2 * VFS_BUFFER;
  v->tail.end = vfs_room(v, VFS_WAL);
  for (u32 i = 0; i < VFS_WRITES; i++) {
    v->write[i].page = memory.ptr + 3 * VFS_BUFFER + (usize)i * VFS_PAGE;
  }
}

static void yield(struct vfs *v) {
  if (v->fiber != NULL) {
    v->yields++;
    fiber_yield(v->fiber);
    v->slice_ns = plat_now_ns();
  }
}

void vfs_breathe(struct vfs *v) {
  if (plat_now_ns() - v->slice_ns >= VFS_SLICE_NS) {
    yield(v);
  }
}

// Takes completions; true: there was one.
static bool reap(struct vfs *v) {
  struct block_done done;
  if (block_complete(v->place.block, plat_now_ns(), &done, 1) == 0) {
    return false;
  }
  ASSERT(done.token <= TOKEN_WAIT);
  if (done.token == TOKEN_WAIT) {
    ASSERT(v->waits);
    v->waits = false;
    v->wait_good = done.status == BLOCK_OK;
  } else {
    ASSERT(v->write[done.token].busy);
    v->write[done.token].busy = false;
    v->writes_busy--;
    v->failed = v->failed || done.status != BLOCK_OK;
  }
  return true;
}

static void submit(struct vfs *v, const struct block_op *op) {
  while (block_submit(v->place.block, op, 1) == 0) {
    if (!reap(v)) {
      yield(v);
    }
  }
}

static enum err wait(struct vfs *v, const struct block_op *op) {
  v->waits = true;
  submit(v, op);
  while (v->waits) {
    if (!reap(v)) {
      yield(v);
    }
  }
  if (!v->wait_good && op->kind != BLOCK_READ) {
    v->failed = true;
  }
  return v->wait_good ? ERR_OK : ERR_IO;
}

enum err vfs_transfer(struct vfs *v, enum block_kind block_kind, enum vfs_file_kind kind, u64 at,
                      u8 *memory, u32 len) {
  ASSERT(at % VFS_PAGE == 0 && len % VFS_PAGE == 0);
  ASSERT(at + len <= vfs_room(v, kind));
  for (u32 done = 0; done < len;) {
    u64 run = 0;
    u64 place = extents_at(v->place.extents, role_of(kind), at + done, &run);
    u32 n = (u32)MIN(run, (u64)(len - done));
    struct block_op op = {(u8)block_kind, v->place.partition_at + place, n, memory + done,
                          TOKEN_WAIT};
    TRY(wait(v, &op));
    done += n;
  }
  v->reads += block_kind == BLOCK_READ;
  v->bytes_read += block_kind == BLOCK_READ ? len : 0;
  v->bytes_written += block_kind == BLOCK_WRITE ? len : 0;
  return ERR_OK;
}

enum err vfs_post(struct vfs *v, enum vfs_file_kind kind, u64 at, struct bytes page) {
  ASSERT(page.len == VFS_PAGE && at % VFS_PAGE == 0);
  while (v->writes_busy == VFS_WRITES) {
    if (!reap(v)) {
      yield(v);
    }
  }
  if (v->failed) {
    return ERR_IO;
  }
  u32 i = 0;
  while (v->write[i].busy) {
    i++;
  }
  u64 run = 0;
  u64 place = extents_at(v->place.extents, role_of(kind), at, &run);
  ASSERT(run >= VFS_PAGE);
  memcpy(v->write[i].page, page.ptr, VFS_PAGE);
  v->write[i].at = at;
  v->write[i].kind = (u8)kind;
  v->write[i].busy = true;
  v->writes_busy++;
  v->pages_written++;
  v->bytes_written += VFS_PAGE;
  struct block_op op = {BLOCK_WRITE, v->place.partition_at + place, VFS_PAGE, v->write[i].page, i};
  submit(v, &op);
  return ERR_OK;
}

enum err vfs_settle(struct vfs *v) {
  while (v->writes_busy > 0) {
    if (!reap(v)) {
      yield(v);
    }
  }
  return v->failed ? ERR_IO : ERR_OK;
}

// What is asked to be flushed has been waited for (V3).
enum err vfs_flush(struct vfs *v) {
  TRY(vfs_settle(v));
  struct block_op op = {.kind = BLOCK_FLUSH, .token = TOKEN_WAIT};
  v->flushes++;
  return wait(v, &op);
}
