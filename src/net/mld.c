// SPDX-License-Identifier: Apache-2.0
// Multicast listener reports (RFC 3810): a switch that looks on passes only groups that somebody
// reported, and ours are those that neighbour discovery asks in. No sources are ever chosen, so a
// report lists all groups, and there is no state beside the addresses themselves.
#include "net/stack.h"

#define REPEAT_NS SECOND_NS  // RFC 3810 9.11: a change is told twice

enum { IS_EXCLUDE = 2, TO_EXCLUDE = 4 };  // 5.2.12

static void report(struct nic *nic, u8 kind) {
  u8 body[8 + 20 * IP6_ADDRESSES_MAX] = {ICMP6_MLD2_REPORT};
  const struct ip6_nic *v6 = &nic->ip6;
  const struct ip6_address *link = &v6->address[0];
  u16 count = 0;
  for (u32 i = 0; i < v6->address_count; i++) {
    if (v6->address[i].state != IP6_FREE) {
      u8 *record = body + 8 + 20 * count++;
      record[0] = kind;
      ip_store6(record + 4, ip6_solicited(v6->address[i].address));
    }
  }
  store_be16(body + 6, count);
  struct icmp6_out m = {.source = link->state == IP6_VALID ? link->address : IP_NONE,
                        .target = IP6_ALL_MLD2,
                        .hop_limit = 1,
                        .router_alert = true,
                        .body = bytes_of(body, 8 + 20u * count)};
  icmp6_send(nic, &m);
}

void mld_changed(struct nic *nic) {
  nic->ip6.mld_kind = TO_EXCLUDE;
  nic->ip6.mld_left = 2;
  nic->ip6.mld_ns = nic->net->core->now_ns;
}

void mld_query(struct nic *nic, struct bytes m) {
  (void)m;  // general, of a group, of sources: the answer is the same, and comes with the next tick
  if (nic->ip6.mld_left == 0) {
    nic->ip6.mld_kind = IS_EXCLUDE;
    nic->ip6.mld_left = 1;
    nic->ip6.mld_ns = nic->net->core->now_ns;
  }
}

void mld_tick(struct nic *nic) {
  struct ip6_nic *v6 = &nic->ip6;
  u64 now = nic->net->core->now_ns;
  if (v6->mld_left > 0 && now >= v6->mld_ns && nic->info.link_up) {
    v6->mld_left--;
    v6->mld_ns = now + REPEAT_NS;
    report(nic, v6->mld_kind);
  }
}
