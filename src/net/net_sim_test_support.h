// SPDX-License-Identifier: Apache-2.0
// One end of a simulated link, for tests and fuzz targets of src/net: the platform's frame
// functions over queues in virtual time. Included by one .c file each.
//
// The device is late on purpose: it reads a frame's parts only when it gives the token back, so
// that a buffer reused too early shows as wrong bytes or as a sanitizer report. Receive buffers
// are allocated one by one, so that any use after release is reported. The stack's own frames are
// checked (headers, checksums) before the link may damage them.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop/carve.h"
#include "loop/loop.h"
#include "net/tcp_conn.h"

extern u64 unit_now_ns;

#define SIM_LOCAL IP4(10, 0, 0, 2)
#define SIM_PEER IP4(10, 0, 0, 9)
#define SIM_LOCAL6 ((struct ip_addr){0x20010db8ull << 32, 2})
#define SIM_PEER6 ((struct ip_addr){0x20010db8ull << 32, 9})
#define SIM_PORT 8883u
#define SIM_FRAME 66000u
#define SIM_QUEUE 2048u
#define SIM_HELD 256u
#define SIM_MS 1000000ull

struct sim_packet {
  u64 at;
  u32 len;
  bool known_good;
  u8 *data;
};
struct sim_link {
  struct sim_packet packet[SIM_QUEUE];
  u32 count;
};

static const u8 sim_mac[6] = {2, 0, 0, 0, 0, 1};
static const u8 sim_peer_mac[6] = {2, 0, 0, 0, 0, 9};

static struct {
  u64 seed;
  struct sim_link to_stack, to_peer;
  struct tx_frame held[SIM_HELD];
  u64 held_until[SIM_HELD];
  u32 held_count, held_max;
  u32 rxbufs;  // outstanding
  bool tx_csum, tso;
  bool v6;                                // TCP segments of and to the peer go over IPv6
  u32 loss, duplicate, corrupt, reorder;  // of 1000
  u64 delay_ns, device_ns;
  u32 split;  // receive buffers hold at most this much
  u32 frames_out;
  struct core core;
  struct timer timers[64];
  struct net *net;
} sim;

static UNUSED u32 sim_draw(u32 below) {
  sim.seed = sim.seed * 6364136223846793005ull + 1442695040888963407ull;
  return below == 0 ? 0 : (u32)(sim.seed >> 33) % below;
}
static UNUSED bool sim_chance(u32 of_1000) {
  return sim_draw(1000) < of_1000;
}
#define SIM_CHECK(cond)                                                        \
  do {                                                                         \
    if (!(cond)) {                                                             \
      fprintf(stderr, "%s:%d: %s (time %llu us)\n", __FILE__, __LINE__, #cond, \
              (unsigned long long)(unit_now_ns / 1000));                       \
      abort();                                                                 \
    }                                                                          \
  } while (0)

static UNUSED void sim_put(struct sim_link *l, const u8 *data, u32 len, u64 at) {
  if (l->count == SIM_QUEUE) {
    return;  // lost
  }
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, data, len);
  l->packet[l->count++] = (struct sim_packet){.at = at, .len = len, .data = copy};
}

// The earliest packet that has arrived, in arrival order; the caller frees .data. len 0: none.
static struct sim_packet sim_get(struct sim_link *l) {
  u32 best = U32_MAX;
  for (u32 i = 0; i < l->count; i++) {
    if (l->packet[i].at <= unit_now_ns &&
        (best == U32_MAX || l->packet[i].at < l->packet[best].at)) {
      best = i;
    }
  }
  if (best == U32_MAX) {
    return (struct sim_packet){0};
  }
  struct sim_packet p = l->packet[best];
  memmove(&l->packet[best], &l->packet[best + 1], (l->count - best - 1) * sizeof p);
  l->count--;
  return p;
}

static u64 sim_link_next(const struct sim_link *l) {
  u64 next = U64_MAX;
  for (u32 i = 0; i < l->count; i++) {
    next = MIN(next, l->packet[i].at);
  }
  return next;
}

// Sends one frame over a link that loses, repeats, delays and damages.
static UNUSED void sim_send(struct sim_link *l, const u8 *data, u32 len) {
  for (u32 copies = sim_chance(sim.duplicate) ? 2 : 1; copies > 0; copies--) {
    if (sim_chance(sim.loss)) {
      continue;
    }
    u64 extra = sim_chance(sim.reorder) ? sim_draw((u32)(4 * sim.delay_ns)) : 0;
    sim_put(l, data, len, unit_now_ns + sim.delay_ns + extra);
    if (sim_chance(sim.corrupt) && l->count > 0) {
      l->packet[l->count - 1].data[sim_draw(l->packet[l->count - 1].len)] ^=
          (u8)(1u << sim_draw(8));
    }
  }
}

// --- the platform

void plat_nic_info(u32 nic, struct plat_nic *out) {
  (void)nic;
  *out = (struct plat_nic){
      .mtu = 1500, .link_up = true, .tx_csum = sim.tx_csum, .tx_tso4 = sim.tso, .tx_tso6 = sim.tso};
  memcpy(out->mac, sim_mac, 6);
}

u32 plat_memory(struct span regions[PLAT_REGION_MAX]) {
  static u8 *memory;
  if (memory == NULL) {
    memory = mmap(NULL, 8u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  MEM_UNPOISON(memory, 8u << 20);
  memset(memory, 0, 2u << 20);
  regions[0] = span_of(memory, 8u << 20);
  return 1;
}

void plat_rx_release(u32 core, struct rxbuf *chain) {
  (void)core;
  while (chain != NULL) {
    struct rxbuf *next = chain->next;
    free((void *)ALIGN_DOWN((uptr)chain->data, (uptr)PLAT_RXBUF_SIZE));
    free(chain);
    SIM_CHECK(sim.rxbufs > 0);
    sim.rxbufs--;
    chain = next;
  }
}

static struct rxbuf *sim_chain(const u8 *data, u32 len) {
  struct rxbuf *first = NULL;
  struct rxbuf **at = &first;
  u32 frame_len = len;
  do {
    u32 most = first == NULL ? MAX(sim.split, 128u) : sim.split;
    u32 n = MIN(MIN(len, most), PLAT_RXBUF_SIZE);
    struct rxbuf *b = calloc(1, sizeof *b);
    u8 *block = aligned_alloc(PLAT_RXBUF_SIZE, PLAT_RXBUF_SIZE);
    b->data = block;
    memcpy(b->data, data, n);
    b->len = n;
    b->frame_len = first == NULL ? frame_len : 0;
    *at = b;
    at = &b->next;
    data += n;
    len -= n;
    sim.rxbufs++;
  } while (len > 0);
  return first;
}

u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max) {
  (void)core, (void)nic;
  for (u32 n = 0; n < max; n++) {
    struct sim_packet p = sim_get(&sim.to_stack);
    if (p.data == NULL) {
      return n;
    }
    frames[n] = sim_chain(p.data, p.len);
    free(p.data);
  }
  return max;
}

u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count) {
  (void)core, (void)nic;
  u32 n = 0;
  while (n < count && sim.held_count < sim.held_max) {
    sim.held_until[sim.held_count] =
        unit_now_ns + (sim.device_ns ? sim_draw((u32)sim.device_ns) : 0);
    sim.held[sim.held_count++] = frames[n++];
  }
  return n;
}

static UNUSED u32 sim_sum(u32 sum, const u8 *p, u32 len) {
  for (u32 i = 0; i < len; i++) {
    sum += i % 2 == 0 ? (u32)p[i] << 8 : p[i];
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}
// Of an IPv4 or IPv6 packet without extension headers; `len`: its payload.
static UNUSED u32 sim_pseudo(const u8 *ip, u32 len) {
  u8 p[12];
  if (ip[0] >> 4 == 6) {
    u8 tail[4] = {0, 0, 0, ip[6]};
    store_be16(tail, (u16)(len >> 16));
    store_be16(p, (u16)len);
    return sim_sum(sim_sum(sim_sum(0, ip + 8, 32), p, 2), tail, 4);
  }
  memcpy(p, ip + 12, 8);
  p[8] = 0;
  p[9] = ip[9];
  store_be16(p + 10, (u16)len);
  return sim_sum(0, p, 12);
}

static u32 sim_ip_frame6(u8 *f, struct ip_addr source, struct ip_addr target, u8 protocol,
                         u32 payload_len);
// The peer's answer to a solicitation for its address.
static UNUSED void sim_answer6(const u8 *ns) {
  u8 f[86];
  u32 len = sim_ip_frame6(f, SIM_PEER6, ip_load6(ns + 22), IP_ICMP6, 32);
  u8 *m = f + 54;
  memset(m, 0, 32);
  m[0] = ICMP6_NA;
  m[4] = 0x60;
  ip_store6(m + 8, SIM_PEER6);
  m[24] = 2;
  m[25] = 1;
  memcpy(m + 26, sim_peer_mac, 6);
  f[21] = 255;
  store_be16(m + 2, (u16)~sim_sum(sim_pseudo(f + 14, 32), m, 32));
  sim_put(&sim.to_stack, f, len, unit_now_ns);
}

static UNUSED void sim_wire6(const u8 *f, u32 len) {
  const u8 *ip = f + ETH_LEN;
  SIM_CHECK(ip[0] >> 4 == 6 && load_be16(ip + 4) == len - ETH_LEN - 40);
  if (ip[6] != 0) {
    SIM_CHECK(sim_sum(sim_pseudo(ip, len - 54), ip + 40, len - 54) == 0xffff);
  }
  if (ip[6] == IP_ICMP6 && f[54] == ICMP6_NS && ip_equal(ip_load6(f + 62), SIM_PEER6) &&
      !ip_is_none(ip_load6(ip + 8)) && sim.v6) {
    sim_answer6(f);
  }
}

// One frame as it goes over the wire; the stack's work is checked here.
static UNUSED void sim_wire(u8 *f, u32 len) {
  sim.frames_out++;
  SIM_CHECK(len >= ETH_LEN && len <= ETH_LEN + 1500);
  SIM_CHECK(memcmp(f + 6, sim_mac, 6) == 0);
  if (load_be16(f + 12) == ETH_IP4) {
    u8 *ip = f + ETH_LEN;
    SIM_CHECK(sim_sum(0, ip, 20) == 0xffff);
    SIM_CHECK(load_be16(ip + 2) == len - ETH_LEN);
    if (ip[9] != IP_ICMP) {
      SIM_CHECK(sim_sum(sim_pseudo(ip, len - 34), ip + 20, len - 34) == 0xffff);
    } else {
      SIM_CHECK(sim_sum(0, ip + 20, len - 34) == 0xffff);
    }
  }
  if (load_be16(f + 12) == ETH_IP6) {
    sim_wire6(f, len);
  }
  sim_send(&sim.to_peer, f, len);
}

static UNUSED void sim_segment_and_send(u8 *f, u32 len, const struct tx_frame *t) {
  u8 *ip = f + ETH_LEN;
  bool v6 = load_be16(f + 12) == ETH_IP6;
  u32 start = ETH_LEN + (v6 ? IP6_LEN : IP4_LEN);
  u8 *tcp = f + start;
  if (t->csum_start != 0) {
    SIM_CHECK(sim.tx_csum && t->csum_start == start);
    SIM_CHECK(load_be16(f + t->csum_start + t->csum_offset) == sim_pseudo(ip, len - start));
  }
  if (t->gso == GSO_NONE) {
    if (t->csum_start != 0) {
      store_be16(tcp + 16, 0);
      u32 sum = sim_sum(sim_pseudo(ip, len - start), tcp, len - start);
      store_be16(tcp + 16, (u16)~sum);
    }
    sim_wire(f, len);
    return;
  }
  SIM_CHECK(sim.tso && t->csum_start != 0);
  SIM_CHECK(t->gso == (v6 ? GSO_TCP6 : GSO_TCP4));
  u32 header = (u32)t->part[0].len;
  u32 seq = load_be32(tcp + 4);
  u8 flags = tcp[13];
  for (u32 at = header; at < len; at += t->gso_size) {
    u32 n = MIN((u32)t->gso_size, len - at);
    u8 out[2048];
    SIM_CHECK(header + n <= ETH_LEN + 1500);
    memcpy(out, f, header);
    memcpy(out + header, f + at, n);
    if (v6) {
      store_be16(out + 18, (u16)(header - start + n));
    } else {
      store_be16(out + 16, (u16)(header - ETH_LEN + n));
      store_be16(out + 24, 0);
      store_be16(out + 24, (u16)~sim_sum(0, out + ETH_LEN, 20));
    }
    u8 *th = out + start;
    store_be32(th + 4, seq + (at - header));
    th[13] = at + n < len ? (u8)(flags & ~(TCPF_FIN | TCPF_PSH)) : flags;
    store_be16(th + 16, 0);
    u32 sum = sim_sum(sim_pseudo(out + ETH_LEN, header - start + n), th, header - start + n);
    store_be16(th + 16, (u16)~sum);
    sim_wire(out, header + n);
  }
}

// The device reads the parts now, at the latest moment it may.
static UNUSED void sim_transmit(const struct tx_frame *t) {
  static u8 f[SIM_FRAME];
  u32 len = 0;
  for (u32 i = 0; i < t->part_count; i++) {
    SIM_CHECK(t->part[i].len > 0);
    memcpy(f + len, t->part[i].ptr, t->part[i].len);
    len += (u32)t->part[i].len;
  }
  sim_segment_and_send(f, len, t);
}

u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max) {
  (void)core, (void)nic;
  u32 n = 0;
  for (u32 i = 0; i < sim.held_count && n < max;) {
    if (sim.held_until[i] > unit_now_ns) {
      i++;
      continue;
    }
    sim_transmit(&sim.held[i]);
    tokens[n++] = sim.held[i].token;
    memmove(&sim.held[i], &sim.held[i + 1], (sim.held_count - i - 1) * sizeof sim.held[0]);
    memmove(&sim.held_until[i], &sim.held_until[i + 1],
            (sim.held_count - i - 1) * sizeof sim.held_until[0]);
    sim.held_count--;
  }
  return n;
}

// --- set-up

static UNUSED void sim_drop_all(struct sim_link *l) {
  while (l->count > 0) {
    free(l->packet[--l->count].data);
  }
}

static UNUSED void sim_start(u64 seed, const struct net_limits *limits, u64 now_ns) {
  sim_drop_all(&sim.to_stack);
  sim_drop_all(&sim.to_peer);
  sim.seed = seed * 0x9e3779b97f4a7c15ull + 1;
  sim.held_count = sim.frames_out = 0;
  sim.held_max = SIM_HELD;
  sim.tx_csum = sim.tso = sim.v6 = false;
  sim.loss = sim.duplicate = sim.corrupt = sim.reorder = 0;
  sim.delay_ns = sim.device_ns = 0;
  sim.split = PLAT_RXBUF_SIZE;
  SIM_CHECK(sim.rxbufs == 0);
  unit_now_ns = now_ns;
  struct carve carve;
  carve_init(&carve);
  core_init(&sim.core, 0, sim.timers, ARRAY_COUNT(sim.timers));
  SIM_CHECK(net_init(&sim.core, &carve, limits) == ERR_OK);
  sim.net = sim.core.net;
}

static UNUSED void sim_static_address(void) {
  struct net_if_config config = {.address = SIM_LOCAL, .prefix_len = 24, .gateway = 0};
  SIM_CHECK(net_configure(sim.net, 0, &config) == ERR_OK);
}

// The same with SIM_LOCAL6/64, duplicate detection done, and segments over IPv6 from now on.
static UNUSED void sim_static_address6(void) {
  struct net_if_config config = {
      .ip6 = {
          .mode = NET_IP6_STATIC, .address = SIM_LOCAL6, .prefix_len = 64, .gateway = SIM_PEER6}};
  SIM_CHECK(net_configure(sim.net, 0, &config) == ERR_OK);
  for (u32 i = 0; i < sim.net->nic[0].ip6.address_count; i++) {
    sim.net->nic[0].ip6.address[i].state = IP6_VALID;
  }
  sim.v6 = true;
}

// The stack's connection of these ports with the peer, if there is one.
static struct tcp_flow sim_flow(u16 local_port, u16 port) {
  return sim.v6 ? (struct tcp_flow){SIM_LOCAL6, SIM_PEER6, local_port, port}
                : (struct tcp_flow){ip_of4(SIM_LOCAL), ip_of4(SIM_PEER), local_port, port};
}
static UNUSED struct tcp_conn *sim_conn(u16 local_port, u16 port) {
  struct tcp_flow flow = sim_flow(local_port, port);
  return tcp_lookup(sim.net, &flow);
}

static UNUSED u64 sim_next_ns(void) {
  u64 next = MIN(sim_link_next(&sim.to_stack), sim_link_next(&sim.to_peer));
  for (u32 i = 0; i < sim.held_count; i++) {
    next = MIN(next, sim.held_until[i]);
  }
  return MIN(next, wheel_next_ns(&sim.core.wheel));
}

// --- frames of the peer

struct sim_seg {
  u32 seq, ack, len, window;
  u16 port;        // the peer's
  u16 local_port;  // the stack's; 0 = SIM_PORT
  u8 flags;
  const u8 *data;
  const u8 *options;
  u32 options_len;  // multiple of 4
};

static UNUSED u32 sim_ip_frame(u8 *f, u8 protocol, u32 payload_len) {
  memcpy(f, sim_mac, 6);
  memcpy(f + 6, sim_peer_mac, 6);
  store_be16(f + 12, ETH_IP4);
  u8 *ip = f + ETH_LEN;
  memset(ip, 0, 20);
  ip[0] = 0x45;
  store_be16(ip + 2, (u16)(20 + payload_len));
  ip[8] = 64;
  ip[9] = protocol;
  store_be32(ip + 12, SIM_PEER);
  store_be32(ip + 16, SIM_LOCAL);
  store_be16(ip + 10, (u16)~sim_sum(0, ip, 20));
  return ETH_LEN + 20 + payload_len;
}

static UNUSED u32 sim_ip_frame6(u8 *f, struct ip_addr source, struct ip_addr target, u8 protocol,
                                u32 payload_len) {
  memcpy(f, sim_mac, 6);
  memcpy(f + 6, sim_peer_mac, 6);
  store_be16(f + 12, ETH_IP6);
  store_be32(f + 14, 6u << 28);
  store_be16(f + 18, (u16)payload_len);
  f[20] = protocol;
  f[21] = 64;
  ip_store6(f + 22, source);
  ip_store6(f + 38, target);
  return 54 + payload_len;
}

static UNUSED u32 sim_tcp_frame(u8 *f, const struct sim_seg *s) {
  u32 header = 20 + s->options_len;
  u32 len = sim.v6 ? sim_ip_frame6(f, SIM_PEER6, SIM_LOCAL6, IP_TCP, header + s->len)
                   : sim_ip_frame(f, IP_TCP, header + s->len);
  u8 *t = f + (sim.v6 ? 54 : 34);
  store_be16(t, s->port);
  store_be16(t + 2, s->local_port != 0 ? s->local_port : SIM_PORT);
  store_be32(t + 4, s->seq);
  store_be32(t + 8, s->ack);
  t[12] = (u8)(header / 4 << 4);
  t[13] = s->flags;
  store_be16(t + 14, (u16)s->window);
  store_be32(t + 16, 0);
  if (s->options_len > 0) {
    memcpy(t + 20, s->options, s->options_len);
  }
  if (s->len > 0) {
    memcpy(t + header, s->data, s->len);
  }
  store_be16(t + 16, (u16)~sim_sum(sim_pseudo(f + ETH_LEN, header + s->len), t, header + s->len));
  return len;
}

// A TCP segment the stack sent, as the peer reads it; false: not one (ARP, damaged).
static UNUSED bool sim_read(const struct sim_packet *p, struct segment *s, const u8 **payload) {
  const u8 *f = p->data;
  if (sim.v6) {
    u32 segment = p->len < 74 ? 0 : load_be16(f + 18);
    bool good = segment >= 20 && load_be16(f + 12) == ETH_IP6 && f[20] == IP_TCP &&
                segment <= p->len - 54 &&
                sim_sum(sim_pseudo(f + ETH_LEN, segment), f + 54, segment) == 0xffff &&
                tcp_header_parse(f + 54, segment, segment, s);
    *payload = f + 54 + (good ? s->header_len : 0);
    return good;
  }
  if (p->len < 54 || load_be16(f + 12) != ETH_IP4 || f[14] != 0x45 || f[23] != IP_TCP) {
    return false;
  }
  u32 len = load_be16(f + 16);
  if (len < 40 || len > p->len - ETH_LEN || sim_sum(0, f + 14, 20) != 0xffff ||
      sim_sum(sim_pseudo(f + ETH_LEN, len - 20), f + 34, len - 20) != 0xffff ||
      !tcp_header_parse(f + 34, len - 20, len - 20, s)) {
    return false;
  }
  *payload = f + 34 + s->header_len;
  return true;
}
