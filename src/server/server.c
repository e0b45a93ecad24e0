// SPDX-License-Identifier: Apache-2.0
// The server's memory, its listeners, what tcp and the broker call, and its two stages of a turn:
// input (bounded work for each connection that has bytes), output (what the turn produced).
#include "server/server.h"

#include "loop/loop.h"
#include "server/conn.h"

// Established traffic comes first, then handshakes: a step takes 0.1 ms, with an RSA key 0.8, and
// no turn shall exceed 1 ms by much (DESIGN 3). One is made in any case.
#define HANDSHAKES_A_TURN 4u
#define HANDSHAKES_NS (300 * 1000ull)
// What tls asks for, and what the sanitizers put on top.
#define FIBER_STACK (TLS_HANDSHAKE_STACK_BYTES * 2 + POOL_REDZONE * 16384u)

static u32 name_count(const struct server_limits *l) {
  return l->handshakes + l->connections / 8;
}

// --- what tcp calls

// When a new connection is due by its listener's rate; `late`: not now.
static u64 rate_after(const struct server_listener *l, bool *late) {
  u64 now_ns = l->server->core->now_ns;
  u64 share = l->config.connection_rate == 0 ? 0 : SEC_NS / l->config.connection_rate;
  u64 after = MAX(l->rate_ns, now_ns) + share;
  *late = share != 0 && after > now_ns + SEC_NS;
  return after;
}

// Whether a listener at `place` serves our address `local`: 0.0.0.0 is every IPv4 address.
static bool address_fits(struct ip_addr place, struct ip_addr local) {
  return ip_is_none(place) || ip_equal(place, local) ||
         (ip_equal(place, ip_of4(0)) && ip_is4(local));
}

static bool full_of(const struct server_listener *l) {
  u32 most = l->server->limits.accepted_max;
  return (l->config.max_connections != 0 && l->connections >= l->config.max_connections) ||
         (most != 0 && l->server->stats.connections >= most) || l->server->conns.free_count == 0;
}

static bool on_room(void *listener_user) {
  const struct server_listener *l = listener_user;
  bool late;
  (void)rate_after(l, &late);
  if (full_of(l) || late) {
    l->server->stats.refused++;
    return false;
  }
  return true;
}

static bool on_accept(void *listener_user, struct tcp_conn *tcp, void **user) {
  struct server_listener *l = listener_user;
  bool late;
  u64 after = rate_after(l, &late);
  struct tcp_peer peer;
  tcp_peer(tcp, &peer);
  bool elsewhere = !address_fits(l->config.address, peer.local);
  bool closed = l->config.closed || elsewhere || l->server->draining;
  struct conn *c = full_of(l) || closed || late ? NULL : conn_new(l, tcp);
  if (c == NULL) {
    l->server->stats.refused++;
    return false;
  }
  l->rate_ns = after;
  *user = c;
  tcp_keepalive(tcp, true);  // MQTT's own keep alive may be 0: a peer that is gone is found
  return true;
}

static void on_readable(void *user, struct tcp_conn *tcp) {
  struct conn *c = user;
  ASSERT(c->tcp == tcp);
  conn_want_input(c);
}

static void on_writable(void *user, struct tcp_conn *tcp) {
  struct conn *c = user;
  ASSERT(c->tcp == tcp);
  conn_want_output(c);
}

static void on_ended(void *user, struct tcp_conn *tcp, enum tcp_end why) {
  struct conn *c = user;
  struct server *s = c->server;
  ASSERT(c->tcp == tcp);
  if (why == TCP_END_FIN) {
    c->fin = true;
    conn_want_input(c);
    return;
  }
  // What arrived before the reset still counts: a DISCONNECT there revokes the will.
  if (conn_reads(c)) {
    while (conn_input(c)) {
      s->heavy_bytes = 0;  // there is no next turn for it
    }
  }
  c->tcp = NULL;
  ending_lost(c);
}

const struct tcp_listener_ops conn_tcp_ops = {.room = on_room,
                                              .accept = on_accept,
                                              .readable = on_readable,
                                              .writable = on_writable,
                                              .ended = on_ended};

// --- what the broker calls

static void on_wake(void *user) {
  conn_want_output(user);
}

static void on_kick(void *user, enum mqtt_reason reason) {
  struct conn *c = user;
  c->session = NULL;
  conn_end(c, reason);
}

static void on_entered(void *user, struct session *s, enum mqtt_reason reason, u16 keep_alive_s) {
  conn_entered(user, s, reason, keep_alive_s);
}

static const struct broker_ops broker_calls = {
    .wake = on_wake, .kick = on_kick, .entered = on_entered};

// --- stages

static bool run_input(struct core *core, void *ctx) {
  (void)core;
  struct server *s = ctx;
  struct link again;
  list_init(&again);
  bool busy = !list_empty(&s->input);
  for (struct link *l = list_pop(&s->input); l != NULL; l = list_pop(&s->input)) {
    struct conn *c = CONTAINER_OF(l, struct conn, work);
    if (conn_input(c) && !list_linked(&c->work)) {
      list_push(&again, &c->work);
    }
  }
  for (struct link *l = list_pop(&again); l != NULL; l = list_pop(&again)) {
    list_push(&s->input, l);
  }
  u64 start = list_empty(&s->handshakes) ? 0 : plat_now_ns();
  for (u32 i = 0; i < HANDSHAKES_A_TURN; i++) {
    struct link *l = list_pop(&s->handshakes);
    if (l == NULL) {
      break;
    }
    if (!conn_handshake(CONTAINER_OF(l, struct conn, work))) {
      list_push_front(&s->handshakes, l);  // its turn comes when an arena is free
      server_tick_soon(s);
      break;
    }
    busy = true;
    if (plat_now_ns() - start > HANDSHAKES_NS) {
      break;
    }
  }
  return busy;
}

static bool run_output(struct core *core, void *ctx) {
  (void)core;
  struct server *s = ctx;
  struct link again;
  list_init(&again);
  bool busy = !list_empty(&s->ending);
  for (struct link *l = list_pop(&s->output); l != NULL; l = list_pop(&s->output)) {
    struct conn *c = CONTAINER_OF(l, struct conn, out);
    enum output_end end = conn_output(c);
    if (end != OUTPUT_DRY && c->state != CONN_ENDING && !list_linked(&c->out)) {
      list_push(&again, &c->out);
    }
    if (end == OUTPUT_STARVED) {
      server_tick_soon(s);
    }
    busy |= end != OUTPUT_STARVED;
  }
  for (struct link *l = list_pop(&again); l != NULL; l = list_pop(&again)) {
    list_push(&s->output, l);
  }
  ending_run(s);
  return busy;
}

// --- start, listeners, end

static bool make_pool(struct carve *carve, struct pool *p, const char *name, u32 size, u32 count) {
  struct span memory = carve_take(carve, pool_bytes(size, count), 64);
  if (memory.ptr == NULL) {
    return false;
  }
  pool_init(p, name, memory, size, count);
  return true;
}

static bool make_pools(struct server *s, struct carve *carve, const struct server_limits *l) {
  u32 pages = (u32)(l->packet_bytes / EXTENT_PAGE);
  struct span packets = carve_take(carve, extent_bytes(pages), 64);
  struct span ciphers = carve_take(carve, tls_cipher_cache_bytes(CIPHER_SLOTS), 64);
  s->fiber_stack = plat_stack(FIBER_STACK);
  if (packets.ptr == NULL || ciphers.ptr == NULL || s->fiber_stack.ptr == NULL) {
    return false;
  }
  extent_init(&s->packets, packets, pages);
  s->ciphers = tls_cipher_cache_init(ciphers, CIPHER_SLOTS);
  return make_pool(carve, &s->conns, "connections", sizeof(struct conn), l->connections) &&
         make_pool(carve, &s->records, "tls connections", sizeof(struct tls_record),
                   l->connections) &&
         make_pool(carve, &s->heavies, "handshakes", sizeof(struct heavy), l->handshakes) &&
         make_pool(carve, &s->names, "names", sizeof(struct conn_name), name_count(l)) &&
         make_pool(carve, &s->fronts, "fronts", sizeof(struct front), MAX(l->fronts, 1u)) &&
         make_pool(carve, &s->record_buffers, "record buffers", TLS_RECORD_MAX, RECORD_BUFFERS);
}

enum err server_init(struct core *core, struct carve *carve, const struct server_limits *limits) {
  ASSERT(core->net != NULL);
  ASSERT(core->broker != NULL);
  struct span memory = carve_take(carve, sizeof(struct server), 64);
  if (memory.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  struct server *s = (struct server *)(void *)memory.ptr;
  *s = (struct server){.core = core, .limits = *limits, .log.types = 1u << SERVER_LOG_NOTICE};
  struct link *heads[] = {&s->input, &s->output, &s->blocked, &s->handshakes, &s->ending};
  for (u32 i = 0; i < ARRAY_COUNT(heads); i++) {
    list_init(heads[i]);
  }
  if (!make_pools(s, carve, limits) || !login_init(s, carve) || !auth_init(s, carve)) {
    return ERR_NO_MEMORY;
  }
  s->tick_timer = wheel_take(&core->wheel, TIMER_CONN, s);
  if (s->tick_timer == WHEEL_NONE) {
    return ERR_NO_MEMORY;
  }
  core->server = s;
  core->on_timer[TIMER_CONN] = conn_on_timer;
  broker_set_ops(core->broker, &broker_calls);
  loop_stage(core, "server input", run_input, s);
  loop_stage(core, "logins", login_stage, s);
  loop_stage(core, "server output", run_output, s);
  return ERR_OK;
}

enum err server_listen(struct server *s, const struct listener_config *config) {
  if (s->listener_count == SERVER_LISTENERS_MAX) {
    return ERR_LIMIT;
  }
  struct server_listener *l = &s->listener[s->listener_count];
  ASSERT(config->mount.len <= sizeof l->mount);
  *l = (struct server_listener){.server = s, .config = *config};
  if (config->mount.len > 0) {
    memcpy(l->mount, config->mount.ptr, config->mount.len);
  }
  l->config.mount = bytes_of(l->mount, config->mount.len);
  TRY(tcp_listen(s->core->net, config->port, &conn_tcp_ops, l));
  if (config->tls != NULL) {
    l->config.tls = tls_context_ref(config->tls);
  }
  s->listener_count++;
  return ERR_OK;
}

bool server_listener(const struct server *s, u32 index, struct listener_config *out) {
  if (index >= s->listener_count) {
    return false;
  }
  *out = s->listener[index].config;
  return true;
}

enum err server_relisten(struct server *s, const struct listener_config *config) {
  for (u32 i = 0; i < s->listener_count; i++) {
    struct server_listener *l = &s->listener[i];
    if (l->config.port != config->port) {
      continue;
    }
    struct tls_context *old = l->config.tls;
    struct bytes mount = l->config.mount;  // sessions borrow it
    l->config = *config;
    l->config.mount = mount;
    l->config.tls = config->tls != NULL ? tls_context_ref(config->tls) : NULL;
    if (old != NULL) {
      tls_context_unref(old);
    }
    return ERR_OK;
  }
  return ERR_NOT_FOUND;
}

struct tls_time server_time(const struct listener_config *l) {
  struct plat_wall wall = plat_wall();
  bool judged = !l->ignore_client_dates;
  return (struct tls_time){.unix_s = wall.unix_ns / SEC_NS,
                           .lower_unix_s = judged ? wall.lower_unix_ns / SEC_NS : 0,
                           .trusted = judged && wall.quality >= CLOCK_RTC};
}

bool conn_allowed(const struct conn *c) {
  const struct listener_config *l = &c->from->config;
  bool version = c->state != CONN_OPEN || listener_takes_version(l, c->version);
  if (l->closed || !version || (!c->tls_due && l->tls != NULL)) {
    return false;
  }
  if (c->state == CONN_OPEN && !conn_name_allowed(c)) {
    return false;
  }
  if (l->tls == NULL) {  // who came by TLS may stay, and who has not finished cannot
    return !c->tls_due || c->tls != NULL;
  }
  struct tls_time now = server_time(l);
  return c->tls == NULL || tls_recheck(l->tls, c->tls, &now) == TLS_REASON_NONE;
}

u32 server_recheck(struct server *s) {
  u32 ended = 0;
  s->generation++;
  for (u32 i = 0; i < s->conns.fresh; i++) {
    struct conn *c = pool_at(&s->conns, i);
    if (s->conns.state[i] == 0) {
      continue;
    }
    c->rechecked = true;
    if (c->state != CONN_ENDING && !conn_allowed(c)) {
      server_log(s, c, "no longer allowed", bytes_of(NULL, 0));
      conn_end(c, MQTT_NOT_AUTHORIZED);
      ended++;
    }
  }
  return ended;
}

void server_change_limits(struct server *s, const struct server_limits *l) {
  s->limits.accepted_max = l->accepted_max;
  s->limits.packet_size_max = l->packet_size_max;
}

void server_set_logins(struct server *s, u32 set, const struct login_source *source) {
  ASSERT(set < BROKER_ACCESS_SETS);
  s->login_source[set] = source != NULL ? *source : (struct login_source){.find = NULL};
}

const struct server_stats *server_stats(const struct server *s) {
  return &s->stats;
}

bool server_drain(struct server *s) {
  if (!s->draining) {
    s->draining = true;
    for (u32 i = 0; i < s->conns.fresh; i++) {
      struct conn *c = pool_at(&s->conns, i);
      if (s->conns.state[i] == 0) {
        continue;
      }
      bool elsewhere = c->from->config.server_reference.len > 0;
      conn_end(c, elsewhere ? MQTT_USE_ANOTHER_SERVER : MQTT_SERVER_SHUTTING_DOWN);
    }
  }
  return s->stats.connections == 0;
}
