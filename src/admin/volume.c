// SPDX-License-Identifier: Apache-2.0
#include "admin/volume.h"

#include "admin/ustar.h"

enum err volume_read(const struct volume_medium *m, u64 at, struct span out) {
  if (at > m->len || out.len > m->len - at) {
    return ERR_IO;
  }
  return out.len == 0 || m->read(m->ctx, at, out) ? ERR_OK : ERR_IO;
}

bool volume_label_ours(struct bytes label) {
  static const char *const ours[] = {"CIDATA", "cidata", "URMQTT", "urmqtt"};
  while (label.len > 0 && label.ptr[label.len - 1] == ' ') {
    label.len--;
  }
  for (u32 i = 0; i < ARRAY_COUNT(ours); i++) {
    if (bytes_equal_str(label, ours[i])) {
      return true;
    }
  }
  return false;
}

enum err volume_bundle(const struct volume_medium *m, struct span out, struct bytes *tar) {
  u32 pos = 0;
  ASSERT(out.len >= 2 * (usize)USTAR_BLOCK);
  enum err e = volume_iso(m, out, &pos);
  if (e == ERR_NOT_FOUND) {
    pos = 0;
    e = volume_fat(m, out, &pos);
  }
  if (e == ERR_OK) {
    *tar = ustar_finish(out, pos);
  }
  return e;
}
