// SPDX-License-Identifier: Apache-2.0
// Control mail that is never refused (cross.h). What is under way is bounded by CLAIMS on each
// core, and so is the outbox: no CONNECT is begun while it is short.
//
// I1  Posts to one core arrive in order, and no data that is put later arrives before them: data
//     waits while the outbox has something for that core (cross_data_room).
#include "broker/cross.h"

void post_open(struct core *core) {
  struct cross *x = core->broker->cross;
  for (u32 i = 0; i < PLAT_CORE_MAX; i++) {
    x->outbox[i] = (struct outbox){NONE, NONE};
  }
  x->post_free = NONE;
  for (u32 i = POSTS; i-- > 0;) {
    x->post[i].next = x->post_free;
    x->post_free = i;
  }
  x->post_left = POSTS;
}

static bool put(struct broker *b, u32 to, u32 kind, const void *body, u32 len) {
  struct span s = mailbox_put(b->core, to, MAIL_CONTROL, (enum mail_kind)kind, len, true);
  if (s.ptr != NULL) {
    memcpy(s.ptr, body, len);
  }
  return s.ptr != NULL;
}

void post(struct broker *b, u32 to, u32 kind, const void *body, u32 len) {
  struct cross *x = b->cross;
  ASSERT(len <= POST_MAX);
  if (to == b->core->id) {
    u8 copy[POST_MAX] ALIGNED(8);
    memcpy(copy, body, len);
    mailbox_hand(b->core, (enum mail_kind)kind, span_of(copy, len));
    return;
  }
  if (post_none(b, to) && put(b, to, kind, body, len)) {
    return;
  }
  u32 i = x->post_free;
  ASSERT(i != NONE);
  struct post *p = &x->post[i];
  x->post_free = p->next;
  x->post_left--;
  *p = (struct post){.next = NONE, .kind = (u8)kind, .len = (u8)len};
  memcpy(p->body, body, len);
  struct outbox *o = &x->outbox[to];
  *(o->head == NONE ? &o->head : &x->post[o->tail].next) = i;
  o->tail = i;
}

bool post_none(const struct broker *b, u32 to) {
  return b->cross->outbox[to].head == NONE;
}

bool post_stage(struct broker *b) {
  struct cross *x = b->cross;
  for (u32 to = 0; to < x->shared->cores && x->post_left < POSTS; to++) {
    struct outbox *o = &x->outbox[to];
    while (o->head != NONE) {
      struct post *p = &x->post[o->head];
      if (!put(b, to, p->kind, p->body, p->len)) {
        break;
      }
      u32 i = o->head;
      o->head = p->next;
      p->next = x->post_free;
      x->post_free = i;
      x->post_left++;
    }
  }
  return x->post_left < POSTS;
}
