// SPDX-License-Identifier: Apache-2.0
// U1  Nothing is written before the name of the disk was typed, and typed again when anything is on
//     it; unattended, before its serial number was found to be the one that the configuration
//     names, letter by letter, on one disk only.
// U2  Whatever is refused is said with the reason, and that nothing was written.
#include "admin/setup.h"

#include "admin/command_line.h"
#include "admin/disk_look.h"
#include "admin/serve.h"
#include "admin/slot.h"
#include "admin/source.h"
#include "tls/digest.h"

#define KEY_NS 50000000ull
#define STEP_NS 10000000ull
#define SILENT_NS 300000000000ull
#define LINE_MAX 80u
#define BUNDLES_MAX 40u

static struct {
  struct install_image image;
  struct span memory;  // INSTALL_MEMORY
  struct span slot;    // the configuration, as a slot
  struct bytes config;
  char config_name[96];
} setup;

NORETURN static void stop(void) {
  say("Stopped.");
  plat_end(END_STOP);
}

// --- What is handed over by the loader

static enum err find_image(void) {
  struct plat_bundle found[BUNDLES_MAX];
  u32 count = plat_bundles(found, BUNDLES_MAX);
  enum err e = ERR_NOT_FOUND;
  for (u32 i = 0; i < count && e != ERR_OK; i++) {
    enum err got = install_image_read(found[i].tar, tls_sha256, &setup.image);
    e = got == ERR_OK || (got != ERR_UNSUPPORTED && got != ERR_SHORT) ? got : e;
  }
  return e;
}

// False: said why.
static bool prepare(struct carve *carve) {
  enum err e = find_image();
  setup.memory =
      setup.memory.ptr != NULL ? setup.memory : carve_take(carve, INSTALL_MEMORY, PLAT_PAGE);
  setup.slot = carve_take(carve, SLOT_SIZE, PLAT_PAGE);
  if (setup.slot.ptr == NULL || setup.memory.ptr == NULL) {
    say("This machine has too little memory to install: give it 64 MiB or more.");
    return false;
  }
  if (e != ERR_OK) {
    say("The files to install %s. Start from the urMQTT medium.",
        e == ERR_NOT_FOUND ? "were not handed over" : "are damaged");
  }
  return e == ERR_OK;
}

static void take_config(struct bytes tar, const char *name) {
  if (slot_write(setup.slot, tar) == ERR_OK) {
    usize len = ALIGN_UP(SLOT_HEADER + tar.len, (usize)INSTALL_BLOCK);
    setup.config = bytes_of(setup.slot.ptr, len);
    fmt_z(setup.config_name, sizeof setup.config_name, "%s", name);
  } else {
    say("The configuration (%s) is too large for a disk and is left out.", name);
  }
}

// --- Disks

static void say_disk(const struct block_info *i, const struct disk_look *l) {
  char text[256];
  struct writer w = writer_init(span_of(text, sizeof text - 1));
  fmt(&w, "  %-10s %llu MiB", i->name, (unsigned long long)(i->len >> 20));
  if (i->model[0] != 0) {
    fmt(&w, ", %s", i->model);
  }
  if (i->serial[0] != 0) {
    fmt(&w, ", serial %s", i->serial);
  }
  fmt(&w, "%s: ", i->read_only ? ", read-only" : "");
  disk_look_describe(&w, l);
  text[w.pos] = 0;
  say("%s", text);
}

static u32 say_disks(void) {
  u32 n = 0;
  struct block *b = plat_disk(0);
  for (u32 k = 0; b != NULL; b = plat_disk(++k)) {
    struct block_info i;
    struct disk_look l;
    block_info(b, &i);
    if (disk_look_wanted(&i)) {
      disk_look(b, &setup.image, setup.memory, &l);
      say_disk(&i, &l);
      n++;
    }
  }
  return n;
}

static struct block *by_name(struct bytes name) {
  struct block *b = plat_disk(0);
  for (u32 k = 0; b != NULL; b = plat_disk(++k)) {
    struct block_info i;
    block_info(b, &i);
    if (disk_look_wanted(&i) && bytes_equal_str(name, i.name)) {
      return b;
    }
  }
  return NULL;
}

// --- Asking

// A line from serial port or keyboard, echoed. What is typed beyond LINE_MAX is dropped.
static struct bytes ask(const char *question) {
  static u8 line[LINE_MAX];
  u32 len = 0;
  plat_console(bytes_str(question));
  for (;;) {
    u8 c;
    if (plat_console_read(span_of(&c, 1)) == 0) {
      plat_idle(0, plat_now_ns() + KEY_NS);
    } else if (c == '\r' || c == '\n') {
      plat_console(BYTES_LIT("\n"));
      return bytes_of(line, len);
    } else if ((c == 8 || c == 127) && len > 0) {
      plat_console(BYTES_LIT("\b \b"));
      len--;
    } else if (c >= ' ' && c < 127 && len < LINE_MAX) {
      plat_console(bytes_of(&c, 1));
      line[len++] = c;
    }
  }
}

// --- Doing

static void turn_until_done(struct install *in) {
  u32 told = 0;
  u64 since = plat_now_ns();
  u64 before = 0;
  while (!install_turn(in, plat_now_ns())) {
    u32 percent = in->total > 0 ? (u32)(in->done * 100 / in->total) : 0;
    if (percent / 25 > told / 25) {
      say("  %u %%", percent);
      told = percent;
    }
    since = in->done != before ? plat_now_ns() : since;
    before = in->done;
    if (plat_now_ns() - since > SILENT_NS) {
      say("The disk does not answer any more. What is on it may be of no use: install again.");
      stop();
    }
    plat_idle(0, plat_now_ns() + STEP_NS);
  }
}

NORETURN static void finish(const struct install *in, const struct block_info *i) {
  if (in->end != INSTALL_DONE) {
    say("Not installed: %s.", install_end_text((enum install_end)in->end));
    stop();
  }
  say("Done: urMQTT %.*s is on %s, everything was read back. %s", (int)setup.image.version.len,
      (const char *)setup.image.version.ptr, i->name,
      in->upgrade ? "Configuration and data are as they were." : "");
  if (!in->upgrade && setup.config.len > 0) {
    say("Its configuration: %s.", setup.config_name);
  } else if (!in->upgrade) {
    say("It has no configuration yet: give the machine a volume labelled CIDATA or URMQTT.");
  }
  say("Remove the medium or change the order of starting. The machine is turned off.");
  plat_end(END_POWER_OFF);
}

NORETURN static void do_install(struct block *b) {
  static struct install in;
  u8 seed[DISK_SEED];
  struct block_info i;
  block_info(b, &i);
  (void)plat_random(span_of(seed, sizeof seed));
  say("Installing on %s ...", i.name);
  install_start(&in, b, &setup.image, tls_sha256, setup.memory, seed, setup.config);
  turn_until_done(&in);
  finish(&in, &i);
}

NORETURN static void do_upgrade(struct block *b) {
  static struct install in;
  struct block_info i;
  block_info(b, &i);
  say("Upgrading %s ...", i.name);
  install_upgrade_start(&in, b, &setup.image, tls_sha256, setup.memory);
  turn_until_done(&in);
  finish(&in, &i);
}

// What nobody may overwrite, here at least. False: said.
static bool may_write(const struct block_info *i, const struct disk_look *l) {
  if (i->read_only) {
    say("%s is read-only. Nothing was written.", i->name);
  } else if (l->verdict == DISK_NEWER || l->verdict == DISK_OURS_READ_ONLY) {
    say("%s: %s. Nothing was written.", i->name, disk_verdict_text((enum disk_verdict)l->verdict));
  } else {
    return true;
  }
  return false;
}

static bool harmless(const struct disk_look *l) {
  return (l->verdict == DISK_EMPTY && !l->content) || l->unfinished;
}

static void take_disk(struct block *b) {
  struct block_info i;
  struct disk_look l;
  block_info(b, &i);
  disk_look(b, &setup.image, setup.memory, &l);
  if (!may_write(&i, &l)) {
    return;
  }
  if (l.verdict == DISK_OURS && l.version[0] != 0) {
    say("urMQTT is on it. To replace the program and keep configuration and data, type: upgrade");
  }
  if (!harmless(&l)) {
    say("To install anew, type the name of the disk again: EVERYTHING ON IT WILL BE LOST.");
    struct bytes answer = ask("> ");
    if (l.verdict == DISK_OURS && l.version[0] != 0 && bytes_equal_str(answer, "upgrade")) {
      do_upgrade(b);
    }
    if (!bytes_equal_str(answer, i.name)) {
      say("Nothing was written.");
      return;
    }
  }
  do_install(b);
}

void setup_interactive(struct carve *carve) {
  struct source source;
  if (!command_line_has("install")) {
    return;
  }
  say("Installing urMQTT " URMQTT_VERSION " to a disk of this machine.");
  if (!prepare(carve)) {
    stop();
  }
  if (source_find(carve, &source)) {
    take_config(source.tar, source.name);
    say("Configuration: %s.", source.name);
  } else {
    say("No configuration is handed over; the installed machine will ask for one.");
  }
  for (;;) {
    say("Disks:");
    if (say_disks() == 0) {
      say("  none. Disks are found behind virtio-blk and virtio-scsi.");
      stop();
    }
    say("Type the name of the disk to install to, or nothing to stop.");
    struct bytes name = ask("> ");
    if (name.len == 0) {
      say("Nothing was written.");
      stop();
    }
    struct block *b = by_name(name);
    if (b == NULL) {
      say("There is no disk of that name.");
    } else {
      take_disk(b);
    }
  }
}

// --- Without a hand

static void install_auto(const struct config *c) {
  struct block *target = NULL;
  struct block_info i;
  struct disk_look l;
  u32 count = 0;
  struct block *b = plat_disk(0);
  for (u32 k = 0; b != NULL; b = plat_disk(++k)) {
    block_info(b, &i);
    if (disk_look_wanted(&i) && bytes_equal_str(c->install_serial, i.serial)) {
      target = b;
      count++;
    }
  }
  if (count != 1) {
    say("install auto: %s disk has the serial number \"%.*s\". Nothing was written. Disks:",
        count == 0 ? "no" : "more than one", (int)c->install_serial.len,
        (const char *)c->install_serial.ptr);
    (void)say_disks();
    stop();
  }
  block_info(target, &i);
  disk_look(target, &setup.image, setup.memory, &l);
  say("install auto:");
  say_disk(&i, &l);
  if (!may_write(&i, &l)) {
    stop();
  }
  if (!harmless(&l) && !c->install_force) {
    say("install auto: the disk is not empty. Nothing was written; `install auto %s force` would.",
        i.serial);
    stop();
  }
  do_install(target);
}

static void stop_beside_installed(bool have_image) {
  struct block *b = plat_disk(0);
  for (u32 k = 0; b != NULL; b = plat_disk(++k)) {
    struct block_info i;
    struct disk_look l;
    block_info(b, &i);
    if (!disk_look_wanted(&i)) {
      continue;
    }
    disk_look(b, have_image ? &setup.image : NULL, setup.memory, &l);
    if (l.verdict == DISK_OURS || l.verdict == DISK_OURS_READ_ONLY) {
      say("urMQTT is installed on this machine, and the machine was started from the medium:");
      say_disk(&i, &l);
      say("Remove the medium or change the order of starting. To run from memory beside it, choose "
          "\"live\" in the menu by hand.");
      stop();
    }
  }
}

void setup_started_from_medium(struct carve *carve, const struct config *config) {
  if (!command_line_has("medium=iso") || command_line_has("live") || plat_disk(0) == NULL) {
    return;
  }
  setup.memory = carve_take(carve, INSTALL_MEMORY, PLAT_PAGE);
  if (setup.memory.ptr != NULL) {
    stop_beside_installed(find_image() == ERR_OK);
  }
  if (config != NULL && config->install_serial.len > 0) {
    if (!prepare(carve)) {
      stop();
    }
    take_config(serve_tar(), serve_source_name());
    install_auto(config);
  }
}
