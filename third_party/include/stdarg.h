// SPDX-License-Identifier: Apache-2.0
// What BoringSSL's public headers need of <stdarg.h>.
#pragma once
typedef __builtin_va_list va_list;
#define va_start(list, last) __builtin_va_start(list, last)
#define va_end(list) __builtin_va_end(list)
