// SPDX-License-Identifier: Apache-2.0
#include "server/login.h"

#include "server/conn.h"

u32 login_places(const struct server_limits *l) {
  return MAX(MIN(l->connections / 4, 4096u), 16u);
}

u64 login_bytes(const struct server_limits *limits) {
  return pool_bytes(sizeof(struct login), login_places(limits)) + 64;
}

static void on_timer(struct core *core, u32 timer, void *owner) {
  struct logins *l = owner;
  (void)core, (void)timer;
  l->timer_armed = false;  // the turn that this woke up looks at the window
}

bool login_init(struct server *s, struct carve *carve) {
  struct logins *l = &s->logins;
  u32 count = login_places(&s->limits);
  struct span memory = carve_take(carve, pool_bytes(sizeof(struct login), count), 64);
  l->timer = wheel_take(&s->core->wheel, TIMER_LOGIN, l);
  if (memory.ptr == NULL || l->timer == WHEEL_NONE) {
    return false;
  }
  if (s->limits.argon_arena.len > 0 &&
      !login_argon_init(&l->argon, s->limits.argon_arena, s->limits.argon_lease)) {
    return false;
  }
  pool_init(&l->pool, "logins", memory, sizeof(struct login), count);
  list_init(&l->active);
  for (u32 i = 0; i < LOGIN_FLOWS; i++) {
    list_init(&l->flow[i].active);
    list_init(&l->flow[i].waiting);
  }
  s->core->on_timer[TIMER_LOGIN] = on_timer;
  return true;
}

u32 login_flow_of(const struct conn *c) {
  struct ip_addr prefix = conn_prefix(c);
  return (u32)siphash(&c->server->core->hash_key, bytes_of(&prefix, sizeof prefix)) % LOGIN_FLOWS;
}

bool login_begin(struct conn *c, const struct password_hash *hash, bool known) {
  struct logins *l = &c->server->logins;
  ASSERT(c->state == CONN_CONNECT);
  ASSERT(c->packet != NULL);
  u32 index = login_flow_of(c);
  struct login_flow *f = &l->flow[index];
  bool possible = hash->kind != PASSWORD_ARGON2ID || hash->memory_kib <= l->argon.arena.len / 1024;
  bool room = f->count < l->pool.count / 4;
  struct login *n = possible && room ? pool_take(&l->pool) : NULL;
  if (n == NULL) {
    c->server->stats.logins_refused++;
    return false;
  }
  n->conn = c;
  n->flow = index;
  n->known = known;
  n->hash = *hash;
  list_init(&n->link);
  list_push(&f->waiting, &n->link);
  f->count++;
  if (!list_linked(&f->active)) {
    list_push(&l->active, &f->active);
  }
  list_remove(&c->work);
  c->state = CONN_LOGIN;
  c->login = n;
  c->deadline_ns = c->server->core->now_ns + LOGIN_WAIT_NS;
  conn_arm(c);
  return true;
}

// Gives the place back.
static void put(struct logins *l, struct login *n) {
  struct login_flow *f = &l->flow[n->flow];
  ASSERT(n->conn->login == n);
  n->conn->login = NULL;
  if (l->current == n) {
    l->current = NULL;
    kdf_fini(&l->kdf);
    login_argon_fini(&l->argon);
  }
  list_remove(&n->link);
  ASSERT(f->count > 0);
  f->count--;
  if (list_empty(&f->waiting)) {
    list_remove(&f->active);
  }
  pool_put(&l->pool, n);
}

void login_cancel(struct conn *c) {
  ASSERT(c->state == CONN_LOGIN);
  put(&c->server->logins, c->login);
}

// Takes the next login of the flow whose turn it is, and begins to hash. False: nobody waits.
static bool begin_next(struct logins *l) {
  struct link *first = list_pop(&l->active);
  if (first == NULL) {
    return false;
  }
  struct login_flow *f = CONTAINER_OF(first, struct login_flow, active);
  struct link *link = list_pop(&f->waiting);
  ASSERT(link != NULL);
  struct login *n = CONTAINER_OF(link, struct login, link);
  if (n->hash.kind == PASSWORD_ARGON2ID && !login_argon_take(&l->argon)) {
    list_push_front(&f->waiting, link);
    list_push(&l->active, first);  // somebody else's may want no arena
    l->arena_away = true;
    return false;
  }
  if (!list_empty(&f->waiting)) {
    list_push(&l->active, &f->active);  // behind the others
  }
  l->current = n;
  n->conn->deadline_ns = n->conn->server->core->now_ns + LOGIN_HASH_NS;
  conn_arm(n->conn);
  struct mqtt_connect m;
  struct bytes packet = bytes_of(n->conn->packet, n->conn->packet_len);
  enum mqtt_reason bad = mqtt_decode_connect(packet, &m);
  ASSERT(bad == MQTT_SUCCESS);  // as when it came
  struct bytes password = bytes_part(packet, m.password);
  struct bytes salt = bytes_of(n->hash.salt, n->hash.salt_len);
  switch ((enum password_kind)n->hash.kind) {
  case PASSWORD_PBKDF2: kdf_pbkdf2_begin(&l->kdf, password, salt, n->hash.iterations); break;
  case PASSWORD_ARGON2ID: login_argon_begin(&l->argon, &n->hash, password); break;
  case PASSWORD_SCRAM_SHA256: ASSERT(false); break;  // password.h I3
  case PASSWORD_SHA512: kdf_sha512(&l->kdf, password, salt); break;
  }
  return true;
}

// A piece of the current login's hashing. True: it is done.
static bool step(struct logins *l, u64 stop_ns) {
  return l->current->hash.kind == PASSWORD_ARGON2ID ? login_argon_step(&l->argon, stop_ns)
                                                    : kdf_step(&l->kdf, LOGIN_STEP);
}

static void decide(struct server *s) {
  struct logins *l = &s->logins;
  struct login *n = l->current;
  struct conn *c = n->conn;
  const u8 *sum = n->hash.kind == PASSWORD_ARGON2ID ? l->argon.sum : l->kdf.sum;
  bool same = kdf_equal(sum, n->hash.hash, n->hash.hash_len);
  bool good = same && n->known;
  *(good ? &s->stats.logins_good : &s->stats.logins_bad) += 1;
  put(l, n);
  conn_login_done(c, good);
}

bool login_stage(struct core *core, void *ctx) {
  struct server *s = ctx;
  struct logins *l = &s->logins;
  if (l->current == NULL && list_empty(&l->active)) {
    return false;
  }
  if (core->now_ns - l->window_ns >= LOGIN_WINDOW_NS) {
    l->window_ns = core->now_ns;
    l->spent_ns -= MIN(l->spent_ns, LOGIN_BUDGET_NS);  // what was too much is paid now
  }
  u64 start = plat_now_ns();
  u64 used = 0;
  l->arena_away = false;
  u64 most =
      l->spent_ns >= LOGIN_BUDGET_NS ? 0 : MIN(LOGIN_SLICE_NS, LOGIN_BUDGET_NS - l->spent_ns);
  while (used < most && (l->current != NULL || begin_next(l))) {
    if (step(l, start + most)) {
      decide(s);
    }
    used = plat_now_ns() - start;
  }
  l->spent_ns = MIN(l->spent_ns + used, LOGIN_DEBT_MAX_NS);
  s->stats.login_ns += used;
  s->stats.login_longest_ns = MAX(s->stats.login_longest_ns, used);
  bool left = l->current != NULL || !list_empty(&l->active);
  if (left && (l->spent_ns >= LOGIN_BUDGET_NS || l->arena_away)) {
    if (!l->timer_armed) {
      l->timer_armed = true;
      wheel_arm(&core->wheel, l->timer, l->window_ns + LOGIN_WINDOW_NS);
    }
    return false;
  }
  return left;
}
