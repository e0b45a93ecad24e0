// SPDX-License-Identifier: Apache-2.0
// BoringSSL's public headers name FILE in prototypes that core code never calls.
#pragma once
#include <stddef.h>
typedef struct urmqtt_no_file FILE;
