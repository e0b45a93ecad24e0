// SPDX-License-Identifier: Apache-2.0
// The network instance: its memory, its interfaces, and the two stages of a turn (DESIGN 3):
// net_poll takes a bounded batch of frames, net_flush sends what all touched connections have, with
// one doorbell a NIC.
//
// I1  After net_init nothing is allocated outside pools.
// I2  A turn takes at most RX_BATCH frames of each NIC: none starves the rest of the turn.
#include "net/net.h"

#include "loop/loop.h"
#include "net/stack.h"
#include "net/tcp_half.h"

#define TICK_NS 250000000ull

static void on_tick(struct core *core, u32 timer, void *owner) {
  struct net *net = owner;
  for (u32 i = 0; i < net->nic_count; i++) {
    struct nic *nic = &net->nic[i];
    if (net_follows(net)) {  // core 0 tells
      arp_tick(nic);
      nd_tick(nic);
      continue;
    }
    bool was_up = nic->info.link_up;
    u16 mtu = nic->mtu;
    plat_nic_info(i, &nic->info);
    nic->mtu = MIN(mtu, nic->info.mtu);
    nic->ip6.mtu = MIN(nic->ip6.mtu, nic->info.mtu);
    arp_tick(nic);
    dhcp_tick(nic);
    ip6_tick(nic);
    follow_tick(nic);
    if (!was_up && nic->info.link_up) {
      ip6_link_up(nic);
      dhcp_link_up(nic);
      if (nic->address != 0) {
        arp_announce(nic);
      }
    }
  }
  dns_tick(net);
  wheel_arm(&core->wheel, timer, core->now_ns + TICK_NS);
}

enum err net_init(struct core *core, struct carve *carve, const struct net_limits *limits) {
  struct span memory = carve_take(carve, sizeof(struct net), 64);
  if (memory.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  struct net *net = (struct net *)(void *)memory.ptr;
  memset(net, 0, sizeof *net);
  net->core = core;
  core->net = net;
  TRY(txbuf_init(net, carve, limits));
  TRY(tcp_init(net, carve, limits));
  net->nic_count = MIN(plat_nic_count(), PLAT_NIC_MAX);
  for (u32 i = 0; i < net->nic_count; i++) {
    struct nic *nic = &net->nic[i];
    nic->net = net;
    nic->index = i;
    plat_nic_info(i, &nic->info);
    nic->mtu = nic->info.mtu;
    nic->mask = U32_MAX;
  }
  net->timer = wheel_take(&core->wheel, TIMER_NET, net);
  if (net->timer == WHEEL_NONE) {
    return ERR_NO_MEMORY;
  }
  core->on_timer[TIMER_NET] = on_tick;
  core->on_timer[TIMER_TCP] = tcp_on_timer;
  core->on_timer[TIMER_HALF] = tcp_half_timer;
  wheel_arm(&core->wheel, net->timer, core->now_ns);
  follow_init(net);
  loop_stage(core, "net poll", net_poll, net);
  return ERR_OK;
}

enum err net_configure(struct net *net, u32 index, const struct net_if_config *config) {
  if (index >= net->nic_count) {
    return ERR_NOT_FOUND;
  }
  bool fixed = config->ip6.mode == NET_IP6_STATIC;
  if (config->prefix_len > 32 || config->ip6.prefix_len > 128 ||
      (fixed && config->ip6.prefix_len == 0)) {
    return ERR_RANGE;
  }
  struct nic *nic = &net->nic[index];
  memset(nic->arp, 0, sizeof nic->arp);
  ip6_start(nic, &config->ip6);
  if (config->dhcp) {
    dhcp_start(nic);
    return ERR_OK;
  }
  nic->dhcp.state = DHCP_OFF;
  nic->address = config->address;
  nic->prefix_len = config->prefix_len;
  nic->mask = config->prefix_len == 0 ? 0 : U32_MAX << (32 - config->prefix_len);
  nic->gateway = config->gateway;
  nic->route_count = 0;
  if (nic->address != 0) {
    arp_announce(nic);
  }
  return ERR_OK;
}

static_assert(NET_IP6_MAX >= IP6_ADDRESSES_MAX, "all addresses can be told");

void net_if_state(const struct net *net, u32 index, struct net_if_state *out) {
  ASSERT(index < net->nic_count);
  const struct nic *nic = &net->nic[index];
  *out = (struct net_if_state){.up = nic->info.link_up && nic->address != 0,
                               .address = nic->address,
                               .prefix_len = nic->prefix_len,
                               .gateway = nic->gateway,
                               .dns = {nic->dns[0], nic->dns[1]},
                               .mtu = nic->mtu,
                               .gateway6 = ip6_router(nic)};
  for (u32 i = 0; i < nic->ip6.address_count; i++) {
    const struct ip6_address *a = &nic->ip6.address[i];
    if (a->state != IP6_FREE) {
      out->ip6[out->ip6_count].address = a->address;
      out->ip6[out->ip6_count].valid = a->state == IP6_VALID;
      out->ip6[out->ip6_count++].duplicate = a->state == IP6_DUPLICATE;
    }
  }
}

const struct net_stats *net_stats(const struct net *net) {
  return &net->stats;
}

const struct admit *net_admission(const struct net *net) {
  return &net->admit;
}

const char *net_drop_name(u32 reason) {
  static const char *const names[DROP_COUNT] = {
      [DROP_SHORT] = "too short or bad length",
      [DROP_CHECKSUM] = "bad checksum",
      [DROP_NOT_OURS] = "not for us",
      [DROP_FRAGMENT] = "fragment",
      [DROP_SOURCE] = "impossible source address",
      [DROP_PROTOCOL] = "unknown protocol",
      [DROP_NO_LISTENER] = "no listener",
      [DROP_TCP_STATE] = "tcp: not acceptable in this state",
      [DROP_TCP_WINDOW] = "tcp: outside the window",
      [DROP_TCP_POOL] = "tcp: connections used up",
      [DROP_OUT_OF_ORDER_FULL] = "tcp: out-of-order queue full",
      [DROP_TX_FULL] = "transmit: slots used up",
      [DROP_NO_ROUTE] = "no route",
      [DROP_RATE] = "rate limit",
  };
  return reason < DROP_COUNT ? names[reason] : "unknown";
}

bool net_poll(struct core *core, void *ctx) {
  struct net *net = ctx;
  struct rxbuf *frames[RX_BATCH];
  bool busy = false;
  admit_tick(&net->admit, core->now_ns);
  for (u32 i = 0; i < net->nic_count; i++) {
    tx_reclaim(&net->nic[i]);
    u32 n = plat_rx(core->id, i, frames, RX_BATCH);
    for (u32 k = 0; k < n; k++) {
      eth_input(&net->nic[i], frames[k]);
    }
    busy |= n > 0;
  }
  return busy;
}

bool net_flush(struct core *core, void *ctx) {
  (void)core;
  struct net *net = ctx;
  bool waits = tcp_half_stage(net);
  tcp_flush_all(net);
  waits |= tcp_work_waits(net);
  follow_flush(net);
  for (u32 i = 0; i < net->nic_count; i++) {
    arp_flush(&net->nic[i]);
    nd_flush(&net->nic[i]);
    tx_flush(&net->nic[i]);
    waits |= net->nic[i].batch_count > 0;
  }
  return waits;
}
