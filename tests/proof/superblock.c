// SPDX-License-Identifier: Apache-2.0
// The superblock that counts, of any four slots: it is whole; whenever one is whole and no slot is
// of an unknown layout, one counts ("never neither"); a newer whole one is passed over only when it
// is alone and its predecessor is there and another.
#include "store/superblock.h"
#include "proof.h"

struct slot_view nondet_view(void);

static bool is_whole(const struct slot_view *v) {
  return v->kind == SLOT_READ_ONLY || v->kind == SLOT_GOOD;
}

void proof_superblock_choose(void) {
  struct slot_view s[SUPERBLOCK_SLOTS];
  bool any = false;
  bool unknown = false;
  for (u32 i = 0; i < SUPERBLOCK_SLOTS; i++) {
    s[i] = nondet_view();
    __CPROVER_assume(s[i].kind <= SLOT_GOOD);
    __CPROVER_assume(s[i].generation != 0);
    any = any || is_whole(&s[i]);
    unknown = unknown || s[i].kind == SLOT_NEWER || s[i].kind == SLOT_OLDER;
  }
  struct slot_choice c = superblock_choose(s);
  PROVE(c.idx <= SUPERBLOCK_SLOTS);
  PROVE((c.idx < SUPERBLOCK_SLOTS) == (any && !unknown));
  if (c.idx == SUPERBLOCK_SLOTS) {
    PROVE(c.kind < SLOT_READ_ONLY);
    return;
  }
  PROVE(is_whole(&s[c.idx]) && c.kind == s[c.idx].kind && c.twin == (c.idx ^ 1));
  PROVE(!c.twin_good || (is_whole(&s[c.twin]) && s[c.twin].generation == s[c.idx].generation));
  u32 i = nondet_u32();
  __CPROVER_assume(i < SUPERBLOCK_SLOTS);
  if (is_whole(&s[i]) && s[i].generation > s[c.idx].generation) {
    PROVE(c.rejected);
    const struct slot_view *twin = &s[i ^ 1];
    bool copy = is_whole(twin) && twin->generation == s[i].generation &&
                memcmp(twin->content, s[i].content, SUPERBLOCK_DIGEST) == 0;
    PROVE(!copy);
    u32 before = 0;
    for (u32 k = 0; k < SUPERBLOCK_SLOTS; k++) {
      before += is_whole(&s[k]) && s[k].generation == s[i].generation - 1;
    }
    PROVE(before != 0);
    PROOF_REACHED();
  }
}
