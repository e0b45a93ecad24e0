// SPDX-License-Identifier: Apache-2.0
// The network instance's inside, shared by net/*.c only.
//
// I1  Memory of a connection: one struct tcp_conn; buffers only while bytes wait.
// I2  A connection is freed in net_flush, never inside a callback: its state is TCP_CLOSED until
//     then.
// I3  A transmit slot is taken while its frame waits in a batch or lies in a device; its txbufs are
//     referenced as long.
#pragma once
#include "net/admit.h"
#include "net/checksum.h"
#include "net/dhcp_message.h"
#include "net/dns.h"
#include "net/ip6.h"
#include "net/tcp.h"

#define ETH_LEN 14u
#define IP4_LEN 20u
#define TCP_LEN 20u
#define UDP_LEN 8u
#define HEADERS_MAX 128u
#define ETH_IP4 0x0800u
#define ETH_ARP 0x0806u
#define ETH_IP6 0x86ddu
#define IP_ICMP 1u
#define IP_TCP 6u
#define IP_UDP 17u
#define IP_ICMP6 58u
#define MS_NS 1000000ull
#define SECOND_NS 1000000000ull

#define BATCH 64u         // frames a NIC's batch holds
#define RX_BATCH 128u     // frames taken a turn
#define ARP_ENTRIES 256u  // a NIC
#define ARP_WAYS 8u       // places one address may take
#define LISTENERS_MAX 32u
#define UDP_BINDS_MAX 16u
#define SLOT_REFS (PLAT_TX_PARTS - 1)

enum drop {
  DROP_SHORT,
  DROP_CHECKSUM,
  DROP_NOT_OURS,
  DROP_FRAGMENT,
  DROP_SOURCE,
  DROP_PROTOCOL,
  DROP_NO_LISTENER,
  DROP_TCP_STATE,
  DROP_TCP_WINDOW,
  DROP_TCP_POOL,
  DROP_OUT_OF_ORDER_FULL,
  DROP_TX_FULL,
  DROP_NO_ROUTE,
  DROP_RATE,
  DROP_COUNT
};

struct tx_slot {
  u8 headers[HEADERS_MAX];
  struct txbuf *ref[SLOT_REFS];
  u32 ref_count;
};

enum arp_state { ARP_FREE, ARP_ASKED, ARP_KNOWN };
struct arp_entry {
  u32 address;
  u8 mac[6];
  u8 state;
  u8 tries;
  bool due;      // to be asked for when the turn ends
  u64 since_ns;  // learned or last asked
  u64 used_ns;
};

enum dhcp_state {
  DHCP_OFF,
  DHCP_INIT,
  DHCP_SELECTING,
  DHCP_REQUESTING,
  DHCP_PROBING,
  DHCP_DECLINED,
  DHCP_BOUND,  // from here on there is a lease
  DHCP_RENEWING,
  DHCP_REBINDING,
  DHCP_REBOOTING,
};
struct dhcp {
  enum dhcp_state state;
  u32 xid;
  u32 offered, server;  // the address that is asked for, and of whom
  u32 tries;
  u32 conflicts;  // in a row
  u64 begun_ns;   // when this exchange began
  u64 asked_ns;   // when the last message went out
  u64 next_ns;    // the state's own timer
  u64 renew_ns;   // T1
  u64 rebind_ns;  // T2
  u64 expire_ns;
  struct dhcp_reply lease;  // while its address is probed
};

struct net_face {  // a NIC as cores other than 0 are told of it (follow.c); no padding
  u32 address, mask, gateway, route_count;
  struct route4 route[ROUTES_MAX];
  u16 mtu;
  u8 prefix_len;
  u8 link_up;
};
struct net_face6 {  // and of its IPv6; no padding
  struct ip_addr address[IP6_ADDRESSES_MAX], prefix[IP6_PREFIXES_MAX], gateway;
  u8 prefix_len[IP6_PREFIXES_MAX];
  u8 address_count, prefix_count;
  u8 deprecated;  // bit i: address[i] is not for new connections
  u8 on, hop_limit;
  u8 zero;
  u16 mtu;
};
static_assert(sizeof(struct net_face6) == 17 * 16 + 8 + 8, "compared as bytes");

struct nic {
  struct net *net;
  u32 index;
  struct plat_nic info;
  u32 address, mask, gateway, dns[2];
  u16 mtu;
  u8 prefix_len;
  struct route4 route[ROUTES_MAX];  // beside the subnet and the gateway (RFC 3442)
  u32 route_count;
  struct arp_entry arp[ARP_ENTRIES];
  bool arp_due;
  struct net_face face_sent;  // core 0: last told to the others
  struct net_face6 face6_sent;
  u64 announce_ns;  // the second announcement; 0 = none is due
  u64 defended_ns;  // our address against another user of it, last
  struct dhcp dhcp;
  struct ip6_nic ip6;
  struct tx_frame batch[BATCH];
  u32 batch_count;
  bool making;  // between tx_begin and tx_commit or tx_cancel: one frame at a time
};

struct listener {
  u16 port;
  const struct tcp_listener_ops *ops;
  void *user;
};

struct dns_query {       // one question under way (dns.c)
  dns_handler *handler;  // NULL = free
  void *user;
  u64 next_ns;
  struct ip_addr asked;  // the server of the last try
  u32 tries;
  u16 id, port;
  u16 type;                 // asked for now
  struct dns_answer found;  // so far
  u8 name_len;
  u8 name[DNS_NAME_MAX + 1];
};
struct dns {
  struct dns_query query[DNS_QUERIES_MAX];
  struct ip_addr server[DNS_SERVERS_MAX];
  u32 server_count;
};

#define TCP_SPENT 4096u

struct pmtu {  // of a path (pmtu.c)
  struct ip_addr target;
  u16 mtu;
  u64 until_ns;
};
#define PMTU_ENTRIES 64u

struct net {
  struct core *core;
  struct net_stats stats;
  struct nic nic[PLAT_NIC_MAX];
  u32 nic_count;
  struct pool slots, small, large, small_data, large_data;
  u32 small_reserve;
  struct listener listener[LISTENERS_MAX];
  u32 listener_count;
  struct {
    u16 port;
    udp_handler *handler;
    void *user;
  } udp[UDP_BINDS_MAX];
  u32 udp_count;
  struct dns dns;
  struct pmtu pmtu[PMTU_ENTRIES];
  bool pmtu_used;
  u16 ip_id;
  u32 timer;
  struct bucket rst_bucket, icmp_bucket;
  // TCP
  struct pool conns, waits, flights;
  u32 *hash;       // indices + 1 into conns, 0 = none
  u32 *wait_hash;  // and into waits
  u32 hash_mask, wait_mask;
  struct link touched, dead, wait_list;
  // Admission and half-open connections (tcp_half.c)
  struct admit admit;
  struct pool halves;
  u32 *half_hash;  // indices + 1
  u32 half_mask;
  u32 half_timer;
  u64 half_armed_ns;
  struct link half_list;  // by age
  struct bucket cookie_bucket;
  u64 cookies_until_ns;
  u32 spent[TCP_SPENT];  // marks of cookies that had their connection
  u32 port_counter;
  u32 rx_held;  // receive buffers in the queues of all connections
};

static inline void net_drop(struct net *net, enum drop why) {
  net->stats.rx_dropped[why]++;
}
bool bucket_take(struct bucket *b, u64 now_ns, u32 rate);

// --- frames out (txpath.c)
struct frame {
  struct tx_frame *tx;
  struct tx_slot *slot;
};
u32 tx_room(const struct nic *nic);  // frames that may still be begun this turn
// A frame with its slot, header part not yet set; false when the batch or the slots are used up.
bool tx_begin(struct nic *nic, struct frame *f);
void tx_ref(struct frame *f, struct txbuf *b, u32 off, u32 len);  // adds a part
void tx_commit(struct nic *nic, struct frame *f, u32 header_len);
void tx_cancel(struct nic *nic, struct frame *f);
void tx_flush(struct nic *nic);
void tx_reclaim(struct nic *nic);
enum err txbuf_init(struct net *net, struct carve *carve, const struct net_limits *limits);

// --- Ethernet and ARP (eth.c)
void eth_input(struct nic *nic, struct rxbuf *frame CONSUMES);
void eth_write(const struct nic *nic, u8 *h, const u8 to[6], u16 type);
// MAC of the next hop towards `target`; asks when unknown. False: not known yet, drop.
bool arp_resolve(struct nic *nic, u32 target, u8 mac[6]);
void arp_learn(struct nic *nic, u32 address, const u8 mac[6], bool confirmed);
void arp_announce(struct nic *nic);           // twice (RFC 5227 2.3)
void arp_probe(struct nic *nic, u32 target);  // RFC 5227 2.1.1
void arp_tick(struct nic *nic);
void arp_flush(struct nic *nic);

// --- the other cores (follow.c): with one core nothing
void follow_init(struct net *net);
static inline bool net_follows(const struct net *net) {  // it is told by core 0
  return net->core->mail != NULL && net->core->id != 0;
}
void follow_flush(struct net *net);
void follow_tick(struct nic *nic);
void follow_learned(struct nic *nic, struct ip_addr address, const u8 mac[6]);
// Of a core other than 0: to core 0.
void follow_ask(struct nic *nic, struct ip_addr address);

// --- both families (ip.c)
struct ip_in {  // a received packet: one protocol's header and payload in a frame
  struct ip_addr source, target;
  u32 off;  // of the payload, from the frame's first byte
  u32 len;  // bytes of payload; the frame ends there
  u8 protocol;
};
static inline u32 ip_header_len(struct ip_addr a) {
  return ip_is4(a) ? IP4_LEN : IP6_LEN;
}
// Adds the pseudo-header (RFC 9293 3.1, RFC 8200 8.1): the same sum for both families, because the
// 0xffff before a mapped IPv4 address is zero to it.
void ip_pseudo(struct csum *c, struct ip_addr source, struct ip_addr target, u8 protocol, u32 len);
// The NIC towards `target`: its own subnet first, else the first with a gateway; NULL: no route.
struct nic *ip_route(struct net *net, struct ip_addr target);
// This NIC's address for packets to `target`; IP_NONE: it has none that fits.
struct ip_addr ip_source(const struct nic *nic, struct ip_addr target);
// Tells the sender that nobody listens on the UDP port (rate limited).
void ip_port_unreachable(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame);
// Cuts the frame to its first `want` bytes: Ethernet pads short frames.
void ip_trim(struct rxbuf *frame, u32 want, u32 core);

// --- UDP (udp.c)
void udp_input(struct nic *nic, const struct ip_in *ip, const struct rxbuf *frame);

// --- IPv4, ICMP (ip4.c)
void ip4_input(struct nic *nic, struct rxbuf *frame CONSUMES);
// The neighbour that packets to `target` go to.
u32 ip4_hop(const struct nic *nic, u32 target);
enum err ip4_write(struct nic *nic, u8 *h, u32 source, u32 target, u8 protocol, u32 len);
void icmp_unreachable(struct nic *nic, const struct rxbuf *frame, u8 code);

// --- IPv6 (ip6.c)
void ip6_input(struct nic *nic, struct rxbuf *frame CONSUMES);
enum err ip6_write(struct nic *nic, u8 *h, struct ip_addr source, struct ip_addr target,
                   u8 protocol, u32 len);
// The same for a message of ours that chooses its source and hop limit (ICMPv6).
enum err ip6_write_to(struct nic *nic, u8 *h, const struct icmp6_out *m, u8 protocol, u32 len);

// --- paths (pmtu.c)
static inline u32 ip_mtu(const struct nic *nic, struct ip_addr target) {
  return ip_is4(target) ? nic->mtu : nic->ip6.mtu;
}
void pmtu_learn(struct net *net, struct ip_addr target, u32 mtu);
u32 pmtu_of(const struct nic *nic, struct ip_addr target);  // at most the link's

// Writes Ethernet and IP headers for a payload of `len` bytes behind them, ETH_LEN and
// ip_header_len bytes. ERR_AGAIN: the next hop is not known yet; ERR_NOT_FOUND: `source` is not (or
// no longer) this NIC's address.
NODISCARD static inline enum err ip_header(struct nic *nic, u8 *h, struct ip_addr source,
                                           struct ip_addr target, u8 protocol, u32 len) {
  return ip_is4(target) ? ip4_write(nic, h, ip_to4(source), ip_to4(target), protocol, len)
                        : ip6_write(nic, h, source, target, protocol, len);
}

// --- DNS (dns.c)
void dns_tick(struct net *net);

// --- DHCP (dhcp.c)
void dhcp_start(struct nic *nic);
void dhcp_tick(struct nic *nic);
void dhcp_link_up(struct nic *nic);
// Another machine has or wants this address, by ARP.
void dhcp_conflict(struct nic *nic, u32 address);

// --- TCP (tcp*.c)
enum err tcp_init(struct net *net, struct carve *carve, const struct net_limits *limits);
void tcp_input(struct nic *nic, const struct ip_in *ip, struct rxbuf *frame CONSUMES);
// An ICMP error that quotes a segment of ours (tcp_alive.c): its addresses and the first eight
// bytes of its header.
enum path_error { PATH_OTHER, PATH_REFUSED, PATH_TOO_LARGE };
void tcp_icmp(struct net *net, struct ip_addr local, struct ip_addr remote, const u8 head[8],
              enum path_error what, u32 next_mtu);
void tcp_flush_all(struct net *net);
bool tcp_work_waits(const struct net *net);
void tcp_on_timer(struct core *core, u32 timer, void *owner);
