// SPDX-License-Identifier: Apache-2.0
// One network instance a core: interfaces, addresses, ARP, ICMP, UDP, DHCP and the TCP connections
// of that core.
#pragma once
#include "base/ip.h"
#include "loop/carve.h"
#include "loop/core.h"
#include "net/txbuf.h"

struct net;
struct admit;

enum net_ip6_mode {
  NET_IP6_OFF,
  NET_IP6_AUTO,    // what routers advertise
  NET_IP6_STATIC,  // the address below; routers are listened to only without a gateway
};
struct net_if6_config {
  enum net_ip6_mode mode;
  struct ip_addr address;
  u8 prefix_len;           // 1..128
  struct ip_addr gateway;  // IP_NONE = by advertisements; may lie anywhere, fe80::1 as well
};
struct net_if_config {
  bool dhcp;    // true: DHCPv4, the rest of IPv4 is ignored
  u32 address;  // static; 0 = no IPv4
  u8 prefix_len;
  u32 gateway;  // 0 = none; may lie outside the subnet (on-link route is implied)
  struct net_if6_config ip6;
};

struct net_limits {  // every pool's size; the sum is printed at boot
  u32 tcp_conns;
  u32 tcp_time_wait;
  u32 tcp_halves;   // half-open connections; 0: a quarter of tcp_conns
  u32 tcp_parked;   // SYNs that wait for a slot; 0: as many
  u32 tcp_flights;  // connections with several segments in flight at once; 0: NewReno only
  u32 txbuf_small;
  u32 txbuf_small_reserve;
  u32 txbuf_large;
  u32 tx_slots;  // frames in the devices at once
};
// Registers its stages (poll before server work, flush after it) with the core's loop.
enum err net_init(struct core *core, struct carve *carve, const struct net_limits *limits);
// nic < plat_nic_count(). May be called again (new address); announces by gratuitous ARP.
enum err net_configure(struct net *net, u32 nic, const struct net_if_config *config);

#define NET_IP6_MAX 8u
struct net_if_state {
  bool up;      // link up and an address present
  u32 address;  // 0 = none yet
  u8 prefix_len;
  u32 gateway;
  u32 dns[2];
  u16 mtu;
  struct {
    struct ip_addr address;
    bool valid;      // false: being tried, or somebody else has it
    bool duplicate;  // somebody else has it
  } ip6[NET_IP6_MAX];
  u32 ip6_count;
  struct ip_addr gateway6;  // in use; IP_NONE = none
};
void net_if_state(const struct net *net, u32 nic, struct net_if_state *out);

struct net_stats {
  u64 rx_frames, tx_frames, rx_bytes, tx_bytes;
  u64 rx_dropped[16];  // by reason, see net_drop_name
  u64 tcp_segments_in, tcp_segments_out, tcp_retransmits, tcp_resets_out, tcp_accepted, tcp_refused,
      tcp_connected, tcp_timeouts, tcp_cookies_sent, tcp_cookies_good;
  u32 tcp_open;
};
const struct net_stats *net_stats(const struct net *net);
const struct admit *net_admission(const struct net *net);  // admit.h
const char *net_drop_name(u32 reason);

// The two stages of a turn; net_init registers net_poll first and the caller registers net_flush
// last.
bool net_poll(struct core *core, void *net);  // receive a bounded batch, reclaim transmit slots
bool net_flush(struct core *core,
               void *net);  // segments and ACKs of all connections touched this turn, one doorbell

// --- UDP (bootstrap use: DHCP, later DNS and SNTP)
// ------------------------------------------------------------------
struct udp_packet {
  struct ip_addr source, target;  // source: ours to choose when sending
  u16 source_port, target_port;
  struct bytes payload;  // borrowed for the call
  u32 nic;
};
typedef void udp_handler(struct net *net, void *user, const struct udp_packet *packet);
enum err udp_bind(struct net *net, u16 port, udp_handler *handler, void *user);
void udp_unbind(struct net *net, u16 port);
enum err udp_send(struct net *net, u32 nic, const struct udp_packet *packet);
// By the NIC on the way to the target. ERR_NOT_FOUND: there is none.
enum err udp_send_to(struct net *net, const struct udp_packet *packet);
