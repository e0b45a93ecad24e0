// SPDX-License-Identifier: Apache-2.0
#include "admin/slot.h"

#include "base/hash.h"

enum { AT_LEN = 16, AT_PAYLOAD_CRC = 20, AT_HEADER_CRC = 24 };

enum err slot_payload(struct bytes slot, struct bytes *tar) {
  if (slot.len < SLOT_HEADER) {
    return ERR_SHORT;
  }
  if (memcmp(slot.ptr, SLOT_MAGIC, 16) != 0) {
    return ERR_UNSUPPORTED;
  }
  if (crc32c(0, bytes_sub(slot, 0, AT_HEADER_CRC)) != load_le32(slot.ptr + AT_HEADER_CRC)) {
    return ERR_CORRUPT;
  }
  u32 len = load_le32(slot.ptr + AT_LEN);
  if (len == 0) {
    return ERR_NOT_FOUND;
  }
  if (len > slot.len - SLOT_HEADER) {
    return ERR_SHORT;
  }
  struct bytes payload = bytes_sub(slot, SLOT_HEADER, len);
  if (crc32c(0, payload) != load_le32(slot.ptr + AT_PAYLOAD_CRC)) {
    return ERR_CORRUPT;
  }
  *tar = payload;
  return ERR_OK;
}

enum err slot_write(struct span slot, struct bytes tar) {
  ASSERT(slot.len == SLOT_SIZE);
  if (tar.len > SLOT_PAYLOAD_MAX) {
    return ERR_LIMIT;
  }
  memset(slot.ptr, 0, slot.len);
  memcpy(slot.ptr, SLOT_MAGIC, 16);
  store_le32(slot.ptr + AT_LEN, (u32)tar.len);
  store_le32(slot.ptr + AT_PAYLOAD_CRC, crc32c(0, tar));
  store_le32(slot.ptr + AT_HEADER_CRC, crc32c(0, bytes_of(slot.ptr, AT_HEADER_CRC)));
  if (tar.len > 0) {
    memcpy(slot.ptr + SLOT_HEADER, tar.ptr, tar.len);
  }
  return ERR_OK;
}
