// SPDX-License-Identifier: Apache-2.0
// The platform for unit tests and fuzz targets: memory from the C library, time set by the test,
// everything else weak, so that a test replaces what it wants to see.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "plat/plat.h"

#define WEAK __attribute__((weak))

u64 unit_now_ns;                            // what plat_now_ns returns
u64 unit_unix_ns = 1796083200000000000ull;  // 2026-12-01
u64 unit_random_state = 1;

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "assertion failed at %s: %s\n", where, what);
  abort();
}
WEAK u64 plat_now_ns(void) {
  return unit_now_ns;
}
WEAK struct plat_wall plat_wall(void) {
  return (struct plat_wall){unit_unix_ns, unit_unix_ns, CLOCK_HOST};
}
// By mmap: what the platform gives is never returned, so it is no leak.
static struct span map(usize len) {
  void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? span_of(NULL, 0) : span_of(p, len);
}
WEAK u32 plat_memory(struct span regions[PLAT_REGION_MAX]) {
  regions[0] = map(256u << 20);
  return 1;
}
WEAK struct span plat_stack(u32 len) {
  struct span s = map(ALIGN_UP(len, 4096u) + 4096u);
  mprotect(s.ptr, 4096, PROT_NONE);
  return span_of(s.ptr + 4096, s.len - 4096);
}
WEAK u32 plat_nic_count(void) {
  return 1;
}
WEAK void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){.mac = {2, 0, 0, 0, 0, 1}, .mtu = 1500, .link_up = true};
}
WEAK u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  (void)core, (void)nic, (void)frames, (void)max;
  return 0;
}
WEAK void plat_rx_release(u32 core, struct rxbuf *chain) {
  (void)core, (void)chain;
}
WEAK u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)core, (void)nic, (void)frames;
  return count;
}
WEAK u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max) {
  (void)core, (void)nic, (void)tokens, (void)max;
  return 0;
}
WEAK u32 plat_core_count(void) {
  return 1;
}
WEAK void plat_cores_start(void) {}
WEAK void plat_idle(u32 core, u64 deadline_ns) {
  (void)core;
  unit_now_ns = deadline_ns == U64_MAX ? unit_now_ns + 1000000 : MAX(unit_now_ns, deadline_ns);
}
WEAK void plat_wake(u32 core) {
  (void)core;
}
WEAK void plat_facts(struct json_out *out) {
  (void)out;
}
WEAK enum plat_entropy plat_random(struct span out) {
  for (usize i = 0; i < out.len; i++) {
    unit_random_state = unit_random_state * 6364136223846793005ull + 1442695040888963407ull;
    out.ptr[i] = (u8)(unit_random_state >> 56);
  }
  return ENTROPY_GOOD;
}
WEAK void plat_console(struct bytes text) {
  (void)text;
}
WEAK u32 plat_console_read(struct span out) {
  (void)out;
  return 0;
}
WEAK struct block *plat_disk(u32 nth) {
  (void)nth;
  return NULL;
}
WEAK u32 plat_bundles(struct plat_bundle *out, u32 max) {
  (void)out, (void)max;
  return 0;
}
WEAK const char *plat_command_line(void) {
  return "";
}
WEAK bool plat_stop_requested(void) {
  return false;
}
WEAK void plat_end(enum plat_end how) {
  exit(how == END_POWER_OFF ? 0 : 3);
}
WEAK void plat_crash(const char *code, const char *sentence) {
  fprintf(stderr, "crash %s: %s\n", code, sentence);
  abort();
}
