// SPDX-License-Identifier: Apache-2.0
// Client ids on several cores. The owner of an id knows the core of its session and lets one
// CONNECT of it go on at a time; the others wait at the owner in the order they came. So there is
// one session of an id, whatever cores its connections arrive on [MQTT-3.1.4-3].
//
// I1  A place exists while there is a session of the id, or a CONNECT of it under way.
// I2  From GRANT to DONE nobody else changes where the session is: GONE of that time is ignored,
//     DONE says what holds. Afterwards gen tells whether GONE is about the session of now.
#include "broker/cross.h"

static mail_take on_ask;
static mail_take on_grant;
static mail_take on_done;
static mail_take on_gone;

static struct id_hash hash_id(const struct broker *b, struct bytes id) {
  const struct siphash_key *k = &b->cross->shared->key;
  struct siphash_key second = {k->k0 ^ 0x5bd1e995bada5515ull, k->k1};
  return (struct id_hash){{siphash(k, id), siphash(&second, id)}};
}

static u32 owner_of(const struct broker *b, const struct id_hash *id) {
  return (u32)(id->h[1] % b->cross->shared->cores);
}

static u32 place_count(const struct broker_limits *l) {
  return l->sessions + l->sessions / 4 + 1024;
}

static u32 table_size(u32 objects) {
  u32 size = 16;
  while (size < objects) {
    size *= 2;
  }
  return size;
}

u64 directory_bytes(u32 cores, const struct broker_limits *l) {
  u64 sum = pool_bytes(sizeof(struct place), place_count(l)) + 64;
  sum += pool_bytes(sizeof(struct ask), cores * CLAIMS) + 64;
  sum += table_size(place_count(l)) * 4ull + 64;
  return sum + l->sessions * sizeof(struct gone) + 64;
}

bool directory_open(struct core *core, struct carve *carve) {
  struct broker *b = core->broker;
  struct cross *x = b->cross;
  u32 places = place_count(&b->limits);
  u32 asks = x->shared->cores * CLAIMS;
  struct span p = carve_take(carve, pool_bytes(sizeof(struct place), places), 64);
  struct span a = carve_take(carve, pool_bytes(sizeof(struct ask), asks), 64);
  struct span t = carve_take(carve, table_size(places) * 4ull, 64);
  struct span g = carve_take(carve, b->limits.sessions * sizeof(struct gone), 64);
  if (p.ptr == NULL || a.ptr == NULL || t.ptr == NULL || g.ptr == NULL) {
    return false;
  }
  pool_init(&x->places, "client id", p, sizeof(struct place), places);
  pool_init(&x->asks, "client id wanted", a, sizeof(struct ask), asks);
  x->place_table = (struct table){(u32 *)(void *)t.ptr, table_size(places) - 1};
  memset(t.ptr, 0xff, t.len);  // NONE
  x->gone = (struct gone *)(void *)g.ptr;
  x->gone_size = b->limits.sessions;
  x->claim_free = x->claim_ready = NONE;
  for (u32 i = CLAIMS; i-- > 0;) {
    x->claim[i].next = x->claim_free;
    x->claim_free = i;
  }
  mailbox_on(core, (enum mail_kind)MAIL_ASK, on_ask, NULL);
  mailbox_on(core, (enum mail_kind)MAIL_GRANT, on_grant, NULL);
  mailbox_on(core, (enum mail_kind)MAIL_DONE, on_done, NULL);
  mailbox_on(core, (enum mail_kind)MAIL_GONE, on_gone, NULL);
  return true;
}

// --- the owner

static u32 *bucket_of(struct broker *b, const struct id_hash *id) {
  struct table *t = &b->cross->place_table;
  return &t->bucket[(u32)id->h[0] & t->mask];
}

static struct place *place_find(struct broker *b, const struct id_hash *id) {
  for (u32 i = *bucket_of(b, id); i != NONE;) {
    struct place *p = pool_at(&b->cross->places, i);
    if (p->id.h[0] == id->h[0] && p->id.h[1] == id->h[1]) {
      return p;
    }
    i = p->hash_next;
  }
  return NULL;
}

static struct place *place_make(struct broker *b, const struct id_hash *id) {
  struct place *p = pool_take(&b->cross->places);
  if (p != NULL) {
    u32 *bucket = bucket_of(b, id);
    *p = (struct place){.id = *id, .hash_next = *bucket, .waiting = NONE, .core = NOWHERE};
    *bucket = pool_index(&b->cross->places, p);
  }
  return p;
}

static void place_free(struct broker *b, struct place *p) {
  u32 index = pool_index(&b->cross->places, p);
  u32 *link = bucket_of(b, &p->id);
  ASSERT(p->waiting == NONE);
  while (*link != index) {
    ASSERT(*link != NONE);
    link = &((struct place *)pool_at(&b->cross->places, *link))->hash_next;
  }
  *link = p->hash_next;
  pool_put(&b->cross->places, p);
}

static void grant(struct broker *b, struct place *p, u32 to, u32 claim) {
  ASSERT(!p->locked);
  p->locked = true;
  struct grant_mail m = {.claim = claim, .gen = p->gen + 1, .core = p->core};
  post(b, to, MAIL_GRANT, &m, sizeof m);
}

static void on_ask(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct ask_mail *m = (const struct ask_mail *)(const void *)body.ptr;
  struct place *p = place_find(b, &m->id);
  p = p == NULL ? place_make(b, &m->id) : p;
  if (p == NULL) {
    struct grant_mail no = {.claim = m->claim, .core = NOWHERE, .refused = true};
    post(b, from, MAIL_GRANT, &no, sizeof no);
    return;
  }
  if (!p->locked) {
    grant(b, p, from, m->claim);
    return;
  }
  struct ask *a = pool_take(&b->cross->asks);
  ASSERT(a != NULL);  // as many as there are claims
  *a = (struct ask){.next = NONE, .claim = m->claim, .core = (u8)from};
  u32 *link = &p->waiting;
  while (*link != NONE) {
    link = &((struct ask *)pool_at(&b->cross->asks, *link))->next;
  }
  *link = pool_index(&b->cross->asks, a);
}

static void on_done(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct done_mail *m = (const struct done_mail *)(const void *)body.ptr;
  struct place *p = place_find(b, &m->id);
  (void)from;
  ASSERT(p != NULL);
  ASSERT(p->locked);
  p->locked = false;
  if (m->gen != 0) {
    p->core = m->core;
    p->gen = m->gen;
  }
  if (p->waiting != NONE) {
    struct ask *a = pool_at(&b->cross->asks, p->waiting);
    struct ask next = *a;
    p->waiting = a->next;
    pool_put(&b->cross->asks, a);
    grant(b, p, next.core, next.claim);
  } else if (p->core == NOWHERE) {
    place_free(b, p);
  }
}

static void on_gone(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct done_mail *m = (const struct done_mail *)(const void *)body.ptr;
  struct place *p = place_find(b, &m->id);
  if (p != NULL && !p->locked && p->core == from && p->gen == m->gen) {  // I2
    place_free(b, p);
  }
}

// --- who connects

// All that is borrowed, in one block. False: no memory.
static bool keep(struct broker *b, struct claim *c, struct bytes packet,
                 const struct broker_identity *id, struct bytes client_id) {
  struct bytes part[] = {packet, id->username, client_id, id->auth_method, id->auth_data};
  usize len = 1;
  for (u32 i = 0; i < ARRAY_COUNT(part); i++) {
    len += part[i].len;
  }
  c->block = blocks_take(&b->blocks, len);
  if (c->block == NULL) {
    return false;
  }
  u8 *at = c->block;
  for (u32 i = 0; i < ARRAY_COUNT(part); i++) {
    if (part[i].len > 0) {
      memcpy(at, part[i].ptr, part[i].len);
    }
    part[i].ptr = at;
    at += part[i].len;
  }
  c->identity = *id;
  c->packet = part[0];
  c->identity.username = part[1];
  c->identity.client_id = part[2];
  c->identity.auth_method = part[3];
  c->identity.auth_data = part[4];
  return true;
}

enum mqtt_reason claim_begin(struct broker *b, void *user, const struct mqtt_connect *c,
                             struct bytes packet, const struct broker_identity *id,
                             struct bytes client_id, bool assigned) {
  struct cross *x = b->cross;
  u32 i = x->claim_free;
  bool room = i != NONE && x->post_left >= POSTS_LOW &&
              x->gone_count + b->stats.clients_total + x->claim_count < x->gone_size;
  if (!room) {
    return MQTT_SERVER_BUSY;
  }
  struct claim *n = &x->claim[i];
  u32 next_free = n->next;
  *n = (struct claim){.user = user, .connect = *c, .session = NONE, .from = NOWHERE};
  if (!keep(b, n, packet, id, client_id)) {
    n->next = next_free;
    n->user = NULL;
    return MQTT_SERVER_BUSY;
  }
  x->claim_free = next_free;
  x->claim_count++;
  n->next = NONE;
  n->assigned = assigned;
  n->id = hash_id(b, client_id);
  list_reset(&n->tail);
  struct ask_mail m = {.id = n->id, .claim = i};
  post(b, owner_of(b, &n->id), MAIL_ASK, &m, sizeof m);
  return MQTT_SUCCESS;
}

void broker_forget(struct broker *b, const void *user) {
  ASSERT(user != NULL);
  for (u32 i = 0; i < CLAIMS && b->cross != NULL; i++) {
    if (b->cross->claim[i].user == user) {
      b->cross->claim[i].user = NULL;
    }
  }
}

void claim_ready(struct broker *b, struct claim *c, enum mqtt_reason refusal) {
  struct cross *x = b->cross;
  ASSERT(c->state != CLAIM_READY);
  c->state = CLAIM_READY;
  c->refusal = (u8)refusal;
  u32 *link = &x->claim_ready;
  while (*link != NONE) {
    link = &x->claim[*link].next;
  }
  *link = claim_index(b, c);
  c->next = NONE;
}

static void on_grant(struct core *core, u32 from, struct span body) {
  struct broker *b = core->broker;
  const struct grant_mail *m = (const struct grant_mail *)(const void *)body.ptr;
  struct claim *c = &b->cross->claim[m->claim];
  (void)from;
  ASSERT(c->block != NULL);
  ASSERT(c->state == CLAIM_ASKED);
  c->gen = m->gen;
  c->from = m->core;
  if (m->refused) {
    claim_ready(b, c, MQTT_SERVER_BUSY);
  } else if (m->core == NOWHERE || m->core == core->id) {
    claim_ready(b, c, MQTT_SUCCESS);
  } else {
    takeover_begin(b, c);
  }
}

// Tells the owner where the session is now.
static void tell_owner(struct broker *b, const struct claim *c) {
  struct session *s = session_find(b, c->identity.client_id);
  struct done_mail m = {.id = c->id, .gen = c->gen, .core = NOWHERE};
  if (s != NULL) {
    s->place_gen = c->gen;
    m.core = (u8)b->core->id;
  } else if (c->refusal != 0 && c->from != NOWHERE && c->from != b->core->id) {
    m.gen = 0;  // it stays where it was
  }
  if (c->gen != 0) {  // else the owner had no room for it
    post(b, owner_of(b, &c->id), MAIL_DONE, &m, sizeof m);
  }
}

static void finish(struct broker *b, struct claim *c) {
  struct session *s = NULL;
  u16 keep_alive_s = 0;
  enum mqtt_reason reason = (enum mqtt_reason)c->refusal;
  if (c->user != NULL && reason == MQTT_SUCCESS) {
    reason = connect_finish(b, c->user, &c->connect, c->packet, &c->identity, c->assigned,
                            b->core->now_ns, &s, &keep_alive_s);
  } else if (c->session != NONE && reason == MQTT_SUCCESS) {
    session_left(session_at(b, c->session), b->core->now_ns);
  }
  tell_owner(b, c);
  void *user = c->user;
  mem_wipe(c->block, c->packet.len);  // a password is in it
  blocks_put(&b->blocks, c->block);
  c->block = NULL;
  c->user = NULL;
  c->next = b->cross->claim_free;
  b->cross->claim_free = claim_index(b, c);
  b->cross->claim_count--;
  if (user != NULL) {
    b->ops.entered(user, s, reason, keep_alive_s);
  }
}

void directory_gone(struct session *s) {
  struct cross *x = s->b->cross;
  if (s->place_gen == 0) {
    return;
  }
  ASSERT(x->gone_count < x->gone_size);
  x->gone[(x->gone_first + x->gone_count++) % x->gone_size] =
      (struct gone){hash_id(s->b, session_client_id(s)), s->place_gen};
}

static bool send_gone(struct broker *b) {
  struct cross *x = b->cross;
  while (x->gone_count > 0) {
    const struct gone *g = &x->gone[x->gone_first];
    u32 to = owner_of(b, &g->id);
    if (to != b->core->id && !cross_data_room(b, to, sizeof(struct done_mail))) {
      return true;
    }
    struct done_mail m = {.id = g->id, .gen = g->gen};
    x->gone_first = (x->gone_first + 1) % x->gone_size;
    x->gone_count--;
    post(b, to, MAIL_GONE, &m, sizeof m);
  }
  return false;
}

bool directory_stage(struct broker *b) {
  struct cross *x = b->cross;
  bool did = x->claim_ready != NONE;
  while (x->claim_ready != NONE) {
    struct claim *c = &x->claim[x->claim_ready];
    x->claim_ready = c->next;
    finish(b, c);
  }
  return send_gone(b) || did;
}
