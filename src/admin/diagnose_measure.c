// SPDX-License-Identifier: Apache-2.0
// Measurements of diagnostics that need no device: memory and cryptography.
#include "admin/diagnose.h"
#include "plat/plat.h"
#include "tls/speed.h"

static u64 quickest(u32 rounds, void (*run)(struct span work), struct span work) {
  u64 best = U64_MAX;
  for (u32 i = 0; i < rounds; i++) {
    u64 start = plat_now_ns();
    run(work);
    best = MIN(best, plat_now_ns() - start);
  }
  return MAX(best, 1ull);
}

static volatile u64 sink;
static void run_read(struct span work) {
  const u64 *p = (const u64 *)(const void *)work.ptr;
  u64 sum = 0;
  for (usize i = 0; i < work.len / sizeof *p; i += 8) {  // a word of each cache line
    sum += p[i];
  }
  sink = sum;
}
static void run_write(struct span work) {
  memset(work.ptr, 0x5a, work.len);
}
static void run_copy(struct span work) {
  memcpy(work.ptr, work.ptr + work.len / 2, work.len / 2);
}

static void put_rate(struct json_out *o, const char *key, u64 bytes, u64 ns) {
  json_field_int(o, key, (i64)(bytes * 1000 / ns));
}

#define SMALL_CALLS 1000u
static usize small_len;
static void run_small_copies(struct span work) {
  for (u32 i = 0; i < SMALL_CALLS; i++) {
    memcpy(work.ptr + (i * 7u & 255u), work.ptr + 8192 + (i * 13u & 255u), small_len);
    __asm__ volatile("" ::: "memory");
  }
}

void diagnose_memory(struct diagnose *d) {
  static const struct {
    const char *key;
    usize len;
  } sizes[] = {
      {"memcpy_16_ps", 16}, {"memcpy_64_ps", 64}, {"memcpy_256_ps", 256}, {"memcpy_4096_ps", 4096}};
  struct json_out *o = &d->out;
  u32 rounds = MIN(d->rounds, 5u);
  json_key(o, "memory_speed");
  json_open(o, '{');
  put_rate(o, "read_mb_s", d->large.len, quickest(rounds, run_read, d->large));
  put_rate(o, "write_mb_s", d->large.len, quickest(rounds, run_write, d->large));
  put_rate(o, "copy_mb_s", d->large.len / 2, quickest(rounds, run_copy, d->large));
  for (u32 i = 0; i < ARRAY_COUNT(sizes); i++) {
    small_len = sizes[i].len;
    u64 ns = quickest(d->rounds, run_small_copies, d->work);
    json_field_int(o, sizes[i].key, (i64)(ns * 1000 / SMALL_CALLS));
  }
  json_close(o, '}');
}

void diagnose_crypto(struct diagnose *d) {
  static struct tls_speed rows[TLS_SPEED_MAX];
  struct json_out *o = &d->out;
  struct plat_wall wall = plat_wall();
  struct tls_time now = {.unix_s = wall.unix_ns / 1000000000u,
                         .lower_unix_s = wall.lower_unix_ns / 1000000000u};
  u32 n = tls_speed(plat_now_ns, d->rounds, rows);
  json_key(o, "cryptography");
  json_open(o, '{');
  json_field_string(o, "processor", bytes_str(tls_describe_cpu()));
  json_key(o, "operations");
  json_open(o, '[');
  for (u32 i = 0; i < n; i++) {
    json_open(o, '{');
    json_field_string(o, "name", bytes_str(rows[i].name));
    json_field_int(o, "ns", (i64)rows[i].ns);
    if (rows[i].bytes > 0) {
      put_rate(o, "mb_s", rows[i].bytes, MAX(rows[i].ns, 1ull));
    }
    json_close(o, '}');
  }
  json_close(o, ']');
  struct span arenas[2] = {span_of(d->work.ptr, TLS_ARENA_BYTES),
                           span_of(d->work.ptr + (1u << 20), TLS_ARENA_BYTES)};
  struct tls_speed_shake s = tls_speed_handshake(plat_now_ns, &now, d->rounds, arenas,
                                                 span_of(d->work.ptr + (2u << 20), 32768));
  d->crypto_good = n > 0 && s.done;
  d->handshake_ns = s.server_ns;
  json_key(o, "handshake");
  json_open(o, '{');
  json_field_bool(o, "works", s.done);
  if (s.done) {
    json_field_int(o, "server_ns", (i64)s.server_ns);
    json_field_int(o, "both_ns", (i64)s.whole_ns);
    json_field_int(o, "a_second_at_most", (i64)(1000000000u / MAX(s.server_ns, 1ull)));
  }
  json_close(o, '}');
  json_close(o, '}');
}
