// SPDX-License-Identifier: Apache-2.0
// More clients than a broker can serve. Each connects, speaks TLS when it has a certificate, sends
// CONNECT, waits for CONNACK, closes first, and comes again: closed loop, with a pause of RETRY ms
// (exponential: from 100 ms, doubled to 10 s, with jitter) after a failure, and with the same pause
// (at least once RETRY) after a success. With --rate attempts start by a Poisson process whether or
// not the broker is quick (open loop). With --once every client stops after its first success: the
// time until the last has come in. With --silent so many connections a second are opened that never
// say anything. An attempt that takes longer than TIMEOUT ms is closed by the client.
// Prints one JSON object a second ("second") and one at the end. Exit codes: 0 fine, 1 failed,
// 2 wrong usage.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mclient.h"

#define SAMPLES_MAX 4000000u

static struct {
  const char *cert, *key, *retry;
  int clients, timeout_ms, seconds, rate, silent;
  bool once;
} opt = {.retry = "0", .clients = 128, .timeout_ms = 2000, .seconds = 5};

struct slot {
  struct mclient c;
  double next, started, wanted;  // wanted: when this client first tried, since its last success
  int failures;
  bool open, served;
};
static struct slot *slot;
static uint64_t attempts, served, timeouts, refused, silent_opened;
static double *latency;
static uint32_t latency_count;
static uint64_t rng = 88172645463325252ull;

static double draw(void) {  // [0, 1)
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(rng >> 11) / 9007199254740992.0;
}

static double pause_of(struct slot *s) {
  if (strcmp(opt.retry, "exp") == 0) {
    double most = 0.1 * pow(2, s->failures > 7 ? 7 : s->failures);
    return (most > 10 ? 10 : most) * (0.5 + draw() / 2);
  }
  return atof(opt.retry) / 1000;
}

static void end_attempt(struct slot *s, bool abrupt) {
  mc_close(&s->c, abrupt);
  s->open = false;
  s->next = mc_now() + pause_of(s);
}

static void on_open(struct mclient *c) {
  uint8_t b[64];
  char id[32];
  size_t n = mc_string(b, "MQTT");
  const uint8_t rest[] = {4, 2, 0, 0};
  memcpy(b + n, rest, sizeof rest);
  n += sizeof rest;
  snprintf(id, sizeof id, "storm-%u", c->number);
  n += mc_string(b + n, id);
  mc_put_packet(c, 0x10, b, n);
  mc_flush(c);
}

static void on_packet(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  if (p[0] != 0x20 || len < 2 || p[head + 1] != 0) {
    mc_fail(c, "no good CONNACK");
    return;
  }
  c->stage = MC_READY;  // judged in step()
}

static void on_end(struct mclient *c) {
  (void)c;
}

static void start_attempt(struct slot *s, uint32_t number, double now) {
  s->wanted = s->wanted == 0 ? now : s->wanted;
  s->started = now;
  s->open = true;
  attempts++;
  mc_open(&s->c, number, 0, 4);
}

static void step(struct slot *s, uint32_t number, double now) {
  if (s->open && s->c.stage == MC_READY) {
    served++;
    s->served = true;
    s->failures = 0;
    if (latency_count < SAMPLES_MAX) {
      latency[latency_count++] = now - s->wanted;
    }
    s->wanted = 0;
    mc_put_packet(&s->c, 0xe0, NULL, 0);
    mc_flush(&s->c);
    end_attempt(s, false);
  } else if (s->open && s->c.stage == MC_DONE) {
    refused++;
    s->failures++;
    end_attempt(s, true);
  } else if (s->open && (now - s->started) * 1000 > opt.timeout_ms) {
    timeouts++;
    s->failures++;
    end_attempt(s, true);
  } else if (!s->open && opt.rate == 0 && now >= s->next && !(opt.once && s->served)) {
    start_attempt(s, number, now);
  }
}

static struct mclient *mute;
static double *mute_until;
static int mute_at, mute_max;

static void open_silent(double now, double begin) {
  while ((double)silent_opened < (now - begin) * opt.silent) {
    struct mclient *c = &mute[mute_at];
    if (mute_until[mute_at] > 0) {
      mc_close(c, true);
    }
    mc_open(c, (uint32_t)mute_at, 0, 4);
    c->mute = true;
    mute_until[mute_at] = now + 10;
    mute_at = (mute_at + 1) % mute_max;
    silent_opened++;
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}
static double part_of(double share) {
  return latency_count == 0 ? -1 : latency[(uint32_t)((latency_count - 1) * share)];
}

static void run(void) {
  double begin = mc_now(), cpu = mc_cpu_seconds(), last = begin, due = begin;
  uint64_t served_last = 0, all = 0;
  for (double now = begin; now - begin < opt.seconds; now = mc_now()) {
    mc_poll(1);
    now = mc_now();
    all = 0;
    for (int i = 0; i < opt.clients; i++) {
      step(&slot[i], (uint32_t)i, now);
      all += slot[i].served;
    }
    for (int i = 0; opt.rate > 0 && due <= now && i < opt.clients; i++) {
      if (!slot[i].open) {
        slot[i].wanted = due;
        start_attempt(&slot[i], (uint32_t)i, now);
        due += -log(1 - draw()) / opt.rate;
      }
    }
    if (opt.silent > 0) {
      open_silent(now, begin);
    }
    if (now - last >= 1) {
      printf("{\"second\": %.1f, \"served\": %llu}\n", now - begin,
             (unsigned long long)(served - served_last));
      fflush(stdout);
      last = now;
      served_last = served;
    }
    if (opt.once && all == (uint64_t)opt.clients) {
      break;
    }
  }
  double wall = mc_now() - begin;
  qsort(latency, latency_count, sizeof *latency, by_size);
  printf(
      "{\"done\": true, \"wall_s\": %.3f, \"attempts\": %llu, \"served\": %llu, \"per_s\": %.1f, "
      "\"timeouts\": %llu, \"refused\": %llu, \"silent\": %llu, \"clients_served\": %llu, "
      "\"p50_s\": %.4f, \"p99_s\": %.4f, \"max_s\": %.4f, \"generator_share\": %.3f}\n",
      wall, (unsigned long long)attempts, (unsigned long long)served, (double)served / wall,
      (unsigned long long)timeouts, (unsigned long long)refused, (unsigned long long)silent_opened,
      (unsigned long long)all, part_of(0.5), part_of(0.99), part_of(1),
      (mc_cpu_seconds() - cpu) / wall);
}

int main(int argc, char **argv) {
  const struct mc_option table[] = {
      {"--host", NULL, &mc.host, NULL},        {"--port", &mc.port, NULL, NULL},
      {"--cert", NULL, &opt.cert, NULL},       {"--key", NULL, &opt.key, NULL},
      {"--from", NULL, &mc.source, NULL},      {"--sources", &mc.source_count, NULL, NULL},
      {"--clients", &opt.clients, NULL, NULL}, {"--timeout-ms", &opt.timeout_ms, NULL, NULL},
      {"--seconds", &opt.seconds, NULL, NULL}, {"--retry", NULL, &opt.retry, NULL},
      {"--rate", &opt.rate, NULL, NULL},       {"--silent", &opt.silent, NULL, NULL},
      {"--once", NULL, NULL, &opt.once},       {"--resume", NULL, NULL, &mc.resume},
  };
  if (!mc_options(table, sizeof table / sizeof *table, argc, argv, 1) || opt.clients < 1 ||
      opt.seconds < 1) {
    fprintf(stderr,
            "usage: mqttstorm --host H --port P [--cert F --key F] [--clients N] [--retry MS|exp]\n"
            "  [--timeout-ms N] [--seconds N] [--rate N] [--once] [--silent N] [--resume]\n"
            "  [--from ADDRESS --sources N]\n");
    return 2;
  }
  mc_init();
  mc.tolerant = true;
  mc.on_open = on_open;
  mc.on_packet = on_packet;
  mc.on_end = on_end;
  if (opt.cert != NULL) {
    mc_tls(opt.cert, opt.key, NULL);
  }
  slot = calloc((size_t)opt.clients, sizeof *slot);
  latency = calloc(SAMPLES_MAX, sizeof *latency);
  mute_max = opt.silent * 10 + 1;
  mute = calloc((size_t)mute_max, sizeof *mute);
  mute_until = calloc((size_t)mute_max, sizeof *mute_until);
  run();
  return 0;
}
