// SPDX-License-Identifier: Apache-2.0
// A shared group on several cores. Its owner, the core of hash(group, filter), has the root: the
// filter is wanted there and nowhere else for this group, and messages queue there. A core with
// members has a branch: the same struct share with the members, fed by the root. Modelled in
// tests/models/share.pml.
//
//   branch -> root   JOIN: there are members; JOINED when every core routes to the root
//                    PULL n: so many messages could be taken now (never more than the members have
//                    room for, so nothing waits behind a member that is full)
//   root -> branch   MESSAGE, for each credit one
//   branch -> root   BACK: nobody here can have it any more; BACK_END puts them before the others
//   branch -> root   LEAVE: the last member has gone; LEFT: no message is under way any more; FREE
//
// I1  A root lives while it has members of its own or branches; a branch until FREE is sent.
// I2  credit (root) + PULLs and MESSAGEs under way = asked (branch).
// I3  Everything is sent from the stage, when there is room: a share that has something to say is
//     in the list of those to be looked at.
#include "broker/cross.h"

#define PULL_MAX 64u    // messages under way to one branch
#define MEMBER_MAX 16u  // of these, for one member

static struct branch *branch_of(const struct broker *b, u32 share) {
  return &b->cross->branch[share];
}

u64 branches_bytes(u32 shares) {
  return shares * (u64)sizeof(struct branch) + 64;
}

void branch_init(struct broker *b, u32 share, struct bytes filter, struct bytes group) {
  const struct cross *x = b->cross;
  u64 hash = siphash(&x->shared->key, filter) ^ siphash(&x->shared->key, group) * 31;
  u8 owner = (u8)(hash % x->shared->cores);
  *branch_of(b, share) = (struct branch){
      .owner = owner, .root = owner == b->core->id, .waiting = NONE, .far = NULL, .next = NONE};
}

bool branch_roots(const struct broker *b, u32 share) {
  return branch_of(b, share)->root;
}

bool branch_joined(const struct broker *b, u32 share) {
  const struct branch *n = branch_of(b, share);
  return n->root || n->state == BRANCH_JOINED;
}

bool branch_elsewhere(const struct broker *b, u32 share) {
  const struct branch *n = branch_of(b, share);
  return n->root ? n->joined != 0 : true;
}

bool branch_idle(const struct broker *b, u32 share) {
  const struct branch *n = branch_of(b, share);
  if (n->looked_at) {
    return false;  // the stage has it in its list
  }
  return n->root ? n->joined == 0 : n->state == BRANCH_NEW;
}

void branch_look(struct broker *b, u32 share) {
  struct cross *x = b->cross;
  struct branch *n = branch_of(b, share);
  if (!n->looked_at) {
    n->looked_at = true;
    n->next = NONE;
    *(x->branch_tail == NONE ? &x->branch_head : &branch_of(b, x->branch_tail)->next) = share;
    x->branch_tail = share;
  }
}

void branch_look_all(const struct session *s) {
  for (u32 i = s->shared; i != NONE; i = sub_at(s->b, i)->session_next) {
    branch_look(s->b, sub_at(s->b, i)->share);
  }
}

bool branch_wait(struct broker *b, u32 share, u32 ticket) {
  struct cross *x = b->cross;
  struct branch *n = branch_of(b, share);
  if (branch_joined(b, share)) {
    return true;
  }
  u32 i = x->waiter_free;
  if (i == NONE) {
    return false;
  }
  x->waiter_free = x->waiter[i].next;
  x->waiter[i] = (struct waiter){.ticket = ticket, .next = n->waiting};
  n->waiting = i;
  ticket_expect(b, ticket, 1);
  return true;
}

// --- mail

static void *put(struct broker *b, u32 to, u32 kind, u32 len) {
  struct span s = mailbox_put(b->core, to, MAIL_DATA, (enum mail_kind)kind, len, true);
  ASSERT(s.ptr != NULL);  // cross_data_room was asked
  return s.ptr;
}

// False: no room now.
static bool tell(struct broker *b, u32 to, u32 kind, struct share_mail m) {
  if (!cross_data_room(b, to, sizeof m)) {
    return false;
  }
  *(struct share_mail *)put(b, to, kind, sizeof m) = m;
  return true;
}

static bool send_join(struct broker *b, u32 share) {
  struct share *g = share_at(b, share);
  struct bytes filter;
  struct bytes group = level_text_bytes(&g->name);
  struct join_mail m = {.branch = share, .group_len = (u32)group.len};
  u32 to = branch_of(b, share)->owner;
  if (!cross_data_room(b, to, sizeof m) ||
      !tree_filter(b, g->node, span_of(b->mounted, sizeof b->mounted), &filter)) {
    return false;
  }
  m.filter_len = (u32)filter.len;
  m.text = blocks_take(&b->blocks, group.len + filter.len);
  if (m.text == NULL) {
    return false;
  }
  memcpy(m.text, group.ptr, group.len);
  memcpy(m.text + group.len, filter.ptr, filter.len);
  *(struct join_mail *)put(b, to, MAIL_JOIN, sizeof m) = m;
  return true;
}

static void join_back(struct core *core, u32 to, struct span body) {
  (void)to;
  blocks_put(&core->broker->blocks, ((struct join_mail *)(void *)body.ptr)->text);
}

static bool send_message(struct broker *b, u32 to, u32 kind, u32 share, struct message *m) {
  if (!cross_data_room(b, to, sizeof(struct share_message))) {
    return false;
  }
  *(struct share_message *)put(b, to, kind, sizeof(struct share_message)) =
      (struct share_message){.message = message_ref(m), .share = share};
  b->mail_refs++;
  return true;
}

static void message_back(struct core *core, u32 to, struct span body) {
  struct broker *b = core->broker;
  (void)to;
  b->mail_refs--;
  message_unref(b, ((struct share_message *)(void *)body.ptr)->message);
}

// --- the root

// Another core takes this message. False: none can now.
bool branch_give(struct broker *b, u32 share, struct message *m) {
  struct branch *n = branch_of(b, share);
  u32 cores = b->cross->shared->cores;
  for (u32 k = 0; n->root && n->credits > 0 && k < cores; k++) {
    u32 to = (n->turn + k) % cores;
    if (n->far[to].credit == 0) {
      continue;
    }
    if (send_message(b, to, MAIL_SHARE_MESSAGE, n->far[to].share, m)) {
      n->far[to].credit--;
      n->credits--;
      n->turn = (u8)((to + 1) % cores);
      return true;
    }
    branch_look(b, share);  // no room: again in the stage
  }
  return false;
}

static bool take_far(struct broker *b, struct branch *n) {
  u32 cores = b->cross->shared->cores;
  if (n->far == NULL) {
    n->far = blocks_take(&b->blocks, cores * sizeof(struct far));
    if (n->far != NULL) {
      memset(n->far, 0, cores * sizeof(struct far));
    }
  }
  return n->far != NULL;
}

static void on_join(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct join_mail *m = (const struct join_mail *)(const void *)body.ptr;
  struct share_mail answer = {.to = m->branch};
  u32 share = tree_group(b, bytes_of(m->text + m->group_len, m->filter_len),
                         bytes_of(m->text, m->group_len));
  struct branch *n = share == NONE ? NULL : branch_of(b, share);
  if (n == NULL || !take_far(b, n)) {
    if (n != NULL) {
      tree_group_prune(b, share);
    }
    answer.refused = true;
    post(b, from, MAIL_JOINED, &answer, sizeof answer);
    return;
  }
  ASSERT(n->root);
  ASSERT((n->joined & 1ull << from) == 0);
  n->joined |= 1ull << from;
  n->far[from] = (struct far){.share = m->branch};
  live_changed(b, share_at(b, share)->node);
  n->far[from].answer_at = live_seq(b);
  branch_look(b, share);
}

// Tells those who have joined, once every core routes to here. False: not yet.
static bool answer(struct broker *b, u32 share) {
  struct branch *n = branch_of(b, share);
  bool all = true;
  for (u64 left = n->joined; left != 0; left &= left - 1) {
    u32 to = (u32)__builtin_ctzll(left);
    struct far *f = &n->far[to];
    if (f->answer_at == 0) {
      continue;
    }
    if (live_until(b) < f->answer_at) {
      all = false;
      continue;
    }
    struct share_mail m = {.to = f->share, .from = share};
    post(b, to, MAIL_JOINED, &m, sizeof m);
    f->answer_at = 0;
  }
  return all;
}

static void on_pull(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct share_mail *m = (const struct share_mail *)(const void *)body.ptr;
  struct branch *n = branch_of(b, m->to);
  ASSERT((n->joined & 1ull << from) != 0);
  n->far[from].credit += m->count;
  n->credits += m->count;
  share_offer(b, share_at(b, m->to));
}

static void on_message_back(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct share_message *m = (const struct share_message *)(const void *)body.ptr;
  (void)from;
  struct message *copy = message_adopt(b, m->message);
  struct entry *e = copy == NULL ? NULL : pool_take(&b->entries);
  if (e == NULL) {
    b->stats.dropped[BROKER_DROPPED_GLOBAL]++;
    b->stats.publish_dropped++;
    if (copy != NULL) {
      message_unref(b, copy);
    }
    return;
  }
  *e = (struct entry){.message = copy, .next = NONE, .share = NONE};
  entries_push(b, &share_at(b, m->share)->back, pool_index(&b->entries, e));
}

static void on_back_end(struct core *core, u32 from, struct span body) {
  (void)from;
  share_take_back(core->broker, ((const struct share_mail *)(const void *)body.ptr)->to);
}

static void on_leave(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct share_mail *m = (const struct share_mail *)(const void *)body.ptr;
  struct branch *n = branch_of(b, m->to);
  ASSERT(n->credits >= n->far[from].credit);
  n->credits -= n->far[from].credit;
  n->far[from].credit = 0;
  struct share_mail answer = {.to = n->far[from].share};
  post(b, from, MAIL_LEFT, &answer, sizeof answer);
}

static void on_free(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  u32 share = ((const struct share_mail *)(const void *)body.ptr)->to;
  struct branch *n = branch_of(b, share);
  ASSERT((n->joined & 1ull << from) != 0);
  ASSERT(n->far[from].credit == 0);
  n->joined &= ~(1ull << from);
  if (n->joined == 0) {
    blocks_put(&b->blocks, n->far);
    n->far = NULL;
  }
  live_changed(b, share_at(b, share)->node);
  tree_group_prune(b, share);
}

// --- the branch

static void release_waiters(struct broker *b, struct branch *n) {
  struct cross *x = b->cross;
  while (n->waiting != NONE) {
    u32 i = n->waiting;
    n->waiting = x->waiter[i].next;
    ticket_home(b, x->waiter[i].ticket);
    x->waiter[i].next = x->waiter_free;
    x->waiter_free = i;
  }
}

static void on_joined(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct share_mail *m = (const struct share_mail *)(const void *)body.ptr;
  struct branch *n = branch_of(b, m->to);
  (void)from;
  ASSERT(n->state == BRANCH_ASKED);
  n->state = m->refused ? BRANCH_NEW : BRANCH_JOINED;
  n->root_share = m->from;
  for (u32 i = share_at(b, m->to)->first; m->refused && i != NONE; i = sub_at(b, i)->node_next) {
    session_doom(sub_at(b, i)->session, MQTT_QUOTA_EXCEEDED);
  }
  release_waiters(b, n);
  branch_look(b, m->to);
}

static void on_message(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct share_message *m = (const struct share_message *)(const void *)body.ptr;
  struct branch *n = branch_of(b, m->share);
  (void)from;
  ASSERT(n->asked > 0);
  n->asked--;
  struct message *copy = message_adopt(b, m->message);
  bool kept = copy != NULL && share_feed(b, share_at(b, m->share), copy);
  if (!kept) {
    b->stats.dropped[BROKER_DROPPED_GLOBAL]++;
    b->stats.publish_dropped++;
  }
  if (copy != NULL) {
    message_unref(b, copy);
  }
  branch_look(b, m->share);
}

static void on_left(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct share_mail *m = (const struct share_mail *)(const void *)body.ptr;
  struct branch *n = branch_of(b, m->to);
  (void)from;
  ASSERT(n->state == BRANCH_LEAVING);
  n->state = BRANCH_LEFT;
  n->asked = 0;
  branch_look(b, m->to);
}

// What its members could take, beside what is asked for.
static u32 wanted(const struct broker *b, const struct share *g, const struct branch *n) {
  u32 room = 0;
  for (u32 i = g->first; i != NONE && room < PULL_MAX; i = sub_at(b, i)->node_next) {
    room += MIN(share_member_room(sub_at(b, i)->session), MEMBER_MAX);
  }
  u32 have = n->asked + g->queue.count;
  room = MIN(room, PULL_MAX);
  return room > have ? room - have : 0;
}

// Gives back all that nobody here will take. False: no room now.
static bool give_back(struct broker *b, u32 share, bool nobody) {
  struct share *g = share_at(b, share);
  struct branch *n = branch_of(b, share);
  while (nobody && g->queue.head != NONE) {
    struct message *m = entry_at(b, g->queue.head)->message;
    if (!send_message(b, n->owner, MAIL_SHARE_BACK, n->root_share, m)) {
      return false;
    }
    share_drop_first(b, g);
    n->giving = true;
  }
  if (n->giving &&
      !tell(b, n->owner, MAIL_SHARE_BACK_END, (struct share_mail){.to = n->root_share})) {
    return false;
  }
  n->giving = false;
  return true;
}

// False: no room, or something to wait for in the next turns.
static bool look(struct broker *b, u32 share) {
  struct share *g = share_at(b, share);
  struct branch *n = branch_of(b, share);
  struct share_mail m = {.to = n->root_share};
  if (n->root) {
    share_offer(b, g);
    return answer(b, share);
  }
  if (g->count == 0) {
    release_waiters(b, n);  // they have gone again
  }
  if (n->state == BRANCH_NEW && g->count > 0) {
    if (!send_join(b, share)) {
      return false;
    }
    n->state = BRANCH_ASKED;
  }
  if (n->state == BRANCH_NEW || n->state == BRANCH_ASKED || n->state == BRANCH_LEAVING) {
    return true;
  }
  bool nobody = g->online == 0 || (g->full && g->offered == 0);
  if ((nobody || n->giving) && !give_back(b, share, nobody)) {
    return false;
  }
  if (g->count == 0 && n->state == BRANCH_JOINED) {
    if (!tell(b, n->owner, MAIL_SHARE_LEAVE, m)) {
      return false;
    }
    n->state = BRANCH_LEAVING;
    return true;
  }
  if (n->state == BRANCH_LEFT) {
    if (!tell(b, n->owner, MAIL_SHARE_FREE, m)) {
      return false;
    }
    n->state = BRANCH_NEW;
    return g->count == 0;  // else it joins again
  }
  m.count = wanted(b, g, n);
  if (m.count > 0) {
    if (!tell(b, n->owner, MAIL_SHARE_PULL, m)) {
      return false;
    }
    n->asked += m.count;
  }
  return true;
}

bool branch_stage(struct broker *b) {
  struct cross *x = b->cross;
  u32 last = x->branch_tail;
  bool busy = false;
  for (bool more = x->branch_head != NONE; more;) {
    u32 share = x->branch_head;
    struct branch *n = branch_of(b, share);
    more = share != last && n->next != NONE;
    x->branch_head = n->next;
    x->branch_tail = x->branch_head == NONE ? NONE : x->branch_tail;
    n->looked_at = false;
    if (!look(b, share)) {
      branch_look(b, share);
      busy = true;
    } else if (branch_idle(b, share) && share_at(b, share)->count == 0) {
      tree_group_prune(b, share);
    }
  }
  return busy;
}

void branches_open(struct core *core, struct span memory) {
  static const struct {
    u32 kind;
    mail_take *take;
    mail_done *done;
  } mail[] = {
      {MAIL_JOIN, on_join, join_back},
      {MAIL_JOINED, on_joined, NULL},
      {MAIL_SHARE_PULL, on_pull, NULL},
      {MAIL_SHARE_MESSAGE, on_message, message_back},
      {MAIL_SHARE_BACK, on_message_back, message_back},
      {MAIL_SHARE_BACK_END, on_back_end, NULL},
      {MAIL_SHARE_LEAVE, on_leave, NULL},
      {MAIL_LEFT, on_left, NULL},
      {MAIL_SHARE_FREE, on_free, NULL},
  };
  struct cross *x = core->broker->cross;
  x->branch = (struct branch *)(void *)memory.ptr;
  x->branch_head = x->branch_tail = x->waiter_free = NONE;
  for (u32 i = WAITERS; i-- > 0;) {
    x->waiter[i].next = x->waiter_free;
    x->waiter_free = i;
  }
  for (u32 i = 0; i < ARRAY_COUNT(mail); i++) {
    mailbox_on(core, (enum mail_kind)mail[i].kind, mail[i].take, mail[i].done);
  }
}
