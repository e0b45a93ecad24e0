// SPDX-License-Identifier: Apache-2.0
// UTF-8 validation (RFC 3629; Unicode table 3-7).
#pragma once
#include "base/bytes.h"

// True when b[0..len) is well-formed UTF-8 without surrogates, overlong forms and U+0000
// ([MQTT-1.5.4-1], [MQTT-1.5.4-2]). Reads nothing outside.
bool utf8_valid(const u8 *b, u32 len);
// The same without control characters either (U+0001..U+001F, U+007F..U+009F), which a receiver may
// take for malformed (1.5.4).
bool utf8_text(const u8 *b, u32 len);
// Well-formed, U+0000 allowed: what a payload that calls itself text must be (3.3.2.3.2). At most
// 4 GiB.
bool utf8_data(struct bytes data);
