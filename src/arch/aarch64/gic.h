// SPDX-License-Identifier: Apache-2.0
// The interrupt controller, the boot core's part and each core's: GICv2 (Arm IHI 0048), GICv3 and
// its ITS (IHI 0069). Interrupts are never taken as exceptions: the core halts with them masked, a
// pending one ends the halt, and gic_take acknowledges what there is.
#pragma once
#include "base/cc.h"

#define GIC_SPURIOUS 1020u  // and above
#define GIC_LPI_FIRST 8192u
#define ITS_EVENTS 32u

struct gic {
  u32 version;          // 2 or 3
  volatile u8 *dist;    // 64 KiB
  volatile u8 *cpu;     // GICv2: 8 KiB
  volatile u8 *redist;  // GICv3: this core's two frames of 64 KiB
  u64 redist_phys;
};

// The core's affinity as GICR_TYPER and the device tree write it.
u32 gic_affinity(void);
// Is the frame at `redist` (mapped) of the core with this affinity? *last: it is the last of its
// region; *step: to the next.
bool gic_redist_is(volatile u8 *redist, u32 affinity, bool *last, u32 *step);
// Everything off, the core's interface on. False: GICv3 without its system registers.
bool gic_init(struct gic *g);
// Lets one interrupt through to this core. intid below 1020.
void gic_enable(struct gic *g, u32 intid, bool edge);
// Acknowledges one pending interrupt and ends it; GIC_SPURIOUS or above: there is none.
u32 gic_take(struct gic *g);
// What gic_take answered has been seen to.
void gic_end(struct gic *g, u32 intid);
// On another core, after gic_init on the first: its interface on. redist: GICv3's frames of it.
bool gic_init_core(struct gic *g, volatile u8 *redist);
// Lets one interrupt of this core's own (below 32) through.
void gic_enable_own(struct gic *g, volatile u8 *redist, u32 intid);
u32 gic_interface(struct gic *g);  // GICv2: this core's bit among all
// Ends a halt of the core with this affinity (GICv3) or bit (GICv2).
void gic_wake(struct gic *g, u32 affinity, u32 bit);

// --- ITS: messages of devices become LPIs.
struct its {
  volatile u8 *regs;  // 128 KiB
  u8 *queue;          // one page of commands
  u64 queue_phys;
  u8 *config;  // of LPIs, a byte each
  u64 target;  // of this core, as commands name it
  u32 queue_at;
  u32 itt_entry_len;
  u32 lpi_count;  // given out
};

// Memory for the tables: zeroed, contiguous, aligned to 64 KiB; *phys is its physical address.
// NULL: none.
typedef void *its_alloc(u32 len, u64 *phys);
// False when the ITS does not take what it is given; messages must then not be used.
bool its_start(struct its *s, struct gic *g, volatile u8 *regs, its_alloc *alloc);
// Event 0 of `device` becomes an LPI of its own. False: no place left, or the ITS does not answer.
bool its_map(struct its *s, u32 device, its_alloc *alloc);
