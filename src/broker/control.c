// SPDX-License-Identifier: Apache-2.0
// A session's control packets that wait to be sent (acknowledgements, PINGRESP, whole SUBACKs), in
// the order of what they answer, and its inbound QoS 2 identifiers, in the order of their arrival.
//
// I1  Both come from one pool, and the most a client can hold is bounded (CONTROL_MAX,
//     INBOUND_QOS2_MAX): a client that does not read its answers is not read itself.
#include "broker/state.h"

bool control_room(const struct session *s) {
  return s->control.count < CONTROL_MAX && s->b->controls.free_count > 0;
}

bool control_push(struct session *s, u8 type, u16 packet_id, u8 reason, u8 *block, u32 len) {
  struct broker *b = s->b;
  struct control *c = pool_take(&b->controls);
  if (c == NULL) {
    if (block != NULL) {
      blocks_put(&b->blocks, block);
    }
    return false;
  }
  *c = (struct control){.block = block,
                        .len = len,
                        .next = NONE,
                        .packet_id = packet_id,
                        .type = type,
                        .reason = reason};
  u32 index = pool_index(&b->controls, c);
  if (s->control.tail == NONE) {
    s->control.head = index;
  } else {
    control_at(b, s->control.tail)->next = index;
  }
  s->control.tail = index;
  s->control.count++;
  session_wake(s);
  return true;
}

void control_clear(struct session *s) {
  struct broker *b = s->b;
  while (s->control.head != NONE) {
    struct control *c = control_at(b, s->control.head);
    s->control.head = c->next;
    if (c->block != NULL) {
      blocks_put(&b->blocks, c->block);
    }
    pool_put(&b->controls, c);
  }
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
