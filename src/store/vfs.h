// SPDX-License-Identifier: Apache-2.0
// SQLite's view of the disk: files over the extents of the data partition. One instance, one
// database connection; it is the only code of the store that waits, so it runs on a fiber of its
// own and gives the core away while the device works. docs/formats/database.md.
//
// V1  A page of the database or of a backup ends with a tag: SipHash-2-4 of the page, of its number
//     and of its file, under the disk's uuid. A page with another tag is damage, never content.
// V2  Pages of the WAL carry no tag. The CRC-32C of each is kept in memory from when it was written
//     or read by recovery, and every later read must have it.
// V3  What a sync covers has completed before the flush is submitted (block.h B1).
// V4  After a write or a flush has failed every later write and sync fails, until the start after.
// V5  Nothing is read that was never written: pages between the end and a page written behind it
//     are written as zeros, and the database zeroes what it frees (secure_delete), so that each of
//     its pages was written once.
// V6  A call that finds its slice of VFS_SLICE_NS used up yields before it returns to SQLite.
#pragma once
#include "base/block.h"
#include "loop/fiber.h"
#include "store/extents.h"

#define VFS_PAGE 4096u
#define VFS_TAG 8u  // bytes a page keeps for it: SQLite's reserved bytes
#define VFS_BUFFER (128u << 10)
#define VFS_WRITES 16u  // pages being written at once
#define VFS_SLICE_NS 200000ull
#define VFS_FRAME (24u + VFS_PAGE)
#define VFS_WAL_HEAD 32u
#define VFS_MEMORY (3ull * VFS_BUFFER + VFS_WRITES * VFS_PAGE)

enum vfs_file_kind { VFS_DATABASE, VFS_BACKUP_A, VFS_BACKUP_B, VFS_WAL, VFS_FILES };

struct vfs_place {
  struct block *block;  // this user's own: its completions are taken here
  const struct extent_table *extents;
  u64 partition_at;
  u8 uuid[16];
};

struct vfs_ahead {  // what was read of a file in one go
  u8 *memory;       // VFS_BUFFER
  u64 at;
  u32 len;   // 0 = nothing
  u64 next;  // where a reader that goes straight on would read
};

struct vfs_tail {  // the end of the WAL on its way to the disk
  u8 *memory;      // VFS_BUFFER
  u64 at;          // a multiple of VFS_PAGE
  u32 len;
  u32 dirty_from;  // from here on it is not written yet; len = all is
  u64 end;         // nothing behind it counts
};

struct vfs {
  struct vfs_place place;
  struct fiber *fiber;     // NULL: nobody to yield to, calls wait in a loop
  u64 slice_ns;            // when the present slice began
  u64 size[VFS_WAL];       // bytes of each file of pages
  struct vfs_ahead ahead;  // of the file of pages read last
  u8 ahead_kind;
  struct vfs_ahead wal_ahead;
  struct vfs_tail tail;
  u32 *crc;  // V2: of each frame; 0 = not known
  u32 frames;
  u32 part_frame, part_len, part_crc;  // of a page that is written in pieces
  struct vfs_write {
    u8 *page;
    u64 at;
    u8 kind;
    bool busy;
  } write[VFS_WRITES];
  u32 writes_busy;
  bool waits, wait_good;  // one operation that the caller waits for
  bool failed;            // V4
  bool damaged;           // V1 or V2 did not hold
  u8 damaged_kind;
  u64 damaged_at;
  u64 reads, bytes_read, pages_written, bytes_written, flushes, yields;
};

// Bytes for vfs_start's `crc`.
u64 vfs_crc_bytes(const struct extent_table *extents);
// memory: VFS_MEMORY bytes, as block.h B2; crc: vfs_crc_bytes, zeroed. Both the VFS's for good.
void vfs_start(struct vfs *v, const struct vfs_place *place, struct span memory, struct span crc);
// Bytes of a file's extents.
u64 vfs_room(const struct vfs *v, enum vfs_file_kind kind);

// Yields when the slice is used up (V6); for callers who work long between two calls of SQLite.
void vfs_breathe(struct vfs *v);

// Files of pages. Offsets and lengths lie within one page when reading, are whole pages when
// writing. ERR_IO; ERR_CORRUPT (V1, V2); ERR_SHORT: zeros were given, for it is behind the end, or
// it is part of a damaged page: SQLite looks at the first page's head before it looks at the WAL,
// and judges the whole page later; ERR_LIMIT: behind the extents.
NODISCARD enum err vfs_page_read(struct vfs *v, enum vfs_file_kind kind, u64 at, struct span out);
NODISCARD enum err vfs_page_write(struct vfs *v, enum vfs_file_kind kind, u64 at,
                                  struct bytes page);
NODISCARD enum err vfs_resize(struct vfs *v, enum vfs_file_kind kind, u64 len);
// Learns a file's length from its first page; a new one begins with vfs_resize to 0.
NODISCARD enum err vfs_measure(struct vfs *v, enum vfs_file_kind kind);
NODISCARD enum err vfs_wal_read(struct vfs *v, u64 at, struct span out);
NODISCARD enum err vfs_wal_write(struct vfs *v, u64 at, struct bytes data);
// Nothing that the WAL holds counts any more; durable.
NODISCARD enum err vfs_wal_erase(struct vfs *v);
// All writes so far are on the medium (V3).
NODISCARD enum err vfs_sync(struct vfs *v);

// --- Between the two files of the VFS (vfs_io.c)

// One operation on a file's extents, split where they are not contiguous, and waited for.
NODISCARD enum err vfs_transfer(struct vfs *v, enum block_kind block_kind, enum vfs_file_kind kind,
                                u64 at, u8 *memory, u32 len);
// Starts the write of a page; returns once it has a buffer.
NODISCARD enum err vfs_post(struct vfs *v, enum vfs_file_kind kind, u64 at, struct bytes page);
// Until no posted write is under way; with a flush.
NODISCARD enum err vfs_settle(struct vfs *v);
NODISCARD enum err vfs_flush(struct vfs *v);

// --- SQLite's side (vfs_sqlite.c)

#define VFS_NAME_DATABASE "database"
#define VFS_NAME_BACKUP_A "backup-a"
#define VFS_NAME_BACKUP_B "backup-b"

// Registers the VFS with SQLite as its only one; heap: its memory for good (SQLite's MEMSYS5).
// ERR_NO_MEMORY: the heap is too small.
NODISCARD enum err vfs_register(struct vfs *v, struct span heap);
