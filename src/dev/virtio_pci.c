// SPDX-License-Identifier: Apache-2.0
#include "dev/virtio_pci.h"

#include "arch/cpu.h"

#define CAP_VENDOR 0x09u
#define CFG_COMMON 1u
#define CFG_NOTIFY 2u
#define CFG_DEVICE 4u
#define COMMON_LEN 56u

#define STATUS_ACKNOWLEDGE 1u
#define STATUS_DRIVER 2u
#define STATUS_DRIVER_OK 4u
#define STATUS_FEATURES_OK 8u
#define STATUS_FAILED 128u
#define NO_VECTOR 0xffffu
#define RESET_LOOKS 10000000u
#define INDIRECT_SIZE_MAX 1024u  // a larger ring has room without tables

// Common configuration (virtio 1.2 4.1.4.3)
#define C_OFFERED_SELECT 0x00u
#define C_OFFERED 0x04u
#define C_ACCEPTED_SELECT 0x08u
#define C_ACCEPTED 0x0cu
#define C_CONFIG_VECTOR 0x10u
#define C_STATUS 0x14u
#define C_GENERATION 0x15u
#define C_QUEUE 0x16u
#define C_QUEUE_SIZE 0x18u
#define C_QUEUE_VECTOR 0x1au
#define C_QUEUE_ENABLE 0x1cu
#define C_QUEUE_NOTIFY_OFF 0x1eu
#define C_QUEUE_DESC 0x20u
#define C_QUEUE_DRIVER 0x28u
#define C_QUEUE_DEVICE 0x30u

// Legacy registers (virtio 1.2 4.1.4.10)
#define L_OFFERED 0x00u
#define L_ACCEPTED 0x04u
#define L_QUEUE_PAGE 0x08u
#define L_QUEUE_SIZE 0x0cu
#define L_QUEUE 0x0eu
#define L_NOTIFY 0x10u
#define L_STATUS 0x12u
#define L_CONFIG_VECTOR 0x14u
#define L_QUEUE_VECTOR 0x16u
#define L_CONFIG 0x14u
#define L_CONFIG_MSIX 0x18u

static u16 common16(const struct virtio *v, u32 off) {
  return cpu_mmio_read16(v->common + off);
}
static void common16_set(struct virtio *v, u32 off, u16 value) {
  cpu_mmio_write16(v->common + off, value);
}
static u32 common32(const struct virtio *v, u32 off) {
  return cpu_mmio_read32(v->common + off);
}
static void common32_set(struct virtio *v, u32 off, u32 value) {
  cpu_mmio_write32(v->common + off, value);
}
// 64-bit fields are written as two halves (4.1.3.1).
static void common64_set(struct virtio *v, u32 off, u64 value) {
  common32_set(v, off, (u32)value);
  common32_set(v, off + 4, (u32)(value >> 32));
}

static u8 status_get(const struct virtio *v) {
  return v->legacy ? cpu_in8((u16)(v->io + L_STATUS)) : cpu_mmio_read8(v->common + C_STATUS);
}

static void status_set(struct virtio *v, u8 status) {
  if (v->legacy) {
    cpu_out8((u16)(v->io + L_STATUS), status);
  } else {
    cpu_mmio_write8(v->common + C_STATUS, status);
  }
}

// The first usable capability of each kind; windows in memory only (4.1.4.1).
static void find_windows(struct virtio *v) {
  const struct pci_dev *d = &v->pci;
  u32 cap = pci_capability(d, CAP_VENDOR, 0);
  for (u32 i = 0; i < PCI_CAPS_MAX && cap != 0; i++, cap = pci_capability(d, CAP_VENDOR, cap)) {
    u8 kind = pci_read8(d, cap + 3);
    u8 bar = pci_read8(d, cap + 4);
    u32 off = pci_read32(d, cap + 8);
    u32 len = pci_read32(d, cap + 12);
    // Offsets are aligned for the fields behind them (4.1.4.3.1, 4.1.4.4.1, 4.1.4.6).
    bool wanted =
        (kind == CFG_COMMON && v->common == NULL && len >= COMMON_LEN && (off & 3) == 0) ||
        (kind == CFG_NOTIFY && v->notify == NULL && len >= 2 && (off & 1) == 0) ||
        (kind == CFG_DEVICE && v->config == NULL && len != 0 && (off & 3) == 0);
    bool is_io = false;
    u64 base = wanted && bar < 6 ? pci_bar(d, bar, &is_io) : 0;
    if (base == 0 || is_io) {
      continue;
    }
    len = MIN(len, 1u << 20);
    volatile u8 *at = v->ops->map_mmio(base + off, len);
    if (kind == CFG_COMMON) {
      v->common = at;
    } else if (kind == CFG_NOTIFY) {
      v->notify = at;
      v->notify_len = len;
      v->notify_multiplier = pci_read32(d, cap + 16);
    } else {
      v->config = at;
      v->config_len = at == NULL ? 0 : len;
    }
  }
}

static enum err reset(struct virtio *v) {
  status_set(v, 0);
  for (u32 i = 0; i < RESET_LOOKS; i++) {
    if (status_get(v) == 0) {  // until then it may still use its queues (2.4.2)
      return ERR_OK;
    }
    cpu_relax();
  }
  return ERR_TIMEOUT;
}

static u64 read_offered(struct virtio *v) {
  if (v->legacy) {
    return cpu_in32((u16)(v->io + L_OFFERED));
  }
  u64 offered = 0;
  for (u32 word = 0; word < 2; word++) {
    common32_set(v, C_OFFERED_SELECT, word);
    offered |= (u64)common32(v, C_OFFERED) << (32 * word);
  }
  return offered;
}

enum err virtio_open(struct virtio *v, const struct pci_dev *d, const struct dma_ops *ops,
                     u64 *offered) {
  ASSERT(d->vendor == VIRTIO_VENDOR);
  *v = (struct virtio){.pci = *d, .ops = ops};
  pci_enable(d);
  find_windows(v);
  if (v->common == NULL || v->notify == NULL) {
    bool is_io = false;
    u64 port = pci_bar(d, 0, &is_io);
    if (!is_io || port == 0) {
      return ERR_UNSUPPORTED;
    }
    v->legacy = true;
    v->io = (u16)port;
    if (cpu_in32((u16)(v->io + L_OFFERED)) == U32_MAX) {
      return ERR_IO;
    }
  }
  TRY(reset(v));
  status_set(v, STATUS_ACKNOWLEDGE);
  status_set(v, STATUS_ACKNOWLEDGE | STATUS_DRIVER);
  *offered = read_offered(v);
  if (!v->legacy && (*offered & VIRTIO_F_VERSION_1) == 0) {
    virtio_fail(v);
    return ERR_UNSUPPORTED;
  }
  return ERR_OK;
}

// Every interrupt of ours is the same message: entry 0. What does not read back does not work.
static bool config_vector(struct virtio *v) {
  if (v->legacy) {
    cpu_out16((u16)(v->io + L_CONFIG_VECTOR), 0);
    return cpu_in16((u16)(v->io + L_CONFIG_VECTOR)) == 0;
  }
  common16_set(v, C_CONFIG_VECTOR, 0);
  return common16(v, C_CONFIG_VECTOR) == 0;
}

static enum err negotiate(struct virtio *v, u64 features) {
  u8 status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
  if (v->legacy) {
    ASSERT(features <= U32_MAX);
    cpu_out32((u16)(v->io + L_ACCEPTED), (u32)features);
  } else {
    features |= VIRTIO_F_VERSION_1;
    for (u32 word = 0; word < 2; word++) {
      common32_set(v, C_ACCEPTED_SELECT, word);
      common32_set(v, C_ACCEPTED, (u32)(features >> (32 * word)));
    }
    status_set(v, status | STATUS_FEATURES_OK);
    if ((status_get(v) & STATUS_FEATURES_OK) == 0) {
      virtio_fail(v);
      return ERR_UNSUPPORTED;
    }
  }
  v->features = features;
  return ERR_OK;
}

enum err virtio_accept(struct virtio *v, u64 features, u64 msi_address, u32 msi_data) {
  TRY(negotiate(v, features));
  v->msix = pci_msix_enable(&v->pci, msi_address, msi_data);
  v->interrupts = v->msix;
  if (v->msix) {
    (void)config_vector(v);  // what it tells of is looked at each second anyway
  }
  return ERR_OK;
}

enum err virtio_restart(struct virtio *v) {
  TRY(reset(v));
  status_set(v, STATUS_ACKNOWLEDGE);
  status_set(v, STATUS_ACKNOWLEDGE | STATUS_DRIVER);
  u64 offered = read_offered(v);
  if ((v->features & ~offered) != 0) {
    virtio_fail(v);
    return ERR_UNSUPPORTED;
  }
  TRY(negotiate(v, v->features));
  v->interrupts = v->msix;
  if (v->msix) {
    (void)config_vector(v);
  }
  return ERR_OK;
}

static u16 queue_select(struct virtio *v, u32 idx) {
  if (v->legacy) {
    cpu_out16((u16)(v->io + L_QUEUE), (u16)idx);
    return cpu_in16((u16)(v->io + L_QUEUE_SIZE));
  }
  common16_set(v, C_QUEUE, (u16)idx);
  return common16(v, C_QUEUE_SIZE);
}

static bool queue_vector(struct virtio *v) {
  if (v->legacy) {
    cpu_out16((u16)(v->io + L_QUEUE_VECTOR), 0);
    return cpu_in16((u16)(v->io + L_QUEUE_VECTOR)) == 0;
  }
  common16_set(v, C_QUEUE_VECTOR, 0);
  return common16(v, C_QUEUE_VECTOR) == 0;
}

static enum err queue_place(struct virtio *v, u32 idx, u16 size, u64 phys) {
  if (v->legacy) {
    if (phys >> 12 > U32_MAX) {
      return ERR_NO_MEMORY;
    }
    cpu_out32((u16)(v->io + L_QUEUE_PAGE), (u32)(phys >> 12));
    return ERR_OK;
  }
  common16_set(v, C_QUEUE_SIZE, size);
  common64_set(v, C_QUEUE_DESC, phys);
  common64_set(v, C_QUEUE_DRIVER, phys + vq_avail_offset(size));
  common64_set(v, C_QUEUE_DEVICE, phys + vq_used_offset(size));
  u64 notify_off = (u64)common16(v, C_QUEUE_NOTIFY_OFF) * v->notify_multiplier;
  if (notify_off + 2 > v->notify_len || (notify_off & 1) != 0) {
    return ERR_UNSUPPORTED;
  }
  v->notify_off[idx] = (u32)notify_off;
  common16_set(v, C_QUEUE_ENABLE, 1);
  return ERR_OK;
}

enum err virtio_queue(struct virtio *v, u32 idx, u16 size_max, bool indirect, struct vq *out) {
  ASSERT(idx < ARRAY_COUNT(v->notify_off));
  ASSERT(IS_POWER_OF_TWO(size_max));
  u16 size = queue_select(v, idx);
  if (size == 0 || (v->legacy && size > VQ_SIZE_MAX)) {
    return ERR_UNSUPPORTED;
  }
  if (!v->legacy) {
    while (!IS_POWER_OF_TWO(size)) {
      size &= (u16)(size - 1);  // a split queue's size is a power of two (2.7)
    }
    size = MIN(size, size_max);
  }
  if (!IS_POWER_OF_TWO(size)) {
    return ERR_UNSUPPORTED;
  }
  struct span mem = v->ops->alloc(vq_memory_len(size));
  struct span tables = {NULL, 0};
  if (indirect && size <= INDIRECT_SIZE_MAX && (v->features & VIRTIO_F_INDIRECT) != 0) {
    tables = v->ops->alloc((usize)size * VQ_PARTS_MAX * sizeof(struct vq_desc));
  }
  if (mem.len == 0) {
    return ERR_NO_MEMORY;
  }
  vq_init(out, size, mem.ptr, (struct vq_desc *)(void *)tables.ptr,
          tables.len == 0 ? 0 : v->ops->phys_of(tables.ptr),
          (v->features & VIRTIO_F_EVENT_IDX) != 0);
  v->interrupts = v->interrupts && queue_vector(v);
  return queue_place(v, idx, size, v->ops->phys_of(mem.ptr));
}

enum err virtio_queue_again(struct virtio *v, u32 idx, struct vq *q) {
  ASSERT(idx < ARRAY_COUNT(v->notify_off));
  void *memory = (void *)(uptr)q->desc;
  u16 size = queue_select(v, idx);
  if (size < q->size || (v->legacy && size != q->size)) {
    return ERR_UNSUPPORTED;
  }
  memset(memory, 0, vq_memory_len(q->size));
  vq_init(q, q->size, memory, q->indirect, q->indirect_phys, q->event_idx);
  v->interrupts = v->interrupts && queue_vector(v);
  return queue_place(v, idx, q->size, v->ops->phys_of(memory));
}

void virtio_start(struct virtio *v) {
  u8 status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_DRIVER_OK;
  status_set(v, v->legacy ? status : status | STATUS_FEATURES_OK);
}

void virtio_notify(struct virtio *v, u32 idx) {
  ASSERT(idx < ARRAY_COUNT(v->notify_off));
  if (v->legacy) {
    cpu_out16((u16)(v->io + L_NOTIFY), (u16)idx);
  } else {
    cpu_mmio_write16(v->notify + v->notify_off[idx], (u16)idx);
  }
}

void virtio_fail(struct virtio *v) {
  status_set(v, status_get(v) | STATUS_FAILED);  // no bit is taken back (2.1.1)
}

bool virtio_stop(struct virtio *v) {
  return reset(v) == ERR_OK;
}

u8 virtio_config_generation(const struct virtio *v) {
  return v->legacy ? 0 : cpu_mmio_read8(v->common + C_GENERATION);
}

u8 virtio_config8(const struct virtio *v, u32 off) {
  if (v->legacy) {
    return cpu_in8((u16)(v->io + (v->msix ? L_CONFIG_MSIX : L_CONFIG) + off));
  }
  return off < v->config_len ? cpu_mmio_read8(v->config + off) : 0;
}

u16 virtio_config16(const struct virtio *v, u32 off) {
  if (v->legacy) {
    return cpu_in16((u16)(v->io + (v->msix ? L_CONFIG_MSIX : L_CONFIG) + off));
  }
  return off + 2 <= v->config_len ? cpu_mmio_read16(v->config + off) : 0;
}

u32 virtio_config32(const struct virtio *v, u32 off) {
  if (v->legacy) {
    return cpu_in32((u16)(v->io + (v->msix ? L_CONFIG_MSIX : L_CONFIG) + off));
  }
  return off + 4 <= v->config_len ? cpu_mmio_read32(v->config + off) : 0;
}
