// SPDX-License-Identifier: Apache-2.0
// DHCPv4's messages (RFC 2131 2, RFC 2132, RFC 3396, RFC 3442). Pure: bytes in, values out.
#pragma once
#include "base/bytes.h"

#define ROUTES_MAX 8u
#define DHCP_REQUEST_MAX 300u  // RFC 1542 2.1 wants as much

struct route4 {
  u32 prefix, mask;
  u32 gateway;  // 0: on the link
};

enum { DISCOVER = 1, OFFER = 2, REQUEST = 3, DECLINE = 4, ACK = 5, NAK = 6 };

struct dhcp_request {
  u8 type;
  u32 xid;
  u16 secs;       // since we began
  u32 address;    // ciaddr: ours already; 0 = none
  u32 requested;  // option 50; 0 = none
  u32 server;     // option 54; 0 = none
  const u8 *mac;
};
// Returns its length, at most DHCP_REQUEST_MAX.
u32 dhcp_request_write(struct span out, const struct dhcp_request *r);

struct dhcp_reply {
  u8 type;
  u32 address, server, mask, router, dns[2];
  u32 lease_s, t1_s, t2_s;  // 0 = not said
  u16 mtu;                  // 0 = not said
  bool has_routes;          // option 121 came: `router` is not to be used (RFC 3442)
  struct route4 route[ROUTES_MAX];
  u32 route_count;
};
// False: not a reply to `mac` and `xid`, or malformed.
bool dhcp_reply_parse(struct bytes in, const u8 mac[6], u32 xid, struct dhcp_reply *out);
