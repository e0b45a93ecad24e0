// SPDX-License-Identifier: Apache-2.0
#include "argon/argon.h"

#include <argon2.h>

static CORE_LOCAL struct {
  struct span arena;
  argon_pause_fn *pause;
  void *user;
} now;  // of the hash under way

void argon_pause(void);  // called by third_party/argon2_pause.c
void argon_pause(void) {
  if (now.pause != NULL) {
    now.pause(now.user);
  }
}

static int give_arena(u8 **memory, usize len) {
  *memory = len <= now.arena.len ? now.arena.ptr : NULL;
  return ARGON2_OK;
}
static void take_back(u8 *memory, usize len) {
  ASSERT(memory == now.arena.ptr);
  ASSERT(len <= now.arena.len);
}

void argon2id(const struct argon_job *job, struct span arena, argon_pause_fn *pause, void *user) {
  ASSERT(job->lanes >= 1 && job->lanes <= ARGON_LANES_MAX);
  ASSERT(job->memory_kib >= 8 * job->lanes && arena.len / 1024 >= job->memory_kib);
  ASSERT(((uptr)arena.ptr & 63) == 0);
  ASSERT(job->salt.len >= ARGON_SALT_MIN && job->out.len >= ARGON_OUT_MIN);
  now.arena = arena;
  now.pause = pause;
  now.user = user;
  argon2_context c = {
      .out = job->out.ptr,
      .outlen = (u32)job->out.len,
      .pwd = (u8 *)(uptr)job->password.ptr,
      .pwdlen = (u32)job->password.len,
      .salt = (u8 *)(uptr)job->salt.ptr,
      .saltlen = (u32)job->salt.len,
      .t_cost = job->passes,
      .m_cost = job->memory_kib,
      .lanes = job->lanes,
      .threads = 1,
      .version = ARGON2_VERSION_13,
      .allocate_cbk = give_arena,
      .free_cbk = take_back,
  };
  int result = argon2_ctx(&c, Argon2_id);
  ASSERT(result == ARGON2_OK);
  now.pause = NULL;
}
