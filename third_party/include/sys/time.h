// SPDX-License-Identifier: Apache-2.0
// What BoringSSL's public headers need of <sys/time.h>.
#pragma once
#include <sys/types.h>
struct timeval {
  long tv_sec;
  long tv_usec;
};
