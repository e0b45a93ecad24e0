// SPDX-License-Identifier: Apache-2.0
#include "broker/broker.h"

#include "broker/state.h"

#define SUBACK_CODES_MAX 512u  // filters of one SUBSCRIBE; more is a quota error

// Everything from one figure, so that twice the memory is twice the clients. Shares in 1/64.
void broker_limits_default(struct broker_limits *out, u64 memory_len) {
  u64 part = memory_len / 64;
  *out = (struct broker_limits){
      .sessions = (u32)MIN(4 * part / 512, 4000000ull),       // 4: session and hash entry
      .subscriptions = (u32)MIN(4 * part / 64, 8000000ull),   // 4
      .topic_nodes = (u32)MIN(6 * part / 96, 8000000ull),     // 6
      .queue_entries = (u32)MIN(8 * part / 32, 16000000ull),  // 8
      .retained = (u32)MIN(2 * part / 40, 4000000ull),        // 2
      .message_bytes = 36 * part,                             // 36: payloads, topics, names
      .session_queued_max = 1000,
      .session_inflight_max = 20,
      .packet_size_max = 2000000,
      .topic_alias_max = ALIAS_MAX,
      .retain_available = true,
      .qos_max = 2,
      .v4_expiry_s = U32_MAX,
  };
}

static u32 hash_size(u32 count) {
  u32 size = 256;
  while (size < count && size < 1u << 30) {
    size *= 2;
  }
  return size;
}

// Shares of message_bytes in 1/16, by size: small messages are the many.
static const struct {
  u32 size, share;
} blobs[5] = {{64, 1}, {128, 4}, {256, 3}, {512, 2}, {1024, 2}};  // the other 4/16: page runs

static u32 extent_pages(const struct broker_limits *l) {
  return (u32)(l->message_bytes / 16 * 4 / (EXTENT_PAGE + 9));
}

static bool make_pool(struct carve *carve, struct pool *p, const char *name, u32 size, u32 count) {
  usize len = pool_bytes(size, count);
  struct span memory = carve_take(carve, len, 64);
  if (memory.ptr != NULL) {
    pool_init(p, name, memory, size, count);
  }
  return memory.ptr != NULL;
}

static void *make_table(struct carve *carve, u32 size) {
  return carve_take(carve, (usize)size * sizeof(void *), 64).ptr;
}

static enum err make_pools(struct broker *b, struct carve *carve) {
  const struct broker_limits *l = &b->limits;
  bool ok = make_pool(carve, &b->sessions, "sessions", sizeof(struct session), l->sessions);
  ok = ok &&
       make_pool(carve, &b->subs, "subscriptions", sizeof(struct subscription), l->subscriptions);
  ok = ok && make_pool(carve, &b->nodes, "filters", sizeof(struct node), l->topic_nodes);
  ok = ok &&
       make_pool(carve, &b->deliveries, "queue entries", sizeof(struct delivery), l->queue_entries);
  ok = ok && make_pool(carve, &b->retained, "retained", sizeof(struct retained), l->retained);
  ok = ok &&
       make_pool(carve, &b->replays, "replays", sizeof(struct replay), MAX(l->sessions / 8, 64u));
  for (u32 i = 0; ok && i < ARRAY_COUNT(blobs); i++) {
    u64 count = l->message_bytes / 16 * blobs[i].share / (blobs[i].size + 1 + POOL_REDZONE);
    ok = make_pool(carve, &b->blob[i], "messages", blobs[i].size, (u32)MAX(count, 16ull));
  }
  u32 pages = MAX(extent_pages(l), 16u);
  struct span memory = ok ? carve_take(carve, extent_bytes(pages), EXTENT_PAGE) : span_of(NULL, 0);
  if (memory.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  extent_init(&b->extent, memory, pages);
  return ERR_OK;
}

enum err broker_init(struct core *core, struct carve *carve, const struct broker_limits *limits) {
  struct span memory = carve_take(carve, sizeof(struct broker), 64);
  if (memory.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  struct broker *b = (struct broker *)(void *)memory.ptr;
  memset(b, 0, sizeof *b);
  b->core = core;
  b->limits = *limits;
  b->root.kind = NODE_ROOT;
  TRY(make_pools(b, carve));
  u32 sessions = hash_size(limits->sessions);
  u32 nodes = hash_size(limits->topic_nodes);
  u32 retained = hash_size(limits->retained);
  b->session_mask = sessions - 1;
  b->node_mask = nodes - 1;
  b->retained_mask = retained - 1;
  b->session_hash = make_table(carve, sessions);
  b->node_hash = make_table(carve, nodes);
  b->retained_hash = make_table(carve, retained);
  if (b->session_hash == NULL || b->node_hash == NULL || b->retained_hash == NULL) {
    return ERR_NO_MEMORY;
  }
  core->broker = b;
  core->on_timer[TIMER_SESSION] = session_timer;
  return ERR_OK;
}

void broker_set_ops(struct broker *b, const struct broker_ops *ops) {
  b->ops = *ops;
}

const struct broker_stats *broker_stats(const struct broker *b) {
  return &b->stats;
}

// --- SUBSCRIBE, UNSUBSCRIBE

// Grants one entry: its SUBACK code. *replay: retained messages are due.
static u8 grant(struct session *s, const struct mqtt_entry *e, struct bytes filter, u32 id,
                bool *replay) {
  struct broker *b = s->broker;
  struct subscription options = {.qos = MIN(e->qos, b->limits.qos_max),
                                 .id = id,
                                 .no_local = e->no_local,
                                 .retain_as_published = e->retain_as_published};
  bool existed = false;
  *replay = false;
  if (b->ops.may_subscribe != NULL && !b->ops.may_subscribe(s->user, filter, e->qos)) {
    return MQTT_NOT_AUTHORIZED;
  }
  if (tree_subscribe(b, s, filter, &options, &existed) != ERR_OK) {
    return MQTT_QUOTA_EXCEEDED;
  }
  // [MQTT-3.3.1-9..11]; shared subscriptions get no retained messages (4.8.2).
  *replay = (e->retain_handling == 0 || (e->retain_handling == 1 && !existed)) &&
            !bytes_starts_with(filter, BYTES_LIT("$share/"));
  return options.qos;
}

enum mqtt_reason broker_on_subscribe(struct session *s, const struct mqtt_subscribe *sub,
                                     struct bytes packet, u64 now_ns) {
  u8 codes[SUBACK_CODES_MAX];
  u8 buf[SUBACK_CODES_MAX + 16];
  bool replay[SUBACK_CODES_MAX];
  (void)now_ns;
  if (sub->entry_count > SUBACK_CODES_MAX) {
    return MQTT_QUOTA_EXCEEDED;
  }
  u32 id = sub->props.subscription_id_count > 0 ? sub->props.subscription_id[0] : 0;
  u32 pos = sub->entries.off;
  struct mqtt_entry e;
  u32 n = 0;
  for (; n < sub->entry_count && mqtt_subscribe_entry(packet, sub, &pos, &e); n++) {
    codes[n] = grant(s, &e, bytes_part(packet, e.filter), id, &replay[n]);
  }
  ASSERT(n == sub->entry_count);
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_suback(&w, session_version(s), MQTT_SUBACK, sub->packet_id, bytes_of(codes, n), NULL);
  ASSERT(w.err == ERR_OK);
  if (!session_raw(s, writer_bytes(&w))) {
    return MQTT_QUOTA_EXCEEDED;
  }
  pos = sub->entries.off;
  for (u32 i = 0; i < n && mqtt_subscribe_entry(packet, sub, &pos, &e); i++) {
    if (replay[i] && codes[i] <= 2) {
      retained_replay(s->broker, s, bytes_part(packet, e.filter), codes[i], id);
    }
  }
  return MQTT_SUCCESS;
}

enum mqtt_reason broker_on_unsubscribe(struct session *s, const struct mqtt_subscribe *u,
                                       struct bytes packet, u64 now_ns) {
  u8 codes[SUBACK_CODES_MAX];
  u8 buf[SUBACK_CODES_MAX + 16];
  (void)now_ns;
  if (u->entry_count > SUBACK_CODES_MAX) {
    return MQTT_QUOTA_EXCEEDED;
  }
  u32 pos = u->entries.off;
  struct mqtt_entry e;
  u32 n = 0;
  for (; n < u->entry_count && mqtt_unsubscribe_entry(packet, u, &pos, &e); n++) {
    bool was = tree_unsubscribe(s->broker, s, bytes_part(packet, e.filter));
    codes[n] = was ? MQTT_SUCCESS : MQTT_NO_SUBSCRIPTION_EXISTED;
  }
  ASSERT(n == u->entry_count);
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_suback(&w, session_version(s), MQTT_UNSUBACK, u->packet_id, bytes_of(codes, n), NULL);
  ASSERT(w.err == ERR_OK);
  return session_raw(s, writer_bytes(&w)) ? MQTT_SUCCESS : MQTT_QUOTA_EXCEEDED;
}
