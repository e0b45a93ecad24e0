// SPDX-License-Identifier: Apache-2.0
// The platform contract: everything urMQTT needs from the world, cut at device semantics. Three
// implementations: plat/metal (the kernel), plat/hosted (a Linux process over TAP), plat/sim
// (virtual time). At most 26 functions.
//
// Error contract: nothing here blocks except plat_idle. A function that takes or gives a batch
// returns how many it moved; 0 means "nothing now". Devices that fail are reported once on the
// console and then behave as if silent. Cores: `core` is the caller's own number; a NIC's queue for
// that core is chosen by the platform. Memory handed to a device (transmit parts) must lie in a
// region of plat_memory(). Units: _ns nanoseconds, _len bytes. Times named "now" are monotonic and
// start near 0 at boot.
#pragma once
#include "base/block.h"
#include "base/bytes.h"
#include "base/json.h"

#define PLAT_PAGE 4096u
#define PLAT_NIC_MAX 4u
#define PLAT_REGION_MAX 16u
#define PLAT_TX_PARTS 20u      // headers + 64 KiB in pages + slack
#define PLAT_RXBUF_SIZE 4096u  // data bytes of one receive buffer, device header included
#define PLAT_CORE_MAX 64u

// --- Time

u64 plat_now_ns(void);  // never goes back, on any core

enum plat_clock_quality { CLOCK_UNSET, CLOCK_RTC, CLOCK_HOST, CLOCK_SNTP };
struct plat_wall {
  u64 unix_ns;        // best estimate
  u64 lower_unix_ns;  // certainly not earlier than this (build time, persisted time): notAfter is
                      // judged by it
  enum plat_clock_quality quality;
};
struct plat_wall plat_wall(void);

// --- Memory and stacks

// The memory this program may divide among its pools; called once, at start. Zeroed. Returns the
// number of regions.
u32 plat_memory(struct span regions[PLAT_REGION_MAX]);
// A stack of at least `len` bytes with an unmapped guard page below; at start only. Empty span when
// impossible.
struct span plat_stack(u32 len);
// Saves callee-saved state and stack pointer to *save, continues at `load`. See loop/fiber.h for
// the only caller.
void plat_stack_switch(void **save, void *load);
// Prepares a fresh stack so that switching to the result calls entry(arg), which must never return.
void *plat_stack_prepare(struct span stack, void (*entry)(void *arg), void *arg);

// --- Frames

struct plat_nic {
  u8 mac[6];
  u16 mtu;       // payload of a frame, >= 576
  bool link_up;  // may change: read again each second
  bool tx_csum;  // the device completes TCP and UDP checksums
  bool tx_tso4;  // the device segments TCP over IPv4 (gso)
  bool tx_tso6;
};
u32 plat_nic_count(void);
void plat_nic_info(u32 nic, struct plat_nic *out);

enum plat_rx_csum {
  RX_CSUM_UNKNOWN,  // verify in software
  RX_CSUM_GOOD,     // verified by the device, or never left this host (partial checksum)
};
// One buffer of a received frame. The frame is a chain; only its first buffer's frame_* fields are
// set.
struct rxbuf {
  struct rxbuf *next;  // next buffer of this frame; the owner may reuse the field once it takes the
                       // frame apart
  u8 *data;            // first byte (frame header in the first buffer); the bytes lie in a block of
                       // PLAT_RXBUF_SIZE, aligned to it, whose rest the owner may write behind them
  u32 len;             // bytes here
  u32 frame_len;       // bytes of the whole frame
  u16 frame_gso_size;  // 0, or this is a super-segment of that MSS
  u8 frame_csum;       // enum plat_rx_csum
  u8 nic;
  // The platform's own.
  u8 home;    // core whose queue it is of
  u8 holder;  // core that has it
  u32 id;
  struct rxbuf *after;  // next frame on its way to another core
};
// Takes up to `max` received frames. OWNED: each goes back by plat_rx_release, in any order, buffer
// by buffer or whole.
u32 plat_rx(u32 core, u32 nic, struct rxbuf *frames[], u32 max);
void plat_rx_release(u32 core, struct rxbuf *chain CONSUMES);

enum plat_gso { GSO_NONE, GSO_TCP4, GSO_TCP6 };
struct tx_frame {
  struct bytes part[PLAT_TX_PARTS];  // part[0] holds all headers
  u16 part_count;
  u16 csum_start;  // 0 with csum_offset 0: no offload. The checksum field holds the pseudo-header's
                   // sum.
  u16 csum_offset;  // from csum_start
  u16 gso_size;     // MSS when gso != GSO_NONE
  u8 gso;           // enum plat_gso
  void *token;      // comes back by plat_tx_done when no part is read any more
};
// Queues frames and rings one doorbell. Returns how many were taken, from the front; the rest is
// still the caller's.
u32 plat_tx(u32 core, u32 nic, const struct tx_frame *frames, u32 count);
u32 plat_tx_done(u32 core, u32 nic, void *tokens[], u32 max);

// --- Disks

// The nth disk, NULL when there are no more: each a block device (base/block.h), of the core that
// runs the store. A completion ends that core's plat_idle.
struct block *plat_disk(u32 nth);

// --- Cores and idling

// Cores that run, or will once plat_cores_start is called: 1 to PLAT_CORE_MAX, the same for ever.
// Frames of a TCP connection all come to one core, everything else comes to core 0 (plat/flow.h).
u32 plat_core_count(void);
// Once, by core 0, when all is prepared: each other core calls urmqtt_core(its number).
void plat_cores_start(void);
// Halts this core until a frame, a wake-up or the deadline (absolute; 0 = at once, U64_MAX = none).
void plat_idle(u32 core, u64 deadline_ns);
void plat_wake(u32 core);

// --- Entropy, console, configuration, end

enum plat_entropy { ENTROPY_WEAK, ENTROPY_GOOD };
// Fills `out` with unpredictable bytes (a generator seeded from all sources). The quality is that
// of the seed.
enum plat_entropy plat_random(struct span out);
// Text for serial and screen; "\n" ends a line. Never blocks: what a slow port cannot take is
// dropped and counted.
void plat_console(struct bytes text);
// Bytes typed on any console. Returns how many.
u32 plat_console_read(struct span out);
// Configuration bundles (ustar) found by the platform, most important first; `name` says where it
// came from. Each call reads again what the platform can read again. release (NULL: it stays for
// ever) takes `tar` back when nobody uses it any more.
struct plat_bundle {
  const char *name;
  struct bytes tar;
  void (*release)(struct bytes tar);
};
u32 plat_bundles(struct plat_bundle *out, u32 max);
// Command line of the image or process ("" when none).
const char *plat_command_line(void);

// What this machine is, for diagnostics: members of an object that the caller has opened
// (docs/formats/diagnostics.md). Before plat_memory is divided or after; asks devices nothing.
void plat_facts(struct json_out *out);

// True once the platform was asked to end (a signal, a power button): drain, then plat_end.
bool plat_stop_requested(void);
enum plat_end { END_POWER_OFF, END_RESTART, END_STOP };
NORETURN void plat_end(enum plat_end how);
// Our bug, or a machine we cannot run on. code: "E" and a number that docs/operations.md explains;
// sentence: plain words.
NORETURN void plat_crash(const char *code, const char *sentence);

// The program, called by each platform once it is ready (src/main.c). Returns after a clean stop.
void urmqtt_main(void);
// Of a core other than 0; returns when the core is done.
void urmqtt_core(u32 core);
