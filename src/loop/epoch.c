// SPDX-License-Identifier: Apache-2.0
// Words that two cores touch, and who pairs with whom:
//   now           any core moves it on (epoch_next) after its change; every core acquires it at the
//                 end of its turn (epoch_quiet): the change happened before.
//   seen[core]    its core releases it (epoch_quiet), whoever waits acquires it (epoch_reached):
//                 what the core read in its turn was read before.
//   seen = OFFLINE  its core stores a number and then reads shared memory (epoch_online); whoever
//                 waits has changed that memory and then reads seen (epoch_next, epoch_reached):
//                 with the fence on both sides either it is seen to be online, or it reads the
//                 change.
#include "loop/epoch.h"

#include "base/shared.h"

#define OFFLINE U64_MAX

struct seen {
  u64 epoch ALIGNED(64);
};
struct epoch {
  u64 now ALIGNED(64);
  u32 cores;
  struct seen seen[PLAT_CORE_MAX];
};

u64 epoch_bytes(void) {
  return sizeof(struct epoch) + 64;
}

struct epoch *epoch_open(struct carve *carve, u32 cores) {
  ASSERT(cores <= PLAT_CORE_MAX);
  struct span memory = carve_take(carve, sizeof(struct epoch), 64);
  struct epoch *e = (struct epoch *)(void *)memory.ptr;
  if (e != NULL) {
    e->cores = cores;
    e->now = 1;
  }
  return e;
}

u64 epoch_next(struct epoch *e) {
  shared_fence();
  return shared_add_u64(&e->now, 1);
}

bool epoch_reached(const struct epoch *e, u64 at) {
  shared_fence();
  for (u32 i = 0; i < e->cores; i++) {
    if (shared_acquire_u64(&e->seen[i].epoch) < at) {
      return false;
    }
  }
  return true;
}

void epoch_quiet(struct core *core) {
  struct epoch *e = core->epoch;
  if (e != NULL) {
    u64 now = shared_acquire_u64(&e->now);
    if (e->seen[core->id].epoch != now) {
      shared_release_u64(&e->seen[core->id].epoch, now);
    }
  }
}

void epoch_offline(struct core *core) {
  if (core->epoch != NULL) {
    shared_release_u64(&core->epoch->seen[core->id].epoch, OFFLINE);
  }
}

void epoch_online(struct core *core) {
  struct epoch *e = core->epoch;
  if (e != NULL) {
    shared_release_u64(&e->seen[core->id].epoch, shared_acquire_u64(&e->now));
    shared_fence();
  }
}
