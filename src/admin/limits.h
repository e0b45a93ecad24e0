// SPDX-License-Identifier: Apache-2.0
// The division of memory at boot: every ceiling of the program from one figure, so that twice the
// memory is twice the clients. The sum is printed.
#pragma once
#include "broker/broker.h"
#include "net/net.h"
#include "server/server.h"

struct limits {
  u64 memory_len;     // all of it
  u32 cores;          // among which it is divided
  u32 mail_ring_len;  // bytes of a ring between two cores; 0: one core
  u64 core_len;       // what is a core's: everything below but the TLS heap is of each core
  u32 timers;
  u64 tls_heap_len;
  struct net_limits net;
  struct broker_limits broker;
  struct server_limits server;
};
// memory_len >= 32 MiB a core; less is an error of the platform's own check.
void limits_from_memory(u64 memory_len, u32 cores, struct limits *out);
// At most `wanted` cores, so many that each gets its 32 MiB.
u32 limits_cores(u64 memory_len, u32 wanted);
// The sum, a line an addend.
void limits_print(const struct limits *l);
