// SPDX-License-Identifier: Apache-2.0
// Frames between cores, for every platform: the core that polls a queue keeps the frames of its own
// connections (flow.h) and hands the others over; buffers come back to the core whose queue they
// are of.
//
// Both ways are stacks that are taken whole: whoever brings frames links them and puts them on with
// one compare-and-swap, their owner takes all with one exchange. So nothing is ever full, nobody
// waits, and there is no memory beside the buffers'. A core that does not keep up is bounded by
// what it may hold of a queue's buffers (I3).
//
// I1  A buffer is with its home core, in one core's inbox, with one core, or on its home's stack.
// I2  Frames that one core hands to another arrive in the order in which they came.
// I3  A core holds at most `lend_max` buffers of another core's queues; what comes beyond is
//     dropped and counted.
// I4  A core marks itself asleep before it looks at its inbox for the last time (steer_sleep), and
//     whoever brings something looks at the mark after bringing it (steer_send): one of the two
//     sees the other.
#pragma once
#include "plat/flow.h"
#include "plat/plat.h"

// Once, before any other call; with 1 core everything is the caller's own and nothing is shared.
// lend_max: buffers of its own that a core lends to each other core, at most.
void steer_init(u32 cores, u32 lend_max);
const struct flow_table *steer_flows(void);

// --- With frames of the core's own queues

// True: the frame is this core's. False: it was put aside for another core, or (that core holds too
// much) is in *dropped, to be released.
bool steer_is_mine(u32 core, struct rxbuf *frame, struct rxbuf **dropped);
// Hands over what was put aside and released since the last call, and wakes who sleeps.
void steer_send(u32 core);
// Up to max frames that other cores handed to this one.
u32 steer_take(u32 core, u32 nic, struct rxbuf *frames[], u32 max);
// Of a released chain the buffers that are the core's own; the rest go home with steer_send.
struct rxbuf *steer_release(u32 core, struct rxbuf *chain);
// Buffers of the core's own queues that came back; NULL: none.
struct rxbuf *steer_back(u32 core);

// --- Around a halt

// Wakes the core if it sleeps: for what was brought to it by another way, before this call.
void steer_wake(u32 core);

// False: something is there, the core must not halt. starved: its queues wait for buffers to come
// back. steer_awake follows in both cases.
bool steer_sleep(u32 core, bool starved);
void steer_awake(u32 core);

u64 steer_dropped(u32 core);  // frames for cores that held too much
