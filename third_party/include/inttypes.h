// SPDX-License-Identifier: Apache-2.0
// What BoringSSL's public headers need of <inttypes.h>.
#pragma once
#include <stdint.h>
#define PRIu64 "lu"
#define PRIx64 "lx"
