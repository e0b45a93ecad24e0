// SPDX-License-Identifier: Apache-2.0
// BoringSSL's public headers include this and use nothing of it.
#pragma once
#include <stddef.h>
