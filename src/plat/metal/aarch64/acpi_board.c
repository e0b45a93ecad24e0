// SPDX-License-Identifier: Apache-2.0
// The machine by ACPI's static tables (ACPI 6.4 5.2): MADT (GIC), GTDT (timer), SPCR (serial port),
// FADT (PSCI), MCFG (PCI), IORT (how an ITS sees a requester; Arm DEN 0049). The battery clock
// stands in AML only: the EFI stub has asked the firmware.
#include "plat/metal/aarch64/board.h"
#include "plat/metal/acpi.h"

#define MADT_GICC 0x0bu
#define MADT_GICD 0x0cu
#define MADT_FRAME 0x0du
#define MADT_GICR 0x0eu
#define MADT_ITS 0x0fu
#define SPCR_PL011 3u
#define SPCR_SBSA_32 0x0du
#define SPCR_SBSA 0x0eu
#define REDIST_LEN 0x20000u
#define NODE_ITS 0u
#define NODE_ROOT_COMPLEX 2u
#define NODE_LEN_MIN 16u

static void add_redist(struct board *b, u64 start, u64 len) {
  if (b->redist_count < BOARD_REDIST_MAX && start != 0) {
    b->redist[b->redist_count++] = (struct boot_range){start, start + len};
  }
}

static void read_gic(struct board *b, const u8 *p, usize len) {
  if (p[0] == MADT_GICC && len >= 76) {
    if ((load_le32(p + 12) & 1) != 0) {
      board_add_cpu(b, load_le64(p + 68));
    }
    b->cpu_phys = load_le64(p + 32);
    if (load_le64(p + 60) != 0) {
      add_redist(b, load_le64(p + 60), REDIST_LEN);
    }
  } else if (p[0] == MADT_GICD && len >= 24) {
    b->dist_phys = load_le64(p + 8);
    b->gic_version = p[20];
  } else if (p[0] == MADT_FRAME && len >= 24) {
    bool told = (load_le32(p + 16) & 1) != 0;
    b->v2m_phys = load_le64(p + 8);
    b->v2m_count = told ? load_le16(p + 20) : 0;
    b->v2m_first = told ? load_le16(p + 22) : 0;
  } else if (p[0] == MADT_GICR && len >= 16) {
    add_redist(b, load_le64(p + 4), load_le32(p + 12));
  } else if (p[0] == MADT_ITS && len >= 16 && b->its_phys == 0) {
    b->its_phys = load_le64(p + 8);
  }
}

static void read_madt(struct board *b, struct bytes t) {
  for (usize at = 44; at + 2 <= t.len;) {
    usize len = t.ptr[at + 1];
    if (len < 2 || len > t.len - at) {
      break;
    }
    read_gic(b, t.ptr + at, len);
    at += len;
  }
  if (b->dist_phys == 0) {
    b->gic_version = 0;
  } else if (b->gic_version < 2 || b->gic_version > 3) {
    b->gic_version = b->redist_count != 0 ? 3 : 2;  // 4 is 3 with more; 0 is "look yourself"
  }
}

static void read_spcr(struct board *b, struct bytes t) {
  if (t.len < 58) {
    return;
  }
  const u8 *p = t.ptr;
  bool known = p[36] == SPCR_PL011 || p[36] == SPCR_SBSA_32 || p[36] == SPCR_SBSA;
  if (!known || p[40] != 0) {
    return;  // another kind of port, or not in memory
  }
  b->uart_phys = load_le64(p + 44);
  b->uart_32 = p[36] == SPCR_SBSA_32 || p[43] == 3;
  b->uart_irq = (p[52] & 8) != 0 ? load_le32(p + 54) : 0;
}

// The mappings of one IORT node whose output is a group of ITSs. One that leads through an SMMU is
// followed no further: the SMMU passes requesters on as they come.
static void read_root_complex(struct board *b, struct bytes node) {
  u32 count = load_le32(node.ptr + 8);
  u32 off = load_le32(node.ptr + 12);
  for (u32 i = 0; i < count && b->map_count < BOARD_MAP_MAX; i++) {
    u64 at = off + 20 * (u64)i;
    if (at + 20 > node.len) {
      return;
    }
    const u8 *p = node.ptr + at;
    b->map[b->map_count++] =
        (struct board_map){load_le32(p), load_le32(p + 4) + 1, load_le32(p + 8)};
  }
}

static void read_iort(struct board *b, struct bytes t) {
  if (t.len < 48) {
    return;
  }
  u32 count = load_le32(t.ptr + 36);
  u64 at = load_le32(t.ptr + 40);
  for (u32 i = 0; i < count && at + NODE_LEN_MIN <= t.len; i++) {
    u32 len = load_le16(t.ptr + at + 1);
    if (len < NODE_LEN_MIN || len > t.len - at) {
      return;
    }
    if (t.ptr[at] == NODE_ROOT_COMPLEX) {
      read_root_complex(b, bytes_sub(t, at, len));
    }
    at += len;
  }
}

bool board_from_acpi(struct board *b) {
  read_madt(b, acpi_table("APIC"));
  read_spcr(b, acpi_table("SPCR"));
  read_iort(b, acpi_table("IORT"));
  struct bytes t = acpi_table("GTDT");
  b->timer_irq = t.len >= 72 ? load_le32(t.ptr + 64) : 0;
  t = acpi_table("FACP");
  u32 flags = t.len >= 131 ? load_le16(t.ptr + 129) : 0;
  b->has_psci = (flags & 1) != 0;
  b->psci_by_smc = (flags & 2) == 0;
  b->ecam_count = acpi_ecam(b->ecam, ARRAY_COUNT(b->ecam));
  b->source = "ACPI";
  return b->gic_version != 0;
}
