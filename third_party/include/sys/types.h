// SPDX-License-Identifier: Apache-2.0
// What BoringSSL's public headers need of <sys/types.h>.
#pragma once
#include <stddef.h>
typedef long ssize_t;
