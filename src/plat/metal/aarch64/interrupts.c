// SPDX-License-Identifier: Apache-2.0
// Halting on aarch64: interrupts stay masked in the processor; one that is pending ends WFI all the
// same (Arm DDI 0487 D1.7.2), and is then acknowledged here, so that no handler ever runs.
//
// I1  The timer's line is level: it is turned off before its interrupt is ended.
// I2  The lines of serial port and button are taken by their edges: bytes that nobody reads wake
//     nobody twice.
#include "arch/aarch64/gic.h"

#include "arch/cpu.h"
#include "plat/metal/aarch64/board.h"
#include "plat/metal/machine.h"

#define NS_PER_S 1000000000ull
#define WAIT_MAX_NS (3600 * NS_PER_S)
#define TIMER_ON 1u
#define FRAME_LEN 0x10000u
#define REDIST_SCAN_MAX 512u
#define V2M_TYPER 0x008u
#define V2M_SET 0x040u
#define ITS_SET 0x10040u
#define ALIGN 0x10000u
#define MESSAGES_MAX 64u

static struct gic gic;
static struct its its;
static bool have_its;
static volatile u8 *v2m;
static u32 v2m_first;
static u32 v2m_count;
static u32 v2m_used;
static struct {
  u32 requester;
  struct metal_msi msi;
} messages[MESSAGES_MAX];
static u32 message_count;
static struct {
  volatile u8 *redist;
  u32 affinity;
  u32 bit;  // GICv2
} core_of[PLAT_CORE_MAX];

// The frames of the core with this affinity, mapped; NULL: there are none.
static volatile u8 *find_redist(const struct board *b, u32 affinity, u64 *phys) {
  for (u32 i = 0; i < b->redist_count; i++) {
    u64 at = b->redist[i].start;
    bool last = false;
    for (u32 n = 0; n < REDIST_SCAN_MAX && !last && at + 2 * FRAME_LEN <= b->redist[i].end; n++) {
      volatile u8 *regs = metal_map_mmio(at, 2 * FRAME_LEN);
      u32 step = 0;
      if (regs == NULL) {
        return NULL;
      }
      if (gic_redist_is(regs, affinity, &last, &step)) {
        *phys = at;
        return regs;
      }
      at += step;
    }
  }
  return NULL;
}

static bool find_gic(const struct board *b) {
  gic.version = b->gic_version;
  if (gic.version == 0) {
    return false;
  }
  gic.dist = metal_map_mmio(b->dist_phys, FRAME_LEN);
  if (gic.version == 2) {
    gic.cpu = b->cpu_phys == 0 ? NULL : metal_map_mmio(b->cpu_phys, 0x2000);
    return gic.dist != NULL && gic.cpu != NULL;
  }
  gic.redist = find_redist(b, gic_affinity(), &gic.redist_phys);
  core_of[0].redist = gic.redist;
  return gic.dist != NULL && gic.redist != NULL;
}

static void *tables(u32 len, u64 *phys) {
  struct span s = metal_dma((usize)ALIGN_UP(len, ALIGN) + ALIGN);
  if (s.len == 0) {
    return NULL;
  }
  u64 at = metal_phys_of(s.ptr);
  *phys = ALIGN_UP(at, (u64)ALIGN);
  return s.ptr + (*phys - at);
}

static void find_messages(const struct board *b) {
  if (gic.version == 3 && b->its_phys != 0) {
    volatile u8 *regs = metal_map_mmio(b->its_phys, 2 * FRAME_LEN);
    have_its = regs != NULL && its_start(&its, &gic, regs, tables);
  } else if (b->v2m_phys != 0) {
    v2m = metal_map_mmio(b->v2m_phys, 4096);
    u32 typer = v2m == NULL ? 0 : cpu_mmio_read32(v2m + V2M_TYPER);
    v2m_first = b->v2m_first != 0 ? b->v2m_first : typer >> 16 & 0x3ff;
    v2m_count = b->v2m_count != 0 ? b->v2m_count : typer & 0x3ff;
    if (v2m_first < 32 || v2m_first + v2m_count > GIC_SPURIOUS) {
      v2m_count = 0;
    }
  }
}

static void wake_by(u32 line) {
  if (line >= 32 && line < GIC_SPURIOUS) {
    gic_enable(&gic, line, true);
  }
}

void machine_interrupts_start(void) {
  const struct board *b = &metal_board;
  CPU_WRITE("cntv_ctl_el0", 0);
  if (!find_gic(b) || !gic_init(&gic)) {
    plat_crash("E022",
               "This machine's interrupt controller is none that urMQTT knows (GICv2, GICv3).");
  }
  core_of[0].affinity = gic_affinity();
  core_of[0].bit = gic_interface(&gic);
  gic_enable(&gic, b->timer_irq, false);
  wake_by(b->uart_irq);
  board_button_start();
  wake_by(b->button_irq);
  find_messages(b);
}

void machine_timer_arm(u64 deadline_ns) {
  if (deadline_ns == U64_MAX) {
    CPU_WRITE("cntv_ctl_el0", 0);
    return;
  }
  u64 now = plat_now_ns();
  u64 left = MIN(deadline_ns > now ? deadline_ns - now : 0, WAIT_MAX_NS);
  CPU_WRITE("cntv_cval_el0",
            cpu_cycles_ordered() + cpu_mul_div(left, machine_clock_hz(), NS_PER_S) + 1);
  CPU_WRITE("cntv_ctl_el0", TIMER_ON);
}

void machine_wait(void) {
  cpu_isb();
  cpu_dsb();
  __asm__ volatile("wfi" : : : "memory");
  // GICv2 says beside the line who sent a software interrupt, and wants both back.
  u32 mask = gic.version == 2 ? 0x3ff : U32_MAX;
  u32 intid = gic_take(&gic);
  while ((intid & mask) < GIC_SPURIOUS || (intid & mask) >= GIC_LPI_FIRST) {
    u32 line = intid & mask;
    if (line == metal_board.timer_irq) {
      CPU_WRITE("cntv_ctl_el0", 0);
      cpu_isb();
    }
    gic_end(&gic, intid);
    intid = gic_take(&gic);
  }
}

void machine_wake(u32 core) {
  gic_wake(&gic, core_of[core].affinity, core_of[core].bit);
}

static u32 short_affinity(u64 id) {
  return (u32)(id & 0xffffff) | (u32)(id >> 32 & 0xff) << 24;
}

bool board_core_find(u32 core, u64 affinity) {
  u64 phys = 0;
  core_of[core].affinity = short_affinity(affinity);
  if (gic.version == 3) {
    core_of[core].redist = find_redist(&metal_board, core_of[core].affinity, &phys);
  }
  return gic.version == 2 || core_of[core].redist != NULL;
}

bool board_core_interrupts(u32 core) {
  CPU_WRITE("cntv_ctl_el0", 0);
  if (!gic_init_core(&gic, core_of[core].redist)) {
    return false;
  }
  core_of[core].bit = gic_interface(&gic);
  gic_enable_own(&gic, core_of[core].redist, metal_board.timer_irq);
  return true;
}

static struct metal_msi new_message(u32 requester) {
  if (have_its && its_map(&its, board_device_of(&metal_board, requester), tables)) {
    return (struct metal_msi){.address = metal_board.its_phys + ITS_SET, .data = 0};
  }
  if (v2m_used < v2m_count) {
    u32 line = v2m_first + v2m_used++;
    gic_enable(&gic, line, true);
    return (struct metal_msi){.address = metal_board.v2m_phys + V2M_SET, .data = line};
  }
  return (struct metal_msi){0};
}

struct metal_msi metal_msi(u32 core, u32 requester) {
  ASSERT(core == 0);
  for (u32 i = 0; i < message_count; i++) {
    if (messages[i].requester == requester) {
      return messages[i].msi;
    }
  }
  if (message_count == MESSAGES_MAX) {
    return (struct metal_msi){0};
  }
  messages[message_count].requester = requester;
  messages[message_count].msi = new_message(requester);
  return messages[message_count++].msi;
}

void machine_interrupts_describe(struct writer *w) {
  fmt(w, "interrupts: GICv%u, messages %s, timer by the virtual counter\n", gic.version,
      have_its         ? "by ITS"
      : v2m_count != 0 ? "by GICv2m"
                       : "none");
}
