// SPDX-License-Identifier: Apache-2.0
// The kernel tests itself on the machine it runs on: `selftest` on the command line runs what must
// succeed and ends with "selftest: ok" and power off; `selftest-NAME` beside it provokes one fault,
// and the crash text is the expected result. Also the main program of a kernel linked without one.
#include "arch/cpu.h"
#include "plat/metal/machine.h"

#define AREA 1024u
#define TIMER_NS 20000000ull

static u8 area_a[AREA];
static u8 area_b[AREA];
static u32 failures;

static void check(bool ok, const char *what) {
  console_fmt("selftest: %s %s\n", what, ok ? "ok" : "FAILED");
  failures += ok ? 0 : 1;
}

static void fill(u8 *p, u32 seed) {
  for (u32 i = 0; i < AREA; i++) {
    seed = seed * 1664525 + 1013904223;
    p[i] = (u8)(seed >> 24);
  }
}

// Byte by byte through volatile, so that no compiler turns it into a call to what is tested.
static void slow_move(u8 *to, const u8 *from, u32 len) {
  volatile u8 *t = to;
  for (u32 k = 0; k < len; k++) {
    u32 i = to <= from ? k : len - 1 - k;
    t[i] = from[i];
  }
}

static bool mem_differential(void) {
  for (u32 len = 0; len < 300; len++) {
    for (u32 off = 0; off < 40; off += 3) {
      fill(area_a, len);
      fill(area_b, len);
      memmove(area_a + off, area_a + 17, len);
      slow_move(area_b + off, area_b + 17, len);
      if (memcmp(area_a, area_b, AREA) != 0) {
        return false;
      }
      memset(area_a + off, (int)off, len);
      for (u32 i = 0; i < AREA; i++) {
        u8 want = i >= off && i < off + len ? (u8)off : area_b[i];
        if (area_a[i] != want) {
          return false;
        }
      }
    }
  }
  return true;
}

static bool timer_wakes(void) {
  u64 start = plat_now_ns();
  idle_for_ns(TIMER_NS);
  u64 took = plat_now_ns() - start;
  console_fmt("selftest: a halt of 20 ms took %lu us\n", took / 1000);
  return took >= TIMER_NS && took < 50 * TIMER_NS;
}

static bool wake_is_kept(void) {
  u64 start = plat_now_ns();
  plat_wake(0);  // before the halt: it must end it at once
  plat_idle(0, start + 2000000000ull);
  return plat_now_ns() - start < 1000000000ull;
}

static bool random_differs(void) {
  u8 a[64] = {0};
  u8 b[64] = {0};
  plat_random(span_of(a, sizeof a));
  plat_random(span_of(b, sizeof b));
  u32 zeros = 0;
  for (u32 i = 0; i < sizeof a; i++) {
    zeros += a[i] == 0 ? 1 : 0;
  }
  return memcmp(a, b, sizeof a) != 0 && zeros < 16;
}

static bool stack_is_guarded(void) {
  struct span s = plat_stack(16384);
  if (s.len < 16384) {
    return false;
  }
  memset(s.ptr, 0x5a, s.len);
  return metal_is_stack_guard((u64)(uptr)s.ptr - 1) && !metal_is_stack_guard((u64)(uptr)s.ptr);
}

static NOINLINE void overflow_stack(u32 depth) {
  volatile u8 big[2048];
  big[depth % 2048] = (u8)depth;
  if (depth < 1000000) {
    overflow_stack(depth + 1);
  }
  big[0] = 0;
}

static NOINLINE void smash(volatile u8 *p, u32 len) {
  for (u32 i = 0; i < len; i++) {
    p[i] = 0x41;
  }
}

static u32 other_type(const char *text) {
  return (u32)strlen(text);
}

// Calls a function through a pointer of another type: the compiler's check must stop it.
static void break_flow(void) {
  void (*volatile wrong)(void) = (void (*)(void))(void *)(uptr)other_type;
  wrong();
}

static void provoke(void) {
  const void *image = (const void *)(uptr)metal_boot->layout.image;
  volatile u32 zero = 0;
  if (metal_command_word("selftest-assert")) {
    ASSERT(zero != 0);
  }
  if (metal_command_word("selftest-write-text")) {
    *(volatile u8 *)(uptr)image = 0;
  }
  if (metal_command_word("selftest-run-data")) {
    store_le32(area_a, CPU_RETURN_BYTES);
    cpu_call(area_a);
  }
  if (metal_command_word("selftest-null")) {
    *(volatile u32 *)(uptr)(zero + 8) = 1;
  }
  if (metal_command_word("selftest-stack")) {
    overflow_stack(zero);
  }
  if (metal_command_word("selftest-cfi")) {
    break_flow();
  }
  if (metal_command_word("selftest-canary")) {
    u8 small[16];
    smash(small, sizeof small + 32 + zero);
  }
}

// Says back each line typed on the serial port or the keyboard, until one is "end".
static void say_back(void) {
  u8 line[80];
  u32 len = 0;
  plat_console(BYTES_LIT("selftest: type\n"));
  for (;;) {
    u32 got = plat_console_read(span_of(line + len, 1));
    if (got == 0) {
      plat_idle(0, plat_now_ns() + 10 * TIMER_NS);
      continue;
    }
    if (line[len] == '\n' || line[len] == '\r' || len + 1 == sizeof line) {
      struct bytes typed = bytes_of(line, len);
      char text[400];
      struct writer w = writer_init(span_of(text, sizeof text));
      fmt_escaped(&w, typed);
      console_fmt("typed: %.*s\n", (int)w.pos, text);
      if (bytes_equal_str(typed, "end")) {
        return;
      }
      len = 0;
    } else {
      len++;
    }
  }
}

void selftest_main(void) {
  console_fmt("kaslr: 0x%lx\n", metal_boot->layout.image);
  console_fmt("direct map: 0x%lx, stacks: 0x%lx, registers: 0x%lx\n", metal_boot->layout.direct,
              metal_boot->layout.stacks, metal_boot->layout.mmio);
  check(mem_differential(), "mem* against byte by byte");
  check(timer_wakes(), "timer");
  check(wake_is_kept(), "a wake-up before the halt");
  check(random_differs(), "random");
  check(stack_is_guarded(), "stack guard");
  provoke();
  if (metal_command_word("selftest-core-crash")) {
    plat_cores_start();
    idle_for_ns(500 * TIMER_NS);
  }
  if (metal_command_word("selftest-type")) {
    say_back();
  }
  check(failures == 0, "all");
  plat_console(bytes_str(failures == 0 ? "selftest: ok\n" : "selftest: FAILED\n"));
  bool off = failures == 0 && metal_command_word("selftest");
  plat_end(off ? END_POWER_OFF : END_STOP);
}

// Core 1 never ends its turn, core 2 fails; core 0 waits.
void selftest_core(u32 core) {
  if (!metal_command_word("selftest-core-crash")) {
    return;
  }
  u64 until = plat_now_ns() + 10 * TIMER_NS;
  while (core == 1 || plat_now_ns() < until) {
    (void)plat_now_ns();
  }
  ASSERT(core == 1);
}

// A kernel without src/main.c has nothing better to do.
__attribute__((weak)) void urmqtt_main(void) {
  selftest_main();
}
__attribute__((weak)) void urmqtt_core(u32 core) {
  (void)core;
}
