// SPDX-License-Identifier: Apache-2.0
// The broker's memory: every pool and table, from one sum.
#include "broker/cross.h"

// What one session is given, beside its messages.
#define SUBS_PER_SESSION 4u
#define NODES_PER_SESSION 6u
#define ENTRIES_PER_SESSION 24u
#define RNODES_PER_SESSION 10u
#define RETAINED_PER_SESSION 5u

static u32 table_size(u32 objects) {
  u32 size = 16;
  while (size < objects) {
    size *= 2;
  }
  return size;
}

static u32 controls_of(const struct broker_limits *l) {
  return l->sessions * 4 + 1024;
}
static u32 tickets_of(const struct broker_limits *l) {
  return l->sessions + 1024;
}
static u32 rnodes_of(const struct broker_limits *l) {
  return l->retained * (RNODES_PER_SESSION / RETAINED_PER_SESSION) + 16;
}
u32 broker_shares(const struct broker_limits *l) {
  return l->subscriptions / 8 + 16;
}
static u32 replays_of(const struct broker_limits *l) {
  return l->sessions * 2 + 16;
}

void broker_limits_default(struct broker_limits *out, u64 memory_len) {
  // 5/8 of the memory for sessions and what belongs to them (an eighth of that for red zones and
  // the rounding of tables), what is then left for messages.
  u64 bundle = sizeof(struct session) + 16 +                       // and its bucket
               SUBS_PER_SESSION * (sizeof(struct sub) + 16) +      //
               SUBS_PER_SESSION / 4 * sizeof(struct share) +       //
               NODES_PER_SESSION * (sizeof(struct tnode) + 16) +   //
               ENTRIES_PER_SESSION * (sizeof(struct entry) + 1) +  //
               4 * (sizeof(struct control) + 9) +                  //
               sizeof(struct ticket) + 9 +                         //
               RNODES_PER_SESSION * (sizeof(struct rnode) + 16) +  //
               2 * (sizeof(struct replay) + 17);
  u64 sessions = memory_len / 8 * 5 / (bundle + bundle / 8);
  sessions = MIN(MAX(sessions, 4ull), 1000000ull);
  *out = (struct broker_limits){
      .sessions = (u32)sessions,
      .subscriptions = (u32)sessions * SUBS_PER_SESSION,
      .topic_nodes = (u32)sessions * NODES_PER_SESSION,
      .queue_entries = (u32)sessions * ENTRIES_PER_SESSION,
      .session_queued_max = 1000,
      .session_inflight_max = 20,
      .retained = (u32)sessions * RETAINED_PER_SESSION,
      .packet_size_max = 2000000,
      .topic_alias_max = 10,
      .topic_alias_max_out = 10,
      .v4_expiry_s = U32_MAX,
      .retain_available = true,
      .check_retain_source = true,
      .allow_empty_client_id = true,
      .client_id_prefix = BYTES_LIT("auto-"),
  };
  u64 fixed = broker_bytes(out);
  u64 room = memory_len > fixed ? memory_len - fixed : 0;
  out->message_bytes = ALIGN_DOWN(room - room / 64, (u64)BLOCK_GRANULE);
}

u64 broker_bytes(const struct broker_limits *l) {
  u64 tables = (u64)table_size(l->sessions) + table_size(l->subscriptions) +
               table_size(l->topic_nodes) + table_size(rnodes_of(l));
  u64 sum = 0;
  sum += sizeof(struct broker) + 64;
  sum += pool_bytes(sizeof(struct session), l->sessions) + 64;
  sum += pool_bytes(sizeof(struct sub), l->subscriptions) + 64;
  sum += pool_bytes(sizeof(struct tnode), l->topic_nodes) + 64;
  sum += pool_bytes(sizeof(struct share), broker_shares(l)) + 64;
  sum += pool_bytes(sizeof(struct entry), l->queue_entries) + 64;
  sum += pool_bytes(sizeof(struct control), controls_of(l)) + 64;
  sum += pool_bytes(sizeof(struct ticket), tickets_of(l)) + 64;
  sum += pool_bytes(sizeof(struct rnode), rnodes_of(l)) + 64;
  sum += pool_bytes(sizeof(struct replay), replays_of(l)) + 64;
  sum += tables * sizeof(u32) + 4 * 64;  // hash tables
  sum += access_bytes(l) + 64;
  sum += blocks_bytes(l->message_bytes) + 64;
  return sum;
}

static bool take_pool(struct carve *carve, struct pool *p, const char *name, u32 size, u32 count) {
  struct span memory = carve_take(carve, pool_bytes(size, count), 64);
  if (memory.ptr == NULL) {
    return false;
  }
  pool_init(p, name, memory, size, count);
  return true;
}

static bool take_table(struct carve *carve, struct table *t, u32 objects) {
  u32 size = table_size(objects);
  struct span memory = carve_take(carve, (usize)size * sizeof(u32), 64);
  if (memory.ptr == NULL) {
    return false;
  }
  t->bucket = (u32 *)(void *)memory.ptr;
  t->mask = size - 1;
  memset(t->bucket, 0xff, (usize)size * sizeof(u32));  // NONE
  return true;
}

enum err broker_init(struct core *core, struct carve *carve, const struct broker_limits *l) {
  struct span own = carve_take(carve, sizeof(struct broker), 64);
  struct span memory = carve_take(carve, (usize)blocks_bytes(l->message_bytes), 64);
  if (own.ptr == NULL || memory.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  struct broker *b = (struct broker *)(void *)own.ptr;
  b->core = core;
  b->limits = *l;
  b->more_ceilings =
      l->session_queued_bytes_max != 0 || l->queued_max != 0 || l->queued_bytes_max != 0;
  bool ok =
      take_pool(carve, &b->sessions, "session", sizeof(struct session), l->sessions) &&
      take_pool(carve, &b->subs, "subscription", sizeof(struct sub), l->subscriptions) &&
      take_pool(carve, &b->nodes, "topic node", sizeof(struct tnode), l->topic_nodes) &&
      take_pool(carve, &b->shares, "share group", sizeof(struct share), broker_shares(l)) &&
      take_pool(carve, &b->entries, "queue entry", sizeof(struct entry), l->queue_entries) &&
      take_pool(carve, &b->controls, "control packet", sizeof(struct control), controls_of(l)) &&
      take_pool(carve, &b->tickets, "ticket", sizeof(struct ticket), tickets_of(l)) &&
      take_pool(carve, &b->rnodes, "retained node", sizeof(struct rnode), rnodes_of(l)) &&
      take_pool(carve, &b->replays, "replay", sizeof(struct replay), replays_of(l)) &&
      take_table(carve, &b->session_table, l->sessions) &&
      take_table(carve, &b->sub_table, l->subscriptions) &&
      take_table(carve, &b->node_table, l->topic_nodes) &&
      take_table(carve, &b->rnode_table, rnodes_of(l)) && access_init(b, carve);
  if (!ok) {
    return ERR_NO_MEMORY;
  }
  blocks_init(&b->blocks, memory, l->message_bytes);
  b->route_head = b->route_tail = b->route_shared = NONE;
  b->stall_head = b->stall_tail = b->doom_head = NONE;
  b->disk_head = b->disk_tail = b->route_ticket = b->durable.wait_head = NONE;
  list_init(&b->wait_list);
  tree_init(b);
  retained_init(b);
  core->broker = b;
  core->on_timer[TIMER_SESSION] = session_timer;
  return ERR_OK;
}

bool broker_stage(struct core *core, void *broker) {
  struct broker *b = broker;
  bool did = b->durable.store != NULL && durable_flush_removes(b);
  did |= ceiling_stage(b, core->now_ns);
  if (b->cross != NULL) {
    did |= cross_stage(b);
  }
  did |= share_stage(b);
  return retained_stage(b, core->now_ns) || did;
}

void broker_set_ops(struct broker *b, const struct broker_ops *ops) {
  b->ops = *ops;
}

const char *broker_drop_name(enum broker_drop why) {
  switch (why) {
  case BROKER_DROPPED_QUEUE: return "queue full";
  case BROKER_DROPPED_OLD: return "made room";
  case BROKER_DROPPED_GLOBAL: return "global ceiling";
  case BROKER_DROPPED_EXPIRED: return "expired";
  case BROKER_DROPPED_TOO_LARGE: return "too large";
  case BROKER_DROPPED_RETAINED: return "not retained";
  case BROKER_DROPPED_COUNT: break;
  }
  return "unknown";
}

const struct broker_stats *broker_stats(const struct broker *b) {
  return &b->stats;
}

void broker_change_limits(struct broker *b, const struct broker_limits *l) {
  struct broker_limits *to = &b->limits;
  to->session_queued_max = l->session_queued_max;
  to->session_queued_bytes_max = l->session_queued_bytes_max;
  to->session_inflight_max = l->session_inflight_max;
  to->session_inflight_bytes_max = l->session_inflight_bytes_max;
  to->drop_policy = l->drop_policy;
  to->session_message_rate = l->session_message_rate;
  to->session_byte_rate = l->session_byte_rate;
  to->packet_size_max = l->packet_size_max;
  to->payload_size_max = l->payload_size_max;
  to->clients_max = l->clients_max;
  to->retained_expiry_s = l->retained_expiry_s;
  to->keep_alive_max = l->keep_alive_max;
  to->v4_expiry_s = l->v4_expiry_s;
  to->retain_available = l->retain_available;
  to->queue_qos0 = l->queue_qos0;
  to->upgrade_outgoing_qos = l->upgrade_outgoing_qos;
  to->allow_empty_client_id = l->allow_empty_client_id;
  to->client_id_prefix = l->client_id_prefix;
}
