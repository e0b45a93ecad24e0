// SPDX-License-Identifier: Apache-2.0
// IPv6 of one NIC: addresses, neighbours, prefixes and routers. Shared by net/*.c only; kept apart
// from connections, so that one core can own it.
//
// V1  Everything that a stranger's packet can make grow is a fixed table with a rule who gives way.
// V2  An address is used once duplicate detection has found nobody else (IP6_VALID).
// V3  What is in use gives way to nobody: a neighbour that we sent to within ND_KEEP_NS, the router
//     in use, a prefix or address before its time. Floods fill what is left.
#pragma once
#include "base/ip.h"
#include "net/ip6_walk.h"

struct nic;
struct ip_in;
struct rxbuf;

struct bucket {  // token bucket: `rate` events a second
  u64 since_ns;
  u32 left;
};

#define ND_ENTRIES 256u
#define ND_WAYS 8u            // places one address may take
#define ND_ASKED_MAX 2u       // of them by neighbours that are only asked for
#define IP6_ADDRESSES_MAX 8u  // link-local, configured, one a prefix
#define IP6_PREFIXES_MAX 8u
#define IP6_ROUTERS_MAX 4u
#define IP6_DNS_MAX 3u
#define IP6_MTU_MIN 1280u

// RFC 4861 7.3.2
enum nd_state { ND_FREE, ND_INCOMPLETE, ND_REACHABLE, ND_STALE, ND_DELAY, ND_PROBE };
struct nd_entry {
  struct ip_addr address;
  u8 mac[6];
  u8 state;
  u8 tries;     // solicitations sent in this state
  bool router;  // its last advertisement said so
  bool due;     // to be asked when the turn ends
  u64 next_ns;  // the state's own timer
  u64 used_ns;
};

enum ip6_origin { IP6_BY_LINK, IP6_BY_CONFIG, IP6_BY_PREFIX };
enum ip6_state { IP6_FREE, IP6_TENTATIVE, IP6_VALID, IP6_DUPLICATE };
struct ip6_address {
  struct ip_addr address;
  u8 state;
  u8 origin;
  u8 probes;         // solicitations of duplicate detection sent
  u64 next_ns;       // tentative: the next step
  u64 preferred_ns;  // until then new connections use it; U64_MAX = always
  u64 valid_ns;
  u64 defended_ns;  // against another user of it, last
};
struct ip6_prefix {  // on-link; len 0 = free
  struct ip_addr prefix;
  u8 len;
  u64 until_ns;
};
struct ip6_router {  // until_ns 0 = free
  struct ip_addr address;
  u64 until_ns;
  u64 failed_ns;  // did not answer, last; 0 = never
};

struct ip6_nic {
  bool on;
  bool use_routers, use_prefixes;  // of advertisements: as the configuration says
  u8 hop_limit;
  u16 mtu;
  struct ip_addr gateway;                         // configured; IP_NONE = none
  struct ip6_address address[IP6_ADDRESSES_MAX];  // [0] is the link-local one
  u32 address_count;                              // places from here on were never taken
  struct ip6_prefix prefix[IP6_PREFIXES_MAX];     // [0] is the configured one
  struct ip6_router router[IP6_ROUTERS_MAX];
  u32 router_now;  // in use
  struct {
    struct ip_addr address;  // IP_NONE = free
    u64 until_ns;
  } dns[IP6_DNS_MAX];
  u32 reachable_ms, retrans_ms;
  u32 rs_count;  // solicitations sent
  u64 rs_ns;     // the next one
  u64 rs_sent_ns;
  struct bucket ra_bucket, nd_bucket;
  u8 mld_kind, mld_left;  // reports due
  u64 mld_ns;
  bool nd_due;
  struct nd_entry nd[ND_ENTRIES];
};

// --- a NIC's IPv6 (ip6_if.c)
struct net_if6_config;
void ip6_start(struct nic *nic, const struct net_if6_config *config);
void ip6_link_up(struct nic *nic);
void ip6_tick(struct nic *nic);
// The place of one of this NIC's addresses; NULL: not its.
struct ip6_address *ip6_find(struct nic *nic, struct ip_addr address);
// Adds it and begins duplicate detection; NULL: the table is full.
struct ip6_address *ip6_add(struct nic *nic, struct ip_addr address, enum ip6_origin origin,
                            u64 preferred_ns, u64 valid_ns);
// Another machine has an address of ours (RFC 4862 5.4.5, 5.4.4): a tentative one is given up, a
// valid one defended by an advertisement, at most one in ten seconds.
void ip6_conflict(struct nic *nic, struct ip6_address *a);
// Whether packets to `target` go to it directly.
bool ip6_on_link(const struct nic *nic, struct ip_addr target);
// The source for packets to `target` (RFC 6724 5); IP_NONE: there is none.
struct ip_addr ip6_source(const struct nic *nic, struct ip_addr target);
// The neighbour that packets to `target` go to; IP_NONE: there is no way.
struct ip_addr ip6_next_hop(const struct nic *nic, struct ip_addr target);
// The router for what is not on the link, configured or advertised; IP_NONE: there is none.
struct ip_addr ip6_router(const struct nic *nic);
u64 ip6_interface_id(const u8 mac[6]);

// --- neighbours (nd.c)
// The MAC of a neighbour; asks when it is unknown. False: not known yet.
bool nd_resolve(struct nic *nic, struct ip_addr hop, u8 mac[6]);
// A source link-layer option of `address` came (RFC 4861 7.2.3, 6.3.4).
void nd_learn(struct nic *nic, struct ip_addr address, const u8 mac[6], bool router);
bool nd_known(const struct nic *nic, struct ip_addr address);
void nd_advertise(struct nic *nic, const struct ip6_address *a);  // to all, unsolicited
void nd_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame, struct bytes in);
void nd_probe(struct nic *nic, struct ip_addr target);                   // duplicate detection
void nd_told(struct nic *nic, struct ip_addr address, const u8 mac[6]);  // by core 0
void nd_flush(struct nic *nic);
void nd_tick(struct nic *nic);

// --- ND's messages (nd_message.c): pure
struct nd_message {
  u8 type;
  struct ip_addr target;  // NS, NA
  u8 flags;               // NA
  bool has_source, has_target;
  u8 source_mac[6], target_mac[6];  // link-layer options
};
// A whole neighbour message (from the ICMPv6 type on); false: malformed.
bool nd_message_parse(struct bytes m, struct nd_message *out);
struct ra_prefix {
  struct ip_addr prefix;
  u8 len;
  bool on_link, autonomous;
  u32 valid_s, preferred_s;
};
#define RA_DNS_MAX 3u
struct ra_message {
  u8 hop_limit;  // 0 = not said
  u16 lifetime_s;
  u32 reachable_ms, retrans_ms;
  u32 mtu;  // 0 = not said
  bool has_source;
  u8 source_mac[6];
  struct ra_prefix prefix[IP6_PREFIXES_MAX];
  u32 prefix_count;
  struct ip_addr dns[RA_DNS_MAX];
  u32 dns_count, dns_lifetime_s;
};
bool ra_message_parse(struct bytes m, struct ra_message *out);
// The next option at *at (a multiple of eight behind the message's fixed part): its bytes, head
// included; moves on. ERR_NOT_FOUND: none is left. ERR_MALFORMED: a length of 0 or beyond the end.
NODISCARD enum err nd_option(struct bytes m, u32 *at, struct part *out);

// --- routers (ra.c)
void ra_input(struct nic *nic, struct ip_addr source, struct bytes m);
// The router in use; IP_NONE: there is none.
struct ip_addr ra_router(const struct nic *nic);
void ra_router_failed(struct nic *nic, struct ip_addr address);  // no answer
void ra_router_gone(struct nic *nic, struct ip_addr address);    // says so itself
void rs_tick(struct nic *nic);
void rs_now(struct nic *nic);  // ask again, soon

// --- ICMPv6 (icmp6.c)
enum {
  ICMP6_UNREACHABLE = 1,
  ICMP6_TOO_BIG = 2,
  ICMP6_EXCEEDED = 3,
  ICMP6_PROBLEM = 4,
  ICMP6_ECHO = 128,
  ICMP6_ECHO_REPLY = 129,
  ICMP6_MLD_QUERY = 130,
  ICMP6_RS = 133,
  ICMP6_RA = 134,
  ICMP6_NS = 135,
  ICMP6_NA = 136,
  ICMP6_MLD2_REPORT = 143,
};
struct icmp6_out {
  struct ip_addr source, target;
  const u8 *mac;      // NULL: as the neighbour cache says
  u8 hop_limit;       // 0 = the NIC's
  bool router_alert;  // RFC 2711, for MLD
  struct bytes body;  // from the type on; the checksum field is filled in
};
void icmp6_send(struct nic *nic, const struct icmp6_out *m);
void icmp6_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame);
// Tells the sender what is wrong with its packet, where that is allowed (RFC 4443 2.4) and within
// the rate.
void icmp6_error(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame, u8 type,
                 u8 code, u32 value);
#define IP6_ALL_NODES ((struct ip_addr){0xff02ull << 48, 1})
#define IP6_ALL_ROUTERS ((struct ip_addr){0xff02ull << 48, 2})
#define IP6_ALL_MLD2 ((struct ip_addr){0xff02ull << 48, 0x16})
static inline struct ip_addr ip6_solicited(struct ip_addr a) {  // RFC 4291 2.7.1
  return (struct ip_addr){0xff02ull << 48, 0x1ff000000ull | (a.lo & 0xffffff)};
}

// --- multicast listening (mld.c): RFC 3810, as a host with no sources to choose
void mld_changed(struct nic *nic);  // groups joined: told when the turn ends
void mld_query(struct nic *nic, struct bytes m);
void mld_tick(struct nic *nic);
