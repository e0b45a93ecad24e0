// SPDX-License-Identifier: Apache-2.0
// The PROXY protocol's header (versions 1 and 2, the HAProxy specification of 2020), which a load
// balancer puts in front of a connection to say who the client is. Pure: bytes in, values out.
#pragma once
#include "base/ip.h"

#define PROXY_V1_MAX 107u   // with CR LF
#define PROXY_V2_MAX 1024u  // ours: the address block and the few TLVs balancers send

struct proxy_peer {
  bool known;     // false: UNKNOWN or LOCAL, the connection is the balancer's own
  bool tls;       // version 2: the client came by TLS
  bool verified;  // and its certificate was verified
  u16 port;       // of the client
  struct ip_addr address;
  struct part name;  // common name of the client's certificate, in the header; empty = not told
};
// Reads the header at the front of `b`, version 1 or 2 as configured. *len: its bytes. ERR_SHORT:
// more bytes are needed. ERR_MALFORMED: not such a header.
NODISCARD enum err proxy_parse(struct bytes b, u32 version, struct proxy_peer *out, u32 *len);
