// SPDX-License-Identifier: Apache-2.0
// The subscription index by size: what a routing costs among 1 000 and among 1 000 000 filters that
// do not match (exits 1 when that is more than twice as much), by depth and by matches, how long a
// million subscriptions take to make and to end, and what they cost in memory. No network, one
// core.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/state.h"
#include "loop/loop.h"

#define SESSIONS 1000u
#define MILLION 1000000u
#define ROUNDS 100u  // short ones: the least is a quiet one, also on a busy machine
#define LOOPS 1000u

static struct core core;
static struct session *session[SESSIONS];

static u64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}
static void must(bool ok, const char *what) {
  if (!ok) {
    fprintf(stderr, "index_bench: %s\n", what);
    exit(1);
  }
}
static void on_kick(void *user, enum mqtt_reason reason) {
  (void)user, (void)reason;
}

static void connect_all(void) {
  for (u32 i = 0; i < SESSIONS; i++) {
    u8 buf[64];
    char id[16];
    snprintf(id, sizeof id, "c%u", i);
    struct writer w = writer_init(span_of(buf, sizeof buf));
    struct mqtt_connect_out o = {
        .version = MQTT_V5, .clean_start = true, .client_id = bytes_str(id)};
    mqtt_encode_connect(&w, &o);
    struct mqtt_connect c;
    struct broker_identity who = {.qos_max = 2};
    u16 keep_alive = 0;
    must(mqtt_decode_connect(writer_bytes(&w), &c) == MQTT_SUCCESS, "CONNECT");
    must(broker_on_connect(core.broker, &session[i], &c, writer_bytes(&w), &who, 0, &session[i],
                           &keep_alive) == 0,
         "connect");
  }
}

static void subscribe(u32 i, const char *filter) {
  bool existed = false;
  struct sub *sub =
      tree_subscribe(core.broker, session[i], bytes_str(filter), bytes_of(NULL, 0), &existed);
  must(sub != NULL && !existed, "subscribe");
}

// Filters that never match what is measured: the same first levels, then their own.
static void fill(u32 from, u32 to) {
  char filter[64];
  for (u32 i = from; i < to; i++) {
    snprintf(filter, sizeof filter, "site/%u/%s/value", i, i % 10 == 0 ? "+" : "temperature");
    subscribe(i % SESSIONS, filter);
  }
}

// ns a match of `topic`, the least of the rounds.
static double measure(const char *topic, u32 want) {
  struct broker *b = core.broker;
  u64 best = U64_MAX;
  for (u32 r = 0; r < ROUNDS; r++) {
    u64 start = now_ns();
    for (u32 k = 0; k < LOOPS; k++) {
      b->route_gen++;
      tree_match(b, bytes_str(topic), NULL);
      u32 found = 0;
      for (u32 i = b->route_head; k == 0 && i != NONE; i = session_at(b, i)->route_next) {
        found++;
      }
      must(k > 0 || found == want, "wrong matches");
      b->route_head = b->route_tail = b->route_shared = NONE;
    }
    u64 took = now_ns() - start;
    best = took < best ? took : best;
  }
  return (double)best / LOOPS;
}

static void show(const char *what, double small, double large) {
  printf("%-44s %7.0f ns %7.0f ns  %.2f\n", what, small, large, large / small);
}

int main(void) {
  static struct timer timers[2048];
  static const struct {
    const char *topic, *what;
    u32 want;
  } cases[] = {{"site/none/temperature/value", "nothing matches, 4 levels", 0},
               {"hit/1/temperature/value", "one matches, 4 levels", 1},
               {"hit/10/temperature/value", "11 match, 4 levels", 11},
               {"a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p", "one matches, 16 levels", 1}};
  struct broker_limits l;
  core_init(&core, 0, timers, 2048);
  broker_limits_default(&l, 16u << 20);
  l.sessions = SESSIONS;
  l.subscriptions = MILLION + 1000;
  l.topic_nodes = 3 * MILLION + 1000;
  u64 len = broker_bytes(&l) + 4096;
  struct carve carve = {.region = {{calloc(1, len), len}}, .region_count = 1, .total_len = len};
  must(carve.region[0].ptr != NULL && broker_init(&core, &carve, &l) == ERR_OK, "memory");
  broker_set_ops(core.broker, &(struct broker_ops){.kick = on_kick});
  connect_all();
  subscribe(0, "hit/1/temperature/value");
  for (u32 i = 0; i < 10; i++) {
    subscribe(i, i == 0 ? "hit/10/#" : i % 2 == 0 ? "hit/10/temperature/+" : "hit/10/+/value");
  }
  subscribe(10, "hit/10/temperature/value");
  subscribe(0, "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p");
  fill(0, 1000);
  double small[ARRAY_COUNT(cases)];
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    small[i] = measure(cases[i].topic, cases[i].want);
  }
  u64 start = now_ns();
  fill(1000, MILLION);
  u64 made = now_ns() - start;
  printf("%-44s %10s %10s\n", "a match among filters beside it", "1 000", "1 000 000");
  bool good = true;
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    double large = measure(cases[i].topic, cases[i].want);
    show(cases[i].what, small[i], large);
    good = good && large <= 2 * small[i];
  }
  const struct broker *b = core.broker;
  u64 bytes = (u64)pool_taken(&b->subs) * sizeof(struct sub) +
              (u64)pool_taken(&b->nodes) * sizeof(struct tnode);
  printf("subscribe: %.0f ns each; %llu bytes of nodes and subscriptions each\n",
         (double)made / (MILLION - 1000), (unsigned long long)(bytes / pool_taken(&b->subs)));
  start = now_ns();
  for (u32 i = 0; i < SESSIONS; i++) {
    broker_detach(session[i], 0);
  }
  printf("the end of all of them: %.0f ns each\n", (double)(now_ns() - start) / MILLION);
  must(pool_taken(&b->subs) == 0 && pool_taken(&b->nodes) == 1, "something is left");
  return good ? 0 : 1;
}
