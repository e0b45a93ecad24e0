// SPDX-License-Identifier: Apache-2.0
// BoringSSL's public headers include this; core code takes the memory functions from base/mem.h.
#pragma once
#include <stddef.h>
