// SPDX-License-Identifier: Apache-2.0
// What BoringSSL's public headers need of <time.h>.
#pragma once
typedef long time_t;
struct tm;
