// SPDX-License-Identifier: Apache-2.0
// Words that two cores touch, and who pairs with whom:
//   ring.tail    the sender releases it (mailbox_send), the receiver acquires it (receive, sleep):
//                entries before it are written.
//   ring.head    the receiver releases it (take_from), the sender acquires it (reap, put): entries
//                before it are used, and what the receiver wrote into them stands.
//   asleep       its core stores 1 and then reads tails and heads (mailbox_sleep); another core
//                stores a tail or head and then reads asleep (wake): all of these are ordered
//                accesses, so one of the two sees the other's.
#include "loop/mailbox.h"

#include "base/shared.h"

#define MAIL_ALIGN 8u
#define CACHE_LINE 64u

struct mail {  // before each body
  u32 len;     // of the body
  u16 kind;    // enum mail_kind
  u16 wake_back;
};
static_assert(sizeof(struct mail) == MAIL_ALIGN, "bodies are aligned");

struct ring {
  u64 tail ALIGNED(CACHE_LINE);  // written by the sender
  u64 head ALIGNED(CACHE_LINE);  // written by the receiver
  // The sender's own.
  u64 put ALIGNED(CACHE_LINE);
  u64 reaped;
  u64 head_seen;
  // The receiver's own.
  u64 got ALIGNED(CACHE_LINE);
  // Never changes.
  u8 *bytes ALIGNED(CACHE_LINE);
  u32 size;
};

struct sleeper {
  u32 asleep ALIGNED(CACHE_LINE);
};

struct mailroom {
  u32 cores;
  struct sleeper sleeper[PLAT_CORE_MAX];
  struct ring ring[];  // from * cores + to
};

struct mailbox {
  struct mailroom *room;
  mail_take *take[MAIL_KIND_COUNT];
  mail_done *done[MAIL_KIND_COUNT];
  u32 next;  // the ring whose turn it is
  u64 wake;  // cores to be woken for an entry that came back to them, by bit
};
static_assert(PLAT_CORE_MAX <= 64, "sets of cores are words");

static struct ring *ring_of(const struct mailroom *room, u32 from, u32 to) {
  ASSERT(from != to);
  ASSERT(to < room->cores);
  return (struct ring *)&room->ring[from * room->cores + to];
}

static u64 head_len(u32 cores) {
  u64 len = sizeof(struct mailroom) + (u64)cores * cores * sizeof(struct ring);
  return ALIGN_UP(len + cores * sizeof(struct mailbox), (u64)CACHE_LINE);
}

u64 mailroom_bytes(u32 cores, u32 ring_len) {
  return head_len(cores) + (u64)cores * (cores - 1) * ring_len + CACHE_LINE;
}

static struct mailbox *box_of(struct mailroom *room, u32 core) {
  u8 *boxes = (u8 *)&room->ring[room->cores * room->cores];
  return (struct mailbox *)(void *)boxes + core;
}

struct mailroom *mailroom_open(struct carve *carve, u32 cores, u32 ring_len) {
  ASSERT(cores >= 2);
  ASSERT(cores <= PLAT_CORE_MAX);
  ASSERT(IS_POWER_OF_TWO(ring_len));
  ASSERT(ring_len >= MAIL_RING_MIN);
  ASSERT(ring_len <= MAIL_RING_MAX);
  struct span memory =
      carve_take(carve, (usize)(mailroom_bytes(cores, ring_len) - CACHE_LINE), CACHE_LINE);
  if (memory.ptr == NULL) {
    return NULL;
  }
  struct mailroom *room = (struct mailroom *)(void *)memory.ptr;
  room->cores = cores;
  u8 *bytes = memory.ptr + head_len(cores);
  for (u32 i = 0; i < cores * cores; i++) {
    if (i / cores != i % cores) {
      room->ring[i].bytes = bytes;
      room->ring[i].size = ring_len;
      bytes += ring_len;
    }
  }
  ASSERT(bytes == memory.ptr + memory.len);
  return room;
}

void mailbox_open(struct core *core, struct mailroom *room) {
  ASSERT(core->id < room->cores);
  core->mail = box_of(room, core->id);
  *core->mail = (struct mailbox){.room = room};
}

void mailbox_on(struct core *core, enum mail_kind kind, mail_take *take, mail_done *done) {
  ASSERT(kind != MAIL_NONE);
  ASSERT(kind < MAIL_KIND_COUNT);
  ASSERT(take != NULL);
  core->mail->take[kind] = take;
  core->mail->done[kind] = done;
}

u32 mailbox_cores(const struct core *core) {
  return core->mail == NULL ? 1 : core->mail->room->cores;
}

// --- sending

static u32 entry_size(u32 len) {
  return (u32)ALIGN_UP((u32)sizeof(struct mail) + len, MAIL_ALIGN);
}

static struct mail *mail_at(const struct ring *r, u64 at) {
  return (struct mail *)(void *)(r->bytes + (at & (r->size - 1)));
}

// Bytes an entry takes from `put` on, what is left over at the ring's end included.
static u32 need(const struct ring *r, u32 len) {
  u32 to_end = r->size - (u32)(r->put & (r->size - 1));
  u32 size = entry_size(len);
  return size <= to_end ? size : to_end + size;
}

static bool fits(const struct ring *r, enum mail_class class, u32 bytes) {
  u32 reserve = class == MAIL_CONTROL ? 0 : r->size / 4;
  return r->put + bytes + reserve <= r->reaped + r->size;
}

bool mailbox_room(struct core *core, u32 to, enum mail_class class, u32 len) {
  struct ring *r = ring_of(core->mail->room, core->id, to);
  ASSERT(entry_size(len) <= r->size / 4);
  return fits(r, class, need(r, len));
}

struct span mailbox_put(struct core *core, u32 to, enum mail_class class, enum mail_kind kind,
                        u32 len, bool wake_back) {
  ASSERT(kind != MAIL_NONE);
  ASSERT(kind < MAIL_KIND_COUNT);
  struct ring *r = ring_of(core->mail->room, core->id, to);
  u32 bytes = need(r, len);
  ASSERT(entry_size(len) <= r->size / 4);
  if (!fits(r, class, bytes)) {
    return span_of(NULL, 0);
  }
  u32 rest = bytes - entry_size(len);
  if (rest > 0) {
    *mail_at(r, r->put) = (struct mail){.len = rest - (u32)sizeof(struct mail), .kind = MAIL_NONE};
    r->put += rest;
  }
  struct mail *m = mail_at(r, r->put);
  *m = (struct mail){.len = len, .kind = (u16)kind, .wake_back = wake_back ? 1 : 0};
  r->put += entry_size(len);
  ASSERT(r->put <= r->reaped + r->size);  // I1
  return span_of((u8 *)(m + 1), len);
}

void mailbox_hand(struct core *core, enum mail_kind kind, struct span body) {
  ASSERT(core->mail->take[kind] != NULL);
  core->mail->take[kind](core, core->id, body);
}

bool mailbox_idle(const struct core *core, u32 to) {
  const struct ring *r = ring_of(core->mail->room, core->id, to);
  return r->put == r->reaped;
}

static void wake(struct mailroom *room, u32 core) {
  u32 *asleep = &room->sleeper[core].asleep;
  if (shared_ordered_load_u32(asleep) != 0 && shared_exchange_u32(asleep, 0) != 0) {
    plat_wake(core);
  }
}

void mailbox_send(struct core *core) {
  struct mailbox *box = core->mail;
  if (box == NULL) {
    return;
  }
  struct mailroom *room = box->room;
  for (u32 to = 0; to < room->cores; to++) {
    struct ring *r = to == core->id ? NULL : ring_of(room, core->id, to);
    if (r != NULL && r->put != r->tail) {
      shared_ordered_store_u64(&r->tail, r->put);
      box->wake |= 1ull << to;
    }
  }
  for (; box->wake != 0; box->wake &= box->wake - 1) {
    wake(room, (u32)__builtin_ctzll(box->wake));
  }
}

// --- receiving

static bool reap(struct core *core, u32 to) {
  struct ring *r = ring_of(core->mail->room, core->id, to);
  r->head_seen = shared_acquire_u64(&r->head);
  bool any = r->reaped != r->head_seen;
  while (r->reaped != r->head_seen) {
    struct mail *m = mail_at(r, r->reaped);
    mail_done *done = core->mail->done[m->kind];
    ASSERT(r->reaped < r->head_seen);
    if (done != NULL) {
      done(core, to, span_of((u8 *)(m + 1), m->len));
    }
    r->reaped += entry_size(m->len);
  }
  return any;
}

// Returns what is left of the budget.
static u32 take_from(struct core *core, u32 from, u32 budget) {
  struct mailbox *box = core->mail;
  struct ring *r = ring_of(box->room, from, core->id);
  u64 tail = shared_acquire_u64(&r->tail);
  bool back = false;
  u64 start = r->got;
  while (r->got != tail && budget > 0) {
    struct mail *m = mail_at(r, r->got);
    ASSERT(r->got < tail);
    ASSERT(m->kind < MAIL_KIND_COUNT);
    if (m->kind != MAIL_NONE) {
      ASSERT(box->take[m->kind] != NULL);
      box->take[m->kind](core, from, span_of((u8 *)(m + 1), m->len));
      back |= m->wake_back != 0;
      budget--;
    }
    r->got += entry_size(m->len);
  }
  if (r->got != start) {
    shared_ordered_store_u64(&r->head, r->got);
    box->wake |= back ? 1ull << from : 0;
  }
  return budget;
}

bool mailbox_receive(struct core *core) {
  struct mailbox *box = core->mail;
  if (box == NULL) {
    return false;
  }
  u32 cores = box->room->cores;
  bool any = false;
  u32 budget = MAIL_A_TURN;
  for (u32 k = 0; k < cores; k++) {
    u32 other = (box->next + k) % cores;
    if (other != core->id) {
      any |= reap(core, other);
    }
  }
  for (u32 k = 0; k < cores && budget > 0; k++) {
    u32 other = (box->next + k) % cores;
    if (other != core->id) {
      budget = take_from(core, other, budget);
    }
  }
  box->next = (box->next + 1) % cores;
  return any || budget < MAIL_A_TURN;
}

bool mailbox_sleep(struct core *core) {
  struct mailbox *box = core->mail;
  if (box == NULL) {
    return true;
  }
  struct mailroom *room = box->room;
  shared_ordered_store_u32(&room->sleeper[core->id].asleep, 1);
  for (u32 other = 0; other < room->cores; other++) {
    if (other == core->id) {
      continue;
    }
    const struct ring *in = ring_of(room, other, core->id);
    const struct ring *out = ring_of(room, core->id, other);
    if (shared_ordered_load_u64(&in->tail) != in->got ||
        shared_ordered_load_u64(&out->head) != out->reaped) {
      return false;
    }
  }
  return true;
}

void mailbox_awake(struct core *core) {
  if (core->mail != NULL) {
    shared_ordered_store_u32(&core->mail->room->sleeper[core->id].asleep, 0);
  }
}

void mailbox_check(const struct core *core) {
  const struct mailroom *room = core->mail->room;
  for (u32 to = 0; to < room->cores; to++) {
    if (to == core->id) {
      continue;
    }
    const struct ring *r = ring_of(room, core->id, to);
    ASSERT(r->reaped <= r->head_seen);
    ASSERT(r->head_seen <= r->tail);
    ASSERT(r->tail <= r->put);
    ASSERT(r->put <= r->reaped + r->size);
    u64 at = r->reaped;
    while (at < r->put) {
      at += entry_size(mail_at(r, at)->len);
    }
    ASSERT(at == r->put);
  }
}
