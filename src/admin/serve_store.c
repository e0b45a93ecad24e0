// SPDX-License-Identifier: Apache-2.0
#include "admin/serve_store.h"

#include "admin/command_line.h"
#include "admin/disk_look.h"
#include "admin/serve.h"
#include "broker/broker.h"
#include "store/store.h"
#include "tls/digest.h"

#define STEP_NS 10000000ull

static struct store *store;
static struct block *disk;
static char name[BLOCK_NAME_MAX];
static bool failed;

const struct block *serve_store_disk(void) {
  return disk;
}
struct store *serve_store(void) {
  return store;
}

// --- Which disk

static u8 look_at(struct block *b, struct span memory) {
  static struct disk d;
  u8 v = disk_look_open(&d, b, memory);
  if (v == DISK_EMPTY && command_line_has("new-disk")) {
    u8 seed[DISK_SEED];
    (void)plat_random(span_of(seed, sizeof seed));
    disk_format_start(&d, b, tls_sha256, memory, seed);
    v = disk_look_turn(&d);
    mem_wipe(seed, sizeof seed);
  }
  return v;
}

// What a disk that is not used is worth a line for: it was ours, or was named for this.
static bool worth_saying(u8 v, bool named) {
  return named || (v != DISK_EMPTY && v != DISK_FOREIGN && v != DISK_BLOCKS && v != DISK_TOO_SMALL);
}

bool serve_store_find(struct carve *carve) {
  // By its name, or this machine was started from it.
  bool named = command_line_has("named-disk") || command_line_has("medium=disk");
  if (command_line_has("medium=iso")) {
    return true;  // live: writes nothing
  }
  if (plat_disk(0) == NULL) {
    if (named) {
      say("no disk is found behind virtio-blk or virtio-scsi");
    }
    return !named;
  }
  struct span memory = carve_take(carve, DISK_MEMORY, PLAT_PAGE);
  for (u32 n = 0; plat_disk(n) != NULL && disk == NULL && memory.ptr != NULL; n++) {
    struct block_info i;
    block_info(plat_disk(n), &i);
    if (i.removable || i.dead) {
      continue;
    }
    u8 v = i.read_only ? DISK_OURS_READ_ONLY : look_at(plat_disk(n), memory);
    if (v == DISK_OURS) {
      disk = plat_disk(n);
      memcpy(name, i.name, sizeof name);
    } else if (worth_saying(v, named)) {
      say("disk %s: %s", i.name, disk_verdict_text((enum disk_verdict)v));
    }
  }
  if (disk != NULL) {
    store = store_open(carve, disk, tls_sha256, plat_wall().unix_ns / 1000000, plat_now_ns());
    if (store == NULL) {
      say("disk %s: the machine has too little memory for a disk: give it 128 MiB or more", name);
      disk = NULL;
    } else if (!store_add_database(store, carve, carve_left(carve))) {
      say("warning: disk %s: the machine has too little memory for a database: when the journal is "
          "full nothing more is acknowledged; give it 128 MiB or more",
          name);
    }
  }
  return disk != NULL || !named;
}

// --- What is on it

static void on_failed(void *ctx) {
  struct broker *b = ctx;
  failed = true;
  (void)broker_publish(b, BYTES_LIT("$SYS/broker/store/disk/state"), BYTES_LIT("3"), 2, true,
                       plat_now_ns());
  say("error: disk %s: a write has failed. Nothing more is acknowledged that would have to survive "
      "a power cut; what was acknowledged is on the disk. Replace the disk and start again.",
      name);
}

static bool read_back(struct core *core) {
  u64 started = plat_now_ns();
  if (!broker_restore_begin(core->broker, store)) {
    say("disk %s: the machine has too little memory for what is on the disk: give it more", name);
    return false;
  }
  store_set_ops(store,
                &(struct store_ops){broker_restore, broker_durable, on_failed, core->broker});
  while (store_boot(store, plat_now_ns()) < STORE_READY) {
    bool reads = store->state == STORE_REPLAYING && store->journal.scan_pos != 0;
    bool tells = store->state == STORE_LOADING && !store->database->db.vfs.waits;
    if (!reads && !tells) {
      plat_idle(0, plat_now_ns() + STEP_NS / 10);
    }
  }
  core->now_ns = plat_now_ns();
  if (store->state != STORE_READY) {
    say("disk %s: %s", name, store_why(store));
    return false;
  }
  broker_restore_end(core->broker, store);
  if (store->database != NULL) {
    say("disk %s: %llu of the records come from the database, which holds the journal up to %llu",
        name, (unsigned long long)store->loaded, (unsigned long long)store->database->applied);
  }
  say("disk %s: %llu records read in %llu ms: %u sessions, %u retained messages, %u queued", name,
      (unsigned long long)(store->replayed + store->loaded),
      (unsigned long long)((plat_now_ns() - started) / 1000000),
      broker_stats(core->broker)->clients_total, broker_stats(core->broker)->retained,
      broker_stats(core->broker)->queued);
  return true;
}

bool serve_store_start(struct core *core, const struct config *config) {
  bool required = config != NULL && config->storage_required;
  if (store == NULL) {
    if (required) {
      say("storage required: there is no disk of urMQTT's, and without one nothing is served");
    }
    return !required;
  }
  broker_set_relaxed(core->broker, config != NULL && config->durability_relaxed);
  return read_back(core);
}

void serve_store_say(const struct config *config) {
  if (store == NULL) {
    say("live mode: sessions and retained messages live in RAM, and so do its promises");
  } else if (config != NULL && config->durability_relaxed) {
    say("disk %s: sessions and retained messages are written to it; durability relaxed: an "
        "acknowledgement does not wait for that",
        name);
  } else {
    say("disk %s: what is acknowledged survives a power cut", name);
  }
}

void serve_store_stats(struct serve_store_stats *out) {
  *out = (struct serve_store_stats){.state = 0};
  if (store != NULL) {
    const struct journal *j = &store->journal;
    bool full = store->state == STORE_READY && store_refuses(store);
    *out = (struct serve_store_stats){.state = failed ? 3
                                               : full ? 2
                                                      : 1,
                                      .records = j->records,
                                      .bytes = j->bytes_written,
                                      .flushes = j->batches,
                                      .left_out = store->lost,
                                      .free = store_left(store)};
  }
}

void serve_store_end(void) {
  if (store != NULL) {
    const struct journal *j = &store->journal;
    say("disk %s: %llu records, %llu bytes of them, %llu bytes written in %llu batches; %llu left "
        "out",
        name, (unsigned long long)j->records, (unsigned long long)store->bytes,
        (unsigned long long)j->bytes_written, (unsigned long long)j->batches,
        (unsigned long long)store->lost);
  }
}

bool serve_store_quiet(void) {
  return store == NULL || store->state != STORE_READY || store_idle(store);
}
