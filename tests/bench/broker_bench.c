// SPDX-License-Identifier: Apache-2.0
// What a delivery costs in the broker alone, without network or TLS: packets are decoded and handed
// over, every receiver is pulled dry 16 KiB at a time, acknowledgements are decoded and handed
// over. Prints ns a delivery, the least of the rounds; without rules and with an acl_file of 5 000
// users, three rules each, and two patterns (half of the receivers anonymous). Then retained
// messages, and a match among filters that do not match: fails when a million cost more than twice
// what 1 000 do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "broker/acl.h"
#include "broker/broker.h"
#include "loop/loop.h"
#include "mqtt/encode.h"

#define RECEIVERS_MAX 100u
#define BATCH 64u  // messages a publisher sends before the receivers are pulled
#define ROUNDS 7u

struct peer {
  struct session *s;
  bool ready;
  u32 got;
};
static struct core core;
static u8 out[16384];
static u32 deliveries_a_round = 400000;

// In place of unit_plat's: room for a million subscriptions.
u32 plat_memory(struct span regions[PLAT_REGION_MAX]) {
  usize len = (usize)1 << 30;
  void *p =
      mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  regions[0] = span_of(p, p == MAP_FAILED ? 0 : len);
  return 1;
}

static u64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}
static void on_wake(void *user) {
  ((struct peer *)user)->ready = true;
}
static void on_kick(void *user, enum mqtt_reason reason) {
  (void)user, (void)reason;
  abort();
}
static void must(bool ok, const char *what) {
  if (!ok) {
    fprintf(stderr, "broker_bench: %s\n", what);
    exit(1);
  }
}

static void open_peer(struct peer *p, u32 n, enum mqtt_version v) {
  u8 buf[128];
  char id[16];
  snprintf(id, sizeof id, "c%u", n);
  struct writer w = writer_init(span_of(buf, sizeof buf));
  struct mqtt_connect_out o = {.version = v, .clean_start = true, .client_id = bytes_str(id)};
  mqtt_encode_connect(&w, &o);
  struct mqtt_connect c;
  struct broker_identity who = {.qos_max = 2};
  if (n % 2 == 0) {
    who.username = bytes_str(id);
    who.has_username = true;
  }
  u16 keep_alive = 0;
  must(mqtt_decode_connect(writer_bytes(&w), &c) == MQTT_SUCCESS, "CONNECT");
  must(broker_on_connect(core.broker, p, &c, writer_bytes(&w), &who, 0, &p->s, &keep_alive) == 0,
       "connect");
}

static void subscribe_to(struct peer *p, enum mqtt_version v, u8 qos, struct bytes filter) {
  u8 buf[128];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  struct mqtt_entry_out e = {filter, qos};
  struct mqtt_subscribe s;
  mqtt_encode_subscribe(&w, v, 1, NULL, &e, 1);
  must(mqtt_decode_subscribe(v, writer_bytes(&w), &s) == MQTT_SUCCESS, "SUBSCRIBE");
  must(broker_on_subscribe(p->s, &s, writer_bytes(&w), 0) == MQTT_SUCCESS, "subscribe");
}

static void subscribe(struct peer *p, enum mqtt_version v, u8 qos) {
  subscribe_to(p, v, qos, BYTES_LIT("bench/topic/+"));
}

static void answer(struct peer *p, enum mqtt_version v, u16 id) {
  u8 buf[8];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  struct mqtt_ack a;
  mqtt_encode_ack(&w, v, MQTT_PUBACK, id, MQTT_SUCCESS, NULL);
  must(mqtt_decode_ack(v, writer_bytes(&w), &a) == MQTT_SUCCESS, "PUBACK");
  must(broker_on_ack(p->s, MQTT_PUBACK, &a, 0) == MQTT_SUCCESS, "ack");
}

// Pulls a peer dry; reads and acknowledges QoS 1 when `qos` says so.
static void drain(struct peer *p, enum mqtt_version v, u8 qos) {
  u32 kept = 0;
  while (p->ready) {
    u32 n = broker_pull(p->s, span_of(out + kept, sizeof out - kept), 0);
    if (n == 0) {
      p->ready = false;
    }
    u32 have = kept + n;
    u32 pos = 0;
    while (qos > 0 && pos < have) {
      struct mqtt_header h;
      struct bytes left = bytes_of(out + pos, have - pos);
      if (mqtt_fixed_header(left, &h) != ERR_OK || h.header_len + h.remaining_len > left.len) {
        break;
      }
      struct bytes packet = bytes_of(left.ptr, h.header_len + h.remaining_len);
      struct mqtt_publish m;
      if (h.type == MQTT_PUBLISH && mqtt_decode_publish(v, packet, &m) == MQTT_SUCCESS) {
        p->got++;
        answer(p, v, m.packet_id);
      }
      pos += (u32)packet.len;
    }
    kept = qos > 0 ? have - pos : 0;
    memmove(out, out + pos, kept);
  }
}

static void run(enum mqtt_version v, u8 qos, u32 receivers, u32 payload_len) {
  static struct peer peer[RECEIVERS_MAX + 1];
  u8 payload[4096] = {0};
  u8 buf[4200];
  memset(peer, 0, sizeof peer);
  for (u32 i = 0; i <= receivers; i++) {
    open_peer(&peer[i], i, v);
    if (i > 0) {
      subscribe(&peer[i], v, qos);
    }
    drain(&peer[i], v, 0);
  }
  struct mqtt_publish_out o = {.qos = qos,
                               .packet_id = qos > 0 ? 1 : 0,
                               .topic = BYTES_LIT("bench/topic/1"),
                               .payload_len = payload_len};
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_publish_head(&w, v, &o);
  write_bytes(&w, bytes_of(payload, payload_len));
  u32 batch = qos > 0 ? 16 : BATCH;
  u32 loops = deliveries_a_round / receivers / batch;
  u64 best = U64_MAX;
  u64 sent = broker_stats(core.broker)->publish_sent;
  for (u32 r = 0; r < ROUNDS; r++) {
    u64 start = now_ns();
    for (u32 l = 0; l < loops; l++) {
      for (u32 i = 0; i < batch; i++) {
        struct mqtt_publish m;
        must(mqtt_decode_publish(v, writer_bytes(&w), &m) == MQTT_SUCCESS, "PUBLISH");
        must(broker_on_publish(peer[0].s, &m, writer_bytes(&w), 0) == MQTT_SUCCESS, "publish");
      }
      for (u32 i = 0; i <= receivers; i++) {
        drain(&peer[i], v, i > 0 ? qos : 0);
      }
    }
    u64 took = now_ns() - start;
    best = took < best ? took : best;
  }
  u64 deliveries = (u64)loops * batch * receivers;
  must(broker_stats(core.broker)->publish_sent - sent == deliveries * ROUNDS, "a delivery is lost");
  printf("v%u QoS %u 1 to %3u, %4u B: %6.1f ns a delivery\n", v, qos, receivers, payload_len,
         (double)best / (double)deliveries);
  for (u32 i = 0; i <= receivers; i++) {
    broker_detach(peer[i].s, 0);
  }
}

// A store of retained messages, then two new subscribers: of everything, and of one site in 1000.
static void run_retained(u32 count) {
  static struct peer all, site;
  char topic[40];
  for (u32 i = 0; i < count; i++) {
    snprintf(topic, sizeof topic, "site/%u/sensor/%u", i % 1000, i);
    must(broker_publish(core.broker, bytes_str(topic), BYTES_LIT("0123456789abcdef"), 0, true, 0),
         "retained");
  }
  open_peer(&all, 1, MQTT_V4);
  open_peer(&site, 2, MQTT_V4);
  drain(&all, MQTT_V4, 0);
  drain(&site, MQTT_V4, 0);
  const char *filter[] = {"#", "site/77/#"};
  struct peer *peer[] = {&all, &site};
  for (u32 k = 0; k < 2; k++) {
    u8 buf[64];
    struct writer w = writer_init(span_of(buf, sizeof buf));
    struct mqtt_entry_out e = {bytes_str(filter[k]), 0};
    struct mqtt_subscribe s;
    mqtt_encode_subscribe(&w, MQTT_V4, 1, NULL, &e, 1);
    must(mqtt_decode_subscribe(MQTT_V4, writer_bytes(&w), &s) == MQTT_SUCCESS, "SUBSCRIBE");
    u64 sent = broker_stats(core.broker)->publish_sent;
    u64 start = now_ns();
    u64 longest = 0;
    must(broker_on_subscribe(peer[k]->s, &s, writer_bytes(&w), 0) == MQTT_SUCCESS, "subscribe");
    for (bool busy = true; busy;) {
      u64 slice = now_ns();
      busy = broker_stage(&core, core.broker);
      slice = now_ns() - slice;
      longest = slice > longest ? slice : longest;
      busy |= peer[k]->ready;
      drain(peer[k], MQTT_V4, 0);
    }
    u64 took = now_ns() - start;
    sent = broker_stats(core.broker)->publish_sent - sent;
    must(sent == (k == 0 ? count : count / 1000), "a retained message is lost");
    printf("retained, %u stored, '%s': %llu messages in %.0f us, longest slice %.0f us\n", count,
           filter[k], (unsigned long long)sent, (double)took / 1e3, (double)longest / 1e3);
    broker_detach(peer[k]->s, 0);
  }
}

// One message to one subscriber whose filter stands among `others` that do not match, 100 a session
// and every tenth with a '+': CPU of a delivery, the least of the rounds.
static double match_ns(u32 others) {
  static struct timer timers[64];
  static struct peer owner[10001];
  struct broker_limits l;
  struct carve carve;
  core_init(&core, 0, timers, 64);
  broker_limits_default(&l, 64u << 20);
  l.sessions = 10100;
  l.subscriptions = l.topic_nodes = others + 10000;
  l.topic_nodes += others / 10 + 10000;
  carve_init(&carve);
  must(broker_init(&core, &carve, &l) == ERR_OK, "memory");
  broker_set_ops(core.broker, &(struct broker_ops){.wake = on_wake, .kick = on_kick});
  memset(owner, 0, sizeof owner);
  for (u32 i = 0; i <= others / 100; i++) {
    open_peer(&owner[i], i, MQTT_V4);
    drain(&owner[i], MQTT_V4, 0);
    for (u32 k = 0; k < 100 && i > 0; k++) {
      char filter[48];
      snprintf(filter, sizeof filter, k % 10 == 9 ? "scale/%u/+/%u" : "scale/%u/%u", i, k);
      subscribe_to(&owner[i], MQTT_V4, 0, bytes_str(filter));
      drain(&owner[i], MQTT_V4, 0);
    }
  }
  must(broker_stats(core.broker)->subscriptions == others, "subscriptions");
  struct peer *one = &owner[0];
  subscribe_to(one, MQTT_V4, 0, BYTES_LIT("scale/0/4"));
  u64 best = U64_MAX;
  u64 sent = broker_stats(core.broker)->publish_sent;
  for (u32 r = 0; r < ROUNDS; r++) {
    u64 start = now_ns();
    for (u32 i = 0; i < 20000; i++) {
      must(broker_publish(core.broker, BYTES_LIT("scale/0/4"), BYTES_LIT("x"), 0, false, 0),
           "publish");
      drain(one, MQTT_V4, 0);
    }
    u64 took = now_ns() - start;
    best = took < best ? took : best;
  }
  must(broker_stats(core.broker)->publish_sent - sent == 20000 * ROUNDS, "a delivery is lost");
  printf("one receiver among %7u filters that do not match: %6.1f ns a delivery\n", others,
         (double)best / 20000);
  return (double)best / 20000;
}

static void complain(void *user, const struct acl_complaint *c) {
  (void)user;
  fprintf(stderr, "broker_bench: acl: %u: %s\n", c->line, c->text);
  exit(1);
}
// Rules under which every delivery of this bench is allowed, at the end of the lists.
static void use_rules(void) {
  static const struct siphash_key key = {1, 2};
  static char text[1u << 20];
  u32 at = (u32)snprintf(text, sizeof text,
                         "topic read site/+/x\ntopic bench/#\npattern read cmd/%%c/#\n"
                         "pattern deny bench/+/%%u\n");
  for (u32 i = 0; i < 5000; i++) {
    at += (u32)snprintf(text + at, sizeof text - at,
                        "user c%u\ntopic deny secret/%u/#\ntopic read site/%u/#\n"
                        "topic bench/topic/+\n",
                        i, i, i);
  }
  u64 size = acl_bytes(bytes_str(text));
  void *memory = aligned_alloc(16, size);
  struct acl *a = acl_parse(bytes_str(text), span_of(memory, size), &key, complain, NULL);
  must(a != NULL, "rules");
  struct access_rules r = {.ctx = a, .allows = acl_allows};
  broker_set_access(core.broker, 0, &r, false);
  printf("with an acl_file of 5 000 users (%llu KiB):\n", (unsigned long long)size >> 10);
}

// broker_bench [DELIVERIES CASE]: one case only, for counting instructions (broker_ir.py).
int main(int argc, char **argv) {
  static struct timer timers[4096];
  u32 only = argc > 2 ? (u32)atoi(argv[2]) : 100;
  deliveries_a_round = argc > 1 ? (u32)atoi(argv[1]) : deliveries_a_round;
  struct broker_limits l;
  struct carve carve;
  core_init(&core, 0, timers, 4096);
  broker_limits_default(&l, 64u << 20);
  l.sessions = 1000;
  carve_init(&carve);
  must(broker_init(&core, &carve, &l) == ERR_OK, "memory");
  broker_set_ops(core.broker, &(struct broker_ops){.wake = on_wake, .kick = on_kick});
  if (only >= 10 && only < 18) {  // the same under rules
    use_rules();
  }
  for (u32 i = 0; i < 8; i++) {
    if (only == 100 || only % 10 == i) {
      run(i < 4 ? MQTT_V4 : MQTT_V5, i / 2 % 2, i % 2 == 0 ? 1 : 100, 64);
    }
  }
  if (only != 100) {
    return 0;
  }
  run(MQTT_V4, 0, 1, 4000);
  run_retained(50000);
  use_rules();
  run(MQTT_V4, 0, 1, 64);
  run(MQTT_V4, 0, 100, 64);
  run(MQTT_V4, 1, 100, 64);
  double few = match_ns(1000);
  double many = match_ns(1000000);
  must(many <= 2 * few, "a match among 1 000 000 filters costs more than twice as much");
  return 0;
}
