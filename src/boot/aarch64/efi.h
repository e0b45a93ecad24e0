// SPDX-License-Identifier: Apache-2.0
// The part of UEFI (specification 2.10) that the stub uses; fields it does not use are counted
// only.
#pragma once
#include "base/cc.h"

#define EFI_OK 0ull
#define EFI_BUFFER_TOO_SMALL (1ull << 63 | 5)
#define EFI_LOADER_DATA 2u
#define EFI_ALLOCATE_ANY 0u
#define EFI_MEMORY_WRITE_BACK 8ull

struct efi_guid {
  u32 a;
  u16 b;
  u16 c;
  u8 d[8];
};

struct efi_table_header {
  u64 signature;
  u32 revision;
  u32 header_size;
  u32 crc32;
  u32 reserved;
};

struct efi_time {  // 8.3
  u16 year;
  u8 month;
  u8 day;
  u8 hour;
  u8 minute;
  u8 second;
  u8 pad1;
  u32 nanosecond;
  i16 zone;
  u8 daylight;
  u8 pad2;
};

struct efi_memory {  // 7.2; entries stand further apart than this
  u32 type;
  u32 pad;
  u64 phys;
  u64 virt;
  u64 pages;
  u64 attribute;
};

struct efi_boot_services {  // 4.4
  struct efi_table_header header;
  void *raise_lower_tpl[2];
  u64 (*allocate_pages)(u32 how, u32 type, u64 pages, u64 *phys);
  void *free_pages;
  u64 (*get_memory_map)(u64 *len, void *map, u64 *key, u64 *step, u32 *version);
  void *pool[2];
  void *events[6];
  void *protocols[3];
  u64 (*handle_protocol)(void *handle, const struct efi_guid *guid, void **out);
  void *reserved;
  void *register_notify;
  void *locate_handle;
  u64 (*locate_device_path)(const struct efi_guid *guid, void **path, void **handle);
  void *install_table;
  void *images[4];
  u64 (*exit_boot_services)(void *image, u64 key);
  void *counters[2];
  u64 (*set_watchdog)(u64 seconds, u64 code, u64 len, void *data);
  void *drivers[2];
  void *protocol_use[3];
  void *handles[2];
  u64 (*locate_protocol)(const struct efi_guid *guid, void *registration, void **out);
};
static_assert(OFFSETOF(struct efi_boot_services, allocate_pages) == 40, "UEFI 2.10 4.4");
static_assert(OFFSETOF(struct efi_boot_services, get_memory_map) == 56, "UEFI 2.10 4.4");
static_assert(OFFSETOF(struct efi_boot_services, handle_protocol) == 152, "UEFI 2.10 4.4");
static_assert(OFFSETOF(struct efi_boot_services, locate_device_path) == 184, "UEFI 2.10 4.4");
static_assert(OFFSETOF(struct efi_boot_services, exit_boot_services) == 232, "UEFI 2.10 4.4");
static_assert(OFFSETOF(struct efi_boot_services, set_watchdog) == 256, "UEFI 2.10 4.4");
static_assert(OFFSETOF(struct efi_boot_services, locate_protocol) == 320, "UEFI 2.10 4.4");

struct efi_runtime_services {  // 4.5
  struct efi_table_header header;
  u64 (*get_time)(struct efi_time *out, void *capabilities);
};

struct efi_table {
  struct efi_guid guid;
  void *table;
};

struct efi_system_table {  // 4.3
  struct efi_table_header header;
  u16 *vendor;
  u32 revision;
  u32 pad;
  void *console[6];
  struct efi_runtime_services *runtime;
  struct efi_boot_services *boot;
  u64 table_count;
  struct efi_table *tables;
};
static_assert(OFFSETOF(struct efi_system_table, runtime) == 88, "UEFI 2.10 4.3");

struct efi_loaded_image {  // 9.1
  u32 revision;
  u32 pad;
  void *parent;
  void *system_table;
  void *device;
  void *path;
  void *reserved;
  u32 options_len;
  u32 pad2;
  const u16 *options;
};

struct efi_graphics_mode {  // 12.9
  u32 version;
  u32 width;
  u32 height;
  u32 format;  // 0 red first, 1 blue first, 2 by masks, 3 no framebuffer
  u32 red;
  u32 green;
  u32 blue;
  u32 reserved;
  u32 pixels_per_line;
};

struct efi_graphics {
  void *calls[3];
  struct {
    u32 max;
    u32 mode;
    const struct efi_graphics_mode *info;
    u64 info_len;
    u64 framebuffer;
    u64 framebuffer_len;
  } * now;
};

struct efi_random {  // 37.5
  void *get_info;
  u64 (*get)(struct efi_random *this, const struct efi_guid *algorithm, u64 len, u8 *out);
};

struct efi_load_file2 {  // 13.2
  u64 (*load)(struct efi_load_file2 *this, void *path, bool boot_policy, u64 *len, void *out);
};
