// SPDX-License-Identifier: Apache-2.0
// The Interrupt Translation Service (Arm IHI 0069 5): device and event of a message become an LPI,
// by tables in memory that commands of a queue fill. Its caches are taken to be coherent with ours;
// where the ITS says they are not, it is not used.
#include "arch/aarch64/gic.h"

#include "arch/cpu.h"
#include "base/assert.h"

#define CONTROL 0x000u
#define TYPER 0x008u
#define QUEUE_BASE 0x080u
#define QUEUE_WRITE 0x088u
#define QUEUE_READ 0x090u
#define TABLE 0x100u
#define TABLES 8u
#define TYPE_DEVICES 1u
#define TYPE_COLLECTIONS 4u
#define VALID (1ull << 63)
#define CACHED (7ull << 59)
#define SHARED (1ull << 10)
#define SHARED_MASK (3ull << 10)
#define PAGE_FIELD(n) ((u64)(n) << 8)
#define PAGE_LEN 4096u
#define DEVICES_LEN 0x20000u
#define QUEUE_LEN 4096u
#define COMMAND_LEN 32u
#define ID_BITS 14u  // LPIs 8192 to 16383
#define LPI_COUNT 8192u
#define LPI_ENABLED 0xa3u
#define R_CONTROL 0x000u
#define R_TYPER 0x008u
#define R_CONFIG 0x070u
#define R_PENDING 0x078u
#define R_CACHED (7ull << 7)
#define R_PENDING_ZERO (1ull << 62)
#define EVENT_BITS 5u
#define LOOKS 1000000u
static_assert(1u << EVENT_BITS == ITS_EVENTS, "events of a device");

static bool command(struct its *s, u64 a, u64 b, u64 c) {
  u64 *slot = (u64 *)(void *)(s->queue + s->queue_at);
  slot[0] = a;
  slot[1] = b;
  slot[2] = c;
  slot[3] = 0;
  s->queue_at = (s->queue_at + COMMAND_LEN) % QUEUE_LEN;
  cpu_dsb();
  cpu_mmio_write64(s->regs + QUEUE_WRITE, s->queue_at);
  for (u32 i = 0; i < LOOKS; i++) {
    u64 at = cpu_mmio_read64(s->regs + QUEUE_READ);
    if ((at & 1) != 0) {
      return false;  // stalled: it did not like the command
    }
    if (at == s->queue_at) {
      return true;
    }
    cpu_relax();
  }
  return false;
}

static bool give_table(struct its *s, u32 idx, u32 len, its_alloc *alloc) {
  volatile u8 *reg = s->regs + TABLE + 8 * (usize)idx;
  u64 phys = 0;
  if (alloc(len, &phys) == NULL) {
    return false;
  }
  u64 fixed = cpu_mmio_read64(reg) & (7ull << 56 | 31ull << 48);  // type and size of an entry
  for (u32 size = 0; size < 3; size++) {  // pages of 4, 16, 64 KiB: it may know only one
    u64 page = (u64)PAGE_LEN << (2 * size);
    u64 pages = MAX(len / page, 1ull);
    u64 v = VALID | CACHED | fixed | phys | SHARED | PAGE_FIELD(size) | (pages - 1);
    cpu_mmio_write64(reg, v);
    u64 got = cpu_mmio_read64(reg);
    if ((got & PAGE_FIELD(3)) == PAGE_FIELD(size)) {
      return (got & SHARED_MASK) == SHARED;
    }
  }
  return false;
}

static bool give_tables(struct its *s, its_alloc *alloc) {
  for (u32 i = 0; i < TABLES; i++) {
    u64 v = cpu_mmio_read64(s->regs + TABLE + 8 * (usize)i);
    u32 type = (u32)(v >> 56) & 7;
    u32 len = type == TYPE_DEVICES ? DEVICES_LEN : type == TYPE_COLLECTIONS ? 0x10000u : 0;
    if (len != 0 && !give_table(s, i, len, alloc)) {
      return false;
    }
  }
  return true;
}

// LPIs of this core: their configuration, and where they wait.
static bool start_lpis(struct its *s, struct gic *g, its_alloc *alloc) {
  u64 config = 0;
  u64 pending = 0;
  s->config = alloc(0x10000, &config);
  if (s->config == NULL || alloc(0x10000, &pending) == NULL) {
    return false;
  }
  if ((cpu_mmio_read32(g->redist + R_CONTROL) & 1) != 0) {
    return false;  // the firmware's, and cannot be taken back
  }
  cpu_mmio_write64(g->redist + R_CONFIG, config | SHARED | R_CACHED | (ID_BITS - 1));
  cpu_mmio_write64(g->redist + R_PENDING, pending | SHARED | R_CACHED | R_PENDING_ZERO);
  if ((cpu_mmio_read64(g->redist + R_CONFIG) & SHARED_MASK) != SHARED) {
    return false;
  }
  cpu_mmio_write32(g->redist + R_CONTROL, 1);
  cpu_dsb();
  return true;
}

bool its_start(struct its *s, struct gic *g, volatile u8 *regs, its_alloc *alloc) {
  ASSERT(g->version == 3);
  *s = (struct its){.regs = regs};
  u64 typer = cpu_mmio_read64(regs + TYPER);
  bool by_address = (typer >> 19 & 1) != 0;
  s->itt_entry_len = ((u32)(typer >> 4) & 15) + 1;
  s->target =
      by_address ? g->redist_phys : (cpu_mmio_read64(g->redist + R_TYPER) >> 8 & 0xffff) << 16;
  cpu_mmio_write32(regs + CONTROL, 0);
  for (u32 i = 0; i < LOOKS && cpu_mmio_read32(regs + CONTROL) >> 31 == 0; i++) {
    cpu_relax();
  }
  s->queue = alloc(0x10000, &s->queue_phys);
  if (s->queue == NULL || !give_tables(s, alloc) || !start_lpis(s, g, alloc)) {
    return false;
  }
  cpu_mmio_write64(regs + QUEUE_BASE, VALID | CACHED | s->queue_phys | SHARED);
  cpu_mmio_write64(regs + QUEUE_WRITE, 0);
  cpu_mmio_write32(regs + CONTROL, 1);
  return command(s, 0x09, 0, VALID | s->target) &&  // MAPC: collection 0 is this core
         command(s, 0x05, 0, s->target);            // SYNC
}

bool its_map(struct its *s, u32 device, its_alloc *alloc) {
  ASSERT(s->config != NULL);
  u64 itt = 0;
  if (s->lpi_count == LPI_COUNT || alloc(ITS_EVENTS * s->itt_entry_len, &itt) == NULL) {
    return false;
  }
  u64 lpi = GIC_LPI_FIRST + s->lpi_count;
  s->config[s->lpi_count] = LPI_ENABLED;
  s->lpi_count++;
  u64 who = (u64)device << 32;
  return command(s, 0x08 | who, EVENT_BITS - 1, VALID | itt) &&  // MAPD
         command(s, 0x0a | who, lpi << 32, 0) &&                 // MAPTI: event 0, collection 0
         command(s, 0x0c | who, 0, 0) &&                         // INV: read its configuration
         command(s, 0x05, 0, s->target);
}
