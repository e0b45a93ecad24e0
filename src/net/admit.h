// SPDX-License-Identifier: Apache-2.0
// Who may come in now, decided at the SYN (DESIGN 5): slots whose number follows our own queueing
// delay, and a place to wait for SYNs that found none. One instance a core; knows nothing of TCP's
// states: tcp_half.c asks.
//
// I1  A flow is on its way in from its SYN on. It is expected until what needs work of us (a whole
//     ClientHello) is there, then it holds a slot until its CONNECT is judged, or it ends.
// I2  A SYN is answered while slots held + what the flows expected now will come to < slots. That
//     is their number x the share of all flows' time of being expected that was spent by flows
//     which came to something (Little's law: of the flows seen at a moment, as many). So silent
//     connections and forged SYNs, which are expected for long, cost their own small memory and
//     take no slots from others, however few these are; after a second nothing is expected.
//     The number of slots is steered by how long work that could have been done at once waited for
//     us, never by a time in which a peer had to answer: a far peer is expected longer, which uses
//     the slots up without delay, and their number grows.
// I3  A refused SYN gets no answer and leaves at most one entry of the ring: it is answered late,
//     when a slot falls free within 3 s of its last repetition, or never. Its sender's own clock
//     is the queue (systems: silence costs a waiting client one SYN a second, a RST costs 1/RTT).
//     While all are served within half a second the oldest goes first. When not, the one that
//     began last: whoever has waited long is about to give up, and a handshake with who has given
//     up is work for nothing.
// I4  Waiting flows are served in turn by prefix (/24 of IPv4, /56 of IPv6, hashed by a secret
//     key), so that one network cannot wait in front of all others; when the ring is full the
//     prefix with most entries loses its oldest.
// I5  Every operation is O(1) but for one scan of PREFIXES counters when the ring is full.
#pragma once
#include "base/ip.h"
#include "loop/carve.h"

#define ADMIT_PREFIXES 256u
#define ADMIT_PATIENCE_MS 3000u  // since a parked SYN was last heard

struct admit_syn {  // what answering a SYN needs
  struct ip_addr local, remote;
  u16 local_port, remote_port;
  u32 seq;
  u32 ts_value;
  u16 mss;  // 0 = not said
  u8 nic;
  u8 shift : 4;  // window scale, when has_shift
  bool has_shift : 1, has_ts : 1, sack : 1;
  u16 bucket;  // admit.c's own
};

struct admit_entry {
  struct admit_syn syn;
  u32 older, newer;  // of its prefix: index, ADMIT_NONE = none; older also links free ones
  u32 hash_next;     // index
  u32 first_ms, heard_ms;
};
static_assert(sizeof(struct admit_entry) <= 80, "a SYN that waits");
#define ADMIT_NONE U32_MAX

struct admit_queue {  // of one prefix hash, by when they were heard first
  u32 newest, oldest, count;
  u32 turn_next;  // the next queue that has entries
  bool in_turn;
};

struct admit_stats {
  u64 entered;   // SYNs answered
  u64 begun;     // of these: came to anything
  u64 parked;    // SYNs that found no slot and wait, repetitions not counted
  u64 resumed;   // of these: answered
  u64 expired;   // of these: not heard for 3 s
  u64 given_up;  // of these: made room for another
};

// Flows expected, by when their SYN was answered, so that no list of them is needed.
#define ADMIT_EPOCHS 8u
#define ADMIT_EPOCH_MS 128u

struct admit {
  u32 slots, used;
  u32 floor, ceiling;
  u32 expected;  // of all epochs
  u32 epoch[ADMIT_EPOCHS];
  u64 now_ms;
  u64 all_ms, begun_ms;  // time of being expected: of all flows, of those that began; both fade
  u64 window_end_ns;
  u64 delay_sum_ns;  // of this window
  u32 delays;
  u64 delay_ns;   // mean of the last window that had any
  bool short_of;  // somebody found no slot in this window
  struct admit_entry *entry;
  u32 count, waiting;  // entries; in use
  u32 free_head, fresh;
  u32 *bucket;  // first entry of each; at most 65536
  u32 bucket_mask;
  struct admit_queue queue[ADMIT_PREFIXES];
  u32 turn_head, turn_tail;  // queues with entries, in turn
  struct admit_stats stats;
};

// Entries of the ring: at least 16; slots between floor and ceiling, floor at first (after a start
// the rate ramps up). ERR_NO_MEMORY.
enum err admit_init(struct admit *a, struct carve *carve, u32 entries, u32 floor, u32 ceiling);
// Moves the epochs and steers the number of slots; cheap, to be called each turn.
void admit_tick(struct admit *a, u64 now_ns);

bool admit_free(const struct admit *a);  // I2: one more may be answered
// A SYN is answered; its flow keeps the result, a time, for at most a minute. Then either
// admit_begin and admit_give, or admit_end.
u16 admit_enter(struct admit *a);
void admit_begin(struct admit *a, u16 entered);
void admit_give(struct admit *a);
void admit_end(struct admit *a, u16 entered);
// How long a piece of handshake work waited for its turn.
void admit_delay(struct admit *a, u64 delay_ns);

// A SYN waits. flow: keyed hash of its addresses and ports; prefix: keyed hash of its prefix.
void admit_park(struct admit *a, const struct admit_syn *syn, u64 flow, u32 prefix, u32 now_ms);
// The next SYN that has waited and was heard within 3 s; false: none was found, though entries that
// have expired may be left for the next call.
bool admit_next(struct admit *a, u32 now_ms, struct admit_syn *out);
