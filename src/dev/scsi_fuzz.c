// SPDX-License-Identifier: Apache-2.0
// Fuzzes the answers of SCSI devices: no bytes of them make a reader look outside, and what it
// accepts is a size that the block layer can carry.
#include <stdlib.h>
#include <string.h>

#include "base/block.h"
#include "dev/scsi.c"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);
int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  if (len == 0) {
    return 0;
  }
  u8 *exact = malloc(len);
  memcpy(exact, data, len);
  struct bytes a = bytes_of(exact + 1, len - 1);
  struct scsi_facts f = {.unmap_align = 1};
  u32 lun = 0;
  switch (exact[0] % 8) {
  case 0: (void)scsi_take_inquiry(a, &f); break;
  case 1:
    (void)scsi_has_page(a, 0xb0);
    char text[BLOCK_TEXT_MAX];
    block_text(text, scsi_take_serial(a));
    break;
  case 2: scsi_take_limits(a, &f); break;
  case 3: (void)scsi_take_provisioning(a); break;
  case 4: (void)scsi_take_capacity10(a, &f); break;
  case 5: (void)scsi_take_capacity16(a, &f); break;
  case 6: scsi_take_caching(a, &f); break;
  default: (void)scsi_take_sense(a); break;
  }
  for (u32 i = 0; i < 40 && scsi_take_lun(a, i, &lun); i++) {
    if (lun != U32_MAX && lun > 0x3fff) {
      abort();
    }
  }
  if (f.unmap_align == 0 || (f.blocks != 0 && f.blocks > U64_MAX / f.block_len)) {
    abort();
  }
  free(exact);
  return 0;
}
