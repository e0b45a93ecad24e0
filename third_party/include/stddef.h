// SPDX-License-Identifier: Apache-2.0
// What BoringSSL's public headers need of <stddef.h> when core code is compiled without a C library's headers.
#pragma once
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef NULL
#define NULL ((void *)0)
#endif
#define offsetof(type, member) __builtin_offsetof(type, member)
