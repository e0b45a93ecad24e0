// SPDX-License-Identifier: Apache-2.0
// The index of filters: each core tells the writer (core 0) when the first of its subscriptions to
// a filter comes and when the last goes; the writer changes the index, waits until every core has
// seen it, and tells how far it is. Changes are not told at once: the node is put on a list and
// looked at in the stage, so that nothing here can fail in the middle of something else.
//
// I1  A node is CROSS_TOLD when the last request about it was "want". It is not freed before the
//     index has forgotten it.
// I2  seq counts the nodes looked at; a request carries its seq; what has no request is as live as
//     the last one that had.
#include "broker/cross.h"

static mail_take take_want;
static mail_take take_live;
static mail_done want_back;

void live_open(struct core *core) {
  mailbox_on(core, (enum mail_kind)MAIL_WANT, take_want, want_back);
  mailbox_on(core, (enum mail_kind)MAIL_LIVE, take_live, NULL);
}

void live_changed(struct broker *b, u32 node) {
  struct cross *x = b->cross;
  struct tnode *n = node_at(b, node);
  if ((n->cross & CROSS_DIRTY) == 0) {
    ASSERT(node < CROSS_NEXT);
    n->cross = (n->cross & CROSS_TOLD) | CROSS_DIRTY | x->dirty;
    x->dirty = node;
    x->dirty_count++;
  }
}

u64 live_seq(const struct broker *b) {
  return b->cross->seq + b->cross->dirty_count;
}

u64 live_until(const struct broker *b) {
  const struct cross *x = b->cross;
  return x->live == x->seq_sent ? x->seq : x->live;  // I2
}

bool live_room(const struct broker *b) {
  return b->cross->hold_count < HOLDS;
}

void live_wait(struct broker *b, u32 ticket) {
  struct cross *x = b->cross;
  if (live_until(b) >= live_seq(b)) {
    return;
  }
  ASSERT(x->hold_count < HOLDS);
  ticket_expect(b, ticket, 1);
  x->hold[(x->hold_first + x->hold_count) % HOLDS] = (struct hold){live_seq(b), ticket};
  x->hold_count++;
}

static void release_holds(struct broker *b) {
  struct cross *x = b->cross;
  while (x->hold_count > 0 && x->hold[x->hold_first].seq <= live_until(b)) {
    struct hold h = x->hold[x->hold_first];
    x->hold_first = (x->hold_first + 1) % HOLDS;
    x->hold_count--;
    ticket_home(b, h.ticket);
  }
}

// --- the writer

static void apply(struct broker *b, u32 core, struct bytes filter, bool want, u64 seq) {
  struct cross *x = b->cross;
  ASSERT(b->core->id == 0);
  ASSERT(seq > x->applied[core]);
  levels_split(b, filter, &b->filter_levels);
  wants_set(x->shared->wants, &b->blocks, &b->filter_levels, core, want);
  x->applied[core] = seq;
}

static void take_want(struct core *core, u32 from, struct span body) {
  const struct want_mail *m = (const struct want_mail *)(const void *)body.ptr;
  apply(core->broker, from, bytes_of(m->filter, m->len), m->want, m->seq);
}

static void want_back(struct core *core, u32 to, struct span body) {
  const struct want_mail *m = (const struct want_mail *)(const void *)body.ptr;
  (void)to;
  blocks_put(&core->broker->blocks, m->filter);
}

// True: the core knows how far the index is.
static bool tell(struct broker *b, u32 core) {
  struct cross *x = b->cross;
  if (core == 0) {
    x->live = x->waited[0];
    return true;
  }
  struct span s = mailbox_put(b->core, core, MAIL_CONTROL, (enum mail_kind)MAIL_LIVE,
                              sizeof(struct live_mail), false);
  if (s.ptr != NULL) {
    *(struct live_mail *)(void *)s.ptr = (struct live_mail){x->waited[core]};
  }
  return s.ptr != NULL;
}

static void take_live(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  ASSERT(from == 0);
  b->cross->live = ((const struct live_mail *)(const void *)body.ptr)->seq;
}

// True while an epoch is waited for: the core does not sleep then.
static bool run_writer(struct broker *b) {
  struct cross *x = b->cross;
  struct epoch *e = b->core->epoch;
  if (x->grace != 0 && epoch_reached(e, x->grace)) {
    wants_reclaim(x->shared->wants, &b->blocks, x->grace);
    x->grace = 0;
  }
  bool changed = false;
  bool untold = false;
  for (u32 i = 0; i < x->shared->cores && x->grace == 0; i++) {
    if (x->told[i] != x->waited[i] && tell(b, i)) {
      x->told[i] = x->waited[i];
    }
    changed |= x->applied[i] != x->waited[i];
    untold |= x->told[i] != x->waited[i];
  }
  if (changed && !untold) {
    memcpy(x->waited, x->applied, sizeof x->waited);
    x->grace = epoch_next(e);
    wants_unlinked(x->shared->wants, x->grace);
  }
  return x->grace != 0 || untold;
}

// --- each core

// Tells the writer; false: no room now.
static bool request(struct broker *b, u32 node, bool want) {
  struct cross *x = b->cross;
  struct bytes filter;
  bool fits = tree_filter(b, node, span_of(b->mounted, sizeof b->mounted), &filter);
  ASSERT(fits);
  u64 seq = x->seq + 1;
  if (b->core->id == 0) {
    apply(b, 0, filter, want, seq);
    x->seq_sent = seq;
    return true;
  }
  u8 *block = blocks_take(&b->blocks, filter.len);
  struct span s = block == NULL ? span_of(NULL, 0)
                                : mailbox_put(b->core, 0, MAIL_DATA, (enum mail_kind)MAIL_WANT,
                                              sizeof(struct want_mail), false);
  if (s.ptr == NULL) {
    if (block != NULL) {
      blocks_put(&b->blocks, block);
    }
    return false;
  }
  memcpy(block, filter.ptr, filter.len);
  *(struct want_mail *)(void *)s.ptr = (struct want_mail){block, (u32)filter.len, want, seq};
  x->seq_sent = seq;
  return true;
}

// A group with members, whose messages this core distributes.
static bool has_root(const struct broker *b, const struct tnode *n) {
  for (u32 i = n->shares; i != NONE; i = share_at(b, i)->next) {
    if (branch_roots(b, i) && (share_at(b, i)->count > 0 || branch_elsewhere(b, i))) {
      return true;
    }
  }
  return false;
}

// True when some are left: the core does not sleep then.
static bool send_requests(struct broker *b) {
  struct cross *x = b->cross;
  while (x->dirty != CROSS_NEXT) {
    u32 node = x->dirty;
    struct tnode *n = node_at(b, node);
    bool want = n->subs != NONE || has_root(b, n);
    bool told = (n->cross & CROSS_TOLD) != 0;
    if (want != told && !request(b, node, want)) {
      return true;
    }
    x->dirty = n->cross & CROSS_NEXT;
    x->dirty_count--;
    x->seq++;
    n->cross = want ? CROSS_TOLD : 0;
    tree_prune(b, node);
  }
  return false;
}

bool live_stage(struct broker *b) {
  bool did = send_requests(b);
  if (b->core->id == 0) {
    did |= run_writer(b);
  }
  release_holds(b);
  return did;
}
