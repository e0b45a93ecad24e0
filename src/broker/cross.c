// SPDX-License-Identifier: Apache-2.0
// PUBLISH to other cores and what comes back (cross.h).
#include "broker/cross.h"

static u32 index_nodes(u32 cores, const struct broker_limits *l) {
  return cores * l->topic_nodes;
}

u64 broker_shared_bytes(u32 cores, const struct broker_limits *l) {
  return sizeof(struct broker_shared) + 64 + wants_bytes(index_nodes(cores, l));
}

struct broker_shared *broker_shared_open(struct carve *carve, u32 cores,
                                         const struct broker_limits *l) {
  ASSERT(cores >= 2);
  struct span own = carve_take(carve, sizeof(struct broker_shared), 64);
  struct broker_shared *s = (struct broker_shared *)(void *)own.ptr;
  if (s == NULL) {
    return NULL;
  }
  s->cores = cores;
  s->wants = wants_open(carve, index_nodes(cores, l));
  (void)plat_random(span_of(&s->key, sizeof s->key));
  return s->wants == NULL ? NULL : s;
}

u64 broker_join_bytes(u32 cores, const struct broker_limits *l) {
  return sizeof(struct cross) + 64 + directory_bytes(cores, l) + branches_bytes(broker_shares(l));
}

static mail_take take_publish;
static mail_done publish_back;

enum err broker_join(struct core *core, struct carve *carve, struct broker_shared *shared) {
  struct broker *b = core->broker;
  struct span own = carve_take(carve, sizeof(struct cross), 64);
  if (own.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  ASSERT(b->stats.clients_total == 0);
  ASSERT(mailbox_cores(core) == shared->cores);
  ASSERT(core->epoch != NULL);
  struct cross *x = (struct cross *)(void *)own.ptr;
  x->shared = shared;  // the rest is zero: as a whole it would not fit the stack
  x->dirty = CROSS_NEXT;
  list_reset(&x->backlog);
  b->cross = x;
  core->hash_key = shared->key;
  b->route_from = (u8)core->id;
  b->id_counter = (u64)core->id << 56;  // ids that are assigned differ among cores
  mailbox_on(core, (enum mail_kind)MAIL_PUBLISH, take_publish, publish_back);
  live_open(core);
  post_open(core);
  takeover_open(core);
  struct span branches = carve_take(carve, (usize)branches_bytes(b->shares.count) - 64, 64);
  if (branches.ptr == NULL || !directory_open(core, carve)) {
    return ERR_NO_MEMORY;
  }
  branches_open(core, branches);
  return ERR_OK;
}

#define STAMP_SHIFT 6u  // below: the core
static_assert(PLAT_CORE_MAX <= 1u << STAMP_SHIFT, "a stamp names its core");

static void grave_close(struct broker *b) {
  struct cross *x = b->cross;
  u32 node = x->grave[x->grave_first].node;
  x->grave_first = (x->grave_first + 1) % GRAVES;
  x->grave_count--;
  retained_bury(b, node);
}

// --- sending

u64 cross_match(struct broker *b, bool retain, u64 *stamp) {
  struct cross *x = b->cross;
  if (!retain) {
    return wants_match(x->shared->wants, &b->match_levels) & ~(1ull << b->core->id);
  }
  x->stamp = (MAX(x->stamp >> STAMP_SHIFT, b->core->now_ns) + 1) << STAMP_SHIFT | b->core->id;
  *stamp = x->stamp;
  return cross_all(b) & ~(1ull << b->core->id);
}

// What one entry of the backlog has beside its message.
struct later {
  u64 cores;
  u64 stamp;
};
static struct later *later_of(const struct broker *b, const struct entry *e) {
  return (struct later *)(void *)entry_ids(b, e);
}

void grave_dig(struct broker *b, u32 node) {
  struct cross *x = b->cross;
  if (x->grave_count == GRAVES) {
    grave_close(b);
  }
  x->grave[(x->grave_first + x->grave_count++) % GRAVES] =
      (struct grave){b->core->now_ns + GRAVE_NS, node};
}

bool cross_data_room(struct broker *b, u32 to, u32 len) {
  return post_none(b, to) && mailbox_room(b->core, to, MAIL_DATA, len);
}

static bool room(struct broker *b, u64 cores) {
  for (; cores != 0; cores &= cores - 1) {
    u32 to = (u32)__builtin_ctzll(cores);
    if (!cross_data_room(b, to, sizeof(struct publish_mail))) {
      return false;
    }
  }
  return true;
}

bool cross_room(struct broker *b, u64 cores) {
  return b->cross->backlog.head == NONE && room(b, cores);  // I2
}

void cross_send(struct broker *b, struct message *m, u64 cores, u64 stamp) {
  for (; cores != 0; cores &= cores - 1) {
    u32 to = (u32)__builtin_ctzll(cores);
    struct span s = mailbox_put(b->core, to, MAIL_DATA, (enum mail_kind)MAIL_PUBLISH,
                                sizeof(struct publish_mail), true);
    ASSERT(s.ptr != NULL);  // I1
    struct publish_mail *mail = (struct publish_mail *)(void *)s.ptr;
    *mail =
        (struct publish_mail){.message = message_ref(m), .stamp = stamp, .ticket = b->route_ticket};
    b->mail_refs++;
    if (b->route_ticket != NONE) {
      ticket_expect(b, b->route_ticket, 1);
    }
  }
}

void cross_send_later(struct broker *b, struct message *m, u64 cores, u64 stamp) {
  struct cross *x = b->cross;
  if (cross_room(b, cores)) {
    cross_send(b, m, cores, stamp);
    return;
  }
  struct later *later = blocks_take(&b->blocks, sizeof *later);
  struct entry *e = later == NULL ? NULL : pool_take(&b->entries);
  if (e == NULL) {
    if (later != NULL) {
      blocks_put(&b->blocks, later);
    }
    b->stats.dropped[BROKER_DROPPED_GLOBAL]++;
    b->stats.publish_dropped++;
    return;
  }
  *later = (struct later){cores, stamp};
  *e = (struct entry){.message = message_ref(m),
                      .flags = ENTRY_IDS,
                      .ids = (u32)(((u8 *)later - b->blocks.base) / BLOCK_GRANULE)};
  entries_push(b, &x->backlog, pool_index(&b->entries, e));
}

static bool send_backlog(struct broker *b) {
  struct cross *x = b->cross;
  bool any = false;
  while (x->backlog.head != NONE) {
    struct entry *e = entry_at(b, x->backlog.head);
    const struct later *later = later_of(b, e);
    if (!room(b, later->cores)) {
      break;
    }
    cross_send(b, e->message, later->cores, later->stamp);
    entry_free(b, entries_pop(b, &x->backlog));
    any = true;
  }
  return any;
}

bool cross_stage(struct broker *b) {
  struct cross *x = b->cross;
  while (x->grave_count > 0 && x->grave[x->grave_first].at_ns <= b->core->now_ns) {
    grave_close(b);
  }
  bool did = post_stage(b);
  did |= send_backlog(b);
  did |= live_stage(b);
  did |= branch_stage(b);
  did |= takeover_stage(b);
  did |= directory_stage(b);
  return did || x->backlog.head != NONE;
}

static void publish_back(struct core *core, u32 to, struct span body) {
  struct broker *b = core->broker;
  const struct publish_mail *mail = (const struct publish_mail *)(const void *)body.ptr;
  (void)to;
  ASSERT(b->mail_refs > 0);
  b->mail_refs--;
  message_unref(b, mail->message);
  if (mail->ticket != NONE) {
    ticket_found(b, mail->ticket, mail->result_matched, mail->result_dropped);
    ticket_home(b, mail->ticket);
  }
}

// --- receiving

static void take_publish(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  struct publish_mail *mail = (struct publish_mail *)(void *)body.ptr;
  b->route_from = (u8)from;
  b->cross->stamp = MAX(b->cross->stamp, mail->stamp);
  struct route_result r = route_remote(b, mail->message, mail->stamp, core->now_ns);
  b->route_from = (u8)core->id;
  mail->result_matched = r.matched;
  mail->result_dropped = r.dropped;
}
