// SPDX-License-Identifier: Apache-2.0
// Cycles a call of the kernel's mem* beside the C library's, at the sizes a broker moves. Run by
// `make bench-mem` and `make bench-crypto`. Each figure is the median of rounds of 65536 calls,
// length and place drawn at random within the class: too many for the branch predictor to learn.
// The call, the loop (shown as "empty") and mispredictions are in it. `wide`: with AVX2; `rep`: rep
// movsb and rep stosb.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/x86_64/cpu.h"
#include "base/cc.h"

void *our_memcpy(void *to, const void *from, usize len);
void *our_memset(void *to, int byte, usize len);
int our_memcmp(const void *a, const void *b, usize len);
extern u8 our_mem_wide;

#define CALLS 65536u
#define ROUNDS 31u

static u8 a[16384] ALIGNED(64);
static u8 b[16384] ALIGNED(64);
static u32 lens[CALLS];
static u32 offs[CALLS];
static int sink;

typedef void *copy_fn(void *, const void *, usize);
typedef void *set_fn(void *, int, usize);
typedef int cmp_fn(const void *, const void *, usize);

static NOINLINE void *no_copy(void *to, const void *from, usize len) {
  __asm__ volatile("" : : "r"(to), "r"(from), "r"(len) : "memory");
  return to;
}
static NOINLINE void *rep_copy(void *to, const void *from, usize len) {
  void *at = to;
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(len) : : "memory");
  return to;
}
static NOINLINE void *rep_set(void *to, int byte, usize len) {
  void *at = to;
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(len) : "a"(byte) : "memory");
  return to;
}
static int by_value(const void *x, const void *y) {
  u64 p = *(const u64 *)x;
  u64 q = *(const u64 *)y;
  return (p > q) - (p < q);
}

enum what { COPY, SET, COMPARE };

static double median(enum what what, const void *fn) {
  u64 took[ROUNDS];
  for (u32 r = 0; r < ROUNDS; r++) {
    u64 t = cpu_cycles_ordered();
    for (u32 i = 0; i < CALLS; i++) {
      if (what == COPY) {
        ((copy_fn *)fn)(a + offs[i], b + (offs[i] >> 1), lens[i]);
      } else if (what == SET) {
        ((set_fn *)fn)(a + offs[i], 0, lens[i]);
      } else {
        sink += ((cmp_fn *)fn)(a + offs[i], b + offs[i], lens[i]);
      }
    }
    took[r] = cpu_cycles_ordered() - t;
  }
  qsort(took, ROUNDS, sizeof took[0], by_value);
  return (double)took[ROUNDS / 2] / CALLS;
}

static double wide(enum what what, const void *fn) {
  our_mem_wide = __builtin_cpu_supports("avx2") ? 1 : 0;
  double cycles = median(what, fn);
  our_mem_wide = 0;
  return cycles;
}

int main(void) {
  static const u32 classes[][2] = {{1, 16},   {17, 32},   {33, 64},     {1, 64},
                                   {65, 256}, {512, 512}, {1024, 1024}, {4096, 4096}};
  printf(
      "cycles a call (of the constant time stamp counter)\n%-10s%7s |%8s%8s%8s%8s |%8s%8s%8s%8s "
      "|%8s%8s\n",
      "bytes", "empty", "memcpy", "wide", "rep", "libc", "memset", "wide", "rep", "libc", "memcmp",
      "libc");
  for (u32 c = 0; c < ARRAY_COUNT(classes); c++) {
    for (u32 i = 0; i < CALLS; i++) {
      lens[i] = classes[c][0] + (u32)rand() % (classes[c][1] - classes[c][0] + 1);
      offs[i] = (u32)rand() % 4096;
    }
    memset(a, 0, sizeof a);
    char name[32];
    snprintf(name, sizeof name, "%u-%u", classes[c][0], classes[c][1]);
    printf("%-10s%7.1f |%8.1f%8.1f%8.1f%8.1f |%8.1f%8.1f%8.1f%8.1f |%8.1f%8.1f\n", name,
           median(COPY, no_copy), median(COPY, our_memcpy), wide(COPY, our_memcpy),
           median(COPY, rep_copy), median(COPY, memcpy), median(SET, our_memset),
           wide(SET, our_memset), median(SET, rep_set), median(SET, memset),
           median(COMPARE, our_memcmp), median(COMPARE, memcmp));
  }
  return sink == 12345;
}
