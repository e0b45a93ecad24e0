// SPDX-License-Identifier: Apache-2.0
// A session's control packets that wait to be sent (acknowledgements, PINGRESP, whole SUBACKs), in
// the order of what they answer, and its inbound QoS 2 identifiers, in the order of their arrival.
//
// I1  Both come from one pool, and the most a client can hold is bounded (CONTROL_MAX,
//     INBOUND_QOS2_MAX): a client that does not read its answers is not read itself.
// I2  What waits for a ticket stands in `held` with everything that came behind it, so that
//     acknowledgements leave in the order of what they answer [MQTT-4.6.0-2..4]; `held` is empty
//     or begins with one that waits.
#include "broker/state.h"

bool control_room(const struct session *s) {
  return s->control.count < CONTROL_MAX && s->b->controls.free_count > 0;
}

// I2: whoever waits, and everything behind it.
static void hold(struct session *s, u32 index) {
  struct broker *b = s->b;
  *(s->held_tail == NONE ? &s->held_head : &control_at(b, s->held_tail)->next) = index;
  s->held_tail = index;
  if (control_at(b, index)->type == MQTT_SUBACK) {
    s->held_subacks++;
  }
}

static void send(struct session *s, u32 index) {
  if (s->control.tail == NONE) {
    s->control.head = index;
  } else {
    control_at(s->b, s->control.tail)->next = index;
  }
  s->control.tail = index;
}

bool control_push_after(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block, u32 len,
                        u32 ticket) {
  struct broker *b = s->b;
  struct control *c = pool_take(&b->controls);
  if (c == NULL) {
    if (block != NULL) {
      blocks_put(&b->blocks, block);
    }
    if (ticket != NONE) {
      ticket_leave(b, ticket);
    }
    return false;
  }
  *c = (struct control){.block = block,
                        .len = len,
                        .next = NONE,
                        .ticket = ticket,
                        .packet_id = packet_id,
                        .type = type,
                        .reason = reason};
  s->control.count++;
  // A PINGRESP answers for the connection, not for what is stored: it passes.
  bool passes = (type == MQTT_PINGRESP && !s->opening) || s->held_head == NONE;
  if (ticket == NONE && passes) {
    send(s, pool_index(&b->controls, c));
    session_wake(s);
    return true;
  }
  hold(s, pool_index(&b->controls, c));
  if (ticket != NONE && ticket_at(b, ticket)->parts == 0) {
    control_release(s);
  }
  return true;
}

bool control_push(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block, u32 len) {
  return control_push_after(s, type, packet_id, reason, block, len, NONE);
}

void control_release(struct session *s) {
  struct broker *b = s->b;
  while (s->held_head != NONE) {
    u32 index = s->held_head;
    struct control *c = control_at(b, index);
    if (c->ticket != NONE) {
      if (ticket_at(b, c->ticket)->parts > 0) {
        break;
      }
      c->reason = ticket_reason(b, c->ticket, c->reason);
      ticket_leave(b, c->ticket);
      c->ticket = NONE;
    }
    s->held_head = c->next;
    s->held_tail = c->next == NONE ? NONE : s->held_tail;
    if (c->type == MQTT_SUBACK) {
      s->held_subacks--;
    }
    c->next = NONE;
    s->opening = s->opening && c->type != MQTT_CONNACK;
    send(s, index);
  }
  session_wake(s);
}

static void clear(struct session *s, u32 head) {
  struct broker *b = s->b;
  while (head != NONE) {
    struct control *c = control_at(b, head);
    head = c->next;
    if (c->block != NULL) {
      blocks_put(&b->blocks, c->block);
    }
    if (c->ticket != NONE) {
      ticket_leave(b, c->ticket);
    }
    pool_put(&b->controls, c);
  }
}

void control_clear(struct session *s) {
  clear(s, s->control.head);
  clear(s, s->held_head);
  s->held_head = s->held_tail = NONE;
  s->held_subacks = 0;
  list_reset(&s->control);
}

static u32 *inbound_link(struct session *s, u16 packet_id) {
  u32 *link = &s->inbound;
  while (*link != NONE && control_at(s->b, *link)->packet_id != packet_id) {
    link = &control_at(s->b, *link)->next;
  }
  return link;
}

bool inbound_has(const struct session *s, u16 packet_id) {
  u32 i = s->inbound;
  while (i != NONE && control_at(s->b, i)->packet_id != packet_id) {
    i = control_at(s->b, i)->next;
  }
  return i != NONE;
}

bool inbound_add(struct session *s, u16 packet_id) {
  struct control *c = pool_take(&s->b->controls);
  if (c == NULL) {
    return false;
  }
  u32 *link = inbound_link(s, packet_id);
  ASSERT(*link == NONE);
  c->packet_id = packet_id;
  c->next = NONE;
  *link = pool_index(&s->b->controls, c);
  s->inbound_count++;
  return true;
}

bool inbound_remove(struct session *s, u16 packet_id) {
  u32 *link = inbound_link(s, packet_id);
  if (*link == NONE) {
    return false;
  }
  struct control *c = control_at(s->b, *link);
  *link = c->next;
  pool_put(&s->b->controls, c);
  ASSERT(s->inbound_count > 0);
  s->inbound_count--;
  return true;
}

bool broker_answer(struct session *s, enum mqtt_type type, struct bytes packet) {
  if (s->control.count >= CONTROL_MAX) {
    return false;
  }
  u8 *block = blocks_take(&s->b->blocks, (u32)packet.len);
  if (block == NULL) {
    return false;
  }
  memcpy(block, packet.ptr, packet.len);
  return control_push(s, (u8)type, 0, 0, block, (u32)packet.len);
}
