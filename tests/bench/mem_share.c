// SPDX-License-Identifier: Apache-2.0
// What share of the work memcpy, memmove, memset and memcmp have: in handshakes, in sealing and
// opening records, in a fan-out through the whole stack. Method: the linker sends every call of the
// broker and of the library to counters here (--wrap) and on to the kernel's own mem*. One run
// counts calls by size class while the broker's code runs; another, uncounted, takes the cycles of
// the same work. The cycles of a call are measured for each class with sizes and places drawn at
// random, the call included. Share = sum of calls x cycles / cycles of the work. What the compiler
// makes of a copy of fixed size is no call and not in it.
#include "arch/x86_64/cpu.h"
#include "stack_shake.h"
#include "tls/cipher.h"

#define CLASSES 10u  // up to 16, 32, 64 ... 4096 bytes, and more
#define CALLS 8192u

void *our_memcpy(void *to, const void *from, usize len);
void *our_memmove(void *to, const void *from, usize len);
void *our_memset(void *to, int byte, usize len);
int our_memcmp(const void *a, const void *b, usize len);
void *__wrap_memcpy(void *to, const void *from, usize len);
void *__wrap_memmove(void *to, const void *from, usize len);
void *__wrap_memset(void *to, int byte, usize len);
int __wrap_memcmp(const void *a, const void *b, usize len);
extern u8 our_mem_wide;

enum kind { COPY, SET, COMPARE, KINDS };
static u64 calls[KINDS][CLASSES], bytes[KINDS];
static double cost[KINDS][CLASSES];  // cycles of one call
static bool counting;

static u32 class_of(usize len) {
  u32 c = len <= 16 ? 0 : 64u - (u32)__builtin_clzll(len - 1) - 4u;
  return MIN(c, CLASSES - 1);
}
static void count(enum kind kind, usize len) {
  if (counting && in_turn) {
    calls[kind][class_of(len)]++;
    bytes[kind] += len;
  }
}
void *__wrap_memcpy(void *to, const void *from, usize len) {
  count(COPY, len);
  return our_memcpy(to, from, len);
}
void *__wrap_memmove(void *to, const void *from, usize len) {
  count(COPY, len);
  return our_memmove(to, from, len);
}
void *__wrap_memset(void *to, int byte, usize len) {
  count(SET, len);
  return our_memset(to, byte, len);
}
int __wrap_memcmp(const void *a, const void *b, usize len) {
  count(COMPARE, len);
  return our_memcmp(a, b, len);
}

// --- Cycles of a call

static int by_value(const void *x, const void *y) {
  double p = *(const double *)x;
  double q = *(const double *)y;
  return (p > q) - (p < q);
}

static double cycles_of(enum kind kind, u32 class) {
  static u8 a[32768], b[32768];
  static u32 lens[CALLS], offs[CALLS];
  double took[31];
  u32 least = class == 0 ? 1 : (16u << (class - 1)) + 1;
  u32 most = class == CLASSES - 1 ? 8192 : 16u << class;
  for (u32 i = 0; i < CALLS; i++) {
    lens[i] = least + (u32)rand() % (most - least + 1);
    offs[i] = (u32)rand() % 8192;
  }
  for (u32 r = 0; r < ARRAY_COUNT(took); r++) {
    u64 t = cpu_cycles_ordered();
    for (u32 i = 0; i < CALLS; i++) {
      if (kind == COPY) {
        our_memcpy(a + offs[i], b + offs[i] / 2, lens[i]);
      } else if (kind == SET) {
        our_memset(a + offs[i], 0, lens[i]);
      } else {
        (void)*(volatile int *)&(int){our_memcmp(a + offs[i], a + offs[i], lens[i])};
      }
    }
    took[r] = (double)(cpu_cycles_ordered() - t) / CALLS;
  }
  qsort(took, ARRAY_COUNT(took), sizeof took[0], by_value);
  return took[ARRAY_COUNT(took) / 2];
}

static void measure_calls(void) {
  our_mem_wide = __builtin_cpu_supports("avx2") ? 1 : 0;
  for (u32 k = 0; k < KINDS; k++) {
    for (u32 c = 0; c < CLASSES; c++) {
      cost[k][c] = cycles_of((enum kind)k, c);
    }
  }
}

// --- The works

static void shake_cold(void) {
  shake(&cells[0], 0);
}
static void shake_warm(void) {
  shake(&cells[1], 0);
}

static struct tls_record sealer, opener;
static struct tls_cipher_cache *cache;
static u32 content_len;

static void seal_and_open(void) {
  static u8 sealed[TLS_RECORD_MAX + 64];
  struct span content;
  in_turn = true;
  u64 start = clock_ns();
  u32 len = tls_seal(&sealer, cache, span_of(sealed, sizeof sealed), content_len, TLS_CONTENT_DATA);
  if (tls_open(&opener, cache, span_of(sealed, len), &content) != TLS_OPEN_DATA) {
    abort();
  }
  spent_ns = clock_ns() - start;
  in_turn = false;
}
static void start_records(u32 len) {
  static u8 memory[1 << 16] ALIGNED(64);
  content_len = len;
  cache = tls_cipher_cache_init(span_of(memory, sizeof memory), 8);
  sealer = (struct tls_record){.cipher_suite = 0x1301};
  tls_record_start(&sealer);
  opener = sealer;
}

#define SUBSCRIBERS 100u
#define BURST 10u
static struct peer subscriber[SUBSCRIBERS], publisher;

static void open_plain(struct peer *p, u16 port, const u8 *subscribe, u32 len) {
  u8 hello[] = "\x10\x12\0\4MQTT\4\2\0\0\0\6dev000";
  hello[19] = (u8)('0' + port % 10);
  hello[18] = (u8)('0' + port / 10 % 10);
  hello[17] = (u8)('0' + port / 100 % 10);
  p->in = malloc(PEER_IN);
  peer_connect(p, port, 1883);
  peer_send(p, bytes_of(hello, 20));
  peer_send(p, bytes_of(subscribe, len));
  broker_runs();
  peer_ack(p);
  if (p->in_len < 4 || p->in[3] != 0) {
    fprintf(stderr, "mem_share: no CONNACK\n");
    exit(1);
  }
  p->in_len = 0;
}
static void start_fan_out(void) {
  for (u32 i = 0; i < SUBSCRIBERS; i++) {
    open_plain(&subscriber[i], (u16)(61000 + i), (const u8 *)"\x82\x0c\0\1\0\7load/t0\0", 14);
  }
  open_plain(&publisher, 61900, NULL, 0);
}
// Ten messages of 64 bytes to a hundred; the acknowledgements are in it.
static void fan_out(void) {
  u8 message[75] = "\x30\x49\0\7load/t0";
  spent_ns = 0;
  for (u32 i = 0; i < BURST; i++) {
    peer_send(&publisher, bytes_of(message, sizeof message));
  }
  broker_runs();
  for (u32 i = 0; i < SUBSCRIBERS; i++) {
    if (subscriber[i].in_len != BURST * sizeof message) {
      fprintf(stderr, "mem_share: %u bytes at subscriber %u\n", subscriber[i].in_len, i);
      exit(1);
    }
    subscriber[i].in_len = 0;
    peer_ack(&subscriber[i]);
  }
  broker_runs();
}

// --- Shares

static double cycles_per_ns;

static void share(const char *name, void (*work)(void), u32 each, u32 rounds) {
  static double took[2000];
  memset(calls, 0, sizeof calls);
  memset(bytes, 0, sizeof bytes);
  for (u32 i = 0; i < 10; i++) {
    work();
  }
  counting = true;
  for (u32 i = 0; i < 20; i++) {
    work();
  }
  counting = false;
  for (u32 i = 0; i < rounds; i++) {
    work();
    took[i] = (double)spent_ns * cycles_per_ns / each;
  }
  qsort(took, rounds, sizeof took[0], by_value);
  double total = took[rounds / 2];
  double parts[KINDS] = {0};
  double count_all[KINDS] = {0};
  for (u32 k = 0; k < KINDS; k++) {
    for (u32 c = 0; c < CLASSES; c++) {
      parts[k] += (double)calls[k][c] * cost[k][c] / 20 / each;
      count_all[k] += (double)calls[k][c] / 20 / each;
    }
  }
  double sum = parts[COPY] + parts[SET] + parts[COMPARE];
  printf("  %-28s %9.0f %9.0f %6.1f%% |", name, total, sum, 100 * sum / total);
  for (u32 k = 0; k < KINDS; k++) {
    printf(" %8.1f %7.0f", count_all[k], (double)bytes[k] / 20 / each);
  }
  printf("\n");
}

int main(void) {
  test_start();
  shake_start();
  struct tls_context *tls = test_context((struct test_server){.chains = 4096});
  if (tls == NULL || !stack_start(&tls, 1)) {
    fprintf(stderr, "mem_share: the broker does not start\n");
    return 1;
  }
  u64 ns = clock_ns();
  u64 cycles = cpu_cycles_ordered();
  measure_calls();
  cycles_per_ns = (double)(cpu_cycles_ordered() - cycles) / (double)(clock_ns() - ns);
  printf(
      "mem*'s share: calls counted by size, times the cycles of a call (%.1f at 1-16 B, %.1f at "
      "33-64, %.1f at 513-1024)\n"
      "  %-28s %9s %9s %7s | %16s %16s %16s\n",
      cost[COPY][0], cost[COPY][2], cost[COPY][6], "cycles of", "all", "mem*", "share",
      "copies, bytes", "sets, bytes", "compares, bytes");
  share("handshake + CONNECT, cold", shake_cold, 1, 200);
  share("handshake + CONNECT, warm", shake_warm, 1, 200);
  static const u32 lens[] = {64, 256, 1024, 4096};
  for (u32 i = 0; i < ARRAY_COUNT(lens); i++) {
    char name[40];
    snprintf(name, sizeof name, "record sealed, opened, %u B", lens[i]);
    start_records(lens[i]);
    share(name, seal_and_open, 1, 2000);
  }
  start_fan_out();
  share("delivery, 1 to 100, 64 B", fan_out, BURST * SUBSCRIBERS, 300);
  return 0;
}
