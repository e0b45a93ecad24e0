// SPDX-License-Identifier: Apache-2.0
// The table of functions that SQLite calls. One connection, exclusive: locks are nothing, there is
// no shared memory (io methods of version 1), and no file but those of the extents.
#include <sqlite3.h>

#include "plat/plat.h"
#include "store/vfs.h"

struct file {
  const sqlite3_io_methods *methods;  // first: SQLite's
  struct vfs *v;
  u8 kind;  // enum vfs_file_kind
};

static struct file *file_of(sqlite3_file *f) {
  return (struct file *)(void *)f;
}

// What the caller is told; the call is over, so this is where it may yield (V6).
static int result(struct vfs *v, enum err e, int io_error) {
  vfs_breathe(v);
  switch (e) {
  case ERR_OK: return SQLITE_OK;
  case ERR_SHORT: return SQLITE_IOERR_SHORT_READ;
  case ERR_LIMIT: return SQLITE_FULL;
  case ERR_CORRUPT: return SQLITE_IOERR_DATA;
  default: return io_error;
  }
}

static int x_close(sqlite3_file *f) {
  (void)f;
  return SQLITE_OK;
}

static int x_read(sqlite3_file *sf, void *to, int len, sqlite3_int64 at) {
  struct file *f = file_of(sf);
  struct span out = span_of(to, (usize)len);
  enum err e = f->kind == VFS_WAL ? vfs_wal_read(f->v, (u64)at, out)
                                  : vfs_page_read(f->v, (enum vfs_file_kind)f->kind, (u64)at, out);
  return result(f->v, e, SQLITE_IOERR_READ);
}

static int x_write(sqlite3_file *sf, const void *from, int len, sqlite3_int64 at) {
  struct file *f = file_of(sf);
  struct bytes data = bytes_of(from, (usize)len);
  enum err e = f->kind == VFS_WAL
                   ? vfs_wal_write(f->v, (u64)at, data)
                   : vfs_page_write(f->v, (enum vfs_file_kind)f->kind, (u64)at, data);
  return result(f->v, e, SQLITE_IOERR_WRITE);
}

static int x_truncate(sqlite3_file *sf, sqlite3_int64 len) {
  struct file *f = file_of(sf);
  enum err e = ERR_OK;
  if (f->kind != VFS_WAL) {
    e = vfs_resize(f->v, (enum vfs_file_kind)f->kind, (u64)len);
  }
  return result(f->v, e, SQLITE_IOERR_TRUNCATE);
}

static int x_sync(sqlite3_file *sf, int flags) {
  (void)flags;
  struct file *f = file_of(sf);
  return result(f->v, vfs_sync(f->v), SQLITE_IOERR_FSYNC);
}

// The WAL is always as long as its extents: where it ends its checksums say.
static int x_file_size(sqlite3_file *sf, sqlite3_int64 *out) {
  struct file *f = file_of(sf);
  *out = (sqlite3_int64)(f->kind == VFS_WAL ? vfs_room(f->v, VFS_WAL) : f->v->size[f->kind]);
  return SQLITE_OK;
}

static int x_lock(sqlite3_file *f, int level) {
  (void)f, (void)level;
  return SQLITE_OK;
}

static int x_reserved(sqlite3_file *f, int *out) {
  (void)f;
  *out = 0;
  return SQLITE_OK;
}

static int x_control(sqlite3_file *f, int op, void *arg) {
  (void)f, (void)op, (void)arg;
  return SQLITE_NOTFOUND;
}

static int x_sector_size(sqlite3_file *f) {
  (void)f;
  return VFS_PAGE;
}

// No atomic writes, no safe append, no power-safe overwrite.
static int x_characteristics(sqlite3_file *f) {
  (void)f;
  return 0;
}

static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = x_close,
                                           .xRead = x_read,
                                           .xWrite = x_write,
                                           .xTruncate = x_truncate,
                                           .xSync = x_sync,
                                           .xFileSize = x_file_size,
                                           .xLock = x_lock,
                                           .xUnlock = x_lock,
                                           .xCheckReservedLock = x_reserved,
                                           .xFileControl = x_control,
                                           .xSectorSize = x_sector_size,
                                           .xDeviceCharacteristics = x_characteristics};

static struct vfs *vfs_of(sqlite3_vfs *s) {
  return s->pAppData;
}

// VFS_FILES: not one of ours (a rollback journal, a temporary file).
static enum vfs_file_kind kind_of(const char *name) {
  static const char *const names[VFS_FILES] = {[VFS_DATABASE] = VFS_NAME_DATABASE,
                                               [VFS_BACKUP_A] = VFS_NAME_BACKUP_A,
                                               [VFS_BACKUP_B] = VFS_NAME_BACKUP_B,
                                               [VFS_WAL] = VFS_NAME_DATABASE "-wal"};
  u32 k = 0;
  while (k < VFS_FILES && (name == NULL || strcmp(name, names[k]) != 0)) {
    k++;
  }
  return (enum vfs_file_kind)k;
}

static int x_open(sqlite3_vfs *s, const char *name, sqlite3_file *sf, int flags, int *out_flags) {
  struct file *f = file_of(sf);
  enum vfs_file_kind kind = kind_of(name);
  f->methods = NULL;
  if (kind == VFS_FILES) {
    return SQLITE_CANTOPEN;
  }
  *f = (struct file){&methods, vfs_of(s), (u8)kind};
  if (out_flags != NULL) {
    *out_flags = flags;
  }
  return SQLITE_OK;
}

static int x_delete(sqlite3_vfs *s, const char *name, int sync_dir) {
  (void)sync_dir;
  struct vfs *v = vfs_of(s);
  return kind_of(name) == VFS_WAL ? result(v, vfs_wal_erase(v), SQLITE_IOERR_DELETE) : SQLITE_OK;
}

static int x_access(sqlite3_vfs *s, const char *name, int flags, int *out) {
  (void)s, (void)flags;
  *out = kind_of(name) != VFS_FILES;
  return SQLITE_OK;
}

static int x_full_name(sqlite3_vfs *s, const char *name, int cap, char *out) {
  (void)s;
  usize len = strlen(name);
  if (len + 1 > (usize)cap) {
    return SQLITE_CANTOPEN;
  }
  memcpy(out, name, len + 1);
  return SQLITE_OK;
}

static int x_randomness(sqlite3_vfs *s, int len, char *out) {
  (void)s;
  (void)plat_random(span_of(out, (usize)len));
  return len;
}

static int x_sleep(sqlite3_vfs *s, int us) {
  (void)s;
  return us;
}

// Milliseconds since noon in Greenwich on November 24, 4714 B.C.; nothing of ours asks SQLite.
static int x_time(sqlite3_vfs *s, sqlite3_int64 *out) {
  (void)s;
  *out = (sqlite3_int64)(plat_wall().unix_ns / 1000000) + 210866760000000ll;
  return SQLITE_OK;
}

static int x_last_error(sqlite3_vfs *s, int len, char *out) {
  (void)s, (void)len, (void)out;
  return 0;
}

static sqlite3_vfs table = {.iVersion = 2,
                            .szOsFile = sizeof(struct file),
                            .mxPathname = 64,
                            .zName = "extents",
                            .xOpen = x_open,
                            .xDelete = x_delete,
                            .xAccess = x_access,
                            .xFullPathname = x_full_name,
                            .xRandomness = x_randomness,
                            .xSleep = x_sleep,
                            .xGetLastError = x_last_error,
                            .xCurrentTimeInt64 = x_time};

// SQLite starts and stops its operating system by these.
int sqlite3_os_init(void);
int sqlite3_os_init(void) {
  return sqlite3_vfs_register(&table, 1);
}
int sqlite3_os_end(void);
int sqlite3_os_end(void) {
  return SQLITE_OK;
}

enum err vfs_register(struct vfs *v, struct span heap) {
  table.pAppData = v;
  if (sqlite3_config(SQLITE_CONFIG_HEAP, heap.ptr, (int)heap.len, 64) != SQLITE_OK) {
    return ERR_NO_MEMORY;
  }
  return sqlite3_initialize() == SQLITE_OK ? ERR_OK : ERR_NO_MEMORY;
}
