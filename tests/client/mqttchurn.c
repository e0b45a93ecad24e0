// SPDX-License-Identifier: Apache-2.0
// Churn: clients that come, subscribe, publish, are taken over and die in every way, for some
// seconds, then leave nothing behind: every client id comes once more with a clean session, and
// every retained topic is cleared. What the broker does meanwhile is not judged here (its
// sanitizers, assertions and counters are: tests/system/churn.py). Prints one JSON object.
// Exit codes: 0 everything was cleaned up, 1 not, 2 wrong usage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mclient.h"

#define IDS_PER_CLIENT 2 / 3  // fewer ids than clients: takeovers
#define TOPICS 64u

static struct {
  const char *cert, *key;
  int clients, seconds, seed, rate;
} opt = {.clients = 60, .seconds = 20, .seed = 1, .rate = 2000};

enum { ROLE_CHURN, ROLE_CLEAN, ROLE_SWEEP };
struct mind {
  bool open;
  bool answers;  // acknowledges what it gets
  bool clean;    // came once more, with nothing left behind
  uint32_t id;
};
static struct mind *mind;
static struct mclient *client;
static uint64_t rng;
static uint64_t opened, connected, ended, published, received, subscribed, killed, garbage, halves;
static uint32_t cleaned;

static uint32_t draw(uint32_t below) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(rng >> 33) % below;
}

static void client_id(char *out, size_t cap, uint32_t id) {
  // Long and short ones: names live in different places.
  snprintf(out, cap, id % 3 == 0 ? "churn-%d-%u-with-a-name-that-is-longer-than-others" : "c%d-%u",
           opt.seed, id);
}

static void topic_of(char *out, size_t cap, uint32_t n) {
  snprintf(out, cap,
           n % 5 == 0 ? "churn/%d/%u/a level that is rather long/and/deep/%u" : "churn/%d/%u/%u",
           opt.seed, n % 8, n);
}

static void send_connect(struct mclient *c) {
  uint8_t b[512];
  char text[160];
  bool clean = c->role != ROLE_CHURN || draw(2) == 0, will = c->role == ROLE_CHURN && draw(3) == 0;
  size_t n = mc_string(b, "MQTT");
  b[n++] = (uint8_t)c->version;
  b[n++] = (uint8_t)((clean ? 2 : 0) | (will ? 4 | draw(3) << 3 | draw(2) << 5 : 0));
  b[n++] = 0;
  b[n++] = draw(4) == 0 ? 1 : 30;
  if (c->version == 5) {
    uint8_t expiry = (uint8_t)(c->role != ROLE_CHURN ? 0 : draw(3) == 0 ? 0 : 1 + draw(200));
    const uint8_t props[] = {11,   0x11, 0, 0, 0, expiry, 0x21, 0, (uint8_t)(1 + draw(30)),
                             0x22, 0,    5};
    memcpy(b + n, props, sizeof props);
    n += sizeof props;
  }
  client_id(text, sizeof text, mind[c->number].id);
  n += mc_string(b + n, text);
  if (will) {
    if (c->version == 5) {
      const uint8_t delay[] = {5, 0x18, 0, 0, 0, (uint8_t)draw(3)};
      memcpy(b + n, delay, sizeof delay);
      n += sizeof delay;
    }
    topic_of(text, sizeof text, draw(TOPICS));
    n += mc_string(b + n, text);
    n += mc_string(b + n, "died");
  }
  mc_put_packet(c, 0x10, b, n);
  mc_flush(c);
}

static void subscribe(struct mclient *c, bool take_away) {
  static const char *const shape[] = {"churn/%d/%u/+", "churn/%d/%u/%u", "churn/+/%u/%u",
                                      "$share/g%d/churn/+/%u/+", "churn/%d/%u/#"};
  uint8_t b[256];
  char filter[128];
  uint16_t pid = mc_next_pid(c);
  size_t n = 0;
  b[n++] = (uint8_t)(pid >> 8);
  b[n++] = (uint8_t)pid;
  if (c->version == 5) {
    b[n++] = 0;
  }
  for (uint32_t k = 0; k < 1 + draw(2); k++) {
    uint32_t which = draw(5), topic = draw(TOPICS);
    if (which == 2) {
      snprintf(filter, sizeof filter, shape[2], topic % 8, topic);
    } else {
      snprintf(filter, sizeof filter, shape[which], which == 3 ? (int)draw(3) : opt.seed, topic % 8,
               topic);
    }
    n += mc_string(b + n, filter);
    if (!take_away) {
      b[n++] = (uint8_t)draw(3);
    }
  }
  subscribed++;
  mc_put_packet(c, take_away ? 0xa2 : 0x82, b, n);
}

static void publish(struct mclient *c, uint32_t topic, uint32_t qos, bool retain, size_t len) {
  static uint8_t b[100000];
  char text[128];
  topic_of(text, sizeof text, topic);
  size_t n = mc_string(b, text);
  if (qos > 0) {
    uint16_t pid = mc_next_pid(c);
    b[n++] = (uint8_t)(pid >> 8);
    b[n++] = (uint8_t)pid;
  }
  if (c->version == 5) {
    const uint8_t expiry[] = {5, 2, 0, 0, 0, 3};
    bool mortal = draw(3) == 0;
    memcpy(b + n, mortal ? expiry : (const uint8_t[]){0}, mortal ? sizeof expiry : 1);
    n += mortal ? sizeof expiry : 1;
  }
  memset(b + n, 'x', len);
  published++;
  mc_put_packet(c, (uint8_t)(0x30 | qos << 1 | retain), b, n + len);
}

static void shut(struct mclient *c, bool abrupt) {
  mc_close(c, abrupt);
  mind[c->number].open = false;
}

static void garble(struct mclient *c) {
  uint8_t b[64];
  for (size_t i = 0; i < sizeof b; i++) {
    b[i] = (uint8_t)draw(256);
  }
  garbage++;
  mc_put(c, b, 1 + draw(sizeof b));
}

// One thing that a connected client does.
static void act(struct mclient *c) {
  static const uint8_t ping[] = {0xc0, 0}, bye[] = {0xe0, 0}, bye_with_will[] = {0xe0, 1, 4};
  uint32_t what = draw(100);
  if (what < 25) {
    subscribe(c, what < 5);
  } else if (what < 75) {
    publish(c, draw(TOPICS), draw(3), draw(6) == 0, draw(40) == 0 ? draw(60000) : draw(600));
  } else if (what < 80) {
    mc_put(c, ping, 2);
  } else if (what < 81) {
    garble(c);
  } else if (what < 84) {
    halves++;
    mc_put(c, (const uint8_t[]){0x32, 90, 0, 5, 'c', 'h'}, 2 + draw(5));  // never finished
    mc_flush(c);
    shut(c, draw(2) == 0);
    return;
  } else if (what < 90) {
    killed++;
    shut(c, true);
    return;
  } else if (what < 93) {
    shut(c, false);
    return;
  } else if (what < 97) {
    mc_put(c, c->version == 5 && draw(2) == 0 ? bye_with_will : bye, 2);
    if (c->out[c->out_len - 1] == 1) {
      mc_put(c, bye_with_will + 2, 1);
    }
    mc_flush(c);
    shut(c, false);
    return;
  }
  mc_flush(c);
}

static void on_publish(struct mclient *c, const uint8_t *p, size_t head) {
  const uint8_t *b = p + head;
  size_t at = (size_t)(b[0] << 8 | b[1]) + 2;
  uint32_t qos = p[0] >> 1 & 3;
  received++;
  if (qos > 0 && mind[c->number].answers) {
    const uint8_t ack[4] = {qos == 1 ? 0x40 : 0x50, 2, b[at], b[at + 1]};
    mc_put(c, ack, 4);
  }
}

static void on_packet(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  const uint8_t *b = p + head;
  switch (p[0] >> 4) {
  case 2:
    if (c->role != ROLE_CHURN && b[1] == 0) {
      for (uint32_t i = 0; c->role == ROLE_SWEEP && i < TOPICS; i++) {
        publish(c, i, 0, true, 0);
      }
      mc_put(c, (const uint8_t[]){0xc0, 0}, 2);
    }
    c->stage = b[1] == 0 ? MC_READY : c->stage;
    connected += b[1] == 0 ? 1 : 0;
    break;
  case 3: on_publish(c, p, head); break;
  case 5:
    if (len >= 2) {
      mc_put(c, (const uint8_t[]){0x62, 2, b[0], b[1]}, 4);
    }
    break;
  case 6:
    if (len >= 2) {
      mc_put(c, (const uint8_t[]){0x70, 2, b[0], b[1]}, 4);
    }
    break;
  case 13:
    if (c->role != ROLE_CHURN) {
      mc_put(c, (const uint8_t[]){0xe0, 0}, 2);
      mc_flush(c);
      c->stage = MC_DONE;
      mind[c->number].clean = true;
      cleaned++;
    }
    break;
  default: break;
  }
}

static void on_end(struct mclient *c) {
  (void)c;
  ended++;
}

static void open_one(struct mclient *c, uint32_t number, int role) {
  mind[number] = (struct mind){
      .open = true,
      .answers = draw(5) != 0,
      .id = role != ROLE_CHURN ? number : draw((uint32_t)opt.clients * IDS_PER_CLIENT)};
  opened++;
  mc_open(c, number, role, draw(2) == 0 ? 4 : 5);
}

// `rate` things a second, each by a client drawn at random.
static void churn(void) {
  double begin = mc_now();
  uint64_t done = 0;
  while (mc_now() - begin < opt.seconds) {
    uint64_t due = (uint64_t)((mc_now() - begin) * opt.rate);
    for (uint32_t k = 0; done < due && k < 200; k++, done++) {
      uint32_t i = draw((uint32_t)opt.clients);
      struct mclient *c = &client[i];
      if (!mind[i].open) {
        open_one(c, i, ROLE_CHURN);
      } else if (c->stage == MC_DONE) {
        shut(c, false);
      } else if (c->stage == MC_READY) {
        act(c);
      } else if (draw(40) == 0) {  // on its way in: in the TCP or TLS handshake, or before CONNACK
        halves++;
        shut(c, draw(2) == 0);
      }
    }
    mc_poll(2);
  }
}

static bool clean_up(void) {
  double end = mc_now() + 120;
  uint32_t ids = (uint32_t)opt.clients * IDS_PER_CLIENT, next = 0;
  for (int i = 0; i < opt.clients; i++) {
    if (mind[i].open) {
      shut(&client[i], true);
    }
  }
  while (cleaned < ids && mc_now() < end) {
    while (next < ids && next - cleaned < 8) {
      open_one(&client[next], next, ROLE_CLEAN);
      next++;
    }
    mc_poll(20);
    for (uint32_t i = 0; i < next; i++) {
      if (mind[i].open && client[i].stage == MC_DONE) {
        shut(&client[i], false);
        if (!mind[i].clean) {  // it was refused or died on its way in: once more
          open_one(&client[i], i, ROLE_CLEAN);
        }
      }
    }
  }
  // Only now is every will out: the retained ones go last.
  open_one(&client[0], 0, ROLE_SWEEP);
  while (cleaned < ids + 1 && mc_now() < end && client[0].stage != MC_DONE) {
    mc_poll(20);
  }
  return cleaned == ids + 1;
}

int main(int argc, char **argv) {
  const struct mc_option table[] = {
      {"--host", 0, &mc.host, 0},        {"--port", &mc.port, 0, 0},
      {"--cert", 0, &opt.cert, 0},       {"--key", 0, &opt.key, 0},
      {"--clients", &opt.clients, 0, 0}, {"--seconds", &opt.seconds, 0, 0},
      {"--rate", &opt.rate, 0, 0},       {"--seed", &opt.seed, 0, 0}};
  if (!mc_options(table, sizeof table / sizeof *table, argc, argv, 1) || opt.clients < 3) {
    fprintf(stderr,
            "usage: mqttchurn [--host IP] [--port N] [--cert F --key F] [--clients N] "
            "[--seconds N] [--rate THINGS-A-SECOND] [--seed N]\n");
    return 2;
  }
  mc_init();
  mc.on_open = send_connect;
  mc.on_packet = on_packet;
  mc.on_end = on_end;
  mc.eager = mc.tolerant = true;
  if (opt.cert) {
    mc.resume = true;
    mc_tls(opt.cert, opt.key, NULL);
  }
  rng = (uint64_t)opt.seed * 0x9e3779b97f4a7c15ull;
  mind = calloc((size_t)opt.clients, sizeof *mind);
  client = calloc((size_t)opt.clients, sizeof *client);
  churn();
  bool clean = clean_up();
  printf(
      "{\"opened\": %llu, \"connected\": %llu, \"ended by the broker\": %llu, \"published\": %llu, "
      "\"received\": %llu, \"subscribed\": %llu, \"killed\": %llu, \"left half-way\": %llu, "
      "\"garbage\": %llu, \"cleaned\": %s}\n",
      (unsigned long long)opened, (unsigned long long)connected, (unsigned long long)ended,
      (unsigned long long)published, (unsigned long long)received, (unsigned long long)subscribed,
      (unsigned long long)killed, (unsigned long long)halves, (unsigned long long)garbage,
      clean ? "true" : "false");
  return clean ? 0 : 1;
}
