// SPDX-License-Identifier: Apache-2.0
// Words that several cores touch:
//   stopping  core 0 releases it (cores_stop_stage), the others acquire it each turn.
//   call      core 0 fills it in and releases its state, the core that it is for acquires that,
//             does it and releases it again; core 0 acquires that.
//   ended     each other core adds 1 as its last act; core 0 acquires it.
#include "admin/cores.h"

#include "admin/console.h"
#include "admin/log.h"
#include "admin/serve.h"
#include "admin/serve_store.h"
#include "base/shared.h"
#include "loop/epoch.h"
#include "loop/loop.h"
#include "loop/mailbox.h"
#include "store/store.h"

#define CALL_NS 10000000000ull
#define CALL_LOOK_NS 50000ull
#define DRAIN_NS 2000000000ull  // after the last DISCONNECT: time for its FIN to be acknowledged

static struct core *cores[PLAT_CORE_MAX];
static u32 count;
static u64 drained_ns;
static u32 stopping;
static u64 ended;
static bool running;
static struct call {
  u32 due ALIGNED(64);
  void (*run)(struct core *core, void *arg);
  void *arg;
} calls[PLAT_CORE_MAX];

static void random_for_tls(struct span out) {
  (void)plat_random(out);
}

u32 cores_count(void) {
  return count;
}

struct core *cores_at(u32 i) {
  ASSERT(i < count);
  return cores[i];
}

static bool drained(struct core *c) {
  return server_drain(c->server) && net_stats(c->net)->tcp_open == 0;
}

// A core other than 0: once core 0 has said so, its clients are told, then its loop stops.
static bool follow_stop(struct core *c, void *ctx) {
  u64 *since_ns = ctx;
  if (shared_acquire_u32(&stopping) == 0) {
    return false;
  }
  *since_ns = *since_ns == 0 ? c->now_ns : *since_ns;
  c->stop = drained(c) || c->now_ns - *since_ns > 2 * DRAIN_NS;
  return !c->stop;
}

// --- what core 0 wants done elsewhere

static bool answer_call(struct core *c, void *ctx) {
  struct call *call = ctx;
  if (shared_acquire_u32(&call->due) == 0) {
    return false;
  }
  call->run(c, call->arg);
  shared_release_u32(&call->due, 0);
  plat_wake(0);
  return true;
}

// Nobody waits for core 0 meanwhile, so that it may wait for all.
void cores_do(void (*run)(struct core *core, void *arg), void *arg) {
  if (!running) {
    for (u32 i = 1; i < count; i++) {
      run(cores[i], arg);
    }
    return;
  }
  if (shared_acquire_u32(&stopping) != 0) {
    return;  // a core that has ended answers no more
  }
  for (u32 i = 1; i < count; i++) {
    ASSERT(calls[i].due == 0);
    calls[i].run = run;
    calls[i].arg = arg;
    shared_release_u32(&calls[i].due, 1);
    plat_wake(i);
  }
  u64 start = plat_now_ns();
  for (u32 i = 1; i < count; i++) {
    while (shared_acquire_u32(&calls[i].due) != 0) {
      ASSERT(plat_now_ns() - start < CALL_NS);  // a turn never takes that long
      plat_idle(0, plat_now_ns() + CALL_LOOK_NS);
    }
  }
}

// Parts in the order of a turn: receive, what has become durable, broker's slices, input, output,
// what is to be written, send (net_flush).
static bool make(struct carve *carve, const struct limits *l, u32 id) {
  struct span own = carve_take(carve, sizeof(struct core), 64);
  struct span timers = carve_take(carve, l->timers * sizeof(struct timer), 64);
  if (own.ptr == NULL || timers.ptr == NULL) {
    return false;
  }
  struct core *c = cores[id] = (struct core *)(void *)own.ptr;
  core_init(c, id, (struct timer *)(void *)timers.ptr, l->timers);
  return true;
}

static bool fill(struct carve *carve, const struct limits *l, struct core *c) {
  static u64 since_ns[PLAT_CORE_MAX];
  if (net_init(c, carve, &l->net) != ERR_OK || broker_init(c, carve, &l->broker) != ERR_OK) {
    return false;
  }
  if (c->id == 0 && serve_store() != NULL) {
    loop_stage(c, "store, what is durable", store_stage, serve_store());
  }
  loop_stage(c, "broker", broker_stage, c->broker);
  if (server_init(c, carve, &l->server) != ERR_OK) {
    return false;
  }
  if (c->id != 0) {
    loop_stage(c, "calls", answer_call, &calls[c->id]);
    loop_stage(c, "stop", follow_stop, &since_ns[c->id]);
  }
  if (c->id == 0 && serve_store() != NULL) {
    loop_stage(c, "store, what is new", store_stage, serve_store());
  }
  loop_stage(c, "net flush", net_flush, c->net);
  return true;
}

// Mail and epochs, for more than one core.
static bool connect(struct carve *carve, const struct limits *l) {
  if (count == 1) {
    return true;
  }
  struct mailroom *room = mailroom_open(carve, count, l->mail_ring_len);
  struct epoch *epoch = epoch_open(carve, count);
  if (room == NULL || epoch == NULL) {
    return false;
  }
  for (u32 i = 0; i < count; i++) {
    mailbox_open(cores[i], room);
    if (i == 0) {
      mailbox_on(cores[i], MAIL_ADMIN, log_mail, NULL);
    }
    cores[i]->epoch = epoch;
  }
  return true;
}

// The brokers become one.
static bool join(struct carve *carve, const struct limits *l) {
  struct broker_shared *shared = broker_shared_open(carve, count, &l->broker);
  bool good = shared != NULL;
  for (u32 i = 0; i < count && good; i++) {
    good = broker_join(cores[i], carve, shared) == ERR_OK;
  }
  return good;
}

bool cores_init(struct carve *carve, const struct limits *l) {
  struct span heap = carve_take(carve, l->tls_heap_len, 64);
  if (heap.ptr == NULL) {
    return false;
  }
  tls_init(heap, random_for_tls);
  for (u32 i = 0; i < l->cores; i++) {
    if (!make(carve, l, i)) {
      return false;
    }
  }
  count = l->cores;
  if (!connect(carve, l)) {
    return false;
  }
  for (u32 i = 0; i < count; i++) {
    if (!fill(carve, l, cores[i])) {
      return false;
    }
  }
  return count == 1 || join(carve, l);
}

bool cores_serve(const struct config *c) {
  bool good = true;
  for (u32 i = 1; i < count; i++) {
    serve_security_also(cores[i], c);
    log_attach(c, cores[i]);
    good &= serve_listeners(cores[i], c, true);
  }
  return good;
}

// --- running

void urmqtt_core(u32 id) {
  struct core *c = id < count ? cores[id] : NULL;  // else: too little memory for so many
  if (c == NULL) {
    return;
  }
  tls_core_init();
  log_from(c);
  loop_run(c);
  (void)shared_add_u64(&ended, 1);
  plat_wake(0);
}

static void stop_others(void) {
  shared_release_u32(&stopping, 1);
  for (u32 i = 1; i < count; i++) {
    plat_wake(i);
  }
}

bool cores_stop_stage(struct core *c, void *unused) {
  (void)unused;
  if (!plat_stop_requested() && !console_stop_requested()) {
    return false;
  }
  if (shared_acquire_u32(&stopping) == 0) {
    stop_others();
  }
  if (!server_drain(c->server)) {
    return true;
  }
  if (drained_ns == 0) {
    say("stopping: every client has been told");
    drained_ns = c->now_ns;
  }
  bool others = shared_acquire_u64(&ended) == count - 1;
  bool late = c->now_ns - drained_ns > DRAIN_NS;
  c->stop = (others && (late || (net_stats(c->net)->tcp_open == 0 && serve_store_quiet()))) ||
            c->now_ns - drained_ns > 4 * DRAIN_NS;
  return false;
}

void cores_loop(void) {
  running = count > 1;
  plat_cores_start();
  loop_run(cores[0]);
}
