// SPDX-License-Identifier: Apache-2.0
// rate' = r + (rate - r) * e^(-t / window), where r is the rate since the last step. The factor for
// t milliseconds is the product of the factors for the powers of two in t.
#include "admin/load.h"

#define ONE (1ull << 32)
#define FRACTION 65536u
#define MINUTE_MS 60000u
#define DAY_MS 86400000u

// e^(-1 ms / window) in 1/2^32 for windows of 1, 5 and 15 minutes
static const u64 per_ms[LOAD_WINDOWS] = {4294895714ull, 4294952979ull, 4294962524ull};

static u64 mul(u64 a, u64 b) {
  return (u64)((unsigned __int128)a * b >> 32);
}

static u64 decay(u32 window, u64 ms) {
  u64 factor = ONE;
  u64 power = per_ms[window];
  for (; ms > 0; ms >>= 1) {
    factor = (ms & 1) != 0 ? mul(factor, power) : factor;
    power = mul(power, power);
  }
  return factor;
}

void load_step(struct load *l, u64 now, u64 elapsed_ms) {
  ASSERT(elapsed_ms > 0);
  elapsed_ms = MIN(elapsed_ms, (u64)DAY_MS);
  u64 more = MIN(now > l->before ? now - l->before : 0, 1ull << 40) * MINUTE_MS;
  u64 rate = MIN(more / elapsed_ms, 1ull << 44) * FRACTION;  // no division of 128 bits
  rate += more % elapsed_ms * FRACTION / elapsed_ms;
  l->before = now;
  for (u32 i = 0; i < LOAD_WINDOWS; i++) {
    u64 factor = decay(i, elapsed_ms);
    ASSERT(factor <= ONE);
    l->rate[i] = mul(rate, ONE - factor) + mul(l->rate[i], factor);
  }
}

u64 load_hundredths(const struct load *l, u32 window) {
  ASSERT(window < LOAD_WINDOWS);
  u64 rate = l->rate[window];
  return rate / FRACTION * 100 + rate % FRACTION * 100 / FRACTION;
}
