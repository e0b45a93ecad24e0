// SPDX-License-Identifier: Apache-2.0
// ACPI's static tables (ACPI 6.4, 5.2): RSDP, XSDT or RSDT, MCFG; each family reads the others
// itself. Firmware's bytes are validated: lengths and checksums; a table that fails is left out.
#include "plat/metal/acpi.h"

#define TABLE_MAX (1u << 20)
#define TABLES_MAX 64u

static struct bytes tables[TABLES_MAX];
static u32 table_count;

static bool sum_is_zero(const u8 *p, usize len) {
  u8 sum = 0;
  for (usize i = 0; i < len; i++) {
    sum = (u8)(sum + p[i]);
  }
  return sum == 0;
}

// The whole table, checked; empty when it is not there or not sound.
struct bytes acpi_table_at(u64 phys) {
  const u8 *head = phys == 0 ? NULL : metal_map_ro(phys, ACPI_HEADER_LEN);
  if (head == NULL) {
    return bytes_of(NULL, 0);
  }
  u32 len = load_le32(head + 4);
  if (len < ACPI_HEADER_LEN || len > TABLE_MAX) {
    return bytes_of(NULL, 0);
  }
  const u8 *p = metal_map_ro(phys, len);
  if (p == NULL || !sum_is_zero(p, len)) {
    return bytes_of(NULL, 0);
  }
  return bytes_of(p, len);
}

u32 acpi_table_count(void) {
  return table_count;
}

struct bytes acpi_table(const char *signature) {
  for (u32 i = 0; i < table_count; i++) {
    if (memcmp(tables[i].ptr, signature, 4) == 0) {
      return tables[i];
    }
  }
  return bytes_of(NULL, 0);
}

u32 acpi_ecam(struct metal_ecam *out, u32 max) {
  struct bytes t = acpi_table("MCFG");
  u32 n = 0;
  for (usize at = 44; at + 16 <= t.len && n < max; at += 16) {
    const u8 *p = t.ptr + at;
    if (p[10] <= p[11]) {
      out[n++] = (struct metal_ecam){load_le64(p), load_le16(p + 8), p[10], p[11]};
    }
  }
  return n;
}

void acpi_read(const struct boot_info *info) {
  ASSERT(table_count == 0);
  const u8 *rsdp = info->rsdp;
  if (info->rsdp_len < 20 || memcmp(rsdp, "RSD PTR ", 8) != 0 || !sum_is_zero(rsdp, 20)) {
    return;
  }
  bool wide = info->rsdp_len >= 36 && rsdp[15] >= 2 && load_le64(rsdp + 24) != 0;
  struct bytes root = acpi_table_at(wide ? load_le64(rsdp + 24) : load_le32(rsdp + 16));
  usize step = wide ? 8 : 4;
  for (usize at = ACPI_HEADER_LEN; at + step <= root.len && table_count < TABLES_MAX; at += step) {
    struct bytes t = acpi_table_at(wide ? load_le64(root.ptr + at) : load_le32(root.ptr + at));
    if (t.len != 0) {
      tables[table_count++] = t;
    }
  }
}

void acpi_facts(struct json_out *o) {
  struct metal_ecam ecam[4];
  u32 n = acpi_ecam(ecam, ARRAY_COUNT(ecam));
  json_key(o, "pci_segments");
  json_open(o, '[');
  for (u32 i = 0; i < n; i++) {
    json_put_int(o, ecam[i].segment);
  }
  json_close(o, ']');
}
