// SPDX-License-Identifier: Apache-2.0
// The world's inside, shared by plat/sim/*.c only.
#pragma once
#include "loop/fiber.h"
#include "plat/plat.h"
#include "plat/sim/sim.h"
#include "store/block_memory.h"

#define RX_BUFFERS 1024u  // of each machine
#define TX_HELD_MAX 512u
#define PACKETS_MAX 16384u  // on all wires at once
#define PACKET_NONE U32_MAX
#define MACHINES_MAX (1 + SIM_HOSTS_MAX)  // 0: the broker's
#define CONSOLE_KEPT 16384u
#define BROKER_MEMORY (64ull << 20)
#define BROKER_MEMORY_DISK (160ull << 20)
#define DISK_LEN (2048ull << 20)
#define DISK_BLOCK 4096u
#define DISK_NS (200 * SIM_US)    // an operation, about
#define HOST_HEAP (128ull << 20)  // what sim_shared gives
#define WORK_NS 100ull            // a look at the clock

struct packet {  // on a wire
  u64 at_ns;
  u64 order;
  u32 to;  // machine
  u32 len;
  bool damaged;
  u8 data[SIM_FRAME_MAX];
};

struct machine {
  u8 mac[6];
  bool up;
  struct rxbuf rxbuf[RX_BUFFERS];
  u8 *blocks;  // RX_BUFFERS of PLAT_RXBUF_SIZE
  u32 free[RX_BUFFERS];
  u32 free_count;
  // Arrived, not taken yet: a ring of buffer ids, for each core.
  u32 ring[SIM_CORES_MAX][RX_BUFFERS];
  u32 ring_head[SIM_CORES_MAX], ring_tail[SIM_CORES_MAX];
  struct tx_frame held[TX_HELD_MAX];  // in the device
  u64 held_until[TX_HELD_MAX];
  u32 held_core[TX_HELD_MAX];
  u32 held_count;
  void *done[SIM_CORES_MAX][TX_HELD_MAX];  // tokens to give back
  u32 done_count[SIM_CORES_MAX];
};

struct sim_core {
  bool exists;
  bool ended;
  bool slept;  // its turn starts from plat_idle
  u64 run_ns;  // its next turn, not before
  u64 deadline_ns;
  u32 late_idles;      // sleeps in a row with a deadline that is over
  struct fiber fiber;  // the broker's cores
};

struct world {
  usize len;  // of the whole mapping
  struct sim_options options;
  u64 now_ns;
  u64 boot_ns;  // of the broker's machine, last
  u64 off_until_ns;
  u64 act_ns;
  struct sim_rng links, cores, devices, broker, hosts[SIM_HOSTS_MAX];
  struct sim_link link[SIM_HOSTS_MAX][2];
  struct machine machine[MACHINES_MAX];
  struct sim_core core[SIM_CORES_MAX + SIM_HOSTS_MAX];  // the broker's, then the hosts'
  u32 running;                                          // index into core
  struct packet packet[PACKETS_MAX];
  u32 packet_free[PACKETS_MAX];
  u32 packet_free_count;
  u32 heap[PACKETS_MAX];  // packets by (at_ns, order)
  u32 heap_count;
  u64 order;
  struct block_memory disk;
  bool stop_asked, broker_ended, over;
  u64 longest_stall_ns;
  char console[CONSOLE_KEPT];
  u64 console_len;
  u8 *heap_at;  // of sim_shared
  usize heap_left;
  struct sim_result result;
};
extern struct world *world;
extern const struct sim_harness *harness;

static inline u32 host_of_core(u32 core) {
  return core - SIM_CORES_MAX;
}
void hash_add(u64 v);
void hash_bytes(struct bytes b);

// --- frames (frames.c)
void machine_init(u32 m);    // also after a cut: nothing is in it
void frames_deliver(void);   // what has arrived by now
void frames_transmit(void);  // what devices send by now
u64 frames_next_ns(void);
bool frames_wait(u32 machine, u32 core);  // for this core to take
// --- capture (pcap.c)
void capture_open(const char *path);  // NULL: none
void capture(struct bytes frame);
// --- cores (cores.c)
void cores_boot(void);
void cores_frame_for(u32 machine, u32 core);
void cores_turn_begins(void);  // the running core is about to take its frames
void cores_run(void);          // until the world is over
