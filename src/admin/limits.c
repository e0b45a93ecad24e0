// SPDX-License-Identifier: Apache-2.0
#include "admin/limits.h"

#include "base/fmt.h"
#include "loop/mailbox.h"

#define CONNECT_TIMEOUT_MS 10000u
// A connection, whole: tcp 384, server 192, tls 320, session 384 (the broker's share), three timers
// 96, hash entries 64, name 32, places for logins 48 and exchanges 40, its share of half-open flows
// and waiting SYNs 72 - and as much again for red zones and rounding in test builds.
#define CONNECTION_BYTES 1352u

#define CORE_LEAST (32ull << 20)

u32 limits_cores(u64 memory_len, u32 wanted) {
  ASSERT(wanted >= 1);
  u64 most = memory_len / CORE_LEAST;
  return (u32)MIN((u64)wanted, MAX(most, 1ull));
}

// Rings between cores, one for each ordered pair: at most 1/64 of the memory together, and never
// less than what the protocols need.
static u64 divide_mail(u64 memory_len, u32 cores, struct limits *out) {
  if (cores == 1) {
    return 0;
  }
  u64 share = memory_len / 64 / (cores * (cores - 1));
  u32 ring = MAIL_RING_MAX;
  while (ring > MAIL_RING_MIN && ring > share) {
    ring /= 2;
  }
  out->mail_ring_len = ring;
  return mailroom_bytes(cores, ring);
}

void limits_from_memory(u64 memory_len, u32 cores, struct limits *out) {
  *out = (struct limits){.memory_len = memory_len, .cores = cores};
  u64 mail_len = divide_mail(memory_len, cores, out);
  out->core_len = (memory_len - MIN(mail_len, memory_len / 2)) / cores;
  u64 part = out->core_len / 64;
  // 32/64: sessions, subscriptions, messages, retained; with several cores also what they share
  broker_limits_default(&out->broker, 32 * part);
  if (cores > 1) {
    u64 shared =
        broker_join_bytes(cores, &out->broker) + broker_shared_bytes(cores, &out->broker) / cores;
    broker_limits_default(&out->broker, 32 * part - MIN(shared, 16 * part));
  }
  // 8/64: what a connection costs beside its session
  u32 connections = (u32)MIN(8 * part / CONNECTION_BYTES, 1000000ull);
  // 1/64: connections with several segments in flight; one without falls back to NewReno
  u32 flights = (u32)MIN(part / 4224, (u64)connections);
  // 7/64: bytes on their way out; a tenth of the pages' number is small buffers for answers
  u32 pages = (u32)(7 * part / (TXBUF_LARGE + 640));
  out->net = (struct net_limits){.tcp_conns = connections,
                                 .tcp_time_wait = MIN(connections, 16384u),
                                 .tcp_halves = MIN(MAX(connections / 4, 64u), 16384u),
                                 .tcp_parked = MIN(MAX(connections / 2, 64u), 65536u),
                                 .tcp_flights = flights,
                                 .txbuf_small = pages,
                                 .txbuf_small_reserve = pages / 4,
                                 .txbuf_large = pages,
                                 .tx_slots = 1024};
  // 4/64: packets being assembled; 4/64: handshakes under way
  out->server = (struct server_limits){
      .connections = connections,
      .handshakes = (u32)MIN(MAX(4 * part / (TLS_ARENA_BYTES + 512), 4ull), 512ull),
      .connect_timeout_ms = CONNECT_TIMEOUT_MS,
      .packet_size_max = out->broker.packet_size_max,
      .packet_bytes = 4 * part,
  };
  // one for each tcp connection, connection and session, and a few of the parts' own
  out->timers = 2 * connections + out->broker.sessions + 256;
  // contexts and the library's own state; what is left, 5/64, is slack for rounding
  // (one heap for all cores: each has contexts of its own in it)
  out->tls_heap_len = MIN(MAX((u64)TLS_HEAP_BYTES * (1 + cores), cores * part), (u64)TLS_HEAP_MAX);
}

void limits_print(const struct limits *l) {
  char line[700];
  if (l->cores > 1) {
    u32 n = fmt_z(line, sizeof line,
                  "memory: %llu MiB / %u cores = %llu MiB for each, beside %u KiB a pair of cores "
                  "for mail; of each core's\n",
                  (unsigned long long)(l->memory_len >> 20), l->cores,
                  (unsigned long long)(l->core_len >> 20), 2 * l->mail_ring_len >> 10);
    plat_console(bytes_of(line, n));
  }
  u32 n =
      fmt_z(line, sizeof line,
            "memory: %llu MiB = sessions and messages 1/2 (%u sessions, %u subscriptions, %u "
            "retained, %llu MiB of messages)\n"
            "        + connections 1/8 (%u) + transmit 1/8 (%u pages, %u flights) + packets being "
            "assembled 1/16 (%llu MiB)\n"
            "        + handshakes 1/16 (%u at once) + TLS contexts %llu KiB + timers (%u) and "
            "rounding\n",
            (unsigned long long)(l->core_len >> 20), l->broker.sessions, l->broker.subscriptions,
            l->broker.retained, (unsigned long long)(l->broker.message_bytes >> 20),
            l->server.connections, l->net.txbuf_large, l->net.tcp_flights,
            (unsigned long long)(l->server.packet_bytes >> 20), l->server.handshakes,
            (unsigned long long)(l->tls_heap_len >> 10), l->timers);
  plat_console(bytes_of(line, n));
}
