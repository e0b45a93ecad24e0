// SPDX-License-Identifier: Apache-2.0
// Mixed load with a verdict: proves that no message is lost, duplicated (QoS 1 and 2, without
// reconnects) or reordered, that retained values are the last ones, and that wills are delivered.
//
// N clients, half of them 3.1.1 and half 5. Client k publishes on mix/k, client (k+1) mod N
// subscribes to it; one message in 200 goes to all/x, which everybody hears; one in 50 is retained
// on keep/k too. Sizes: 95 % up to 1 KiB, some up to 16 KiB, `--big` of 256 KiB. QoS at random. A
// fixed seed makes a run repeatable. Payload: publisher, QoS, sequence number of that publisher,
// topic and QoS, then a pattern made from them. Exit codes: 0 all held, 1 not, 2 wrong usage.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mclient.h"

enum role { ROLE_MIX, ROLE_WILL, ROLE_WATCH, ROLE_KEEP };
#define HEADER 16u
#define WINDOW 8u
#define BIG 262144u

static struct {
  const char *cert, *key, *ca;
  int clients, messages, seed, big, wills, will_keep_alive, timeout, parallel;
} opt = {.clients = 200,
         .messages = 100000,
         .seed = 1,
         .big = 200,
         .wills = 10,
         .will_keep_alive = 60,
         .timeout = 300,
         .parallel = 16};

struct party {
  uint64_t rng;
  uint32_t sent, quota;
  uint32_t seq_mix[3], seq_all[3];  // next to send, by QoS
  uint32_t *seen_all[3];            // next expected by publisher, by QoS
  uint32_t seen_mix[3];             // next expected from the one publisher we hear
  uint32_t inflight;                // QoS 1 and 2 not yet completed
  uint32_t outstanding;             // own messages on mix/k not yet received by their subscriber
  uint32_t keep;                    // last retained value
};

static struct party *party;
static struct mclient *client;
static uint64_t delivered, expected, bytes_out, bytes_in, wrong, big_left;
static uint32_t ready_count, wills_seen, keeps_seen;
static uint8_t *pattern;

static uint32_t draw(struct party *p, uint32_t below) {
  p->rng = p->rng * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(p->rng >> 33) % below;
}

static void complain(const struct mclient *c, const char *what, uint32_t got, uint32_t want) {
  if (wrong++ < 10) {
    fprintf(stderr, "client %u: %s: got %u, expected %u\n", c->number, what, got, want);
  }
}

static void on_open(struct mclient *c) {
  uint8_t b[256];
  char id[40], text[40];
  size_t n = mc_string(b, "MQTT");
  b[n++] = (uint8_t)c->version;
  b[n++] = (uint8_t)(2 | (c->role == ROLE_WILL ? 4 | 1 << 3 : 0));
  b[n++] = 0;
  b[n++] = c->role == ROLE_WILL ? (uint8_t)opt.will_keep_alive : 60;
  if (c->version == 5) {
    b[n++] = 0;
  }
  snprintf(id, sizeof id, "mix-%d-%d-%u", opt.seed, c->role, c->number);
  n += mc_string(b + n, id);
  if (c->role == ROLE_WILL) {
    if (c->version == 5) {
      b[n++] = 0;
    }
    snprintf(text, sizeof text, "will/%d/%u", (int)getpid(), c->number);
    n += mc_string(b + n, text);
    n += mc_string(b + n, "gone");
  }
  mc_put_packet(c, 0x10, b, n);
  mc_flush(c);
}

static void subscribe(struct mclient *c, uint16_t pid, const char *filter) {
  uint8_t b[128] = {(uint8_t)(pid >> 8), (uint8_t)pid};
  size_t n = 2;
  if (c->version == 5) {
    b[n++] = 0;
  }
  n += mc_string(b + n, filter);
  b[n++] = 2;
  mc_put_packet(c, 0x82, b, n);
  mc_flush(c);
}

static void fill(uint8_t *p, uint32_t publisher, uint32_t qos, uint32_t seq, uint32_t len) {
  uint32_t head[4] = {htonl(publisher), htonl(qos), htonl(seq), htonl(len)};
  memcpy(p, head, HEADER);
  memcpy(p + HEADER, pattern + (publisher * 31 + seq) % 251, len - HEADER);
}

static void publish(struct mclient *c, const char *topic, uint32_t qos, bool retain, uint32_t seq,
                    uint32_t len) {
  static uint8_t b[BIG + 256];
  size_t n = mc_string(b, topic);
  if (qos > 0) {
    uint16_t pid = mc_next_pid(c);
    b[n++] = (uint8_t)(pid >> 8);
    b[n++] = (uint8_t)pid;
    party[c->number].inflight++;
  }
  if (c->version == 5) {
    b[n++] = 0;
  }
  fill(b + n, c->number, qos, seq, len);
  mc_put_packet(c, (uint8_t)(0x30 | qos << 1 | (retain ? 1 : 0)), b, n + len);
  bytes_out += len;
}

static uint32_t draw_size(struct party *p) {
  uint32_t left = (uint32_t)opt.messages / 1000 + 1;
  if (big_left > 0 && draw(p, left * 1000 / (uint32_t)(opt.big + 1) + 1) == 0) {
    big_left--;
    return BIG;
  }
  uint32_t kind = draw(p, 1000);
  return kind < 952 ? HEADER + draw(p, 1008) : 1024 + draw(p, 15360);
}

static void publish_one(struct mclient *c) {
  struct party *p = &party[c->number];
  uint32_t qos = draw(p, 3), len = draw_size(p);
  char topic[32];
  p->sent++;
  if (draw(p, 200) == 0) {
    publish(c, "all/x", qos, false, p->seq_all[qos]++, len > 1024 ? 1024 : len);
    expected += (uint64_t)opt.clients;
    return;
  }
  snprintf(topic, sizeof topic, "mix/%u", c->number);
  publish(c, topic, qos, false, p->seq_mix[qos]++, len);
  expected++;
  p->outstanding++;
  if (draw(p, 50) == 0) {
    snprintf(topic, sizeof topic, "keep/%d/%u", (int)getpid(), c->number);
    publish(c, topic, 1, true, ++p->keep, HEADER);
  }
}

static void check_message(struct mclient *c, const char *topic, size_t topic_len,
                          const uint8_t *load, size_t len, uint32_t qos) {
  uint32_t head[4];
  if (len < HEADER) {
    complain(c, "short payload", (uint32_t)len, HEADER);
    return;
  }
  memcpy(head, load, HEADER);
  uint32_t from = ntohl(head[0]), sent_qos = ntohl(head[1]), seq = ntohl(head[2]);
  bytes_in += len;
  if (from >= (uint32_t)opt.clients || sent_qos > 2 || ntohl(head[3]) != len ||
      memcmp(load + HEADER, pattern + (from * 31 + seq) % 251, len - HEADER) != 0) {
    complain(c, "damaged payload from", from, seq);
    return;
  }
  if (topic_len > 5 && memcmp(topic, "keep/", 5) == 0) {
    keeps_seen++;
    if (seq != party[from].keep) {
      complain(c, "retained value", seq, party[from].keep);
    }
    return;
  }
  struct party *me = &party[c->number];
  bool all = topic_len == 5 && memcmp(topic, "all/x", 5) == 0;
  uint32_t *next = all ? &me->seen_all[sent_qos][from] : &me->seen_mix[sent_qos];
  if (sent_qos != qos) {
    complain(c, "QoS of a delivery", qos, sent_qos);
  }
  if (seq != *next) {
    complain(c, all ? "sequence on all/x" : "sequence on mix", seq, *next);
  }
  *next = seq + 1;
  delivered++;
  if (!all) {
    party[from].outstanding--;
  }
}

static void answer(struct mclient *c, uint8_t first, uint16_t pid) {
  uint8_t b[4] = {first, 2, (uint8_t)(pid >> 8), (uint8_t)pid};
  mc_put(c, b, 4);
  if (c->role != ROLE_MIX) {  // nobody else sends for these
    mc_flush(c);
  }
}

static void on_publish(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  const uint8_t *b = p + head;
  size_t topic_len = (size_t)(b[0] << 8 | b[1]), at = topic_len + 2;
  uint32_t qos = p[0] >> 1 & 3;
  uint16_t pid = 0;
  if (qos > 0) {
    pid = (uint16_t)(b[at] << 8 | b[at + 1]);
    at += 2;
  }
  if (c->version == 5) {  // property length, one to four bytes
    uint32_t skip = 0, shift = 0;
    do {
      skip |= (uint32_t)(b[at] & 127) << shift;
      shift += 7;
    } while (b[at++] & 128);
    at += skip;
  }
  if (c->role == ROLE_WATCH) {
    wills_seen++;
  } else {
    check_message(c, (const char *)b + 2, topic_len, b + at, len - at, qos);
  }
  if (qos > 0) {
    answer(c, qos == 1 ? 0x40 : 0x50, pid);
  }
}

static void on_connack(struct mclient *c, uint8_t code) {
  char filter[32];
  if (code != 0) {
    mc_fail(c, "CONNACK refused");
    return;
  }
  if (c->role == ROLE_MIX) {
    snprintf(filter, sizeof filter, "mix/%u",
             (c->number + (uint32_t)opt.clients - 1) % (uint32_t)opt.clients);
    subscribe(c, 1, filter);
    subscribe(c, 2, "all/+");
  } else if (c->role == ROLE_WILL) {
    c->stage = MC_READY;
    ready_count++;
  } else {
    snprintf(filter, sizeof filter, c->role == ROLE_WATCH ? "will/%d/+" : "keep/%d/#",
             (int)getpid());
    subscribe(c, 2, filter);
  }
}

static void on_packet(struct mclient *c, const uint8_t *p, size_t head, size_t len) {
  const uint8_t *b = p + head;
  uint16_t pid = len >= 2 ? (uint16_t)(b[0] << 8 | b[1]) : 0;
  switch (p[0] >> 4) {
  case 2: on_connack(c, b[1]); break;
  case 3: on_publish(c, p, head, len); break;
  case 4: party[c->number].inflight--; break;
  case 5: answer(c, 0x62, pid); break;
  case 6: answer(c, 0x70, pid); break;
  case 7: party[c->number].inflight--; break;
  case 9:
    if (b[len - 1] > 2) {
      complain(c, "SUBACK", b[len - 1], 2);
    }
    if (pid == 2) {
      c->stage = MC_READY;
      ready_count++;
    }
    break;
  case 14: mc_fail(c, "DISCONNECT from the broker"); break;
  default: break;
  }
}

static bool wait_for(const uint32_t *counter, uint32_t want, double seconds) {
  double end = mc_now() + seconds;
  while (*counter < want && mc_now() < end && mc.failures == 0) {
    mc_poll(100);
  }
  return *counter >= want;
}

static bool run_mix(void) {
  double end = mc_now() + opt.timeout, said = mc_now() + 10;
  uint64_t sent = 0;
  bool done = false;
  while (!done && mc_now() < end && mc.failures == 0 && wrong == 0) {
    done = true;
    for (int i = 0; i < opt.clients; i++) {
      struct party *p = &party[i];
      struct mclient *c = &client[i];
      while (p->sent < p->quota && p->inflight < WINDOW && p->outstanding < WINDOW &&
             c->out_len - c->out_pos < BIG &&
             expected - delivered < 20ull * (uint64_t)opt.clients) {
        publish_one(c);
        sent++;
      }
      if (c->out_len > c->out_pos) {
        mc_flush(c);
      }
      done = done && p->sent == p->quota && p->inflight == 0;
    }
    done = done && delivered >= expected;
    mc_poll(done ? 0 : 5);
    if (mc_now() > said) {
      fprintf(stderr, "  %llu of %d sent, %llu of %llu delivered\n", (unsigned long long)sent,
              opt.messages, (unsigned long long)delivered, (unsigned long long)expected);
      said += 10;
    }
  }
  double quiet = mc_now() + 0.5;  // a duplicate would come now
  while (mc_now() < quiet) {
    mc_poll(50);
  }
  return done;
}

// Clients with a will that die without a DISCONNECT. The broker learns it from the RST, or, when a
// bad wire lost that, one and a half keep-alives later: until then they stay alive by PINGREQ.
static bool run_wills(void) {
  static struct mclient watch, will[1000];
  const uint8_t ping[2] = {0xc0, 0};
  uint32_t want = ready_count;
  mc_open(&watch, 0, ROLE_WATCH, 5);
  wait_for(&ready_count, ++want, 20);
  for (int i = 0; i < opt.wills; i++) {
    mc_open(&will[i], (uint32_t)i, ROLE_WILL, i % 2 ? 5 : 4);
    wait_for(&ready_count, ++want, 30);
    for (int k = 0; k <= i; k++) {
      mc_put(&will[k], ping, 2);
      mc_flush(&will[k]);
    }
  }
  if (ready_count < want || wills_seen > 0) {
    complain(&watch, "wills before anybody died", wills_seen, 0);
    return false;
  }
  for (int i = 0; i < opt.wills; i++) {
    mc_close(&will[i], true);
  }
  bool came = wait_for(&wills_seen, (uint32_t)opt.wills, 30 + 2 * opt.will_keep_alive);
  uint32_t none = 0;
  wait_for(&none, 1, 0.5);  // one too many would come now
  return came && wills_seen == (uint32_t)opt.wills;
}

static bool run_retained(void) {
  static struct mclient keep;
  uint32_t want = 0;
  for (int i = 0; i < opt.clients; i++) {
    want += party[i].keep > 0 ? 1 : 0;
  }
  mc_open(&keep, 0, ROLE_KEEP, 4);
  return wait_for(&keeps_seen, want, 30);
}

// At most `parallel` connections are being opened at a time: a forwarded port's backlog is short.
static bool open_clients(void) {
  double end = mc_now() + 120;
  uint32_t opened = 0;
  while (ready_count < (uint32_t)opt.clients && mc_now() < end && mc.failures == 0) {
    while (opened < (uint32_t)opt.clients && opened - ready_count < (uint32_t)opt.parallel) {
      mc_open(&client[opened], opened, ROLE_MIX, opened % 2 ? 5 : 4);
      opened++;
    }
    mc_poll(100);
  }
  return ready_count >= (uint32_t)opt.clients;
}

static void set_up(void) {
  party = calloc((size_t)opt.clients, sizeof *party);
  client = calloc((size_t)opt.clients, sizeof *client);
  pattern = malloc(BIG + 512);
  for (uint32_t i = 0; i < BIG + 512; i++) {
    pattern[i] = (uint8_t)(i * 167 + i / 251);
  }
  big_left = (uint64_t)opt.big;
  for (int i = 0; i < opt.clients; i++) {
    party[i].rng = (uint64_t)opt.seed * 1000003 + (uint64_t)i;
    party[i].quota = (uint32_t)(opt.messages / opt.clients);
    for (int q = 0; q < 3; q++) {
      party[i].seen_all[q] = calloc((size_t)opt.clients, sizeof(uint32_t));
    }
  }
}

int main(int argc, char **argv) {
  const struct mc_option table[] = {{"--host", 0, &mc.host, 0},
                                    {"--port", &mc.port, 0, 0},
                                    {"--cert", 0, &opt.cert, 0},
                                    {"--key", 0, &opt.key, 0},
                                    {"--ca", 0, &opt.ca, 0},
                                    {"--clients", &opt.clients, 0, 0},
                                    {"--messages", &opt.messages, 0, 0},
                                    {"--seed", &opt.seed, 0, 0},
                                    {"--big", &opt.big, 0, 0},
                                    {"--wills", &opt.wills, 0, 0},
                                    {"--will-keep-alive", &opt.will_keep_alive, 0, 0},
                                    {"--timeout", &opt.timeout, 0, 0},
                                    {"--parallel", &opt.parallel, 0, 0}};
  if (!mc_options(table, sizeof table / sizeof *table, argc, argv, 1) || opt.clients < 2 ||
      opt.wills > 1000 || opt.will_keep_alive < 1 || opt.will_keep_alive > 255) {
    fprintf(stderr,
            "usage: mqttmix [--host IP] [--port N] [--cert F --key F [--ca F]] [--clients N]\n"
            "  [--messages N] [--big N] [--wills N] [--will-keep-alive SECONDS] [--seed N]\n"
            "  [--timeout SECONDS] [--parallel N]\n");
    return 2;
  }
  mc_init();
  mc.on_open = on_open;
  mc.on_packet = on_packet;
  if (opt.cert) {
    mc_tls(opt.cert, opt.key, opt.ca);
  }
  set_up();
  double begin = mc_now();
  bool connected = open_clients();
  double at_connected = mc_now();
  bool mixed = connected && run_mix();
  mc.eager = true;
  double at_mixed = mc_now();
  bool wills = mixed && run_wills(), retained = mixed && run_retained();
  printf(
      "{\"seed\": %d, \"clients\": %d, \"connected\": %s, \"connect_s\": %.2f, \"messages\": %d, "
      "\"deliveries\": %llu, \"expected\": %llu, \"wrong\": %llu, \"bytes_out\": %llu, "
      "\"bytes_in\": %llu, "
      "\"mix_s\": %.2f, \"wills\": %u, \"retained\": %u, \"failures\": %llu}\n",
      opt.seed, opt.clients, connected ? "true" : "false", at_connected - begin,
      opt.messages / opt.clients * opt.clients, (unsigned long long)delivered,
      (unsigned long long)expected, (unsigned long long)wrong, (unsigned long long)bytes_out,
      (unsigned long long)bytes_in, at_mixed - at_connected, wills_seen, keeps_seen,
      (unsigned long long)mc.failures);
  bool held = wills && retained && wrong == 0 && mc.failures == 0 && delivered == expected;
  printf("mix: %s\n", held ? "every promise held" : "FAILED");
  return held ? 0 : 1;
}
