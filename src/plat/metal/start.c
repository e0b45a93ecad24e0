// SPDX-License-Identifier: Apache-2.0
// The kernel's start, on the final page tables: bring the parts up in the order in which they need
// each other, say what was found, run the program.
#include "arch/cpu.h"
#include "arch/paging.h"
#include "arch/trap.h"
#include "plat/metal/machine.h"
#include "plat/steer.h"

const struct boot_info *metal_boot;
static u8 first_local[CPU_LOCAL_LEN] ALIGNED(64);

const char *plat_command_line(void) {
  return metal_boot->command_line;
}

// Is `word` one of the command line's words?
bool metal_command_word(const char *word) {
  const char *p = metal_boot->command_line;
  usize len = strlen(word);
  while (*p != 0) {
    while (*p == ' ') {
      p++;
    }
    usize n = 0;
    while (p[n] != 0 && p[n] != ' ') {
      n++;
    }
    if (n == len && memcmp(p, word, len) == 0) {
      return true;
    }
    p += n;
  }
  return false;
}

u32 metal_command_number(const char *name, u32 otherwise) {
  usize len = strlen(name);
  for (const char *p = metal_boot->command_line; *p != 0; p++) {
    bool begins = p == metal_boot->command_line || p[-1] == ' ';
    if (!begins || strncmp(p, name, len) != 0) {
      continue;
    }
    u32 v = 0;
    for (p += len; *p >= '0' && *p <= '9' && v < 100000; p++) {
      v = v * 10 + (u32)(*p - '0');
    }
    return v == 0 ? otherwise : v;
  }
  return otherwise;
}

// Modules the loader brought: each is handed on as a bundle; what is in it is not judged here.
u32 plat_bundles(struct plat_bundle *out, u32 max) {
  u32 n = 0;
  for (u32 i = 0; i < metal_boot->module_count && n < max; i++) {
    const struct boot_module *m = &metal_boot->modules[i];
    const void *p = m->len == 0 ? "" : metal_map_ro(m->phys, m->len);
    if (p != NULL) {
      out[n++] = (struct plat_bundle){.name = m->name[0] != 0 ? m->name : "boot module",
                                      .tar = bytes_of(p, m->len)};
    }
  }
  return n;
}

static void describe(void) {
  static const char *const paths[] = {"PVH", "multiboot2, BIOS", "multiboot2, UEFI", "device tree",
                                      "UEFI"};
  static char text[4096];
  struct writer w = writer_init(span_of(text, sizeof text));
  fmt(&w, "urMQTT %s, build %s, started by %s (%s)\n", URMQTT_VERSION, URMQTT_BUILD_ID,
      metal_boot->loader, paths[metal_boot->path]);
  frames_describe(&w);
  clock_describe(&w);
  random_describe(&w);
  machine_interrupts_describe(&w);
  console_describe(&w);
  if (metal_boot->modules_lost != 0) {
    fmt(&w, "modules: %u more than %u were given and are left out\n", metal_boot->modules_lost,
        BOOT_MODULE_MAX);
  }
  plat_console(writer_bytes(&w));
}

void metal_start(const struct boot_info *info) {
  metal_boot = info;
  cpu_set_local(first_local);
  paging_drop_identity(info->layout.image_phys);
  trap_init();
  frames_init(info);
  machine_tables_read(info);
  console_init(info);
  frames_divide();
  machine_cpu_start();
  clock_init();
  machine_interrupts_start();
  random_init(info);
  describe();
  metal_cores_start();
  steer_init(plat_core_count(), metal_nic_lend());
  metal_pci_start();
  metal_nic_start();
  metal_disk_start();
  if (metal_command_word("selftest")) {
    selftest_main();
  }
  if (metal_command_word("disk-exercise-and-erase")) {
    selftest_disk_main();
  }
  urmqtt_main();
  plat_end(END_POWER_OFF);  // the button was pressed
}
