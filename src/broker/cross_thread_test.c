// SPDX-License-Identifier: Apache-2.0
// Proves: brokers of three cores on three threads that sleep and wake each other, their clients
// connecting under the same few ids (so sessions move all the time), subscribing (also to groups),
// publishing and leaving at random: no data race (make tsan), of one publisher's messages (QoS 0
// and 1) none comes before an older one, every invariant holds at the end and every pool is empty.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/cross_test_support.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include <cmocka.h>

#define CORES 3u
#define CLIENTS 4u  // of a core
#define IDS 5u
#define SECONDS 4

struct thread {
  u32 core;
  u64 rng;
  struct client client[CLIENTS];
  u32 id[CLIENTS];
  u32 sent;  // publishes of this thread, the number of the last
  u32 seen[CLIENTS][CORES];
  u32 delivered, sleeps, entered;
};
static struct cluster cl;
static struct thread thread[CORES];
static sem_t bell[CORES];
static const char *const topics[] = {"a", "a/b", "c", "c/d/e", "job/1"};
static const char *const filters[] = {
    "#", "a/#", "+", "c/+/e", "a/b", "nobody/publishes/this", "$share/g/job/+", "$share/h/job/#"};

static u32 rnd(struct thread *t, u32 n) {
  t->rng = t->rng * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(t->rng >> 33) % n;
}
static void ring(u32 core) {
  sem_post(&bell[core]);
}

static void begin(struct thread *t, u32 k) {
  struct client *c = &t->client[k];
  char id[8];
  t->id[k] = rnd(t, IDS);
  snprintf(id, sizeof id, "s%u", t->id[k]);
  struct mqtt_prop_out props[] = {
      {.id = MQTT_P_SESSION_EXPIRY, .number = rnd(t, 3) == 0 ? 0 : 1000}, {0}};
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = rnd(t, 5) == 0,
                               .client_id = bytes_str(id),
                               .props = props,
                               .has_will = rnd(t, 4) == 0,
                               .will_topic = BYTES_LIT("will"),
                               .will_payload = BYTES_LIT("w")};
  memset(t->seen[k], 0, sizeof t->seen[k]);
  client_begin(c, &o);
}

static void read_all(struct thread *t, u32 k) {
  struct client *c = &t->client[k];
  for (struct bytes p = client_next(c); p.len > 0; p = client_next(c)) {
    struct mqtt_publish m;
    u8 type = p.ptr[0] >> 4;
    if (type == MQTT_CONNACK) {
      t->entered++;
    }
    if (type == MQTT_PUBREL) {
      struct mqtt_ack a;
      CHECK(mqtt_decode_ack(MQTT_V5, p, &a) == MQTT_SUCCESS);
      (void)client_ack(c, MQTT_PUBCOMP, a.packet_id, 0);
    }
    if (type != MQTT_PUBLISH) {
      continue;
    }
    CHECK(mqtt_decode_publish(MQTT_V5, p, &m) == MQTT_SUCCESS);
    struct bytes payload = bytes_part(p, m.payload);
    if (payload.len == 8) {
      u32 from = load_be32(payload.ptr);
      u32 number = load_be32(payload.ptr + 4);
      CHECK(from < CORES);
      CHECK(m.retain || m.dup || number > t->seen[k][from]);
      t->seen[k][from] = m.retain ? t->seen[k][from] : MAX(t->seen[k][from], number);
      t->delivered++;
    }
    if (m.qos > 0) {
      (void)client_ack(c, m.qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, m.packet_id, 0);
    }
  }
  c->rx_len = c->rx_pos = 0;
}

static void publish(struct thread *t, struct client *c) {
  u8 payload[8];
  store_be32(payload, t->core);
  store_be32(payload + 4, t->sent + 1);
  u32 topic = rnd(t, ARRAY_COUNT(topics));
  struct mqtt_publish_out o = {.qos = (u8)rnd(t, 2),
                               .packet_id = 1,
                               .retain = rnd(t, 8) == 0,
                               .topic = bytes_str(topics[topic]),
                               .payload_len = topic == 4 ? 4 : 8};  // a group keeps no order
  o.packet_id = o.qos > 0 ? 1 : 0;
  u8 buf[64];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_publish_head(&w, MQTT_V5, &o);
  write_bytes(&w, bytes_of(payload, o.payload_len));
  enum mqtt_reason r = dispatch(c, writer_bytes(&w));
  CHECK(r == MQTT_SUCCESS || r == MQTT_SERVER_BUSY);
  t->sent += r == MQTT_SUCCESS ? 1 : 0;
}

static void step(struct thread *t) {
  u32 k = rnd(t, CLIENTS);
  struct client *c = &t->client[k];
  u32 op = rnd(t, 100);
  if (c->s == NULL) {
    if (!c->entering && op < 60) {
      begin(t, k);
    } else if (c->entering && rnd(t, 5000) == 0) {
      client_detach(c);
    }
  } else if (op < 3) {
    client_detach(c);
  } else if (op < 15) {
    enum mqtt_reason r =
        client_subscribe_id(c, filters[rnd(t, ARRAY_COUNT(filters))], (u8)rnd(t, 3), 0, 9);
    CHECK(r == MQTT_SUCCESS || r == MQTT_SERVER_BUSY);
  } else if (op < 20) {
    enum mqtt_reason r = client_unsubscribe(c, filters[rnd(t, ARRAY_COUNT(filters))], 9);
    CHECK(r == MQTT_SUCCESS || r == MQTT_SERVER_BUSY);
  } else if (op < 60) {
    publish(t, c);
  } else {
    read_all(t, k);
  }
}

static void *run(void *arg) {
  struct thread *t = arg;
  struct core *core = &cl.w[t->core].core;
  time_t end = time(NULL) + SECONDS;  // all at once: nobody waits for one that has ended
  while (time(NULL) < end) {
    for (u32 n = rnd(t, 6); n > 0; n--) {
      step(t);
    }
    if (!loop_turn(core) && rnd(t, 4) == 0) {
      epoch_offline(core);
      if (mailbox_sleep(core)) {
        struct timespec at;
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec = (at.tv_nsec + 300000) % 1000000000;
        t->sleeps++;
        (void)sem_timedwait(&bell[t->core], &at);
      }
      mailbox_awake(core);
      epoch_online(core);
    }
    sched_yield();  // there may be fewer processors than cores here
  }
  epoch_offline(core);
  return NULL;
}

static void three_threads(void **state) {
  (void)state;
  pthread_t p[CORES];
  cluster_open(&cl, CORES, NULL);
  cluster_wake = ring;
  for (u32 i = 0; i < CORES; i++) {
    sem_init(&bell[i], 0, 0);
    thread[i] = (struct thread){.core = i, .rng = i + 7};
    for (u32 k = 0; k < CLIENTS; k++) {
      client_init(&thread[i].client[k], &cl.w[i], MQTT_V5);
    }
  }
  for (u32 i = 0; i < CORES; i++) {
    assert_int_equal(pthread_create(&p[i], NULL, run, &thread[i]), 0);
  }
  for (u32 i = 0; i < CORES; i++) {
    pthread_join(p[i], NULL);
  }
  cluster_wake = NULL;
  cluster_settle(&cl);
  cluster_check(&cl);
  for (u32 i = 0; i < CORES; i++) {
    for (u32 k = 0; k < CLIENTS; k++) {
      client_detach(&thread[i].client[k]);
      client_free(&thread[i].client[k]);
    }
    printf("core %u: %u sent, %u delivered, %u entered, %u sleeps\n", i, thread[i].sent,
           thread[i].delivered, thread[i].entered, thread[i].sleeps);
    assert_true(thread[i].sent > 100);
    assert_true(thread[i].delivered > 50);
    assert_true(thread[i].entered > 20);
  }
  cluster_settle(&cl);
  unit_now_ns += 5000 * NS;  // every session ends
  cluster_settle(&cl);
  u32 left = 0;
  for (u32 i = 0; i < CORES; i++) {
    left += cl.w[i].b->stats.clients_total + pool_taken(&cl.w[i].b->cross->places);
  }
  for (u32 i = 0; i < CORES; i++) {
    left += pool_taken(&cl.w[i].b->shares);
  }
  assert_int_equal(left, 0);
  assert_int_equal(wants_count(cl.shared->wants), 1);
  cluster_close(&cl);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(three_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
