// SPDX-License-Identifier: Apache-2.0
// GICv2 and GICv3. See gic.h.
#include "arch/aarch64/gic.h"

#include "arch/cpu.h"
#include "base/assert.h"

#define D_CONTROL 0x000u
#define D_TYPER 0x004u
#define D_GROUP 0x080u
#define D_ENABLE 0x100u
#define D_DISABLE 0x180u
#define D_PRIORITY 0x400u
#define D_TARGETS 0x800u
#define D_CONFIG 0xc00u
#define D_SOFTWARE 0xf00u
#define D_ROUTER 0x6000u
#define D_CONTROL_V3 0x12u  // affinity routing, group 1
#define D_WRITE_PENDING (1u << 31)
#define C_CONTROL 0x00u
#define C_PRIORITY 0x04u
#define C_ACKNOWLEDGE 0x0cu
#define C_END 0x10u
#define R_TYPER 0x0008u
#define R_WAKER 0x0014u
#define R_PRIVATE 0x10000u  // the second frame: interrupts 0 to 31
#define WAKER_SLEEP (1u << 1)
#define WAKER_ASLEEP (1u << 2)
#define TYPER_VIRTUAL (1u << 1)
#define TYPER_LAST (1u << 4)
#define REDIST_LEN 0x20000u
#define PRIORITY 0xa0u
#define LOOKS 1000000u
#define SGI 0u

#define ICC_SRE "s3_0_c12_c12_5"
#define ICC_CONTROL "s3_0_c12_c12_4"
#define ICC_ENABLE "s3_0_c12_c12_7"
#define ICC_PRIORITY "s3_0_c4_c6_0"
#define ICC_ACKNOWLEDGE "s3_0_c12_c12_0"
#define ICC_END "s3_0_c12_c12_1"
#define ICC_SOFTWARE "s3_0_c12_c11_5"

u32 gic_affinity(void) {
  u64 id = CPU_READ("mpidr_el1");
  return (u32)(id & 0xffffff) | (u32)(id >> 32 & 0xff) << 24;
}

bool gic_redist_is(volatile u8 *redist, u32 affinity, bool *last, u32 *step) {
  u64 typer = cpu_mmio_read64(redist + R_TYPER);
  *last = (typer & TYPER_LAST) != 0;
  *step = (typer & TYPER_VIRTUAL) != 0 ? 2 * REDIST_LEN : REDIST_LEN;
  return (u32)(typer >> 32) == affinity;
}

static void wait_dist(const struct gic *g) {
  for (u32 i = 0; i < LOOKS && (cpu_mmio_read32(g->dist + D_CONTROL) & D_WRITE_PENDING) != 0; i++) {
    cpu_relax();
  }
}

static u32 lines(const struct gic *g) {
  return MIN(32 * ((cpu_mmio_read32(g->dist + D_TYPER) & 31) + 1), 1020u);
}

static void interface_v2(struct gic *g) {
  cpu_mmio_write32(g->cpu + C_PRIORITY, 0xff);
  cpu_mmio_write32(g->cpu + C_CONTROL, 3);
}

static void init_v2(struct gic *g) {
  cpu_mmio_write32(g->dist + D_CONTROL, 0);
  u32 count = lines(g);
  for (u32 i = 0; i < count; i += 32) {
    cpu_mmio_write32(g->dist + D_DISABLE + i / 8, U32_MAX);
  }
  cpu_mmio_write32(g->dist + D_ENABLE, 0xffff);  // software interrupts
  cpu_mmio_write32(g->dist + D_CONTROL, 3);
  interface_v2(g);
}

static bool wake_redist(volatile u8 *redist) {
  u32 waker = cpu_mmio_read32(redist + R_WAKER);
  cpu_mmio_write32(redist + R_WAKER, waker & ~WAKER_SLEEP);
  for (u32 i = 0; i < LOOKS; i++) {
    if ((cpu_mmio_read32(redist + R_WAKER) & WAKER_ASLEEP) == 0) {
      return true;
    }
    cpu_relax();
  }
  return false;
}

static bool registers_v3(void) {
  CPU_WRITE(ICC_SRE, CPU_READ(ICC_SRE) | 1);
  cpu_isb();
  return (CPU_READ(ICC_SRE) & 1) != 0;
}

static bool interface_v3(volatile u8 *redist) {
  if (!wake_redist(redist)) {
    return false;
  }
  volatile u8 *own = redist + R_PRIVATE;
  cpu_mmio_write32(own + D_DISABLE, U32_MAX);
  cpu_mmio_write32(own + D_GROUP, U32_MAX);
  for (u32 i = 0; i < 32; i += 4) {
    cpu_mmio_write32(own + D_PRIORITY + i, PRIORITY * 0x01010101u);
  }
  cpu_mmio_write32(own + D_ENABLE, 1u << SGI);
  CPU_WRITE(ICC_PRIORITY, 0xff);
  CPU_WRITE(ICC_CONTROL, 0);
  CPU_WRITE(ICC_ENABLE, 1);
  cpu_isb();
  return true;
}

static bool init_v3(struct gic *g) {
  if (!registers_v3()) {
    return false;
  }
  cpu_mmio_write32(g->dist + D_CONTROL, 0);
  wait_dist(g);
  u32 count = lines(g);
  for (u32 i = 32; i < count; i += 32) {
    cpu_mmio_write32(g->dist + D_DISABLE + i / 8, U32_MAX);
    cpu_mmio_write32(g->dist + D_GROUP + i / 8, U32_MAX);
  }
  wait_dist(g);
  cpu_mmio_write32(g->dist + D_CONTROL, D_CONTROL_V3);
  wait_dist(g);
  return interface_v3(g->redist);
}

bool gic_init(struct gic *g) {
  ASSERT(g->version == 2 || g->version == 3);
  if (g->version == 3) {
    return init_v3(g);
  }
  init_v2(g);
  return true;
}

bool gic_init_core(struct gic *g, volatile u8 *redist) {
  if (g->version == 3) {
    return registers_v3() && interface_v3(redist);
  }
  cpu_mmio_write32(g->dist + D_DISABLE, U32_MAX);  // of its own 32
  cpu_mmio_write32(g->dist + D_ENABLE, 0xffff);
  interface_v2(g);
  return true;
}

void gic_enable_own(struct gic *g, volatile u8 *redist, u32 intid) {
  ASSERT(intid < 32);
  volatile u8 *frame = g->version == 3 ? redist + R_PRIVATE : g->dist;
  cpu_mmio_write8(frame + D_PRIORITY + intid, PRIORITY);
  cpu_mmio_write32(frame + D_ENABLE, 1u << intid);
}

u32 gic_interface(struct gic *g) {
  return g->version == 2 ? cpu_mmio_read8(g->dist + D_TARGETS) : 0;
}

static void set_edge(volatile u8 *config, u32 intid, bool edge) {
  volatile u8 *at = config + intid / 16 * 4;
  u32 bit = 2u << intid % 16 * 2;
  u32 v = cpu_mmio_read32(at);
  cpu_mmio_write32(at, edge ? v | bit : v & ~bit);
}

void gic_enable(struct gic *g, u32 intid, bool edge) {
  ASSERT(intid < GIC_SPURIOUS);
  volatile u8 *frame = g->version == 3 && intid < 32 ? g->redist + R_PRIVATE : g->dist;
  if (intid >= 32) {
    set_edge(frame + D_CONFIG, intid, edge);  // that of a core's own interrupts is fixed
    if (g->version == 3) {
      cpu_mmio_write64(g->dist + D_ROUTER + 8 * (usize)intid,
                       CPU_READ("mpidr_el1") & 0xff00ffffffull);
    } else {
      // What the first eight registers say is this core's own bit.
      cpu_mmio_write8(g->dist + D_TARGETS + intid, cpu_mmio_read8(g->dist + D_TARGETS));
    }
  }
  cpu_mmio_write8(frame + D_PRIORITY + intid, PRIORITY);
  cpu_mmio_write32(frame + D_ENABLE + intid / 32 * 4, 1u << intid % 32);
}

u32 gic_take(struct gic *g) {
  if (g->version == 3) {
    u32 intid = (u32)CPU_READ(ICC_ACKNOWLEDGE) & 0xffffff;
    cpu_dsb();
    return intid < GIC_SPURIOUS || intid >= GIC_LPI_FIRST ? intid : GIC_SPURIOUS;
  }
  return cpu_mmio_read32(g->cpu + C_ACKNOWLEDGE);
}

void gic_end(struct gic *g, u32 intid) {
  if (g->version == 3) {
    CPU_WRITE(ICC_END, intid);
    cpu_isb();
  } else {
    cpu_mmio_write32(g->cpu + C_END, intid);
  }
}

void gic_wake(struct gic *g, u32 affinity, u32 bit) {
  cpu_dsb();  // what was written before is seen by whoever this wakes
  if (g->version == 2) {
    cpu_mmio_write32(g->dist + D_SOFTWARE, (bit & 0xff) << 16 | SGI);
    return;
  }
  u64 a = affinity;
  CPU_WRITE(ICC_SOFTWARE, (a >> 24 & 0xff) << 48 | (a >> 16 & 0xff) << 32 | (a >> 8 & 0xff) << 16 |
                              (a >> 4 & 15) << 44 | 1ull << (a & 15) | (u64)SGI << 24);
  cpu_isb();
}
