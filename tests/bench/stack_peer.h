// SPDX-License-Identifier: Apache-2.0
// The null device: the whole broker (eth, ip, tcp, tls, mqtt) in one process with clients that live
// in memory. plat_rx hands over frames that were built before, plat_tx appends what is sent to the
// client's stream; both cost a copy, everything else that runs inside a turn is the broker's own.
// A client behaves as Linux does on a quick wire: one pure ACK for each segment of data, then what
// it has to say. Nothing is ever lost.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/limits.h"
#include "broker/broker.h"
#include "loop/loop.h"
#include "net/tcp_conn.h"
#include "server/server.h"
#include "tls/tls_test_support.h"

#define PEER_IP IP4(10, 0, 0, 9)
#define LOCAL_IP IP4(10, 0, 0, 2)
#define PEER_IN (1u << 17)
#define FRAMES 4096u
#define SEGMENT 1460u

struct peer {
  u16 port, local;
  u32 seq, ack;
  bool open, fin;  // fin: the broker has closed
  u8 *in;          // what the broker has sent and nobody has used
  u32 in_len;
};

extern u64 unit_now_ns;
static struct core core;
static struct peer *peer_by_port[65536];
static struct rxbuf rx[FRAMES];
static u8 (*rx_block)[PLAT_RXBUF_SIZE];
static struct rxbuf *rx_free;
static struct rxbuf *rx_queue[FRAMES];  // waiting for plat_rx
static u32 rx_head, rx_tail;
static void *tx_tokens[4096];
static u32 tx_token_count;
static u64 frames_in, frames_out, turn_count;
static u64 spent_ns;  // inside turns
static bool in_turn;  // the broker's own code runs (mem_share.c counts then)

static u64 clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

// --- The platform's half

void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){
      .mac = {2, 0, 0, 0, 0, 1}, .mtu = 1500, .link_up = true, .tx_csum = true, .tx_tso4 = true};
}
void plat_rx_release(u32 id, struct rxbuf *chain) {
  (void)id;
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    chain->next = rx_free;
    rx_free = chain;
    chain = next;
  }
}
u32 plat_rx(u32 id, u32 nic, struct rxbuf *frames[], u32 max) {
  (void)id, (void)nic;
  u32 n = 0;
  while (n < max && rx_head != rx_tail) {
    frames[n++] = rx_queue[rx_head++ % FRAMES];
  }
  frames_in += n;
  return n;
}

static void peer_frame(struct peer *p, u8 flags, struct bytes data);

static void take_segment(const struct tx_frame *f) {
  const u8 *h = f->part[0].ptr;
  struct peer *p = peer_by_port[load_be16(h + 36)];
  if (p == NULL) {
    return;
  }
  u32 head = 34u + (u32)(h[46] >> 4) * 4;
  u32 len = load_be16(h + 16) + 14u - head;
  if ((h[47] & TCPF_SYN) != 0) {
    p->ack = load_be32(h + 38) + 1;
    p->open = true;
    return;
  }
  u32 skip = head;  // the data's first bytes may lie behind the headers
  for (u32 i = 0; i < f->part_count; i++) {
    u32 n = (u32)f->part[i].len - MIN(skip, (u32)f->part[i].len);
    if (p->in != NULL && n > 0) {
      if (n > PEER_IN - p->in_len) {
        abort();
      }
      memcpy(p->in + p->in_len, f->part[i].ptr + f->part[i].len - n, n);
      p->in_len += n;
    }
    skip -= MIN(skip, (u32)f->part[i].len);
  }
  p->fin |= (h[47] & TCPF_FIN) != 0;
  p->ack += len + ((h[47] & TCPF_FIN) != 0 ? 1 : 0);
}
u32 plat_tx(u32 id, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)id, (void)nic;
  in_turn = false;
  for (u32 k = 0; k < count; k++) {
    if (load_be16((const u8 *)frames[k].part[0].ptr + 12) == ETH_IP4) {
      take_segment(&frames[k]);
    }
    tx_tokens[tx_token_count++] = frames[k].token;
  }
  frames_out += count;
  in_turn = true;
  return count;
}
u32 plat_tx_done(u32 id, u32 nic, void *out[], u32 max) {
  (void)id, (void)nic;
  u32 n = 0;
  while (n < max && tx_token_count > 0) {
    out[n++] = tx_tokens[--tx_token_count];
  }
  return n;
}

// --- The client's half

static void peer_frame(struct peer *p, u8 flags, struct bytes data) {
  struct rxbuf *b = rx_free;
  if (b == NULL || data.len > SEGMENT) {
    abort();
  }
  rx_free = b->next;
  u8 *f = rx_block[b - rx];
  memcpy(f, "\2\0\0\0\0\1\2\0\0\0\0\11\10\0\105\0", 16);
  store_be16(f + 16, (u16)(40 + data.len));
  memcpy(f + 18, "\0\0\0\0\100\6\0\0", 8);
  store_be32(f + 26, PEER_IP);
  store_be32(f + 30, LOCAL_IP);
  struct csum c = {0};
  csum_add(&c, bytes_of(f + 14, 20));
  store_be16(f + 24, csum_finish(&c));
  u8 *t = f + 34;
  store_be16(t, p->port);
  store_be16(t + 2, p->local);
  store_be32(t + 4, p->seq);
  store_be32(t + 8, p->ack);
  t[12] = 0x50;
  t[13] = flags;
  store_be16(t + 14, 60000);
  memcpy(t + 20, data.ptr, data.len);
  p->seq += (u32)data.len + ((flags & (TCPF_SYN | TCPF_FIN)) != 0 ? 1 : 0);
  u32 len = 54 + (u32)data.len;
  *b = (struct rxbuf){.data = f, .len = len, .frame_len = len, .frame_csum = RX_CSUM_GOOD};
  rx_queue[rx_tail++ % FRAMES] = b;
}

static bool broker_turns(void) {
  u64 start = clock_ns();
  unit_now_ns += 10000;
  turn_count++;
  in_turn = true;
  bool busy = loop_turn(&core);
  in_turn = false;
  spent_ns += clock_ns() - start;
  return busy;
}
// The broker works until it has nothing left to do, the turn that finds this out included.
static void broker_runs(void) {
  while (broker_turns()) {
  }
}

static void peer_connect(struct peer *p, u16 port, u16 local) {
  *p = (struct peer){.port = port, .local = local, .seq = 1000, .in = p->in};
  peer_by_port[port] = p;
  peer_frame(p, TCPF_SYN, bytes_of(NULL, 0));
  broker_runs();
  if (!p->open) {
    fprintf(stderr, "stack: no SYN-ACK on port %u\n", local);
    exit(1);
  }
  peer_frame(p, TCPF_ACK, bytes_of(NULL, 0));
}
static void peer_ack(struct peer *p) {
  peer_frame(p, TCPF_ACK, bytes_of(NULL, 0));
}
static void peer_send(struct peer *p, struct bytes data) {
  for (usize at = 0; at < data.len; at += SEGMENT) {
    peer_frame(p, TCPF_ACK | TCPF_PSH, bytes_of(data.ptr + at, MIN(data.len - at, SEGMENT)));
  }
}
static void peer_close(struct peer *p) {
  peer_frame(p, TCPF_ACK | TCPF_FIN, bytes_of(NULL, 0));
  broker_runs();
  peer_ack(p);
  broker_runs();
  peer_by_port[p->port] = NULL;
  if (!p->fin) {
    fprintf(stderr, "stack: the broker did not close\n");
    exit(1);
  }
}

// --- The broker

static bool stack_start(struct tls_context *tls[], u32 tls_count) {
  static struct carve carve;
  struct limits l;
  rx_block = aligned_alloc(4096, FRAMES * sizeof *rx_block);
  for (u32 i = 0; i < FRAMES; i++) {
    rx[i].next = rx_free;
    rx_free = &rx[i];
  }
  carve_init(&carve);
  limits_from_memory(carve_left(&carve), 1, &l);
  struct span timers = carve_take(&carve, l.timers * sizeof(struct timer), 64);
  core_init(&core, 0, (struct timer *)(void *)timers.ptr, l.timers);
  struct net_if_config config = {.address = LOCAL_IP, .prefix_len = 24};
  if (net_init(&core, &carve, &l.net) != ERR_OK ||
      broker_init(&core, &carve, &l.broker) != ERR_OK) {
    return false;
  }
  loop_stage(&core, "broker", broker_stage, core.broker);
  if (server_init(&core, &carve, &l.server) != ERR_OK) {
    return false;
  }
  loop_stage(&core, "net flush", net_flush, core.net);
  struct listener_config plain = {.port = 1883, .allow_anonymous = true, .max_qos = 2};
  bool ok =
      net_configure(core.net, 0, &config) == ERR_OK && server_listen(core.server, &plain) == ERR_OK;
  for (u32 i = 0; i < tls_count; i++) {
    struct listener_config secure = {.port = (u16)(8883 + i),
                                     .max_qos = 2,
                                     .tls = tls[i],
                                     .certificate_name = CERTIFICATE_COMMON_NAME};
    ok = ok && server_listen(core.server, &secure) == ERR_OK;
  }
  return ok;
}
