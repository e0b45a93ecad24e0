// SPDX-License-Identifier: Apache-2.0
// The canary of the freestanding third-party objects when they are linked into a Linux process.
//
// BoringSSL is compiled once, for the kernel (x86_64-unknown-none-elf): there the stack protector
// reads the global __stack_chk_guard, which Linux's C library does not have (it keeps its canary in
// thread-local storage). __stack_chk_fail is the C library's own.
//
// I1  The value is set before main and never changes: a function that is on the stack while it
//     changed would take its own frame for broken.
// I2  The lowest byte in memory is zero, so that no string copy can reproduce the canary.
#include <stdlib.h>
#include <sys/random.h>

#include "base/cc.h"

extern uptr __stack_chk_guard;
uptr __stack_chk_guard = 0x595e9fbd94fda700ull;

NO_STACK_PROTECTOR __attribute__((constructor)) static void stack_guard_set(void) {
  uptr fresh = 0;
  if (getrandom(&fresh, sizeof fresh, GRND_NONBLOCK) == (ssize_t)sizeof fresh) {
    __stack_chk_guard = fresh & ~(uptr)0xff;
  }
}
