// SPDX-License-Identifier: Apache-2.0
#include "dev/scsi.h"

#define BLOCK_LEN_MAX 65536u

// --- Commands

static u8 *begin(u8 cdb[SCSI_CDB_LEN], u8 code) {
  memset(cdb, 0, SCSI_CDB_LEN);
  cdb[0] = code;
  return cdb;
}

void scsi_inquiry(u8 cdb[SCSI_CDB_LEN], int page, u8 len) {
  begin(cdb, 0x12);
  cdb[1] = page >= 0;
  cdb[2] = page >= 0 ? (u8)page : 0;
  cdb[4] = len;
}

void scsi_test_ready(u8 cdb[SCSI_CDB_LEN]) {
  begin(cdb, 0x00);
}

void scsi_report_luns(u8 cdb[SCSI_CDB_LEN], u32 len) {
  store_be32(begin(cdb, 0xa0) + 6, len);
}

void scsi_capacity10(u8 cdb[SCSI_CDB_LEN]) {
  begin(cdb, 0x25);
}

void scsi_capacity16(u8 cdb[SCSI_CDB_LEN], u32 len) {
  begin(cdb, 0x9e)[1] = 0x10;
  store_be32(cdb + 10, len);
}

void scsi_mode_caching(u8 cdb[SCSI_CDB_LEN], u8 len) {
  begin(cdb, 0x1a)[1] = 0x08;  // without block descriptors
  cdb[2] = 0x08;
  cdb[4] = len;
}

void scsi_flush(u8 cdb[SCSI_CDB_LEN]) {
  begin(cdb, 0x35);  // SYNCHRONIZE CACHE(10), zeros: all of it
}

void scsi_transfer(u8 cdb[SCSI_CDB_LEN], bool write, bool long_form, u64 at, u32 blocks) {
  ASSERT(blocks != 0);
  if (long_form) {
    begin(cdb, write ? 0x8a : 0x88);
    store_be64(cdb + 2, at);
    store_be32(cdb + 10, blocks);
  } else {
    ASSERT(at <= U32_MAX && blocks <= U16_MAX);
    begin(cdb, write ? 0x2a : 0x28);
    store_be32(cdb + 2, (u32)at);
    store_be16(cdb + 7, (u16)blocks);
  }
}

void scsi_write_same(u8 cdb[SCSI_CDB_LEN], u64 at, u32 blocks) {
  begin(cdb, 0x93);
  store_be64(cdb + 2, at);
  store_be32(cdb + 10, blocks);
}

void scsi_unmap(u8 cdb[SCSI_CDB_LEN], u8 list[SCSI_UNMAP_LEN], u64 at, u32 blocks) {
  store_be16(begin(cdb, 0x42) + 7, SCSI_UNMAP_LEN);
  memset(list, 0, SCSI_UNMAP_LEN);
  store_be16(list, SCSI_UNMAP_LEN - 2);
  store_be16(list + 2, 16);
  store_be64(list + 8, at);
  store_be32(list + 16, blocks);
}

// --- Answers

bool scsi_take_inquiry(struct bytes a, struct scsi_facts *f) {
  if (a.len < 5 || (a.ptr[0] >> 5) != 0) {  // nothing is connected there
    return false;
  }
  f->type = a.ptr[0] & 0x1f;
  f->removable = (a.ptr[1] & 0x80) != 0;
  f->read_only = f->type == SCSI_TYPE_CD;
  f->write_cache = true;
  f->unmap_align = 1;
  return f->type == SCSI_TYPE_DISK || f->type == SCSI_TYPE_CD;
}

bool scsi_has_page(struct bytes a, u8 page) {
  if (a.len < 4 || a.ptr[1] != 0) {
    return false;
  }
  usize end = MIN(a.len, 4 + (usize)load_be16(a.ptr + 2));
  for (usize i = 4; i < end; i++) {
    if (a.ptr[i] == page) {
      return true;
    }
  }
  return false;
}

struct bytes scsi_take_serial(struct bytes a) {
  if (a.len < 4 || a.ptr[1] != 0x80) {
    return bytes_of(NULL, 0);
  }
  return bytes_sub(a, 4, MIN(a.len - 4, (usize)load_be16(a.ptr + 2)));
}

void scsi_take_limits(struct bytes a, struct scsi_facts *f) {
  if (a.len < 16 || a.ptr[1] != 0xb0) {
    return;
  }
  f->transfer_max = load_be32(a.ptr + 8);
  f->optimal = load_be32(a.ptr + 12);
  if (a.len < 36) {
    return;
  }
  // A limit of zero means that there is none of it, whatever else is claimed.
  f->unmap_max = load_be32(a.ptr + 24) == 0 ? 0 : load_be32(a.ptr + 20);
  f->unmap_align = MAX(load_be32(a.ptr + 28), 1u);
  if (a.len >= 44) {
    f->same_max = load_be64(a.ptr + 36);
  }
}

bool scsi_take_provisioning(struct bytes a) {
  return a.len >= 6 && a.ptr[1] == 0xb2 && (a.ptr[5] & 0x80) != 0;
}

static bool take_size(struct scsi_facts *f, u64 last, u32 block_len) {
  if (last == U64_MAX || !IS_POWER_OF_TWO(block_len) || block_len < 512 ||
      block_len > BLOCK_LEN_MAX || last >= U64_MAX / BLOCK_LEN_MAX) {
    return false;
  }
  f->blocks = last + 1;
  f->block_len = block_len;
  f->physical_len = MAX(f->physical_len, block_len);
  return true;
}

bool scsi_take_capacity10(struct bytes a, struct scsi_facts *f) {
  return a.len >= 8 && load_be32(a.ptr) != U32_MAX &&
         take_size(f, load_be32(a.ptr), load_be32(a.ptr + 4));
}

bool scsi_take_capacity16(struct bytes a, struct scsi_facts *f) {
  if (a.len < 12) {
    return false;
  }
  u32 block_len = load_be32(a.ptr + 8);
  u32 exponent = a.len >= 14 ? a.ptr[13] & 15u : 0;
  bool good = take_size(f, load_be64(a.ptr), block_len);
  if (good) {
    f->physical_len = block_len << MIN(exponent, 8u);
  }
  return good;
}

void scsi_take_caching(struct bytes a, struct scsi_facts *f) {
  if (a.len < 4) {
    return;
  }
  f->read_only = f->read_only || (a.ptr[2] & 0x80) != 0;
  usize page = 4 + (usize)a.ptr[3];
  if (page + 3 <= a.len && (a.ptr[page] & 0x3f) == 0x08) {
    f->write_cache = (a.ptr[page + 2] & 0x04) != 0;
  }
}

enum scsi_sense scsi_take_sense(struct bytes s) {
  static const u8 of_key[16] = {
      [0] = SENSE_NONE,   [1] = SENSE_NONE,    [2] = SENSE_NOT_READY, [3] = SENSE_ERROR,
      [4] = SENSE_ERROR,  [5] = SENSE_REFUSED, [6] = SENSE_ATTENTION, [7] = SENSE_REFUSED,
      [8] = SENSE_ERROR,  [9] = SENSE_ERROR,   [10] = SENSE_ERROR,    [11] = SENSE_ERROR,
      [12] = SENSE_ERROR, [13] = SENSE_ERROR,  [14] = SENSE_ERROR,    [15] = SENSE_ERROR};
  u8 form = s.len == 0 ? 0 : s.ptr[0] & 0x7f;
  if ((form == 0x70 || form == 0x71) && s.len >= 3) {
    return of_key[s.ptr[2] & 15];
  }
  if ((form == 0x72 || form == 0x73) && s.len >= 2) {
    return of_key[s.ptr[1] & 15];
  }
  return SENSE_ERROR;  // a fault without a reason
}

bool scsi_take_lun(struct bytes a, u32 idx, u32 *lun) {
  if (a.len < 8) {
    return false;
  }
  u64 end = MIN((u64)a.len, 8 + (u64)load_be32(a.ptr));
  u64 at = 8 + 8 * (u64)idx;
  if (at + 8 > end) {
    return false;
  }
  const u8 *p = a.ptr + at;
  u8 form = p[0] >> 6;
  *lun = form == 0 && p[0] == 0 ? p[1] : form == 1 ? (u32)(p[0] & 0x3f) << 8 | p[1] : U32_MAX;
  return true;
}
