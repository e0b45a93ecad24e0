// SPDX-License-Identifier: Apache-2.0
// What the pools hold for one idle connection: objects taken between no connection and N, after one
// message each way on each, in the whole stack beside a null device. Each addend is objects a
// connection x bytes of one (stride and state byte of its pool). Buckets of hash tables and the
// granules of the block allocator are shares: table bytes / objects it is made for.
//   build/bench/idle_memory [--json FILE]
#include "broker/state.h"
#include "net/stack.h"
#include "server/conn.h"
#include "stack_shake.h"

#define COUNT 500u
#define POOLS 24u

struct addend {
  const char *name;
  double bytes;  // of one
  double taken;
};

static u32 collect(struct addend out[POOLS]) {
  const struct server *s = core.server;
  const struct broker *b = core.broker;
  const struct net *n = core.net;
  const struct pool *pools[] = {
      &n->conns,   &s->conns,          &s->records, &b->sessions, &b->subs,  &b->nodes,
      &b->entries, &b->controls,       &b->rnodes,  &b->replays,  &s->names, &s->heavies,
      &s->fronts,  &s->record_buffers, &n->small,   &n->large,    &n->slots};
  u32 count = 0;
  for (; count < ARRAY_COUNT(pools); count++) {
    const struct pool *p = pools[count];
    out[count] = (struct addend){p->name, p->stride + 1.0, pool_taken(p)};
  }
  const struct wheel *w = &core.wheel;
  u32 timers = w->fresh;
  for (u32 id = w->free_head; id != WHEEL_NONE; id = w->timers[id].next) {
    timers--;
  }
  out[count++] = (struct addend){"timer", sizeof(struct timer), timers};
  out[count++] =
      (struct addend){"blocks (client id, long levels)", BLOCK_GRANULE + 1.0, b->blocks.taken};
  // Of their tables: 4 bytes a bucket.
  double sessions = pool_taken(&b->sessions);
  double tcp = 4.0 * (n->hash_mask + 1 + n->wait_mask + 1) / n->conns.count;
  double broker = 4.0 * (b->session_table.mask + 1) / b->sessions.count +
                  4.0 * (b->sub_table.mask + 1) / b->subs.count +
                  4.0 * (b->node_table.mask + 1) / b->nodes.count;
  out[count++] = (struct addend){"hash entry: tcp, time-wait", tcp, pool_taken(&n->conns)};
  out[count++] = (struct addend){"hash entry: session, sub, level", broker, sessions};
  ASSERT(count <= POOLS);
  return count;
}

// --- Idle clients

static void say(struct peer *p, struct test_peer *t, const u8 *packet, u32 len) {
  if (t == NULL) {
    peer_send(p, bytes_of(packet, len));
  } else {
    SSL_write(t->ssl, packet, (int)len);
    tls_out(p, t);
  }
  broker_runs();
  peer_ack(p);
  broker_runs();
}

static void open_idle(u32 i, bool tls) {
  struct peer *p = calloc(1, sizeof *p);
  struct test_peer t;
  u8 hello[64] = "\x10\x1f\0\4MQTT\4\2\0\0\0\x13";  // a client id as mqttload's: 19 bytes
  u8 subscribe[64] = "\x82\x12\0\1\0\x0d";
  u8 publish[128] = "\x30\x4f\0\x0d";
  snprintf((char *)hello + 14, 20, "load-%s-3-%06u", tls ? "54321" : "12345", i);
  snprintf((char *)subscribe + 6, 14, "idle/%u/%05u", tls ? 54 : 12, i);
  snprintf((char *)publish + 4, 14, "idle/%u/%05u", tls ? 54 : 12, i);
  p->in = malloc(PEER_IN);
  peer_connect(p, (u16)(1024 + i + (tls ? COUNT : 0)), tls ? 8883 : 1883);
  if (tls) {
    t = test_peer(
        (struct test_client){.certificate = "client-p256-p256.crt", .key = "client-p256-p256.key"});
    SSL_do_handshake(t.ssl);
    tls_out(p, &t);
    broker_runs();
    tls_in(p, &t);
    SSL_do_handshake(t.ssl);
    tls_out(p, &t);
    broker_runs();
  }
  say(p, tls ? &t : NULL, hello, 33);
  say(p, tls ? &t : NULL, subscribe, 20);
  p->in_len = 0;
  say(p, tls ? &t : NULL, publish, 81);
  if (p->in_len < 81) {
    fprintf(stderr, "idle_memory: no message came back (%u bytes)\n", p->in_len);
    exit(1);
  }
  free(p->in);
  p->in = NULL;
  if (tls) {
    test_peer_free(&t);
  }
  ERR_clear_error();
}

static double measure(const char *what, bool tls) {
  static struct addend before[POOLS], after[POOLS];
  collect(before);
  for (u32 i = 0; i < COUNT; i++) {
    open_idle(i, tls);
  }
  u32 count = collect(after);
  double sum = 0;
  double subscription = 0;
  printf("an idle %s connection, by the pools' own count:\n", what);
  for (u32 i = 0; i < count; i++) {
    double each = (after[i].taken - before[i].taken) / COUNT;
    if (each != 0) {
      printf("  %-34s %5.2f x %7.1f = %8.1f\n", after[i].name, each, after[i].bytes,
             each * after[i].bytes);
      sum += each * after[i].bytes;
      bool of_it =
          strcmp(after[i].name, "subscription") == 0 || strcmp(after[i].name, "topic node") == 0;
      subscription += of_it ? each * after[i].bytes : 0;
    }
  }
  printf("  %-34s %26.1f bytes; %.1f without the subscription and its topic level\n", "sum", sum,
         sum - subscription);
  return sum;
}

int main(int argc, char **argv) {
  test_start();
  shake_start();
  struct tls_context *tls = test_context((struct test_server){.chains = 4096});
  if (tls == NULL || !stack_start(&tls, 1)) {
    fprintf(stderr, "idle_memory: the broker does not start\n");
    return 1;
  }
  double plain = measure("plain", false);
  double mtls = measure("mTLS", true);
  if (argc == 3 && strcmp(argv[1], "--json") == 0) {
    FILE *f = fopen(argv[2], "w");
    if (f == NULL) {
      perror(argv[2]);
      return 1;
    }
    fprintf(f, "{\"plain\": %.1f, \"mtls\": %.1f}\n", plain, mtls);
    fclose(f);
  }
  return 0;
}
