// SPDX-License-Identifier: Apache-2.0
// The EFI stub: asks the firmware for everything it knows, then tells it to leave
// (UEFI 2.10 7.4.6).
//
// I1  Nothing here follows a pointer in our own static data: the image is not relocated yet.
//     Identifiers are made on the stack.
// I2  Between the last memory map and the end of boot services nothing is asked for.
// I3  The firmware's stack and page tables lie in memory that is reported as usable; both are left
//     before anybody takes memory (boot_enter).
#include "boot/aarch64/efi.h"

#include "boot/aarch64/loaders.h"

#define MAP_LEN 65536u
#define EXIT_TRIES 4u
#define SEED_LEN 32u
#define TABLES_MAX 256u
#define PAGE 4096ull
#define RSDP_LEN 36u
#define PIXELS_BY_MASK 2u
#define PIXELS_NONE 3u

static u8 map[MAP_LEN] ALIGNED(8);

// The eight last bytes are given in the order in which they are printed.
static struct efi_guid guid(u32 a, u16 b, u16 c, u64 d) {
  struct efi_guid g = {a, b, c, {0}};
  store_be64(g.d, d);
  return g;
}

static bool same(const struct efi_guid *x, struct efi_guid y) {
  return memcmp(x, &y, sizeof y) == 0;
}

// Options are UTF-16, not always terminated: " --", a zero or anything outside ASCII ends them.
static NO_CFI void read_options(struct boot_info *info, struct efi_boot_services *boot,
                                void *image) {
  struct efi_guid id = guid(0x5b1b31a1, 0x9562, 0x11d2, 0x8e3f00a0c969723bull);
  struct efi_loaded_image *self = NULL;
  if (boot->handle_protocol(image, &id, (void **)&self) != EFI_OK || self->options == NULL) {
    return;
  }
  u32 n = 0;
  u32 count = MIN(self->options_len / 2, BOOT_TEXT_MAX - 1);
  for (; n < count && self->options[n] >= 32 && self->options[n] < 127; n++) {
    info->command_line[n] = (char)self->options[n];
    if (n >= 2 && memcmp(info->command_line + n - 2, " --", 3) == 0) {
      n -= 2;
      break;
    }
  }
  info->command_line[n] = 0;
}

static NO_CFI void read_screen(struct boot_info *info, struct efi_boot_services *boot) {
  struct efi_guid id = guid(0x9042a9de, 0x23dc, 0x4a38, 0x96fb7aded080516aull);
  struct efi_graphics *g = NULL;
  if (boot->locate_protocol(&id, NULL, (void **)&g) != EFI_OK || g->now == NULL ||
      g->now->info == NULL || g->now->info->format >= PIXELS_NONE || g->now->framebuffer == 0) {
    return;
  }
  const struct efi_graphics_mode *m = g->now->info;
  bool masks = m->format == PIXELS_BY_MASK && m->red != 0 && m->green != 0 && m->blue != 0;
  info->screen = (struct boot_framebuffer){.phys = g->now->framebuffer,
                                           .pitch = m->pixels_per_line * 4,
                                           .width = m->width,
                                           .height = m->height,
                                           .bits_per_pixel = 32,
                                           .red_shift = masks            ? (u8)__builtin_ctz(m->red)
                                                        : m->format == 0 ? 0
                                                                         : 16,
                                           .green_shift = masks ? (u8)__builtin_ctz(m->green) : 8,
                                           .blue_shift = masks ? (u8)__builtin_ctz(m->blue)
                                                         : m->format == 0 ? 16
                                                                          : 0};
}

static NO_CFI void read_random(struct boot_info *info, struct efi_boot_services *boot) {
  struct efi_guid id = guid(0x3152bca5, 0xeade, 0x433d, 0x862ec01cdc291f44ull);
  struct efi_random *r = NULL;
  u8 seed[SEED_LEN];
  if (boot->locate_protocol(&id, NULL, (void **)&r) == EFI_OK &&
      r->get(r, NULL, sizeof seed, seed) == EFI_OK) {
    boot_absorb(bytes_of(seed, sizeof seed));
    info->seed_good = true;
  }
}

static NO_CFI void read_time(struct boot_info *info, struct efi_runtime_services *runtime) {
  struct efi_time t;
  if (runtime->get_time(&t, NULL) == EFI_OK) {
    info->date = (struct boot_date){t.year, t.month, t.day, t.hour, t.minute, t.second, t.zone};
  }
}

// The bundle of configuration, as Linux's loaders hand over an initial RAM disk since 5.8: a
// LoadFile2 protocol behind a vendor media path.
static NO_CFI void read_initrd(struct boot_info *info, struct efi_boot_services *boot) {
  struct efi_guid load_file2 = guid(0x4006c0c1, 0xfcb3, 0x403e, 0x996d4a6c8724e06dull);
  struct efi_guid media = guid(0x5568e427, 0x68fc, 0x4f3d, 0xac74ca555231cc68ull);
  u8 path[24] = {4, 3, 20, 0};
  memcpy(path + 4, &media, sizeof media);
  path[20] = 0x7f;
  path[21] = 0xff;
  path[22] = 4;
  void *at = path;
  void *handle = NULL;
  struct efi_load_file2 *file = NULL;
  u64 len = 0;
  u64 phys = 0;
  if (boot->locate_device_path(&load_file2, &at, &handle) != EFI_OK ||
      boot->handle_protocol(handle, &load_file2, (void **)&file) != EFI_OK ||
      file->load(file, at, false, &len, NULL) != EFI_BUFFER_TOO_SMALL || len == 0 ||
      boot->allocate_pages(EFI_ALLOCATE_ANY, EFI_LOADER_DATA, (len + PAGE - 1) / PAGE, &phys) !=
          EFI_OK) {
    return;
  }
  if (file->load(file, at, false, &len, boot_at(phys)) == EFI_OK) {
    boot_add_module(info, phys, len, "initrd");
  }
}

static void read_tables(struct boot_info *info, const struct efi_system_table *system) {
  struct efi_guid acpi = guid(0x8868e871, 0xe4f1, 0x11d3, 0xbc220080c73c8881ull);
  struct efi_guid tree = guid(0xb1b621d5, 0xf19c, 0x41a5, 0x830bd9152c69aae0ull);
  for (u64 i = 0; i < MIN(system->table_count, (u64)TABLES_MAX); i++) {
    const struct efi_table *t = &system->tables[i];
    if (same(&t->guid, acpi)) {
      boot_keep_rsdp(info, t->table, RSDP_LEN);
    } else if (same(&t->guid, tree)) {
      (void)boot_parse_tree(info, (u64)(uptr)t->table, false);
    }
  }
}

// Loader and boot services memory is free once they are gone (7.2, table 7.10).
static bool is_usable(const struct efi_memory *m) {
  return (m->type >= 1 && m->type <= 4) || m->type == 7;
}

static void read_map(struct boot_info *info, u64 len, u64 step) {
  u64 start = 0;
  u64 end = 0;
  for (u64 at = 0; at + step <= len && step >= sizeof(struct efi_memory); at += step) {
    const struct efi_memory *m = (const struct efi_memory *)(const void *)(map + at);
    if (!is_usable(m) || (m->attribute & EFI_MEMORY_WRITE_BACK) == 0) {
      continue;
    }
    if (m->phys != end) {  // neighbours become one: there are many small pieces
      boot_add_usable(info, start, end);
      start = m->phys;
    }
    end = m->phys + m->pages * PAGE;
  }
  boot_add_usable(info, start, end);
}

NO_CFI bool boot_parse_efi(struct boot_info *info, void *image, void *system_table) {
  struct efi_system_table *system = system_table;
  struct efi_boot_services *boot = system->boot;
  boot_copy_text(info->loader, sizeof info->loader, "EFI stub");
  read_options(info, boot, image);
  read_screen(info, boot);
  read_random(info, boot);
  read_time(info, system->runtime);
  read_initrd(info, boot);
  read_tables(info, system);
  for (u32 i = 0; i < EXIT_TRIES; i++) {
    u64 len = sizeof map;
    u64 key = 0;
    u64 step = 0;
    u32 version = 0;
    if (boot->get_memory_map(&len, map, &key, &step, &version) != EFI_OK) {
      return false;
    }
    if (boot->exit_boot_services(image, key) == EFI_OK) {
      read_map(info, len, step);
      boot_sort(info);
      if (info->device_tree != 0) {
        boot_remove(info, info->device_tree, info->device_tree + info->device_tree_len);
      }
      return true;
    }
  }
  return false;
}
