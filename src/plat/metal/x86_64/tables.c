// SPDX-License-Identifier: Apache-2.0
// What a PC's ACPI tables say: FADT (power, PM timer, reset), MADT (processors, I/O APIC, ISA
// lines). No AML is run. The one thing AML would be needed for, the value that means "power off"
// (\_S5), is looked for as bytes in the DSDT, and is 0 when not found, which is right on QEMU.
#include "plat/metal/acpi.h"
#include "plat/metal/machine.h"
#include "plat/metal/x86_64/pc.h"

#define FADT_BUTTON_BY_AML (1u << 4)
#define FADT_REDUCED (1u << 20)  // no fixed hardware: what stands in its fields means nothing

struct pc metal_pc;

// \_S5 as compilers write it: Name, Package, one or two byte-encoded integers.
static void find_s5(struct pc *a, u64 dsdt_phys) {
  struct bytes t = acpi_table_at(dsdt_phys);
  for (usize i = ACPI_HEADER_LEN; i + 8 <= t.len; i++) {
    const u8 *p = t.ptr + i;
    if (memcmp(p, "_S5_\x12", 5) != 0) {
      continue;
    }
    usize at = 5 + (usize)(p[5] >> 6) + 1 + 1;  // package length's bytes, element count
    u8 value[2] = {0, 0};
    for (u32 k = 0; k < 2 && i + at + 2 <= t.len; k++) {
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

static void read_fadt(struct pc *a, struct bytes t) {
  if (t.len < 116) {
    return;  // no table has no bytes
  }
  const u8 *p = t.ptr;
  a->pm1a_control = (u16)load_le32(p + 64);
  a->pm1b_control = (u16)load_le32(p + 68);
  a->sci = load_le16(p + 46);
  a->smi_command = (u16)load_le32(p + 48);
  a->acpi_enable = p[52];
  a->pm1_event[0] = (u16)load_le32(p + 56);
  a->pm1_event[1] = (u16)load_le32(p + 60);
  a->pm1_event_len = p[88];
  a->gpe[0] = (u16)load_le32(p + 80);
  a->gpe[1] = (u16)load_le32(p + 84);
  a->gpe_len[0] = p[92];
  a->gpe_len[1] = p[93];
  a->pm_timer_port = p[91] == 4 ? (u16)load_le32(p + 76) : 0;
  a->century_reg = p[108] & 0x7f;
  u32 flags = load_le32(p + 112);
  a->pm_timer_32 = (flags >> 8 & 1) != 0;
  a->power_button = (flags & FADT_BUTTON_BY_AML) == 0 && a->pm1_event[0] != 0 && p[88] >= 4;
  u64 dsdt = load_le32(p + 40);
  if (t.len >= 129 && (flags >> 10 & 1) != 0 && p[116] <= 1) {
    a->reset_in_io = p[116] == 1;
    a->reset_address = load_le64(p + 120);
    a->reset_value = p[128];
  }
  if (t.len >= 148 && load_le64(p + 140) != 0) {
    dsdt = load_le64(p + 140);
  }
  if (t.len >= 256 && (flags & FADT_REDUCED) != 0 && p[244] <= 1) {
    a->sleep_in_io = p[244] == 1;
    a->sleep_register = load_le64(p + 248);
    a->pm1a_control = a->pm1b_control = 0;
    a->power_button = false;
  }
  find_s5(a, dsdt);
}

// A processor that is there; one listed as only "may be enabled later" (bit 1) is not.
static void add_cpu(struct pc *a, u32 *count, u32 id, u32 flags) {
  if ((flags & 1) == 0) {
    return;
  }
  for (u32 i = 0; i < MIN(*count, PC_CPUS_MAX); i++) {
    if (a->cpu_id[i] == id) {
      return;  // listed as an APIC and as an x2APIC
    }
  }
  if (*count < PC_CPUS_MAX) {
    a->cpu_id[*count] = id;
  }
  *count += 1;
}

static void read_madt(struct pc *a, struct bytes t) {
  u32 cpus = 0;
  for (usize at = 44; at + 2 <= t.len;) {
    const u8 *p = t.ptr + at;
    usize len = p[1];
    if (len < 2 || len > t.len - at) {
      break;
    }
    if (p[0] == 0 && len >= 8) {
      add_cpu(a, &cpus, p[3], load_le32(p + 4));
    } else if (p[0] == 9 && len >= 16) {
      add_cpu(a, &cpus, load_le32(p + 4), load_le32(p + 8));
    } else if (p[0] == 1 && len >= 12 && a->ioapic_phys == 0) {
      a->ioapic_phys = load_le32(p + 4);
      a->ioapic_gsi_base = load_le32(p + 8);
    } else if (p[0] == 2 && len >= 10 && p[3] < 16) {
      u16 flags = load_le16(p + 8);
      a->isa[p[3]] = (struct pc_line){load_le32(p + 4), (flags & 3) == 3, (flags >> 2 & 3) == 3};
    }
    at += len;
  }
  a->cpu_count = MAX(cpus, 1u);
}

void machine_tables_read(const struct boot_info *info) {
  struct pc *a = &metal_pc;
  ASSERT(a->cpu_count == 0);
  a->cpu_count = 1;
  for (u32 i = 0; i < 16; i++) {
    a->isa[i].gsi = i;
  }
  acpi_read(info);
  read_fadt(a, acpi_table("FACP"));
  read_madt(a, acpi_table("APIC"));
}

void machine_tables_facts(struct json_out *o) {
  const struct pc *a = &metal_pc;
  json_key(o, "firmware");
  json_open(o, '{');
  json_field_string(o, "tables", bytes_str(acpi_table_count() != 0 ? "ACPI" : "none"));
  json_field_int(o, "processors", MAX(a->cpu_count, 1u));
  json_field_bool(o, "pm_timer", a->pm_timer_port != 0);
  json_field_bool(o, "reset_register", a->reset_address != 0);
  json_field_bool(o, "power_button", a->power_button);
  acpi_facts(o);
  json_close(o, '}');
}

u32 metal_ecam(struct metal_ecam *out, u32 max) {
  return acpi_ecam(out, max);
}

bool metal_pci_windows(struct pci_windows *out) {
  (void)out;
  return false;  // the BIOS, or whoever stands in for it, has placed everything
}
