// SPDX-License-Identifier: Apache-2.0
// The network alone as a Linux process, for test_net.py: port 7 echoes, port 9 discards and tells
// how much when the peer has closed, port 19 sends 4 MiB of a known pattern and closes.
// The address is 10.9.0.2/24, or from DHCP when URMQTT_DHCP is set. IPv6 is what URMQTT_IP6 says:
// "auto", or an address (/64, the gateway is URMQTT_GATEWAY6 or none).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "loop/carve.h"
#include "loop/loop.h"
#include "net/tcp.h"

#define CONNS 64u
#define CHARGEN (4u << 20)

struct owner {
  struct tcp_conn *tcp;
  u16 port;
  u32 done;
  bool fin, used;
};
static struct owner owners[CONNS];
static struct core core;
static struct timer timers[256];

static bool on_accept(void *port, struct tcp_conn *tcp, void **user) {
  for (u32 i = 0; i < CONNS; i++) {
    if (!owners[i].used) {
      owners[i] = (struct owner){.tcp = tcp, .port = *(u16 *)port, .used = true};
      *user = &owners[i];
      return true;
    }
  }
  return false;
}
static void on_event(void *user, struct tcp_conn *tcp) {
  (void)user, (void)tcp;  // the stage looks at every connection each turn
}
static void on_ended(void *user, struct tcp_conn *tcp, enum tcp_end why) {
  struct owner *o = user;
  (void)tcp;
  o->fin = true;
  o->used = why == TCP_END_FIN;
}
static const struct tcp_listener_ops ops = {.eager = true,
                                            .accept = on_accept,
                                            .readable = on_event,
                                            .writable = on_event,
                                            .ended = on_ended};

static u32 pattern(u8 *out, u32 at, u32 len) {
  for (u32 i = 0; i < len; i++) {
    out[i] = (u8)((at + i) * 2654435761u >> 11);
  }
  return len;
}

// One buffer's worth of output; false when there is none or no room.
static bool produce(struct owner *o) {
  u32 have = o->port == 7 ? tcp_readable(o->tcp) : o->port == 19 ? CHARGEN - o->done : 0;
  u32 n = MIN(MIN(have, tcp_room(o->tcp)), TXBUF_LARGE);
  struct txbuf *b = n == 0 ? NULL : txbuf_take(core.net, n, TXBUF_DATA);
  if (b == NULL) {
    return false;
  }
  if (o->port == 7) {
    b->len = (u16)tcp_peek_copy(o->tcp, 0, span_of(b->data, n));
    tcp_consume(o->tcp, b->len);
  } else {
    b->len = (u16)pattern(b->data, o->done, n);
  }
  o->done += b->len;
  tcp_send(o->tcp, b);
  return true;
}

static bool stage(struct core *c, void *unused) {
  (void)c, (void)unused;
  for (u32 i = 0; i < CONNS; i++) {
    struct owner *o = &owners[i];
    if (!o->used) {
      continue;
    }
    while (produce(o)) {
    }
    if (o->port == 9) {
      o->done += tcp_readable(o->tcp);
      tcp_consume(o->tcp, tcp_readable(o->tcp));
    }
    bool all = o->port == 19 ? o->done == CHARGEN : o->fin && tcp_readable(o->tcp) == 0;
    if (all) {
      printf("port %u: %u bytes\n", o->port, o->done);
      fflush(stdout);
      o->used = false;
      tcp_close(o->tcp);
    }
  }
  return false;
}

static void print6(const char *what, struct ip_addr a) {
  char text[IP_TEXT_MAX + 1] = {0};
  struct writer w = writer_init(span_of(text, IP_TEXT_MAX));
  ip_write(&w, a);
  printf("%s %s\n", what, text);
  fflush(stdout);
}

// Addresses that became valid, and the router when it changes.
static void watch6(const struct net_if_state *s) {
  static struct ip_addr known[NET_IP6_MAX], gateway;
  for (u32 i = 0; i < s->ip6_count; i++) {
    if (s->ip6[i].valid && !ip_equal(s->ip6[i].address, known[i])) {
      known[i] = s->ip6[i].address;
      print6("address6", known[i]);
    }
  }
  if (!ip_equal(gateway, s->gateway6)) {
    gateway = s->gateway6;
    print6("gateway6", gateway);
  }
}

static struct net_if6_config config6(void) {
  const char *text = getenv("URMQTT_IP6");
  const char *gateway = getenv("URMQTT_GATEWAY6");
  struct net_if6_config c = {.mode = NET_IP6_OFF, .prefix_len = 64};
  if (text != NULL) {
    c.mode = ip_parse6(bytes_str(text), &c.address) ? NET_IP6_STATIC : NET_IP6_AUTO;
  }
  if (gateway != NULL && !ip_parse6(bytes_str(gateway), &c.gateway)) {
    exit(1);
  }
  return c;
}

static bool watch(struct core *c, void *unused) {
  (void)unused;
  static u32 known;
  struct net_if_state s;
  net_if_state(c->net, 0, &s);
  watch6(&s);
  if (s.address != known) {
    known = s.address;
    printf("address %u.%u.%u.%u/%u gateway %#x mtu %u\n", known >> 24, known >> 16 & 255,
           known >> 8 & 255, known & 255, s.prefix_len, s.gateway, s.mtu);
    fflush(stdout);
  }
  c->stop = plat_stop_requested();
  return false;
}

void urmqtt_main(void) {
  static u16 ports[] = {7, 9, 19};
  static const struct net_limits limits = {.tcp_conns = CONNS,
                                           .tcp_time_wait = 64,
                                           .tcp_flights = CONNS,
                                           .txbuf_small = 256,
                                           .txbuf_small_reserve = 32,
                                           .txbuf_large = 1024,
                                           .tx_slots = 512};
  struct carve carve;
  carve_init(&carve);
  core_init(&core, 0, timers, ARRAY_COUNT(timers));
  struct net_if_config config = {.address = IP4(10, 9, 0, 2), .prefix_len = 24};
  config.dhcp = getenv("URMQTT_DHCP") != NULL;
  config.ip6 = config6();
  bool good =
      net_init(&core, &carve, &limits) == ERR_OK && net_configure(core.net, 0, &config) == ERR_OK;
  for (u32 i = 0; good && i < ARRAY_COUNT(ports); i++) {
    good = tcp_listen(core.net, ports[i], &ops, &ports[i]) == ERR_OK;
  }
  if (!good) {
    exit(1);
  }
  loop_stage(&core, "echo", stage, NULL);
  loop_stage(&core, "watch", watch, NULL);
  loop_stage(&core, "net flush", net_flush, core.net);
  printf("ready\n");
  fflush(stdout);
  loop_run(&core);
}

void urmqtt_core(u32 id) {  // there is one
  (void)id;
  abort();
}
