// SPDX-License-Identifier: Apache-2.0
// ACPI's static tables (ACPI 6.4, 5.2): RSDP, XSDT or RSDT, FADT, MADT, MCFG, HPET. Firmware's
// bytes are validated: lengths and checksums; a table that fails is left out. No AML is run. The
// one thing AML would be needed for, the value that means "power off" (\_S5), is looked for as
// bytes in the DSDT, and is 0 when not found, which is right on QEMU.
#include "plat/metal/parts.h"

#define HEADER_LEN 36u
#define TABLE_MAX (1u << 20)
#define TABLES_MAX 64u

struct acpi metal_acpi;

static bool sum_is_zero(const u8 *p, usize len) {
  u8 sum = 0;
  for (usize i = 0; i < len; i++) {
    sum = (u8)(sum + p[i]);
  }
  return sum == 0;
}

// The whole table, checked; empty when it is not there or not sound.
static struct bytes table_map(u64 phys) {
  const u8 *head = phys == 0 ? NULL : metal_map_ro(phys, HEADER_LEN);
  if (head == NULL) {
    return bytes_of(NULL, 0);
  }
  u32 len = load_le32(head + 4);
  if (len < HEADER_LEN || len > TABLE_MAX) {
    return bytes_of(NULL, 0);
  }
  const u8 *p = metal_map_ro(phys, len);
  if (p == NULL || !sum_is_zero(p, len)) {
    return bytes_of(NULL, 0);
  }
  return bytes_of(p, len);
}

// \_S5 as compilers write it: Name, Package, one or two byte-encoded integers.
static void find_s5(struct acpi *a, u64 dsdt_phys) {
  struct bytes t = table_map(dsdt_phys);
  for (usize i = HEADER_LEN; i + 16 < t.len; i++) {
    const u8 *p = t.ptr + i;
    if (memcmp(p, "_S5_\x12", 5) != 0) {
      continue;
    }
    usize at = 5 + (usize)(p[5] >> 6) + 1 + 1;  // package length's bytes, element count
    u8 value[2] = {0, 0};
    for (u32 k = 0; k < 2 && i + at + 2 < t.len; k++) {
      if (p[at] == 0x0a) {
        at++;
      }
      value[k] = p[at] & 7;  // ZeroOp and OneOp are their own values
      at++;
    }
    a->sleep_type_a = value[0];
    a->sleep_type_b = value[1];
    return;
  }
}

static void read_fadt(struct acpi *a, struct bytes t) {
  if (t.len < 116) {
    return;
  }
  const u8 *p = t.ptr;
  a->pm1a_control = (u16)load_le32(p + 64);
  a->pm1b_control = (u16)load_le32(p + 68);
  a->pm_timer_port = p[91] == 4 ? (u16)load_le32(p + 76) : 0;
  a->century_reg = p[108] & 0x7f;
  u32 flags = load_le32(p + 112);
  a->pm_timer_32 = (flags >> 8 & 1) != 0;
  u64 dsdt = load_le32(p + 40);
  if (t.len >= 129 && (flags >> 10 & 1) != 0 && p[116] <= 1) {
    a->reset_in_io = p[116] == 1;
    a->reset_address = load_le64(p + 120);
    a->reset_value = p[128];
  }
  if (t.len >= 148 && load_le64(p + 140) != 0) {
    dsdt = load_le64(p + 140);
  }
  find_s5(a, dsdt);
}

static void read_madt(struct acpi *a, struct bytes t) {
  u32 cpus = 0;
  for (usize at = 44; at + 2 <= t.len;) {
    const u8 *p = t.ptr + at;
    usize len = p[1];
    if (len < 2 || len > t.len - at) {
      break;
    }
    if (p[0] == 0 && len >= 8) {
      cpus += load_le32(p + 4) & 1;
    } else if (p[0] == 9 && len >= 16) {
      cpus += load_le32(p + 8) & 1;
    } else if (p[0] == 1 && len >= 12 && a->ioapic_phys == 0) {
      a->ioapic_phys = load_le32(p + 4);
      a->ioapic_gsi_base = load_le32(p + 8);
    } else if (p[0] == 2 && len >= 10 && p[3] < 16) {
      u16 flags = load_le16(p + 8);
      a->isa[p[3]] = (struct acpi_line){load_le32(p + 4), (flags & 3) == 3, (flags >> 2 & 3) == 3};
    }
    at += len;
  }
  a->cpu_count = MAX(cpus, 1u);
}

static void read_mcfg(struct acpi *a, struct bytes t) {
  for (usize at = 44; at + 16 <= t.len && a->ecam_count < ARRAY_COUNT(a->ecam); at += 16) {
    const u8 *p = t.ptr + at;
    if (p[10] <= p[11]) {
      a->ecam[a->ecam_count++] = (struct metal_ecam){load_le64(p), load_le16(p + 8), p[10], p[11]};
    }
  }
}

static void read_table(struct acpi *a, u64 phys) {
  struct bytes t = table_map(phys);
  if (t.len == 0) {
    return;
  }
  if (memcmp(t.ptr, "FACP", 4) == 0) {
    read_fadt(a, t);
  } else if (memcmp(t.ptr, "APIC", 4) == 0) {
    read_madt(a, t);
  } else if (memcmp(t.ptr, "MCFG", 4) == 0) {
    read_mcfg(a, t);
  } else if (memcmp(t.ptr, "HPET", 4) == 0 && t.len >= 52) {
    a->hpet_phys = load_le64(t.ptr + 44);
  }
}

void acpi_read(const struct boot_info *info) {
  struct acpi *a = &metal_acpi;
  ASSERT(!a->found);
  a->cpu_count = 1;
  for (u32 i = 0; i < 16; i++) {
    a->isa[i].gsi = i;
  }
  const u8 *rsdp = info->rsdp;
  if (info->rsdp_len < 20 || memcmp(rsdp, "RSD PTR ", 8) != 0 || !sum_is_zero(rsdp, 20)) {
    return;
  }
  bool wide = info->rsdp_len >= 36 && rsdp[15] >= 2 && load_le64(rsdp + 24) != 0;
  struct bytes root = table_map(wide ? load_le64(rsdp + 24) : load_le32(rsdp + 16));
  usize step = wide ? 8 : 4;
  u32 count = 0;
  for (usize at = HEADER_LEN; at + step <= root.len && count < TABLES_MAX; at += step) {
    read_table(a, wide ? load_le64(root.ptr + at) : load_le32(root.ptr + at));
    count++;
  }
  a->found = count > 0;
}

u32 metal_ecam(struct metal_ecam *out, u32 max) {
  u32 n = MIN(max, metal_acpi.ecam_count);
  memcpy(out, metal_acpi.ecam, n * sizeof *out);
  return n;
}

void acpi_describe(struct writer *w) {
  const struct acpi *a = &metal_acpi;
  if (!a->found) {
    write_str(w, "acpi: no tables found\n");
    return;
  }
  fmt(w, "acpi: %u processors, PM timer %s, reset register %s, S5 value %u\n", a->cpu_count,
      a->pm_timer_port != 0 ? "yes" : "no", a->reset_address != 0 ? "yes" : "no", a->sleep_type_a);
  for (u32 i = 0; i < a->ecam_count; i++) {
    fmt(w, "acpi: PCI configuration by memory, segment %u, buses %u to %u\n", a->ecam[i].segment,
        a->ecam[i].bus_first, a->ecam[i].bus_last);
  }
}
