// SPDX-License-Identifier: Apache-2.0
// Half-open connections, and answering SYNs without memory while senders are forged (RFC 4987).
//
// I1  A flow is a half from our SYN-ACK until its first data (or FIN): a listener hears of a
//     connection when its client has said something, which every client of ours does first. A
//     silent connection costs sizeof(struct tcp_half).
// I2  Halves lie in one list by age. After 1 s without an acknowledgement the SYN-ACK is repeated
//     once; after 3 s (10 s while most places are free) the flow is forgotten.
// I3  Only when all places are taken, which forged SYNs do and a crowd does not (admit.h parks
//     it), SYNs are answered by cookies. A valid cookie without a free slot is dropped silently;
//     one whose flow has had its connection is worth nothing (`spent`).
#pragma once
#include "net/admit.h"
#include "net/tcp_conn.h"

struct tcp_half {
  struct link age;
  struct admit_syn syn;
  u64 born_ns;
  u32 hash_next;     // index + 1
  u32 isn;           // ours
  u32 challenge_ms;  // of the last challenge acknowledgement, 0 = never
  u16 entered;
  u32 rtt_us;     // from our SYN-ACK to its acknowledgement; 0 = not known
  bool acked;     // our SYN-ACK was
  bool repeated;  // and it was sent again
};
static_assert(sizeof(struct tcp_half) <= 256, "a light slot (DESIGN 5)");

// --- tcp_half.c
enum err tcp_half_init(struct net *net, struct carve *carve, const struct net_limits *limits);
void tcp_half_timer(struct core *core, u32 timer, void *owner);
// A SYN to a listener: answered now, later or never. isn_floor: our numbers begin beyond it; 0 =
// anywhere.
void tcp_half_syn(struct net *net, const struct nic *nic, const struct tcp_flow *flow,
                  const struct segment *s, u32 isn_floor);
enum half_result {
  HALF_UNKNOWN,  // no half, nor a cookie of ours
  HALF_TAKEN,    // nothing more to do
  HALF_OPEN,     // a connection in SYN_RCVD now; the segment is for it
};
// A segment of a flow that no connection has.
enum half_result tcp_half_input(struct net *net, const struct nic *nic, const struct tcp_flow *flow,
                                const struct segment *s, struct tcp_conn **out);
// Serves SYNs that wait; each turn. True when more can be done at once.
struct tcp_half *tcp_half_find(struct net *net, const struct tcp_flow *flow);  // NULL: none
bool tcp_half_stage(struct net *net);
void tcp_admission_end(struct tcp_conn *c);  // it goes: gives back what it holds

// --- tcp_cookie.c
// 0 when no cookie may be sent now. *ts: what our timestamp must say.
u32 tcp_cookie_make(const struct net *net, const struct admit_syn *syn, u32 *ts);
// Whether `s` acknowledges a cookie of ours made in the last two minutes: the SYN it stands for.
bool tcp_cookie_check(const struct net *net, const struct nic *nic, const struct tcp_flow *flow,
                      const struct segment *s, struct admit_syn *out);
