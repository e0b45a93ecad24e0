// SPDX-License-Identifier: Apache-2.0
// The division of memory at boot: every ceiling of the program from one figure, so that twice the
// memory is twice the clients. The sum is printed.
#pragma once
#include "broker/broker.h"
#include "net/net.h"
#include "server/server.h"

struct limits {
  u64 memory_len;
  u32 timers;
  u64 tls_heap_len;
  struct net_limits net;
  struct broker_limits broker;
  struct server_limits server;
};
// memory_len >= 32 MiB; less is an error of the platform's own check.
void limits_from_memory(u64 memory_len, struct limits *out);
// The sum, a line an addend.
void limits_print(const struct limits *l);
