// SPDX-License-Identifier: Apache-2.0
// A copy counts when signature, header checksum, its own place and the checksum over its entries
// agree. Which copy to believe is the caller's business (store/disk.c): the first when it is whole.
//
// I1  Everything read is an offset inside an area whose length was checked first.
// I2  What is sealed here is accepted by the reader here (asserted by the tests for every size).
#include "store/gpt.h"

#include "base/hash.h"

enum {  // header, UEFI 2.10 table 5-5
  AT_SIGNATURE = 0,
  AT_REVISION = 8,
  AT_SIZE = 12,
  AT_CRC = 16,
  AT_RESERVED = 20,
  AT_SELF = 24,
  AT_OTHER = 32,
  AT_USABLE_FIRST = 40,
  AT_USABLE_LAST = 48,
  AT_GUID = 56,
  AT_ENTRIES = 72,
  AT_COUNT = 80,
  AT_ENTRY_LEN = 84,
  AT_ENTRIES_CRC = 88,
  HEADER_LEN = 92
};
enum {  // entry, table 5-6
  ENTRY_TYPE = 0,
  ENTRY_UNIQUE = 16,
  ENTRY_FIRST = 32,
  ENTRY_LAST = 40,
  ENTRY_FLAGS = 48,
  ENTRY_NAME = 56,
  ENTRY_END = 128
};
enum { MBR_PART = 446, MBR_SIGNATURE = 510, MBR_END = 512 };
static_assert(ENTRY_END == GPT_ENTRY_LEN, "an entry is 128 bytes");
static_assert(AT_GUID + GPT_GUID_LEN == AT_ENTRIES, "GUID is 16 bytes");
static_assert(MBR_PART + 4 * 16 == MBR_SIGNATURE, "four partitions in an MBR");

#define SIGNATURE 0x5452415020494645ull  // "EFI PART"
#define REVISION 0x00010000u

const u8 gpt_type_bios_boot[GPT_GUID_LEN] = {'H', 'a', 'h', '!', 'I', 'd', 'o', 'n',
                                             't', 'N', 'e', 'e', 'd', 'E', 'F', 'I'};
const u8 gpt_type_esp[GPT_GUID_LEN] = {0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11,
                                       0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b};
// 7d1e1b5a-7cf0-4c3f-9a3e-75724d515454
const u8 gpt_type_urmqtt[GPT_GUID_LEN] = {0x5a, 0x1b, 0x1e, 0x7d, 0xf0, 0x7c, 0x3f, 0x4c,
                                          0x9a, 0x3e, 0x75, 0x72, 0x4d, 0x51, 0x54, 0x54};

u64 gpt_usable_first(u32 block_len) {
  return 2 + GPT_ENTRIES_LEN / block_len;
}
u64 gpt_usable_last(u32 block_len, u64 blocks) {
  return blocks - 2 - GPT_ENTRIES_LEN / block_len;
}

static bool block_len_good(u32 n) {
  return IS_POWER_OF_TWO(n) && n >= MBR_END && n <= GPT_BLOCK_MAX;
}

void gpt_put_entry(struct span entries, u32 idx, const u8 *type, const struct gpt_part *part,
                   const char *name) {
  ASSERT(entries.len == GPT_ENTRIES_LEN);
  ASSERT(idx < GPT_ENTRIES);
  ASSERT(part->first <= part->last);
  u8 *e = entries.ptr + (usize)idx * GPT_ENTRY_LEN;
  memset(e, 0, GPT_ENTRY_LEN);
  memcpy(e + ENTRY_TYPE, type, GPT_GUID_LEN);
  memcpy(e + ENTRY_UNIQUE, part->unique, GPT_GUID_LEN);
  store_le64(e + ENTRY_FIRST, part->first);
  store_le64(e + ENTRY_LAST, part->last);
  for (u32 i = 0; name[i] != 0; i++) {
    ASSERT(ENTRY_NAME + 2 * i + 4 <= ENTRY_END);
    store_le16(e + ENTRY_NAME + 2 * i, (u8)name[i]);
  }
}

static void put_header(const struct gpt *g, u8 *h, bool first, struct bytes entries) {
  u64 last = g->blocks - 1;
  u64 entry_blocks = GPT_ENTRIES_LEN / g->block_len;
  memset(h, 0, g->block_len);
  store_le64(h + AT_SIGNATURE, SIGNATURE);
  store_le32(h + AT_REVISION, REVISION);
  store_le32(h + AT_SIZE, HEADER_LEN);
  store_le64(h + AT_SELF, first ? 1 : last);
  store_le64(h + AT_OTHER, first ? last : 1);
  store_le64(h + AT_USABLE_FIRST, gpt_usable_first(g->block_len));
  store_le64(h + AT_USABLE_LAST, gpt_usable_last(g->block_len, g->blocks));
  memcpy(h + AT_GUID, g->guid, GPT_GUID_LEN);
  store_le64(h + AT_ENTRIES, first ? 2 : last - entry_blocks);
  store_le32(h + AT_COUNT, GPT_ENTRIES);
  store_le32(h + AT_ENTRY_LEN, GPT_ENTRY_LEN);
  store_le32(h + AT_ENTRIES_CRC, crc32(0, entries));
  store_le32(h + AT_CRC, crc32(0, bytes_of(h, HEADER_LEN)));
}

// The one partition of type 0xee over the whole disk, 5.2.3.
static void put_mbr(const struct gpt *g, u8 *mbr) {
  static const u8 part[8] = {0, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff};
  memset(mbr + MBR_PART, 0, MBR_SIGNATURE - MBR_PART);
  memcpy(mbr + MBR_PART, part, sizeof part);
  store_le32(mbr + MBR_PART + 8, 1);
  store_le32(mbr + MBR_PART + 12, (u32)MIN(g->blocks - 1, (u64)U32_MAX));
  store_le16(mbr + MBR_SIGNATURE, 0xaa55);
}

bool gpt_mbr_foreign(struct bytes area) {
  ASSERT(area.len >= MBR_END);
  bool used = false;
  bool protective = false;
  for (u32 i = 0; i < 4; i++) {
    u8 type = area.ptr[MBR_PART + 16 * i + 4];
    used = used || type != 0;
    protective = protective || type == 0xee;
  }
  return load_le16(area.ptr + MBR_SIGNATURE) == 0xaa55 && used && !protective;
}

void gpt_seal_first(const struct gpt *g, struct span area) {
  ASSERT(block_len_good(g->block_len));
  ASSERT(area.len == GPT_FIRST_LEN(g->block_len));
  u32 n = g->block_len;
  put_mbr(g, area.ptr);
  put_header(g, area.ptr + n, true, bytes_of(area.ptr + 2 * (usize)n, GPT_ENTRIES_LEN));
}

void gpt_seal_last(const struct gpt *g, struct span area) {
  ASSERT(block_len_good(g->block_len));
  ASSERT(area.len == GPT_LAST_LEN(g->block_len));
  put_header(g, area.ptr + GPT_ENTRIES_LEN, false, bytes_of(area.ptr, GPT_ENTRIES_LEN));
}

// The header at block `self`; gives the other copy's place.
static enum err read_header(const u8 *h, struct bytes entries, u64 self, u64 *other) {
  u8 copy[HEADER_LEN];
  if (load_le64(h + AT_SIGNATURE) != SIGNATURE) {
    return ERR_NOT_FOUND;
  }
  memcpy(copy, h, HEADER_LEN);
  store_le32(copy + AT_CRC, 0);
  if (load_le32(h + AT_SIZE) != HEADER_LEN || load_le32(h + AT_REVISION) >> 16 != 1) {
    return ERR_UNSUPPORTED;
  }
  if (crc32(0, bytes_of(copy, HEADER_LEN)) != load_le32(h + AT_CRC)) {
    return ERR_CORRUPT;
  }
  if (load_le32(h + AT_COUNT) != GPT_ENTRIES || load_le32(h + AT_ENTRY_LEN) != GPT_ENTRY_LEN) {
    return ERR_UNSUPPORTED;
  }
  *other = load_le64(h + AT_OTHER);
  if (crc32(0, entries) != load_le32(h + AT_ENTRIES_CRC)) {
    return ERR_CORRUPT;
  }
  return load_le64(h + AT_SELF) == self ? ERR_OK : ERR_MALFORMED;
}

static bool places_good(const u8 *h, const struct gpt *g, u64 entries_at) {
  return load_le64(h + AT_ENTRIES) == entries_at &&
         load_le64(h + AT_USABLE_FIRST) >= gpt_usable_first(g->block_len) &&
         load_le64(h + AT_USABLE_FIRST) <= load_le64(h + AT_USABLE_LAST) &&
         load_le64(h + AT_USABLE_LAST) <= gpt_usable_last(g->block_len, g->blocks);
}

static bool large_enough(u32 block_len, u64 blocks) {
  return block_len_good(block_len) && blocks > 2ull * gpt_usable_first(block_len) + 1;
}

enum err gpt_read_first(struct bytes area, u32 block_len, u64 device_blocks, struct gpt *g) {
  if (!large_enough(block_len, device_blocks) || area.len != GPT_FIRST_LEN(block_len)) {
    return ERR_UNSUPPORTED;
  }
  u64 other = 0;
  const u8 *h = area.ptr + block_len;
  struct bytes entries = bytes_sub(area, 2 * (usize)block_len, GPT_ENTRIES_LEN);
  TRY(read_header(h, entries, 1, &other));
  if (other >= device_blocks) {
    return ERR_RANGE;
  }
  *g = (struct gpt){.block_len = block_len, .blocks = other + 1};
  memcpy(g->guid, h + AT_GUID, GPT_GUID_LEN);
  bool good = large_enough(block_len, g->blocks) && places_good(h, g, 2);
  return good ? ERR_OK : ERR_MALFORMED;
}

enum err gpt_read_last(struct bytes area, u32 block_len, u64 device_blocks, struct gpt *g) {
  if (!large_enough(block_len, device_blocks) || area.len != GPT_LAST_LEN(block_len)) {
    return ERR_UNSUPPORTED;
  }
  u64 other = 0;
  u64 last = device_blocks - 1;
  const u8 *h = area.ptr + GPT_ENTRIES_LEN;
  TRY(read_header(h, bytes_sub(area, 0, GPT_ENTRIES_LEN), last, &other));
  *g = (struct gpt){.block_len = block_len, .blocks = device_blocks};
  memcpy(g->guid, h + AT_GUID, GPT_GUID_LEN);
  bool good = other == 1 && places_good(h, g, last - GPT_ENTRIES_LEN / block_len);
  return good ? ERR_OK : ERR_MALFORMED;
}

enum err gpt_find(const struct gpt *g, struct bytes entries, const u8 *type, struct gpt_part *out) {
  ASSERT(entries.len == GPT_ENTRIES_LEN);
  for (u32 i = 0; i < GPT_ENTRIES; i++) {
    const u8 *e = entries.ptr + (usize)i * GPT_ENTRY_LEN;
    if (memcmp(e + ENTRY_TYPE, type, GPT_GUID_LEN) != 0) {
      continue;
    }
    *out = (struct gpt_part){i, load_le64(e + ENTRY_FIRST), load_le64(e + ENTRY_LAST), {0}};
    memcpy(out->unique, e + ENTRY_UNIQUE, GPT_GUID_LEN);
    bool inside = out->first >= gpt_usable_first(g->block_len) && out->first <= out->last &&
                  out->last <= gpt_usable_last(g->block_len, g->blocks);
    return inside ? ERR_OK : ERR_MALFORMED;
  }
  return ERR_NOT_FOUND;
}

bool gpt_used_behind(struct bytes entries, const struct gpt_part *part) {
  static const u8 unused[GPT_GUID_LEN] = {0};
  bool used = false;
  ASSERT(entries.len == GPT_ENTRIES_LEN);
  for (u32 i = 0; i < GPT_ENTRIES; i++) {
    const u8 *e = entries.ptr + (usize)i * GPT_ENTRY_LEN;
    bool other = i != part->idx && memcmp(e + ENTRY_TYPE, unused, GPT_GUID_LEN) != 0;
    used = used || (other && load_le64(e + ENTRY_LAST) > part->last);
  }
  return used;
}

void gpt_put_last(struct span entries, const struct gpt_part *part, u64 last) {
  ASSERT(entries.len == GPT_ENTRIES_LEN);
  ASSERT(part->idx < GPT_ENTRIES);
  ASSERT(last >= part->last);  // never shrinks
  store_le64(entries.ptr + (usize)part->idx * GPT_ENTRY_LEN + ENTRY_LAST, last);
}
