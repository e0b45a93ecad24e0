// SPDX-License-Identifier: Apache-2.0
// Argon2id version 0x13 (RFC 9106) by Debian's argon2 sources, in memory of the caller's and in
// pieces: the caller's `pause` is asked for each block of 1 KiB, and may leave the stack there
// (loop/fiber.h). Whoever leaves it for ever just begins the next.
//
// I1  Nothing allocates. One hash at a time: the library's memory call has no user pointer.
// I2  What was in the arena is wiped at the end of a hash; what is left there by one that was given
//     up lies there until the next.
#pragma once
#include "base/bytes.h"

#define ARGON_OUT_MIN 4u
#define ARGON_SALT_MIN 8u
#define ARGON_LANES_MAX 16u
#define ARGON_STACK_BYTES 32768u  // a third more than an instrumented build takes

struct argon_job {
  struct bytes password;  // any length up to U32_MAX; read before the first pause
  struct bytes salt;      // >= ARGON_SALT_MIN; read before the first pause
  u32 memory_kib;         // >= 8 * lanes
  u32 passes;             // >= 1
  u32 lanes;              // 1..ARGON_LANES_MAX
  struct span out;        // >= ARGON_OUT_MIN
};
typedef void argon_pause_fn(void *user);

// Fills job->out. `arena`: job->memory_kib KiB or more, aligned to 64. Asserts what the job says.
void argon2id(const struct argon_job *job, struct span arena, argon_pause_fn *pause, void *user);
