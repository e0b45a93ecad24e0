// SPDX-License-Identifier: Apache-2.0
// The check of an argon2id hash, on a fiber: it stops by itself when its slice is over.
#include "base/shared.h"
#include "server/conn.h"

#define BLOCKS 8u  // between two looks at the clock: of 1 KiB, about 1.2 us each

static void on_pause(void *user) {
  struct login_argon *a = user;
  if (++a->blocks % BLOCKS == 0 && plat_now_ns() >= a->stop_ns) {
    fiber_yield(&a->fiber);
  }
}

static void on_fiber(struct fiber *self, void *arg) {
  struct login_argon *a = arg;
  ASSERT(self == &a->fiber);
  argon2id(&a->job, a->arena, on_pause, a);
}

bool login_argon_init(struct login_argon *a, struct span arena, u32 *lease) {
  ASSERT(arena.len / 1024 <= PASSWORD_ARGON_KIB_MAX);
  *a = (struct login_argon){.arena = arena, .lease = lease};
  a->stack = plat_stack(ARGON_STACK_BYTES + POOL_REDZONE * 2048u);
  return a->stack.ptr != NULL;
}

bool login_argon_take(struct login_argon *a) {
  ASSERT(!a->leased);
  a->leased = a->lease == NULL || shared_exchange_u32(a->lease, 1) == 0;
  return a->leased;
}

void login_argon_begin(struct login_argon *a, const struct password_hash *h,
                       struct bytes password) {
  ASSERT(h->kind == PASSWORD_ARGON2ID);
  ASSERT(a->leased);
  ASSERT(h->hash_len <= sizeof a->sum);
  ASSERT(h->memory_kib <= a->arena.len / 1024);
  a->job = (struct argon_job){.password = password,
                              .salt = bytes_of(h->salt, h->salt_len),
                              .memory_kib = h->memory_kib,
                              .passes = h->iterations,
                              .lanes = h->lanes,
                              .out = span_of(a->sum, h->hash_len)};
  fiber_start(&a->fiber, a->stack, on_fiber, a);
}

bool login_argon_step(struct login_argon *a, u64 stop_ns) {
  a->stop_ns = stop_ns;
  return fiber_resume(&a->fiber) == FIBER_DONE;
}

void login_argon_fini(struct login_argon *a) {
  mem_wipe(a->sum, sizeof a->sum);
  a->job = (struct argon_job){.passes = 0};
  if (a->leased && a->lease != NULL) {
    shared_ordered_store_u32(a->lease, 0);
  }
  a->leased = false;
}
