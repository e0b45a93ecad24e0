// SPDX-License-Identifier: Apache-2.0
// Size: CLIENTS connected clients with FILTERS subscriptions each, RETAINED retained messages, then
// single messages into it. One step a line on standard input, one JSON object a step:
//   connect      every client comes in
//   subscribe    each subscribes to its filters (every tenth has a '+'), 100 a packet
//   retain       one client publishes the retained messages at QoS 1
//   replay N     N new clients subscribe to all of them, one after the other
//   same N       N messages at QoS 0 to one client's topic
//   any N        N messages to topics drawn among all subscriptions, one receiver each
// Every message has a receiver that counts it. Exit codes: 0 fine, 1 failed, 2 wrong usage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mclient.h"

#define WINDOW 400u  // messages on their way
#define FILTERS_A_PACKET 100

static struct {
  int clients, filters, retained;
} opt = {.clients = 10000, .filters = 100, .retained = 100000};

enum { ROLE_CLIENT, ROLE_PUB, ROLE_REPLAY };
static struct mclient *client, pub, replay;
static uint32_t ready, acked, got;
static uint64_t rng = 88172645463325252ull;

static uint32_t draw(uint32_t below) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(rng >> 33) % below;
}

static void on_open(struct mclient *c) {
  uint8_t b[64];
  char id[32];
  size_t n = mc_string(b, "MQTT");
  const uint8_t rest[] = {4, 2, 0, 0};
  memcpy(b + n, rest, sizeof rest);
  n += sizeof rest;
  snprintf(id, sizeof id, "scale-%d-%u", c->role, c->number);
  n += mc_string(b + n, id);
  mc_put_packet(c, 0x10, b, n);
  mc_flush(c);
}

static void on_packet(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  switch (p[0] >> 4) {
  case 2:
    if (p[head + 1] != 0) {
      mc_fail(c, "refused");
    }
    c->stage = MC_READY;
    ready++;
    break;
  case 3: got++; break;
  case 4: acked++; break;
  case 9:
    for (size_t i = 2; i < len; i++) {
      if (p[head + i] > 2) {
        mc_fail(c, "a subscription was refused");
      }
    }
    acked++;
    break;
  default: break;
  }
}

static bool wait_for(const uint32_t *count, uint32_t want, double seconds) {
  double end = mc_now() + seconds;
  while (*count < want && mc.failures == 0 && mc_now() < end) {
    mc_poll(20);
  }
  return *count >= want && mc.failures == 0;
}

static bool open_and_wait(struct mclient *c, uint32_t number, int role) {
  uint32_t want = ready + 1;
  mc_open(c, number, role, 4);
  return wait_for(&ready, want, 20);
}

static bool do_connect(void) {
  uint32_t opened = 0, want = (uint32_t)opt.clients;
  double end = mc_now() + 120;
  while (ready < want && mc_now() < end && mc.failures == 0) {
    while (opened < want && opened - ready < 64) {
      mc_open(&client[opened], opened, ROLE_CLIENT, 4);
      opened++;
    }
    mc_poll(20);
  }
  return ready == want && open_and_wait(&pub, 0, ROLE_PUB);
}

static void filter_of(char *out, size_t cap, uint32_t n, uint32_t k, bool topic) {
  if (k % 10 == 9) {
    snprintf(out, cap, topic ? "scale/%u/any/%u" : "scale/%u/+/%u", n, k);
  } else {
    snprintf(out, cap, "scale/%u/%u", n, k);
  }
}

static bool do_subscribe(void) {
  static uint8_t b[FILTERS_A_PACKET * 48];
  uint32_t sent = 0;
  acked = 0;
  for (int n = 0; n < opt.clients && mc.failures == 0; n++) {
    for (int k = 0; k < opt.filters; k += FILTERS_A_PACKET) {
      char text[40];
      size_t len = 0;
      b[len++] = 0;
      b[len++] = 1;
      for (int j = k; j < opt.filters && j < k + FILTERS_A_PACKET; j++) {
        filter_of(text, sizeof text, (uint32_t)n, (uint32_t)j, false);
        len += mc_string(b + len, text);
        b[len++] = 0;
      }
      mc_put_packet(&client[n], 0x82, b, len);
      sent++;
    }
    mc_flush(&client[n]);
    while (sent - acked > 32 && mc.failures == 0) {
      mc_poll(20);
    }
  }
  return wait_for(&acked, sent, 60);
}

static void put_publish(const char *topic, bool retain) {
  uint8_t b[160];
  size_t n = mc_string(b, topic);
  if (retain) {
    uint16_t pid = mc_next_pid(&pub);
    b[n++] = (uint8_t)(pid >> 8);
    b[n++] = (uint8_t)pid;
  }
  memset(b + n, 'x', 64);
  mc_put_packet(&pub, retain ? 0x33 : 0x30, b, n + 64);
}

static bool do_retain(void) {
  char topic[40];
  acked = 0;
  for (uint32_t i = 0; i < (uint32_t)opt.retained && mc.failures == 0; i++) {
    snprintf(topic, sizeof topic, "keep/%u/%u", i % 1000, i);
    put_publish(topic, true);
    if (i % 20 == 19) {
      mc_flush(&pub);
      while (i + 1 - acked > 100 && mc.failures == 0) {
        mc_poll(20);
      }
    }
  }
  mc_flush(&pub);
  return wait_for(&acked, (uint32_t)opt.retained, 60);
}

static bool do_replay(uint32_t times) {
  const uint8_t filter[] = {0, 1, 0, 6, 'k', 'e', 'e', 'p', '/', '#', 0};
  bool fine = true;
  for (uint32_t i = 0; i < times && fine; i++) {
    fine = open_and_wait(&replay, i, ROLE_REPLAY);
    got = 0;
    mc_put_packet(&replay, 0x82, filter, sizeof filter);
    mc_flush(&replay);
    fine = fine && wait_for(&got, (uint32_t)opt.retained, 60);
    mc_close(&replay, true);
  }
  return fine;
}

static bool do_publish(uint32_t count, bool same) {
  char topic[40];
  uint32_t sent = 0;
  double end = mc_now() + 120;
  got = 0;
  while (got < count && mc.failures == 0 && mc_now() < end) {
    for (uint32_t burst = 0; burst < 64 && sent < count && sent - got < WINDOW; burst++, sent++) {
      uint32_t n = same ? 7 % (uint32_t)opt.clients : draw((uint32_t)opt.clients);
      filter_of(topic, sizeof topic, n, same ? 0 : draw((uint32_t)opt.filters), true);
      put_publish(topic, false);
    }
    mc_flush(&pub);
    mc_poll(1);
  }
  return got == count && mc.failures == 0;
}

static bool step(const char *line) {
  uint32_t n = 1;
  char what[16] = "";
  sscanf(line, "%15s %u", what, &n);
  return strcmp(what, "connect") == 0     ? do_connect()
         : strcmp(what, "subscribe") == 0 ? do_subscribe()
         : strcmp(what, "retain") == 0    ? do_retain()
         : strcmp(what, "replay") == 0    ? do_replay(n)
                                          : do_publish(n, strcmp(what, "same") == 0);
}

int main(int argc, char **argv) {
  const struct mc_option table[] = {{"--host", 0, &mc.host, 0},
                                    {"--port", &mc.port, 0, 0},
                                    {"--clients", &opt.clients, 0, 0},
                                    {"--filters", &opt.filters, 0, 0},
                                    {"--retained", &opt.retained, 0, 0}};
  if (!mc_options(table, sizeof table / sizeof *table, argc, argv, 1)) {
    fprintf(stderr,
            "usage: mqttscale [--host IP] [--port N] [--clients N] [--filters N] "
            "[--retained N]\n");
    return 2;
  }
  mc_init();
  mc.on_open = on_open;
  mc.on_packet = on_packet;
  client = calloc((size_t)opt.clients, sizeof *client);
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    double wall = mc_now(), cpu = mc_cpu_seconds();
    bool fine = step(line);
    wall = mc_now() - wall;
    printf("{\"fine\": %s, \"wall_s\": %.4f, \"generator_share\": %.2f}\n", fine ? "true" : "false",
           wall, (mc_cpu_seconds() - cpu) / wall);
    fflush(stdout);
    if (!fine) {
      return 1;
    }
  }
  return 0;
}
