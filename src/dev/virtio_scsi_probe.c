// SPDX-License-Identifier: Apache-2.0
// Finds the disks and CDs behind a virtio-scsi adapter and asks each what it is: INQUIRY with its
// pages of limits, TEST UNIT READY (which takes the attentions of power-on), the capacity, the
// write cache. While starting, one command at a time.
#include "base/fmt.h"
#include "dev/virtio_scsi.h"

#define READY_TRIES 10u
#define PAGE_LIST 0x00
#define PAGE_SERIAL 0x80
#define PAGE_LIMITS 0xb0
#define PAGE_PROVISIONING 0xb2
#define LUNS_SHOWN 31u  // of one target: what fits an answer

// One command, repeated while the LUN has something to announce.
static enum err ask_at(struct virtio_scsi *h, const u8 address[8], const u8 cdb[SCSI_CDB_LEN],
                       u32 len, struct bytes *answer) {
  bool attention = true;
  enum err e = ERR_IO;
  for (u32 tries = 0; tries < READY_TRIES && attention; tries++) {
    e = virtio_scsi_command(h, address, cdb, len, answer, &attention);
    if (e == ERR_TIMEOUT) {
      h->dead = true;
      return e;
    }
  }
  return e;
}

static enum err ask(struct virtio_scsi_lun *l, const u8 cdb[SCSI_CDB_LEN], u32 len,
                    struct bytes *answer) {
  return ask_at(l->host, l->address, cdb, len, answer);
}

static void ask_pages(struct virtio_scsi_lun *l) {
  u8 cdb[SCSI_CDB_LEN];
  struct bytes a;
  bool unmap = false;
  scsi_inquiry(cdb, PAGE_LIST, SCSI_ANSWER_MAX);
  if (ask(l, cdb, SCSI_ANSWER_MAX, &a) != ERR_OK) {
    return;
  }
  bool limits = scsi_has_page(a, PAGE_LIMITS);
  bool provisioning = scsi_has_page(a, PAGE_PROVISIONING);
  if (scsi_has_page(a, PAGE_SERIAL)) {
    scsi_inquiry(cdb, PAGE_SERIAL, SCSI_ANSWER_MAX);
    if (ask(l, cdb, SCSI_ANSWER_MAX, &a) == ERR_OK) {
      block_text(l->facts.serial, scsi_take_serial(a));
    }
  }
  if (limits) {
    scsi_inquiry(cdb, PAGE_LIMITS, 64);
    if (ask(l, cdb, 64, &a) == ERR_OK) {
      scsi_take_limits(a, &l->scsi);
    }
  }
  if (provisioning) {
    scsi_inquiry(cdb, PAGE_PROVISIONING, 64);
    unmap = ask(l, cdb, 64, &a) == ERR_OK && scsi_take_provisioning(a);
  }
  l->scsi.unmap_max = unmap ? l->scsi.unmap_max : 0;
}

static bool ask_size(struct virtio_scsi_lun *l) {
  u8 cdb[SCSI_CDB_LEN];
  struct bytes a;
  scsi_test_ready(cdb);
  (void)ask(l, cdb, 0, &a);
  if (l->scsi.type == SCSI_TYPE_DISK) {
    scsi_capacity16(cdb, 32);
    if (ask(l, cdb, 32, &a) == ERR_OK && scsi_take_capacity16(a, &l->scsi)) {
      return true;
    }
  }
  scsi_capacity10(cdb);
  return ask(l, cdb, 8, &a) == ERR_OK && scsi_take_capacity10(a, &l->scsi);
}

static void ask_cache(struct virtio_scsi_lun *l) {
  u8 cdb[SCSI_CDB_LEN];
  struct bytes a;
  if (l->scsi.type != SCSI_TYPE_DISK) {
    return;
  }
  scsi_mode_caching(cdb, 64);
  if (ask(l, cdb, 64, &a) == ERR_OK) {
    scsi_take_caching(a, &l->scsi);
  }
  scsi_flush(cdb);
  l->facts.flush = ask(l, cdb, 0, &a) == ERR_OK;
}

// True: there is something usable; it is added.
static bool add(struct virtio_scsi *h, u32 target, u32 lun, const char *name) {
  if (h->lun_count == VIRTIO_SCSI_LUNS || h->dead) {
    return false;
  }
  struct virtio_scsi_lun *l = &h->lun[h->lun_count];
  u8 cdb[SCSI_CDB_LEN];
  struct bytes a;
  *l = (struct virtio_scsi_lun){.host = h, .idx = h->lun_count};
  virtio_scsi_address(l->address, target, lun);
  scsi_inquiry(cdb, -1, 36);
  if (ask(l, cdb, 36, &a) != ERR_OK || !scsi_take_inquiry(a, &l->scsi)) {
    return false;
  }
  if (a.len >= 32) {
    block_text(l->facts.model, bytes_sub(a, 16, 16));  // product identification
  }
  ask_pages(l);
  if (!ask_size(l)) {
    return false;  // no medium, or one of a size that no disk has
  }
  ask_cache(l);
  fmt_z(l->facts.name, sizeof l->facts.name, "%s.%u.%u", name, target, lun);
  virtio_scsi_facts(l);
  virtio_scsi_attach(l);
  h->lun_count++;
  return true;
}

static void add_others(struct virtio_scsi *h, u32 target, const char *name) {
  u8 address[8];
  u8 cdb[SCSI_CDB_LEN];
  u8 kept[SCSI_ANSWER_MAX];
  struct bytes a;
  u32 lun = 0;
  virtio_scsi_address(address, target, 0);
  scsi_report_luns(cdb, 8 + 8 * (LUNS_SHOWN - 1));
  if (h->dead || ask_at(h, address, cdb, 8 + 8 * (LUNS_SHOWN - 1), &a) != ERR_OK) {
    return;
  }
  memcpy(kept, a.ptr, a.len);  // the next command's answer comes to the same place
  for (u32 i = 0; scsi_take_lun(bytes_of(kept, a.len), i, &lun); i++) {
    if (lun != 0 && lun < 16384) {
      (void)add(h, target, lun, name);
    }
  }
}

void virtio_scsi_find(struct virtio_scsi *h, u32 target_max, const char *name) {
  for (u32 target = 0; target <= target_max && !h->dead; target++) {
    u8 cdb[SCSI_CDB_LEN];
    struct bytes a;
    u8 address[8];
    virtio_scsi_address(address, target, 0);
    scsi_inquiry(cdb, -1, 36);
    // A target without LUN 0 answers an INQUIRY too; one that is not there does not.
    if (ask_at(h, address, cdb, 36, &a) == ERR_OK) {
      (void)add(h, target, 0, name);
      add_others(h, target, name);
    }
  }
}
