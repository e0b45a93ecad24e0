// SPDX-License-Identifier: Apache-2.0
// SUBSCRIBE and UNSUBSCRIBE. Routing is live before the SUBACK is queued; retained messages follow
// behind it.
//
// I1  One code a filter, in order [MQTT-3.8.4-6] [MQTT-3.11.3-1].
// I2  SUBACK stands before the retained messages it brings: it is queued as a control packet, and
//     while it waits (for other cores to route by the new filter) so does the queue.
#include "broker/cross.h"

static bool too_deep(struct bytes filter) {
  u32 levels = 1;
  for (usize i = 0; i < filter.len; i++) {
    levels += filter.ptr[i] == '/' ? 1 : 0;
  }
  return levels > LEVELS_MAX;
}

// [MQTT-3.2.2-10] [MQTT-3.8.4-3] [MQTT-3.8.4-4] [MQTT-3.8.4-7]
static u8 subscribe_one(struct session *s, const struct mqtt_subscribe *p, struct bytes packet,
                        const struct mqtt_entry *e, u64 now_ns) {
  struct broker *b = s->b;
  struct bytes filter = bytes_part(packet, e->filter);
  struct bytes whole = filter;
  struct bytes group = bytes_of(NULL, 0);
  bool shared = topic_shared(whole, &group, &filter);
  filter = mount_in(b, session_mount(s), filter);
  if (filter.ptr == NULL) {
    return MQTT_TOPIC_FILTER_INVALID;
  }
  whole = session_mount(s).len > 0 ? filter : whole;
  if (too_deep(filter)) {
    return MQTT_TOPIC_FILTER_INVALID;
  }
  if (!access_allows(s, ACCESS_SUBSCRIBE, whole)) {
    return MQTT_NOT_AUTHORIZED;
  }
  bool existed = false;
  if (s->number != 0 && store_refuses(b->durable.store)) {
    return MQTT_QUOTA_EXCEEDED;
  }
  struct sub *sub = tree_subscribe(b, s, filter, group, &existed);
  if (sub == NULL) {
    return MQTT_QUOTA_EXCEEDED;
  }
  if (shared && b->cross != NULL && !branch_wait(b, sub->share, b->sub_ticket)) {
    if (!existed) {
      tree_remove(b, sub);
    }
    return MQTT_QUOTA_EXCEEDED;
  }
  sub->qos = MIN(e->qos, s->qos_max);
  sub->flags = (u8)((e->no_local || s->bridge ? SUB_NO_LOCAL : 0) |
                    (e->retain_as_published || s->bridge ? SUB_RAP : 0));
  sub->identifier = mqtt_has(&p->props, MQTT_P_SUBSCRIPTION_ID) ? p->props.subscription_id[0] : 0;
  // [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]; none for shared subscriptions (4.8.2)
  bool replay = !shared && (e->retain_handling == 0 || (e->retain_handling == 1 && !existed));
  if (replay && !retained_start(b, sub, filter, now_ns)) {
    if (!existed) {
      tree_remove(b, sub);
    }
    return MQTT_QUOTA_EXCEEDED;
  }
  durable_subscribe(s, sub, filter, group, existed);
  return sub->qos;
}

// [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-3]
static u8 unsubscribe_one(struct session *s, struct bytes packet, const struct mqtt_entry *e) {
  struct bytes filter = bytes_part(packet, e->filter);
  struct bytes whole = filter;
  struct bytes group = bytes_of(NULL, 0);
  (void)topic_shared(whole, &group, &filter);
  filter = mount_in(s->b, session_mount(s), filter);
  if (filter.ptr == NULL) {
    return MQTT_NO_SUBSCRIPTION_EXISTED;
  }
  whole = session_mount(s).len > 0 ? filter : whole;
  if (!access_allows(s, ACCESS_UNSUBSCRIBE, whole)) {
    return MQTT_NOT_AUTHORIZED;
  }
  struct sub *sub = too_deep(filter) ? NULL : tree_find(s->b, s, filter, group);
  if (sub == NULL) {
    return MQTT_NO_SUBSCRIPTION_EXISTED;
  }
  retained_cancel(s->b, sub);
  tree_remove(s->b, sub);
  durable_unsubscribe(s, filter, group);
  return MQTT_SUCCESS;
}

// Room for a record of each entry: the longest head of one, and the strings with the mount point.
static bool durable_packet_room(const struct session *s, struct bytes packet, u32 entries) {
  return s->number == 0 ||
         durable_room(s->b, packet.len + entries * (32 + session_mount(s).len), entries);
}

// SUBACK or UNSUBACK for the codes that are filled in by the caller at *codes: the packet's bytes
// are laid out with the codes last. NULL: no memory.
// [MQTT-2.2.1-6] [MQTT-3.8.4-2] [MQTT-3.9.2-1]
static u8 *ack_block(struct session *s, enum mqtt_type type, u16 packet_id, u32 count, u32 *len) {
  u32 most = 1 + 4 + 2 + 1 + count;
  u8 *block = blocks_take(&s->b->blocks, most);
  if (block == NULL) {
    return NULL;
  }
  bool v5 = s->version == MQTT_V5;
  bool has_codes = v5 || type == MQTT_SUBACK;
  struct writer w = writer_init(span_of(block, most));
  write_u8(&w, (u8)(type << 4));
  mqtt_write_varint(&w, 2 + (v5 ? 1 : 0) + (has_codes ? count : 0));
  write_be16(&w, packet_id);
  if (v5) {
    write_u8(&w, 0);  // no properties
  }
  ASSERT(w.err == ERR_OK);
  *len = w.pos;
  return block;
}

static u8 wire_code(const struct session *s, u8 code) {
  return s->version != MQTT_V5 && code >= 0x80 ? 0x80 : code;
}

// [MQTT-3.8.4-1] [MQTT-3.8.4-5] [MQTT-3.9.3-1]
enum mqtt_reason broker_on_subscribe(struct session *s, const struct mqtt_subscribe *sub,
                                     struct bytes packet, u64 now_ns) {
  s->b->stats.messages_received++;
  s->b->stats.bytes_received += packet.len;
  u32 len = 0;
  u64 mark = durable_mark(s->b);
  bool wait = s->b->cross != NULL;
  bool room = control_room(s) && durable_packet_room(s, packet, sub->entry_count);
  u32 ticket = !wait || !room || !live_room(s->b) ? NONE : ticket_open(s->b, s);
  room = room && (!wait || ticket != NONE);
  u8 *block = !room ? NULL : ack_block(s, MQTT_SUBACK, sub->packet_id, sub->entry_count, &len);
  if (block == NULL) {
    if (ticket != NONE) {
      ticket_leave(s->b, ticket);
    }
    return MQTT_SERVER_BUSY;
  }
  s->b->sub_ticket = ticket;
  struct mqtt_entry e;
  u32 pos = sub->entries.off;
  u32 count = 0;
  while (mqtt_subscribe_entry(packet, sub, &pos, &e)) {
    ASSERT(count < sub->entry_count);
    block[len + count++] = wire_code(s, subscribe_one(s, sub, packet, &e, now_ns));
  }
  ASSERT(count == sub->entry_count);
  if (wait) {
    live_wait(s->b, ticket);
  }
  (void)durable_push(s, mark, ticket, MQTT_SUBACK, sub->packet_id, 0, block, len + count);
  return MQTT_SUCCESS;
}

// [MQTT-3.10.4-4] [MQTT-3.10.4-5] [MQTT-3.10.4-6]
enum mqtt_reason broker_on_unsubscribe(struct session *s, const struct mqtt_subscribe *u,
                                       struct bytes packet, u64 now_ns) {
  (void)now_ns;
  s->b->stats.messages_received++;
  s->b->stats.bytes_received += packet.len;
  u32 len = 0;
  u64 mark = durable_mark(s->b);
  bool room = control_room(s) && durable_packet_room(s, packet, u->entry_count);
  u8 *block = !room ? NULL : ack_block(s, MQTT_UNSUBACK, u->packet_id, u->entry_count, &len);
  if (block == NULL) {
    return MQTT_SERVER_BUSY;
  }
  struct mqtt_entry e;
  u32 pos = u->entries.off;
  u32 count = 0;
  while (mqtt_unsubscribe_entry(packet, u, &pos, &e)) {
    ASSERT(count < u->entry_count);
    block[len + count++] = unsubscribe_one(s, packet, &e);
  }
  ASSERT(count == u->entry_count);
  u32 codes = s->version == MQTT_V5 ? count : 0;
  (void)durable_push(s, mark, NONE, MQTT_UNSUBACK, u->packet_id, 0, block, len + codes);
  return MQTT_SUCCESS;
}
