// SPDX-License-Identifier: Apache-2.0
// The ring holds records one behind the other: length 4, type 2, zero 2, payload, to a multiple of
// 8; one that would not fit its end begins at its start, behind a length of U32_MAX. During the
// start it is not needed for that and holds the group of records that is being read.
#include "store/store.h"

#include "store/journal_format.h"

#define HEAD 8u
#define WRAP U32_MAX
#define RING_MOST (RECORD_MAX + HEAD + 8)  // of one record, rounded

u64 store_bytes(void) {
  return sizeof(struct store) + DISK_MEMORY + STORE_RING + 2ull * JOURNAL_BATCH_MAX +
         JOURNAL_SEGMENT_DEFAULT + 8ull * 4096;
}

struct store *store_open(struct carve *carve, struct block *block, digest_fn *digest, u64 wall_ms,
                         u64 now_ns) {
  struct span own = carve_take(carve, sizeof(struct store), 64);
  struct span disk = carve_take(carve, DISK_MEMORY, 4096);
  struct span fill = carve_take(carve, JOURNAL_BATCH_MAX, 4096);
  struct span flight = carve_take(carve, JOURNAL_BATCH_MAX, 4096);
  struct span scan = carve_take(carve, JOURNAL_SEGMENT_DEFAULT, 4096);
  struct span ring = carve_take(carve, STORE_RING, 4096);
  if (own.ptr == NULL || disk.ptr == NULL || fill.ptr == NULL || flight.ptr == NULL ||
      scan.ptr == NULL || ring.ptr == NULL) {
    return NULL;
  }
  struct store *s = (struct store *)(void *)own.ptr;
  *s = (struct store){.ring = ring,
                      .fill = fill,
                      .flight = flight,
                      .scan = scan,
                      .open_at = U32_MAX,
                      .segment_len = JOURNAL_SEGMENT_DEFAULT,
                      .wall_ms = (i64)wall_ms - (i64)(now_ns / 1000000)};
  block_share_init(&s->share, block);
  disk_open_start(&s->disk, block_share_port(&s->share, 0), digest, disk);
  return s;
}

bool store_add_database(struct store *s, struct carve *carve, u64 left) {
  ASSERT(s->state == STORE_OPENING);
  struct extent_table plan;  // the disk is not open yet: its table's WAL has the default length
  if (extents_plan(&plan, 64ull << 30, EXTENTS_UNIT_MIN) != ERR_OK) {
    return false;
  }
  s->database = db_worker_make(carve, left, &plan);
  return s->database != NULL;
}

void store_set_ops(struct store *s, const struct store_ops *ops) {
  s->ops = *ops;
}

const char *store_why(const struct store *s) {
  ASSERT(s->state == STORE_REFUSED);
  return s->why;
}

// --- The start

static void refuse(struct store *s, const char *why) {
  s->state = STORE_REFUSED;
  s->why = why;
}

static void count_boot(struct store *s, u64 now_ns) {
  struct superblock next = s->disk.super;
  next.boots++;
  if (next.roots.journal_sequence == 0) {
    next.roots.journal_sequence = 1;
  }
  // The clock of a machine without one goes on from where it was last known to be.
  u64 known_ms = next.roots.wall_s * 1000;
  if (store_wall_ms(s, now_ns) < known_ms) {
    s->wall_ms = (i64)known_ms - (i64)(now_ns / 1000000);
  }
  next.roots.wall_s = store_wall_ms(s, now_ns) / 1000;
  disk_update_start(&s->disk, &next);
  s->state = STORE_COUNTING;
}

static void opened(struct store *s, u64 now_ns) {
  if (s->disk.verdict != DISK_OURS) {
    refuse(s, disk_verdict_text((enum disk_verdict)s->disk.verdict));
  } else if (s->disk.repairs != 0) {
    disk_repair_start(&s->disk);
    s->state = STORE_REPAIRING;
  } else {
    count_boot(s, now_ns);
  }
}

static struct journal_place journal_place(struct store *s, u32 port) {
  const struct superblock *super = &s->disk.super;
  struct journal_place place = {.block = block_share_port(&s->share, port),
                                .extents = &s->disk.super.extents,
                                .partition_at = super->partition_at,
                                .segment_len = s->segment_len,
                                .boot = super->boots,
                                .oldest = super->roots.journal_sequence};
  memcpy(place.uuid, super->uuid, sizeof place.uuid);
  return place;
}

static void start_journal(struct store *s) {
  struct journal_place place = journal_place(s, 1);
  journal_start(&s->journal, &place, s->fill, s->flight, s->scan, 1);
  s->state = STORE_REPLAYING;
}

static void start_database(struct store *s) {
  const struct superblock *super = &s->disk.super;
  struct journal_place journal = journal_place(s, 3);
  struct vfs_place vfs = {
      block_share_port(&s->share, 2), &super->extents, super->partition_at, {0}};
  memcpy(vfs.uuid, super->uuid, sizeof vfs.uuid);
  db_worker_start(s->database, &vfs, &journal, super->roots.database_state == 0);
  s->state = STORE_LOADING;
}

// What the database tells, until it has nothing more to tell.
static void load(struct store *s) {
  struct db_worker *w = s->database;
  (void)db_worker_turn(w);
  if (w->told != NULL) {
    w->told_good = s->ops.apply(s->ops.ctx, w->told_lsn, w->told);
    w->told = NULL;
    s->loaded++;
  } else if (w->state == DB_WORKER_IDLE) {
    start_journal(s);
  } else if (w->state == DB_WORKER_BROKEN) {
    refuse(s, w->why == ERR_NO_MEMORY
                  ? "the machine has too little memory for what is on the disk: give it more"
              : w->why == ERR_UNSUPPORTED
                  ? "the database was written by a newer urMQTT: start that version"
              : w->why == ERR_CORRUPT
                  ? "the database on it is damaged: write nothing, copy the disk, and look at the "
                    "copy with urmqtt-disk"
                  : disk_verdict_text(DISK_IO));
  }
}

static bool apply(struct store *s, u64 lsn, u16 type, struct bytes payload) {
  struct record r;
  s->replayed++;
  if (record_read(type, payload, &r) != ERR_OK) {
    refuse(s,
           "the journal holds a record that this version does not know: start the version that "
           "wrote it");
    return false;
  }
  if (!s->ops.apply(s->ops.ctx, lsn, &r)) {
    refuse(s, "the machine has too little memory for what is on the disk: give it more");
    return false;
  }
  return true;
}

// Records of a group wait until its last one is there (record.h R2).
static bool apply_group(struct store *s) {
  u32 pos = 0;
  u64 lsn = s->group_lsn;
  u32 len = s->group_len;
  s->group_lsn = 0;
  s->group_len = 0;
  while (pos < len) {
    const u8 *h = s->ring.ptr + pos;
    u32 n = load_le32(h);
    if (!apply(s, lsn++, load_le16(h + 4), bytes_of(h + HEAD, n))) {
      return false;
    }
    pos += HEAD + ALIGN_UP(n, 8u);
  }
  return true;
}

static bool replayed(struct store *s, const struct journal_record *r) {
  if (s->database != NULL && r->lsn <= s->database->applied) {
    return true;  // the database told it
  }
  struct bytes payload = bytes_part(span_bytes(s->journal.scan), r->payload);
  bool more = (r->type & RECORD_MORE) != 0;
  if ((r->type & ~RECORD_MORE) == RECORD_BOOT) {
    s->group_lsn = 0;
    s->group_len = 0;
  }
  if (!more && s->group_lsn == 0) {
    return apply(s, r->lsn, r->type, payload);
  }
  if (s->group_lsn == 0) {
    s->group_lsn = r->lsn;
  }
  u32 need = HEAD + ALIGN_UP((u32)payload.len, 8u);
  if (s->ring.len - s->group_len < need) {
    refuse(s,
           "the journal holds a group of records that is too long: start the version that wrote "
           "it");
    return false;
  }
  u8 *h = s->ring.ptr + s->group_len;
  store_le32(h, (u32)payload.len);
  store_le16(h + 4, r->type);
  if (payload.len > 0) {
    memcpy(h + HEAD, payload.ptr, payload.len);
  }
  s->group_len += need;
  return more || apply_group(s);
}

static void ready(struct store *s, u64 now_ns) {
  s->group_lsn = 0;
  s->group_len = 0;
  s->next_lsn = s->journal.next_lsn;
  s->told_lsn = s->journal.durable_lsn;
  s->state = STORE_READY;
  struct record r = {.kind = RECORD_BOOT};
  r.boot.at_ms = store_wall_ms(s, now_ns);
  struct writer w = store_begin(s);
  record_write(&r, &w);
  (void)store_commit(s, RECORD_BOOT, &w);
}

#define REPLAY_A_STEP 4096u

static void replay(struct store *s, u64 now_ns) {
  for (u32 i = 0; i < REPLAY_A_STEP && s->state == STORE_REPLAYING; i++) {
    struct journal_record r;
    switch (journal_replay(&s->journal, now_ns, &r)) {
    case ERR_OK: (void)replayed(s, &r); break;
    case ERR_AGAIN: return;
    case ERR_NOT_FOUND: ready(s, now_ns); break;
    case ERR_CORRUPT:
      refuse(s,
             "records are missing in the middle of the journal: write nothing, copy the disk, "
             "and look at the copy with urmqtt-disk");
      break;
    case ERR_UNSUPPORTED:
      refuse(s, "the journal was written by a newer urMQTT: start that version");
      break;
    default: refuse(s, disk_verdict_text(DISK_IO)); break;
    }
  }
}

enum store_state store_boot(struct store *s, u64 now_ns) {
  if (s->state == STORE_REPLAYING) {
    replay(s, now_ns);
  } else if (s->state == STORE_LOADING) {
    for (u32 i = 0; i < REPLAY_A_STEP && s->state == STORE_LOADING; i++) {
      load(s);
    }
  } else if (s->state < STORE_REPLAYING && disk_turn(&s->disk, now_ns)) {
    if (s->state == STORE_OPENING) {
      opened(s, now_ns);
    } else if (s->disk.verdict != DISK_OURS) {
      refuse(s, disk_verdict_text((enum disk_verdict)s->disk.verdict));
    } else if (s->state == STORE_REPAIRING) {
      count_boot(s, now_ns);
    } else if (s->database != NULL) {
      start_database(s);
    } else {
      start_journal(s);
    }
  }
  return (enum store_state)s->state;
}

// --- Records out

// S6. A database that is broken catches up with nothing: then the ring of the journal is the limit.
static bool far_behind(const struct store *s) {
  const struct db_worker *w = s->database;
  return w != NULL && w->state != DB_WORKER_BROKEN &&
         db_worker_behind(w, s->journal.sequence) * s->segment_len >= DB_WORKER_LAG;
}

bool store_room(const struct store *s, u64 len, u32 count, bool small) {
  u64 most = STORE_RING - 2ull * RING_MOST - (small ? 0 : STORE_SMALL);
  if (!small && far_behind(s)) {
    return false;
  }
  return s->used + len + (u64)count * 2 * HEAD <= most;
}

u64 store_left(const struct store *s) {
  const struct journal *j = &s->journal;
  u64 in_use = j->sequence + 1 - j->place.oldest;
  ASSERT(in_use <= j->segments);
  return (j->segments - in_use) * j->place.segment_len;
}

bool store_refuses(const struct store *s) {
  u64 reserve = MIN((u64)STORE_RESERVE, s->journal.segments / 2 * s->segment_len);
  return s->state != STORE_READY || store_left(s) < reserve + s->used;
}

struct writer store_begin(struct store *s) {
  ASSERT(s->state == STORE_READY || s->state == STORE_FAILED);
  ASSERT(s->open_at == U32_MAX);
  u32 end = (u32)s->ring.len;
  if (s->used == 0) {
    s->head = s->tail = 0;
  }
  u32 at = s->tail;
  if (end - at < RING_MOST) {
    if (end - at >= HEAD) {
      store_le32(s->ring.ptr + at, WRAP);
    }
    s->used += end - at;
    at = 0;
  }
  ASSERT(s->used + RING_MOST <= end);
  s->tail = at;
  s->open_at = at;
  return writer_init(span_of(s->ring.ptr + at + HEAD, RECORD_MAX));
}

// S5: which LSNs belong together.
static void note_group(struct store *s, u64 lsn, bool more) {
  struct store_group *g = s->group_count > 0 ? &s->group[s->group_count - 1] : NULL;
  bool inside = g != NULL && g->last == 0;
  if (more && !inside) {
    if (s->group_count < STORE_GROUPS) {
      s->group[s->group_count++] = (struct store_group){lsn, 0};
    } else {
      g->last = 0;  // counts as one with the last
    }
  } else if (!more && inside) {
    g->last = lsn;
  }
}

static u64 whole_groups(struct store *s, u64 durable) {
  u32 gone = 0;
  while (gone < s->group_count && s->group[gone].last != 0 && s->group[gone].last <= durable) {
    gone++;
  }
  s->group_count -= gone;
  memmove(s->group, s->group + gone, s->group_count * sizeof s->group[0]);
  return s->group_count > 0 ? MIN(durable, s->group[0].first - 1) : durable;
}

u64 store_commit(struct store *s, u16 type, const struct writer *w) {
  ASSERT(s->open_at != U32_MAX);
  ASSERT(w->err == ERR_OK);
  u8 *h = s->ring.ptr + s->open_at;
  u32 len = HEAD + ALIGN_UP(w->pos, 8u);
  store_le32(h, w->pos);
  store_le16(h + 4, type);
  s->open_at = U32_MAX;
  s->tail += len;
  s->used += len;
  s->waiting++;
  s->bytes += w->pos;
  note_group(s, s->next_lsn, (type & RECORD_MORE) != 0);
  return s->next_lsn++;
}

// Moves what waits into the journal's batch, as much as it takes.
static bool drain(struct store *s) {
  bool did = false;
  while (s->waiting > 0) {
    const u8 *h = s->ring.ptr + s->head;
    u32 end = (u32)s->ring.len;
    if (end - s->head < HEAD || load_le32(h) == WRAP) {
      s->used -= end - s->head;
      s->head = 0;
      continue;
    }
    u32 len = load_le32(h);
    u64 lsn = 0;
    if (journal_append(&s->journal, load_le16(h + 4), bytes_of(h + HEAD, len), &lsn) != ERR_OK) {
      break;
    }
    ASSERT(lsn == s->next_lsn - s->waiting);  // S2
    s->head += HEAD + ALIGN_UP(len, 8u);
    s->used -= HEAD + ALIGN_UP(len, 8u);
    s->waiting--;
    did = true;
  }
  return did;
}

// --- The database behind it

#define RUN_SEGMENTS 8u  // so much to apply, or the time below
#define RUN_NS 5000000000ull
#define RELEASE_SEGMENTS 4u  // worth a superblock
#define SLICES_MOST 5u       // a turn, when much waits

static bool start_marking(struct store *s) {
  const struct db_worker *w = s->database;
  const struct disk_roots *now = &s->disk.super.roots;
  bool first = now->database_state == 0 && w->stable != 0;
  if (!first && w->stable_seq < now->journal_sequence + RELEASE_SEGMENTS) {
    return false;
  }
  struct superblock next = s->disk.super;
  next.roots.journal_sequence = w->stable_seq;
  next.roots.database_lsn = w->stable;
  next.roots.database_state = 1;
  disk_update_start(&s->disk, &next);
  s->marking = true;
  return true;
}

static bool turn_marking(struct store *s, u64 now_ns) {
  if (!disk_turn(&s->disk, now_ns)) {
    return false;
  }
  s->marking = false;
  if (s->disk.verdict != DISK_OURS) {
    s->state = STORE_FAILED;
    s->ops.failed(s->ops.ctx);
  } else {
    journal_release(&s->journal, s->disk.super.roots.journal_sequence);
  }
  return true;
}

static bool turn_database(struct store *s, u64 now_ns) {
  struct db_worker *w = s->database;
  u64 behind = s->journal.sequence - w->seq;
  w->target = s->told_lsn;
  w->go = w->target > w->applied && (behind >= RUN_SEGMENTS || now_ns - w->ran_ns >= RUN_NS);
  bool did = false;
  u32 slices = behind > 2 * RUN_SEGMENTS ? SLICES_MOST : 1;
  for (u32 i = 0; i < slices && db_worker_turn(w); i++) {
    did = true;
  }
  return s->marking ? turn_marking(s, now_ns) || did : start_marking(s) || did;
}

bool store_stage(struct core *core, void *store) {
  struct store *s = store;
  if (s->state != STORE_READY) {
    return false;
  }
  ASSERT(s->open_at == U32_MAX);
  bool did = drain(s);
  journal_turn(&s->journal, core->now_ns);
  if (journal_failed(&s->journal)) {
    s->state = STORE_FAILED;
    s->ops.failed(s->ops.ctx);
    return true;
  }
  u64 durable = whole_groups(s, s->journal.durable_lsn);
  if (durable > s->told_lsn) {
    s->told_lsn = durable;
    s->ops.durable(s->ops.ctx, s->told_lsn);
    did = true;
  }
  if (s->database != NULL && turn_database(s, core->now_ns)) {
    did = true;
  }
  return did;
}
