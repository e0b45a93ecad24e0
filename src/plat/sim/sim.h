// SPDX-License-Identifier: Apache-2.0
// The third platform: virtual time, links and disks that fail, everything drawn from one seed. One
// machine runs the whole program (urmqtt_main), the others are hosts of simulated clients that the
// harness (tests/sim) drives; a switch joins them.
//
// Processes. A seed is one process that keeps the world (`sim_shared`: hosts, links, disks, the
// harness) in memory shared with its children. Each boot of the broker's machine is a child forked
// from it, so that every boot starts with the statics of a fresh program and a power cut is the
// child's end: nothing of it survives but the world.
//
// S1  Virtual time moves only here: to the next event, and a little with each look at the clock
//     (work units: a budget "in time" is a number of such looks).
// S2  One turn of one core is one step. Cores that are ready at the same time run in an order that
//     the seed decides.
// S3  Every draw comes from a stream of its own purpose: one draw more in one place shifts nothing
//     elsewhere.
// S4  Nothing depends on addresses or on the machine: regions lie at fixed places, the program is
//     linked to run at one. `sim_hash` of two runs of a seed is the same.
#pragma once
#include "base/bytes.h"

#define SIM_HOSTS_MAX 4u
#define SIM_CORES_MAX 8u     // of the broker's machine
#define SIM_HOST_CORE 32u    // core->id of host h is SIM_HOST_CORE + h
#define SIM_FRAME_MAX 1514u  // bytes of a frame on the wire
#define SIM_PPM 1000000u
#define SIM_US 1000ull
#define SIM_MS 1000000ull
#define SIM_S 1000000000ull

// --- Random streams

struct sim_rng {
  u64 state;
};
enum sim_stream {
  SIM_STREAM_LINKS,
  SIM_STREAM_CORES,
  SIM_STREAM_BROKER,
  SIM_STREAM_DEVICES,
  SIM_STREAM_SWARM,  // what this seed does at all
  SIM_STREAM_CLIENTS,
  SIM_STREAM_HOSTS,
  SIM_STREAM_DISKS,
};
u64 sim_draw(struct sim_rng *r);
u32 sim_below(struct sim_rng *r, u32 below);  // 0..below-1; 0 when below is 0
bool sim_chance(struct sim_rng *r, u32 ppm);
// A stream of this seed; `nth` tells several of one purpose apart.
struct sim_rng sim_stream(enum sim_stream which, u32 nth);

// --- Faults

enum sim_fault {  // each is counted when it happens
  SIM_LOSS,
  SIM_REORDER,
  SIM_DUPLICATE,
  SIM_CORRUPT,
  SIM_TAIL_DROP,  // the link's queue is full
  SIM_OVERFLOW,   // the receiver has no buffer
  SIM_LINK_DOWN,
  SIM_STALL,  // a core stands still
  SIM_CRASH,
  SIM_FAULT_COUNT
};
const char *sim_fault_name(enum sim_fault f);

struct sim_link {                         // one direction of a host's cable
  u32 loss, duplicate, corrupt, reorder;  // of 1 000 000 frames
  u64 delay_ns;
  u64 reorder_ns;  // at most so much later
  u64 bits_per_s;
  u64 queue_ns;  // what waits longer is dropped
  bool down;
  u64 free_ns;  // set by the link: when it can take the next frame
};
enum sim_direction { SIM_TO_BROKER, SIM_TO_HOST };

// --- The world

struct sim_options {
  u64 seed;
  u32 hosts;     // 1..SIM_HOSTS_MAX
  u32 cores;     // of the broker
  u32 stall;     // of 1 000 000 turns
  u64 stall_ns;  // at most
  bool tx_csum, tso;
  bool disk;         // an empty one at first, with a volatile cache (store/block_memory.h)
  const char *pcap;  // file, or NULL
  bool console;      // shows the broker's console
  bool hold;         // on a failure waits for a debugger instead of ending
};
struct sim_harness {
  // Before the first boot, in the seed's process: hosts are set up. Memory by sim_shared.
  void (*start)(void);
  // In each boot's process, before the broker runs.
  void (*boot)(u32 nth);
  // Once in a while of virtual time (the time it gave last); returns when next.
  u64 (*act)(void);
  // A turn of host h: true when it did something; and until when it may sleep.
  bool (*host_turn)(u32 host);
  u64 (*host_deadline)(u32 host);
  // The broker's configuration, a ustar archive.
  struct bytes (*bundle)(void);
  // The broker's machine ended (urmqtt_main returned, or plat_end).
  void (*ended)(void);
  // A frame as the broker's machine sends it, or as it arrives there undamaged: for checks. NULL.
  void (*frame)(bool from_broker, struct bytes frame);
};

// What a seed's run gave.
struct sim_result {
  bool good;
  char why[240];  // of a failure
  u64 hash;
  u64 virtual_ns;
  u64 events;  // turns, frames' arrivals and departures, faults and the harness' own
  u64 turns, frames;
  u64 fault[SIM_FAULT_COUNT];
  u64 own[16];  // the harness' counters
  u32 boots;
};

// Runs one seed to its end, in processes of its own; once in a process. Prints the console's end
// when it fails.
void sim_run(const struct sim_options *options, const struct sim_harness *harness,
             struct sim_result *out);

// --- For the harness, while it runs

// Zeroed memory that every boot sees, at the same place. In `start` only.
struct span sim_shared(usize len);
u64 sim_now_ns(void);
u64 sim_seed(void);
// What follows is host h's: random numbers, NIC. In `start`, `act` and `boot`.
void sim_as_host(u32 host);
// Host h may have something to do: its turn comes now.
void sim_wake_host(u32 host);
struct sim_link *sim_link_of(u32 host, enum sim_direction d);
void sim_set_stall(u32 ppm, u64 most_ns);
// Longest stall of a core so far since the last call.
u64 sim_longest_stall_ns(void);
void sim_count(u32 own, u64 n);  // sim_result.own
void sim_event(u64 what);        // counts, and goes into the hash
// The power of the broker's machine is cut now; it boots again after off_ns.
NORETURN void sim_crash(u64 off_ns);
u32 sim_boots(void);
// The broker's machine is asked to stop, as by its power button.
void sim_stop_broker(void);
bool sim_broker_ended(void);
// What must never be was seen: the run ends as failed.
NORETURN void sim_fail(const char *format, ...) PRINTF_LIKE(1, 2);
NORETURN void sim_pass(void);
// Is this address in the memory of the broker's machine?
bool sim_is_broker_memory(const void *p);
// Receive buffers that the broker's machine has not given back.
u32 sim_rx_held(void);
