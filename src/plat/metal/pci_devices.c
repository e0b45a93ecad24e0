// SPDX-License-Identifier: Apache-2.0
// The machine's PCI devices: found once at start, then read by the network and disk glue.
#include "dev/pci_assign.h"
#include "dev/virtio_net.h"
#include "plat/metal/parts.h"

const struct dma_ops metal_dma_ops = {metal_dma, metal_phys_of, metal_map_mmio, plat_now_ns};
struct pci_dev metal_pci[PCI_DEVICES_MAX];
u32 metal_pci_count;
static struct pci by_ecam;
static struct pci by_ports;
static const struct pci *used;

static bool have_nic(void) {
  bool have = false;
  for (u32 i = 0; i < metal_pci_count; i++) {
    have = have || virtio_net_is(&metal_pci[i]);
  }
  return have;
}

static void scan(struct pci *p, bool every_bus) {
  metal_pci_count = pci_scan(p, every_bus, metal_pci, PCI_DEVICES_MAX);
  used = p;
}

void metal_pci_start(void) {
  struct metal_ecam ecam = {0};
  bool by_memory = metal_ecam(&ecam, 1) == 1 && ecam.segment == 0;
  pci_init(&by_ecam, &metal_dma_ops, by_memory ? ecam.base_phys : 0, by_memory ? ecam.bus_first : 0,
           by_memory ? ecam.bus_last : 255);
  struct pci_windows windows;
  if (metal_pci_windows(&windows)) {
    (void)pci_assign(&by_ecam, &windows);
  }
  scan(&by_ecam, false);
  u32 first = metal_pci_count;
  if (!have_nic()) {  // by ports: nothing to map for 256 buses
    pci_init(&by_ports, &metal_dma_ops, 0, 0, 255);
    scan(&by_ports, true);
  }
  if (metal_pci_count < first) {  // a machine without such ports
    scan(&by_ecam, false);
  }
}

void metal_pci_facts(struct json_out *o) {
  json_field_string(o, "pci_by", bytes_str(used->ecam_phys != 0 ? "memory" : "ports"));
  json_key(o, "pci");
  json_open(o, '[');
  for (u32 i = 0; i < metal_pci_count; i++) {
    const struct pci_dev *d = &metal_pci[i];
    char text[32];
    json_open(o, '{');
    u32 n = fmt_z(text, sizeof text, "%02x:%02x.%x", d->bus, d->dev, d->fn);
    json_field_string(o, "at", bytes_of(text, n));
    n = fmt_z(text, sizeof text, "%04x:%04x", d->vendor, d->device);
    json_field_string(o, "id", bytes_of(text, n));
    n = fmt_z(text, sizeof text, "%02x%02x", d->class_code, d->subclass);
    json_field_string(o, "class", bytes_of(text, n));
    json_close(o, '}');
  }
  json_close(o, ']');
}
