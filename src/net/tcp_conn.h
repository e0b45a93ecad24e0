// SPDX-License-Identifier: Apache-2.0
// A TCP connection's control block and what tcp*.c share. RFC 9293 names in comments.
//
// I1  snd_una <= snd_nxt <= snd_end (sequence arithmetic); the queue holds exactly the bytes
//     [snd_una, snd_end), FIN not counted.
// I2  unsent/unsent_off point at the byte snd_nxt, or unsent is NULL when nothing is queued.
// I3  rx holds exactly the in-order bytes that the owner has not consumed: rx_len of them, ending
//     at rcv_nxt. ooo is sorted by sequence, without overlap, all beyond rcv_nxt.
// I4  The wheel timer is armed at or before the earliest of the deadlines.
#pragma once
#include "net/stack.h"

enum tcp_state {
  TCP_CLOSED,
  TCP_SYN_SENT,
  TCP_SYN_RCVD,
  TCP_ESTABLISHED,
  TCP_FIN_WAIT_1,
  TCP_FIN_WAIT_2,
  TCP_CLOSE_WAIT,
  TCP_CLOSING,
  TCP_LAST_ACK,
};

enum tcp_flag {
  TCPF_FIN = 1,
  TCPF_SYN = 2,
  TCPF_RST = 4,
  TCPF_PSH = 8,
  TCPF_ACK = 16,
};

// RFC 5961 7, counted per connection: a shared count is a side channel
#define TCP_CHALLENGE_MS 500u
enum tcp_admission { TCP_ADMITTED, TCP_EXPECTED, TCP_HELD };

#define TCP_RX_BYTES 65536u  // receive buffer: the window we offer at first
#define TCP_RX_GROW_MAX 4u   // doublings of it, for an owner that keeps up (tcp_data.c, I4)
#define TCP_RX_BUFS 96u      // and in buffers, so that tiny segments do not hold thousands
#define TCP_OOO_BUFS 64u
#define TCP_COPY_MAX 1024u      // smaller pieces are copied behind others, larger ones kept
#define TCP_HELD_OOO_MAX 4096u  // receive buffers all connections hold, out-of-order ones refused
#define TCP_HELD_MAX 12288u     // and any
#define TCP_WINDOW_SHIFT 8u
#define TCP_MS 1000000ull
#define TCP_S 1000000000ull

struct tcp_flight;

struct tcp_conn {
  const struct tcp_listener_ops *ops;  // NULL: the owner has left
  void *user;
  struct ip_addr remote, local;
  u16 remote_port, local_port;
  u8 state;
  u8 nic;
  u8 snd_shift : 4;  // the peer's window scale, 0 to 14
  u8 rcv_shift : 4;  // ours
  u8 reo_mult;
  // receiving
  u32 rcv_nxt;
  u32 rcv_adv;  // right edge we have promised
  u32 rx_len;
  u16 rx_bufs, ooo_bufs;
  struct rxbuf *rx, *rx_last;
  struct rxbuf *ooo;  // frame_len of each holds its first sequence number
  u32 last_ack_sent;
  u32 sack_first;  // a byte of the block that came last: told first (RFC 2018 4)
  u32 ooo_fin;     // sequence of a FIN that came too early, when has_ooo_fin
  // sending
  u32 snd_una, snd_nxt, snd_end, snd_max;
  u32 snd_wnd, snd_wl1, snd_wnd_max;  // SND.WL2 <= SND.UNA always: update_window
  u32 w_max;                          // RFC 9438: the window before the last loss
  u32 armed;                          // when the wheel will fire (tcp_tick); 0 = not armed
  struct link queue;                  // txbufs
  struct txbuf *unsent;
  u16 unsent_off;  // within unsent, from its off
  u16 mss;         // payload of a segment, options taken off
  u32 cwnd, ssthresh, recover;
  struct tcp_flight *flight;  // what is on its way (tcp_flight.h); NULL: nothing, or without SACK
  u32 srtt_us, rttvar_us;     // RFC 6298
  union {
    struct {  // with timestamps (ts_ok)
      u32 ts_recent;
      u32 ts_recent_s;  // when it was taken
    };
    struct {  // without: the segment being timed
      u32 rtt_seq;
      u32 rtt_sent_us;
    };
  };
  u16 challenge_ms;  // of the last challenge acknowledgement, modulo 2^16; 0 = never
  u16 entered;       // admit.h, when TCP_EXPECTED
  u16 rto_ms;
  u16 stuck_s;    // second of the clock (tcp_second) since when data has waited; 0 = none does
  u16 dsack_len;  // so many bytes from sack_first came twice, when has_dsack (RFC 2883)
  u8 dup_acks;
  u8 retries;
  bool ts_ok : 1, sack_ok : 1;
  bool fin_queued : 1, fin_sent : 1;  // ours
  bool fin_received : 1;              // the peer's, in order
  bool has_ooo_fin : 1;
  bool ack_now : 1, ack_later : 1;
  bool room_wanted : 1;  // the owner saw less than it wants: tell it when there is more
  bool timing : 1;
  bool fast_dup : 1;  // in fast recovery, without a flight
  bool force : 1;     // a timeout: send what the window takes, however little
  bool has_dsack : 1;
  bool keep : 1;          // keep-alives wanted
  bool reordering : 1;    // RFC 8985: this path has reordered
  u8 rcv_grow : 3;        // doublings of the receive window
  u8 reo_persist : 5;     // RFC 8985 6.2.4
  u8 admission : 2;       // enum tcp_admission
  u32 grow_seq, grow_us;  // rcv_nxt and time when this round of measuring began
  u32 timer;
  u32 hash_next;    // index + 1
  u64 rtx_ns;       // retransmission, zero-window probe or SYN-ACK; U64_MAX = off
  u64 ack_ns;       // delayed acknowledgement; U64_MAX = off
  u64 end_ns;       // handshake, FIN_WAIT_2 and linger deadline
  struct net *net;  // the instance (one a core) that owns it
  struct link touch;
};
static_assert(sizeof(struct tcp_conn) <= 384, "budget of an idle connection (DESIGN 3)");

struct time_wait {
  u32 hash_next;     // index + 1
  struct link link;  // by age
  struct ip_addr remote, local;
  u32 snd_nxt, rcv_nxt, ts_recent;
  u16 remote_port, local_port;
  u8 nic;
  bool ts_ok;
  u64 ack_ns;  // delayed acknowledgement; U64_MAX = off
  u64 end_ns;
};

// The wheel's tick of a deadline, modulo 2^32 and never 0: for deadlines less than 24 days away.
static inline u32 tcp_tick(u64 ns) {
  u32 tick = (u32)wheel_tick_ceil(ns);
  return tick != 0 ? tick : 1;
}

// Who speaks with whom.
struct tcp_flow {
  struct ip_addr local, remote;
  u16 local_port, remote_port;
};
// Keyed, of all four.
u64 tcp_flow_hash(const struct net *net, const struct tcp_flow *flow);
u32 tcp_isn(const struct net *net, const struct tcp_flow *flow);
static inline bool tcp_flow_equal(const struct tcp_flow *a, const struct tcp_flow *b) {
  return a->remote_port == b->remote_port && ip_equal(a->remote, b->remote) &&
         a->local_port == b->local_port && ip_equal(a->local, b->local);
}
static inline struct tcp_flow tcp_flow_of(const struct tcp_conn *c) {
  return (struct tcp_flow){c->local, c->remote, c->local_port, c->remote_port};
}

// Sequence arithmetic modulo 2^32.
static inline bool seq_lt(u32 a, u32 b) {
  return (i32)(a - b) < 0;
}
static inline bool seq_le(u32 a, u32 b) {
  return (i32)(a - b) <= 0;
}

// --- options (tcp_options.c)
struct sack_block {
  u32 begin, end;
};
#define SACK_MAX 4u

struct tcp_options {
  u16 mss;   // 0 = absent
  u8 shift;  // window scale, 0..14
  bool has_shift, has_ts, sack_permitted;
  u8 sack_count;
  u32 ts_value, ts_echo;
  struct sack_block sack[SACK_MAX];
};
// Reads the option bytes of a header; false when they are malformed (a length below 2 or beyond the
// end): what was read so far is then not used.
bool tcp_options_parse(const u8 *options, u32 len, struct tcp_options *out);

// --- header of a received segment
struct segment {
  u32 seq, ack, len;  // len: payload bytes, SYN and FIN not counted
  u32 window;         // not scaled
  u16 source_port, target_port;
  u8 flags;
  u8 header_len;
  struct tcp_options opt;
};
// The header at `h` (have >= 20 bytes there). False: malformed.
bool tcp_header_parse(const u8 *h, u32 have, u32 segment_len, struct segment *out);

// --- life (tcp.c)
struct tcp_conn *tcp_lookup(struct net *net, const struct tcp_flow *flow);
struct tcp_conn *tcp_new(struct net *net, const struct tcp_flow *flow);
void tcp_free(struct net *net, struct tcp_conn *c);  // unhashes; freed at the next flush
void tcp_die(struct net *net, struct tcp_conn *c, enum tcp_end why);  // tells the owner, then frees
void tcp_to_time_wait(struct net *net, struct tcp_conn *c);
void tcp_touch(struct net *net, struct tcp_conn *c);
void tcp_rearm(struct net *net, struct tcp_conn *c);
u16 tcp_second(const struct net *net);  // of the core's clock, modulo 2^16, never 0
u32 tcp_clock(const struct net *net);   // timestamp option clock, about 1 ms
struct time_wait *tcp_wait_lookup(struct net *net, const struct tcp_flow *flow);
void tcp_wait_free(struct net *net, struct time_wait *w);

// --- opening (tcp_open.c)
// The largest segment that fits packets of `mtu` bytes to `target`.
static inline u32 tcp_mss_of(u32 mtu, struct ip_addr target) {
  return mtu - ip_header_len(target) - TCP_LEN;
}
// What the peer's SYN says of it: options, window, sequence.
void tcp_take_syn_options(const struct net *net, struct tcp_conn *c, const struct segment *s);
void tcp_in_syn_sent(struct net *net, struct tcp_conn *c, const struct segment *s);
// --- tcp_in.c
const struct listener *tcp_listener_at(const struct net *net, u16 port);  // NULL: none
void tcp_rtt_sample(struct tcp_conn *c, u32 us);
void tcp_take_rtt(const struct net *net, struct tcp_conn *c, const struct segment *s);
void tcp_reset_for(struct net *net, const struct tcp_flow *flow, u8 nic, const struct segment *s);

// --- signs of life (tcp_alive.c)
void tcp_keep_heard(const struct net *net, struct tcp_conn *c);  // an acceptable segment came
// end_ns is reached: false when that is no keep-alive's, or the peer did not answer the last one.
bool tcp_keep_probe(struct net *net, struct tcp_conn *c);
void tcp_black_hole(struct tcp_conn *c);

// --- data (tcp_data.c)
// `chain` holds s->len bytes of payload (NULL when none). CONSUMES chain. The owner may be called.
void tcp_take_data(struct net *net, struct tcp_conn *c, const struct segment *s,
                   struct rxbuf *chain CONSUMES);

// --- output (tcp_out.c)
void tcp_output(struct net *net, struct tcp_conn *c);  // data, FIN and acknowledgement that are due
void tcp_send_syn(struct net *net, struct tcp_conn *c);  // with ACK unless in SYN_SENT
// The same with this timestamp.
void tcp_send_syn_at(struct net *net, struct tcp_conn *c, u32 ts);
void tcp_retransmit_first(struct net *net, struct tcp_conn *c);
// Bytes (a FIN counts) of [begin, end) sent again; 0: none could be.
u32 tcp_send_again(struct net *net, struct tcp_conn *c, u32 begin, u32 end);
void tcp_rewind(struct tcp_conn *c);  // snd_nxt = snd_una: everything is to be sent again
void tcp_probe(struct net *net, struct tcp_conn *c);
u32 tcp_ack_seq(const struct tcp_conn *c);  // for segments without data
u32 tcp_window(const struct tcp_conn *c);
struct bare {  // a segment outside any connection
  struct tcp_flow flow;
  u32 seq, ack;
  u8 flags, nic;
  bool has_ts;
  u32 ts_value, ts_echo;
};
void tcp_send_bare(struct net *net, const struct bare *b);
void tcp_acked(struct net *net, struct tcp_conn *c,
               u32 ack);  // drops acknowledged bytes of the queue
