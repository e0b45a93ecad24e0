// SPDX-License-Identifier: Apache-2.0
// POSIX ustar archives of regular files: what a configuration bundle is.
#pragma once
#include "base/bytes.h"

#define USTAR_BLOCK 512u
#define USTAR_NAME_MAX 255u

struct ustar_entry {
  struct part name;  // as in the archive, without a leading "./"; the prefix field is refused
  struct part data;
};
// The entry whose header is at *pos; moves *pos behind its data. Directories are skipped.
// ERR_NOT_FOUND: the archive's end. ERR_MALFORMED: checksum, size beyond the end. ERR_UNSUPPORTED:
// links, devices, absolute names, "..", long names.
enum err ustar_next(struct bytes tar, u32 *pos, struct ustar_entry *out);
// The file `name`; ERR_NOT_FOUND.
enum err ustar_find(struct bytes tar, struct bytes name, struct bytes *data);

// Appends a file's header at *pos of `out` and gives the place for its `len` bytes; moves *pos
// behind it. ERR_SPACE: no room (two blocks are kept for the end); ERR_INVALID: a name of 0 or over
// 99 bytes.
enum err ustar_add(struct span out, u32 *pos, struct bytes name, u32 len, struct span *data);
// The end of the archive: two blocks of zeros.
struct bytes ustar_finish(struct span out, u32 pos);
