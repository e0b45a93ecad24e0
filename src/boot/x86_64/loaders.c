// SPDX-License-Identifier: Apache-2.0
// What the two loaders say, reduced to struct boot_info. The loader is trusted (it could replace
// the image), but lengths are still kept inside what it announced.
//
// multiboot2: specification 2.0, 3.6 (tags). PVH: Xen's hvm_start_info, version 1.
#include "boot/x86_64/loaders.h"

#define RAM_USABLE 1u

// The RSDP lies on a 16-byte boundary of the BIOS area (ACPI 6.4, 5.2.5.1).
static void find_rsdp(struct boot_info *info) {
  for (u64 at = 0xe0000; at < 0x100000; at += 16) {
    const u8 *p = boot_at(at);
    if (memcmp(p, "RSD PTR ", 8) == 0) {
      boot_keep_rsdp(info, p, p[15] >= 2 ? 36 : 20);
      return;
    }
  }
}

// --- multiboot2

enum {
  TAG_END = 0,
  TAG_COMMAND_LINE = 1,
  TAG_LOADER = 2,
  TAG_MODULE = 3,
  TAG_MEMORY_MAP = 6,
  TAG_FRAMEBUFFER = 8,
  TAG_EFI64 = 12,
  TAG_RSDP_OLD = 14,
  TAG_RSDP_NEW = 15,
};

static void mb2_memory(struct boot_info *info, const u8 *tag, u32 len) {
  u32 step = load_le32(tag + 8);
  for (u32 at = 16; step >= 24 && at + step <= len; at += step) {
    u64 start = load_le64(tag + at);
    if (load_le32(tag + at + 16) == RAM_USABLE) {
      boot_add_usable(info, start, start + load_le64(tag + at + 8));
    }
  }
}

static void mb2_framebuffer(struct boot_info *info, const u8 *tag, u32 len) {
  u8 bits = tag[28];
  u8 type = tag[29];
  if (len < 38 || type != 1 || (bits != 32 && bits != 24)) {
    return;  // indexed colour or a text mode
  }
  info->screen = (struct boot_framebuffer){.phys = load_le64(tag + 8),
                                           .pitch = load_le32(tag + 16),
                                           .width = load_le32(tag + 20),
                                           .height = load_le32(tag + 24),
                                           .bits_per_pixel = bits,
                                           .red_shift = tag[32],
                                           .green_shift = tag[34],
                                           .blue_shift = tag[36]};
}

static void mb2_tag(struct boot_info *info, const u8 *tag, u32 type, u32 len) {
  switch (type) {
  case TAG_COMMAND_LINE:
    boot_copy_text(info->command_line, sizeof info->command_line, (const char *)tag + 8);
    break;
  case TAG_LOADER: boot_copy_text(info->loader, sizeof info->loader, (const char *)tag + 8); break;
  case TAG_MODULE: {
    u32 start = load_le32(tag + 8);
    boot_add_module(info, start, load_le32(tag + 12) - (u64)start, (const char *)tag + 16);
    break;
  }
  case TAG_MEMORY_MAP: mb2_memory(info, tag, len); break;
  case TAG_FRAMEBUFFER: mb2_framebuffer(info, tag, len); break;
  case TAG_EFI64: info->path = BOOT_MULTIBOOT2_EFI; break;
  case TAG_RSDP_OLD:
    if (info->rsdp_len == 0) {
      boot_keep_rsdp(info, tag + 8, MIN(len - 8, 20u));
    }
    break;
  case TAG_RSDP_NEW: boot_keep_rsdp(info, tag + 8, len - 8); break;
  default: break;
  }
}

void boot_parse_multiboot2(struct boot_info *info, u64 phys) {
  const u8 *base = boot_at(phys);
  u32 total = load_le32(base);
  info->path = BOOT_MULTIBOOT2_BIOS;
  for (u32 at = 8; at + 8 <= total;) {
    u32 type = load_le32(base + at);
    u32 len = load_le32(base + at + 4);
    if (type == TAG_END || len < 8 || len > total - at) {
      break;
    }
    mb2_tag(info, base + at, type, len);
    at += ALIGN_UP(len, 8u);
  }
  if (info->rsdp_len == 0 && info->path == BOOT_MULTIBOOT2_BIOS) {
    find_rsdp(info);
  }
}

// --- PVH

struct pvh_start_info {
  u32 magic;
  u32 version;
  u32 flags;
  u32 module_count;
  u64 modules_phys;
  u64 command_line_phys;
  u64 rsdp_phys;
  u64 memory_map_phys;
  u32 memory_map_count;
  u32 reserved;
};
static_assert(sizeof(struct pvh_start_info) == 56, "hvm_start_info version 1");

struct pvh_module {
  u64 phys;
  u64 len;
  u64 command_line_phys;
  u64 reserved;
};

struct pvh_range {
  u64 start;
  u64 len;
  u32 type;
  u32 reserved;
};

void boot_parse_pvh(struct boot_info *info, u64 phys) {
  const struct pvh_start_info *p = boot_at(phys);
  info->path = BOOT_PVH;
  boot_copy_text(info->loader, sizeof info->loader, "PVH");
  if (p->command_line_phys != 0) {
    boot_copy_text(info->command_line, sizeof info->command_line, boot_at(p->command_line_phys));
  }
  const struct pvh_module *m = boot_at(p->modules_phys);
  for (u32 i = 0; i < p->module_count && p->modules_phys != 0; i++) {
    boot_add_module(info, m[i].phys, m[i].len,
                    m[i].command_line_phys != 0 ? boot_at(m[i].command_line_phys) : "");
  }
  const struct pvh_range *r = boot_at(p->memory_map_phys);
  for (u32 i = 0; p->version >= 1 && i < p->memory_map_count; i++) {
    if (r[i].type == RAM_USABLE) {
      boot_add_usable(info, r[i].start, r[i].start + r[i].len);
    }
  }
  if (p->rsdp_phys != 0) {
    const u8 *rsdp = boot_at(p->rsdp_phys);
    boot_keep_rsdp(info, rsdp, rsdp[15] >= 2 ? 36 : 20);
  } else {
    find_rsdp(info);
  }
}
