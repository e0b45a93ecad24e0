// SPDX-License-Identifier: Apache-2.0
// The random generator: ChaCha20 with fast key erasure. Each request runs the block function under
// the current key; the first 32 bytes become the next key before anything is given out, so that a
// later look into memory tells nothing about what was given before.
//
// I1  The key is overwritten before a caller sees output made from it.
// I2  Stirring can only add: key' = block(key xor input), and whoever lacks the key lacks key'.
// I3  Every request also stirs in the cycle counter and, where there is one, a hardware word.
#include "plat/metal/chacha.h"

#include "arch/cpu.h"
#include "plat/metal/machine.h"

#define JITTER_ROUNDS 64u

// Each core has its own, from bytes of core 0's.
static CORE_LOCAL u8 key[32];
static CORE_LOCAL u64 blocks;
static bool good;

static void next_block(u8 out[64]) {
  u8 nonce[12] = {0};
  store_le64(nonce, blocks++);
  chacha_block(out, key, 0, nonce);
  memcpy(key, out, sizeof key);
  memset(out, 0, sizeof key);
}

void random_stir(struct bytes from) {
  u8 block[64];
  for (usize at = 0; at < from.len; at += 32) {
    for (usize i = 0; i < 32 && at + i < from.len; i++) {
      key[i] ^= from.ptr[at + i];
    }
    next_block(block);
  }
  mem_wipe(block, sizeof block);
}

static void stir_now(void) {
  u64 words[2] = {cpu_cycles(), 0};
  (void)cpu_random_word(&words[1]);
  random_stir(bytes_of(words, sizeof words));
}

void random_init(const struct boot_info *info) {
  random_stir(bytes_of(info->seed, sizeof info->seed));
  for (u32 i = 0; i < JITTER_ROUNDS; i++) {
    u64 before = cpu_cycles();
    cpu_jitter();
    machine_touch();
    u64 sample[2] = {before, cpu_cycles() - before};
    random_stir(bytes_of(sample, sizeof sample));
    stir_now();
  }
  struct plat_wall wall = plat_wall();
  random_stir(bytes_of(&wall.unix_ns, sizeof wall.unix_ns));
  good = info->seed_good;
}

void random_core_init(struct bytes seed) {
  ASSERT(blocks == 0);
  random_stir(seed);
  stir_now();
}

enum plat_entropy plat_random(struct span out) {
  ASSERT(blocks != 0);
  u8 block[64];
  stir_now();
  for (usize at = 0; at < out.len; at += 32) {
    next_block(block);
    memcpy(out.ptr + at, block + 32, MIN((usize)32, out.len - at));
  }
  mem_wipe(block, sizeof block);
  return good ? ENTROPY_GOOD : ENTROPY_WEAK;
}

void random_describe(struct writer *w) {
  write_str(w, good ? machine_entropy_good() : machine_entropy_weak());
}
