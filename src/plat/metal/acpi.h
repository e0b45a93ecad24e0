// SPDX-License-Identifier: Apache-2.0
// ACPI's static tables (ACPI 6.4, 5.2), as both families read them.
#pragma once
#include "plat/metal/parts.h"

#define ACPI_HEADER_LEN 36u

// Finds the tables by the RSDP that boot found. Once.
void acpi_read(const struct boot_info *info);
u32 acpi_table_count(void);
// The first table of that signature (4 characters), whole, its length and checksum right; empty
// when there is none.
struct bytes acpi_table(const char *signature);
// The table at a physical address (the DSDT hangs elsewhere); empty when unsound.
struct bytes acpi_table_at(u64 phys);
u32 acpi_ecam(struct metal_ecam *out, u32 max);  // MCFG
void acpi_facts(struct json_out *o);
