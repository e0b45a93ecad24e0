// SPDX-License-Identifier: Apache-2.0
// Intrusive doubly linked circular list. A head is a link that is its own neighbour when empty; a
// link that is in no list points to itself (list_init), so that list_remove is always safe and
// `list_linked` tells.
#pragma once
#include "base/assert.h"
#include "base/cc.h"

struct link {
  struct link *next;
  struct link *prev;
};

static inline void list_init(struct link *l) { l->next = l->prev = l; }
static inline bool list_linked(const struct link *l) { return l->next != l; }
static inline bool list_empty(const struct link *head) { return head->next == head; }
static inline void list_insert_before(struct link *at, struct link *l) {
  ASSERT(l->next == l);
  l->prev = at->prev;
  l->next = at;
  at->prev->next = l;
  at->prev = l;
}
static inline void list_push(struct link *head, struct link *l) { list_insert_before(head, l); }
static inline void list_push_front(struct link *head, struct link *l) {
  list_insert_before(head->next, l);
}
static inline void list_remove(struct link *l) {
  l->prev->next = l->next;
  l->next->prev = l->prev;
  list_init(l);
}
// First link, removed; NULL when empty.
static inline struct link *list_pop(struct link *head) {
  struct link *l = head->next;
  if (l == head) {
    return NULL;
  }
  list_remove(l);
  return l;
}
