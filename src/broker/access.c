// SPDX-License-Identifier: Apache-2.0
// Permission at the broker's points: PUBLISH and will (WRITE), each delivery and each retained
// message (READ), SUBSCRIBE and UNSUBSCRIBE where the rules ask for it. The rules decide; what is
// mosquitto's whatever the rules say stands here: '$' topics.
//
// Answers about READ are remembered, since a client gets many messages of few topics: a table of
// one word an entry, addressed by the hash of (topic, identity). A hit costs a load and a compare.
//
// I1  A remembered answer is found only under the 63-bit tag of its topic and identity. The topic's
//     part is SipHash under the core's key: whoever does not know the key hits another's tag with
//     a probability of 2^-63 a try. Each identity of each session has a salt of its own.
// I2  Whoever changes a rule calls broker_access_changed, which forgets everything.
// I3  A message that may be retained carries who published it when check_retain_source asks for it:
//     set, flag, lengths, client id, user name, behind its data.
#include "broker/state.h"

#define CACHE_MOST 32768u
#define ORIGIN_HEAD 6u

static u32 cache_size(const struct broker_limits *l) {
  u32 size = 1024;
  while (size < CACHE_MOST && size < l->sessions) {
    size *= 2;
  }
  return size;
}

u64 access_bytes(const struct broker_limits *l) {
  return cache_size(l) * (u64)sizeof(u64);
}

bool access_init(struct broker *b, struct carve *carve) {
  u32 size = cache_size(&b->limits);
  struct span memory = carve_take(carve, (usize)size * sizeof(u64), 64);
  b->access_cache = (u64 *)(void *)memory.ptr;
  b->access_mask = size - 1;
  return memory.ptr != NULL;
}

void broker_set_access(struct broker *b, u32 set, const struct access_rules *rules,
                       bool check_subscribe) {
  ASSERT(set < BROKER_ACCESS_SETS);
  struct access_set next = {.check_subscribe = rules != NULL && check_subscribe};
  if (rules != NULL) {
    ASSERT(rules->allows != NULL);
    next.rules = *rules;
  }
  b->access[set] = next;
  b->access_on = false;
  for (u32 i = 0; i < BROKER_ACCESS_SETS; i++) {
    b->access_on |= b->access[i].rules.allows != NULL;
  }
  broker_access_changed(b);
}

void broker_access_changed(struct broker *b) {
  memset(b->access_cache, 0, (usize)(b->access_mask + 1) * sizeof(u64));
}

void access_identity(struct session *s, const struct broker_identity *id) {
  ASSERT(id->access_set < BROKER_ACCESS_SETS);
  ASSERT(id->username.len <= U16_MAX);
  s->has_username = id->has_username;
  s->access_set = id->access_set;
  s->access_salt = ++s->b->access_salt;
}

// What holds before any rule: $SYS is written by the broker and by bridges' state only, $share is
// no topic.
static bool dollar_allows(enum access_kind kind, struct bytes topic) {
  if (topic.ptr[0] != '$') {
    return true;
  }
  if (bytes_starts_with(topic, BYTES_LIT("$SYS"))) {
    return kind != ACCESS_WRITE ||
           topic_matches(BYTES_LIT("$SYS/broker/connection/+/state"), topic);
  }
  bool shared = bytes_starts_with(topic, BYTES_LIT("$share"));
  return !shared || kind == ACCESS_SUBSCRIBE || kind == ACCESS_UNSUBSCRIBE;
}

static bool ask(const struct broker *b, u8 set, const struct access_who *who, enum access_kind kind,
                struct bytes topic) {
  const struct access_rules *r = &b->access[set].rules;
  return dollar_allows(kind, topic) && (r->allows == NULL || r->allows(r->ctx, who, kind, topic));
}

bool access_allows(const struct session *s, enum access_kind kind, struct bytes topic) {
  ASSERT(kind != ACCESS_READ);
  const struct broker *b = s->b;
  bool filter = kind != ACCESS_WRITE;
  if (filter && !b->access[s->access_set].check_subscribe) {
    return true;
  }
  struct access_who who = session_who(s);
  return ask(b, s->access_set, &who, kind, topic);
}

void access_begin(struct broker *b, const struct message *m) {
  b->access_hash = siphash(&b->core->hash_key, message_topic(m));
}

bool access_may_read(const struct session *s, const struct message *m) {
  struct broker *b = s->b;
  if (b->access[s->access_set].rules.allows == NULL) {
    return true;
  }
  u64 tag = (b->access_hash + s->access_salt * 0x9e3779b97f4a7c15ull) | 1;
  u64 *entry = &b->access_cache[(tag >> 32) & b->access_mask];
  if ((*entry | 1) == tag && *entry != 0) {  // 0: nothing remembered
    return (*entry & 1) != 0;
  }
  struct access_who who = session_who(s);
  bool allowed = ask(b, s->access_set, &who, ACCESS_READ, message_topic(m));
  *entry = tag - (allowed ? 0 : 1);
  return allowed;
}

bool broker_set_control(struct broker *b, struct bytes topic, broker_control *take, void *ctx) {
  ASSERT(bytes_starts_with(topic, BYTES_LIT("$CONTROL/")));
  for (u32 i = 0; i < CONTROL_TOPICS; i++) {
    struct control_topic *c = &b->control_topic[i];
    if (c->take == NULL || bytes_equal(c->topic, topic)) {
      *c = (struct control_topic){topic, take, ctx};
      return true;
    }
  }
  return false;
}

bool access_control(struct broker *b, struct bytes topic, const struct access_who *who,
                    struct bytes payload, u64 now_ns) {
  for (u32 i = 0; i < CONTROL_TOPICS; i++) {
    const struct control_topic *c = &b->control_topic[i];
    if (c->take != NULL && bytes_equal(c->topic, topic)) {
      c->take(c->ctx, who, payload, now_ns);
      return true;
    }
  }
  return false;
}

u32 broker_kick_user(struct broker *b, bool has_username, struct bytes username,
                     enum mqtt_reason reason) {
  u32 count = 0;
  for (u32 i = 0; i < b->sessions.count; i++) {
    if (b->sessions.state[i] == 0) {
      continue;
    }
    struct session *s = session_at(b, i);
    struct access_who who = session_who(s);
    if (s->user != NULL && who.has_username == has_username &&
        (!has_username || bytes_equal(who.username, username))) {
      session_doom(s, reason);
      count++;
    }
  }
  return count;
}

u32 access_origin_len(const struct broker *b, const struct message_in *in) {
  bool kept = in->retain && in->origin != NULL && b->access_on && b->limits.check_retain_source;
  return !kept ? 0 : ORIGIN_HEAD + (u32)in->origin->client_id.len + (u32)in->origin->username.len;
}

void access_origin_write(const struct message_in *in, u8 *to, u32 len) {
  struct writer w = writer_init(span_of(to, len));
  write_u8(&w, in->origin_set);
  write_u8(&w, in->origin->has_username ? 1 : 0);
  write_be16(&w, (u16)in->origin->client_id.len);
  write_be16(&w, (u16)in->origin->username.len);
  write_bytes(&w, in->origin->client_id);
  write_bytes(&w, in->origin->username);
  ASSERT(w.err == ERR_OK);
  ASSERT(w.pos == len);
}

bool access_origin_may_write(struct broker *b, const struct message *m) {
  if (m->origin_len == 0 || !b->limits.check_retain_source) {
    return true;
  }
  const u8 *p = m->data + m->len;
  u32 id_len = load_be16(p + 2);
  u32 username_len = load_be16(p + 4);
  ASSERT(ORIGIN_HEAD + id_len + username_len == m->origin_len);
  struct access_who who = {.username = bytes_of(p + ORIGIN_HEAD + id_len, username_len),
                           .client_id = bytes_of(p + ORIGIN_HEAD, id_len),
                           .has_username = p[1] != 0};
  return ask(b, p[0], &who, ACCESS_WRITE, message_topic(m));
}
