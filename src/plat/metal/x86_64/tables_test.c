// SPDX-License-Identifier: Apache-2.0
// Proves: firmware's tables are read as ACPI says, and nothing outside them whatever their lengths
// say; \_S5 is found to the DSDT's last byte; no fixed hardware is used where a machine has none.
// The including of the source gives the test its static functions; physical memory is an array.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "plat/metal/acpi.c"
#include "plat/metal/x86_64/tables.c"

#define PHYS 0x10000u  // where the array begins

static u8 memory[8192];
static u8 *exact[16];  // copies of what is mapped, of exact size: the sanitizer sees what is beyond
static u32 exact_count;

const void *metal_map_ro(u64 phys, u64 len) {
  if (phys < PHYS || phys - PHYS > sizeof memory || len > sizeof memory - (phys - PHYS)) {
    return NULL;
  }
  u8 *copy = malloc(len);
  assert_true(exact_count < ARRAY_COUNT(exact));
  exact[exact_count++] = copy;
  memcpy(copy, memory + (phys - PHYS), len);
  return copy;
}

static void put(u32 at, const void *p, usize len) {
  memcpy(memory + at, p, len);
}

static void finish(u32 at, const char *name, u32 len) {  // header and checksum
  put(at, name, 4);
  store_le32(memory + at + 4, len);
  memory[at + 9] = 0;
  u8 sum = 0;
  for (u32 i = 0; i < len; i++) {
    sum = (u8)(sum + memory[at + i]);
  }
  memory[at + 9] = (u8)(memory[at + 9] - sum);
}

static struct boot_info info;

static void make_root(u32 table) {
  memset(&info, 0, sizeof info);
  memset(&metal_pc, 0, sizeof metal_pc);
  table_count = 0;
  while (exact_count > 0) {
    free(exact[--exact_count]);
  }
  info.rsdp_len = 20;
  memcpy(info.rsdp, "RSD PTR ", 8);
  store_le32(info.rsdp + 16, PHYS);
  u8 sum = 0;
  for (u32 i = 0; i < 20; i++) {
    sum = (u8)(sum + info.rsdp[i]);
  }
  info.rsdp[8] = (u8)-sum;
  store_le32(memory + ACPI_HEADER_LEN, PHYS + table);
  finish(0, "RSDT", ACPI_HEADER_LEN + 4);
}

#define FADT 0x100u
#define DSDT 0x400u

static void make_fadt(u32 len, u32 flags) {
  memset(memory, 0, sizeof memory);
  u8 *p = memory + FADT;
  store_le32(p + 40, PHYS + DSDT);
  store_le16(p + 46, 9);
  store_le32(p + 48, 0xb2);
  p[52] = 2;
  store_le32(p + 56, 0x600);
  store_le32(p + 64, 0x604);
  store_le32(p + 76, 0x608);
  store_le32(p + 80, 0x620);
  p[88] = 4;
  p[91] = 4;
  p[92] = 16;
  store_le32(p + 112, flags);
  p[244] = 0;
  store_le64(p + 248, 0xfea00200);
  finish(FADT, "FACP", len);
}

static const u8 s5[] = {0x08, '_', 'S', '5', '_', 0x12, 8, 4, 0x0a, 5, 0x0a, 6, 0, 0};

// _S5 as the DSDT's last bytes, `cut` of them missing.
static void make_dsdt(u32 before, u32 cut) {
  put(DSDT + ACPI_HEADER_LEN + before, s5, sizeof s5);
  finish(DSDT, "DSDT", ACPI_HEADER_LEN + before + (u32)sizeof s5 - cut);
}

static void test_fixed_hardware(void **state) {
  (void)state;
  make_fadt(244, 1u << 8);
  make_dsdt(40, 0);
  make_root(FADT);
  machine_tables_read(&info);
  const struct pc *a = &metal_pc;
  assert_true(a->power_button && a->pm_timer_32);
  assert_int_equal(a->pm1_event[0], 0x600);
  assert_int_equal(a->pm1a_control, 0x604);
  assert_int_equal(a->gpe[0], 0x620);
  assert_int_equal(a->gpe_len[0], 16);
  assert_int_equal(a->sci, 9);
  assert_int_equal(a->sleep_type_a, 5);
  assert_int_equal(a->sleep_type_b, 6);
  assert_int_equal(a->sleep_register, 0);
}

static void test_no_fixed_hardware(void **state) {
  (void)state;
  make_fadt(268, FADT_REDUCED);
  make_dsdt(0, 0);
  make_root(FADT);
  machine_tables_read(&info);
  assert_false(metal_pc.power_button);
  assert_int_equal(metal_pc.pm1a_control, 0);
  assert_int_equal(metal_pc.sleep_register, 0xfea00200);
  assert_false(metal_pc.sleep_in_io);
  assert_int_equal(metal_pc.sleep_type_a, 5);
}

static void test_button_by_aml_only(void **state) {
  (void)state;
  make_fadt(244, FADT_BUTTON_BY_AML);
  make_root(FADT);
  machine_tables_read(&info);
  assert_false(metal_pc.power_button);
  assert_int_equal(metal_pc.pm1a_control, 0x604);
}

// The type is read wherever the package ends; a package cut off is never read past its table.
static void test_s5_at_the_end(void **state) {
  (void)state;
  for (u32 cut = 0; cut <= sizeof s5; cut++) {
    make_fadt(244, 0);
    make_dsdt(3, cut);
    make_root(FADT);
    machine_tables_read(&info);
    assert_int_equal(metal_pc.sleep_type_a, cut <= 4 ? 5 : 0);
    assert_int_equal(metal_pc.sleep_type_b, cut <= 2 ? 6 : 0);
  }
}

// Whatever length a table claims: either it is taken or it is not, nothing beyond it is touched.
static void test_every_length(void **state) {
  (void)state;
  for (u32 len = 0; len <= 300; len++) {
    make_fadt(MAX(len, 8u), FADT_REDUCED);
    make_dsdt(0, 0);
    make_root(FADT);
    machine_tables_read(&info);
    assert_int_equal(metal_pc.sci, len >= 116 ? 9 : 0);
    assert_int_equal(metal_pc.sleep_register != 0, len >= 256);
  }
  make_fadt(244, 0);
  memory[FADT + 60]++;  // the checksum no longer fits
  make_root(FADT);
  machine_tables_read(&info);
  assert_int_equal(metal_pc.sci, 0);
}

static void test_madt(void **state) {
  (void)state;
  static const u8 entries[] = {0, 8, 0, 0,    1,    0, 0, 0, 0, 8, 1,  1, 0, 0, 0, 0, 1, 12,   0,
                               0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0, 2, 10, 0, 9, 9, 0, 0, 0, 0x0d, 0};
  for (u32 len = 0; len <= sizeof entries; len++) {
    memset(memory, 0, sizeof memory);
    put(FADT + 44, entries, sizeof entries);
    finish(FADT, "APIC", 44 + len);
    make_root(FADT);
    machine_tables_read(&info);
    assert_int_equal(metal_pc.ioapic_phys, len >= 28 ? 0xfec00000u : 0);
    assert_int_equal(metal_pc.isa[9].level, len == sizeof entries);
  }
  assert_false(metal_pc.isa[9].low_active);
  assert_int_equal(metal_pc.cpu_count, 1);
}

// Type 0 and 9 entries: what is enabled counts once, what may be enabled later does not.
static void test_processors(void **state) {
  (void)state;
  static const struct {
    u8 type;
    u32 id, flags;
  } cpus[] = {{0, 0, 1}, {0, 7, 1}, {0, 9, 0}, {0, 10, 2}, {9, 7, 1}, {9, 300, 1}, {9, 301, 2}};
  memset(memory, 0, sizeof memory);
  u32 at = FADT + 44;
  for (u32 i = 0; i < ARRAY_COUNT(cpus); i++) {
    u8 *p = memory + at;
    p[0] = cpus[i].type;
    p[1] = cpus[i].type == 0 ? 8 : 16;
    if (cpus[i].type == 0) {
      p[3] = (u8)cpus[i].id;
      store_le32(p + 4, cpus[i].flags);
    } else {
      store_le32(p + 4, cpus[i].id);
      store_le32(p + 8, cpus[i].flags);
    }
    at += p[1];
  }
  finish(FADT, "APIC", at - FADT);
  make_root(FADT);
  machine_tables_read(&info);
  assert_int_equal(metal_pc.cpu_count, 3);
  assert_int_equal(metal_pc.cpu_id[0], 0);
  assert_int_equal(metal_pc.cpu_id[1], 7);
  assert_int_equal(metal_pc.cpu_id[2], 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fixed_hardware),     cmocka_unit_test(test_no_fixed_hardware),
      cmocka_unit_test(test_button_by_aml_only), cmocka_unit_test(test_s5_at_the_end),
      cmocka_unit_test(test_every_length),       cmocka_unit_test(test_madt),
      cmocka_unit_test(test_processors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
