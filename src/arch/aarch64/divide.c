// SPDX-License-Identifier: Apache-2.0
// Division of 128 by 128 bits, which the compiler calls by this name where the processor has none.
// The only caller is BoringSSL's division of big numbers, by words whose highest bit is set.
#include "base/cc.h"

typedef unsigned __int128 u128;
#pragma GCC visibility push(hidden)
u128 __udivti3(u128 a, u128 b);
#pragma GCC visibility pop

u128 __udivti3(u128 a, u128 b) {
  u128 quotient = 0;
  u128 rest = 0;
  for (u32 i = 128; i-- > 0;) {
    bool carry = rest >> 127 != 0;
    rest = rest << 1 | (a >> i & 1);
    if (carry || rest >= b) {
      rest -= b;
      quotient |= (u128)1 << i;
    }
  }
  return quotient;
}
