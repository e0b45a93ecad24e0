// SPDX-License-Identifier: Apache-2.0
// Slots and waiting SYNs; see admit.h.
#include "net/admit.h"

// What waits this long on average is plenty for a computer that is never to stand idle, and little
// beside the seconds after which clients give up. Established traffic does not wait for it.
#define DELAY_TARGET_NS 40000000ull
#define WINDOW_NS 100000000ull
#define LIFE_MS (ADMIT_EPOCHS * ADMIT_EPOCH_MS)
#define BELIEF_MS 4096u  // that flows come to something, while little is known
#define FADE 8u          // a part of what is known is forgotten each epoch
#define IN_ORDER_MS 500u
#define EXPIRED_MAX 64u  // entries that one admit_next looks at

enum err admit_init(struct admit *a, struct carve *carve, u32 entries, u32 floor, u32 ceiling) {
  ASSERT(entries >= 16);
  ASSERT(0 < floor && floor <= ceiling);
  u32 buckets = 16;
  while (buckets < entries && buckets < 65536) {
    buckets *= 2;
  }
  *a = (struct admit){.slots = floor,
                      .floor = floor,
                      .ceiling = ceiling,
                      .count = entries,
                      .free_head = ADMIT_NONE,
                      .bucket_mask = buckets - 1,
                      .turn_head = ADMIT_NONE,
                      .turn_tail = ADMIT_NONE};
  a->entry = (struct admit_entry *)(void *)carve_take(carve, entries * sizeof *a->entry, 64).ptr;
  a->bucket = (u32 *)(void *)carve_take(carve, buckets * sizeof *a->bucket, 64).ptr;
  if (a->entry == NULL || a->bucket == NULL) {
    return ERR_NO_MEMORY;
  }
  memset(a->bucket, 0xff, buckets * sizeof *a->bucket);
  for (u32 i = 0; i < ADMIT_PREFIXES; i++) {
    a->queue[i] = (struct admit_queue){.newest = ADMIT_NONE, .oldest = ADMIT_NONE};
  }
  return ERR_OK;
}

// --- Slots

bool admit_free(const struct admit *a) {
  u64 begun_ms = MIN(a->begun_ms, a->all_ms) + BELIEF_MS;
  return a->used + a->expected * begun_ms / (a->all_ms + BELIEF_MS) < a->slots;
}

u16 admit_enter(struct admit *a) {
  a->epoch[a->now_ms / ADMIT_EPOCH_MS % ADMIT_EPOCHS]++;
  a->expected++;
  a->stats.entered++;
  return (u16)a->now_ms;
}

// Nothing is expected of a flow any more, for the better or the worse. How long it was, in ms; for
// LIFE_MS and more: it had been given up.
static u32 expect_less(struct admit *a, u16 entered) {
  u32 age = (u16)((u16)a->now_ms - entered);
  u64 epoch = (a->now_ms - MIN((u64)age, a->now_ms)) / ADMIT_EPOCH_MS;
  if (a->now_ms / ADMIT_EPOCH_MS - epoch >= ADMIT_EPOCHS) {
    return LIFE_MS;
  }
  ASSERT(a->epoch[epoch % ADMIT_EPOCHS] > 0);
  a->epoch[epoch % ADMIT_EPOCHS]--;
  a->expected--;
  return age;
}

// Its end was heard of: nothing is to be learned of it about those that are silent.
void admit_end(struct admit *a, u16 entered) {
  u32 age = expect_less(a, entered);
  a->all_ms -= age < LIFE_MS ? MIN((u64)age, a->all_ms) : 0;
}

void admit_begin(struct admit *a, u16 entered) {
  u32 age = expect_less(a, entered);
  a->begun_ms += age < LIFE_MS ? age : 0;
  a->used++;
  a->stats.begun++;
}

void admit_give(struct admit *a) {
  ASSERT(a->used > 0);
  a->used--;
}

void admit_delay(struct admit *a, u64 delay_ns) {
  a->delay_sum_ns += delay_ns;
  a->delays++;
}

// The oldest epoch makes room: nothing is expected of its flows any more.
static void next_epoch(struct admit *a, u64 epoch) {
  a->expected -= a->epoch[epoch % ADMIT_EPOCHS];
  a->epoch[epoch % ADMIT_EPOCHS] = 0;
  a->all_ms -= a->all_ms / FADE;
  a->begun_ms -= a->begun_ms / FADE;
}

// Without a measurement nothing is known that more slots would be good for.
static void steer(struct admit *a) {
  u64 delay = a->delays > 0 ? a->delay_sum_ns / a->delays : 0;
  if (delay > DELAY_TARGET_NS) {
    a->slots = MAX(a->slots - a->slots / 5, a->floor);
  } else if (a->short_of && a->delays > 0 && delay < DELAY_TARGET_NS / 2) {
    a->slots = MIN(a->slots + MAX(a->slots / 8, 1u), a->ceiling);
  }
  a->delay_ns = a->delays > 0 ? delay : a->delay_ns;
  a->delay_sum_ns = 0;
  a->delays = 0;
  a->short_of = false;
}

void admit_tick(struct admit *a, u64 now_ns) {
  u64 now_ms = now_ns / 1000000;
  u64 epoch = a->now_ms / ADMIT_EPOCH_MS;
  u64 passed = MIN(now_ms / ADMIT_EPOCH_MS - epoch, (u64)ADMIT_EPOCHS);
  a->short_of |= !admit_free(a);
  a->all_ms += a->expected * MIN(now_ms - a->now_ms, (u64)LIFE_MS);
  for (u64 i = 1; i <= passed; i++) {
    next_epoch(a, epoch + i);
  }
  a->now_ms = now_ms;
  if (now_ns >= a->window_end_ns) {
    steer(a);
    a->window_end_ns = now_ns + WINDOW_NS;
  }
}

// --- SYNs that wait

static struct admit_entry *entry_at(const struct admit *a, u32 i) {
  ASSERT(i < a->count);
  return &a->entry[i];
}

static bool same_flow(const struct admit_syn *x, const struct admit_syn *y) {
  return x->remote_port == y->remote_port && ip_equal(x->remote, y->remote) &&
         x->local_port == y->local_port && ip_equal(x->local, y->local);
}

static u32 find(const struct admit *a, const struct admit_syn *syn, u16 bucket) {
  u32 i = a->bucket[bucket];
  while (i != ADMIT_NONE && !same_flow(&entry_at(a, i)->syn, syn)) {
    i = entry_at(a, i)->hash_next;
  }
  return i;
}

static void unlink_entry(struct admit *a, struct admit_queue *q, u32 index) {
  struct admit_entry *e = entry_at(a, index);
  *(e->newer == ADMIT_NONE ? &q->newest : &entry_at(a, e->newer)->older) = e->older;
  *(e->older == ADMIT_NONE ? &q->oldest : &entry_at(a, e->older)->newer) = e->newer;
  q->count--;
}
static void link_entry(struct admit *a, struct admit_queue *q, u32 index) {
  struct admit_entry *e = entry_at(a, index);
  e->newer = ADMIT_NONE;
  e->older = q->newest;
  *(q->newest == ADMIT_NONE ? &q->oldest : &entry_at(a, q->newest)->newer) = index;
  q->newest = index;
  q->count++;
}

// An entry leaves its queue and the table.
static void leave(struct admit *a, struct admit_queue *q, u32 index) {
  struct admit_entry *e = entry_at(a, index);
  u32 *at = &a->bucket[e->syn.bucket];
  while (*at != index) {
    at = &entry_at(a, *at)->hash_next;
  }
  *at = e->hash_next;
  unlink_entry(a, q, index);
  e->older = a->free_head;
  a->free_head = index;
  a->waiting--;
}

// The queue that has most. It stays in the circle of turns, also when it is empty.
static struct admit_queue *longest(struct admit *a) {
  struct admit_queue *most = &a->queue[0];
  for (u32 i = 1; i < ADMIT_PREFIXES; i++) {
    most = a->queue[i].count > most->count ? &a->queue[i] : most;
  }
  return most;
}

static u32 entry_take(struct admit *a) {
  u32 i = a->free_head;
  if (i != ADMIT_NONE) {
    a->free_head = entry_at(a, i)->older;
  } else {
    ASSERT(a->fresh < a->count);
    i = a->fresh++;
  }
  a->waiting++;
  return i;
}

static void join_turns(struct admit *a, u32 prefix) {
  a->queue[prefix].turn_next = ADMIT_NONE;
  if (a->turn_tail == ADMIT_NONE) {
    a->turn_head = prefix;
  } else {
    a->queue[a->turn_tail].turn_next = prefix;
  }
  a->turn_tail = prefix;
  a->queue[prefix].in_turn = true;
}

static u32 leave_turns(struct admit *a) {
  u32 prefix = a->turn_head;
  a->turn_head = a->queue[prefix].turn_next;
  a->turn_tail = a->turn_head == ADMIT_NONE ? ADMIT_NONE : a->turn_tail;
  a->queue[prefix].in_turn = false;
  return prefix;
}

void admit_park(struct admit *a, const struct admit_syn *syn, u64 flow, u32 prefix, u32 now_ms) {
  u16 bucket = (u16)(flow & a->bucket_mask);
  struct admit_queue *q = &a->queue[prefix % ADMIT_PREFIXES];
  u32 known = find(a, syn, bucket);
  if (known != ADMIT_NONE) {
    entry_at(a, known)->syn.ts_value = syn->ts_value;
    entry_at(a, known)->heard_ms = now_ms;
    return;
  }
  if (a->waiting == a->count) {
    struct admit_queue *most = longest(a);
    leave(a, most, most->oldest);
    a->stats.given_up++;
  }
  u32 i = entry_take(a);
  struct admit_entry *e = entry_at(a, i);
  *e = (struct admit_entry){
      .syn = *syn, .first_ms = now_ms, .heard_ms = now_ms, .hash_next = a->bucket[bucket]};
  e->syn.bucket = bucket;
  a->bucket[bucket] = i;
  link_entry(a, q, i);
  a->stats.parked++;
  if (!q->in_turn) {
    join_turns(a, prefix % ADMIT_PREFIXES);
  }
}

bool admit_next(struct admit *a, u32 now_ms, struct admit_syn *out) {
  for (u32 i = 0; i < EXPIRED_MAX && a->turn_head != ADMIT_NONE; i++) {
    u32 prefix = a->turn_head;
    struct admit_queue *q = &a->queue[prefix];
    if (q->count == 0) {  // what it had was given up
      (void)leave_turns(a);
      continue;
    }
    u32 age = now_ms - entry_at(a, q->oldest)->first_ms;
    u32 chosen = age > IN_ORDER_MS ? q->newest : q->oldest;
    struct admit_entry *e = entry_at(a, chosen);
    bool heard = now_ms - e->heard_ms <= ADMIT_PATIENCE_MS;
    leave(a, q, chosen);
    if (!heard) {
      a->stats.expired++;
      continue;
    }
    *out = e->syn;  // as it was left
    a->stats.resumed++;
    (void)leave_turns(a);
    if (q->count > 0) {
      join_turns(a, prefix);
    }
    return true;
  }
  return false;
}
