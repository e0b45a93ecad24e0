// SPDX-License-Identifier: Apache-2.0
// What an acknowledgement waits for, as a count: a part for each core that the message went to, and
// one for the disk. The last part to come home sends the acknowledgement, and those behind it that
// wait for nothing else (control.c).
//
// I1  Parts that wait for the disk stand in one list in the order of their LSNs, as they were
//     written: durable is a prefix of it.
// I2  A ticket lives until its parts are home, also when its session's connection is gone: its
//     number may be under way to other cores, and is not given to another meanwhile.
#include "broker/state.h"

u32 ticket_open(struct broker *b, const struct session *s) {
  struct ticket *t = pool_take(&b->tickets);
  if (t == NULL) {
    return NONE;
  }
  *t = (struct ticket){.next = NONE, .session = s->index};
  return pool_index(&b->tickets, t);
}

void ticket_expect(struct broker *b, u32 ticket, u32 parts) {
  struct ticket *t = ticket_at(b, ticket);
  ASSERT(t->parts <= U32_MAX - parts);
  t->parts += parts;
}

void ticket_expect_lsn(struct broker *b, u32 ticket, u64 lsn) {
  struct ticket *t = ticket_at(b, ticket);
  ASSERT(lsn != 0);
  ASSERT(t->lsn == 0);  // one part for the disk: the last record
  ASSERT(b->disk_tail == NONE || ticket_at(b, b->disk_tail)->lsn <= lsn);  // I1
  t->lsn = lsn;
  t->parts++;
  *(b->disk_tail == NONE ? &b->disk_head : &ticket_at(b, b->disk_tail)->next) = ticket;
  b->disk_tail = ticket;
}

void ticket_found(struct broker *b, u32 ticket, u32 matched, u32 dropped) {
  struct ticket *t = ticket_at(b, ticket);
  ASSERT(dropped <= matched);
  t->kept |= matched > dropped;
  t->full |= matched > 0 && matched == dropped;
}

// Success when anybody has it; else that all were full; else that nobody wants it.
u8 ticket_reason(const struct broker *b, u32 ticket, u8 own) {
  const struct ticket *t = ticket_at(b, ticket);
  if (own != MQTT_SUCCESS && own != MQTT_NO_MATCHING_SUBSCRIBERS && own != MQTT_QUOTA_EXCEEDED) {
    return own;
  }
  return t->kept                                          ? MQTT_SUCCESS
         : t->full && own == MQTT_NO_MATCHING_SUBSCRIBERS ? MQTT_QUOTA_EXCEEDED
                                                          : own;
}

void ticket_home(struct broker *b, u32 ticket) {
  struct ticket *t = ticket_at(b, ticket);
  ASSERT(t->parts > 0);
  if (--t->parts > 0) {
    return;
  }
  if (t->session == NONE) {
    pool_put(&b->tickets, t);
  } else {
    control_release(session_at(b, t->session));
  }
}

void ticket_leave(struct broker *b, u32 ticket) {
  struct ticket *t = ticket_at(b, ticket);
  ASSERT(t->session != NONE);
  t->session = NONE;
  if (t->parts == 0) {
    pool_put(&b->tickets, t);
  }
}

void ticket_durable(struct broker *b, u64 lsn) {
  while (b->disk_head != NONE && ticket_at(b, b->disk_head)->lsn <= lsn) {
    u32 ticket = b->disk_head;
    struct ticket *t = ticket_at(b, ticket);
    b->disk_head = t->next;
    b->disk_tail = t->next == NONE ? NONE : b->disk_tail;
    t->next = NONE;
    ticket_home(b, ticket);
  }
}
