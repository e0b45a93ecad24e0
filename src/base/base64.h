// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648 4), with padding.
#pragma once
#include "base/bytes.h"

#define BASE64_LEN(n) (((n) + 2) / 3 * 4)
// Writes BASE64_LEN(in.len) characters; `out` holds at least so many (asserted). Returns how many.
u32 base64_encode(struct bytes in, struct span out);
// Decodes with or without padding. False: another character, a length that cannot be, bits that
// belong to no byte, or more than `out` holds. *len is how many bytes were written.
bool base64_decode(struct bytes in, struct span out, u32 *len);
