// SPDX-License-Identifier: Apache-2.0
// SplitMix64 (Steele, Lea, Flood 2014): one word of state a stream, good enough to choose faults.
#include "plat/sim/world.h"

static u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

u64 sim_draw(struct sim_rng *r) {
  r->state += 0x9e3779b97f4a7c15ull;
  return mix(r->state);
}

u32 sim_below(struct sim_rng *r, u32 below) {
  return (u32)((sim_draw(r) >> 32) * below >> 32);
}

bool sim_chance(struct sim_rng *r, u32 ppm) {
  return ppm != 0 && sim_below(r, SIM_PPM) < ppm;
}

struct sim_rng sim_stream(enum sim_stream which, u32 nth) {
  u64 seed = world->options.seed;
  return (struct sim_rng){mix(mix(seed + 1) ^ mix(((u64)which << 32) + nth + 0x5bd1e995ull))};
}

// Order and content of all that happens (S4).
void hash_add(u64 v) {
  world->result.hash = mix(world->result.hash ^ v) + 0x9e3779b97f4a7c15ull;
}

void hash_bytes(struct bytes b) {
  u64 h = b.len;
  usize i = 0;
  for (; i + 8 <= b.len; i += 8) {
    h = (h ^ load_le64(b.ptr + i)) * 0x9fb21c651e98df25ull;
    h ^= h >> 32;
  }
  for (; i < b.len; i++) {
    h = (h ^ b.ptr[i]) * 0x9fb21c651e98df25ull;
  }
  hash_add(h);
}
