// SPDX-License-Identifier: Apache-2.0
#include "admin/command_line.h"

#include "base/bytes.h"
#include "plat/plat.h"

bool command_line_has(const char *word) {
  struct bytes left = bytes_str(plat_command_line());
  while (left.len > 0) {
    usize n = bytes_find(left, ' ');
    n = MIN(n, left.len);
    if (bytes_equal_str(bytes_sub(left, 0, n), word)) {
      return true;
    }
    left = bytes_skip(left, MIN(n + 1, left.len));
  }
  return false;
}
