// SPDX-License-Identifier: Apache-2.0
// Load generator for benchmarks. Three commands:
//   handshakes  N full (or resumed) TLS handshakes + CONNECT + DISCONNECT, `parallel` at a time;
//               with the CA's key each has a certificate of its own, made before `ready`
//   flow        P publishers and S subscribers for T seconds, a window of undelivered messages
//   idle        opens N connections, one message each way on each, then waits
// Prints `ready`, waits for a line on standard input, measures, prints one JSON object.
// Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mclient.h"

enum role { ROLE_SUB, ROLE_PUB, ROLE_HANDSHAKE, ROLE_IDLE };

static struct {
  const char *cert, *key, *ca_key;
  int publishers, subscribers, qos, seconds, size, window, count, parallel, version, inflight;
  bool distinct;
} opt = {.publishers = 1,
         .subscribers = 1,
         .seconds = 3,
         .size = 64,
         .window = 500,
         .count = 1000,
         .parallel = 1,
         .version = 4,
         .inflight = 20};

static uint64_t published, delivered;
static uint32_t *inflight;  // by publisher
static bool *got_message;   // by idle client

static void on_open(struct mclient *c) {
  uint8_t b[128];
  char id[32];
  size_t n = mc_string(b, "MQTT");
  b[n++] = (uint8_t)c->version;
  b[n++] = 2;  // clean start
  b[n++] = 0;
  b[n++] = 0;  // no keep-alive
  if (c->version == 5) {
    b[n++] = 0;
  }
  snprintf(id, sizeof id, "load-%d-%d-%u", (int)getpid(), c->role, c->number);
  n += mc_string(b + n, id);
  mc_put_packet(c, 0x10, b, n);
  mc_flush(c);
}

static void topic_of(const struct mclient *c, char *out, size_t cap) {
  if (c->role == ROLE_IDLE) {
    snprintf(out, cap, "idle/%d/%u", (int)getpid(), c->number);
  } else {
    snprintf(out, cap, "load/t%u", opt.distinct ? c->number : 0);
  }
}

static void send_subscribe(struct mclient *c) {
  uint8_t b[128] = {0, 1};
  char topic[40];
  size_t n = 2;
  if (c->version == 5) {
    b[n++] = 0;
  }
  topic_of(c, topic, sizeof topic);
  n += mc_string(b + n, topic);
  b[n++] = (uint8_t)opt.qos;
  mc_put_packet(c, 0x82, b, n);
  c->stage = MC_SUBACK;
  mc_flush(c);
}

static void queue_publish(struct mclient *c) {
  static uint8_t b[300000];
  char topic[40];
  topic_of(c, topic, sizeof topic);
  size_t n = mc_string(b, topic);
  if (opt.qos > 0) {
    uint16_t pid = mc_next_pid(c);
    b[n++] = (uint8_t)(pid >> 8);
    b[n++] = (uint8_t)pid;
    if (c->role == ROLE_PUB) {
      inflight[c->number]++;
    }
  }
  if (c->version == 5) {
    b[n++] = 0;
  }
  memset(b + n, 'x', (size_t)opt.size);
  mc_put_packet(c, (uint8_t)(0x30 | opt.qos << 1), b, n + (size_t)opt.size);
  published++;
}

static void on_connack(struct mclient *c, uint8_t code) {
  if (code != 0) {
    mc_fail(c, "CONNACK refused");
  } else if (c->role == ROLE_SUB || c->role == ROLE_IDLE) {
    send_subscribe(c);
  } else if (c->role == ROLE_HANDSHAKE) {
    uint8_t bye[2] = {0xe0, 0};
    mc_put(c, bye, 2);
    mc_flush(c);
    c->stage = MC_DONE;
  } else {
    c->stage = MC_READY;
  }
}

static void on_packet(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  const uint8_t *b = p + head;
  (void)len;
  switch (p[0] >> 4) {
  case 2: on_connack(c, b[1]); break;
  case 9:
    c->stage = MC_READY;
    if (c->role == ROLE_IDLE) {
      queue_publish(c);
      mc_flush(c);
    }
    break;
  case 3:
    delivered++;
    if (c->role == ROLE_IDLE) {
      got_message[c->number] = true;
    }
    if ((p[0] >> 1 & 3) == 1) {
      size_t t = (size_t)(b[0] << 8 | b[1]) + 2;
      uint8_t ack[4] = {0x40, 2, b[t], b[t + 1]};
      mc_put(c, ack, 4);
    }
    break;
  case 4: inflight[c->number] -= c->role == ROLE_PUB ? 1 : 0; break;
  default: break;
  }
}

static void wait_for_go(void) {  // the harness reads the broker's CPU time, then lets us go
  printf("ready\n");
  fflush(stdout);
  char go[8];
  if (!fgets(go, sizeof go, stdin)) {
    exit(1);
  }
}

// `total` connections, at most `parallel` at a time, each to CONNACK and DISCONNECT.
static uint32_t shake_hands(struct mclient *c, bool *busy, uint32_t total) {
  uint32_t started = 0, finished = 0;
  double begin = mc_now();
  while (finished < total && mc_now() - begin < 120) {
    for (int i = 0; i < opt.parallel; i++) {
      if (!busy[i] && started < total) {
        mc_open(&c[i], started++, ROLE_HANDSHAKE, opt.version);
        busy[i] = true;
      }
    }
    mc_poll(100);
    for (int i = 0; i < opt.parallel; i++) {
      if (busy[i] && c[i].stage == MC_DONE) {
        mc_close(&c[i], false);
        busy[i] = false;
        finished++;
      }
    }
  }
  return finished;
}

static int run_handshakes(void) {
  struct mclient *c = calloc((size_t)opt.parallel, sizeof *c);
  bool *busy = calloc((size_t)opt.parallel, sizeof *busy);
  uint32_t total = (uint32_t)opt.count;
  if (opt.ca_key) {
    mc_fresh_certificates(opt.ca_key, total);
  } else {
    shake_hands(c, busy, 1);  // a first ticket, and a chain that the broker knows
    mc.tls_done = mc.tls_resumed = 0;
  }
  wait_for_go();
  double begin = mc_now();
  uint32_t finished = shake_hands(c, busy, total);
  double wall = mc_now() - begin;
  printf(
      "{\"done\": %u, \"failed\": %llu, \"tls\": %llu, \"resumed\": %llu, \"wall_s\": %.4f, "
      "\"per_s\": %.1f, \"client_cpu_s\": %.3f}\n",
      finished, (unsigned long long)mc.failures, (unsigned long long)mc.tls_done,
      (unsigned long long)mc.tls_resumed, wall, finished / wall, mc_cpu_seconds());
  bool as_asked = mc.resume ? mc.tls_resumed >= finished / 10 * 9 : mc.tls_resumed == 0;
  return mc.failures || finished < total || !as_asked;
}

static void wait_ready(struct mclient *c, int n) {
  double begin = mc_now();
  bool ready = false;
  while (!ready && mc_now() - begin < 20) {
    mc_poll(100);
    ready = true;
    for (int i = 0; i < n; i++) {
      ready = ready && (c[i].stage == MC_READY || c[i].stage == MC_DONE);
    }
  }
}

static void publish_window(struct mclient *pubs, uint64_t fan) {
  for (int i = 0; i < opt.publishers; i++) {
    struct mclient *c = &pubs[i];
    uint32_t burst = 0;
    while (c->stage == MC_READY && c->out_len - c->out_pos < 65536 && burst++ < 64 &&
           published * fan < delivered + (uint64_t)opt.window * fan &&
           (opt.qos == 0 || inflight[i] < (uint32_t)opt.inflight)) {
      queue_publish(c);
    }
    mc_flush(c);
  }
}

static void flush_all(struct mclient *c, int n) {
  for (int i = 0; i < n; i++) {
    if (c[i].out_len != c[i].out_pos) {
      mc_flush(&c[i]);
    }
  }
}

static int run_flow(void) {
  struct mclient *subs = calloc((size_t)opt.subscribers, sizeof *subs);
  struct mclient *pubs = calloc((size_t)opt.publishers, sizeof *pubs);
  inflight = calloc((size_t)opt.publishers, sizeof *inflight);
  for (int i = 0; i < opt.subscribers; i++) {
    mc_open(&subs[i], (uint32_t)i, ROLE_SUB, opt.version);
  }
  wait_ready(subs, opt.subscribers);
  for (int i = 0; i < opt.publishers; i++) {  // client ids must differ from the subscribers'
    mc_open(&pubs[i], (uint32_t)i, ROLE_PUB, opt.version);
  }
  wait_ready(pubs, opt.publishers);
  wait_for_go();
  uint64_t fan = (uint64_t)(opt.distinct ? 1 : opt.subscribers);
  double cpu0 = mc_cpu_seconds(), begin = mc_now();
  while (mc_now() - begin < opt.seconds) {
    publish_window(pubs, fan);
    mc_poll(1);
    flush_all(subs, opt.subscribers);
  }
  double wall = mc_now() - begin, cpu = mc_cpu_seconds() - cpu0, drain = mc_now();
  uint64_t counted = delivered;
  while (delivered < published * fan && mc_now() - drain < 10) {
    mc_poll(10);
    flush_all(subs, opt.subscribers);
  }
  printf(
      "{\"published\": %llu, \"delivered\": %llu, \"lost\": %lld, \"failed\": %llu, "
      "\"wall_s\": %.4f, \"per_s\": %.0f, \"client_share\": %.2f}\n",
      (unsigned long long)published, (unsigned long long)delivered,
      (long long)(published * fan - delivered), (unsigned long long)mc.failures, wall,
      (double)counted / wall, cpu / wall);
  return mc.failures != 0 || delivered != published * fan;
}

static int run_idle(void) {
  struct mclient *c = calloc((size_t)opt.count, sizeof *c);
  got_message = calloc((size_t)opt.count, sizeof *got_message);
  int opened = 0, ready = 0;
  double begin = mc_now();
  while (ready < opt.count && mc_now() - begin < 240 && mc.failures == 0) {
    while (opened < opt.count && opened - ready < opt.parallel) {
      mc_open(&c[opened], (uint32_t)opened, ROLE_IDLE, opt.version);
      opened++;
    }
    mc_poll(100);
    while (ready < opened && got_message[ready]) {
      ready++;
    }
  }
  wait_for_go();
  printf("{\"connected\": %d, \"failed\": %llu, \"wall_s\": %.2f}\n", ready,
         (unsigned long long)mc.failures, mc_now() - begin);
  return mc.failures || ready < opt.count;
}

static int usage(void) {
  fprintf(
      stderr,
      "usage: mqttload handshakes|flow|idle [--host IP] [--port N] [--cert F --key F] [--count N]\n"
      "  [--parallel N] [--resume] [--fresh CA-KEY] [--publishers N] [--subscribers N]\n"
      "  [--distinct] [--qos 0|1]\n"
      "  [--seconds N] [--size BYTES] [--window N] [--inflight N] [--version 4|5]\n"
      "  [--from IP --sources N]\n"
      "prints `ready`, waits for a line on standard input, then measures\n");
  return 2;
}

int main(int argc, char **argv) {
  const struct mc_option table[] = {{"--host", 0, &mc.host, 0},
                                    {"--port", &mc.port, 0, 0},
                                    {"--cert", 0, &opt.cert, 0},
                                    {"--key", 0, &opt.key, 0},
                                    {"--fresh", 0, &opt.ca_key, 0},
                                    {"--count", &opt.count, 0, 0},
                                    {"--parallel", &opt.parallel, 0, 0},
                                    {"--resume", 0, 0, &mc.resume},
                                    {"--publishers", &opt.publishers, 0, 0},
                                    {"--subscribers", &opt.subscribers, 0, 0},
                                    {"--distinct", 0, 0, &opt.distinct},
                                    {"--qos", &opt.qos, 0, 0},
                                    {"--seconds", &opt.seconds, 0, 0},
                                    {"--size", &opt.size, 0, 0},
                                    {"--window", &opt.window, 0, 0},
                                    {"--inflight", &opt.inflight, 0, 0},
                                    {"--version", &opt.version, 0, 0},
                                    {"--from", 0, &mc.source, 0},
                                    {"--sources", &mc.source_count, 0, 0}};
  if (argc < 2 || !mc_options(table, sizeof table / sizeof *table, argc, argv, 2)) {
    return usage();
  }
  mc_init();
  mc.on_open = on_open;
  mc.on_packet = on_packet;
  if (opt.cert) {
    mc_tls(opt.cert, opt.key, NULL);  // the client's work is not what is measured
  }
  if (strcmp(argv[1], "handshakes") == 0) {
    return run_handshakes();
  }
  if (strcmp(argv[1], "flow") == 0) {
    return run_flow();
  }
  return strcmp(argv[1], "idle") == 0 ? run_idle() : usage();
}
