// SPDX-License-Identifier: Apache-2.0
// Hashes: SipHash-2-4 where a peer chooses the input (keyed per boot), CRC-32C for stored data.
#pragma once
#include "base/bytes.h"

struct siphash_key {
  u64 k0;
  u64 k1;
};

// SipHash-2-4 (Aumasson, Bernstein 2012), 64-bit result.
u64 siphash(const struct siphash_key *key, struct bytes data);

// CRC-32C (Castagnoli, reflected 0x82f63b78), RFC 3720 B.4; `seed` is 0 or a previous result.
u32 crc32c(u32 seed, struct bytes data);

// CRC-32 (IEEE 802.3, reflected 0xedb88320), UEFI 2.10 5.3: partition tables only; `seed` as above.
u32 crc32(u32 seed, struct bytes data);
