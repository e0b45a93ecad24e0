// SPDX-License-Identifier: Apache-2.0
// Assertions are on in every build and speak of our own bugs only: never of data from a peer, a
// disk or a device.
#pragma once
#include "base/cc.h"

// Ends the program. `where` is "file:line", `what` the condition's text. Supplied by the platform
// (plat_crash) in images, by base/assert_host.c in tests.
NORETURN void assert_fail(const char *where, const char *what);

#define ASSERT_STR2(x) #x
#define ASSERT_STR(x) ASSERT_STR2(x)
#ifdef CBMC
#define ASSERT(cond) __CPROVER_assert((cond), #cond)
#else
#define ASSERT(cond)                                              \
  do {                                                            \
    if (UNLIKELY(!(cond))) {                                      \
      assert_fail(__FILE_NAME__ ":" ASSERT_STR(__LINE__), #cond); \
    }                                                             \
  } while (0)
#endif
