// SPDX-License-Identifier: Apache-2.0
// A machine without network: what a kernel linked without nic.c has. Every definition is weak.
#include "plat/metal/parts.h"

#define WEAK __attribute__((weak))

WEAK void metal_nic_start(void) {}
WEAK void metal_nic_describe(struct writer *out) {
  write_str(out, "network: no driver in this image\n");
}
WEAK u64 metal_nic_arm(bool want) {
  (void)want;
  return U64_MAX;
}
WEAK u32 plat_nic_count(void) {
  return 0;
}
WEAK void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){0};
}
WEAK u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  (void)core, (void)nic, (void)frames, (void)max;
  return 0;
}
WEAK void plat_rx_release(u32 core, struct rxbuf *chain) {
  (void)core, (void)chain;
}
WEAK u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)core, (void)nic, (void)frames, (void)count;
  return 0;
}
WEAK u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max) {
  (void)core, (void)nic, (void)tokens, (void)max;
  return 0;
}
