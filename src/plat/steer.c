// SPDX-License-Identifier: Apache-2.0
// Words that several cores touch, and who pairs with whom:
//   inbox, returned  pushed with release (push), taken whole with acquire (take_all): what a frame
//                    says is seen with it.
//   asleep           steer_sleep stores it, then loads the stacks; push changes a stack, then loads
//                    it: all ordered, so one of the two sees the other.
#include "plat/steer.h"

#include "base/shared.h"

#define AWAKE 0u
#define ASLEEP 1u
#define STARVED 2u  // and buffers that come home end it

struct seat {
  // Shared.
  u32 asleep ALIGNED(64);
  void *inbox[PLAT_NIC_MAX];  // frames by `after`, the newest first
  void *returned;             // buffers by `next`
  // The core's own.
  struct rxbuf *ready[PLAT_NIC_MAX] ALIGNED(64);  // taken from the inbox, the oldest first
  u64 dropped;
  u64 aside_to;  // cores for which something waits here, by bit
  u64 home_to;
  struct {
    struct rxbuf *newest[PLAT_NIC_MAX];
    struct rxbuf *oldest[PLAT_NIC_MAX];
  } aside[PLAT_CORE_MAX];
  struct {
    struct rxbuf *first;
    struct rxbuf *last;
  } home[PLAT_CORE_MAX];
  u32 lent[PLAT_CORE_MAX];
};
static_assert(PLAT_CORE_MAX <= 64, "sets of cores are words");

static struct seat seats[PLAT_CORE_MAX];
static struct flow_table flows;
static u32 lend_most;

void steer_init(u32 cores, u32 lend_max) {
  u8 key[FLOW_KEY_LEN];
  ASSERT(cores >= 1 && cores <= PLAT_CORE_MAX);
  (void)plat_random(span_of(key, sizeof key));
  flow_init(&flows, cores, key);
  memset(seats, 0, cores * sizeof seats[0]);
  lend_most = lend_max;
}

const struct flow_table *steer_flows(void) {
  return &flows;
}

static void wake(u32 core, u32 least) {
  u32 *asleep = &seats[core].asleep;
  if (shared_ordered_load_u32(asleep) >= least && shared_exchange_u32(asleep, AWAKE) != AWAKE) {
    plat_wake(core);
  }
}

void steer_wake(u32 core) {
  wake(core, ASLEEP);
}

// --- handing over

bool steer_is_mine(u32 core, struct rxbuf *frame, struct rxbuf **dropped) {
  if (flows.cores == 1) {
    return true;
  }
  u32 to = flow_core(&flows, bytes_of(frame->data, frame->len));
  ASSERT(to < flows.cores);
  struct seat *s = &seats[core];
  u32 count = 0;
  for (struct rxbuf *b = frame; b != NULL; b = b->next) {
    b->home = (u8)core;
    b->holder = (u8)to;
    count++;
  }
  if (to == core) {
    return true;
  }
  if (s->lent[to] + count > lend_most) {
    s->dropped++;
    *dropped = frame;
    for (struct rxbuf *b = frame; b != NULL; b = b->next) {
      b->holder = (u8)core;
    }
    return false;
  }
  s->lent[to] += count;
  u32 nic = frame->nic;
  frame->after = s->aside[to].newest[nic];
  s->aside[to].newest[nic] = frame;
  if (s->aside[to].oldest[nic] == NULL) {
    s->aside[to].oldest[nic] = frame;
  }
  s->aside_to |= 1ull << to;
  return false;
}

static void send_aside(struct seat *s, u32 to) {
  for (u32 nic = 0; nic < PLAT_NIC_MAX; nic++) {
    struct rxbuf *newest = s->aside[to].newest[nic];
    if (newest == NULL) {
      continue;
    }
    struct rxbuf *oldest = s->aside[to].oldest[nic];
    void *head = NULL;
    do {
      head = shared_relaxed_ptr(&seats[to].inbox[nic]);
      oldest->after = head;
    } while (!shared_replace_ptr(&seats[to].inbox[nic], head, newest));
    s->aside[to].newest[nic] = s->aside[to].oldest[nic] = NULL;
  }
  wake(to, ASLEEP);
}

static void send_home(struct seat *s, u32 to) {
  struct rxbuf *first = s->home[to].first;
  void *head = NULL;
  do {
    head = shared_relaxed_ptr(&seats[to].returned);
    s->home[to].last->next = head;
  } while (!shared_replace_ptr(&seats[to].returned, head, first));
  s->home[to].first = s->home[to].last = NULL;
  wake(to, STARVED);
}

void steer_send(u32 core) {
  struct seat *s = &seats[core];
  for (; s->aside_to != 0; s->aside_to &= s->aside_to - 1) {
    send_aside(s, (u32)__builtin_ctzll(s->aside_to));
  }
  for (; s->home_to != 0; s->home_to &= s->home_to - 1) {
    send_home(s, (u32)__builtin_ctzll(s->home_to));
  }
}

// --- taking

// The inbox holds the newest first; behind `ready` the oldest comes first.
static void take_inbox(struct seat *s, u32 nic) {
  struct rxbuf *newest = shared_exchange_ptr(&s->inbox[nic], NULL);
  struct rxbuf *in_order = NULL;
  while (newest != NULL) {
    struct rxbuf *older = newest->after;
    newest->after = in_order;
    in_order = newest;
    newest = older;
  }
  s->ready[nic] = in_order;
}

u32 steer_take(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  struct seat *s = &seats[core];
  u32 n = 0;
  if (flows.cores == 1) {
    return 0;
  }
  if (s->ready[nic] == NULL && shared_relaxed_ptr(&s->inbox[nic]) != NULL) {
    take_inbox(s, nic);
  }
  while (n < max && s->ready[nic] != NULL) {
    frames[n] = s->ready[nic];
    s->ready[nic] = frames[n]->after;
    frames[n]->after = NULL;
    n++;
  }
  return n;
}

struct rxbuf *steer_release(u32 core, struct rxbuf *chain) {
  if (flows.cores == 1) {
    return chain;
  }
  struct seat *s = &seats[core];
  struct rxbuf *own = NULL;
  while (chain != NULL) {
    struct rxbuf *b = chain;
    chain = b->next;
    u32 home = b->home;
    ASSERT(b->holder == core);
    if (home == core) {
      b->next = own;
      own = b;
      continue;
    }
    b->next = s->home[home].first;
    s->home[home].first = b;
    if (s->home[home].last == NULL) {
      s->home[home].last = b;
    }
    s->home_to |= 1ull << home;
  }
  return own;
}

struct rxbuf *steer_back(u32 core) {
  struct seat *s = &seats[core];
  if (flows.cores == 1 || shared_relaxed_ptr(&s->returned) == NULL) {
    return NULL;
  }
  struct rxbuf *all = shared_exchange_ptr(&s->returned, NULL);
  for (struct rxbuf *b = all; b != NULL; b = b->next) {
    ASSERT(b->home == core);
    ASSERT(s->lent[b->holder] > 0);
    s->lent[b->holder]--;
  }
  return all;
}

// --- around a halt

bool steer_sleep(u32 core, bool starved) {
  struct seat *s = &seats[core];
  if (flows.cores == 1) {
    return true;
  }
  steer_send(core);
  shared_ordered_store_u32(&s->asleep, starved ? STARVED : ASLEEP);
  bool quiet = !starved || shared_ordered_load_ptr(&s->returned) == NULL;
  for (u32 nic = 0; nic < PLAT_NIC_MAX; nic++) {
    quiet &= s->ready[nic] == NULL && shared_ordered_load_ptr(&s->inbox[nic]) == NULL;
  }
  return quiet;
}

void steer_awake(u32 core) {
  if (flows.cores > 1) {
    shared_ordered_store_u32(&seats[core].asleep, AWAKE);
  }
}

u64 steer_dropped(u32 core) {
  return seats[core].dropped;
}
