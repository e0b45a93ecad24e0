// SPDX-License-Identifier: Apache-2.0
// POSIX ustar archives, read only, regular files only: what a configuration bundle is.
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
