// SPDX-License-Identifier: Apache-2.0
// What this machine is, for diagnostics (docs/formats/diagnostics.md). Reads only what the start
// has found.
#include "plat/metal/machine.h"

static void put_hex(struct json_out *o, const char *key, u64 v) {
  char text[24];
  json_field_string(o, key, bytes_of(text, fmt_z(text, sizeof text, "0x%lx", v)));
}

static void put_memory(struct json_out *o) {
  json_key(o, "memory");
  json_open(o, '{');
  json_field_int(o, "ram_bytes", (i64)metal_boot->ram_bytes);
  json_field_int(o, "image_bytes", (i64)metal_boot->layout.image_len);
  json_key(o, "usable");
  json_open(o, '[');
  for (u32 i = 0; i < metal_boot->usable_count; i++) {
    const struct boot_range *r = &metal_boot->usable[i];
    json_open(o, '{');
    put_hex(o, "start", r->start);
    put_hex(o, "end", r->end);
    json_close(o, '}');
  }
  json_close(o, ']');
  json_close(o, '}');
}

static void put_start(struct json_out *o) {
  static const char *const paths[] = {"PVH", "multiboot2, BIOS", "multiboot2, UEFI", "device tree",
                                      "UEFI"};
  json_key(o, "start");
  json_open(o, '{');
  json_field_string(o, "path", bytes_str(paths[metal_boot->path]));
  json_field_string(o, "loader", bytes_str(metal_boot->loader));
  json_field_string(o, "command_line", bytes_str(metal_boot->command_line));
  json_field_int(o, "modules_left_out", metal_boot->modules_lost);
  json_key(o, "modules");
  json_open(o, '[');
  for (u32 i = 0; i < metal_boot->module_count; i++) {
    json_open(o, '{');
    json_field_string(o, "name", bytes_str(metal_boot->modules[i].name));
    json_field_int(o, "bytes", (i64)metal_boot->modules[i].len);
    json_close(o, '}');
  }
  json_close(o, ']');
  json_close(o, '}');
}

static void put_clock(struct json_out *o) {
  json_key(o, "clock");
  json_open(o, '{');
  json_field_string(o, "source", bytes_str(machine_clock_source()));
  json_field_int(o, "hz", (i64)machine_clock_hz());
  json_field_int(o, "battery_unix_s", (i64)machine_wall_battery_s());
  json_field_int(o, "host_unix_s", (i64)(machine_wall_host_ns() / 1000000000u));
  json_close(o, '}');
}

void plat_facts(struct json_out *o) {
  json_field_string(o, "platform", BYTES_LIT("metal"));
  json_field_string(o, "build", BYTES_LIT(URMQTT_BUILD_ID));
  put_start(o);
  machine_cpu_facts(o);
  put_memory(o);
  put_clock(o);
  machine_tables_facts(o);
  metal_pci_facts(o);
  json_key(o, "drivers");
  json_open(o, '[');
  metal_nic_facts(o);
  metal_disk_facts(o);
  json_close(o, ']');
}
