// SPDX-License-Identifier: Apache-2.0
// Proves: the built library gives RFC 9106's tag for Argon2id; our call gives what Debian's argon2
// command gave, in an arena of exact size, stopped at every block or left for ever in the middle;
// the arena is wiped afterwards; the stack that it is given is enough.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <argon2.h>

#include "argon/argon.h"
#include "base/base64.h"
#include "loop/fiber.h"
#include "plat/plat.h"

#include <cmocka.h>

// RFC 9106 5.3, which has a secret and associated data too.
static void rfc_9106(void **state) {
  static const u8 want[32] = {0x0d, 0x64, 0x0d, 0xf5, 0x8d, 0x78, 0x76, 0x6c, 0x08, 0xc0, 0x37,
                              0xa3, 0x4a, 0x8b, 0x53, 0xc9, 0xd0, 0x1e, 0xf0, 0x45, 0x2d, 0x75,
                              0xb6, 0x5e, 0xb5, 0x25, 0x20, 0xe9, 0x6b, 0x01, 0xe6, 0x59};
  u8 password[32], salt[16], secret[8], data[12], out[32];
  (void)state;
  memset(password, 1, sizeof password);
  memset(salt, 2, sizeof salt);
  memset(secret, 3, sizeof secret);
  memset(data, 4, sizeof data);
  argon2_context c = {.out = out,
                      .outlen = 32,
                      .pwd = password,
                      .pwdlen = 32,
                      .salt = salt,
                      .saltlen = 16,
                      .secret = secret,
                      .secretlen = 8,
                      .ad = data,
                      .adlen = 12,
                      .t_cost = 3,
                      .m_cost = 32,
                      .lanes = 4,
                      .threads = 4,
                      .version = 0x13};
  assert_int_equal(argon2_ctx(&c, Argon2_id), ARGON2_OK);
  assert_memory_equal(out, want, sizeof want);
}

// `echo -n secret | argon2 somesalt12345678 -id -t PASSES -k KIB -p LANES -l LEN -e`
static const struct {
  u32 passes, kib, lanes, len;
  const char *hash;
} known[] = {
    {1, 47104, 1, 64,
     "Jg6i85BzIcHDpWFWTv7ZLsjGb8ndUxloSY5Tjr2fNBLanayh+5W3NmzdhPyeEBLMZ163ee4SyJSfu7sZQrRlqQ"},
    {3, 64, 1, 32, "RwREaBJ4D9uoshAmGTNWEgpkWElhhB+a2k2l0ZZd7hI"},
    {2, 256, 4, 16, "/OWZJEc/rlaKiK5S2xnR8Q"},
    {1, 8, 1, 64,
     "3RDibzuj3188IkjPtGVVjKeESUttUprtpEkU37h/N+i1LaTv96x5j/n5vVTMgaA+E4xxEibxcVCDrx89490rbQ"},
    {2, 1000, 3, 64,
     "MvVJbmNNbx7jDx61CWRuWpUV90APceUfewi+qyXYtVraRFi6fI6PkR6tpg90ScUggYoS+Obq9JKWRpsnDz8CQQ"},
};

static struct argon_job job_of(u32 i, u8 *out) {
  return (struct argon_job){.password = BYTES_LIT("secret"),
                            .salt = BYTES_LIT("somesalt12345678"),
                            .memory_kib = known[i].kib,
                            .passes = known[i].passes,
                            .lanes = known[i].lanes,
                            .out = span_of(out, known[i].len)};
}
static bool right(u32 i, const u8 *out) {
  u8 want[64];
  u32 n = 0;
  assert_true(base64_decode(bytes_str(known[i].hash), span_of(want, 64), &n));
  assert_int_equal(n, known[i].len);
  return memcmp(out, want, n) == 0;
}
static struct span arena_of(u32 kib) {
  return span_of(aligned_alloc(64, kib * 1024ul), kib * 1024ul);
}

static void count(void *user) {
  ++*(u32 *)user;
}
static void as_the_command(void **state) {
  u8 out[64];
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(known); i++) {
    struct span arena = arena_of(known[i].kib);
    struct argon_job job = job_of(i, out);
    u32 pauses = 0;
    memset(arena.ptr, 0xa5, arena.len);
    argon2id(&job, arena, count, &pauses);
    assert_true(right(i, out));
    u32 blocks = known[i].kib / (4 * known[i].lanes) * (4 * known[i].lanes);
    assert_true(pauses >= blocks * known[i].passes - 2 * known[i].lanes);
    for (usize k = 0; k < blocks * 1024ul; k++) {
      assert_int_equal(arena.ptr[k], 0);
    }
    job.password = BYTES_LIT("secreT");
    argon2id(&job, arena, NULL, NULL);
    assert_false(right(i, out));
    free(arena.ptr);
  }
}

static struct argon_job job;
static struct span arena;
static struct fiber fiber;
static void on_pause(void *user) {
  fiber_yield(user);
}
static void on_fiber(struct fiber *self, void *arg) {
  (void)arg;
  argon2id(&job, arena, on_pause, self);
}
static void in_pieces_and_given_up(void **state) {
  (void)state;
  u8 out[64];
  struct span stack = plat_stack(ARGON_STACK_BYTES);
  memset(stack.ptr, 0x5a, stack.len);
  for (u32 i = 1; i < ARRAY_COUNT(known); i++) {
    arena = arena_of(known[i].kib);
    job = job_of(i, out);
    for (u32 stop = 1; stop < 40; stop += 13) {  // left where it is
      fiber_start(&fiber, stack, on_fiber, NULL);
      for (u32 k = 0; k < stop && fiber_resume(&fiber) == FIBER_WAITING; k++) {
      }
    }
    fiber_start(&fiber, stack, on_fiber, NULL);
    while (fiber_resume(&fiber) == FIBER_WAITING) {
    }
    assert_true(right(i, out));
    free(arena.ptr);
  }
  MEM_UNPOISON(stack.ptr, stack.len);
  for (usize i = 0; i < ARGON_STACK_BYTES / 4; i++) {  // never that deep, instrumented as it is
    assert_int_equal(stack.ptr[i], 0x5a);
  }
}

static void inputs_of_any_length(void **state) {
  u8 out[2][64];
  (void)state;
  arena = arena_of(8);
  u8 *password = malloc(65535);
  memset(password, 'x', 65535);
  static const u32 len[] = {0, 1, 127, 128, 129, 65535};
  for (u32 i = 0; i < ARRAY_COUNT(len); i++) {
    job = (struct argon_job){.password = bytes_of(password, len[i]),
                             .salt = bytes_of(password, 8 + i * 10),
                             .memory_kib = 8,
                             .passes = 1,
                             .lanes = 1,
                             .out = span_of(out[0], 64)};
    argon2id(&job, arena, NULL, NULL);
    assert_int_equal(argon2id_hash_raw(1, 8, 1, password, len[i], password, 8 + i * 10, out[1], 64),
                     ARGON2_OK);
    assert_memory_equal(out[0], out[1], 64);
  }
  free(password);
  free(arena.ptr);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rfc_9106), cmocka_unit_test(as_the_command),
                                     cmocka_unit_test(in_pieces_and_given_up),
                                     cmocka_unit_test(inputs_of_any_length)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
