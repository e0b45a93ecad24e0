// SPDX-License-Identifier: Apache-2.0
// GUID partition tables as bytes: writes both copies, reads either. UEFI 2.10 5.3. Nothing here
// touches a device. Tables of 128 entries of 128 bytes, entries right behind the header (first
// copy) or right before it (last copy): what others make differently is ERR_UNSUPPORTED.
#pragma once
#include "base/bytes.h"

#define GPT_ENTRIES 128u
#define GPT_ENTRY_LEN 128u
#define GPT_ENTRIES_LEN (GPT_ENTRIES * GPT_ENTRY_LEN)
#define GPT_GUID_LEN 16u
#define GPT_BLOCK_MAX 4096u  // logical blocks longer than this are refused
// Bytes of the two copies with blocks of n bytes: protective MBR, header, entries; entries, header.
#define GPT_FIRST_LEN(n) (2 * (n) + GPT_ENTRIES_LEN)
#define GPT_LAST_LEN(n) (GPT_ENTRIES_LEN + (n))

struct gpt {
  u32 block_len;  // 512..4096
  u64 blocks;     // of the disk as this table sees it: its last copy lies in the last of them
  u8 guid[GPT_GUID_LEN];
};

struct gpt_part {
  u32 idx;
  u64 first;  // block
  u64 last;   // block, inclusive
  u8 unique[GPT_GUID_LEN];
};

extern const u8 gpt_type_bios_boot[GPT_GUID_LEN];
extern const u8 gpt_type_esp[GPT_GUID_LEN];
extern const u8 gpt_type_urmqtt[GPT_GUID_LEN];

// Entry `idx` of a zeroed table of GPT_ENTRIES_LEN bytes. name: ASCII, at most 35 characters.
void gpt_put_entry(struct span entries, u32 idx, const u8 *type, const struct gpt_part *part,
                   const char *name);
// The first copy around the entries that `area` (GPT_FIRST_LEN) holds already at their place: MBR
// (its boot code, bytes 0..439, is left alone) and header.
void gpt_seal_first(const struct gpt *g, struct span area);
// The same of the last copy; area: GPT_LAST_LEN.
void gpt_seal_last(const struct gpt *g, struct span area);
// Reads a copy. device_blocks: what the device has now. ERR_NOT_FOUND: no signature; ERR_CORRUPT:
// a checksum is wrong; ERR_MALFORMED: places that cannot be; ERR_UNSUPPORTED: another shape;
// ERR_RANGE: the table is of a longer disk. g->blocks may be less than the device has: it has
// grown.
NODISCARD enum err gpt_read_first(struct bytes area, u32 block_len, u64 device_blocks,
                                  struct gpt *g);
NODISCARD enum err gpt_read_last(struct bytes area, u32 block_len, u64 device_blocks,
                                 struct gpt *g);
// The first entry of a type. ERR_NOT_FOUND; ERR_MALFORMED: its blocks are not in the usable range.
NODISCARD enum err gpt_find(const struct gpt *g, struct bytes entries, const u8 *type,
                            struct gpt_part *out);
// Does the first block hold an old-style table of somebody else's (no entry of type 0xee)? Then
// copies of a GPT are leftovers (UEFI 2.10 5.2.3).
bool gpt_mbr_foreign(struct bytes area);
// First and last block that partitions may use.
u64 gpt_usable_first(u32 block_len);
u64 gpt_usable_last(u32 block_len, u64 blocks);
// Does another partition use a block behind `part`?
bool gpt_used_behind(struct bytes entries, const struct gpt_part *part);
// Moves the end of the partition, in the table's bytes.
void gpt_put_last(struct span entries, const struct gpt_part *part, u64 last);
