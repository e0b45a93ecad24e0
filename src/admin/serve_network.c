// SPDX-License-Identifier: Apache-2.0
// Says on the console which addresses the machine has, whenever that changes.
#include "admin/log.h"
#include "admin/serve.h"

#define WATCH_NS 100000000ull

// What has changed of a NIC's IPv6 addresses since `old`.
static void say_addresses6(u32 nic, const struct net_if_state *old, const struct net_if_state *s) {
  for (u32 i = 0; i < s->ip6_count; i++) {
    bool same = i < old->ip6_count && ip_equal(old->ip6[i].address, s->ip6[i].address) &&
                old->ip6[i].valid == s->ip6[i].valid &&
                old->ip6[i].duplicate == s->ip6[i].duplicate;
    if (same || (!s->ip6[i].valid && !s->ip6[i].duplicate)) {
      continue;
    }
    char text[IP_TEXT_MAX + 1] = {0};
    struct writer w = writer_init(span_of(text, IP_TEXT_MAX));
    ip_write(&w, s->ip6[i].address);
    say("network %u: %s%s", nic, text,
        s->ip6[i].duplicate ? " is another machine's: not used" : "");
  }
}

bool serve_watch(struct core *core, void *unused) {
  static struct net_if_state known[PLAT_NIC_MAX];
  static u64 next_ns;
  (void)unused;
  if (core->now_ns < next_ns) {
    return false;
  }
  next_ns = core->now_ns + WATCH_NS;
  for (u32 i = 0; i < plat_nic_count(); i++) {
    struct net_if_state s = {0};
    net_if_state(core->net, i, &s);
    if (s.address != known[i].address || s.up != known[i].up) {
      say("network %u: %u.%u.%u.%u/%u, gateway %u.%u.%u.%u, link %s", i, s.address >> 24,
          s.address >> 16 & 255, s.address >> 8 & 255, s.address & 255, s.prefix_len,
          s.gateway >> 24, s.gateway >> 16 & 255, s.gateway >> 8 & 255, s.gateway & 255,
          s.up ? "up" : "down");
    }
    say_addresses6(i, &known[i], &s);
    known[i] = s;
  }
  return false;
}
