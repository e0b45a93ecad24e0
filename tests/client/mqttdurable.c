// SPDX-License-Identifier: Apache-2.0
// Publishes QoS 1 to sessions that are kept and offline, and measures the acknowledgements: how
// many a second, and how long each took. Makes the sessions first. Prints `ready`, waits for a line
// on standard input, measures, prints one JSON object. Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mclient.h"

#define WINDOW_MAX 1024
#define STEP_US 10.0
#define STEPS 100000  // of the histogram: one second

enum role { ROLE_SUB, ROLE_PUB };

static struct {
  int publishers, sessions, seconds, size, inflight;
} opt = {.publishers = 100, .sessions = 1000, .seconds = 4, .size = 64, .inflight = 20};

struct publisher {
  double sent[WINDOW_MAX];  // of what is not acknowledged, oldest first
  int first, count;
};
static struct publisher *pub;
static uint32_t histogram[STEPS];
static uint64_t acked, refused, next_topic;

static void on_open(struct mclient *c) {
  uint8_t b[128];
  char id[32];
  size_t n = mc_string(b, "MQTT");
  b[n++] = 4;
  b[n++] = c->role == ROLE_PUB ? 2 : 0;  // clean session
  b[n++] = 0;
  b[n++] = 0;  // no keep-alive
  snprintf(id, sizeof id, "durable-%d-%u", c->role, c->number);
  n += mc_string(b + n, id);
  mc_put_packet(c, 0x10, b, n);
  mc_flush(c);
}

static void subscribe(struct mclient *c) {
  uint8_t b[64] = {0, 1};
  char topic[32];
  snprintf(topic, sizeof topic, "d/%u", c->number);
  size_t n = 2 + mc_string(b + 2, topic);
  b[n++] = 1;
  mc_put_packet(c, 0x82, b, n);
  mc_flush(c);
}

static void publish(struct mclient *c) {
  static uint8_t b[65536];
  struct publisher *p = &pub[c->number];
  char topic[32];
  snprintf(topic, sizeof topic, "d/%u", (unsigned)(next_topic++ % (uint64_t)opt.sessions));
  size_t n = mc_string(b, topic);
  uint16_t pid = mc_next_pid(c);
  b[n++] = (uint8_t)(pid >> 8);
  b[n++] = (uint8_t)pid;
  memset(b + n, 'x', (size_t)opt.size);
  mc_put_packet(c, 0x32, b, n + (size_t)opt.size);
  p->sent[(p->first + p->count++) % WINDOW_MAX] = mc_now();
}

static void on_packet(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  (void)len;
  switch (p[0] >> 4) {
  case 2:
    if (p[head + 1] != 0) {
      mc_fail(c, "CONNACK refused");
    } else if (c->role == ROLE_SUB) {
      subscribe(c);
    } else {
      c->stage = MC_READY;
    }
    break;
  case 9:
    refused += p[head + 2] == 0x80;
    c->stage = MC_READY;
    break;
  case 4: {
    struct publisher *q = &pub[c->number];
    double us = (mc_now() - q->sent[q->first]) * 1e6;
    q->first = (q->first + 1) % WINDOW_MAX;
    q->count--;
    int step = (int)(us / STEP_US);
    histogram[step < STEPS ? step : STEPS - 1]++;
    acked++;
    break;
  }
  default: break;
  }
}

static void all_ready(struct mclient *c, int n) {
  double begin = mc_now();
  for (bool ready = false; !ready;) {
    mc_poll(100);
    ready = true;
    for (int i = 0; i < n; i++) {
      ready = ready && c[i].stage == MC_READY;
    }
    if (mc_now() - begin > 60) {
      fprintf(stderr, "mqttdurable: not all are connected\n");
      exit(1);
    }
  }
}

static double percentile(double part) {
  uint64_t sum = 0;
  for (int i = 0; i < STEPS; i++) {
    sum += histogram[i];
    if (sum >= (uint64_t)((double)acked * part)) {
      return (i + 1) * STEP_US;
    }
  }
  return STEPS * STEP_US;
}

static void measure(struct mclient *c) {
  double begin = mc_now();
  while (mc_now() - begin < opt.seconds) {
    for (int i = 0; i < opt.publishers; i++) {
      while (pub[i].count < opt.inflight) {
        publish(&c[i]);
      }
      mc_flush(&c[i]);
    }
    mc_poll(1);
  }
  double wall = mc_now() - begin;
  printf(
      "{\"acked\": %llu, \"per_s\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"client_cpu_s\": "
      "%.2f, "
      "\"wall_s\": %.2f, \"failed\": %llu}\n",
      (unsigned long long)acked, (double)acked / wall, percentile(0.5), percentile(0.99),
      mc_cpu_seconds(), wall, (unsigned long long)(mc.failures + refused));
}

int main(int argc, char **argv) {
  const struct mc_option table[] = {
      {"--host", NULL, &mc.host, NULL},
      {"--port", &mc.port, NULL, NULL},
      {"--publishers", &opt.publishers, NULL, NULL},
      {"--sessions", &opt.sessions, NULL, NULL},
      {"--seconds", &opt.seconds, NULL, NULL},
      {"--size", &opt.size, NULL, NULL},
      {"--inflight", &opt.inflight, NULL, NULL},
  };
  if (!mc_options(table, sizeof table / sizeof table[0], argc, argv, 1) ||
      opt.inflight > WINDOW_MAX || opt.size > 60000) {
    fprintf(stderr, "mqttdurable: wrong usage\n");
    return 2;
  }
  mc.on_open = on_open;
  mc.on_packet = on_packet;
  mc_init();
  struct mclient *s = calloc((size_t)opt.sessions, sizeof *s);
  struct mclient *c = calloc((size_t)opt.publishers, sizeof *c);
  pub = calloc((size_t)opt.publishers, sizeof *pub);
  for (int i = 0; i < opt.sessions; i++) {
    mc_open(&s[i], (uint32_t)i, ROLE_SUB, 4);
  }
  all_ready(s, opt.sessions);
  for (int i = 0; i < opt.sessions; i++) {
    mc_close(&s[i], true);
  }
  for (int i = 0; i < opt.publishers; i++) {
    mc_open(&c[i], (uint32_t)i, ROLE_PUB, 4);
  }
  all_ready(c, opt.publishers);
  printf("ready\n");
  fflush(stdout);
  char go[8];
  if (!fgets(go, sizeof go, stdin)) {
    return 1;
  }
  measure(c);
  return mc.failures + refused > 0 || acked == 0;
}
