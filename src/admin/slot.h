// SPDX-License-Identifier: Apache-2.0
// The configuration slot of an ISO: a file of fixed size (/boot/config.slot) that urmqtt-stamp
// rewrites in place. docs/formats/slot.md has it byte by byte.
#pragma once
#include "base/bytes.h"

#define SLOT_SIZE (1u << 20)
#define SLOT_HEADER 512u
#define SLOT_PAYLOAD_MAX (SLOT_SIZE - SLOT_HEADER)
#define SLOT_MAGIC "urMQTT-config-1\n"  // 16 bytes, no NUL

struct slot_header {  // offsets within the first 512 bytes; little-endian; the rest is zero
  u8 magic[16];
  u8 payload_len[4];  // 0: empty
  u8 payload_crc[4];  // CRC-32C of the payload
  u8 header_crc[4];   // CRC-32C of the 24 bytes before
};
static_assert(sizeof(struct slot_header) == 28, "slot header");

// The ustar bundle inside a slot. ERR_UNSUPPORTED: no slot at all (other magic); ERR_NOT_FOUND: an
// empty slot; ERR_CORRUPT: a checksum fails; ERR_SHORT: cut off.
enum err slot_payload(struct bytes slot, struct bytes *tar);
// Writes header and payload into `slot` (SLOT_SIZE bytes, the rest zeroed). ERR_LIMIT: too large.
enum err slot_write(struct span slot, struct bytes tar);
