// SPDX-License-Identifier: Apache-2.0
// SYN cookies (RFC 4987 3.6): what a SYN said, in the numbers of our answer. 24 bits of the initial
// sequence number are a keyed hash with an index of the segment size, 8 the minute; added to the
// client's own number, so that they grow as RFC 6528 wants. Window scale and SACK go into the low
// six bits of our timestamp when the client has timestamps; without, they are off.
#include "net/tcp_half.h"

#define MINUTE_NS (60 * TCP_S)
#define AGE_MAX 2u  // minutes
#define TS_BITS 6u
#define NO_SCALE 15u

static const u16 sizes[] = {536, 1220, 1440, 1460};

static u64 keyed(const struct net *net, const struct tcp_flow *flow, u32 minute, u32 which) {
  struct {
    struct tcp_flow flow;
    u32 minute, which;
    u32 zero;
  } in;
  memset(&in, 0, sizeof in);  // padding included
  in.flow.local = flow->local;
  in.flow.remote = flow->remote;
  in.flow.local_port = flow->local_port;
  in.flow.remote_port = flow->remote_port;
  in.minute = minute;
  in.which = which;
  return siphash(&net->core->hash_key, bytes_of(&in, sizeof in));
}

static u32 minute_of(const struct net *net) {
  return (u32)(net->core->now_ns / MINUTE_NS);
}

u32 tcp_cookie_make(const struct net *net, const struct admit_syn *syn, u32 *ts) {
  struct tcp_flow flow = {syn->local, syn->remote, syn->local_port, syn->remote_port};
  u32 size = 0;
  while (size + 1 < ARRAY_COUNT(sizes) && sizes[size + 1] <= syn->mss) {
    size++;
  }
  u32 clock = tcp_clock(net);
  u32 said = (syn->has_shift ? syn->shift : NO_SCALE) | (syn->sack ? 16u : 0);
  *ts = (clock & ~((1u << TS_BITS) - 1)) | said;
  if (seq_lt(clock, *ts)) {  // never ahead of the clock
    *ts -= 1u << TS_BITS;
  }
  u32 minute = minute_of(net);
  u32 low = ((u32)keyed(net, &flow, minute, 1) + size) & 0xffffff;
  return (u32)keyed(net, &flow, 0, 0) + syn->seq + (minute << 24) + low;
}

bool tcp_cookie_check(const struct net *net, const struct nic *nic, const struct tcp_flow *flow,
                      const struct segment *s, struct admit_syn *out) {
  u32 rest = s->ack - 1 - (u32)keyed(net, flow, 0, 0) - (s->seq - 1);
  u32 now = minute_of(net);
  u32 age = (now - (rest >> 24)) & 0xff;
  if (age > AGE_MAX || age > now) {
    return false;
  }
  u32 size = (rest - (u32)keyed(net, flow, now - age, 1)) & 0xffffff;
  if (size >= ARRAY_COUNT(sizes)) {
    return false;
  }
  u32 said = s->opt.has_ts ? s->opt.ts_echo & ((1u << TS_BITS) - 1) : NO_SCALE;
  *out = (struct admit_syn){.local = flow->local,
                            .remote = flow->remote,
                            .local_port = flow->local_port,
                            .remote_port = flow->remote_port,
                            .seq = s->seq - 1,
                            .ts_value = s->opt.ts_value,
                            .mss = sizes[size],
                            .nic = (u8)nic->index,
                            .has_ts = s->opt.has_ts,
                            .has_shift = (said & 15) <= 14,
                            .shift = (said & 15u) <= 14 ? said & 15u : 0u,
                            .sack = (said & 16) != 0};
  return true;
}
