// SPDX-License-Identifier: Apache-2.0
// What a small segment costs: N connections each get 64 bytes and answer 64 bytes, through
// net_poll, the owner and net_flush, without a device. Prints nanoseconds for one segment in and
// one out; copying the frame into a receive buffer (a device's work) is inside the figure.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loop/carve.h"
#include "loop/loop.h"
#include "net/tcp_conn.h"

#define CONNS 1000u
#define ROUNDS 2000u
#define BATCH_IN 64u
#define PEER IP4(10, 0, 0, 9)
#define LOCAL IP4(10, 0, 0, 2)

extern u64 unit_now_ns;
static struct core core;
static struct timer timers[CONNS + 16];
static u8 blocks[RX_BATCH][PLAT_RXBUF_SIZE] ALIGNED(4096);
static struct rxbuf bufs[RX_BATCH];
static u32 pending, taken, answers;
static void *tokens[4096];
static u32 token_count;
static u32 seq[CONNS], ack[CONNS];
static u32 next_in;
static bool connecting, first_ack;

void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){
      .mac = {2, 0, 0, 0, 0, 1}, .mtu = 1500, .link_up = true, .tx_csum = true, .tx_tso4 = true};
}
void plat_rx_release(u32 id, struct rxbuf *chain) {
  (void)id, (void)chain;
}
static void frame(u8 *f, u32 i, u32 len) {
  memcpy(f, "\2\0\0\0\0\1\2\0\0\0\0\11\10\0\105\0", 16);
  store_be16(f + 16, (u16)(40 + len));
  memcpy(f + 18, "\0\0\0\0\100\6\0\0", 8);
  store_be32(f + 26, PEER);
  store_be32(f + 30, LOCAL);
  struct csum c = {0};
  csum_add(&c, bytes_of(f + 14, 20));
  store_be16(f + 24, csum_finish(&c));
  u8 *t = f + 34;
  store_be16(t, (u16)(1000 + i));
  store_be16(t + 2, 8883);
  store_be32(t + 4, seq[i]);
  store_be32(t + 8, ack[i]);
  t[12] = 0x50;
  t[13] = connecting ? TCPF_SYN : TCPF_ACK;
  store_be16(t + 14, 60000);
  seq[i] += len + (connecting ? 1 : 0);
}
u32 plat_rx(u32 id, u32 nic, struct rxbuf *frames[], u32 max) {
  (void)id, (void)nic;
  u32 n = 0;
  for (; n < max && n < BATCH_IN && pending > 0; n++, pending--) {
    u32 i = next_in++ % CONNS;
    u32 len = connecting || first_ack ? 0 : 64;
    frame(blocks[n], i, len);
    bufs[n] = (struct rxbuf){
        .data = blocks[n], .len = 54 + len, .frame_len = 54 + len, .frame_csum = RX_CSUM_GOOD};
    frames[n] = &bufs[n];
  }
  return n;
}
u32 plat_tx(u32 id, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)id, (void)nic;
  for (u32 k = 0; k < count; k++) {
    const u8 *f = frames[k].part[0].ptr;
    if (load_be16(f + 12) == ETH_IP4) {
      u32 i = load_be16(f + 36) - 1000u;
      u32 len = load_be16(f + 16) - 20u - (f[46] >> 4) * 4u;
      ack[i] = load_be32(f + 38) + len + ((f[47] & TCPF_SYN) ? 1 : 0);
      answers += len > 0;
    }
    tokens[token_count++] = frames[k].token;
  }
  return count;
}
u32 plat_tx_done(u32 id, u32 nic, void *out[], u32 max) {
  (void)id, (void)nic;
  u32 n = MIN(max, token_count);
  memcpy(out, tokens + token_count - n, n * sizeof *tokens);
  token_count -= n;
  return n;
}

static bool on_accept(void *user, struct tcp_conn *c, void **owner) {
  (void)user;
  *owner = c;
  tcp_through(c);
  taken++;
  return true;
}
static void on_readable(void *user, struct tcp_conn *c) {
  (void)user;
  struct span in = tcp_peek(c);
  struct txbuf *b = txbuf_take(core.net, (u32)in.len, TXBUF_DATA);
  if (b != NULL) {
    memcpy(b->data, in.ptr, in.len);
    b->len = (u16)in.len;
    tcp_send(c, b);
  }
  tcp_consume(c, (u32)in.len);
}
static void on_writable(void *user, struct tcp_conn *c) {
  (void)user, (void)c;
}
static void on_ended(void *user, struct tcp_conn *c, enum tcp_end why) {
  (void)user, (void)c, (void)why;
  abort();
}

static u64 clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}
static void run(u32 frames) {
  for (pending = frames; pending > 0;) {
    unit_now_ns += 20000;
    loop_turn(&core);
  }
}

int main(void) {
  static const struct tcp_listener_ops ops = {.eager = true,
                                              .accept = on_accept,
                                              .readable = on_readable,
                                              .writable = on_writable,
                                              .ended = on_ended};
  const struct net_limits limits = {.tcp_conns = 4 * CONNS + 16,
                                    .tcp_time_wait = 16,
                                    .tcp_flights = CONNS,
                                    .txbuf_small = 4 * CONNS,
                                    .txbuf_small_reserve = 16,
                                    .txbuf_large = 64,
                                    .tx_slots = 1024};
  struct carve carve;
  carve_init(&carve);
  core_init(&core, 0, timers, ARRAY_COUNT(timers));
  struct net_if_config config = {.address = LOCAL, .prefix_len = 24};
  if (net_init(&core, &carve, &limits) != ERR_OK || net_configure(core.net, 0, &config) != ERR_OK ||
      tcp_listen(core.net, 8883, &ops, NULL) != ERR_OK) {
    return 1;
  }
  loop_stage(&core, "flush", net_flush, core.net);
  core.net->admit.slots = CONNS;  // they all come at once here, and do not try again
  connecting = true;
  run(CONNS);
  connecting = false;
  first_ack = true;
  run(CONNS);
  first_ack = false;
  answers = 0;
  u64 start = clock_ns();
  run(CONNS * ROUNDS);
  u64 spent = clock_ns() - start;
  printf("%u connections, %u answers to %u segments: %.0f ns for one in and one out\n", taken,
         answers, CONNS * ROUNDS, (double)spent / (CONNS * ROUNDS));
  return answers == CONNS * ROUNDS ? 0 : 1;
}
