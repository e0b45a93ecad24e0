// SPDX-License-Identifier: Apache-2.0
// The first randomness: for the image's place, the windows and the canary, and as a first
// contribution to the generator of plat/metal/random.c.
//
// Sources: the processor's random words (RDRAND, RNDR) where it has them, what the loader brings
// (boot_absorb), either of which makes the seed good, and always the jitter of the cycle counter.
// The mixing is that of splitmix64 over four words: enough to spread what the sources give; the
// cryptographic generator comes later.
#include "arch/cpu.h"
#include "boot/boot.h"

#define JITTER_ROUNDS 256u
#define HARDWARE_WORDS 16u
#define HARDWARE_TRIES 10u

static u64 pool[4];
static u32 pool_next;

static u64 scramble(u64 v) {
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
  return v ^ (v >> 31);
}

static void absorb(u64 v) {
  u32 i = pool_next++ % 4;
  u64 before = pool[(i + 3) % 4];
  pool[i] = scramble(pool[i] ^ v ^ (before << 17 | before >> 47)) + 0x9e3779b97f4a7c15ull;
}

u64 boot_random(void) {
  absorb(cpu_cycles());
  for (u32 i = 0; i < 4; i++) {
    absorb(pool[(i + 1) % 4]);
  }
  return scramble(pool[0] ^ pool[2]) ^ pool[3];
}

// Counts the hardware words that differed from the one before: a unit that is stuck gives none.
static u32 absorb_hardware(void) {
  u32 fresh = 0;
  u64 last = 0;
  for (u32 i = 0; i < HARDWARE_WORDS; i++) {
    u64 v = 0;
    bool ok = false;
    for (u32 t = 0; t < HARDWARE_TRIES && !ok; t++) {
      ok = cpu_random_word(&v);
    }
    fresh += ok && v != last && v != 0 && v != U64_MAX ? 1 : 0;
    last = v;
    absorb(v);
  }
  return fresh;
}

void boot_absorb(struct bytes from) {
  for (usize i = 0; i < from.len; i++) {
    absorb(from.ptr[i]);
  }
}

void boot_seed(struct boot_info *info) {
  for (u32 i = 0; i < JITTER_ROUNDS; i++) {
    u64 before = cpu_cycles();
    cpu_jitter();
    absorb(cpu_cycles() - before);
    absorb(before);
  }
  info->seed_good |= absorb_hardware() >= HARDWARE_WORDS - 1;
  for (u32 i = 0; i < sizeof info->seed; i += 8) {
    store_le64(info->seed + i, boot_random());
  }
}
