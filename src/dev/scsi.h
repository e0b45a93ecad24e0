// SPDX-License-Identifier: Apache-2.0
// SCSI commands and what devices answer (SPC-4, SBC-3, MMC): pure, bytes in, bytes out. Nothing in
// an answer is trusted: it may be shorter than it says.
#pragma once
#include "base/bytes.h"

#define SCSI_CDB_LEN 16u
#define SCSI_UNMAP_LEN 24u
#define SCSI_ANSWER_MAX 255u  // bytes of an answer that is asked for while probing

#define SCSI_STATUS_GOOD 0x00u
#define SCSI_STATUS_CHECK 0x02u
#define SCSI_STATUS_BUSY 0x08u
#define SCSI_STATUS_FULL 0x28u

enum scsi_sense {
  SENSE_NONE,       // nothing wrong, or recovered
  SENSE_ATTENTION,  // something about the device changed: look again, repeat the command
  SENSE_NOT_READY,
  SENSE_REFUSED,  // not in this device's language, or outside
  SENSE_ERROR,
};

struct scsi_facts {
  u8 type;  // 0 disk, 5 CD
  bool removable;
  bool read_only;
  u64 blocks;
  u32 block_len;
  u32 physical_len;
  bool write_cache;  // also when it does not say
  u64 transfer_max;  // blocks; 0 = not said
  u64 optimal;       // blocks; 0 = not said
  u64 unmap_max;     // blocks of one UNMAP; 0 = none
  u64 unmap_align;   // blocks, >= 1
  u64 same_max;      // blocks of one WRITE SAME; 0 = none
};

#define SCSI_TYPE_DISK 0u
#define SCSI_TYPE_CD 5u

// --- Commands: each fills cdb and returns nothing; unused bytes are zero.
void scsi_inquiry(u8 cdb[SCSI_CDB_LEN], int page, u8 len);  // page -1: the standard answer
void scsi_test_ready(u8 cdb[SCSI_CDB_LEN]);
void scsi_report_luns(u8 cdb[SCSI_CDB_LEN], u32 len);
void scsi_capacity10(u8 cdb[SCSI_CDB_LEN]);
void scsi_capacity16(u8 cdb[SCSI_CDB_LEN], u32 len);
void scsi_mode_caching(u8 cdb[SCSI_CDB_LEN], u8 len);
void scsi_flush(u8 cdb[SCSI_CDB_LEN]);
// long_form: READ(16) and WRITE(16); else the 10-byte ones, at < 2^32 and blocks < 2^16.
void scsi_transfer(u8 cdb[SCSI_CDB_LEN], bool write, bool long_form, u64 at, u32 blocks);
void scsi_write_same(u8 cdb[SCSI_CDB_LEN], u64 at, u32 blocks);  // one block of data follows
void scsi_unmap(u8 cdb[SCSI_CDB_LEN], u8 list[SCSI_UNMAP_LEN], u64 at, u32 blocks);

// --- Answers. False: of no use.
bool scsi_take_inquiry(struct bytes answer, struct scsi_facts *f);
bool scsi_has_page(struct bytes list, u8 page);                        // of the answer to page 0
struct bytes scsi_take_serial(struct bytes answer);                    // page 0x80; may be empty
void scsi_take_limits(struct bytes answer, struct scsi_facts *f);      // page 0xb0
bool scsi_take_provisioning(struct bytes answer);                      // page 0xb2: UNMAP is there
bool scsi_take_capacity10(struct bytes answer, struct scsi_facts *f);  // false also: needs 16
bool scsi_take_capacity16(struct bytes answer, struct scsi_facts *f);
void scsi_take_caching(struct bytes answer, struct scsi_facts *f);
enum scsi_sense scsi_take_sense(struct bytes sense);
// The idx-th logical unit of REPORT LUNS, if it is one of a simple number. False: no such entry;
// *lun U32_MAX: of another form.
bool scsi_take_lun(struct bytes answer, u32 idx, u32 *lun);
