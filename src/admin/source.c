// SPDX-License-Identifier: Apache-2.0
// Chooses the configuration among what the platform found.
//
// I1  A source that is damaged is named and passed over as a whole: never half of it.
// I2  A volume without urmqtt.conf (a cloud's own CIDATA volume) is named and passed over.
// I3  What is not a slot (a folder made into an archive, an archive given to the loader) is the
//     archive itself; an empty slot is passed over in silence.
#include "admin/source.h"

#include "admin/command_line.h"
#include "admin/disk_look.h"
#include "admin/medium.h"
#include "admin/serve.h"
#include "admin/serve_store.h"
#include "admin/slot.h"
#include "base/fmt.h"
#include "tls/digest.h"

#define BUNDLES_MAX 40u
#define WAIT_STARTING_NS 60000000000ull  // above the drivers' own deadlines and resets
#define WAIT_SERVING_NS 1000000000ull

static bool has_conf(struct bytes tar) {
  struct bytes conf;
  return ustar_find(tar, BYTES_LIT("urmqtt.conf"), &conf) == ERR_OK;
}

static void name_it(struct source *out, const char *kind, struct bytes name) {
  struct writer w = writer_init(span_of(out->name, sizeof out->name - 1));
  fmt(&w, "%s", kind);
  fmt_escaped(&w, name);
  out->name[w.pos] = 0;
}

// A packed volume: taken, or said why not.
static bool judge(enum err e, struct source *out) {
  if (e == ERR_SPACE) {
    say("configuration: %s holds more than %u KiB and is not used", out->name,
        SOURCE_BUNDLE_MAX >> 10);
  } else if (e != ERR_OK) {
    say("configuration: %s is damaged (%s) and not used", out->name, err_name(e));
  } else if (!has_conf(out->tar)) {
    say("configuration: %s has no urmqtt.conf in its root folder and is not used", out->name);
  } else {
    return true;
  }
  return false;
}

// --- What the loader found

// Without the quotes that a loader puts around a name with spaces.
static struct bytes plain(const char *name) {
  struct bytes b = bytes_str(name);
  if (b.len >= 2 && b.ptr[0] == '"' && b.ptr[b.len - 1] == '"') {
    b = bytes_of(b.ptr + 1, b.len - 2);
  }
  return b;
}

// "(DEVICE)/NAME" → NAME; empty: it is not of that form.
static struct bytes file_name(struct bytes b) {
  if (b.len == 0 || b.ptr[0] != '(') {
    return bytes_of(NULL, 0);
  }
  for (usize i = 1; i + 1 < b.len; i++) {
    if (b.ptr[i] == ')' && b.ptr[i + 1] == '/') {
      return bytes_of(b.ptr + i + 2, b.len - i - 2);
    }
  }
  return bytes_of(NULL, 0);
}

static enum err pack(const struct plat_bundle *found, u32 count, struct span out,
                     struct bytes *tar) {
  u32 pos = 0;
  for (u32 i = 0; i < count; i++) {
    struct bytes name = plain(found[i].name);
    if (bytes_starts_with(name, bytes_str(SOURCE_UNREADABLE))) {
      return ERR_IO;
    }
    struct bytes file = file_name(name);
    struct span data;
    if (file.len == 0 || file.len >= USTAR_BLOCK / 8) {
      continue;  // not of the volume, or a name that no configuration uses
    }
    enum err e = ustar_add(out, &pos, file, (u32)found[i].tar.len, &data);
    if (e != ERR_OK) {
      return e;
    }
    memcpy(data.ptr, found[i].tar.ptr, data.len);
  }
  *tar = ustar_finish(out, pos);
  return ERR_OK;
}

static bool loader_volume(const struct plat_bundle *found, u32 count, struct span memory,
                          struct source *out) {
  for (u32 i = 0; i < count; i++) {
    struct bytes name = plain(found[i].name);
    if (bytes_starts_with(name, bytes_str(SOURCE_VOLUME))) {
      usize skip = sizeof SOURCE_VOLUME - 1;
      name_it(out, "the volume ", bytes_of(name.ptr + skip, name.len - skip));
      return judge(pack(found, count, memory, &out->tar), out);
    }
  }
  return false;
}

static bool slot_or_archive(const struct plat_bundle *found, u32 count, struct source *out) {
  for (u32 i = 0; i < count; i++) {
    struct bytes name = plain(found[i].name);
    if (file_name(name).len > 0 || bytes_starts_with(name, bytes_str(SOURCE_VOLUME)) ||
        bytes_starts_with(name, bytes_str(SOURCE_UNREADABLE))) {
      continue;
    }
    struct bytes tar = install_image_behind(found[i].tar);
    if (tar.len == 0 && found[i].tar.len > 0) {
      continue;  // the installer's files
    }
    name_it(out, "", name);
    out->tar = tar;
    out->bundle = found[i];
    out->again = found[i].release != NULL;
    enum err e = slot_payload(tar, &out->tar);
    if (e == ERR_OK || e == ERR_UNSUPPORTED) {
      return true;
    }
    if (e != ERR_NOT_FOUND) {
      say("configuration: %s is damaged (%s) and not used", out->name, err_name(e));
    }
  }
  return false;
}

// --- What stands on our own disks

static struct {
  struct span bundle[2];  // for packing: one in use, one for the next
  struct span window;
} memory;

// The area that the superblock names on the first disk of ours. Not while the store uses the disk:
// what was read at the start is what stands there.
static bool disk_area(struct span room, u64 wait_ns, struct source *out) {
  static struct medium medium;
  static struct disk d;
  struct block *b = plat_disk(0);
  for (u32 n = 0; b != NULL && memory.window.ptr != NULL; b = plat_disk(++n)) {
    struct block_info i;
    struct volume_medium v;
    u64 run = 0;
    block_info(b, &i);
    if (!disk_look_wanted(&i) || disk_look_open(&d, b, memory.window) > DISK_OURS_READ_ONLY) {
      continue;
    }
    u32 live = d.super.roots.config_live;
    if (live == 0 || !medium_open(&medium, b, memory.window, wait_ns, &v)) {
      return false;
    }
    u64 at = d.super.partition_at +
             extents_at(&d.super.extents, live == 1 ? ROLE_CONFIG_A : ROLE_CONFIG_B, 0, &run);
    struct span slot = span_of(room.ptr, (usize)MIN(run, (u64)room.len));
    name_it(out, "the disk ", bytes_str(i.name));
    enum err e = v.read(v.ctx, at, slot) ? slot_payload(span_bytes(slot), &out->tar) : ERR_IO;
    if (e == ERR_OK) {
      out->area = true;
      return true;
    }
    say("configuration: %s is damaged (%s) and not used", out->name, err_name(e));
    return false;
  }
  return false;
}

static bool disk_volume(struct span room, u64 wait_ns, struct source *out) {
  static struct medium medium;
  struct block *disk = plat_disk(0);
  for (u32 n = 0; disk != NULL && memory.window.ptr != NULL; disk = plat_disk(++n)) {
    struct volume_medium v;
    if (disk == serve_store_disk()) {
      continue;  // its completions are the store's
    }
    if (!medium_open(&medium, disk, memory.window, wait_ns, &v)) {
      continue;
    }
    enum err e = volume_bundle(&v, room, &out->tar);
    name_it(out, "the volume on disk ", bytes_str(medium.info.name));
    if (medium.failed) {  // the device may still write into the window: nobody reads there again
      memory.window = span_of(NULL, 0);
      say("configuration: disk %s does not answer; no disk is asked any more", medium.info.name);
      return false;
    }
    if (e != ERR_NOT_FOUND && judge(e, out)) {
      out->again = true;
      return true;
    }
  }
  return false;
}

bool source_read(const struct source *current, struct source *out) {
  struct plat_bundle found[BUNDLES_MAX];
  u32 count = plat_bundles(found, BUNDLES_MAX);
  *out = (struct source){.memory = current != NULL ? 1 - current->memory : 0};
  struct span room = memory.bundle[out->memory];
  u64 wait_ns = current != NULL ? WAIT_SERVING_NS : WAIT_STARTING_NS;
  if (current != NULL && current->area) {
    *out = *current;
    return true;
  }
  bool got = room.ptr != NULL && current == NULL && !command_line_has("medium=iso") &&
             disk_area(room, wait_ns, out);
  got = got || (room.ptr != NULL && loader_volume(found, count, room, out));
  got = got || (room.ptr != NULL && disk_volume(room, wait_ns, out));
  return got || slot_or_archive(found, count, out);
}

bool source_find(struct carve *carve, struct source *out) {
  memory.bundle[0] = carve_take(carve, SOURCE_BUNDLE_MAX, PLAT_PAGE);
  memory.window = carve_take(carve, MEDIUM_WINDOW, PLAT_PAGE);
  bool got = source_read(NULL, out);
  memory.bundle[1] = carve_take(carve, SOURCE_BUNDLE_MAX, PLAT_PAGE);
  return got;
}

struct span source_room(const struct source *current) {
  return memory.bundle[1 - current->memory];
}

bool source_given(const struct source *current, struct bytes giver, u32 len, struct source *out) {
  struct span room = source_room(current);
  ASSERT(len <= room.len);
  *out =
      (struct source){.memory = 1 - current->memory, .again = true, .tar = bytes_of(room.ptr, len)};
  name_it(out, "given by ", bytes_sub(giver, 0, MIN(giver.len, (usize)64)));
  struct ustar_entry e;
  u32 pos = 0;
  enum err damage = ERR_OK;
  while (damage == ERR_OK) {
    damage = ustar_next(out->tar, &pos, &e);
  }
  return judge(damage == ERR_NOT_FOUND ? ERR_OK : damage, out);
}

void source_release(struct source *s) {
  if (s->bundle.release != NULL) {
    s->bundle.release(s->bundle.tar);
  }
  s->bundle.release = NULL;
}
