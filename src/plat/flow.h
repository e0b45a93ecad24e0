// SPDX-License-Identifier: Apache-2.0
// Which core a received frame belongs to. A TCP connection lives on the core that the hash of its
// addresses and ports names; everything else (ARP, DHCP, echo, neighbour discovery, fragments) is
// core 0's. The hash is Toeplitz, as NICs compute it (virtio 1.2 5.1.6.4.3), under a key of this
// boot, so that a NIC that spreads flows itself agrees with us.
//
// I1  An ICMP error goes where the connection lives whose segment it quotes.
// I2  Ports that we open connections from (net/tcp_open.c) are core 0's: so are their answers.
#pragma once
#include "base/bytes.h"

#define FLOW_KEY_LEN 40u
#define FLOW_SPREAD 128u  // entries of the indirection: core = entry[hash % FLOW_SPREAD]
#define FLOW_OWN_PORT_FIRST 49152u
#define FLOW_TUPLE_MAX 36u  // two IPv6 addresses and two ports

struct flow_table {
  u32 cores;
  u8 key[FLOW_KEY_LEN];
  u32 nibble[2 * FLOW_TUPLE_MAX][16];  // what each half byte of the input adds to the hash
};

// 1 <= cores. key: FLOW_KEY_LEN random bytes.
void flow_init(struct flow_table *t, u32 cores, const u8 *key);
// Toeplitz over `tuple` (at most FLOW_TUPLE_MAX bytes): source and target address, source and
// target port.
u32 flow_hash(const struct flow_table *t, struct bytes tuple);
// The core of entry i < FLOW_SPREAD.
static inline u32 flow_entry(const struct flow_table *t, u32 i) {
  return i % t->cores;
}
// `frame`: the bytes of its first buffer, from the Ethernet header on. Any bytes may stand there.
u32 flow_core(const struct flow_table *t, struct bytes frame);
