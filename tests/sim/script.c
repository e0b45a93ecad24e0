// SPDX-License-Identifier: Apache-2.0
// What happens in a run: the swarm (which faults and habits this seed has), the chaos, then calm,
// the last checks, the leaving of all, the stop.
#include "tests/sim/game.h"

#include <stdio.h>

#include "admin/ustar.h"

#define HOST_MEMORY (10u << 20)
#define HOST_TIMERS 1024u
#define TLS_SHARE 8u             // one seed in so many
#define DISK_SHARE 4u
#define CALM_NS (400 * SIM_S)    // without an arrival: it hangs
#define SETTLE_NS (150 * SIM_S)  // TIME-WAIT is over, and who was silent is given up

struct game *game;
const char *const own_name[OWN_COUNT] = {
    "connections opened",  "messages published", "messages delivered",       "takeover",
    "takeover amid QoS 2", "session resumed",    "will delivered",           "retained delivered",
    "shared delivered",    "slow reader",        "gone silent (keep-alive)", "connection cut",
    "delivered again",     "TLS handshake"};

// --- the swarm: every seed has its own weather

static u32 habit[8];  // set from the seed in every process alike
enum { H_PUBLISH, H_SUBSCRIBE, H_TAKEOVER, H_CUT, H_SILENT, H_LEAVE, H_SLOW, H_LARGE };

static void draw_habits(void) {
  struct sim_rng r = sim_stream(SIM_STREAM_SWARM, 1);
  static const u32 most[8] = {800, 60, 30, 30, 8, 30, 20, 8};
  for (u32 i = 0; i < ARRAY_COUNT(habit); i++) {
    habit[i] = sim_below(&r, 4) == 0 ? 0 : 1 + sim_below(&r, most[i]);
  }
  habit[H_PUBLISH] += 200;
}

static void weather(bool bad) {
  struct sim_rng r = sim_stream(SIM_STREAM_SWARM, 2);
  for (u32 h = 0; h < game->hosts; h++) {
    for (u32 d = 0; d < 2; d++) {
      struct sim_link *l = sim_link_of(h, d);
      static const u32 loss[] = {0, 1000, 10000, 50000};
      l->loss = bad ? loss[sim_below(&r, 4)] : 0;
      l->duplicate = bad && sim_below(&r, 2) ? 1 + sim_below(&r, 20000) : 0;
      l->corrupt = bad && sim_below(&r, 2) ? 1 + sim_below(&r, 10000) : 0;
      l->reorder = bad && sim_below(&r, 2) ? 1 + sim_below(&r, 50000) : 0;
      l->reorder_ns = (1 + sim_below(&r, 50)) * SIM_MS;
      l->delay_ns = (20 + sim_below(&r, 20000)) * SIM_US;
      l->bits_per_s = 1000000ull << sim_below(&r, 10);
      l->queue_ns = (20 + sim_below(&r, 200)) * SIM_MS;
      l->down = false;
    }
  }
  sim_set_stall(bad ? 1 + sim_below(&r, 200) : 0, (1 + sim_below(&r, 2000)) * SIM_MS);
}

// --- start

static bool clients_stage(struct core *core, void *unused);

static void start_host(u32 h) {
  static const struct net_limits limits = {.tcp_conns = 64,
                                           .tcp_time_wait = 64,
                                           .tcp_flights = 64,
                                           .txbuf_small = 256,
                                           .txbuf_small_reserve = 64,
                                           .txbuf_large = 512,
                                           .tx_slots = 256};
  struct carve carve = {.region_count = 1, .total_len = HOST_MEMORY};
  carve.region[0] = sim_shared(HOST_MEMORY);
  struct core *core = &game->core[h];
  struct span timers = carve_take(&carve, HOST_TIMERS * sizeof(struct timer), 64);
  struct net_if_config address = {.address = IP4(10, 0, 0, 10 + h), .prefix_len = 24};
  sim_as_host(h);
  core_init(core, SIM_HOST_CORE + h, (struct timer *)(void *)timers.ptr, HOST_TIMERS);
  if (net_init(core, &carve, &limits) != ERR_OK ||
      net_configure(core->net, 0, &address) != ERR_OK) {
    sim_fail("harness: host %u has too little memory", h);
  }
  loop_stage(core, "clients", clients_stage, NULL);
  loop_stage(core, "net flush", net_flush, core->net);
}

static void start_client(u32 n) {
  struct client *c = &game->client[n];
  c->number = n;
  c->host = n % game->hosts;
  c->version = chance(70) ? 5 : 4;
  c->member = n % 5 == 1;
  c->persistent = c->member || chance(75);
  c->keep_alive_s = (u16)(4 + draw(12));
  c->next_ns = sim_now_ns() + draw(2000) * SIM_MS;
  for (u32 k = 0; k < KINDS; k++) {
    c->want[k] = (struct want){.used = k == KIND_SHARED ? c->member : chance(50),
                               .qos = k == KIND_SHARED ? 2 : (u8)draw(3),
                               .all = k == KIND_SHARED || chance(40),
                               .publisher = (u8)draw(game->clients)};
  }
}

bool game_has_disk(u64 seed) {
  return seed % DISK_SHARE == 2;
}

static void on_start(void) {
  game = (struct game *)(void *)sim_shared(sizeof *game).ptr;
  game->rng = sim_stream(SIM_STREAM_CLIENTS, 0);
  game->hosts = game_options.hosts;
  game->clients = 4 + draw(CLIENTS_MAX - 4);
  game->tls = sim_seed() % TLS_SHARE == TLS_SHARE - 1;
  tls_memory();
  game->chaos_ns = game_options.minutes * 60 * SIM_S;
  game->crashes_left = draw(4) == 0 || game_has_disk(sim_seed()) ? 1 + draw(3) : 0;
  game->crash_ns =
      game->crashes_left > 0 ? sim_now_ns() + sim_below(&game->rng, 60) * SIM_S : U64_MAX;
  game->phase_ns = sim_now_ns();
  for (u32 h = 0; h < game->hosts; h++) {
    start_host(h);
  }
  model_init();
  wire_init();
  for (u32 n = 0; n < game->clients; n++) {
    start_client(n);
  }
  draw_habits();
  weather(true);
}

static void on_boot(u32 nth) {
  (void)nth;
  if (game->tls) {
    tls_boot();
  }
}

// --- the broker's configuration

static void add_file(struct span tar, u32 *pos, const char *name, struct bytes content) {
  struct span data;
  if (ustar_add(tar, pos, bytes_str(name), (u32)content.len, &data) != ERR_OK) {
    sim_fail("harness: the bundle");
  }
  memcpy(data.ptr, content.ptr, content.len);
}

static struct bytes on_bundle(void) {
  static u8 tar[32768];
  static const char common[] =
      "network 10.0.0.1/24\nmax_queued_messages 60000\nmax_keepalive 60000\n"
      "allow_anonymous true\n";
  static const char sealed[] =
      "listener 8883\ncafile ca.crt\ncertfile server.crt\nkeyfile server.key\n"
      "require_certificate true\n";
  static char conf[sizeof common + sizeof sealed];
  struct span all = span_of(tar, sizeof tar);
  u32 pos = 0;
  int n = snprintf(conf, sizeof conf, "%s%s", common, game->tls ? sealed : "listener 1883\n");
  add_file(all, &pos, "urmqtt.conf", bytes_of(conf, (usize)n));
  add_file(all, &pos, "ca.crt", pki.ca);
  add_file(all, &pos, "server.crt", pki.server_certificate);
  add_file(all, &pos, "server.key", pki.server_key);
  return ustar_finish(all, pos);
}

// --- clients

static bool qos2_under_way(const struct client *c) {
  for (u32 i = 0; i < c->flight_count; i++) {
    if (c->flight[i].state >= FLIGHT_PUBREC) {
      return true;
    }
  }
  for (u32 i = 0; i < sizeof c->taken; i++) {
    if (c->taken[i] != 0) {
      return true;
    }
  }
  return false;
}

static u32 payload_len(void) {
  if (draw(1000) < habit[H_LARGE]) {
    return PAYLOAD_HEAD + draw(PAYLOAD_MAX - PAYLOAD_HEAD);
  }
  return PAYLOAD_HEAD + draw(chance(10) ? 3000 : 100);
}

static void publish_some(struct client *c) {
  for (u32 n = 1 + draw(4); n > 0; n--) {
    static const u8 kinds[] = {KIND_QOS0, KIND_QOS1, KIND_QOS1,     KIND_QOS2,
                               KIND_QOS2, KIND_QOS2, KIND_RETAINED, KIND_SHARED};
    enum kind kind = kinds[draw(ARRAY_COUNT(kinds))];
    u32 len = payload_len();
    if (kind == KIND_QOS0 || model_lag(c->number, kind) < LAG_MAX) {
      client_publish(c, kind, len);
    }
  }
}

static void take_over(struct client *c) {
  sim_count(OWN_TAKEOVERS, 1);
  sim_count(OWN_TAKEOVERS_QOS2, qos2_under_way(c) ? 1 : 0);
  model_will_due(c);
  client_forget_line(c);
  client_open(c);
}

// One thing that a connected client does in the chaos.
static void act_wild(struct client *c) {
  u32 x = draw(1000);
  if (x < habit[H_TAKEOVER]) {
    take_over(c);
  } else if ((x -= habit[H_TAKEOVER]) < habit[H_CUT]) {
    sim_count(OWN_CUT, 1);
    model_will_due(c);
    client_cut(c);
  } else if ((x -= habit[H_CUT]) < habit[H_SILENT]) {
    sim_count(OWN_SILENT, 1);
    model_will_due(c);
    client_forget_line(c);
    c->next_ns = sim_now_ns() + draw(30) * SIM_S;
  } else if ((x -= habit[H_SILENT]) < habit[H_LEAVE]) {
    client_disconnect(c);
  } else if ((x -= habit[H_LEAVE]) < habit[H_SLOW]) {
    sim_count(OWN_SLOW, 1);
    c->pause_until_ns = sim_now_ns() + draw(3000) * SIM_MS;
  } else if ((x -= habit[H_SLOW]) < habit[H_SUBSCRIBE]) {
    enum kind kind = draw(KINDS);
    if (c->want[kind].state == WANT_ON && kind != KIND_SHARED && chance(50)) {
      client_unsubscribe(c, kind);
    } else {
      client_subscribe(c, kind);
    }
  } else {
    publish_some(c);
  }
}

static void connect_again(struct client *c) {
  bool wild = game->phase == PHASE_CHAOS;
  if (c->stage == STAGE_IDLE && c->last && c->leaving) {
    return;  // gone for good
  }
  if (c->stage == STAGE_IDLE) {
    c->last = game->phase >= PHASE_LEAVE;
    c->persistent = !c->last && (c->member || (wild ? chance(75) : true));
    c->clean = c->last || (wild && !c->member && chance(10));
    c->leaving = false;
    client_open(c);
  } else if (sim_now_ns() > c->asked_ns + 90 * SIM_S || c->session_boot != sim_boots()) {
    client_cut(c);
  }
}

// True when something is missing among its subscriptions.
static bool subscribe_missing(struct client *c) {
  for (u32 k = 0; k < KINDS; k++) {
    if (c->want[k].used && c->want[k].state == WANT_NONE) {
      client_subscribe(c, k);
      return true;
    }
  }
  return false;
}

static void act_client(struct client *c) {
  u64 now = sim_now_ns();
  if (c->stage != STAGE_UP) {
    connect_again(c);
    c->next_ns = MAX(c->next_ns, now + 20 * SIM_MS);
    return;
  }
  c->next_ns = now + (5 + draw(200)) * SIM_MS;
  if (c->leaving) {
    if (now > c->sent_ns + 100 * SIM_S) {
      client_cut(c);
    }
    return;
  }
  if (game->phase == PHASE_CHAOS && !(chance(30) && subscribe_missing(c))) {
    act_wild(c);
  } else if (game->phase == PHASE_CALM) {
    subscribe_missing(c);
  } else if (game->phase == PHASE_CHECK && game->rounds > 0) {
    publish_some(c);
    game->rounds--;
  }
  if (c->stage == STAGE_UP && now > MAX(c->sent_ns, c->ping_ns) + c->keep_alive_s * SIM_S / 2) {
    client_ping(c);
  }
}

static bool clients_stage(struct core *core, void *unused) {
  (void)unused;
  u32 h = core->id - SIM_HOST_CORE;
  for (u32 n = h; n < game->clients; n += game->hosts) {
    struct client *c = &game->client[n];
    if (c->next_ns <= sim_now_ns()) {
      sim_event(n);
      act_client(c);
    }
    bool reads = c->line != NULL && c->stage >= STAGE_CONNACK && c->pause_until_ns <= sim_now_ns();
    if (reads && tcp_readable(c->line->conn) > 0) {
      client_read(c);
    }
    if (c->stage == STAGE_TLS && c->handshake != NULL && c->line != NULL) {
      client_shake(c);
    }
    client_flush(c);
  }
  lines_tick(h);
  return false;
}

static bool on_host_turn(u32 h) {
  return loop_turn(&game->core[h]);
}

static u64 on_host_deadline(u32 h) {
  u64 next = wheel_next_ns(&game->core[h].wheel);
  for (u32 n = h; n < game->clients; n += game->hosts) {
    const struct client *c = &game->client[n];
    next = MIN(next, c->next_ns);
    next = c->pause_until_ns > sim_now_ns() ? MIN(next, c->pause_until_ns) : next;
  }
  return MAX(next, sim_now_ns() + SIM_US);
}

// --- phases

static void enter(enum phase p) {
  game->phase = p;
  game->phase_ns = game->progress_ns = sim_now_ns();
}

static bool all_up(void) {
  for (u32 n = 0; n < game->clients; n++) {
    const struct client *c = &game->client[n];
    if (c->stage != STAGE_UP || c->leaving) {
      return false;
    }
    for (u32 k = 0; k < KINDS; k++) {
      if (c->want[k].used && c->want[k].state != WANT_ON) {
        return false;
      }
    }
  }
  return true;
}

static void calm(void) {
  const char *open = all_up() ? model_open() : "some clients could not connect and subscribe";
  if (open != NULL && sim_now_ns() > MAX(game->progress_ns, game->phase_ns) + CALM_NS) {
    sim_fail("%s", open);
  }
  if (open == NULL) {
    if (game->phase == PHASE_CHECK) {
      enter(PHASE_LEAVE);
      return;
    }
    game->rounds = 50 * game->clients;
    enter(PHASE_CHECK);
  }
}

static bool lines_gone(void) {
  for (u32 i = 0; i < LINES_MAX; i++) {
    if (game->line[i].used) {
      return false;
    }
  }
  return true;
}

// Everybody goes, leaving no session behind: by a last connection with clean start and no
// expiry.
static void leave(void) {
  bool gone = true;
  for (u32 n = 0; n < game->clients; n++) {
    struct client *c = &game->client[n];
    sim_as_host(c->host);
    if (c->stage == STAGE_UP && !c->leaving) {
      client_disconnect(c);
      client_flush(c);
      sim_wake_host(c->host);
    }
    bool left = c->last && c->leaving && c->stage == STAGE_IDLE;
    gone = gone && left;
    c->next_ns = left ? U64_MAX : c->next_ns;
  }
  if (gone && lines_gone()) {
    enter(PHASE_GONE);
  } else if (sim_now_ns() > game->phase_ns + CALM_NS) {
    sim_fail("clients that said DISCONNECT are still connected");
  }
}

static void check_pools(void) {
  if (sim_rx_held() > 0) {
    sim_fail("O8: %u receive buffers are still held", sim_rx_held());
  }
  for (u32 i = 0; pool_listed(i) != NULL; i++) {
    const struct pool *p = pool_listed(i);
    bool stays = strcmp(p->name, "topic node") == 0 || strcmp(p->name, "retained node") == 0 ||
                 strcmp(p->name, "tcp time-wait") == 0;
    if (sim_is_broker_memory(p->base) && pool_taken(p) > 0 && !stays) {
      sim_fail("O8: pool %s: %u still taken", p->name, pool_taken(p));
    }
  }
}

// A cable fails now and then, for a second or two; seldom for longer.
static void links_come_and_go(void) {
  for (u32 h = 0; h < game->hosts; h++) {
    for (u32 d = 0; d < 2; d++) {
      struct sim_link *l = sim_link_of(h, d);
      l->down = l->down ? !chance(10) : draw(1000) < 2;
    }
  }
}

// What the library holds for them ends with the broker's process.
static void cut_sealed(void) {
  for (u32 n = 0; game->tls && n < game->clients; n++) {
    struct client *c = &game->client[n];
    sim_as_host(c->host);
    if (c->line != NULL) {
      client_cut(c);
    }
  }
}

static u64 on_act(void) {
  u64 now = sim_now_ns();
  if (game->phase == PHASE_CHAOS && now >= game->crash_ns) {
    game->crashes_left--;
    game->crash_ns = game->crashes_left == 0 ? U64_MAX : now + (5 + draw(60)) * SIM_S;
    cut_sealed();
    model_crashed(game_has_disk(sim_seed()));
    wire_forget();
    sim_crash((100 + draw(5000)) * SIM_MS);
  }
  switch (game->phase) {
  case PHASE_CHAOS:
    if (now > game->phase_ns + game->chaos_ns) {
      weather(false);
      enter(PHASE_CALM);
    } else {
      links_come_and_go();
    }
    break;
  case PHASE_CALM:
  case PHASE_CHECK: calm(); break;
  case PHASE_LEAVE: leave(); break;
  case PHASE_GONE:
    if (now > game->phase_ns + SETTLE_NS) {
      check_pools();
      enter(PHASE_STOP);
      sim_stop_broker();
    }
    break;
  default:
    if (now > game->phase_ns + CALM_NS) {
      sim_fail("the broker does not stop");
    }
  }
  return sim_now_ns() + 200 * SIM_MS;
}

static void on_ended(void) {
  if (game->phase != PHASE_STOP) {
    sim_fail("the broker's machine stopped by itself");
  }
  sim_pass();
}

const struct sim_harness game_harness = {.start = on_start,
                                         .boot = on_boot,
                                         .act = on_act,
                                         .host_turn = on_host_turn,
                                         .host_deadline = on_host_deadline,
                                         .bundle = on_bundle,
                                         .ended = on_ended,
                                         .frame = wire_frame};
