// SPDX-License-Identifier: Apache-2.0
// Text output into a writer. A printf subset that the compiler checks: %s %.*s %c %d %u %x %ld %lu
// %lx %lld %llu %llx %p %% with an optional 0 and width for numbers and - and width for %s. Formats
// are always our own literals.
#pragma once
#include "base/bytes.h"

void fmt(struct writer *w, const char *format, ...) PRINTF_LIKE(2, 3);
void fmt_v(struct writer *w, const char *format, __builtin_va_list args) PRINTF_LIKE(2, 0);
// Formats into buf, always NUL-terminated, cut if too long. Returns the length without NUL. cap
// >= 1.
u32 fmt_z(char *buf, u32 cap, const char *format, ...) PRINTF_LIKE(3, 4);
// Foreign bytes for a console: control and non-ASCII bytes as \xNN.
void fmt_escaped(struct writer *w, struct bytes b);
